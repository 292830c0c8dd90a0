//! Structs and enums as their source files declare them: names, comments, types and what serde is told.
//!
//! The files are formatted by rustfmt, which CI checks, so a reader that goes line by line is enough.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A field of a struct, or a variant of an enum.
#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    pub(super) name: String,
    /// Its comment, in one line.
    pub(super) doc: String,
    /// The attributes, joined.
    pub(super) attributes: String,
    /// A field's type; what a variant holds, if anything: a type, or the names of its fields.
    pub(super) holds: String,
}

/// A struct or an enum.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) is_enum: bool,
    pub(super) doc: String,
    pub(super) attributes: String,
    pub(super) members: Vec<Member>,
}

impl Item {
    /// The type that a struct without named fields wraps.
    pub(super) fn wraps(&self) -> Option<&str> {
        match self.members.as_slice() {
            [only] if only.name.is_empty() => Some(&only.holds),
            _ => None,
        }
    }

    /// Whether one of the derived traits has this name.
    pub(super) fn derives(&self, what: &str) -> bool {
        self.attributes.split(|c: char| !c.is_alphanumeric()).any(|word| word == what)
    }
}

/// What `#[serde(...)]` says under a key; an empty text for a key without a value.
pub(super) fn serde(attributes: &str, key: &str) -> Option<String> {
    attributes.split("#[serde(").skip(1).find_map(|rest| {
        let inside = rest.split(")]").next().unwrap_or_default();
        inside.split(',').map(str::trim).find_map(|entry| {
            let (name, value) = entry.split_once('=').map_or((entry, ""), |(name, value)| (name.trim(), value.trim()));
            (name == key).then(|| value.trim_matches('"').to_string())
        })
    })
}

/// The declarations of all production crates.
pub(super) struct Source {
    items: BTreeMap<String, Vec<Item>>,
    texts: BTreeMap<PathBuf, String>,
}

impl Source {
    /// Reads these folders below the root of the repository.
    pub(super) fn read(root: &Path, folders: &[&str]) -> Source {
        let mut source = Source { items: BTreeMap::new(), texts: BTreeMap::new() };
        for folder in folders {
            source.folder(&root.join(folder));
        }
        source
    }

    fn folder(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                self.folder(&path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                // What tests declare at the end of a file is no part of the product.
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_string();
                for item in items(&text, &path) {
                    self.items.entry(item.name.clone()).or_default().push(item);
                }
                self.texts.insert(path, text);
            }
        }
    }

    /// All structs and enums.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.values().flatten()
    }

    /// The item that a type names where it is written; nothing for what no crate here declares.
    pub(super) fn resolve(&self, ty: &str, from: &Path) -> Option<&Item> {
        let (qualifier, name) = ty.rsplit_once("::").unwrap_or(("", ty));
        let candidates = self.items.get(name)?;
        if let [only] = candidates.as_slice() {
            return Some(only);
        }
        let here = &self.texts[from];
        let imported = here
            .split("\nuse ")
            .skip(1)
            .filter_map(|rest| rest.split(';').next())
            .find(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name));
        let path = if qualifier.is_empty() { imported.unwrap_or_default() } else { qualifier };
        let mut words: Vec<String> =
            path.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_string).collect();
        if path.is_empty() || words.iter().any(|word| word == "super" || word == "self") {
            // A neighbour, or what a neighbour declares.
            words.extend(from.parent().into_iter().flatten().map(|part| part.to_string_lossy().into_owned()));
        }
        let score = |item: &Item| {
            let of_path = item.file.iter().filter(|part| {
                let part = part.to_string_lossy();
                words.iter().any(|word| word == part.trim_end_matches(".rs"))
            });
            let own = item.file == from && qualifier.is_empty() && imported.is_none();
            of_path.count() + if own { 100 } else { 0 }
        };
        let best = candidates.iter().map(score).max()?;
        let mut winners = candidates.iter().filter(|item| score(item) == best);
        let (first, second) = (winners.next(), winners.next());
        assert!(second.is_none(), "{} names `{ty}`, of which there are several: import it by its path", from.display());
        first
    }

    /// The expression that a function without arguments returns, in the file that names it.
    pub(super) fn returned(&self, function: &str, from: &Path) -> Option<String> {
        let name = function.rsplit("::").next().unwrap_or(function);
        let start = format!("fn {name}() -> ");
        let of = |text: &String| {
            let body = text.split(&start).nth(1)?.split_once("{\n")?.1;
            Some(body.split('\n').next()?.trim().to_string())
        };
        self.texts.get(from).and_then(of).or_else(|| self.texts.values().find_map(of))
    }

    /// What `Default` gives the fields of an item, where it is written by hand.
    pub(super) fn defaults(&self, item: &Item) -> BTreeMap<String, String> {
        let start = format!("impl Default for {} {{", item.name);
        let Some(body) = self.texts[&item.file].split(&start).nth(1) else {
            return BTreeMap::new();
        };
        let literal = body.split("\n}").next().unwrap_or_default().rsplit_once(&format!("{} {{", item.name));
        let fields = literal.map_or("", |(_, fields)| fields).split('}').next().unwrap_or_default();
        let pairs = fields.split(',').filter_map(|field| field.split_once(':'));
        pairs.map(|(name, value)| (name.trim().to_string(), value.trim().to_string())).collect()
    }

    /// A constant list of keys, as configurations require them.
    pub(super) fn required(&self, file: &Path) -> Vec<String> {
        let list = self.texts[file].split("const REQUIRED").nth(1).unwrap_or_default();
        let list = list.split("];").next().unwrap_or_default();
        list.split('"').skip(1).step_by(2).map(str::to_string).collect()
    }
}

fn items(text: &str, file: &Path) -> Vec<Item> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    let (mut doc, mut attributes) = (String::new(), String::new());
    while let Some(line) = lines.next() {
        let line = line.trim();
        if take_prelude(line, &mut lines, &mut doc, &mut attributes) {
            continue;
        }
        let head = line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ").trim_start_matches("pub ");
        let words: Vec<&str> = head.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        if let ["struct" | "enum", name, ..] = words.as_slice()
            && line.ends_with('{')
        {
            found.push(Item {
                name: (*name).to_string(),
                file: file.to_path_buf(),
                is_enum: words[0] == "enum",
                doc: std::mem::take(&mut doc),
                attributes: std::mem::take(&mut attributes),
                members: members(&mut lines, words[0] == "enum"),
            });
        }
        if let ["struct", name, ..] = words.as_slice()
            && let Some((_, inside)) = line.strip_suffix(");").and_then(|line| line.split_once('('))
        {
            let holds = inside.trim_start_matches("pub ").to_string();
            found.push(Item {
                name: (*name).to_string(),
                file: file.to_path_buf(),
                is_enum: false,
                doc: std::mem::take(&mut doc),
                attributes: std::mem::take(&mut attributes),
                members: vec![Member { holds, ..Member::default() }],
            });
        }
        doc.clear();
        attributes.clear();
    }
    found
}

/// Takes a line of a comment or an attribute, with the lines that the attribute goes on for.
fn take_prelude<'a>(
    line: &'a str,
    lines: &mut impl Iterator<Item = &'a str>,
    doc: &mut String,
    attributes: &mut String,
) -> bool {
    if let Some(text) = line.strip_prefix("///") {
        if !(doc.is_empty() || text.trim().is_empty()) {
            doc.push(' ');
        }
        doc.push_str(text.trim());
        return true;
    }
    if !line.starts_with("#[") {
        return line.starts_with("//");
    }
    attributes.push_str(line);
    while attributes.matches('[').count() > attributes.matches(']').count() {
        attributes.push(' ');
        attributes.push_str(lines.next().unwrap_or("]").trim());
    }
    true
}

fn members<'a>(lines: &mut impl Iterator<Item = &'a str>, is_enum: bool) -> Vec<Member> {
    let mut members = Vec::new();
    let mut member = Member::default();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if line == "}" {
            break;
        }
        if line.is_empty() || take_prelude(line, lines, &mut member.doc, &mut member.attributes) {
            continue;
        }
        let mut text = line
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ")
            .to_string();
        if is_enum && text.ends_with('{') {
            // Of the fields of a variant the names are enough.
            let inner = lines.by_ref().map(str::trim).take_while(|inner| *inner != "},");
            let names =
                inner.filter(|inner| !inner.starts_with(['/', '#'])).filter_map(|inner| inner.split(':').next());
            text = format!("{}({})", text.trim_end_matches('{').trim(), names.collect::<Vec<_>>().join(", "));
            member.attributes.push_str("#[fields]");
        }
        while !is_enum && !text.ends_with(',') {
            text.push_str(lines.next().unwrap_or(",").trim());
        }
        let text = text.trim_end_matches(',');
        let (name, holds) = match is_enum {
            true => text.split_once('(').map_or((text, ""), |(name, rest)| (name, rest.trim_end_matches(')'))),
            false => text.split_once(':').unwrap_or((text, "")),
        };
        member.name = name.trim().to_string();
        member.holds = holds.trim().to_string();
        members.push(std::mem::take(&mut member));
    }
    members
}
