//! Traces out of nothing: patterns with fixed seeds, by name.
//!
//! `gen:PATTERN[,option=value]...` makes one of the patterns below; `oracle:MODE/PATTERN` one of the
//! sequences that kernels were measured on ([`crate::oracle`]). The same name gives the same accesses
//! on any machine, for ever.
//!
//! | pattern | what comes | its options (defaults) |
//! |---|---|---|
//! | `uniform` | any page, all alike | `pages` (16384) |
//! | `zipf` | few pages often, many seldom | `pages`, `exponent` (0.99) |
//! | `hotscan` | a hot zipf set, and once a period a run through cold pages | `hot` (12288), `scan` (32768), `period` (81920), `run` (a tenth of it), `exponent` |
//! | `loop` | pages in order, again and again | `pages` |
//! | `phases` | zipf over one set after the other | `pages` (of a phase), `phases` (2), `exponent` |
//! | `scan` | pages in order, each once | none |
//! | `mixed` | turns of anon zipf through mappings and file zipf through descriptors | `anon` (16384), `file` (32768), `exponent` |
//! | `mixed-groups` | the same, drawn uniformly, anon in one group and the file in another | `anon` (20000), `file` (32768) |
//! | `replicas` | each group touches its anon and reads a file once through, the first one `ahead` times; then the first alone reads on | `pages` (12000), `anon` (0), `ahead` (1), `groups` (3) |
//! | `sparse` | pages in order, each the only one of its page table, through mappings, again and again | `pages` |
//! | `apps` | each app, a group, starts: it writes its heap, reads its code through mappings and its files through descriptors; then one app at a time uses any of these for `turn` (8192), few pages often, and the next is most likely one that was in use of late | `heap` (3000), `code` (1000), `files` (1000), `exponent`, `groups` (30) |
//! | `code` | turns of a program's code, drawn uniformly, and of a file that is run through once, both through mappings | `code` (8192), `backing` (of the first: `code` or `file`) |
//!
//! Patterns joined by `-` come one after the other, for equally many accesses each: `gen:loop-zipf-loop-scan`. They
//! share their options and their pages; a `scan` runs through pages of its own. The last six can't be joined.
//!
//! Options of every pattern: `accesses` (819200), `seed` (0), `groups` (1; each group runs the pattern
//! over pages of its own), `turn` (64; accesses before the next group or kind has its turn; not of `replicas`),
//! `writes` (0; percent of the accesses). And, except for `mixed`, `mixed-groups`, `apps` and `code`: `via` (`fd` or `mmap`), `backing`
//! (`file` or `anon`); by default a file read through descriptors, or with `backing=anon` memory through mappings.
//!
//! **Owns** the patterns, their names and options. **Does not own** files of traces (the readers).
//!
//! **Invariants**
//! - I1: no libm, no hash map, no clock: what comes depends on the name alone.

mod apps;
mod error;
mod options;
pub(crate) mod rng;
pub(crate) mod sequence;
mod turns;
pub(crate) mod zipf;

use std::str::FromStr;

pub use self::error::GeneratorError;
pub(crate) use self::options::Options;
use self::{
    apps::User,
    error::{NR_JOINED_PATTERNS, NR_STRETCHES_MAX, PATTERNS},
    options::{NR_PAGES_MAX, exponent, pages},
    rng::Rng,
    sequence::{Chain, HotScan, Phases, Sequence, Shuffled},
    turns::{AfterTurns, Stream, Turns},
};
use crate::{
    access::{Access, Backing, Op, PageKey, Via},
    oracle::OracleSequence,
};

const DEFAULT_PAGES: u64 = 16384;
const DEFAULT_ACCESSES: u64 = 819_200;
const DEFAULT_TURN_ACCESSES: u64 = 64;
const DEFAULT_GROUP_ANON: u64 = 20_000;
const DEFAULT_REPLICAS: u64 = 3;
const DEFAULT_REPLICA_PAGES: u64 = 12_000;
const DEFAULT_APPS: u64 = 30;
const DEFAULT_HEAP: u64 = 3000;
const DEFAULT_APP_FILES: u64 = 1000;
const DEFAULT_APP_TURN_ACCESSES: u64 = 8192;

/// Entries of a page table.
const NR_TABLE_ENTRIES: u64 = 512;

/// The most groups.
const NR_GROUPS_MAX: u64 = 4096;

/// A generated trace: an iterator of accesses.
///
/// ```
/// use strata_trace::Generator;
///
/// let trace: Generator = "gen:loop,pages=3,accesses=5".parse()?;
/// let pages: Vec<u64> = trace.map(|access| access.key.page).collect();
/// assert_eq!(pages, [0, 1, 2, 0, 1]);
/// # Ok::<(), strata_trace::GeneratorError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    source: Source,
    nr_left: u64,
    table_bytes: u64,
}

#[derive(Clone, Debug)]
enum Source {
    Oracle(Box<OracleSequence>),
    Streams(Turns),
}

impl Generator {
    /// Whether a trace's name asks for a generator rather than for a file.
    pub fn is_name(name: &str) -> bool {
        name.starts_with("gen:") || name.starts_with("oracle:")
    }

    /// Accesses still to come.
    pub fn nr_left(&self) -> u64 {
        self.nr_left
    }

    /// Bytes of its tables: weights and where the ranks lie.
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// The generator of this name, if its tables take no more than so many bytes. They are counted
    /// before they are made.
    ///
    /// # Errors
    /// A name that makes no trace, and [`GeneratorError::TooLarge`].
    pub fn try_within(name: &str, bytes_max: u64) -> Result<Generator, GeneratorError> {
        if let Some(rest) = name.strip_prefix("oracle:") {
            let (name, mut options) = Options::split(rest)?;
            let sequence = OracleSequence::parse(name, &mut options)?;
            options.finish()?;
            let nr_left = sequence.nr_accesses();
            let source = Source::Oracle(Box::new(sequence));
            return Ok(Generator {
                source,
                nr_left,
                table_bytes: 0,
            });
        }
        let rest = name
            .strip_prefix("gen:")
            .ok_or_else(|| GeneratorError::NotAGenerator(name.to_owned()))?;
        let (pattern, mut options) = Options::split(rest)?;
        let nr_left = options.number("accesses", DEFAULT_ACCESSES, 1..=u64::MAX)?;
        let plan = TurnsPlan::parse(pattern, nr_left, &mut options)?;
        options.finish()?;
        let table_bytes = plan.table_bytes();
        if table_bytes > bytes_max {
            return Err(GeneratorError::TooLarge {
                needed_bytes: table_bytes,
                bytes_max,
            });
        }
        let source = Source::Streams(plan.turns());
        Ok(Generator {
            source,
            nr_left,
            table_bytes,
        })
    }
}

impl FromStr for Generator {
    type Err = GeneratorError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Generator::try_within(name, u64::MAX)
    }
}

impl Iterator for Generator {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        self.nr_left = self.nr_left.checked_sub(1)?;
        Some(match &mut self.source {
            Source::Oracle(sequence) => sequence.next_access(),
            Source::Streams(turns) => turns.next_access(),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.nr_left);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

/// The streams as they were asked for, before any table is made.
struct TurnsPlan {
    /// What each group runs.
    kinds: Vec<(Set, Access)>,
    nr_groups: u64,
    shape: Shape,
    turn_accesses: u64,
    write_percent: u32,
    seed: u64,
}

/// How streams become spaces, groups and turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Usual,
    /// A group for each kind.
    KindsApart,
    /// A turn is once through, that of the first file so many times.
    Replicas {
        nr_rounds_ahead: u64,
    },
    /// A page a table.
    Sparse,
    /// A turn is a start. Then a user takes apps by how long ago each was in use.
    Apps {
        exponent: u32,
    },
}

impl TurnsPlan {
    fn parse(
        pattern: &str,
        nr_accesses: u64,
        options: &mut Options<'_>,
    ) -> Result<TurnsPlan, GeneratorError> {
        let seed = options.number("seed", 0, 0..=u64::MAX)?;
        let shape = match pattern {
            "mixed-groups" => Shape::KindsApart,
            "replicas" => Shape::Replicas {
                nr_rounds_ahead: options.number("ahead", 1, 1..=u64::from(u32::MAX))?,
            },
            "sparse" => Shape::Sparse,
            "apps" => Shape::Apps {
                exponent: exponent(options)?,
            },
            _ => Shape::Usual,
        };
        let (nr_groups_usual, nr_groups_bounds, turn_usual) = match shape {
            Shape::KindsApart => (1, 1..=NR_GROUPS_MAX / 2, DEFAULT_TURN_ACCESSES),
            Shape::Replicas { .. } => (DEFAULT_REPLICAS, 1..=NR_GROUPS_MAX, 0),
            Shape::Apps { .. } => (DEFAULT_APPS, 2..=NR_GROUPS_MAX, DEFAULT_APP_TURN_ACCESSES),
            Shape::Usual | Shape::Sparse => (1, 1..=NR_GROUPS_MAX, DEFAULT_TURN_ACCESSES),
        };
        let nr_groups = options.number("groups", nr_groups_usual, nr_groups_bounds)?;
        let turn_accesses = match turn_usual {
            0 => 0,
            usual => options.number("turn", usual, 1..=u64::MAX)?,
        };
        let write_percent = options.number("writes", 0, 0..=100)? as u32;
        let kinds = sets(pattern, nr_accesses / nr_groups, options)?;
        Ok(TurnsPlan {
            kinds,
            nr_groups,
            shape,
            turn_accesses,
            write_percent,
            seed,
        })
    }

    fn table_bytes(&self) -> u64 {
        let of_group: u64 = self.kinds.iter().map(|(set, _)| set.table_bytes()).sum();
        // 4096 groups of 64 phases of 2^27 pages are far below 2^64.
        self.nr_groups * of_group
    }

    fn turns(&self) -> Turns {
        let mut seeds = Rng::from_seed(self.seed);
        let mut streams: Vec<Stream> = Vec::new();
        let asked = self.kinds.len() - 1;
        for group in 0..self.nr_groups {
            for (space, (set, like)) in self.kinds.iter().enumerate() {
                let mut like = *like;
                // Each group has files and spaces of its own.
                like.key.space = group as u32 * self.kinds.len() as u32 + space as u32;
                like.group = match self.shape {
                    Shape::KindsApart => like.key.space as u16,
                    _ => group as u16,
                };
                let turn_accesses = match self.shape {
                    // What is asked later is a group's last.
                    Shape::Replicas { nr_rounds_ahead } if streams.len() == asked => {
                        u64::from(set.nr_pages()).saturating_mul(nr_rounds_ahead)
                    }
                    Shape::Replicas { .. } | Shape::Apps { .. } => set.nr_pages().into(),
                    _ => self.turn_accesses,
                };
                streams.push(Stream {
                    sequence: set.sequence(&mut seeds),
                    like,
                    turn_accesses,
                    stride_pages: match self.shape {
                        Shape::Sparse => NR_TABLE_ENTRIES,
                        _ => 1,
                    },
                    write_percent: self.write_percent,
                    writes: Rng::from_state(seeds.next()),
                });
            }
        }
        let then = match self.shape {
            Shape::Replicas { .. } => AfterTurns::Alone(asked),
            Shape::Apps { exponent } => AfterTurns::User(User::new(
                self.nr_groups as u32,
                self.kinds.len() as u32,
                self.turn_accesses,
                exponent,
                Rng::from_state(seeds.next()),
            )),
            _ => AfterTurns::TurnsAgain,
        };
        Turns::new(streams, then)
    }
}

/// A pattern with its numbers, without its seeds.
#[derive(Clone, Debug)]
enum Set {
    Uniform {
        nr_pages: u32,
    },
    Zipf {
        nr_pages: u32,
        exponent: u32,
    },
    HotScan {
        nr_hot: u32,
        nr_scan: u32,
        period: u64,
        run: u64,
        exponent: u32,
    },
    Loop {
        nr_pages: u32,
    },
    Phases {
        nr_pages: u32,
        nr_phases: u32,
        phase_accesses: u64,
        exponent: u32,
    },
    Scan {
        first: u32,
    },
    /// In order once, then by Zipf's law.
    Used {
        nr_pages: u32,
        exponent: u32,
    },
    Chain {
        stretches: Vec<Set>,
        stretch_accesses: u64,
    },
}

/// What one group runs: a pattern, or two in turn.
fn sets(
    pattern: &str,
    nr_accesses: u64,
    options: &mut Options<'_>,
) -> Result<Vec<(Set, Access)>, GeneratorError> {
    if pattern == "mixed" {
        let nr_anon = pages(options, "anon", DEFAULT_PAGES)?;
        let nr_file = pages(options, "file", 2 * DEFAULT_PAGES)?;
        let exponent = exponent(options)?;
        let zipf = |nr_pages| Set::Zipf { nr_pages, exponent };
        let anon = like(Backing::Anon, Via::PageTable);
        let file = like(Backing::File, Via::FileDescriptor);
        return Ok(vec![(zipf(nr_anon), anon), (zipf(nr_file), file)]);
    }
    if pattern == "mixed-groups" {
        let uniform = |nr_pages| Set::Uniform { nr_pages };
        let anon = uniform(pages(options, "anon", DEFAULT_GROUP_ANON)?);
        let file = uniform(pages(options, "file", 2 * DEFAULT_PAGES)?);
        return Ok(vec![
            (anon, like(Backing::Anon, Via::PageTable)),
            (file, like(Backing::File, Via::FileDescriptor)),
        ]);
    }
    if pattern == "apps" {
        let exponent = exponent(options)?;
        let mut used = |key, usual| {
            let nr_pages = pages(options, key, usual)?;
            Ok(Set::Used { nr_pages, exponent })
        };
        let mut heap = like(Backing::Anon, Via::PageTable);
        heap.op = Op::Write;
        let code = like(Backing::Code, Via::PageTable);
        let files = like(Backing::File, Via::FileDescriptor);
        return Ok(vec![
            (used("heap", DEFAULT_HEAP)?, heap),
            (used("code", DEFAULT_APP_FILES)?, code),
            (used("files", DEFAULT_APP_FILES)?, files),
        ]);
    }
    if pattern == "code" {
        let nr_pages = pages(options, "code", DEFAULT_PAGES / 2)?;
        let backings = [("code", Backing::Code), ("file", Backing::File)];
        let backing = options.choice("backing", &backings)?;
        let code = like(backing.unwrap_or(Backing::Code), Via::PageTable);
        let stream = like(Backing::File, Via::PageTable);
        return Ok(vec![
            (Set::Uniform { nr_pages }, code),
            (Set::Scan { first: 0 }, stream),
        ]);
    }
    let nr_anon = match pattern {
        "replicas" => options.number("anon", 0, 0..=NR_PAGES_MAX)? as u32,
        _ => 0,
    };
    let set = match pattern.contains('-') {
        true => chain(pattern, nr_accesses, options)?,
        false => set(pattern, nr_accesses, options)?,
    };
    let backings = [("file", Backing::File), ("anon", Backing::Anon)];
    let backing = options.choice("backing", &backings)?;
    let vias = [("fd", Via::FileDescriptor), ("mmap", Via::PageTable)];
    let via = options.choice("via", &vias)?;
    let backing = backing.unwrap_or(Backing::File);
    let via = via.unwrap_or(match backing {
        _ if pattern == "sparse" => Via::PageTable,
        Backing::File => Via::FileDescriptor,
        Backing::Anon | Backing::Code => Via::PageTable,
    });
    let anon = (nr_anon > 0).then(|| {
        let idle = Set::Loop { nr_pages: nr_anon };
        (idle, like(Backing::Anon, Via::PageTable))
    });
    Ok(anon
        .into_iter()
        .chain([(set, like(backing, via))])
        .collect())
}

/// A pattern of one sequence of pages.
fn set(pattern: &str, nr_accesses: u64, options: &mut Options<'_>) -> Result<Set, GeneratorError> {
    Ok(match pattern {
        "uniform" => Set::Uniform {
            nr_pages: pages(options, "pages", DEFAULT_PAGES)?,
        },
        "zipf" => Set::Zipf {
            nr_pages: pages(options, "pages", DEFAULT_PAGES)?,
            exponent: exponent(options)?,
        },
        "hotscan" => hot_scan(options)?,
        "loop" | "sparse" => Set::Loop {
            nr_pages: pages(options, "pages", DEFAULT_PAGES)?,
        },
        "replicas" => Set::Loop {
            nr_pages: pages(options, "pages", DEFAULT_REPLICA_PAGES)?,
        },
        "phases" => {
            let nr_phases = options.number("phases", 2, 1..=64)? as u32;
            Set::Phases {
                nr_pages: pages(options, "pages", DEFAULT_PAGES)?,
                nr_phases,
                phase_accesses: nr_accesses / u64::from(nr_phases),
                exponent: exponent(options)?,
            }
        }
        "scan" => Set::Scan { first: 0 },
        _ => return Err(GeneratorError::UnknownPattern(pattern.to_owned())),
    })
}

/// Several patterns, one after the other.
fn chain(names: &str, nr_accesses: u64, options: &mut Options<'_>) -> Result<Set, GeneratorError> {
    let names: Vec<&str> = names.split('-').collect();
    if let Some(alone) = PATTERNS[NR_JOINED_PATTERNS..]
        .iter()
        .find(|alone| names.contains(alone))
    {
        return Err(GeneratorError::NotJoined(alone));
    }
    if names.len() > NR_STRETCHES_MAX {
        return Err(GeneratorError::TooManyPatterns(names.len()));
    }
    let stretch_accesses = nr_accesses / names.len() as u64;
    let stretches = names
        .iter()
        .map(|name| set(name, stretch_accesses, options));
    let mut stretches: Vec<Set> = stretches.collect::<Result<_, _>>()?;
    // What is scanned is read nowhere else: behind the pages of all others, and of scans before.
    let mut behind = stretches.iter().map(Set::nr_pages).max().unwrap_or(0);
    for stretch in &mut stretches {
        if let Set::Scan { first } = stretch {
            *first = behind;
            behind = behind.wrapping_add(stretch_accesses as u32);
        }
    }
    Ok(Set::Chain {
        stretches,
        stretch_accesses,
    })
}

impl Set {
    /// Weights take 8 bytes a page, where the ranks lie 4 more.
    fn table_bytes(&self) -> u64 {
        match self {
            Set::Uniform { .. } | Set::Loop { .. } | Set::Scan { .. } => 0,
            Set::Zipf { nr_pages, .. } | Set::Used { nr_pages, .. } => u64::from(*nr_pages) * 12,
            Set::HotScan { nr_hot, .. } => u64::from(*nr_hot) * 12,
            Set::Phases {
                nr_pages,
                nr_phases,
                ..
            } => u64::from(*nr_pages) * (8 + 4 * u64::from(*nr_phases)),
            Set::Chain { stretches, .. } => stretches.iter().map(Set::table_bytes).sum(),
        }
    }

    /// Pages that come again and again.
    fn nr_pages(&self) -> u32 {
        match *self {
            Set::Uniform { nr_pages }
            | Set::Zipf { nr_pages, .. }
            | Set::Loop { nr_pages }
            | Set::Used { nr_pages, .. } => nr_pages,
            Set::HotScan {
                nr_hot, nr_scan, ..
            } => nr_hot + nr_scan,
            Set::Phases {
                nr_pages,
                nr_phases,
                ..
            } => nr_pages.saturating_mul(nr_phases),
            Set::Scan { .. } | Set::Chain { .. } => 0,
        }
    }

    fn sequence(&self, seeds: &mut Rng) -> Sequence {
        let mut rng = || Rng::from_state(seeds.next());
        match *self {
            Set::Uniform { nr_pages } => Sequence::Uniform {
                nr_pages,
                rng: rng(),
            },
            Set::Zipf { nr_pages, exponent } => {
                Sequence::Zipf(Shuffled::new(nr_pages, exponent, &mut rng(), rng()))
            }
            Set::HotScan {
                nr_hot,
                nr_scan,
                period,
                run,
                exponent,
            } => {
                let hot = Shuffled::new(nr_hot, exponent, &mut rng(), rng());
                Sequence::HotScan(HotScan::new(hot, nr_scan, period, run))
            }
            Set::Loop { nr_pages } => Sequence::Loop { nr_pages, next: 0 },
            Set::Phases {
                nr_pages,
                nr_phases,
                phase_accesses,
                exponent,
            } => {
                let mut shuffles: Vec<Rng> = (0..nr_phases).map(|_| rng()).collect();
                Sequence::Phases(Phases::new(
                    nr_pages,
                    exponent,
                    &mut shuffles,
                    rng(),
                    phase_accesses,
                ))
            }
            Set::Scan { first } => Sequence::Scan { next: first },
            Set::Used { nr_pages, exponent } => {
                let once = Set::Loop { nr_pages };
                let then = Set::Zipf { nr_pages, exponent };
                let stretches = [once, then].map(|set| set.sequence(seeds));
                Sequence::Chain(Chain::new(stretches.into(), nr_pages.into()))
            }
            Set::Chain {
                ref stretches,
                stretch_accesses,
            } => {
                let stretches = stretches.iter().map(|set| set.sequence(seeds));
                Sequence::Chain(Chain::new(stretches.collect(), stretch_accesses))
            }
        }
    }
}

fn hot_scan(options: &mut Options<'_>) -> Result<Set, GeneratorError> {
    let period = options.number("period", 5 * DEFAULT_PAGES, 2..=u64::MAX)?;
    Ok(Set::HotScan {
        nr_hot: pages(options, "hot", DEFAULT_PAGES / 4 * 3)?,
        nr_scan: pages(options, "scan", 2 * DEFAULT_PAGES)?,
        period,
        run: options.number("run", period / 10, 0..=period)?,
        exponent: exponent(options)?,
    })
}

fn like(backing: Backing, via: Via) -> Access {
    Access {
        key: PageKey::default(),
        backing,
        via,
        ..Access::default()
    }
}

#[cfg(test)]
mod tests;
