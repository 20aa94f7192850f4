//! The sizes of generations over time, one upon the other, the oldest at the bottom.
//!
//! A generation keeps its colour for life, so a band that sinks and thins is one growing old.
//!
//! **Owns** the bands of one run. **Does not own** axes (`svg`).

use super::{
    COLOURS,
    svg::{Frame, Point, Svg, short},
};
use crate::{generations::Sample, report::Record};

/// Generations named in the legend, from the youngest.
const NR_LEGEND: usize = 12;

pub(super) fn draw(svg: &mut Svg, frame: Frame, record: &Record) {
    let samples = record.samples();
    let size = |sample: &Sample| sample.generations.iter().flat_map(|one| one.nr_pages).sum();
    let memory_pages = u64::from(record.memory_pages);
    let most = samples
        .iter()
        .map(size)
        .max()
        .unwrap_or(0)
        .max(memory_pages);
    let x_max = samples.last().map_or(0, |last| last.at_access);
    let frame = frame.spanning(x_max, most + most / 20);
    let title = format!("{}: generations of {}", record.trace, record.policy);
    frame.draw(svg, &title, ["accesses", "pages"], short);
    let mut seqs: Vec<u64> = samples
        .iter()
        .flat_map(|sample| sample.generations.iter().map(|one| one.seq))
        .collect();
    seqs.sort_unstable();
    seqs.dedup();
    for seq in &seqs {
        let band = band(frame, samples, *seq);
        svg.area(&band, format_args!("fill=\"{}\"", colour(*seq)));
    }
    let memory = (frame.at(0, memory_pages), frame.at(x_max, memory_pages));
    svg.line(
        memory.0,
        memory.1,
        "stroke=\"#000000\" stroke-dasharray=\"4 3\"",
    );
    for (number, seq) in seqs.iter().rev().take(NR_LEGEND).enumerate() {
        frame.legend(svg, number, colour(*seq), &format!("generation {seq}"));
    }
}

fn colour(seq: u64) -> &'static str {
    COLOURS[(seq % COLOURS.len() as u64) as usize]
}

/// The outline of a generation: its lower edge to the right, its upper edge back.
fn band(frame: Frame, samples: &[Sample], seq: u64) -> Vec<Point> {
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    let mut was_there = false;
    for (at, sample) in samples.iter().enumerate() {
        let below = |older: bool| -> u64 {
            let counted = sample
                .generations
                .iter()
                .filter(|one| one.seq < seq || !older && one.seq == seq);
            counted.flat_map(|one| one.nr_pages).sum()
        };
        let is_here = sample.generations.iter().any(|one| one.seq == seq);
        // Begins and ends with no width at the samples around it.
        let is_next = samples
            .get(at + 1)
            .is_some_and(|next| next.generations.iter().any(|one| one.seq == seq));
        if is_here || was_there || is_next {
            lower.push(frame.at(sample.at_access, below(true)));
            upper.push(frame.at(sample.at_access, below(false)));
        }
        was_there = is_here;
    }
    lower.extend(upper.into_iter().rev());
    lower
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generations::GenerationPages;

    #[test]
    fn a_band_opens_before_it_is_there_and_closes_after() {
        let frame = Frame::of_panel(0, 860, 340).spanning(30, 100);
        let sample = |at_access, sizes: &[(u64, u64)]| Sample {
            at_access,
            nr_misses: 0,
            generations: sizes
                .iter()
                .map(|&(seq, nr_file)| GenerationPages {
                    seq,
                    nr_pages: [0, nr_file],
                })
                .collect(),
        };
        let samples = [
            sample(10, &[(1, 40)]),
            sample(20, &[(1, 40), (2, 60)]),
            sample(30, &[(2, 50), (3, 50)]),
        ];
        let two = [(10, 40), (20, 40), (30, 0), (30, 50), (20, 100), (10, 40)];
        assert_eq!(band(frame, &samples, 2), two.map(|(x, y)| frame.at(x, y)));
        let one = [(10, 0), (20, 0), (30, 0), (30, 0), (20, 40), (10, 40)];
        assert_eq!(band(frame, &samples, 1), one.map(|(x, y)| frame.at(x, y)));
    }
}
