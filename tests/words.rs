//! Modes, methods and roles are decided by exhaustive matches on their types: their words are parsed in one place and printed in others.

use std::fs;
use std::path::Path;

use crate::imports::{files, without_tests};

const CRATES: [&str; 4] = ["common", "proto", "party", "coordinator"];
const WORDS: [&str; 12] = [
    "plain",
    "sealed",
    "private",
    "vertical",
    "robust",
    "em",
    "features",
    "stream",
    "alice",
    "bob",
    "worker",
    "coordinator",
];
/// Where words are parsed.
const PARSED: &str = "common/src/id.rs";

#[test]
fn no_comparison_of_words_decides_a_mode_a_method_or_a_role() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut faults = Vec::new();
    for file in CRATES.iter().flat_map(|name| files(&root.join(name).join("src"))) {
        let shown = file.strip_prefix(root).unwrap().display().to_string();
        if shown == PARSED || shown.contains("tests") {
            continue;
        }
        for line in without_tests(&fs::read_to_string(&file).unwrap()).lines().filter(|line| decides(line)) {
            faults.push(format!("{shown}: {}", line.trim()));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn comparisons_of_words_are_seen_and_other_words_are_not() {
    for line in [
        "if report.mode == \"private\" {",
        "if \"plain\" != mode {",
        "\"em\" => title,",
        "(\"private\", \"robust\") => Some(words),",
        "let private = report.mode == Mode::Private.name();",
        "if role.name() == name {",
    ] {
        assert!(decides(line), "{line}");
    }
    for line in [
        "Mode::Plain => \"plain\",",
        "let name = mode.name();",
        "// mode == \"private\"",
        "\"embed\" => 1,",
        "a == \"b\"",
    ] {
        assert!(!decides(line), "{line}");
    }
}

/// Whether a line of code compares the word of a mode, a method or a role.
fn decides(line: &str) -> bool {
    let line = line.trim();
    if line.starts_with("//") {
        return false;
    }
    let pattern = line.split_once("=>").map(|(pattern, _)| pattern).filter(|pattern| pattern.starts_with(['"', '(']));
    let worded = |text: &str| WORDS.iter().any(|word| text.contains(&format!("\"{word}\"")));
    let sides: Vec<&str> = line.split("==").flat_map(|part| part.split("!=")).collect();
    let compared = sides.windows(2).any(|pair| {
        let (left, right) = (pair[0].trim_end(), pair[1].trim_start());
        let word = |word: &&str| left.ends_with(&format!("\"{word}\"")) || right.starts_with(&format!("\"{word}\""));
        WORDS.iter().any(word)
            || left.ends_with(".name()")
            || right.trim_end_matches([' ', '{', ';']).ends_with(".name()")
    });
    compared || pattern.is_some_and(worded)
}
