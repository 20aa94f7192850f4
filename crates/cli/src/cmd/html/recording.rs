//! The page of a recording, and that of a trace.
//!
//! **Owns** what of them is shown, and what a mapping is called. **Does not own** what is counted (`strata_sim::heat`), nor the
//! plan.

use strata_sim::heat::{Band, RecordingHeat, Row, TraceHeat, Which};
use strata_trace::recording::{NameKnown, RecordingInfo};

use super::chart::{self, Bar, HeatRow, Series};
use super::page::{Cell, Page, grouped, span};
use super::plan::{self, Planned};
use super::value::bytes_at;
use strata_linux::units::Bytes;

const PAGE_BYTES: u64 = 4096;
/// Bands that are drawn; the others are small.
const BANDS_DRAWN: usize = 16;

/// The page of a recording.
pub(super) fn recording(
    name: &str,
    heat: &RecordingHeat,
    info: &RecordingInfo,
    planned: &Planned,
) -> Page {
    let about = info.about.clone().unwrap_or_default();
    let below = format!(
        "{name}: {} recorded, {} walks, {} asked for between two, accesses seen by {}, {} of CPU time",
        span(info.duration_us()),
        grouped(info.nr_walks),
        span(about.interval_us),
        about.source,
        span(info.cpu_us)
    );
    let mut page = Page::new(&format!("Memory of {}", about.target), &below);
    let bands: Vec<Named<'_>> = heat
        .bands
        .iter()
        .zip(0..)
        .map(|(band, number)| Named::new(band, number, info))
        .collect();
    cards(&mut page, heat, planned);
    if heat.nr_left_out > 0 {
        page.say(&format!(
            "The recording tells of more memory than is kept in mind here: {} of its page tables are left out.",
            grouped(heat.nr_left_out)
        ));
    }
    page.part("time", "Memory over time");
    let labels = labels(heat);
    let axis = page.axis(&labels);
    over_time(&mut page, heat, &axis, &labels);
    page.part("heat", "What was used when");
    page.say(
        "Each band is a mapping, or the page cache of a file, its addresses from top to bottom. The darker a place (the brighter \
         on a dark page), the more of that memory a walk found used. Click for the numbers of the mapping.",
    );
    let colours = [
        ("l1", "little of it used"),
        ("l4", "a third"),
        ("l7", "all"),
    ];
    let is_moving = heat
        .totals
        .iter()
        .any(|of| of.nr_left > 0 || of.nr_back > 0);
    let moving = [("e3", "left memory"), ("f3", "came back")];
    let colours = colours
        .into_iter()
        .chain(moving.into_iter().filter(|_| is_moving));
    chart::legend(&mut page, colours);
    for band in bands.iter().take(BANDS_DRAWN) {
        band.draw(&mut page, heat, &axis);
    }
    chart::below(&mut page, &labels);
    if let Some(more @ 1..) = bands.len().checked_sub(BANDS_DRAWN) {
        page.say(&format!(
            "{more} more, each with less memory, stand in the table only."
        ));
    }
    page.part("ages", "How old the memory is");
    ages(&mut page, heat);
    page.part("budget", "Budget and slowdown");
    plan::show(&mut page, planned);
    page.part("mappings", "Mappings and files");
    mappings(&mut page, &bands, heat);
    page
}

fn cards(page: &mut Page, heat: &RecordingHeat, planned: &Planned) {
    let resident: u64 = heat.bands.iter().map(|band| band.resident.all()).sum();
    let never: u64 = heat.bands.iter().map(|band| band.nr_never).sum();
    let most = heat.totals.iter().filter_map(|of| of.nr_resident).max();
    let size = |pages: u64| Bytes(pages * PAGE_BYTES).to_string();
    let mut cards = vec![
        ("in memory at most", size(most.unwrap_or(0))),
        ("in memory at the end", size(resident)),
        ("of it not used in all the time", size(never)),
    ];
    if let Planned::Known { plan, .. } = planned {
        let safe = bytes_at(plan, &["budget_bytes", "highest"]);
        let safe = safe.map_or_else(|| "none".to_owned(), |bytes| Bytes(bytes).to_string());
        cards.push(("safe budget", safe));
    }
    page.cards(&cards);
}

/// A label for each column.
fn labels(heat: &RecordingHeat) -> Vec<String> {
    let label = |column: usize| span(heat.width_us.saturating_mul(column as u64));
    (0..heat.totals.len()).map(label).collect()
}

fn over_time(page: &mut Page, heat: &RecordingHeat, axis: &str, labels: &[String]) {
    let totals = &heat.totals;
    let series = |name: &str, of: &dyn Fn(usize) -> Option<u64>| {
        let pages = (0..totals.len()).map(of);
        Series::new(name, "b", pages.map(|pages| Some(pages? * PAGE_BYTES)))
    };
    let mut last = None;
    let resident: Vec<Option<u64>> = totals
        .iter()
        .map(|of| {
            last = of.nr_resident.or(last);
            last
        })
        .collect();
    let mut all = vec![
        series("in memory", &|at| resident[at]),
        series("mapped, used in a walk", &|at| {
            totals[at].nr_used.checked_div(totals[at].nr_walks)
        }),
    ];
    if totals.iter().any(|of| of.nr_censuses > 0) {
        all.push(series("page cache, used in a census", &|at| {
            totals[at].nr_used_cache.checked_div(totals[at].nr_censuses)
        }));
    }
    chart::lines(page, axis, labels, &all);
    if totals.iter().any(|of| of.nr_left > 0 || of.nr_back > 0) {
        page.say(
            "What left memory and kept its content in swap or a file, and what of that came back:",
        );
        let moved = [
            series("left memory", &|at| Some(totals[at].nr_left)),
            series("came back", &|at| Some(totals[at].nr_back)),
        ];
        chart::lines(page, axis, labels, &moved);
    }
}

/// A band with its names.
struct Named<'a> {
    band: &'a Band,
    number: usize,
    what: String,
    whose: String,
}

impl<'a> Named<'a> {
    fn new(band: &'a Band, number: usize, info: &RecordingInfo) -> Named<'a> {
        let (what, whose) = match band.which {
            Which::Others => ("all others".to_owned(), String::new()),
            Which::Area(area) => {
                let name = info.areas.get(&area).and_then(|area| area.name.as_ref());
                let whose = name.and_then(|name| info.spaces.get(&name.space));
                let whose = whose.map(|space| format!("{} {}", space.name, space.pid));
                let what = name.map(|name| match name.name.as_str() {
                    "" => name.class.clone(),
                    path if name.class == "code" => format!("{path} (code)"),
                    path => path.to_owned(),
                });
                (
                    what.unwrap_or_else(|| format!("mapping {area}")),
                    whose.unwrap_or_default(),
                )
            }
            Which::File(file) => {
                let name = info.files.get(&file).and_then(|file| file.name.as_ref());
                let what = name.map(|name| match name.known {
                    NameKnown::Deleted => format!("{} (deleted)", name.path),
                    _ if name.path.is_empty() => format!("file {file}"),
                    _ => name.path.clone(),
                });
                let group = name.map_or("", |name| name.group.as_str());
                let whose = format!("page cache {group}").trim_end().to_owned();
                (what.unwrap_or_else(|| format!("file {file}")), whose)
            }
        };
        Named {
            band,
            number,
            what,
            whose,
        }
    }

    fn draw(&self, page: &mut Page, heat: &RecordingHeat, axis: &str) {
        let (band, number) = (self.band, self.number);
        let is_file = matches!(band.which, Which::File(_));
        let nr_columns = heat.totals.len();
        // A mean over the walks of a column.
        let nr_looks = |column: usize| match is_file {
            true => heat.totals[column].nr_censuses,
            false => heat.totals[column].nr_walks,
        };
        let used = |row: &Row| {
            let size = Bytes(row.nr_pages * PAGE_BYTES);
            let name = match band.which {
                Which::Others => format!("used, of {size}"),
                _ => format!("used, of {size} from {:#x}", row.first_page * PAGE_BYTES),
            };
            let mean = |at: usize| (row.cells[at] * PAGE_BYTES).checked_div(nr_looks(at));
            let means = (0..nr_columns).map(|at| mean(at).unwrap_or(0));
            Series::new(name, "b", means)
        };
        let mut rows: Vec<HeatRow> = band
            .rows
            .iter()
            .map(|row| HeatRow {
                series: used(row),
                all: row.nr_pages * PAGE_BYTES,
                colours: 'l',
            })
            .collect();
        for (name, cells, colours) in [
            ("left memory", &band.left, 'e'),
            ("came back", &band.back, 'f'),
        ] {
            let most = cells.iter().copied().max().unwrap_or(0);
            if most > 0 {
                let cells = cells[..nr_columns].iter().map(|pages| pages * PAGE_BYTES);
                rows.push(HeatRow {
                    series: Series::new(name, "b", cells),
                    all: most * PAGE_BYTES,
                    colours,
                });
            }
        }
        let size = Bytes(band.nr_most * PAGE_BYTES).to_string();
        let (what, whose) = (
            super::page::escaped(&self.what),
            super::page::escaped(&self.whose),
        );
        page.html(&format!(
            "<figure id=\"h{number}\"><figcaption><a href=\"#m{number}\">{what}</a> <span>{whose} {size}</span></figcaption>"
        ));
        chart::heat(page, axis, nr_columns, &format!("m{number}"), &rows);
        page.html("</figure>\n");
    }
}

fn mappings(page: &mut Page, bands: &[Named<'_>], heat: &RecordingHeat) {
    let nr_walks: u64 = heat.totals.iter().map(|of| of.nr_walks).sum();
    let nr_censuses: u64 = heat.totals.iter().map(|of| of.nr_censuses).sum();
    let rows = bands.iter().map(|named| {
        let band = named.band;
        let nr_looks = match band.which {
            Which::File(_) => nr_censuses,
            _ => nr_walks,
        };
        let size = |pages: u64| Cell::bytes(pages * PAGE_BYTES);
        let cells = vec![
            match named.number < BANDS_DRAWN {
                true => Cell::link(named.what.clone(), format!("h{}", named.number)),
                false => Cell::text(named.what.clone()),
            },
            Cell::text(named.whose.clone()),
            size(band.nr_most),
            size(band.resident.all()),
            size(band.nr_used.checked_div(nr_looks).unwrap_or(0)),
            size(band.nr_never),
            size(band.nr_appeared),
            size(band.left.iter().sum()),
            size(band.back.iter().sum()),
            size(band.nr_freed),
        ];
        (format!("m{}", named.number), cells)
    });
    let heads = [
        "mapping or file",
        "of",
        "most in memory",
        "at the end",
        "used a walk",
        "not used in all the time",
        "came",
        "left",
        "came back",
        "freed",
    ];
    page.table(&heads, &rows.collect::<Vec<_>>());
}

fn ages(page: &mut Page, heat: &RecordingHeat) {
    page.say("What was in memory at the end, by when it was last used:");
    let mut bars = Vec::new();
    for class in &heat.ages {
        let name = match class.at_least_us {
            None => "not in all the time".to_owned(),
            Some(0) => format!("within the last {}", span(heat.width_us)),
            Some(from) => format!("{} ago or more", span(from)),
        };
        let pages = [class.pages.anon, class.pages.file, class.pages.cache];
        bars.push(Bar {
            name,
            to: None,
            parts: pages.map(|pages| pages * PAGE_BYTES).to_vec(),
        });
    }
    let parts = ["anonymous memory", "mapped files", "page cache"];
    chart::bars(page, &parts, &bars);
    let rows = bars.iter().map(|bar| {
        let sizes = bar.parts.iter().map(|bytes| Cell::bytes(*bytes));
        (
            String::new(),
            std::iter::once(Cell::text(bar.name.clone()))
                .chain(sizes)
                .collect(),
        )
    });
    page.table(
        &["last used", parts[0], parts[1], parts[2]],
        &rows.collect::<Vec<_>>(),
    );
}

/// The page of a trace that is no recording.
pub(super) fn trace(name: &str, format: &str, heat: &TraceHeat) -> Page {
    let [anon, file] = heat.nr_pages;
    let duration = match heat.duration_us {
        0 => String::new(),
        us => format!(", {}", span(us)),
    };
    let accesses = grouped(heat.nr_accesses);
    let mut page = Page::new(
        &format!("Accesses of {name}"),
        &format!("{format}: {accesses} accesses{duration}"),
    );
    let part = |nr: u64| percent(nr, heat.nr_accesses);
    page.cards(&[
        (
            "pages",
            format!(
                "{} ({})",
                grouped(anon + file),
                Bytes((anon + file) * PAGE_BYTES)
            ),
        ),
        ("of them anonymous", grouped(anon)),
        ("writes", part(heat.nr_writes)),
        ("through descriptors", part(heat.nr_descriptor)),
        (
            "accesses to pages seen before",
            part(heat.nr_accesses - (anon + file)),
        ),
    ]);
    page.part("heat", "What was accessed when");
    page.say(
        "From left to right the accesses, in their order; from top to bottom the pages, in the order of their first access. The \
         darker a place (the brighter on a dark page), the more accesses are there.",
    );
    let labels: Vec<String> = (0..heat.nr_columns)
        .map(|at| format!("access {}", grouped(heat.width * at as u64)))
        .collect();
    let axis = page.axis(&labels);
    let most = heat.rows.iter().flat_map(|row| &row.cells).copied().max();
    let rows = heat.rows.iter().map(|row| HeatRow {
        series: {
            let last_page = row.first_page + row.nr_pages.max(1) - 1;
            let name = format!("accesses of pages {} to {last_page}", row.first_page);
            Series::new(name, "", row.cells[..heat.nr_columns].iter().copied())
        },
        all: most.unwrap_or(0),
        colours: 'l',
    });
    chart::heat(
        &mut page,
        &axis,
        heat.nr_columns,
        "",
        &rows.collect::<Vec<_>>(),
    );
    chart::below(&mut page, &labels);
    page.say("Accesses that came to a page for the first time:");
    let first = heat.first[..heat.nr_columns].iter().copied();
    let first = Series::new("first accesses", "accesses", first);
    chart::lines(&mut page, &axis, &labels, &[first]);
    page.part("reuse", "How soon a page is accessed again");
    page.say("After how many accesses, its own included, an access came to the same page again:");
    reuse(&mut page, heat);
    page
}

fn percent(part: u64, all: u64) -> String {
    let permille = chart::share(part, all, 1000);
    format!("{}.{} %", permille / 10, permille % 10)
}

fn reuse(page: &mut Page, heat: &TraceHeat) {
    let mut so_far = 0;
    let mut rows = Vec::new();
    for class in &heat.reuse {
        so_far += class.nr_accesses;
        let name = match class.at_least {
            1 => "1".to_owned(),
            from => format!(
                "{} to {}",
                grouped(from),
                grouped(from.saturating_mul(2) - 1)
            ),
        };
        rows.push((
            String::new(),
            vec![
                Cell::number(name),
                Cell::number(grouped(class.nr_accesses)),
                Cell::number(percent(class.nr_accesses, heat.nr_accesses)),
                Cell::number(percent(so_far, heat.nr_accesses)),
            ],
        ));
    }
    let labels: Vec<String> = heat
        .reuse
        .iter()
        .map(|class| format!("after {} or more", grouped(class.at_least)))
        .collect();
    let axis = page.axis(&labels);
    let accesses = heat.reuse.iter().map(|class| class.nr_accesses);
    let series = Series::new("accesses", "accesses", accesses);
    chart::lines(page, &axis, &labels, &[series]);
    page.table(&["after", "accesses", "of all", "up to here"], &rows);
}
