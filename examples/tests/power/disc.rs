//! A disc that forgets what was not synced: what a traced process wrote, and what of it a power cut leaves.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// What a power cut does to what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// All of it goes.
    All,
    /// Of contents some writes go and others stay; of each folder's changes the later ones go.
    Some,
}

/// A change of a folder, in order.
#[derive(Debug, Clone)]
enum Change {
    Add(PathBuf, Option<usize>),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

/// The contents of a file: as synced, and the changes after that.
#[derive(Debug, Clone, Default)]
struct Content {
    synced: Vec<u8>,
    later: Vec<Write>,
}

#[derive(Debug, Clone)]
enum Write {
    At(usize, Vec<u8>),
    Length(usize),
}

/// Files by number, folders without one.
type Entries = BTreeMap<PathBuf, Option<usize>>;

#[derive(Debug, Default)]
pub(super) struct Disc {
    contents: Vec<Content>,
    /// Everything that is there, and what of it is there after a power cut.
    seen: Entries,
    synced: Entries,
    later: HashMap<PathBuf, Vec<Change>>,
    /// Where the next write of an open file goes; none at its end.
    places: HashMap<String, Option<usize>>,
    /// Of syncs that have begun: how many changes there were.
    begun: HashMap<String, usize>,
    /// Syncs that ended.
    pub(super) syncs: usize,
}

impl Write {
    fn on(&self, content: &mut Vec<u8>) {
        match self {
            Write::At(at, bytes) => {
                content.resize(content.len().max(at + bytes.len()), 0);
                content[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Write::Length(length) => content.resize(*length, 0),
        }
    }
}

impl Change {
    fn on(&self, entries: &mut Entries) {
        match self {
            Change::Add(path, file) => drop(entries.insert(path.clone(), *file)),
            Change::Remove(path) => drop(entries.remove(path)),
            Change::Rename(from, to) => {
                if let Some(file) = entries.remove(from) {
                    entries.insert(to.clone(), file);
                }
            }
        }
    }
}

impl Disc {
    /// What is below a folder now, all of it synced.
    pub(super) fn of(folder: &Path) -> Disc {
        let mut disc = Disc::default();
        disc.read(folder);
        disc.seen = disc.synced.clone();
        disc
    }

    fn read(&mut self, folder: &Path) {
        self.synced.insert(folder.to_path_buf(), None);
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                self.read(&path);
            } else if entry.file_type().unwrap().is_file() {
                self.synced.insert(path.clone(), Some(self.contents.len()));
                self.contents.push(Content { synced: fs::read(&path).unwrap(), later: Vec::new() });
            }
        }
    }

    fn change(&mut self, change: Change) {
        change.on(&mut self.seen);
        let (Change::Add(path, _) | Change::Remove(path) | Change::Rename(path, _)) = &change;
        let folder = path.parent().unwrap().to_path_buf();
        self.later.entry(folder).or_default().push(change);
    }

    fn file(&mut self, path: &str) -> Option<&mut Content> {
        let number = (*self.seen.get(Path::new(path))?)?;
        self.contents.get_mut(number)
    }

    /// Follows what a process did, line by line as `strace -f -y -x` writes it, to the end or the kill.
    pub(super) fn follow(&mut self, trace: &str, folder: &Path) {
        let mut pending: HashMap<String, String> = HashMap::new();
        for line in trace.lines() {
            let Some((process, call)) = line.split_once(' ') else { continue };
            let call = call.trim_start();
            let whole = if let Some(head) = call.strip_suffix(" <unfinished ...>") {
                self.begin(process, head);
                pending.insert(process.to_string(), head.to_string());
                continue;
            } else if let Some((_, tail)) = call.split_once(" resumed>") {
                let Some(head) = pending.remove(process) else { continue };
                head + tail
            } else {
                self.begin(process, call);
                call.to_string()
            };
            self.done(process, &whole, folder);
        }
    }

    /// A sync holds what was written before it began.
    fn begin(&mut self, process: &str, call: &str) {
        let Some(path) = call.strip_prefix("fsync(").or_else(|| call.strip_prefix("fdatasync(")).and_then(opened)
        else {
            return;
        };
        let folder = self.later.get(Path::new(path)).map_or(0, Vec::len);
        let changes = self.file(path).map_or(folder, |content| content.later.len());
        self.begun.insert(process.to_string(), changes);
    }

    fn done(&mut self, process: &str, call: &str, folder: &Path) {
        let Some((call, result)) = call.rsplit_once(" = ") else { return };
        if result.starts_with(['-', '?']) {
            return;
        }
        let call = call.trim_end().trim_end_matches(')');
        let Some((name, arguments)) = call.split_once('(') else { return };
        let place = |text: &str| folder.join(text);
        let quoted: Vec<Vec<u8>> = strings(arguments);
        let path_of = |at: usize| place(std::str::from_utf8(&quoted[at]).unwrap());
        match name {
            "openat" => {
                let Some(path) = opened(result) else { return };
                if arguments.contains("O_CREAT") && !self.seen.contains_key(Path::new(path)) {
                    let number = self.contents.len();
                    self.contents.push(Content::default());
                    self.change(Change::Add(PathBuf::from(path), Some(number)));
                }
                if arguments.contains("O_TRUNC")
                    && let Some(content) = self.file(path)
                {
                    content.later.push(Write::Length(0));
                }
                let start = (!arguments.contains("O_APPEND")).then_some(0);
                self.places.insert(result.split(['<', ' ']).next().unwrap().to_string(), start);
            }
            "write" | "pwrite64" => {
                let (Some(path), Some(bytes)) = (opened(arguments), quoted.first()) else { return };
                let descriptor = arguments.split('<').next().unwrap().to_string();
                let stated = arguments.rsplit(", ").next().and_then(|last| last.parse().ok());
                let next = self.places.get(&descriptor).copied().flatten();
                let Some(content) = self.file(path) else { return };
                let length = content.whole().len();
                let at = if name == "pwrite64" { stated.unwrap() } else { next.unwrap_or(length) };
                content.later.push(Write::At(at, bytes.clone()));
                if let Some(Some(next)) = self.places.get_mut(&descriptor).filter(|_| name == "write") {
                    *next += bytes.len();
                }
            }
            "ftruncate" => {
                let length = arguments.rsplit(", ").next().and_then(|last| last.parse().ok());
                let (Some(path), Some(length)) = (opened(arguments), length) else { return };
                if let Some(content) = self.file(path) {
                    content.later.push(Write::Length(length));
                }
            }
            "fsync" | "fdatasync" => {
                let (Some(path), Some(changes)) = (opened(arguments), self.begun.remove(process)) else { return };
                self.syncs += 1;
                if let Some(content) = self.file(path) {
                    for write in content.later.drain(..changes.min(content.later.len())) {
                        write.on(&mut content.synced);
                    }
                } else if let Some(later) = self.later.get_mut(Path::new(path)) {
                    later.drain(..changes.min(later.len())).for_each(|change| change.on(&mut self.synced));
                }
            }
            "mkdir" => self.change(Change::Add(path_of(0), None)),
            "unlink" => self.change(Change::Remove(path_of(0))),
            "rename" => self.change(Change::Rename(path_of(0), path_of(1))),
            _ => {}
        }
    }

    /// Puts below `folder` what a power cut leaves of it.
    pub(super) fn leave(mut self, folder: &Path, loss: Loss, rng: &mut ChaCha8Rng) {
        if loss == Loss::Some {
            for later in self.later.values() {
                later[..rng.random_range(0..=later.len())].iter().for_each(|change| change.on(&mut self.synced));
            }
            for content in &mut self.contents {
                for write in std::mem::take(&mut content.later) {
                    if rng.random_bool(0.5) {
                        write.on(&mut content.synced);
                    }
                }
            }
        }
        fs::remove_dir_all(folder).unwrap();
        // In the order of their names folders come before what is in them; what lost its folder is lost.
        for (path, file) in self.synced.iter().filter(|(path, _)| path.starts_with(folder)) {
            let kept = path == folder || path.parent().is_some_and(Path::is_dir);
            match file {
                _ if !kept => {}
                None => fs::create_dir(path).unwrap(),
                Some(number) => fs::write(path, &self.contents[*number].synced).unwrap(),
            }
        }
    }
}

impl Content {
    fn whole(&self) -> Vec<u8> {
        let mut content = self.synced.clone();
        self.later.iter().for_each(|write| write.on(&mut content));
        content
    }
}

/// The path of an open file, as `7</path>`.
fn opened(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('<')?;
    rest.split_once('>').map(|(path, _)| path).filter(|path| path.starts_with('/'))
}

/// The strings between quotes, without their escapes.
fn strings(text: &str) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut bytes = text.bytes().peekable();
    while bytes.by_ref().any(|byte| byte == b'"') {
        let mut found = Vec::new();
        while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
            if byte != b'\\' {
                found.push(byte);
                continue;
            }
            match bytes.next().unwrap() {
                b'n' => found.push(b'\n'),
                b't' => found.push(b'\t'),
                b'r' => found.push(b'\r'),
                b'v' => found.push(11),
                b'f' => found.push(12),
                b'x' => {
                    let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                    found.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                }
                digit @ b'0'..=b'7' => {
                    let mut value = u32::from(digit - b'0');
                    for _ in 0..2 {
                        let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                        value = 8 * value + u32::from(digit - b'0');
                    }
                    found.push(value as u8);
                }
                other => found.push(other),
            }
        }
        all.push(found);
    }
    all
}

#[test]
fn only_what_was_synced_is_left() {
    use rand::SeedableRng;
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().canonicalize().unwrap().join("state");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("old"), "abc").unwrap();
    let at = folder.display();
    let trace = format!(
        r#"1 openat(AT_FDCWD</>, "{at}/new", O_RDWR|O_CREAT, 0600) = 7<{at}/new>
1 write(7<{at}/new>, "a\x00\1b\n", 5) = 5
2 fsync(7<{at}/new> <unfinished ...>
1 pwrite64(7<{at}/new>, "zz", 2, 0) = 2
2 <... fsync resumed>)             = 0
1 openat(AT_FDCWD</>, "{at}/old", O_RDWR) = 8<{at}/old>
1 pwrite64(8<{at}/old>, "x", 1, 1) = 1
1 unlink("{at}/old") = 0
"#
    );
    let after = |more: &str| {
        let mut disc = Disc::of(&folder);
        disc.follow(&(trace.clone() + more), home.path());
        assert_eq!(disc.syncs, 1 + more.lines().count() - usize::from(more.contains("?")));
        disc.leave(&folder, Loss::All, &mut ChaCha8Rng::seed_from_u64(1));
        let left = ["old", "new"].map(|name| fs::read(folder.join(name)).ok());
        let _ = fs::remove_file(folder.join("new"));
        fs::write(folder.join("old"), "abc").unwrap();
        left
    };
    assert_eq!(after(""), [Some(b"abc".to_vec()), None]);
    assert_eq!(after(&format!("1 fsync(9<{at}>) = ?\n")), [Some(b"abc".to_vec()), None]);
    assert_eq!(after(&format!("1 fsync(9<{at}>) = 0\n")), [None, Some(b"a\x00\x01b\n".to_vec())]);
}
