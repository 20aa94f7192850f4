//! What a running Strata answers, as a person reads it.
//!
//! **Owns** the text. **Does not own** any number: an answer is JSON, and what it does not hold is left
//! out.

use serde::Deserialize;
use serde_json::Value;
use strata_host::run::{EvictionReport, UsageReport};
use strata_linux::units::Bytes;
use strata_sim::table::aligned;

use strata_sim::table::grouped as count;

use super::{Lines, PAGE_BYTES, above_budget, evicted, pages, seconds, working_set};

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn size(value: &Value) -> Bytes {
    Bytes(number(value))
}

/// `strata ctl status`.
pub(crate) fn status(answer: &Value) -> String {
    let usage = &answer["usage"];
    let target = answer["target"].as_str().unwrap_or_default();
    let id = answer["id"].as_str().unwrap_or("-");
    let mut lines = Lines(format!(
        "run {id}: {target}, for {}\n",
        seconds(number(&answer["elapsed_ms"]))
    ));
    let states = [("is_paused", "paused"), ("is_dry_run", "dry run")];
    let states = states.iter().filter(|(field, _)| answer[*field] == true);
    let states: Vec<&str> = states.map(|(_, word)| *word).collect();
    if !states.is_empty() {
        lines.add("state", states.join(", "));
    }
    if !answer["usage_bytes"].is_null() {
        let of = format_args!(
            "{} of {} ({}); peak {}",
            size(&answer["usage_bytes"]),
            size(&usage["budget_bytes"]),
            usage["measured_by"].as_str().unwrap_or_default(),
            size(&usage["peak_bytes"])
        )
        .to_string();
        lines.add("usage", of);
    }
    if !answer["limit_bytes"].is_null() {
        lines.add("hard limit", size(&answer["limit_bytes"]));
    }
    let kept = UsageReport::deserialize(usage).unwrap_or_default();
    above_budget(&mut lines, &kept);
    working_set(&mut lines, answer["working_set_bytes"].as_u64());
    let eviction = EvictionReport::deserialize(&answer["eviction"]).ok();
    let nr_back = eviction.as_ref().map_or(0, |told| told.nr_refaulted_pages);
    for idle in answer["idle"].as_array().into_iter().flatten() {
        let bytes = number(&idle["bytes"]);
        if bytes > 0 {
            let for_seconds = number(&idle["at_least_seconds"]);
            // The kernel's reclaim looks for idle pages, too, and clears the accessed bits of all.
            let unsure = match nr_back * PAGE_BYTES > bytes {
                true => "; less, as far as it came back meanwhile",
                false => "",
            };
            let size = Bytes(bytes);
            lines.add(
                "idle",
                format_args!("{size} for {for_seconds} s or more before the last walk{unsure}"),
            );
        }
    }
    if let Some(eviction) = eviction {
        evicted(&mut lines, &eviction);
        let back = pages(eviction.nr_refaulted_pages);
        lines.add("refaulted", format_args!("{back} came back"));
    }
    let saved = &answer["saved"];
    let (cpu, own) = (
        seconds(number(&answer["strata_cpu_ms"])),
        size(&saved["strata_bytes"]),
    );
    let nr_walks = count(number(&answer["walks"]["nr_walks"]));
    lines.add("strata", format_args!("{cpu} CPU, {own}, {nr_walks} walks"));
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        lines.add("warning", warning.as_str().unwrap_or_default());
    }
    lines.0
}

/// `strata ctl groups`.
pub(crate) fn groups(answer: &Value) -> String {
    let head = "memcg|     usage|    budget|     limit|processes|<path";
    let groups = answer["groups"].as_array().into_iter().flatten();
    let rows = groups.map(|group| {
        let told = |field: &str| match &group[field] {
            Value::Null => "-".to_owned(),
            bytes => size(bytes).to_string(),
        };
        [
            number(&group["memcg"]).to_string(),
            told("usage_bytes"),
            told("budget_bytes"),
            told("limit_bytes"),
            group["pids"].as_array().map_or(0, Vec::len).to_string(),
            group["path"].as_str().unwrap_or_default().to_owned(),
        ]
    });
    aligned(head, rows)
}

/// `strata ctl evict`, `'+ ...'`, `'- ...'`.
pub(crate) fn order(answer: &Value) -> String {
    let bytes = |field: &str| Bytes(number(&answer[field]) * PAGE_BYTES);
    let (applied, tried) = (bytes("nr_applied_pages"), bytes("nr_tried_pages"));
    let nr_walks = number(&answer["nr_walks"]);
    let walks = if nr_walks == 1 { "walk" } else { "walks" };
    format!("{applied} evicted of {tried} tried; {nr_walks} {walks}\n")
}

/// `strata ctl set-budget`.
pub(crate) fn budget(answer: &Value) -> String {
    let limit = match &answer["limit_bytes"] {
        Value::Null => String::new(),
        bytes => format!("; the kernel's limit stands at {} now", size(bytes)),
    };
    format!("the budget is {}{limit}\n", size(&answer["budget_bytes"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_known_is_told_with_its_unit_and_the_rest_left_out() {
        let text = status(&json!({
            "id": "42", "target": "./job", "elapsed_ms": 61_000, "is_paused": true,
            "usage_bytes": 100 << 20, "limit_bytes": null,
            "usage": {"budget_bytes": 200 << 20, "peak_bytes": 150 << 20, "measured_by": "rss",
                      "above_budget_ms": 0, "observed_ms": 1000},
            "idle": [{"at_least_seconds": 10, "bytes": 1 << 20}, {"at_least_seconds": 60, "bytes": 0}],
            "strata_cpu_ms": 10, "saved": {"strata_bytes": 8 << 20}, "warnings": ["look out"],
        }));
        assert!(text.starts_with("run 42: ./job, for "), "{text}");
        for part in [
            "state         paused\n",
            "usage         100 MiB of 200 MiB (rss); peak 150 MiB\n",
            "idle          1 MiB for 10 s or more before the last walk\n",
            "warning       look out\n",
        ] {
            assert!(text.contains(part), "{part} in:\n{text}");
        }
        for absent in ["hard limit", "60 s or more", "evicted", "working set"] {
            assert!(!text.contains(absent), "{absent} in:\n{text}");
        }
    }

    #[test]
    fn what_was_evicted_is_told_in_all_and_then_by_who_chose_it() {
        let text = status(&json!({
            "eviction": {"nr_applied_pages": 256, "nr_tried_pages": 512, "nr_kernel_chosen_pages": 1024,
                         "nr_refaulted_pages": 2},
            "idle": [{"at_least_seconds": 10, "bytes": 4096}, {"at_least_seconds": 60, "bytes": 8192}],
        }));
        let told = "  evicted       5 MiB (1,280 pages) in all\n                \
                    1 MiB (256 pages) chosen by Strata, of 512 that it tried\n                \
                    4 MiB (1,024 pages) chosen by the kernel\n  \
                    refaulted     8 KiB (2 pages) came back\n";
        assert!(text.contains(told), "{text}");
        // More came back than the first is.
        let unsure =
            "4 KiB for 10 s or more before the last walk; less, as far as it came back meanwhile\n";
        assert!(text.contains(unsure), "{text}");
        assert!(
            text.contains("8 KiB for 60 s or more before the last walk\n"),
            "{text}"
        );
    }

    #[test]
    fn an_order_tells_what_was_tried_and_what_took_effect() {
        let answer = json!({"nr_commands": 2, "nr_walks": 1, "nr_tried_pages": 512, "nr_applied_pages": 256});
        assert_eq!(order(&answer), "1 MiB evicted of 2 MiB tried; 1 walk\n");
    }
}
