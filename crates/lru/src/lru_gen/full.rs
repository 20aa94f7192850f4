//! The full form (`lru_gen_full`): the plain one, and what the controller and the walks know.
//!
//! ```text
//! memcg     1 /
//!  node     0
//!           7      61234          0x      18211
//!                      0          0x          0x          0x        410r       9000e          0p
//!                                 0x          0x          0x          0x
//!          10        204     131072         512
//!                      0        120R       4000T          0x        260R       7000T          0x
//!                            524288T       4096Y        300F        120A
//! ```
//!
//! As many generations as there is room for, those the window has moved past included; a size that a
//! kind's window has moved past is marked `x`. After each, a line a tier with three figures a kind: of
//! the youngest the averages of what refaulted (R) and of all that was let go (T), of a kind's oldest
//! what refaulted (r), was evicted (e) and protected (p) in this period. Then what the last walk saw,
//! with the youngest: page-table entries (T) and young ones (Y), tables that the filter knew (F) and
//! that were put into it (A). Up to 6.13 entries that were not young and all tables are shown too
//! (LOYNFA), and a figure that says nothing is marked by a blank.
//!
//! **Owns** the layout. **Does not own** the figures ([`LruGen::full_view`](super::LruGen::full_view)).

use std::fmt::Write;

use crate::ids::{GenSeq, GroupId, NodeId};

/// What is known of one tier of one kind in one generation, in base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierFigures {
    /// Nothing.
    None,
    /// Of the youngest generation: moving averages.
    Averages {
        /// What came back.
        nr_refaulted: u64,
        /// What was evicted or protected.
        nr_total: u64,
    },
    /// Of the oldest generation: this period.
    Period {
        /// What came back.
        nr_refaulted: u64,
        /// What was evicted.
        nr_evicted: u64,
        /// What was spared.
        nr_protected: u64,
    },
}

/// What the last walk saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkFigures {
    /// Page-table entries read.
    pub nr_entries: u64,
    /// Entries that were young.
    pub nr_young: u64,
    /// Tables come by.
    pub nr_tables: u64,
    /// Tables that the filter knew.
    pub nr_found: u64,
    /// Tables put into the filter.
    pub nr_added: u64,
}

/// One generation in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullGeneration {
    /// Number of the generation.
    pub seq: GenSeq,
    /// Milliseconds since it was born.
    pub age_ms: u64,
    /// Base pages by kind, and whether the kind's window has moved past it.
    pub sizes: [(u64, bool); 2],
    /// By tier and kind.
    pub tiers: Vec<[TierFigures; 2]>,
    /// With the youngest.
    pub walk: Option<WalkFigures>,
}

/// How a figure that says nothing is marked, and how many figures a walk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullStyle {
    /// By a blank; six (up to 6.13).
    Blank,
    /// By `x`; four (6.14 on).
    Crossed,
}

/// One group on one node in full, oldest generation first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullView {
    /// The group.
    pub group: GroupId,
    /// Path of the group.
    pub path: String,
    /// The node.
    pub node: NodeId,
    /// Oldest first.
    pub generations: Vec<FullGeneration>,
    /// How it is printed.
    pub style: FullStyle,
}

/// Writes views as the kernel does; consecutive views of one group share its line. A line break in
/// a path, which no cgroup can have, becomes `?`.
pub fn format_full(views: &[FullView]) -> String {
    let mut text = String::new();
    let mut group = None;
    for view in views {
        if group != Some(view.group) {
            group = Some(view.group);
            let path = view.path.replace('\n', "?");
            push(&mut text, format_args!("memcg {:5} {path}\n", view.group.0));
        }
        push(&mut text, format_args!(" node {:5}\n", view.node.0));
        for generation in &view.generations {
            push_generation(&mut text, view.style, generation);
        }
    }
    text
}

fn push_generation(text: &mut String, style: FullStyle, of: &FullGeneration) {
    push(text, format_args!(" {:10} {:10}", of.seq.0, of.age_ms));
    for (nr_pages, is_past) in of.sizes {
        push_figure(text, nr_pages, if is_past { 'x' } else { ' ' });
    }
    text.push('\n');
    let nothing = match style {
        FullStyle::Blank => ' ',
        FullStyle::Crossed => 'x',
    };
    for (tier, kinds) in of.tiers.iter().enumerate() {
        push(text, format_args!("{:12}{tier:10}", ""));
        for figures in kinds {
            for (figure, mark) in marked(*figures, nothing) {
                push_figure(text, figure, mark);
            }
        }
        text.push('\n');
    }
    push(text, format_args!("{:22}", ""));
    for (figure, mark) in marked_walk(of.walk, style, nothing) {
        push_figure(text, figure, mark);
    }
    text.push('\n');
}

fn marked(figures: TierFigures, nothing: char) -> [(u64, char); 3] {
    match figures {
        TierFigures::None => [(0, nothing); 3],
        TierFigures::Averages {
            nr_refaulted,
            nr_total,
        } => [(nr_refaulted, 'R'), (nr_total, 'T'), (0, nothing)],
        TierFigures::Period {
            nr_refaulted,
            nr_evicted,
            nr_protected,
        } => [(nr_refaulted, 'r'), (nr_evicted, 'e'), (nr_protected, 'p')],
    }
}

fn marked_walk(walk: Option<WalkFigures>, style: FullStyle, nothing: char) -> Vec<(u64, char)> {
    let of = walk.unwrap_or_default();
    let figures = match style {
        FullStyle::Blank => vec![
            (of.nr_entries, 'L'),
            (of.nr_entries.saturating_sub(of.nr_young), 'O'),
            (of.nr_young, 'Y'),
            (of.nr_tables, 'N'),
            (of.nr_found, 'F'),
            (of.nr_added, 'A'),
        ],
        FullStyle::Crossed => vec![
            (of.nr_entries, 'T'),
            (of.nr_young, 'Y'),
            (of.nr_found, 'F'),
            (of.nr_added, 'A'),
        ],
    };
    let mark = |mark| if walk.is_some() { mark } else { nothing };
    figures
        .into_iter()
        .map(|(figure, letter)| (figure, mark(letter)))
        .collect()
}

fn push_figure(text: &mut String, figure: u64, mark: char) {
    push(text, format_args!(" {figure:10}{mark}"));
}

fn push(text: &mut String, piece: std::fmt::Arguments<'_>) {
    text.write_fmt(piece)
        .expect("writing to a string can't fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(style: FullStyle) -> FullView {
        let oldest = FullGeneration {
            seq: GenSeq(7),
            age_ms: 61_234,
            sizes: [(0, true), (18_211, false)],
            tiers: vec![[
                TierFigures::None,
                TierFigures::Period {
                    nr_refaulted: 410,
                    nr_evicted: 9000,
                    nr_protected: 0,
                },
            ]],
            walk: None,
        };
        let averages = |nr_refaulted, nr_total| TierFigures::Averages {
            nr_refaulted,
            nr_total,
        };
        let youngest = FullGeneration {
            seq: GenSeq(10),
            age_ms: 204,
            sizes: [(131_072, false), (512, false)],
            tiers: vec![[averages(120, 4000), averages(260, 7000)]],
            walk: Some(WalkFigures {
                nr_entries: 524_288,
                nr_young: 4096,
                nr_tables: 1024,
                nr_found: 300,
                nr_added: 120,
            }),
        };
        FullView {
            group: GroupId(1),
            path: "/".to_owned(),
            node: NodeId(0),
            generations: vec![oldest, youngest],
            style,
        }
    }

    #[test]
    fn the_full_text_is_written_to_the_byte() {
        let expected = concat!(
            "memcg     1 /\n",
            " node     0\n",
            "          7      61234          0x      18211 \n",
            "                     0          0x          0x          0x        410r       9000e          0p\n",
            "                                0x          0x          0x          0x\n",
            "         10        204     131072         512 \n",
            "                     0        120R       4000T          0x        260R       7000T          0x\n",
            "                           524288T       4096Y        300F        120A\n",
        );
        assert_eq!(format_full(&[view(FullStyle::Crossed)]), expected);
    }

    #[test]
    fn up_to_613_the_full_text_marks_by_blanks_and_shows_six_figures_of_a_walk() {
        let expected = concat!(
            "memcg     1 /\n",
            " node     0\n",
            "          7      61234          0x      18211 \n",
            "                     0          0           0           0         410r       9000e          0p\n",
            "                                0           0           0           0           0           0 \n",
            "         10        204     131072         512 \n",
            "                     0        120R       4000T          0         260R       7000T          0 \n",
            "                           524288L     520192O       4096Y       1024N        300F        120A\n",
        );
        assert_eq!(format_full(&[view(FullStyle::Blank)]), expected);
    }
}
