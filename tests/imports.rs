//! Imports inside the crates that are shipped: what a module uses stands before it in `lib.rs`, and no modules use each other in a
//! circle.
//!
//! Read from the sources, without comments and without what is compiled for tests only. A module is one that `lib.rs` declares; modules
//! that it declares without an empty line between them are one layer, in which the order says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What a crate's sources say, and what is still allowed.
struct Crate {
    folder: &'static str,
    /// Whether its `lib.rs` states an order.
    ordered: bool,
    /// Imports of what stands later, each with its reason.
    upwards: &'static [(&'static str, &'static str, &'static str)],
    /// Modules that still use each other in a circle.
    circles: &'static [&'static [&'static str]],
}

const CRATES: [Crate; 4] = [
    Crate {
        folder: "common",
        ordered: true,
        upwards: &[
            ("privacy", "methods", "bounds of plans"),
            ("report", "methods", "sections of the robust method"),
            ("star", "methods", "the fitting of batches"),
            ("study", "methods", "checked terms"),
        ],
        circles: &[&["conversation", "methods", "privacy", "report", "session", "star", "study"]],
    },
    Crate { folder: "proto", ordered: false, upwards: &[], circles: &[] },
    Crate { folder: "party", ordered: false, upwards: &[], circles: &[] },
    Crate { folder: "coordinator", ordered: false, upwards: &[], circles: &[] },
];

/// Which modules each module uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_module_uses_what_stands_after_it_and_none_use_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut faults = Vec::new();
    for each in &CRATES {
        let source = root.join(each.folder).join("src");
        let layers = layers(&fs::read_to_string(source.join("lib.rs")).unwrap());
        let arrows = arrows(&source, &layers);
        let count: usize = arrows.values().map(BTreeSet::len).sum();
        assert!(count > 3, "{}: {arrows:?}", each.folder);
        println!("{}: {} modules, {count} arrows", each.folder, layers.len());
        for (from, uses) in &arrows {
            println!("    {from} -> {}", uses.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
        }
        if each.ordered {
            let up = upwards(&arrows, &layers);
            for (from, to) in &up {
                match each.upwards.iter().find(|known| (known.0, known.1) == (from.as_str(), to.as_str())) {
                    Some((.., reason)) => println!("    up, still: {from} -> {to}: {reason}"),
                    None => faults.push(format!("{}: {from} uses {to}, which stands after it in lib.rs", each.folder)),
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
    let names = |code: &str, path: &[&str]| -> Vec<String> { used(code, path).into_iter().collect() };
    assert_eq!(names("use crate::{a, b::{c, d}, e as f};\nuse crate::g::h;", &["x"]), ["a", "b", "e", "g"]);
    assert_eq!(
        names("#[serde(with = \"crate::a::b\")]\n// crate::c\n/// [`crate::d`]\nlet x = crate::e::f();", &["x"]),
        ["a", "e"]
    );
    assert_eq!(names("pub(in crate::x) fn y() {}\nuse super::a;\nuse super::super::b;", &["x", "y"]), ["b", "x"]);
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n#[cfg(test)]\nuse crate::b;\n#[cfg(test)]\nmod more;\nuse crate::c;";
    assert_eq!(names(tests, &["x"]), ["c"]);
    let layers = layers("//! pub mod no;\npub mod b;\npub mod c;\n\n// Later.\nmod a;\n#[cfg(test)]\nmod d;\n");
    assert_eq!(
        layers.iter().map(|(name, at)| (name.as_str(), *at)).collect::<Vec<_>>(),
        [("a", 1), ("b", 0), ("c", 0)]
    );
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
    let arrows: Arrows = [("a", set(&["b"])), ("b", set(&["c", "a"])), ("c", set(&[]))]
        .map(|(name, uses)| (name.to_string(), uses))
        .into();
    assert_eq!(upwards(&arrows, &layers), [("b".to_string(), "a".to_string())]);
    assert_eq!(circles(&arrows), [["a", "b"]]);
}

/// The modules that a `lib.rs` declares, each with the number of its layer.
fn layers(lib: &str) -> BTreeMap<String, usize> {
    let (mut found, mut layer, mut begun) = (BTreeMap::new(), 0, false);
    for line in without_tests(lib).lines() {
        let declared =
            line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
        match declared {
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

fn arrows(source: &Path, layers: &BTreeMap<String, usize>) -> Arrows {
    let mut arrows = Arrows::new();
    for file in files(source) {
        let path: Vec<String> = file
            .strip_prefix(source)
            .unwrap()
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let mut path: Vec<&str> = path.iter().map(String::as_str).collect();
        if path.contains(&"tests") || !layers.contains_key(path[0]) {
            continue;
        }
        if path.last() == Some(&"mod") {
            path.pop();
        }
        let uses = used(&fs::read_to_string(&file).unwrap(), &path);
        let uses = uses.into_iter().filter(|name| name != path[0] && layers.contains_key(name));
        arrows.entry(path[0].to_string()).or_default().extend(uses);
    }
    arrows
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

/// The names below the root that code of a module of this path uses.
fn used(code: &str, path: &[&str]) -> BTreeSet<String> {
    let code: String = without_tests(code)
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with("pub(in ") && !code[..at].ends_with('_') {
            found.extend(names(&code[at + "crate::".len()..]));
        }
    }
    for (at, _) in code.match_indices("super::") {
        if code[..at].ends_with("super::") {
            continue;
        }
        let rest = code[at..].trim_start_matches("super::");
        let steps = (code.len() - at - rest.len()) / "super::".len();
        match path.len().cmp(&steps) {
            std::cmp::Ordering::Equal => found.extend(names(rest)),
            std::cmp::Ordering::Greater => found.extend([path[0].to_string()]),
            std::cmp::Ordering::Less => panic!("a path above the root in {}", path.join("::")),
        }
    }
    found
}

/// The first names of what follows `crate::`: one, or those of a list in brackets.
fn names(rest: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(list) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let (mut found, mut depth, mut begins) = (Vec::new(), 0, true);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            letter if begins && !letter.is_whitespace() => {
                found.push(word(&list[at..]));
                begins = false;
            }
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

fn upwards(arrows: &Arrows, layers: &BTreeMap<String, usize>) -> Vec<(String, String)> {
    let pairs = arrows.iter().flat_map(|(from, uses)| uses.iter().map(move |to| (from.clone(), to.clone())));
    pairs.filter(|(from, to)| layers[from] < layers[to]).collect()
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
