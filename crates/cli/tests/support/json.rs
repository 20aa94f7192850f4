//! What is in the JSON that Strata and the workloads print.
//!
//! **Owns** reading files and numbers, with a message that shows what was there instead. **Does not own** any expectation.

use std::path::Path;

use serde_json::Value;

/// The one object of a file.
#[track_caller]
pub(crate) fn json_in(path: impl AsRef<Path>) -> Value {
    let text = std::fs::read_to_string(path).expect("a file of JSON");
    parsed(&text)
}

/// The one object of a text.
#[track_caller]
pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// What has to be a number.
#[track_caller]
pub(crate) fn number(value: &Value) -> u64 {
    let number = value.as_u64();
    number.unwrap_or_else(|| panic!("{value} is no number"))
}

/// The number at a JSON pointer.
#[track_caller]
pub(crate) fn number_at(of: &Value, pointer: &str) -> u64 {
    let found = of.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no number at {pointer} in {of:#}"))
}

/// What a report warns of, but for swap that is left to the keeper: other tests beside this one have pages in it.
#[track_caller]
pub(crate) fn warnings(report: &Value) -> Vec<&str> {
    let all = report["warnings"].as_array().expect("a list");
    let texts = all.iter().filter_map(Value::as_str);
    texts
        .filter(|text| !text.starts_with("left to the keeper: swap "))
        .collect()
}
