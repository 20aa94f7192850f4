//! The tunables as a whole: defaults are in range, nothing else is taken, and docs/develop/tunables.md lists them.
//!
//! `STRATA_BLESS=1 cargo test -p strata-control --test tunables` writes the document.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use strata_control::{Config, Tunable, Tunables};

const DOCUMENT: &str = "../../docs/develop/tunables.md";

/// What stands above the table.
const HEAD: &str = "\
# Tunables of the control loop

The numbers that the control loop (`crates/control`) judges by. Each is a field of a `Config`, declared beside the code
that uses it, where its comment says why. `strata sim --steered --set watermarks.mark_share=32` tries another value in the
simulator; one out of its range is refused. Where the unit is `1/n` of something, the value is n.

This table is generated: `STRATA_BLESS=1 cargo test -p strata-control --test tunables` writes it.

| Name | Unit | Range | Default | What |
|---|---|---|---|---|
";

/// With the names of large sizes, and thousands apart.
fn shown(unit: &str, value: f64) -> String {
    let sizes = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let is_size = unit.starts_with("bytes") && value > 0.0;
    let whole = sizes
        .into_iter()
        .find(|(size, _)| is_size && value % *size as f64 == 0.0);
    if let Some((size, name)) = whole {
        return format!("{} {name}", value / size as f64);
    }
    if value.fract() != 0.0 {
        let text = format!("{value:.4}");
        return text.trim_end_matches('0').to_owned();
    }
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    for of in Config::default().tunables() {
        let (least, most) = (shown(of.unit, of.range.0), shown(of.unit, of.range.1));
        let default = shown(of.unit, of.default);
        let Tunable {
            module,
            name,
            unit,
            why,
            ..
        } = of;
        // The reason stands beside the code.
        let ends = [": ", ". ", ", because ", ", so that "].map(|end| why.find(end));
        let end = ends.into_iter().flatten().min().unwrap_or(why.len());
        let what = why[..end].trim_end_matches('.');
        writeln!(
            text,
            "| `{module}.{name}` | {unit} | {least} to {most} | {default} | {what} |"
        )
        .expect("a string");
    }
    text
}

/// The configuration with one number changed, as somebody would write it down.
fn with(of: &Tunable, value: Value) -> Result<Config, serde_json::Error> {
    let fields = Map::from_iter([(of.name.to_owned(), value)]);
    let modules = of.module.rsplit('.');
    let whole = modules.fold(
        Value::Object(fields),
        |below, module| json!({ module: below }),
    );
    serde_json::from_value(whole)
}

/// The number in the form that its field has.
fn number(of: &Tunable, value: f64) -> Value {
    let path = format!("/{}/{}", of.module.replace('.', "/"), of.name);
    let default = serde_json::to_value(Config::default()).expect("numbers");
    match default
        .pointer(&path)
        .expect("where its module and name say")
        .is_f64()
    {
        true => json!(value),
        false => json!(value.round() as u64),
    }
}

#[test]
fn the_document_lists_them_all() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
    let text = document();
    if std::env::var_os("STRATA_BLESS").is_some() {
        fs::write(&path, &text).expect("writable");
    }
    let kept = fs::read_to_string(&path).expect("docs/develop/tunables.md");
    assert!(
        kept == text,
        "docs/develop/tunables.md is not what the code says; \
         STRATA_BLESS=1 cargo test -p strata-control --test tunables writes it"
    );
}

#[test]
fn every_default_is_in_its_range() {
    assert_eq!(Config::default().validate(), Ok(()));
    for of in Config::default().tunables() {
        assert!(
            of.range.0 < of.range.1,
            "{}.{}: nothing to choose",
            of.module,
            of.name
        );
        assert_eq!(of.value, of.default);
    }
}

#[test]
fn every_tunable_says_what_it_is_in_whole_sentences() {
    let mut names = BTreeSet::new();
    for of in Config::default().tunables() {
        let name = format!("{}.{}", of.module, of.name);
        assert!(!of.unit.is_empty(), "{name} has no unit");
        let is_sentence = of.why.starts_with(char::is_uppercase) && of.why.ends_with('.');
        assert!(is_sentence && !of.why.contains(".."), "{name}: {}", of.why);
        assert!(
            !of.why.contains("See ") && !of.why.contains('|'),
            "{name}: {}",
            of.why
        );
        assert!(names.insert(name.clone()), "{name} is there twice");
    }
}

#[test]
fn a_value_out_of_range_is_refused_by_module_name_value_and_range() {
    for of in Config::default().tunables() {
        let (least, most) = of.range;
        let step = if number(&of, 0.0).is_f64() { 0.5 } else { 1.0 };
        for value in [least - step, most + step]
            .into_iter()
            .filter(|value| *value >= 0.0)
        {
            let text = match with(&of, number(&of, value)) {
                Ok(config) => config.validate().expect_err("out of range").to_string(),
                // A field of a byte.
                Err(error) => {
                    assert!(value > 255.0, "{error}");
                    continue;
                }
            };
            for part in [
                format!("{}.{} is {value}", of.module, of.name),
                format!("{least} to {most} ({})", of.unit),
            ] {
                assert!(text.contains(&part), "{text}: {part}");
            }
        }
        for value in [least, most] {
            let config = with(&of, number(&of, value)).expect("a number");
            assert_eq!(
                config.validate(),
                Ok(()),
                "{}.{} {value}",
                of.module,
                of.name
            );
        }
    }
}

#[test]
fn what_is_no_number_and_names_that_do_not_exist_are_refused() {
    let mut config = Config::default();
    config.cpu.contention.free_begins = f64::NAN;
    assert!(config.validate().is_err());
    for text in [r#"{"pressure": {"wait_ms": 5}}"#, r#"{"presure": {}}"#] {
        assert!(serde_json::from_str::<Config>(text).is_err(), "{text}");
    }
    let config: Config = serde_json::from_str(r#"{"pressure": {"wait_ms_min": 7}}"#).expect("one");
    assert_eq!(config.pressure.wait_ms_min, 7);
    assert_eq!(config.walks, Config::default().walks);
}

/// `clamp` and pauses that double need it.
#[test]
fn a_least_value_can_never_be_more_than_the_most() {
    let all = Config::default().tunables();
    let mut nr_pairs = 0;
    for least in &all {
        let Some(base) = least.name.strip_suffix("_min") else {
            continue;
        };
        let is_most = |of: &&Tunable| of.module == least.module && of.name == format!("{base}_max");
        if let Some(most) = all.iter().find(is_most) {
            nr_pairs += 1;
            assert!(least.range.1 <= most.range.0, "{}.{base}", least.module);
        }
    }
    assert!(nr_pairs >= 2, "{nr_pairs}");
}
