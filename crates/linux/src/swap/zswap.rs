//! zswap's switch, which is one for the whole machine.
//!
//! Several Stratas may want it on at once, so its former value and a file for each user are kept
//! beside the state directories, under a lock: the first writes the value down, the last puts it back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{SwapError, status};
use crate::run_dir::{ZSWAP_DIR, boot_id, lock_run_dir, run_dir};

const SWITCH: &str = "/sys/module/zswap/parameters/enabled";

/// Fails where the kernel has no zswap.
pub(super) fn check() -> Result<(), SwapError> {
    if Path::new(SWITCH).exists() {
        Ok(())
    } else {
        Err(SwapError::NoZswap)
    }
}

/// Memory of the whole pool.
pub(super) fn memory_bytes() -> Result<u64, SwapError> {
    // Kernels before 5.19 do not say; then nothing is known to be taken.
    Ok(status::meminfo_bytes("Zswap").unwrap_or(0))
}

fn directory() -> PathBuf {
    run_dir().join(ZSWAP_DIR)
}

/// Switches it on for this user.
pub(super) fn acquire(user: &str) -> Result<(), SwapError> {
    let _lock = lock_run_dir("zswap").map_err(SwapError::Journal)?;
    let directory = directory();
    let former = directory.join("former");
    let noted = note_user(&directory, &former, user);
    noted.map_err(SwapError::io("writing", &former))?;
    fs::write(SWITCH, "Y").map_err(SwapError::io("writing", Path::new(SWITCH)))
}

fn note_user(directory: &Path, former: &Path, user: &str) -> io::Result<()> {
    let boot_id = boot_id()?;
    if read_former(former, &boot_id).is_none() {
        // Nobody before us, or somebody before a reboot.
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(directory)?,
        }
        let value = fs::read_to_string(SWITCH)?;
        fs::write(former, format!("{boot_id}\n{}\n", value.trim()))?;
    }
    fs::write(directory.join(format!("user-{user}")), "")
}

fn read_former(former: &Path, boot_id: &str) -> Option<String> {
    let text = fs::read_to_string(former).ok()?;
    let mut lines = text.lines();
    (lines.next()? == boot_id).then(|| lines.next().map(str::to_owned))?
}

/// Lets go of it; the last user puts the former value back. Done twice it does nothing.
pub(super) fn release(user: &str) -> Result<(), SwapError> {
    let _lock = lock_run_dir("zswap").map_err(SwapError::Journal)?;
    let directory = directory();
    let failed = |source| SwapError::io("updating", &directory)(source);
    match fs::remove_file(directory.join(format!("user-{user}"))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(()) => {}
    }
    let has_users = fs::read_dir(&directory)
        .map_err(failed)?
        .flatten()
        .any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"user-"));
    if has_users {
        return Ok(());
    }
    let boot_id = boot_id().map_err(failed)?;
    if let Some(value) = read_former(&directory.join("former"), &boot_id) {
        fs::write(SWITCH, value).map_err(SwapError::io("writing", Path::new(SWITCH)))?;
    }
    fs::remove_dir_all(&directory).map_err(failed)
}
