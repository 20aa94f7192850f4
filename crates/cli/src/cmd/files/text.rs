//! The table of `strata files`.
//!
//! **Owns** the columns and the lines below them. **Does not own** any figure.

use strata_host::observe::files::{FileRow, FilesReport, Recency};
use strata_linux::page_cache::{Dropped, Left};
use strata_linux::units::Bytes;
use strata_sim::table::aligned;

/// The whole answer.
pub(super) fn table(report: &FilesReport, dropped: Option<&Dropped>, is_dry_run: bool) -> String {
    let of_use = match report.watched {
        None => "     USED",
        Some(_) => "     READ|     IDLE|  UNKNOWN|   MAPPED",
    };
    let head = format!("    CACHED|{of_use}|    DIRTY|<OPEN|<GROUP|<FILE");
    let rows = report.files.iter();
    let rows = rows.map(|file| row(file, report.sampled_share < 1.0));
    let mut text = aligned(&head, rows);
    text += &summary(report);
    if let Some(dropped) = dropped {
        text += &of_dropped(dropped, is_dry_run);
    }
    text
}

/// A size, with a mark if it is an estimate.
fn size(bytes: u64, is_estimate: bool) -> String {
    match is_estimate && bytes > 0 {
        true => format!("~{}", Bytes(bytes)),
        false => Bytes(bytes).to_string(),
    }
}

fn row(file: &FileRow, is_estimate: bool) -> Vec<String> {
    let size = |bytes| size(bytes, is_estimate);
    let of_use = match file.recency {
        None => vec![file.used_bytes],
        Some(recency) => vec![
            recency.read_bytes,
            recency.idle_bytes,
            recency.unknown_bytes,
            file.mapped_bytes,
        ],
    };
    let deleted = if file.is_deleted { " (deleted)" } else { "" };
    let mut row = vec![size(file.cached_bytes)];
    row.extend(of_use.into_iter().map(size));
    row.extend([
        size(file.dirty_bytes),
        if file.is_open { "yes" } else { "no" }.to_owned(),
        file.group.clone(),
        format!("{}{deleted}", file.path),
    ]);
    row
}

/// What all files have together, and how far that is to be trusted.
fn summary(report: &FilesReport) -> String {
    let total = size(report.total_bytes, report.sampled_share < 1.0);
    let listed = match report.nr_files - report.files.len() as u64 {
        0 => String::new(),
        nr_left => format!("; {nr_left} are not listed (--top 0 lists all)"),
    };
    let files = nr_files(report.nr_files);
    let sampled = match report.sampled_share < 1.0 {
        false => String::new(),
        true => format!(
            "estimated from {:.1} % of memory; the page cache of the machine to +-{} (95 %); --whole looks at all of it\n",
            report.sampled_share * 100.0,
            Bytes(report.error_bytes)
        ),
    };
    let watched = report.watched.map(|watched| {
        let Recency {
            read_bytes,
            unknown_bytes,
            unknown_idle,
            idle_bytes,
        } = watched.recency;
        let estimate = unknown_idle.map(|estimate| {
            format!(
                " (of which {} +-{} not read, by a sample whose counts were reset)",
                Bytes(estimate.idle_bytes),
                Bytes(estimate.error_bytes)
            )
        });
        format!(
            "within {:.0} s: {} read, {} not read, {} not known{}, {} mapped\n",
            watched.seconds,
            Bytes(read_bytes),
            Bytes(idle_bytes),
            Bytes(unknown_bytes),
            estimate.unwrap_or_default(),
            Bytes(watched.mapped_bytes),
        )
    });
    format!(
        "{total} in {files}{listed}\n{}{sampled}",
        watched.unwrap_or_default()
    )
}

fn nr_files(count: u64) -> String {
    match count {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}

fn of_dropped(dropped: &Dropped, is_dry_run: bool) -> String {
    let files = nr_files(dropped.nr_files);
    let mut text = match is_dry_run {
        true => format!("would drop {} of {files}\n", Bytes(dropped.tried_bytes)),
        false => format!(
            "dropped {} of {} tried, of {files}\n",
            Bytes(dropped.dropped_bytes),
            Bytes(dropped.tried_bytes)
        ),
    };
    for (left, bytes) in &dropped.left_bytes {
        text += &format!("left {}: {}\n", Bytes(*bytes), reason(*left));
    }
    text
}

fn reason(left: Left) -> &'static str {
    match left {
        Left::Unreachable => "no path to the file is known, and no process has it open",
        Left::Replaced => "the file is gone, or another one is at its path",
        Left::NotRegular => "no regular file",
        Left::FileSystem => "neither on ext4 nor on xfs",
        Left::Refused => {
            "the file can't be opened: CAP_DAC_READ_SEARCH is missing, or somebody has a lease on it"
        }
        Left::InUse => "changed or mapped meanwhile, or being read",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::tests::assert_has;
    use strata_host::observe::files::Watched;
    use strata_linux::access::census::IdleEstimate;

    fn report(sampled_share: f64, nr_files: u64) -> FilesReport {
        FilesReport {
            files: vec![FileRow {
                path: "/var/lib/db".to_owned(),
                group: "/system.slice/db.service".to_owned(),
                cached_bytes: 3 << 20,
                used_bytes: 1 << 20,
                dirty_bytes: 4096,
                mapped_bytes: 0,
                nodes: [].into(),
                recency: None,
                is_open: false,
                is_deleted: true,
            }],
            nr_files,
            total_bytes: 5 << 20,
            watched: None,
            error_bytes: 1 << 20,
            sampled_share,
            lost_bytes: 0,
            cost: Default::default(),
        }
    }

    #[test]
    fn a_deleted_file_says_so_and_what_is_not_listed_is_counted() {
        let text = table(&report(1.0, 7), None, false);
        assert_has(&text, "/var/lib/db (deleted)\n");
        assert_has(&text, "5 MiB in 7 files; 6 are not listed");
        assert!(!text.contains("estimated") && !text.contains('~'), "{text}");
    }

    #[test]
    fn an_estimate_is_called_one() {
        let text = table(&report(0.25, 1), None, false);
        assert_has(&text, "~5 MiB in 1 file\n");
        assert_has(&text, "    ~3 MiB     ~1 MiB     ~4 KiB  no");
        assert_has(&text, "estimated from 25.0 % of memory");
        assert_has(&text, "+-1 MiB");
    }

    #[test]
    fn a_watch_has_columns_of_its_own_and_its_sums_below() {
        let recency = Recency {
            read_bytes: 1 << 20,
            unknown_bytes: 512 << 10,
            unknown_idle: None,
            idle_bytes: 2 << 20,
        };
        let mut report = report(1.0, 1);
        report.files[0].recency = Some(recency);
        report.watched = Some(Watched {
            seconds: 60.2,
            nr_censuses: 7,
            mapped_bytes: 0,
            resets: None,
            recency,
        });
        let text = table(&report, None, false);
        assert_has(&text, "READ       IDLE    UNKNOWN     MAPPED");
        assert!(!text.contains("USED"), "{text}");
        assert_has(
            &text,
            "within 60 s: 1 MiB read, 2 MiB not read, 512 KiB not known, 0 B mapped",
        );
        if let Some(watched) = &mut report.watched {
            watched.recency.unknown_idle = Some(IdleEstimate {
                idle_bytes: 256 << 10,
                error_bytes: 64 << 10,
            });
        }
        let text = table(&report, None, false);
        assert!(
            text.contains("512 KiB not known (of which 256 KiB +-64 KiB not read, by a sample"),
            "{text}"
        );
    }

    #[test]
    fn what_was_dropped_and_what_was_left_is_told_with_the_reason() {
        let dropped = Dropped {
            nr_files: 3,
            idle_bytes: 9 << 20,
            tried_bytes: 8 << 20,
            dropped_bytes: 7 << 20,
            left_bytes: [
                (Left::InUse, 1 << 20),
                (Left::Unreachable, 1 << 20),
                (Left::Refused, 2 << 20),
            ]
            .into(),
        };
        let text = table(&report(1.0, 1), Some(&dropped), false);
        assert_has(&text, "dropped 7 MiB of 8 MiB tried, of 3 files\n");
        assert_has(&text, "left 1 MiB: no path");
        assert_has(
            &text,
            "left 2 MiB: the file can't be opened: CAP_DAC_READ_SEARCH is missing",
        );
        assert_has(&text, "left 1 MiB: changed or mapped");
        let text = table(&report(1.0, 1), Some(&dropped), true);
        assert_has(&text, "would drop 8 MiB of 3 files\n");
    }
}
