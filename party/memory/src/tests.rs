//! Blocks keep their contents wherever they lie.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::thread;

use super::*;

/// A block whose bytes follow from a number.
struct Block<'a> {
    allocator: &'a Allocator,
    start: *mut u8,
    layout: Layout,
    seed: u64,
}

fn byte(seed: u64, at: usize) -> u8 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at as u64 / 509 * 31) >> 7) as u8
}

impl<'a> Block<'a> {
    fn new(allocator: &'a Allocator, layout: Layout, zeroed: bool, seed: u64) -> Block<'a> {
        // SAFETY: the layout is not empty.
        let start = unsafe { if zeroed { allocator.alloc_zeroed(layout) } else { allocator.alloc(layout) } };
        assert!(!start.is_null());
        assert_eq!(start.addr() % layout.align(), 0);
        let mut block = Block { allocator, start, layout, seed };
        assert!(!zeroed || block.bytes().iter().all(|byte| *byte == 0));
        block.fill();
        block
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the block is this long, and nobody else has it. A block that was not zeroed is filled before it is read.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) }
    }

    fn fill(&mut self) {
        let seed = self.seed;
        self.bytes().iter_mut().enumerate().for_each(|(at, to)| *to = byte(seed, at));
    }

    fn check(&mut self, length: usize) {
        let seed = self.seed;
        assert!(self.bytes()[..length].iter().enumerate().all(|(at, found)| *found == byte(seed, at)));
    }

    fn resize(&mut self, size: usize) {
        let kept = size.min(self.layout.size());
        // SAFETY: the block was allocated with this layout, and the size is not 0.
        self.start = unsafe { self.allocator.realloc(self.start, self.layout, size) };
        assert!(!self.start.is_null());
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        assert_eq!(self.start.addr() % self.layout.align(), 0);
        self.check(kept);
        self.fill();
    }

    fn is_mapped(&self) -> bool {
        // SAFETY: a counted block has a mark.
        is_counted(self.layout) && unsafe { mark(self.start).read() } > 0
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // A second failure would end the process before the first is told.
        if !thread::panicking() {
            self.check(self.layout.size());
        }
        // SAFETY: the block was allocated with this layout.
        unsafe { self.allocator.dealloc(self.start, self.layout) };
    }
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn without_a_limit_all_is_memory() {
    let allocator = Allocator::new();
    for size in [1, LARGE - 1, LARGE, 3 * LARGE] {
        assert!(!Block::new(&allocator, layout(size, 8), false, 1).is_mapped());
    }
    assert_eq!((allocator.largest_in_files(), allocator.held.load(Ordering::Relaxed)), (0, 0));
}

#[test]
#[cfg(target_os = "linux")]
fn what_goes_beyond_the_limit_lies_in_files_without_a_name() {
    let (allocator, folder) = (Allocator::new(), tempfile::tempdir().unwrap());
    allocator.limit(3 * LARGE, false, folder.path());
    let within = Block::new(&allocator, layout(2 * LARGE, 8), true, 1);
    let beyond = Block::new(&allocator, layout(2 * LARGE, 8), true, 2);
    let again = Block::new(&allocator, layout(LARGE, 8), false, 3);
    let small = Block::new(&allocator, layout(LARGE - 1, 8), false, 4);
    assert_eq!([&within, &beyond, &again, &small].map(Block::is_mapped), [false, true, false, false]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let name = folder.path().display().to_string();
    let of_it: Vec<&str> = maps.lines().filter(|line| line.contains(&name)).collect();
    assert!(of_it.len() == 1 && of_it[0].ends_with("(deleted)") && of_it[0].contains("rw-s"), "{of_it:?}");
    assert_eq!(allocator.largest_in_files(), 2 * LARGE + PAGE);
    // What is given back makes room.
    drop(within);
    assert!(!Block::new(&allocator, layout(2 * LARGE, 8), false, 5).is_mapped());
    drop((beyond, again, small));
    assert!(!std::fs::read_to_string("/proc/self/maps").unwrap().contains(&name));
    assert_eq!((allocator.held.load(Ordering::Relaxed), allocator.mapped.load(Ordering::Relaxed)), (0, 0));
}

#[test]
#[cfg(target_os = "linux")]
fn a_block_that_grows_beyond_the_limit_moves_and_keeps_its_bytes() {
    let (allocator, folder) = (Allocator::new(), tempfile::tempdir().unwrap());
    allocator.limit(3 * LARGE, false, folder.path());
    let mut block = Block::new(&allocator, layout(1000, 8), false, 1);
    let mapped = [LARGE, 2 * LARGE + 5, 4 * LARGE, 3 * LARGE, 9 * LARGE, LARGE, 77].map(|size| {
        block.resize(size);
        block.is_mapped()
    });
    // 3 of 4 mebibytes are no reason to move; a ninth of them is.
    assert_eq!(mapped, [false, false, true, true, true, false, false]);
    drop(block);
    assert_eq!((allocator.held.load(Ordering::Relaxed), allocator.mapped.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn where_no_file_can_be_made_a_block_lies_in_memory() {
    let (allocator, folder) = (Allocator::new(), tempfile::tempdir().unwrap());
    allocator.limit(0, false, &folder.path().join("gone"));
    assert!(!Block::new(&allocator, layout(2 * LARGE, 8), true, 1).is_mapped());
    let allocator = Allocator::new();
    allocator.limit(0, false, folder.path());
    // More than any disk has: neither in a file nor in memory.
    // SAFETY: the layout is not empty, and what is not there is not used.
    assert!(unsafe { allocator.alloc(layout(isize::MAX as usize - PAGE, 8)) }.is_null());
    assert_eq!((allocator.held.load(Ordering::Relaxed), allocator.mapped.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn a_large_block_takes_at_most_half_of_what_the_system_has_left() {
    let allocator = Allocator::new();
    let Some(left) = available() else { return };
    allocator.asks.store(true, Ordering::Relaxed);
    assert!(!allocator.holds(left));
    assert!(allocator.holds(ASKED - 1));
    assert_eq!(allocator.held.load(Ordering::Relaxed), ASKED - 1);
}

#[test]
fn blocks_of_many_threads_keep_their_bytes() {
    let (allocator, folder) = (Allocator::new(), tempfile::tempdir().unwrap());
    allocator.limit(6 * LARGE, false, folder.path());
    let work = |thread: u64| {
        let mut blocks: Vec<Block> = Vec::new();
        for step in 0..200u64 {
            let mut hasher = DefaultHasher::new();
            (thread, step).hash(&mut hasher);
            let drawn = hasher.finish();
            let size = 1 + (drawn >> 8) as usize % (LARGE * 5 / 2);
            match drawn % 4 {
                0 | 1 if blocks.len() < 4 => {
                    let align = 1 << ((drawn >> 40) % 14);
                    blocks.push(Block::new(&allocator, layout(size, align), drawn & 64 > 0, drawn));
                }
                2 if !blocks.is_empty() => blocks[0].resize(size),
                _ => drop(blocks.pop()),
            }
        }
    };
    thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    assert_eq!((allocator.held.load(Ordering::Relaxed), allocator.mapped.load(Ordering::Relaxed)), (0, 0));
    #[cfg(target_os = "linux")]
    assert!(allocator.largest_in_files() > 0);
}
