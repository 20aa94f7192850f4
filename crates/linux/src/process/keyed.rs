//! Lines `NAME: N kB`, in which the kernel tells memory: `meminfo`, `status`, `smaps_rollup`.

/// The bytes of the line of that name; `None`: there is none, or it tells something else.
pub fn keyed_bytes(text: &str, name: &str) -> Option<u64> {
    let value = |line: &'_ str| {
        let value = line.strip_prefix(name)?.strip_prefix(':')?;
        let kib: u64 = value.trim().trim_end_matches(" kB").parse().ok()?;
        kib.checked_mul(1024)
    };
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_whole_name() {
        let text = "VmSwapX:\t 1 kB\nVmSwap:\t     12 kB\nRssAnon: x kB\nName:\tSwap: 1 kB\nHugetlb:  7 kB\n";
        assert_eq!(keyed_bytes(text, "VmSwap"), Some(12 << 10));
        assert_eq!(keyed_bytes(text, "Hugetlb"), Some(7 << 10));
        for none in ["RssAnon", "RssFile", "Swap", "Vm"] {
            assert_eq!(keyed_bytes(text, none), None, "{none}");
        }
    }
}
