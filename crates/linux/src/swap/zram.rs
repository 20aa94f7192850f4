//! zram: a compressed block device in memory.
//!
//! **Owns** taking a device (added for us, or a free one), setting it up and giving it back.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::{Backing, SwapError, SwapRecord, header, start, status};
use crate::addr::PAGE_BYTES;
use crate::run_dir::lock_run_dir;
use crate::undo::Journal;

const CONTROL: &str = "/sys/class/zram-control";
/// udev opens a device for a moment when it appears or changes.
const BUSY_TRIES: u32 = 100;
const BUSY_POLL: Duration = Duration::from_millis(20);

/// Memory that a device takes, fragmentation and metadata included.
pub(super) fn memory_bytes(index: u32) -> Result<u64, SwapError> {
    let path = attribute(index, "mm_stat");
    let text = fs::read_to_string(&path).map_err(SwapError::io("reading", &path))?;
    // Behind what it holds before and after compression.
    let field = text.split_ascii_whitespace().nth(2);
    field
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| SwapError::io("reading", &path)(io::ErrorKind::InvalidData.into()))
}

pub(super) fn create(
    size_bytes: u64,
    algorithm: Option<&str>,
    journal: &Journal,
) -> Result<SwapRecord, SwapError> {
    let size_bytes = size_bytes - size_bytes % PAGE_BYTES;
    // Held until the device is set up: from then on others see that it is taken.
    let _lock = lock_run_dir("zram").map_err(SwapError::Journal)?;
    let (index, is_hot_added) = take_device()?;
    let record = SwapRecord {
        path: device(index),
        uuid: header::fresh_uuid().map_err(SwapError::Journal)?,
        backing: Backing::Zram {
            index,
            is_hot_added,
        },
        number: None,
    };
    start(record, journal, |record| {
        if let Some(algorithm) = algorithm {
            set_algorithm(index, algorithm)?;
        }
        set(index, "disksize", size_bytes)?;
        set(index, "mem_limit", size_bytes)?;
        let opened = OpenOptions::new().read(true).write(true).open(&record.path);
        opened
            .and_then(|file| header::write(&file, size_bytes, &record.uuid))
            .map_err(SwapError::io("writing the swap header of", &record.path))
    })
}

/// A device of our own if one can be added, else one that nobody uses.
fn take_device() -> Result<(u32, bool), SwapError> {
    load_module()?;
    let hot_add = Path::new(CONTROL).join("hot_add");
    let why = match fs::read_to_string(&hot_add) {
        Ok(text) => match text.trim().parse() {
            Ok(index) => match wait_for_node(index) {
                Ok(()) => return Ok((index, true)),
                Err(error) => {
                    hot_remove(index)?;
                    error.to_string()
                }
            },
            Err(_) => format!("{} says {text:?}", hot_add.display()),
        },
        Err(error) => format!("{}: {error}", hot_add.display()),
    };
    free_device()
        .map(|index| (index, false))
        .ok_or(SwapError::NoFreeZram { why })
}

fn load_module() -> Result<(), SwapError> {
    if Path::new(CONTROL).exists() {
        return Ok(());
    }
    let tried = Command::new("modprobe")
        .args(["zram", "num_devices=1"])
        .stdin(Stdio::null())
        .output();
    if Path::new(CONTROL).exists() {
        return Ok(());
    }
    let why = match tried {
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("modprobe: {error}"),
    };
    Err(SwapError::NoZram { why })
}

fn wait_for_node(index: u32) -> io::Result<()> {
    let path = device(index);
    for _ in 0..BUSY_TRIES {
        if path.exists() {
            return Ok(());
        }
        thread::sleep(BUSY_POLL);
    }
    let why = format!("{} did not appear", path.display());
    Err(io::Error::new(io::ErrorKind::NotFound, why))
}

/// A device that was never set up (`disksize` 0) and is not swapped to or otherwise claimed.
fn free_device() -> Option<u32> {
    let mut indices: Vec<u32> = fs::read_dir("/sys/block")
        .ok()?
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix("zram")?
                .parse()
                .ok()
        })
        .collect();
    indices.sort_unstable();
    indices.into_iter().find(|&index| {
        let is_zero = |name| read_number(index, name) == Some(0);
        let is_swap = status::area_at(&device(index)).map_or(true, |area| area.is_some());
        is_zero("disksize") && is_zero("initstate") && !is_swap && device(index).exists()
    })
}

fn set_algorithm(index: u32, algorithm: &str) -> Result<(), SwapError> {
    let path = attribute(index, "comp_algorithm");
    let text = fs::read_to_string(&path).map_err(SwapError::io("reading", &path))?;
    // "[lzo-rle] lzo lz4": the one in brackets is set now.
    let offered: Vec<&str> = text
        .split_ascii_whitespace()
        .map(|name| name.trim_matches(['[', ']']))
        .collect();
    if !offered.contains(&algorithm) {
        return Err(SwapError::UnknownAlgorithm {
            algorithm: algorithm.to_owned(),
            offered: offered.join(", "),
        });
    }
    fs::write(&path, algorithm).map_err(|source| SwapError::UnusableAlgorithm {
        algorithm: algorithm.to_owned(),
        source,
    })
}

/// The algorithm that a device compresses with: "[lzo-rle] lzo lz4" has it in brackets.
pub(super) fn algorithm(index: u32) -> Option<String> {
    let text = fs::read_to_string(attribute(index, "comp_algorithm")).ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn set(index: u32, name: &str, value: u64) -> Result<(), SwapError> {
    let path = attribute(index, name);
    fs::write(&path, value.to_string()).map_err(SwapError::io("writing", &path))
}

/// Empties a device that is no longer swapped to.
pub(super) fn reset(index: u32) -> Result<(), SwapError> {
    let path = attribute(index, "reset");
    if !path.exists() {
        return Ok(());
    }
    while_busy(|| fs::write(&path, "1")).map_err(SwapError::io("writing", &path))
}

/// Removes a device that we added. One in use, or gone, is left.
pub(super) fn hot_remove(index: u32) -> Result<(), SwapError> {
    let path = Path::new(CONTROL).join("hot_remove");
    if read_number(index, "disksize") != Some(0) {
        return Ok(());
    }
    while_busy(|| fs::write(&path, index.to_string())).map_err(SwapError::io("writing", &path))
}

fn while_busy(mut action: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..BUSY_TRIES {
        match action() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => thread::sleep(BUSY_POLL),
            other => return other,
        }
    }
    action()
}

fn device(index: u32) -> PathBuf {
    PathBuf::from(format!("/dev/zram{index}"))
}

fn attribute(index: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{index}/{name}"))
}

fn read_number(index: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(attribute(index, name)).ok()?;
    text.trim().parse().ok()
}
