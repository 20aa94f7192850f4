//! The curve of budgets and slowdowns: made for a recording in a bounded time, and drawn.
//!
//! **Owns** what is asked where nothing is said, how much of a recording is replayed for a page, and the picture. **Does not own** the plan (`strata_sim::plan`).

use std::fmt::Write;

use serde_json::Value;
use strata_host::run::AUTO_PAGEOUT_PAGES_PER_S;
use strata_linux::units::Bytes;
use strata_sim::heat::RecordingHeat;
use strata_sim::plan::{Holding, Question, plan_bytes, plan_sample};
use strata_sim::plot::svg::Point as Place;
use strata_sim::{CostModel, Workload};
use strata_trace::recording::RecordingInfo;

use super::chart::{self, share};
use super::page::{Cell, Page, escaped};
use super::value::{bytes_at, number_at};
use crate::progress::Bar;
use crate::source::SourceArgs;

/// Accesses that are replayed at most: a plan takes some eighty replays.
const ACCESSES_MAX: u64 = 600_000;
/// Fewer pages than this say nothing of the others.
const SAMPLE_PAGES_MIN: u64 = 1000;
/// The picture ends at so many times the slowdown that was asked for.
const LIMITS_SHOWN: f64 = 5.0;

/// The policy that stands for a kernel with the classic LRU lists.
pub(crate) const KERNEL_POLICY: &str = "two-list";
/// Slowdown that is acceptable where nothing else is said, which the help calls 3%.
const SLOWDOWN_MILLIONTHS: u64 = 30_000;

/// What is known of the budgets of a recording.
#[derive(Debug)]
pub(super) enum Planned {
    /// The answer of `strata plan` as JSON, for one page in so many.
    Known { plan: Value, one_in: u32 },
    /// Why there is none.
    None(String),
}

/// What is asked of a recording where nothing else is said.
pub(crate) fn question(info: &RecordingInfo) -> Question {
    Question {
        policies: KERNEL_POLICY.parse().into_iter().collect(),
        pageout_rate: AUTO_PAGEOUT_PAGES_PER_S,
        holding: Holding::STRATA,
        budgets: Vec::new(),
        slowdown_millionths: SLOWDOWN_MILLIONTHS,
        cost: CostModel::default(),
        busy_us: info.cpu_us,
        duration_us: info.duration_us(),
        interval_us: info.duration_us() / info.nr_walks.max(1),
    }
}

/// Plans for a recording; where it is long, for a sample of its pages.
pub(super) fn of_recording(
    source: &SourceArgs,
    name: &str,
    heat: &RecordingHeat,
    info: &RecordingInfo,
) -> anyhow::Result<Planned> {
    if info.nr_walks == 0 || info.cpu_us == 0 {
        let why = "The recording holds no interval in which the processes ran, so nothing can be said of a slowdown.";
        return Ok(Planned::None(why.to_owned()));
    }
    let shift = (0..31).find(|shift| heat.nr_accesses >> shift <= ACCESSES_MAX);
    let shift = shift.unwrap_or(31);
    let nr_pages: u64 = heat.bands.iter().map(|band| band.nr_most).sum();
    if shift > 0 && nr_pages >> shift < SAMPLE_PAGES_MIN {
        let why = format!(
            "Too many accesses of too few pages for a quick answer: ask strata plan {name}"
        );
        return Ok(Planned::None(why));
    }
    let mut opened = source.open(name)?;
    opened.reader.thin(shift);
    let workload = Workload::read_within(name, opened.reader.as_mut(), opened.bound.0)?;
    drop(opened);
    let jobs = source.bound()?.jobs(&workload, plan_bytes(&workload), 0)?;
    let question = question(info);
    let nr_requests = question.nr_replays_max() * u64::from(workload.nr_requests());
    let bar = Bar::requests(name, nr_requests);
    let plan = plan_sample(&workload, &question, 1 << shift, &jobs, &bar)?;
    bar.finish();
    Ok(Planned::Known {
        plan: serde_json::to_value(plan)?,
        one_in: 1 << shift,
    })
}

/// Draws it, and tells it as a table.
pub(super) fn show(page: &mut Page, planned: &Planned) {
    match planned {
        Planned::None(why) => page.say(why),
        Planned::Known { plan, one_in } => {
            if *one_in > 1 {
                page.say(&format!(
                    "This is of a sample, one page in {one_in}, as the recording is long. strata plan replays all of it."
                ));
            }
            curve(page, plan);
        }
    }
}

/// A point of the curve: budget in bytes; slowdown expected, lowest, highest.
type Point = (u64, [f64; 3]);

fn points(plan: &Value) -> Vec<Point> {
    let points = plan["points"].as_array().map_or(&[][..], Vec::as_slice);
    let slowdown = |point: &Value, which: &str| {
        number_at(point, &["slowdown", which])
            .unwrap_or(0.0)
            .max(0.0)
    };
    let of = |point: &Value| {
        let slowdowns = ["expected", "lowest", "highest"].map(|which| slowdown(point, which));
        Some((bytes_at(point, &["memory_bytes"])?, slowdowns))
    };
    let mut points: Vec<Point> = points.iter().filter_map(of).collect();
    points.sort_by_key(|(bytes, _)| *bytes);
    points
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The answer of `strata plan`, as JSON.
pub(super) fn curve(page: &mut Page, plan: &Value) {
    let points = points(plan);
    let limit = number_at(plan, &["slowdown_limit"]).unwrap_or(0.0);
    let safe = bytes_at(plan, &["budget_bytes", "highest"]);
    let likely = bytes_at(plan, &["budget_bytes", "expected"]);
    let size = |bytes: Option<u64>| {
        bytes.map_or_else(|| "none".to_owned(), |bytes| Bytes(bytes).to_string())
    };
    page.say(&format!(
        "Slowdown of at most {}, in the worst case too: {}. Likely enough: {}. The slowdown is what pages that come back cost, \
         as a share of the CPU time used.",
        percent(limit),
        size(safe),
        size(likely)
    ));
    let x_max = points
        .iter()
        .map(|(bytes, _)| *bytes)
        .max()
        .unwrap_or(1)
        .max(1);
    let at_likely = points.iter().find(|(bytes, _)| Some(*bytes) == likely);
    let worst = at_likely.map_or(0.0, |(_, [_, _, highest])| *highest);
    let y_max = (limit * LIMITS_SHOWN).max(worst * 1.1).max(0.05);
    // Both in thousandths of the picture.
    let x = |bytes: u64| share(bytes, x_max, 1000);
    let y = |slowdown: f64| 1000 - ((slowdown / y_max).min(1.0) * 1000.0) as u64;
    let line = |which: usize| -> Vec<Place> {
        let of = points.iter();
        of.map(|(bytes, of)| (x(*bytes) as i64 * 10, y(of[which]) as i64 * 10))
            .collect()
    };
    let mut around = line(2);
    around.extend(line(1).into_iter().rev());
    let mut svg = chart::picture(1000, 1000, "");
    svg.area(&around, "class=span");
    svg.polyline(&line(0), "class=s1");
    let rule = |class: &str, path: String| format!("<path class=\"rule {class}\" d=\"{path}\"/>");
    svg.add(rule("s2", format!("M0 {}H1000", y(limit))));
    if let Some(chosen) = safe.or(likely) {
        svg.add(rule("s3", format!("M{} 0V1000", x(chosen))));
    }
    let svg = svg.finish();
    let mut dots = String::new();
    for (bytes, [expected, lowest, highest]) in &points {
        let told = [
            format!("{} ({} bytes)", Bytes(*bytes), super::page::grouped(*bytes)),
            format!("slowdown expected: {}", percent(*expected)),
            format!(
                "best to worst case: {} to {}",
                percent(*lowest),
                percent(*highest)
            ),
        ];
        let told = told.map(|line| escaped(&line)).join("&#10;");
        let (left, top) = (x(*bytes), y(*expected));
        let _ = write!(
            dots,
            "<i class=dot data-t=\"{told}\" style=\"left:{}.{}%;top:{}.{}%\"></i>",
            left / 10,
            left % 10,
            top / 10,
            top % 10
        );
    }
    chart::legend(
        page,
        [
            ("s1", "expected"),
            ("span", "best to worst case"),
            ("s2", "asked for"),
            ("s3", "the budget that is enough"),
        ],
    );
    page.html(&format!(
        "<div class=plot style=\"height:15rem\">{svg}{dots}<span class=max>slowdown {}</span></div>\n",
        percent(y_max)
    ));
    let labels: Vec<String> = (0..=4)
        .map(|part| Bytes(x_max / 4 * part).to_string())
        .collect();
    chart::below(page, &labels);
    let rows = points.iter().map(|(bytes, [expected, lowest, highest])| {
        let budget = Cell::bytes(*bytes);
        let said = match () {
            () if Some(*bytes) == safe => "safe",
            () if Some(*bytes) == likely => "likely enough",
            () => "",
        };
        let numbers = [expected, lowest, highest].map(|of| Cell::number(percent(*of)));
        let cells = std::iter::once(budget)
            .chain(numbers)
            .chain([Cell::text(said)]);
        (String::new(), cells.collect())
    });
    let heads = ["budget", "slowdown expected", "best case", "worst case", ""];
    page.table(&heads, &rows.collect::<Vec<_>>());
}
