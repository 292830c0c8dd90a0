//! Tables of the keys of a file, or of the fields of a report, from the structs that are read and written.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;

use super::links;
use super::source::{Item, Member, Source, serde};

/// What stands for a role in a file that users write.
const PARTY: &str = "a party's name";

/// What the tables are of: TOML that users write, or JSON that programs write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Keys,
    Fields,
}

/// Makes the tables of one chapter and collects what has no comment.
pub(super) struct Tables<'a> {
    source: &'a Source,
    format: Format,
    /// Keys that a list of the configuration requires; where there is one, all others have a default.
    required: Vec<String>,
    title: String,
    /// The headings that stand already: sections of one name may differ from file to file.
    headings: Vec<String>,
    waiting: VecDeque<(String, String, &'a Item)>,
    /// Every item that has or will have a table, with its heading.
    placed: Vec<(&'a Item, String)>,
    undocumented: Vec<String>,
    text: String,
}

/// What may stand at a place.
#[derive(Default)]
struct Shape<'a> {
    /// In words.
    words: String,
    /// What each word means.
    meanings: Vec<String>,
    /// Parts with fields of their own, with what is added to the place for them.
    parts: Vec<(String, &'a Item)>,
    /// Keyed by role in a merged report.
    by_role: bool,
}

impl<'a> Tables<'a> {
    pub(super) fn new(source: &'a Source, format: Format) -> Tables<'a> {
        Tables {
            source,
            format,
            required: Vec::new(),
            title: String::new(),
            headings: Vec::new(),
            waiting: VecDeque::new(),
            placed: Vec::new(),
            undocumented: Vec::new(),
            text: String::new(),
        }
    }

    /// Adds the tables of an item, and of all its parts that have none yet, under a title.
    pub(super) fn add(&mut self, title: &str, root: &'a Item, required: Vec<String>) {
        self.required = required;
        self.title = title.to_string();
        let _ = writeln!(self.text, "\n## {title}");
        self.comment(root);
        self.table("", root);
        while let Some((place, heading, item)) = self.waiting.pop_front() {
            let _ = writeln!(self.text, "\n### {heading}");
            self.comment(item);
            self.table(&place, item);
        }
    }

    /// The comment of an item, unless it links to other code: then it is for the readers of code.
    fn comment(&mut self, item: &Item) {
        if !item.doc.is_empty() && !item.doc.contains("[`") {
            let _ = writeln!(self.text, "\n{}", item.doc);
        }
    }

    /// All tables, each of whose rows has a comment.
    pub(super) fn finish(self) -> String {
        assert!(self.undocumented.is_empty(), "without a comment: {:#?}", self.undocumented);
        self.text
    }

    fn heading(&mut self, place: &str) -> String {
        let mut heading = match self.format {
            Format::Keys => format!("`[{place}]`"),
            Format::Fields => format!("`{place}`"),
        };
        if self.headings.contains(&heading) {
            heading = format!("{heading}, {}", self.title);
        }
        self.headings.push(heading.clone());
        heading
    }

    fn table(&mut self, place: &str, item: &'a Item) {
        let head = match self.format {
            Format::Keys => "| key | value | default | meaning |\n| --- | --- | --- | --- |\n",
            Format::Fields => "| field | value | meaning |\n| --- | --- | --- |\n",
        };
        let _ = write!(self.text, "\n{head}");
        self.rows(place, item);
    }

    fn rows(&mut self, place: &str, item: &'a Item) {
        for member in &item.members {
            if member.name == "_" || serde(&member.attributes, "skip").is_some() {
                continue;
            }
            let shape = self.shape(&member.holds, &item.file);
            if serde(&member.attributes, "flatten").is_some() {
                for (_, part) in shape.parts {
                    self.rows(place, part);
                }
                continue;
            }
            let name = serde(&member.attributes, "rename").unwrap_or_else(|| member.name.clone());
            let path = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            if member.doc.is_empty() {
                self.undocumented.push(format!("{}: `{path}`", item.file.display()));
            }
            // A table's defaults stand in its own rows.
            let default = if shape.parts.is_empty() { self.default(&path, member, item) } else { String::new() };
            let mut meaning = member.doc.clone();
            if !shape.meanings.is_empty() {
                meaning = format!("{} {}.", meaning, shape.meanings.join("; "));
            }
            if shape.by_role {
                meaning.push_str(" *By role.*");
            }
            let words = self.place(&path, shape);
            let cells = match self.format {
                Format::Keys => vec![format!("`{name}`"), words, default, meaning],
                Format::Fields => vec![format!("`{name}`"), words, meaning.replace("`None`", "null")],
            };
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(self.text, "| {} |", cells.join(" | "));
        }
    }

    /// The words of a shape, with links to the tables of its parts.
    fn place(&mut self, path: &str, shape: Shape<'a>) -> String {
        let mut words = shape.words;
        for (suffix, part) in shape.parts {
            let known = self.placed.iter().find(|(item, _)| std::ptr::eq(*item, part));
            let heading = match known {
                Some((_, heading)) => heading.clone(),
                None => {
                    let place = format!("{path}{suffix}");
                    let heading = self.heading(&place);
                    self.placed.push((part, heading.clone()));
                    self.waiting.push_back((place, heading.clone(), part));
                    heading
                }
            };
            let _ = write!(words, ", see [{heading}](#{})", links::anchor(&heading));
        }
        words
    }

    fn shape(&self, ty: &str, from: &Path) -> Shape<'a> {
        let inner = |prefix: &str| Some(ty.strip_prefix(prefix)?.strip_suffix('>')?.to_string());
        let (group, table) = match self.format {
            Format::Keys => ("list of", "table"),
            Format::Fields => ("list of", "object"),
        };
        if let Some(of) = inner("Option<").or_else(|| inner("Box<")) {
            return self.shape(&of, from);
        }
        if let Some(of) = inner("PerParty<") {
            return Shape { by_role: true, ..self.shape(&of, from) };
        }
        if let Some(of) = inner("Vec<") {
            let mut shape = self.shape(&of, from);
            shape.words = format!("{group} {}", plural(&shape.words));
            shape.parts.iter_mut().for_each(|(suffix, _)| suffix.insert_str(0, "[]"));
            return shape;
        }
        if let Some(of) = inner("BTreeMap<") {
            let (key, of) = of.split_once(", ").unwrap_or(("", &of));
            let mut shape = self.shape(of, from);
            let name = if key == "Role" { "ROLE" } else { "NAME" };
            shape.words = format!("{table} with one {} for each {}", shape.words, name.to_lowercase());
            shape.parts.iter_mut().for_each(|(suffix, _)| suffix.insert_str(0, &format!(".{name}")));
            return shape;
        }
        if let Some(of) = ty.strip_prefix('(').and_then(|of| of.strip_suffix(')')) {
            let each: Vec<String> = of.split(", ").map(|of| self.shape(of, from).words).collect();
            return Shape { words: format!("a list of {}", each.join(" and ")), ..Shape::default() };
        }
        let words = match ty {
            "Role" if self.format == Format::Keys => PARTY,
            "Role" => "role",
            "String" => "text",
            "PathBuf" => "file or folder",
            "bool" => "`true` or `false`",
            "f64" => "number",
            "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "whole number",
            "[f64; 2]" | "[u32; 2]" => "two numbers",
            "serde_json::Value" => "object",
            _ => "",
        };
        if !words.is_empty() {
            return Shape { words: words.to_string(), ..Shape::default() };
        }
        match self.source.resolve(ty, from) {
            None => panic!("{}: no words are known for the type `{ty}`", from.display()),
            Some(item) if serde(&item.attributes, "into").is_some() => {
                self.shape(&serde(&item.attributes, "into").unwrap_or_default(), &item.file)
            }
            Some(item) if item.is_enum => self.choice(item, table),
            Some(item) if item.wraps().is_some() => self.shape(item.wraps().unwrap_or_default(), &item.file),
            Some(item) => Shape { words: table.to_string(), parts: vec![(String::new(), item)], ..Shape::default() },
        }
    }

    fn choice(&self, item: &'a Item, table: &str) -> Shape<'a> {
        let mut shape = Shape::default();
        let (tag, untagged) = (serde(&item.attributes, "tag"), serde(&item.attributes, "untagged").is_some());
        let mut words = Vec::new();
        for variant in &item.members {
            let mut word = format!("`{}`", word(variant, item));
            let doc = variant.doc.trim_end_matches('.');
            if variant.holds == "Role" {
                word = PARTY.to_string();
            } else if variant.attributes.contains("#[fields]") {
                word = format!("{word} with `{}`", variant.holds);
            } else if !variant.holds.is_empty() {
                let held = self.shape(&variant.holds, &item.file);
                let name = word.trim_matches('`');
                let below = match (&tag, untagged) {
                    (Some(_), _) => format!("({name})"),
                    (None, true) => String::new(),
                    (None, false) => format!(".{name}"),
                };
                shape.parts.extend(held.parts.into_iter().map(|(suffix, part)| (below.clone() + &suffix, part)));
                if untagged {
                    match held.meanings.is_empty() {
                        true => shape.meanings.push(format!("{}: {doc}", held.words)),
                        false => shape.meanings.extend(held.meanings),
                    }
                    words.push(held.words);
                    continue;
                }
            }
            if !doc.is_empty() {
                shape.meanings.push(format!("{word}: {doc}"));
            }
            words.push(word);
        }
        let list = words.join(", ");
        shape.words = match tag {
            Some(tag) => format!("{table} whose `{tag}` is {list}"),
            None if !untagged && !shape.parts.is_empty() => format!("{table} with one of {list}"),
            None => list,
        };
        shape
    }

    fn default(&self, path: &str, member: &Member, item: &Item) -> String {
        let nothing = "none".to_string();
        if self.required.iter().any(|key| key == path) {
            return "required".to_string();
        }
        let by_hand = self.source.defaults(item);
        if serde(&item.attributes, "default").is_some()
            && let Some(expression) = by_hand.get(&member.name)
        {
            return self.shown(expression, &member.holds, item);
        }
        match serde(&member.attributes, "default").or_else(|| serde(&item.attributes, "default")) {
            _ if member.holds.starts_with("Option<") => nothing,
            Some(function) if !function.is_empty() => match self.source.returned(&function, &item.file) {
                Some(expression) => self.shown(&expression, &member.holds, item),
                None => panic!("{}: `{function}` of `{path}` is not to be found", item.file.display()),
            },
            Some(_) => self.of_type(&member.holds, item),
            None if self.required.is_empty() => "required".to_string(),
            // Where a list of required keys is kept, the others have a default that the comment tells.
            None => nothing,
        }
    }

    /// An expression of the code as it stands in a file.
    fn shown(&self, expression: &str, ty: &str, item: &Item) -> String {
        let expression = expression.trim_end_matches(".name().to_string()").trim_end_matches(".to_string()");
        if expression == "None" || expression == "Vec::new()" {
            return "none".to_string();
        }
        if expression.ends_with("::default()") {
            return self.of_type(ty, item);
        }
        if let Some((name, variant)) = expression.rsplit_once("::")
            && let Some(of) = self.source.resolve(name, &item.file).filter(|of| of.is_enum)
            && let Some(variant) = of.members.iter().find(|member| member.name == variant)
        {
            return format!("`{}`", word(variant, of));
        }
        format!("`{}`", expression.replace('_', ""))
    }

    fn of_type(&self, ty: &str, item: &Item) -> String {
        match ty {
            "bool" => return "`false`".to_string(),
            "f64" | "u32" | "u64" => return "`0`".to_string(),
            _ => {}
        }
        let of = self.source.resolve(ty, &item.file).filter(|of| of.is_enum);
        let first =
            of.and_then(|of| Some((of, of.members.iter().find(|member| member.attributes.contains("#[default]"))?)));
        first.map_or_else(|| "none".to_string(), |(of, variant)| format!("`{}`", word(variant, of)))
    }
}

/// A variant as serde writes it.
fn word(variant: &Member, item: &Item) -> String {
    if let Some(name) = serde(&variant.attributes, "rename") {
        return name;
    }
    let separated = |by: char| {
        let mut text = String::new();
        for (index, letter) in variant.name.chars().enumerate() {
            if letter.is_uppercase() && index > 0 {
                text.push(by);
            }
            text.extend(letter.to_lowercase());
        }
        text
    };
    match serde(&item.attributes, "rename_all").as_deref() {
        Some("lowercase") => variant.name.to_lowercase(),
        Some("snake_case") => separated('_'),
        Some("kebab-case") => separated('-'),
        // Written by hand, in words of a study file.
        None if !item.derives("Serialize") && !item.derives("Deserialize") => variant.name.to_lowercase(),
        _ => variant.name.clone(),
    }
}

fn plural(words: &str) -> String {
    match words {
        "text" => "texts".to_string(),
        "number" | "whole number" | "table" | "object" => format!("{words}s"),
        words => words.to_string(),
    }
}
