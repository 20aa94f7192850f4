//! Paths of groups in files, for `#[serde(with)]`: they are bytes, and JSON is text.
//!
//! **Owns** writing and reading them. **Does not own** the text (`name`).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serializer};

use super::name::{path_of, text_of};

/// Writes a path.
///
/// # Errors
/// Those of the format.
pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text_of(path))
}

/// Reads one.
///
/// # Errors
/// Those of the format.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Ok(path_of(Path::new(&String::deserialize(from)?)))
}

/// A path that may be none, written and read as one that is there.
pub mod option {
    use std::path::{Path, PathBuf};

    use crate::cgroup::name::{path_of, text_of};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a path, or none.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(text_of).serialize(to)
    }

    /// Reads one, or none.
    ///
    /// # Errors
    /// Those of the format.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        Ok(text.map(|text| path_of(Path::new(&text))))
    }
}
