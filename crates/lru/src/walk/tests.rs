//! The density rule and the window of the look-around.

use proptest::prelude::*;

use super::*;

#[test]
fn a_table_is_dense_from_one_young_entry_in_eight_on() {
    assert!(is_dense(512, 64) && !is_dense(512, 63));
    assert!(is_dense(7, 1) && is_dense(8, 1) && !is_dense(9, 1));
}

proptest! {
    #[test]
    fn the_window_lies_around_the_page_in_its_mapping_and_table(
        start in 0..5000u64,
        length in 1..2000u64,
        offset in 0..2000u64,
        table in 0..10u64,
    ) {
        let table = table * 512..(table + 1) * 512;
        let mapping = start..start + length;
        let at = (start + offset % length).clamp(table.start, table.end - 1);
        prop_assume!(mapping.contains(&at));
        let window = look_around_window(at, mapping.clone(), table.clone());
        let first = mapping.start.max(table.start);
        let end = mapping.end.min(table.end);
        prop_assert!(window.contains(&at));
        prop_assert!(first <= window.start && window.end <= end);
        prop_assert_eq!(window.end - window.start, NR_LOOK_AROUND_ENTRIES.min(end - first));
        let is_centred = window.start + 32 == at;
        let is_at_edge = window.start == first || window.end == end;
        prop_assert!(is_centred || is_at_edge);
    }
}
