//! Loading the embedded BPF objects, and running their iterators over one task.
//!
//! **Owns** the file descriptors of what was loaded; libbpf's own memory (the kernel's type
//! information, tens of MiB) is given back as soon as loading is done. **Does not own** the meaning
//! of the memory shared with a program (`bpf_shared`), nor what is walked.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use libbpf_rs::libbpf_sys;
use libbpf_rs::{MapCore, ObjectBuilder, PrintLevel};

use super::bpf_shared::SharedMemory;

pub(super) static WALK_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/walk.bpf.o"));
pub(super) static VMA_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vma.bpf.o"));

/// What libbpf had to say during a load; loads hold the lock, so that their texts do not mix.
static LOADING: Mutex<()> = Mutex::new(());
static MESSAGES: Mutex<String> = Mutex::new(String::new());
/// Bytes of libbpf's messages that an error quotes, from the end.
const MESSAGES_MAX: usize = 600;

/// Whose tasks an iterator visits, by number in our pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One thread.
    Thread(i32),
    /// All threads of a process.
    Process(i32),
}

/// A loaded iterator program.
#[derive(Debug)]
pub(crate) struct IterProgram {
    program: OwnedFd,
}

/// Loads the page-table walk and maps the memory it shares.
pub(crate) fn load_walk() -> io::Result<(IterProgram, SharedMemory)> {
    let (program, map) = load(WALK_OBJECT, "walk_task", Some(".bss.shared"))?;
    let map = map.ok_or_else(|| io::Error::other("the walk object has no shared map"))?;
    Ok((IterProgram { program }, SharedMemory::map(map.as_fd())?))
}

/// Loads the lister of mappings, which streams `struct vma_record`s.
pub(crate) fn load_vma_lister() -> io::Result<IterProgram> {
    let (program, _) = load(VMA_OBJECT, "list_vmas", None)?;
    Ok(IterProgram { program })
}

fn note_message(_level: PrintLevel, message: String) {
    if let Ok(mut messages) = MESSAGES.lock() {
        messages.push_str(&message);
    }
}

/// What of an object is loaded, and how large.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    /// Entries of maps, by name.
    pub(super) map_sizes: &'a [(&'a str, u32)],
    /// Programs that are left out.
    pub(super) left_out: &'a [&'a str],
}

/// Loads an object of programs that are called, and takes what `take` wants of it.
pub(super) fn load_called<T>(
    object: &[u8],
    parts: Parts<'_>,
    take: impl FnOnce(&libbpf_rs::Object) -> io::Result<T>,
) -> io::Result<T> {
    with_messages(|| {
        let mut open = ObjectBuilder::default();
        let mut open = open.open_memory(object).map_err(to_io)?;
        for mut map in open.maps_mut() {
            let is_it = |(name, _): &&(&str, u32)| map.name() == *name;
            if let Some((_, nr_entries)) = parts.map_sizes.iter().find(is_it) {
                map.set_max_entries(*nr_entries).map_err(to_io)?;
            }
        }
        for mut program in open.progs_mut() {
            let is_wanted = !parts.left_out.iter().any(|name| program.name() == *name);
            program.set_autoload(is_wanted);
        }
        take(&open.load().map_err(to_io)?)
    })
}

fn load(
    object: &[u8],
    program_name: &str,
    map_name: Option<&str>,
) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    with_messages(|| load_quietly(object, program_name, map_name))
}

/// Loads something; what libbpf says meanwhile is part of the error.
fn with_messages<T>(load: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let _loading = LOADING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = libbpf_rs::set_print(Some((PrintLevel::Warn, note_message)));
    if let Ok(mut messages) = MESSAGES.lock() {
        messages.clear();
    }
    let result = load();
    libbpf_rs::set_print(before);
    result.map_err(|error| {
        let messages = MESSAGES.lock().map(|mut m| std::mem::take(&mut *m));
        let messages = messages.unwrap_or_default();
        let from = messages.len().saturating_sub(MESSAGES_MAX);
        let tail = messages.get(from..).unwrap_or_default();
        let tail: Vec<&str> = tail.lines().map(str::trim).collect();
        io::Error::new(error.kind(), format!("{error} ({})", tail.join(" ")))
    })
}

fn load_quietly(
    object: &[u8],
    program_name: &str,
    map_name: Option<&str>,
) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let open = ObjectBuilder::default()
        .open_memory(object)
        .map_err(to_io)?;
    let loaded = open.load().map_err(to_io)?;
    let program = loaded
        .progs()
        .find(|program| program.name() == program_name)
        .ok_or_else(|| io::Error::other(format!("no program {program_name} in the object")))?
        .as_fd()
        .try_clone_to_owned()?;
    let map = loaded
        .maps()
        .find(|map| Some(map.name().to_string_lossy().as_ref()) == map_name)
        .map(|map| map.as_fd().try_clone_to_owned())
        .transpose()?;
    Ok((program, map))
}

/// With the kind kept.
pub(super) fn to_io(error: libbpf_rs::Error) -> io::Error {
    io::Error::new(io_kind(&error), format!("{error:#}"))
}

fn io_kind(error: &libbpf_rs::Error) -> io::ErrorKind {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    }
}

impl IterProgram {
    /// Ties the program to a target; each [`Attached::iterate`] then is one pass over it.
    pub(crate) fn attach(&self, target: Target) -> io::Result<Attached> {
        let (tid, pid) = match target {
            Target::Thread(tid) => (tid, 0),
            Target::Process(pid) => (0, pid),
        };
        let mut info = libbpf_sys::bpf_iter_link_info {
            task: libbpf_sys::bpf_iter_link_info__bindgen_ty_3 {
                tid: tid.unsigned_abs(),
                pid: pid.unsigned_abs(),
                pid_fd: 0,
            },
        };
        let options = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as u64,
            iter_info: &raw mut info,
            iter_info_len: size_of::<libbpf_sys::bpf_iter_link_info>() as u32,
            ..Default::default()
        };
        #[expect(unsafe_code, reason = "system call by way of libbpf")]
        // SAFETY: `options` and what it points to live until the call returns, sizes included.
        let link = unsafe {
            libbpf_sys::bpf_link_create(
                self.program.as_raw_fd(),
                0,
                libbpf_sys::BPF_TRACE_ITER,
                &raw const options,
            )
        };
        Ok(Attached { link: owned(link)? })
    }
}

/// A program tied to a target.
#[derive(Debug)]
pub(crate) struct Attached {
    link: OwnedFd,
}

impl Attached {
    /// A fresh pass, to be read to its end.
    pub(crate) fn iterate(&self) -> io::Result<std::fs::File> {
        #[expect(unsafe_code, reason = "system call by way of libbpf")]
        // SAFETY: takes and gives file descriptors only.
        let iterator = unsafe { libbpf_sys::bpf_iter_create(self.link.as_raw_fd()) };
        Ok(owned(iterator)?.into())
    }

    /// One pass of a program that writes nothing to its stream.
    pub(crate) fn run(&self) -> io::Result<()> {
        let mut byte = [0; 1];
        self.iterate()?.read(&mut byte).map(|_| ())
    }
}

/// A file descriptor out of what libbpf returned: it, or a negative errno.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    #[expect(unsafe_code, reason = "a file descriptor from a system call")]
    // SAFETY: the call has just made it for us, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
