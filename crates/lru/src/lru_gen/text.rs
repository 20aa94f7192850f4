//! The plain form: groups, nodes, generations, one a line.
//!
//! ```text
//! memcg     1 /
//!  node     0
//!           7      61234          0       18211
//!           8      30517      20480       40960
//! ```
//!
//! A generation's line holds its number, its age in ms, base pages of anon and of file, each in
//! eleven columns, and ends in a space. Sizes the window has moved past are printed as 0, so a text
//! read back says 0 where the view said nothing.
//!
//! **Owns** the layout. **Does not own** the numbers.

use std::fmt::Write;

use crate::{
    ids::{GenSeq, GroupId, NodeId},
    seam::{GenerationView, GroupView},
};

/// Writes views as the kernel does; consecutive views of one group share its line. A line break in
/// a path, which no cgroup can have, becomes `?`.
pub fn format_plain(views: &[GroupView]) -> String {
    let mut text = String::new();
    let mut group = None;
    for view in views {
        if group != Some(view.group) {
            group = Some(view.group);
            push(
                &mut text,
                format_args!(
                    "memcg {:5} {}\n",
                    view.group.0,
                    view.path.replace('\n', "?")
                ),
            );
        }
        push(&mut text, format_args!(" node {:5}\n", view.node.0));
        for of in &view.generations {
            let [anon, file] = of.nr_pages.map(Option::unwrap_or_default);
            let (seq, age_ms) = (of.seq.0, of.age_ms);
            push(
                &mut text,
                format_args!(" {seq:10} {age_ms:10} {anon:10}  {file:10} \n"),
            );
        }
    }
    text
}

/// A line that is not of the form the kernel writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line_number}: {reason}: {line:?}")]
pub struct ParseError {
    /// Counted from 1.
    pub line_number: usize,
    /// The line.
    pub line: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Reads the kernel's text back.
pub fn parse_plain(text: &str) -> Result<Vec<GroupView>, ParseError> {
    let mut views: Vec<GroupView> = Vec::new();
    let mut group: Option<(GroupId, String)> = None;
    let mut has_node = false;
    for (position, line) in text.split_terminator('\n').enumerate() {
        let wrong = |reason| ParseError {
            line_number: position + 1,
            line: line.to_owned(),
            reason,
        };
        if let Some(rest) = line.strip_prefix("memcg ") {
            let (number, path) = rest
                .trim_start()
                .split_once(' ')
                .ok_or_else(|| wrong("no path"))?;
            let number = number
                .parse()
                .map_err(|_| wrong("not a memcg number (0..=65535)"))?;
            group = Some((GroupId(number), path.to_owned()));
            has_node = false;
        } else if let Some(rest) = line.strip_prefix(" node ") {
            let node = rest
                .trim()
                .parse()
                .map_err(|_| wrong("not a node number (0..=255)"))?;
            let (group, path) = group
                .clone()
                .ok_or_else(|| wrong("a node before any memcg"))?;
            let generations = Vec::new();
            views.push(GroupView {
                group,
                path,
                node: NodeId(node),
                generations,
            });
            has_node = true;
        } else {
            let view = views.last_mut().filter(|_| has_node);
            let view = view.ok_or_else(|| wrong("a generation before any node"))?;
            view.generations
                .push(generation(line).ok_or_else(|| wrong("not `seq age anon file`"))?);
        }
    }
    Ok(views)
}

/// The part of the kernel's text, plain or full, that is about the group at `path`; `None` if it is not
/// listed. A kernel lists every group there is, and only the one that is asked for has to be read.
///
/// ```
/// let text = "memcg     1 /\n node     0\nmemcg     7 /a\n node     0\n";
/// assert_eq!(strata_lru::lru_gen::section_of(text, "/a"), Some("memcg     7 /a\n node     0\n"));
/// assert_eq!(strata_lru::lru_gen::section_of(text, "/b"), None);
/// ```
pub fn section_of<'a>(text: &'a str, path: &str) -> Option<&'a str> {
    let mut begin = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("memcg ") {
            if let Some(begin) = begin {
                return text.get(begin..at);
            }
            let listed = rest.trim_start().split_once(' ').map(|(_, path)| path);
            if listed.map(|listed| listed.trim_end_matches('\n')) == Some(path) {
                begin = Some(at);
            }
        }
        at += line.len();
    }
    begin.and_then(|begin| text.get(begin..))
}

fn generation(line: &str) -> Option<GenerationView> {
    let mut numbers = line
        .split_ascii_whitespace()
        .map(|field| field.parse::<u64>().ok());
    let (seq, age_ms) = (numbers.next()??, numbers.next()??);
    let nr_pages = [Some(numbers.next()??), Some(numbers.next()??)];
    numbers.next().is_none().then_some(GenerationView {
        seq: GenSeq(seq),
        age_ms,
        nr_pages,
    })
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line)
        .expect("writing to a string can't fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KERNEL_TEXT: &str = concat!(
        "memcg     1 /\n",
        " node     0\n",
        "          7      61234          0       18211 \n",
        "          8      30517      20480       40960 \n",
        "         10        204     131072         512 \n",
    );

    #[test]
    fn the_kernels_text_is_read_and_written_to_the_byte() {
        let views = parse_plain(KERNEL_TEXT).unwrap();
        assert_eq!(views.len(), 1);
        assert_eq!((views[0].group, views[0].path.as_str()), (GroupId(1), "/"));
        let first = views[0].generations[0];
        assert_eq!((first.seq, first.age_ms), (GenSeq(7), 61_234));
        assert_eq!(first.nr_pages, [Some(0), Some(18_211)]);
        assert_eq!(format_plain(&views), KERNEL_TEXT);
    }

    #[test]
    fn nodes_of_a_group_share_its_line() {
        let view = |node| GroupView {
            group: GroupId(2),
            path: "/a\nb\\x2d c".to_owned(),
            node: NodeId(node),
            generations: vec![GenerationView {
                seq: GenSeq(3),
                age_ms: 0,
                nr_pages: [None, Some(1)],
            }],
        };
        let line = "          3          0          0           1 \n";
        let expected = format!("memcg     2 /a?b\\x2d c\n node     0\n{line} node     1\n{line}");
        assert_eq!(format_plain(&[view(0), view(1)]), expected);
    }

    #[test]
    fn a_line_out_of_place_is_named() {
        let node_first = parse_plain(" node     0\n").unwrap_err();
        assert_eq!(
            (node_first.line_number, node_first.reason),
            (1, "a node before any memcg")
        );
        let cut = KERNEL_TEXT.replace("512", "");
        assert_eq!(parse_plain(&cut).unwrap_err().line_number, 5);
        let no_node = "memcg 1 /\n 1 2 3 4\n";
        assert_eq!(
            parse_plain(no_node).unwrap_err().reason,
            "a generation before any node"
        );
        let too_many = format!("{KERNEL_TEXT} 1 2 3 4 5\n");
        assert_eq!(parse_plain(&too_many).unwrap_err().line_number, 6);
    }

    proptest! {
        #[test]
        fn any_views_survive_text(
            groups in proptest::collection::vec(
                ("/[ -~]{0,12}", 0..3u8, proptest::collection::vec(
                    (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>()), 0..4)),
                0..4),
        ) {
            let views: Vec<GroupView> = groups.into_iter().enumerate().map(|(n, of)| GroupView {
                group: GroupId(n as u16),
                path: of.0,
                node: NodeId(of.1),
                generations: of.2.into_iter().map(|(seq, age, anon, file)| GenerationView {
                    seq: GenSeq(seq.into()),
                    age_ms: age.into(),
                    nr_pages: [Some(anon), Some(file)],
                }).collect(),
            }).collect();
            let text = format_plain(&views);
            prop_assert_eq!(&parse_plain(&text).unwrap(), &views);
            for view in &views {
                let section = section_of(&text, &view.path).unwrap();
                let first = views.iter().find(|of| of.path == view.path).unwrap();
                prop_assert_eq!(&parse_plain(section).unwrap()[0], first);
            }
        }

        #[test]
        fn no_text_is_too_odd_to_look_a_group_up_in(text in "(memcg |node | |/a|[0-9]|\\PC|\n){0,60}") {
            let _ = parse_plain(&text);
            if let Some(section) = section_of(&text, "/a") {
                prop_assert!(text.contains(section) && section.starts_with("memcg "));
            }
        }
    }
}
