//! What kernels read back, from two sources: recorded by others, and measured by `make bench NAME=kernels`.
//!
//! **Owns** reading both. **Does not own** the replays (`oracle`), or how anything was measured
//! (`scripts/bench/kernels.sh`).

use std::collections::BTreeMap;

use serde_json::Value;

/// Whatever can go wrong, across threads.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What was replayed, where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    /// `6.1` or `6.12`.
    pub(crate) kernel: String,
    /// `MODE/PATTERN`.
    pub(crate) name: String,
    /// The memory that the sequence is made for.
    pub(crate) sequence_pages: u32,
    /// The memory of the cgroup.
    pub(crate) memory_pages: u32,
    /// `vm.swappiness`.
    pub(crate) swappiness: u8,
    /// Accesses in all.
    pub(crate) nr_accesses: u64,
}

/// What one policy of a kernel made of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Pages it read back, the median of its repeats.
    pub(crate) read_backs: u64,
    /// How far the repeats lay apart, as a part of the median.
    pub(crate) spread: f64,
    /// Memory it had left for pages.
    pub(crate) capacity_pages: u32,
}

/// Both policies of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) setting: Setting,
    pub(crate) classic: Figure,
    pub(crate) mglru: Figure,
}

/// The figures recorded first, `oracle/results.json`.
pub(crate) fn recorded() -> Result<Vec<Figures>, Failure> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/results.json");
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let results: Value = serde_json::from_str(&text)?;
    let cases = results["cases"].as_array().ok_or("no cases")?;
    cases.iter().map(recorded_case).collect()
}

fn recorded_case(case: &Value) -> Result<Figures, Failure> {
    // 6.1.0-56-cloud-amd64 is a 6.1.
    let kernel: Vec<&str> = string(case, "kernel")?.split('.').take(2).collect();
    let memory_pages = number(case, "memory_pages")?;
    let figure = |of: &Value| {
        Ok::<_, Failure>(Figure {
            read_backs: number(of, "read_backs_median")?,
            spread: of["spread"].as_f64().ok_or("no spread")?,
            capacity_pages: number(of, "capacity_pages")?,
        })
    };
    Ok(Figures {
        setting: Setting {
            kernel: kernel.join("."),
            name: format!("{}/{}", string(case, "mode")?, string(case, "pattern")?),
            sequence_pages: memory_pages,
            memory_pages,
            // As in every recorded case.
            swappiness: 60,
            nr_accesses: number(case, "accesses")?,
        },
        classic: figure(&case["classic"])?,
        mglru: figure(&case["mglru"])?,
    })
}

/// The figures measured by ourselves, `measured.jsonl`: a line a run, as many of a case as it has repeats.
pub(crate) fn measured() -> Result<Vec<Figures>, Failure> {
    let mut runs: BTreeMap<Setting, [Vec<(u64, u32)>; 2]> = BTreeMap::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/measured.jsonl");
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    for line in text.lines() {
        let run: Value = serde_json::from_str(line)?;
        if number::<u64>(&run, "bad")? != 0 {
            return Err(format!("a run that read wrong pages: {line}").into());
        }
        let setting = Setting {
            kernel: string(&run, "kernel")?.to_owned(),
            name: string(&run, "case")?.to_owned(),
            sequence_pages: number(&run, "sequence_pages")?,
            memory_pages: number(&run, "memory_pages")?,
            swappiness: number(&run, "swappiness")?,
            nr_accesses: number(&run, "accesses")?,
        };
        let of = match string(&run, "lru")? {
            "classic" => 0,
            "mglru" => 1,
            other => return Err(format!("{other:?} is neither classic nor mglru").into()),
        };
        let figures = (number(&run, "read_backs")?, number(&run, "capacity_pages")?);
        runs.entry(setting).or_default()[of].push(figures);
    }
    let cases = runs.into_iter().map(|(setting, [classic, mglru])| {
        Ok(Figures {
            classic: median(classic).ok_or_else(|| format!("{setting:?}: no classic run"))?,
            mglru: median(mglru).ok_or_else(|| format!("{setting:?}: no run with generations"))?,
            setting,
        })
    });
    cases.collect()
}

/// The run in the middle: read-backs and the memory of that same run.
fn median(mut runs: Vec<(u64, u32)>) -> Option<Figure> {
    runs.sort_unstable();
    let (read_backs, capacity_pages) = *runs.get(runs.len() / 2)?;
    let (least, most) = (runs.first()?.0, runs.last()?.0);
    Some(Figure {
        read_backs,
        spread: (most - least) as f64 / read_backs as f64,
        capacity_pages,
    })
}

fn string<'v>(of: &'v Value, key: &str) -> Result<&'v str, Failure> {
    Ok(of[key].as_str().ok_or_else(|| format!("no {key}"))?)
}

fn number<N: TryFrom<u64>>(of: &Value, key: &str) -> Result<N, Failure> {
    let number = of[key].as_u64().and_then(|number| number.try_into().ok());
    Ok(number.ok_or_else(|| format!("no {key}"))?)
}
