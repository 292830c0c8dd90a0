//! An allocator for tables that are larger than memory.
//!
//! Blocks of a mebibyte or more are counted. While they stay within a limit they lie in memory, as from any allocator. A block
//! that would go beyond it is mapped from a file of its own in a given folder: the system then writes its pages to the disk and
//! reads them again as memory is needed, and a process that is larger than memory gets slower in place of being killed.
//!
//! Whoever computes does not see where a block lies, so that results are the same bits. A file never has a name: only its owner
//! can open what lies in the folder, nobody else can find it, and it is gone with the process, however that ends. Its blocks on
//! the disk are reserved when it is made; where they cannot be, the block lies in memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

mod file;
mod system;

pub use self::system::available;

/// Bytes from which on a block is counted, and may lie in a file.
pub const LARGE: usize = 1 << 20;
/// Bytes from which on the memory that the system has left is asked for before a block is taken from it.
const ASKED: usize = 64 << 20;
/// Bytes between the start of a mapped file and its block; also the largest alignment of a counted block.
const PAGE: usize = 4096;

/// What stands right before a counted block: the length of the mapping that it lies in, or 0 if it lies in memory.
type Mark = usize;
/// Bytes before a block of small alignment.
const BEFORE: usize = 16;

/// The allocator. It keeps all blocks in memory until it is told of a limit.
#[derive(Debug)]
pub struct Allocator {
    limit: AtomicUsize,
    /// Whether the memory that the system has left counts too.
    asks: AtomicBool,
    folder: OnceLock<PathBuf>,
    /// Bytes of counted blocks in memory.
    held: AtomicUsize,
    /// Bytes of mapped files.
    mapped: AtomicUsize,
    largest: AtomicUsize,
}

impl Default for Allocator {
    fn default() -> Self {
        Allocator::new()
    }
}

impl Allocator {
    /// An allocator without a limit.
    pub const fn new() -> Allocator {
        Allocator {
            limit: AtomicUsize::new(usize::MAX),
            asks: AtomicBool::new(false),
            folder: OnceLock::new(),
            held: AtomicUsize::new(0),
            mapped: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
        }
    }

    /// From now on keeps counted blocks beyond `limit` bytes in files of `folder`, which is the same for the whole process.
    /// `asks`: a block of 64 MiB or more also lies in a file where it would take more than half of what the system has left.
    pub fn limit(&self, limit: usize, asks: bool, folder: &Path) {
        self.folder.get_or_init(|| folder.to_path_buf());
        self.asks.store(asks, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes that lay in files at most at one time.
    pub fn largest_in_files(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }

    /// Whether `more` bytes may be taken from memory; if so they are counted.
    fn holds(&self, more: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let before = self.held.fetch_add(more, Ordering::Relaxed);
        let fits = before.saturating_add(more) <= limit
            && (more < ASKED || !self.asks.load(Ordering::Relaxed) || available().is_none_or(|left| more <= left / 2));
        if !fits {
            self.held.fetch_sub(more, Ordering::Relaxed);
        }
        fits
    }

    /// A counted block.
    fn take(&self, layout: Layout, zeroed: bool) -> *mut u8 {
        if self.holds(layout.size()) {
            let block = in_memory(layout, zeroed);
            if !block.is_null() {
                return block;
            }
            self.held.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        if let Some(folder) = self.folder.get()
            && let Some(length) = layout.size().checked_add(PAGE)
            && let Some(base) = file::map(folder, length)
        {
            let now = self.mapped.fetch_add(length, Ordering::Relaxed).saturating_add(length);
            self.largest.fetch_max(now, Ordering::Relaxed);
            // SAFETY: the mapping is longer than a page, starts at the boundary of one, and belongs to this block alone.
            return unsafe {
                let block = base.add(PAGE);
                mark(block).write(length);
                block
            };
        }
        let block = in_memory(layout, zeroed);
        if !block.is_null() {
            self.held.fetch_add(layout.size(), Ordering::Relaxed);
        }
        block
    }

    /// Gives a counted block back.
    ///
    /// # Safety
    /// It was taken by [`Allocator::take`] with this layout.
    unsafe fn give(&self, block: *mut u8, layout: Layout) {
        // SAFETY: a mark stands before every counted block; a mapped one begins a page before it.
        unsafe {
            match mark(block).read() {
                0 => {
                    self.held.fetch_sub(layout.size(), Ordering::Relaxed);
                    if let Some((whole, before)) = whole(layout) {
                        System.dealloc(block.sub(before), whole);
                    }
                }
                length => {
                    self.mapped.fetch_sub(length, Ordering::Relaxed);
                    file::unmap(block.sub(PAGE), length);
                }
            }
        }
    }

    /// Makes a counted block in memory longer or shorter where it stays one, if the limit allows it.
    ///
    /// # Safety
    /// As [`GlobalAlloc::realloc`], and the block lies in memory and is counted before and after.
    unsafe fn resize(&self, block: *mut u8, layout: Layout, size: usize) -> Option<*mut u8> {
        let (old, before) = whole(layout)?;
        let longer = size.saturating_sub(layout.size());
        let length = size.checked_add(before)?;
        if longer > 0 && !self.holds(longer) {
            return None;
        }
        // SAFETY: by `take` the block begins `before` bytes after one of the system with the layout `old`.
        let base = unsafe { System.realloc(block.sub(before), old, length) };
        if base.is_null() {
            self.held.fetch_sub(longer, Ordering::Relaxed);
            return None;
        }
        self.held.fetch_sub(layout.size().saturating_sub(size), Ordering::Relaxed);
        // SAFETY: the new block is at least `before` bytes long; the mark came along with its contents.
        Some(unsafe { base.add(before) })
    }
}

// SAFETY: a block is of the system with the caller's layout, or of the system or a mapping with room before it for the mark. Which
// it is depends on the layout alone, which the caller states again, and on the mark. No function panics: sums that could overflow are
// checked, and counters are atomic, which wrap.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_counted(layout) {
            true => self.take(layout, false),
            // SAFETY: as the caller promises.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_counted(layout) {
            true => self.take(layout, true),
            // SAFETY: as the caller promises.
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises, the block was allocated here with this layout.
        unsafe {
            match is_counted(layout) {
                true => self.give(block, layout),
                false => System.dealloc(block, layout),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is a layout with this alignment, and a block of the layout.
        unsafe {
            let new = Layout::from_size_align_unchecked(size, layout.align());
            match (is_counted(layout), is_counted(new)) {
                (false, false) => return System.realloc(block, layout, size),
                (true, true) => match mark(block).read() {
                    0 => {
                        if let Some(block) = self.resize(block, layout, size) {
                            return block;
                        }
                    }
                    // A file that is long enough, and not twice as long as it need be.
                    length if size <= length - PAGE && size >= (length - PAGE) / 2 => return block,
                    _ => {}
                },
                _ => {}
            }
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Whether blocks of this layout are counted, and have a mark before them.
fn is_counted(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

/// The layout of a counted block in memory together with what stands before it, and how many bytes these are.
fn whole(layout: Layout) -> Option<(Layout, usize)> {
    let before = layout.align().max(BEFORE);
    Some((Layout::from_size_align(layout.size().checked_add(before)?, before).ok()?, before))
}

/// The mark before a counted block.
fn mark(block: *mut u8) -> *mut Mark {
    block.wrapping_sub(BEFORE).cast()
}

fn in_memory(layout: Layout, zeroed: bool) -> *mut u8 {
    let Some((whole, before)) = whole(layout) else { return ptr::null_mut() };
    // SAFETY: the layout is not empty; a block of it is longer than `before`, and aligned so that the mark is.
    unsafe {
        let base = if zeroed { System.alloc_zeroed(whole) } else { System.alloc(whole) };
        if base.is_null() {
            return base;
        }
        let block = base.add(before);
        mark(block).write(0);
        block
    }
}

#[cfg(test)]
mod tests;
