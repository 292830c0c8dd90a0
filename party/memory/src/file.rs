//! Files without a name, mapped into memory.

use std::path::Path;

/// Maps a new file of this length, all zeros, whose blocks on the disk are reserved; nothing where that cannot be done.
#[cfg(target_os = "linux")]
pub(crate) fn map(folder: &Path, length: usize) -> Option<*mut u8> {
    use std::os::fd::AsRawFd;

    let file = without_name(folder)?;
    let size = libc::off_t::try_from(length).ok()?;
    // Without room on the disk the process would be killed when it first writes to a page.
    // SAFETY: the descriptor is open.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, size) } != 0 {
        return None;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, wherever the system wants it, of a file that nobody else can open; it outlives the descriptor.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    // Columns are read beside each other, a little of each at a time: without this the system takes that for reading here and there,
    // and fetches page after page. With it, it fetches some mebibytes of each.
    // SAFETY: the mapping is there; what the system makes of the advice changes no byte of it.
    unsafe { libc::madvise(base, length, libc::MADV_HUGEPAGE) };
    Some(base.cast())
}

/// An empty file that only this process can open.
#[cfg(target_os = "linux")]
fn without_name(folder: &Path) -> Option<std::fs::File> {
    use std::fs::OpenOptions;
    use std::os::unix::fs::OpenOptionsExt;
    use std::sync::atomic::{AtomicU64, Ordering};

    static MADE: AtomicU64 = AtomicU64::new(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    if let Ok(file) = options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        return Some(file);
    }
    // A file system that has no such files: the name goes before anything is written.
    let name = format!(".memory-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let path = folder.join(name);
    let file = options.create_new(true).open(&path).ok()?;
    std::fs::remove_file(&path).ok()?;
    Some(file)
}

/// Ends a mapping; its file goes with it.
///
/// # Safety
/// It was made by [`map`] with this length, and nothing of it is used any more.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn unmap(base: *mut u8, length: usize) {
    // SAFETY: as the caller promises.
    unsafe { libc::munmap(base.cast(), length) };
}

/// Other systems keep all in memory.
#[cfg(not(target_os = "linux"))]
pub(crate) fn map(_folder: &Path, _length: usize) -> Option<*mut u8> {
    None
}

/// Other systems keep all in memory.
///
/// # Safety
/// None: there is no mapping.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn unmap(_base: *mut u8, _length: usize) {}
