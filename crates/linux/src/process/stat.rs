//! `/proc/PID/stat`: the figures of a process that are cheap to have.
//!
//! **Owns** the field positions (proc(5)); the command name may hold spaces and parentheses, so
//! fields are counted from the last one. **Does not own** reading the file.

use std::time::Duration;

/// The fields of `/proc/PID/stat` that Strata uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Command name, at most 15 bytes, without control characters.
    pub comm: String,
    /// State letter: `R` running, `S` sleeping, `D` in I/O, `T` stopped, `Z` zombie, ...
    pub state: char,
    /// The parent's pid.
    pub ppid: i32,
    /// Process group of the process.
    pub process_group: i32,
    /// Session of the process.
    pub session: i32,
    /// Number of its terminal; 0: none.
    pub terminal: u64,
    /// Process group in front at that terminal; -1: none.
    pub foreground_group: i32,
    /// Kernel thread?
    pub is_kernel_thread: bool,
    /// About to end: what it is in and what it has is being given back.
    pub is_exiting: bool,
    /// Minor faults, whole thread group.
    pub nr_minor_faults: u64,
    /// Major faults, whole thread group.
    pub nr_major_faults: u64,
    /// User and system CPU time, clock ticks (10 ms).
    pub cpu_ticks: u64,
    /// Threads that have not ended, and the first one, ended or not.
    pub nr_threads: u64,
    /// When it started, clock ticks after boot: pid and start time name a process for good.
    pub start_ticks: u64,
    /// Resident pages by the kernel's approximate counters.
    pub rss_pages: u64,
    /// Bottom of the main stack: differs between two programs run one after the other in a pid.
    pub start_stack: u64,
}

/// A clock tick of proc(5) on every machine Strata knows.
const TICK_MS: u64 = 10;
/// `PF_EXITING` of the kernel's task flags.
const PF_EXITING: u64 = 0x4;
/// `PF_KTHREAD` of the kernel's task flags.
const PF_KTHREAD: u64 = 0x0020_0000;

impl Stat {
    /// Whether the process has ended, though its parent may not have noticed: that its first thread has is no end of the others.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.nr_threads <= 1
    }

    /// User and system CPU time.
    pub fn cpu(&self) -> Duration {
        Duration::from_millis(self.cpu_ticks * TICK_MS)
    }

    /// Parses one line; `None` if it is not in the format of proc(5).
    pub fn parse(text: &str) -> Option<Stat> {
        let open = text.find('(')?;
        let close = text.rfind(')')?;
        let comm = crate::plain::line(text.get(open + 1..close)?).into_owned();
        // fields[0] is field 3 of proc(5).
        let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            comm,
            state: fields.first()?.chars().next()?,
            ppid: fields.get(1)?.parse().ok()?,
            process_group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            terminal: number(7)?,
            foreground_group: fields.get(5)?.parse().ok()?,
            is_kernel_thread: number(9)? & PF_KTHREAD != 0,
            is_exiting: number(9)? & PF_EXITING != 0,
            nr_minor_faults: number(10)?,
            nr_major_faults: number(12)?,
            cpu_ticks: number(14)?.checked_add(number(15)?)?,
            nr_threads: number(20)?,
            start_ticks: number(22)?,
            rss_pages: number(24)?,
            start_stack: number(28)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "77 (a (b) c) d) S 12 77 78 0 -1 4194560 101 202 303 404 5 6 7 8 20 0 1 0 \
                        4242 1000000 555 18446744073709551615 1 2 140000 0 0 0 0 0 0 0 0 0 17 3 0 0";

    #[test]
    fn a_name_full_of_parentheses_does_not_shift_the_fields() {
        let stat = Stat::parse(LINE).unwrap();
        assert_eq!(stat.comm, "a (b) c) d");
        let odd = LINE.replace("a (b) c) d", "e\x1b[2J\nf");
        let stat = Stat::parse(&odd).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state), ("e?[2J?f", 'S'));
        assert_eq!((stat.state, stat.ppid), ('S', 12));
        assert_eq!((stat.process_group, stat.session), (77, 78));
        assert_eq!((stat.terminal, stat.foreground_group), (0, -1));
        assert_eq!((stat.nr_minor_faults, stat.nr_major_faults), (101, 303));
        assert_eq!((stat.cpu_ticks, stat.start_ticks), (11, 4242));
        assert_eq!((stat.rss_pages, stat.start_stack), (555, 140_000));
        assert!(!stat.is_kernel_thread && !stat.is_exiting);
    }

    #[test]
    fn kernel_threads_are_told_by_their_flag() {
        let text = LINE.replace("4194560", "2129984");
        assert!(Stat::parse(&text).unwrap().is_kernel_thread);
    }

    #[test]
    fn a_first_thread_that_has_ended_is_no_end_of_its_process() {
        let ended = LINE.replace(" S 12", " Z 12");
        assert!(Stat::parse(&ended).unwrap().has_ended());
        let goes_on = ended.replace(" 20 0 1 0 4242", " 20 0 3 0 4242");
        assert_ne!(goes_on, ended);
        assert!(!Stat::parse(&goes_on).unwrap().has_ended());
        assert!(!Stat::parse(LINE).unwrap().has_ended());
    }

    #[test]
    fn who_is_about_to_end_is_told_by_its_flag() {
        let text = LINE.replace("4194560", "4194564");
        assert!(Stat::parse(&text).unwrap().is_exiting);
    }

    #[test]
    fn half_a_line_is_no_process() {
        assert_eq!(Stat::parse("77 (x) S 12 77"), None);
        assert_eq!(Stat::parse(")("), None);
        assert_eq!(Stat::parse(""), None);
    }
}
