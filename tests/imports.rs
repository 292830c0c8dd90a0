//! Imports inside the crates that are shipped: what a unit uses stands before it, and no units use each other in a circle.
//!
//! Read from the sources, without comments and without what is compiled for tests only. A unit is a module that `lib.rs` declares; modules
//! that it declares without an empty line between them are one layer, in which the order says nothing. Below `methods` of `common` each
//! room of each method is a unit of its own; the table in `methods/mod.rs` says which files are a room, and after which module it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What a crate's sources say, and what is still allowed.
struct Crate {
    folder: &'static str,
    /// Whether its `lib.rs` states an order.
    ordered: bool,
    /// Imports of what stands later, each with its reason; units as they are printed.
    upwards: &'static [(&'static str, &'static str, &'static str)],
    /// Modules that still use each other in a circle.
    circles: &'static [&'static [&'static str]],
}

const CRATES: [Crate; 4] = [
    Crate { folder: "common", ordered: true, upwards: &[], circles: &[] },
    Crate { folder: "proto", ordered: false, upwards: &[], circles: &[] },
    Crate { folder: "party", ordered: false, upwards: &[], circles: &[] },
    Crate { folder: "coordinator", ordered: false, upwards: &[], circles: &[] },
];

/// Which units each unit uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The layer of a module, and the place of a room after it.
type Standing = (usize, usize);

/// The units of a crate, and where they stand.
#[derive(Default)]
struct Units {
    /// Modules that `lib.rs` declares.
    modules: BTreeMap<String, Standing>,
    /// Rooms of methods by the names of their files; what has no room of its own is `arithmetic`.
    rooms: BTreeMap<String, (String, Standing)>,
}

impl Units {
    /// Of a `lib.rs`, and of the table of rooms if there is one.
    fn new(lib: &str, methods: Option<&str>) -> Units {
        let modules: BTreeMap<_, _> = layers(lib).into_iter().map(|(name, layer)| (name, (layer, 0))).collect();
        let rows = methods.into_iter().flat_map(str::lines).filter_map(|line| line.strip_prefix("//! | `"));
        let mut rooms = BTreeMap::new();
        for (at, row) in rows.enumerate() {
            let cells: Vec<&str> = row.split('|').collect();
            let mut files = cells[0].split(',').map(|name| name.trim().trim_matches('`')).peekable();
            let room = files.peek().unwrap().to_string();
            let after = cells[1].trim().trim_matches('`');
            let (layer, _) =
                *modules.get(after).unwrap_or_else(|| panic!("{room} stands after {after}, which is no module"));
            rooms.extend(files.map(|file| (file.to_string(), (room.clone(), (layer, at + 1)))));
        }
        Units { modules, rooms }
    }

    /// The unit of a path below the root, and where it stands; none of what is no module of the crate.
    fn unit(&self, path: &[&str]) -> Option<(String, Standing)> {
        let standing = self.modules.get(*path.first()?)?;
        if path[0] != "methods" || self.rooms.is_empty() || path.len() == 1 {
            return Some((path[0].to_string(), *standing));
        }
        let file =
            if path.len() == 2 && self.rooms.contains_key(path[1]) { path[1] } else { path.get(2).unwrap_or(&"") };
        let (room, standing) = self.rooms.get(file).unwrap_or(&self.rooms["arithmetic"]);
        let unit = match room.as_str() {
            "arithmetic" | "registry" => format!("methods/{}", path[1]),
            room => format!("methods/{}/{room}", path[1]),
        };
        Some((unit, *standing))
    }
}

#[test]
fn no_unit_uses_what_stands_after_it_and_none_use_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut faults = Vec::new();
    for each in &CRATES {
        let source = root.join(each.folder).join("src");
        let methods = fs::read_to_string(source.join("methods/mod.rs")).ok();
        let units = Units::new(&fs::read_to_string(source.join("lib.rs")).unwrap(), methods.as_deref());
        let (arrows, up) = arrows(&source, &units);
        let count: usize = arrows.values().map(BTreeSet::len).sum();
        assert!(count > 3, "{}: {arrows:?}", each.folder);
        println!("{}: {} units, {count} arrows", each.folder, arrows.len());
        for (from, uses) in &arrows {
            println!("    {from} -> {}", uses.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
        }
        if each.ordered {
            for (from, to) in &up {
                match each.upwards.iter().find(|known| (known.0, known.1) == (from.as_str(), to.as_str())) {
                    Some((.., reason)) => println!("    up, still: {from} -> {to}: {reason}"),
                    None => faults.push(format!("{}: {from} uses {to}, which stands after it", each.folder)),
                }
            }
            for (from, to, _) in each.upwards {
                if !up.contains(&((*from).to_string(), (*to).to_string())) {
                    println!("    {from} -> {to} is gone: take it off the list in tests/imports.rs");
                }
            }
        }
        for circle in circles(&arrows) {
            println!("    circle: {}", circle.join(" "));
            let known = |list: &&[&str]| circle.iter().all(|module| list.contains(&module.as_str()));
            if !each.circles.iter().any(known) {
                faults.push(format!("{}: {} use each other in a circle", each.folder, circle.join(", ")));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn an_arrow_upwards_and_a_circle_are_seen_wherever_they_hide() {
    let names = |code: &str, path: &[&str]| -> Vec<String> {
        used(code, path).into_iter().map(|path| path.join("/")).collect()
    };
    assert_eq!(
        names("use crate::{a, b::{c, d}, e as f};\nuse crate::g::h;\nuse crate::i::*;", &["x"]),
        ["a", "b/c", "b/d", "e", "g/h", "i"]
    );
    assert_eq!(
        names("#[serde(with = \"crate::a::b\")]\n// crate::c\n/// [`crate::d`]\nlet x = crate::e::f();", &["x"]),
        ["a/b", "e/f"]
    );
    assert_eq!(names("pub(in crate::x) fn y() {}\nuse super::a;\nuse super::super::b;", &["x", "y"]), ["b", "x/a"]);
    assert_eq!(
        names("mod a;\npub use a::{B, c::D};\nuse e::F;\nuse self::g::H;", &["x"]),
        ["x/a/B", "x/a/c/D", "x/g/H"]
    );
    assert_eq!(names("use crate::a::b;\nlet x = b::c::d();", &["x"]), ["a/b", "a/b/c/d"]);
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n#[cfg(test)]\nuse crate::b;\n#[cfg(test)]\nmod more;\nuse crate::c;";
    assert_eq!(names(tests, &["x"]), ["c"]);
    let lib =
        "//! pub mod no;\npub mod b;\npub mod c;\n\n// Later.\nmod a;\n#[cfg(test)]\nmod d;\n\npub mod methods;\n";
    let rooms = "//! | room | after | what |\n//! | `arithmetic` | `b` | x |\n//! | `hub`, `ear` | `a` | y |\n//! | `registry` | `a` | z |\n";
    let units = Units::new(lib, Some(rooms));
    let seen = |path: &str| units.unit(&path.split('/').collect::<Vec<_>>());
    let at = |unit: &str, layer: usize, place: usize| Some((unit.to_string(), (layer, place)));
    assert_eq!([seen("a"), seen("b"), seen("c/x"), seen("d")], [at("a", 1, 0), at("b", 0, 0), at("c", 0, 0), None]);
    assert_eq!([seen("methods/m"), seen("methods/m/block")], [at("methods/m", 0, 1), at("methods/m", 0, 1)]);
    assert_eq!(
        [seen("methods/m/hub/X"), seen("methods/m/ear")],
        [at("methods/m/hub", 1, 2), at("methods/m/hub", 1, 2)]
    );
    assert_eq!(seen("methods/registry"), at("methods/registry", 1, 3));
    let mut found = (Arrows::new(), BTreeSet::new());
    for (path, code) in [
        ("a", "use crate::{b, methods::m::hub::H};"),
        ("b", "use crate::c;\nuse crate::a::X;"),
        ("methods/m/block", "use super::hub::H;"),
        ("methods/m/hub", "use super::block::B;\nuse crate::a;"),
    ] {
        add(&mut found, &units, &path.split('/').collect::<Vec<_>>(), code);
    }
    let (arrows, up) = found;
    let pairs: Vec<String> = up.iter().map(|(from, to)| format!("{from} {to}")).collect();
    assert_eq!(pairs, ["a methods/m/hub", "b a", "methods/m methods/m/hub"]);
    assert_eq!(circles(&arrows), [["a", "b", "methods/m", "methods/m/hub"]]);
}

/// The modules that a `lib.rs` declares, each with the number of its layer.
fn layers(lib: &str) -> BTreeMap<String, usize> {
    let (mut found, mut layer, mut begun) = (BTreeMap::new(), 0, false);
    for line in without_tests(lib).lines() {
        match declared(line) {
            Some(name) => {
                found.insert(name.to_string(), layer);
                begun = true;
            }
            None if begun && line.trim().is_empty() => (layer, begun) = (layer + 1, false),
            None => {}
        }
    }
    found
}

/// The module that a line declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'))
}

/// Which units use which, and which of these arrows go to what stands later.
fn arrows(source: &Path, units: &Units) -> (Arrows, BTreeSet<(String, String)>) {
    let mut found = (Arrows::new(), BTreeSet::new());
    for file in files(source) {
        let path: Vec<String> = file
            .strip_prefix(source)
            .unwrap()
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let mut path: Vec<&str> = path.iter().map(String::as_str).collect();
        if path.last() == Some(&"mod") {
            path.pop();
        }
        if !path.contains(&"tests") {
            add(&mut found, units, &path, &fs::read_to_string(&file).unwrap());
        }
    }
    found
}

/// Adds the arrows of the code of a module of this path.
fn add(found: &mut (Arrows, BTreeSet<(String, String)>), units: &Units, path: &[&str], code: &str) {
    let Some((from, here)) = units.unit(path) else { return };
    for path in used(code, path) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        if let Some((to, there)) = units.unit(&path).filter(|(to, _)| *to != from) {
            found.0.entry(from.clone()).or_default().insert(to.clone());
            if here < there {
                found.1.insert((from.clone(), to));
            }
        }
    }
    found.0.entry(from).or_default();
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

/// The paths below the root that code of a module of this path uses.
fn used(code: &str, path: &[&str]) -> BTreeSet<Vec<String>> {
    let code: String = without_tests(code)
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with("pub(in ") && !code[..at].ends_with('_') {
            found.extend(paths(&[], &code[at + "crate::".len()..]));
        }
    }
    for (at, _) in code.match_indices("super::") {
        if code[..at].ends_with("super::") {
            continue;
        }
        let rest = code[at..].trim_start_matches("super::");
        let steps = (code.len() - at - rest.len()) / "super::".len();
        assert!(steps <= path.len(), "a path above the root in {}", path.join("::"));
        found.extend(paths(&path[..path.len() - steps], rest));
    }
    let children: Vec<&str> = code.lines().filter_map(declared).collect();
    for (at, _) in code.match_indices("use ") {
        let rest = &code[at + "use ".len()..];
        let own = rest.strip_prefix("self::");
        if own.is_some() || children.iter().any(|child| rest.strip_prefix(child).is_some_and(|r| r.starts_with("::"))) {
            found.extend(paths(path, own.unwrap_or(rest)));
        }
    }
    // What an imported module is asked for.
    for path in found.clone() {
        let base: Vec<&str> = path.iter().map(String::as_str).collect();
        let module = format!("{}::", base.last().unwrap_or(&""));
        for (at, _) in code.match_indices(&module) {
            if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                found.extend(paths(&base, &code[at + module.len()..]));
            }
        }
    }
    found
}

/// The paths that begin with `base` and go on with what stands here: one, or those of a list in brackets.
fn paths(base: &[&str], rest: &str) -> Vec<Vec<String>> {
    let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    if !word.is_empty() && word != "self" {
        let base = [base, &[word.as_str()]].concat();
        return match rest[word.len()..].strip_prefix("::") {
            Some(more) => paths(&base, more),
            None => vec![base.iter().map(ToString::to_string).collect()],
        };
    }
    let Some(list) = rest.strip_prefix('{') else { return vec![base.iter().map(ToString::to_string).collect()] };
    let (mut found, mut depth, mut begins) = (Vec::new(), 0, true);
    for (at, letter) in list.char_indices() {
        match letter {
            '}' if depth == 0 => break,
            ',' if depth == 0 => begins = true,
            letter if begins && !letter.is_whitespace() => {
                found.extend(paths(base, &list[at..]));
                begins = false;
            }
            _ => {}
        }
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

/// The lines without items that are compiled for tests only. An item ends at a bracket in its own column, which `cargo fmt` keeps true.
pub(crate) fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if !line.trim_start().starts_with("#[cfg(test)]") {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let column = line.len() - line.trim_start().len();
        let Some(item) = lines.by_ref().find(|line| !line.trim_start().starts_with(['#', '/'])) else { break };
        if !(item.ends_with(';') || item.ends_with('}')) {
            let ends = |line: &&str| {
                line.len() > column && line[..column].trim().is_empty() && line[column..].starts_with(['}', ')', ']'])
            };
            let _ = lines.by_ref().find(ends);
        }
    }
    kept
}

/// The groups of modules each of which uses all others, directly or through others.
fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let reached = |from: &String| -> BTreeSet<String> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = open.pop() {
            for next in arrows.get(&module).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = arrows.keys().map(|module| (module, reached(module))).collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (module, from) in &reached {
        let circle: Vec<String> = from
            .iter()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(*module)))
            .cloned()
            .collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}
