//! What most tests need, in one line: `use crate::support::prelude::*`.
//!
//! **Owns** no item. **Does not own** what is said in few tests only, which those import by name.

pub(crate) use std::collections::{BTreeMap, BTreeSet, HashSet};
pub(crate) use std::fs::{self, File};
pub(crate) use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
pub(crate) use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
pub(crate) use std::os::unix::process::CommandExt;
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::{Child, Command, Output, Stdio};
pub(crate) use std::thread::{self, sleep};
pub(crate) use std::time::{Duration, Instant};

pub(crate) use rustix::process::Signal;
pub(crate) use serde_json::{Value, json};
pub(crate) use tempfile::TempDir;

pub(crate) use crate::support;
pub(crate) use crate::support::helper::*;
pub(crate) use crate::support::json::*;
pub(crate) use crate::support::leaks::*;
pub(crate) use crate::support::live::*;
pub(crate) use crate::support::programs::*;
pub(crate) use crate::support::prometheus::*;
pub(crate) use crate::support::residency::*;
pub(crate) use crate::support::room::*;
pub(crate) use crate::support::run::*;
pub(crate) use crate::support::strata::*;
pub(crate) use crate::support::working_set::*;
