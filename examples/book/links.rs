//! Whether what the documents point to is there.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// A document without its code: in blocks and between backticks nothing is a link.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    let parts = kept.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "code" });
    parts.collect()
}

/// The targets of all links.
fn targets(text: &str) -> Vec<String> {
    prose(text).split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_string).collect()
}

/// The anchor of a heading, as mdBook and GitHub make it.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " _-".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The anchors of all headings.
fn anchors(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title);
        let same = found.iter().filter(|other| **other == anchor).count();
        found.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
    found
}

fn chapters(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(chapters(&path)),
            false if path.extension().is_some_and(|ending| ending == "md") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

fn documents() -> Vec<PathBuf> {
    let root = root();
    let mut all: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/vectors/README.md"]
            .iter()
            .map(|name| root.join(name))
            .collect();
    let folders = ["examples", "clients"].into_iter().flat_map(|name| fs::read_dir(root.join(name)).unwrap());
    all.extend(folders.map(|folder| folder.unwrap().path().join("README.md")).filter(|readme| readme.is_file()));
    all.extend(chapters(&root.join("docs")));
    all
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let book = root().join("docs").canonicalize().unwrap();
    let mut broken = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let folder = document.parent().unwrap().canonicalize().unwrap();
        let mut complain = |target: &str, why: &str| broken.push(format!("{}: {target} {why}", document.display()));
        for target in targets(&text).iter().filter(|target| !target.contains("://")) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let place = match path.is_empty() {
                true => document.canonicalize(),
                false => folder.join(path).canonicalize(),
            };
            match place {
                Err(_) => complain(target, "does not exist"),
                // mdBook shows only what lies below docs/.
                Ok(place) if folder.starts_with(&book) && !place.starts_with(&book) => {
                    complain(target, "leaves the book")
                }
                Ok(place) if !anchor.is_empty() => {
                    if !anchors(&fs::read_to_string(place).unwrap()).iter().any(|known| known == anchor) {
                        complain(target, "has no such heading");
                    }
                }
                Ok(_) => {}
            }
        }
        // Chapters that are named without being linked.
        for rest in text.split("docs/").skip(1) {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || "/-_.".contains(*c)).collect();
            let name = name.trim_end_matches('.');
            if name.ends_with(".md") && !book.join(name).is_file() {
                complain(&format!("docs/{name}"), "does not exist");
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn every_chapter_stands_in_the_summary() {
    let book = root().join("docs");
    let listed: Vec<PathBuf> =
        targets(&fs::read_to_string(book.join("SUMMARY.md")).unwrap()).iter().map(|target| book.join(target)).collect();
    for chapter in chapters(&book).iter().filter(|chapter| !chapter.ends_with("SUMMARY.md")) {
        assert!(listed.contains(chapter), "{} does not stand in docs/SUMMARY.md", chapter.display());
    }
}

#[test]
fn the_readme_is_short_and_has_the_two_commands() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 200, "{} lines", readme.lines().count());
    for line in readme.lines() {
        assert!(line.chars().count() <= 130, "a line of {} characters: {line}", line.chars().count());
    }
    for command in ["\ncargo run --release --bin demo -- vertical\n", "\ncargo test --release --workspace --locked\n"] {
        assert!(readme.contains(command), "the README lacks {command}");
    }
}

#[test]
fn a_broken_link_is_found() {
    assert_eq!(targets("[a](b.md#c) `[x](y)`\n```\n[x](y)\n```\n[d](e.md)"), ["b.md#c", "e.md"]);
    assert_eq!(anchors("# A `b.c` d\n## Same\n## Same\n#no\n```\n# code\n```"), ["a-bc-d", "same", "same-1"]);
}
