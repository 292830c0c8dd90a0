//! The book's chapters that are made from the code, and the links of all documents.
//!
//! The chapters are committed. Where one differs from what the code says, a test fails and names the command that writes
//! it again. Nothing of this is part of a program.

mod flags;
mod keys;
mod links;
mod source;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;

use keys::{Format, Tables};
use source::{Item, Source};

/// Writes the chapters where the variable `FEDREG_BOOK` is `write`.
const REWRITE: &str = "FEDREG_BOOK=write cargo test --release --locked -p fedreg-examples --bin demo book";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// A generated chapter is what it was when it was committed.
fn hold(name: &str, text: &str) {
    let path = root().join("docs/reference").join(name);
    let text = format!("<!-- Made from the code by: {REWRITE} -->\n\n{}\n", text.trim_end());
    if std::env::var("FEDREG_BOOK").is_ok_and(|word| word == "write") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    } else if fs::read_to_string(&path).unwrap_or_default() != text {
        panic!("docs/reference/{name} is not what the code says any more; this writes it again:\n{REWRITE}");
    }
}

/// The chapter of a program, all of whose flags have a help text.
fn program(title: &str, command: clap::Command, elsewhere: &[(&str, &str)]) -> String {
    let (text, bare) = flags::chapter(title, command, elsewhere);
    assert!(bare.is_empty(), "flags without a help text: {bare:#?}");
    text
}

#[test]
fn the_chapters_of_flags_are_those_of_the_command_lines() {
    let certs = [("certs", "certs.md"), ("study", "study-command.md")];
    let of = |role| program("`alice` and `bob`", fedreg_party::cli::command(role), &certs);
    let same = |text: String| text.replace("bob", "alice");
    assert_eq!(same(of(Role::Alice)), same(of(Role::Bob)), "one chapter is for both parties");
    hold("alice-bob.md", &of(Role::Alice));
    hold("party.md", &program("`party`", fedreg_party::cli::command_of_named(), &certs));
    hold("worker.md", &program("`worker`", fedreg_party::cli::command(Role::Worker), &certs));
    hold("coordinator.md", &program("`coordinator`", fedreg_coordinator::cli::command(), &certs));
    hold("demo.md", &program("`demo`", fedreg_demo::command(), &[]));
    hold("reproduce.md", &program("`reproduce`", crate::reproduce::Program::command(), &[]));
    let coordinator = fedreg_coordinator::cli::command();
    let alone = coordinator.find_subcommand("certs").unwrap().clone();
    hold("certs.md", &program("`certs`, in every program", alone, &[]));
    // A party's has the flags about its own table, too.
    let alone = fedreg_party::cli::command(Role::Alice).find_subcommand("study").unwrap().clone();
    hold("study-command.md", &program("`study`, in every program", alone, &[]));
}

#[test]
fn the_chapter_of_exit_codes_is_that_of_the_code() {
    let source = Source::read(&root(), &["common/src"]);
    let item = source.items().find(|item| item.name == "Exit" && item.is_enum).unwrap();
    let mut text =
        "# Exit codes\n\nAll programs have the same. All parties and the demo exit with the code of the side that \
                    ended the run.\n\n| code | meaning | what is printed, and what to do |\n| --- | --- | --- |\n"
            .to_string();
    for exit in Exit::ALL {
        let meaning = &item.members.iter().find(|variant| variant.name == format!("{exit:?}")).unwrap().doc;
        let _ = writeln!(text, "| {} | {meaning} | {} |", exit.code(), exit.advice());
    }
    hold("exit-codes.md", &text);
}

#[test]
fn the_chapters_of_study_and_private_files_are_those_of_what_is_parsed() {
    let source = Source::read(&root(), &["common/src", "proto/src", "party/src", "coordinator/src"]);
    let is_study = |item: &&Item| {
        item.derives("Deserialize")
            && ["protocol", "mode", "parties", "workers", "coordinator"]
                .iter()
                .all(|key| item.members.iter().any(|member| member.name == *key))
    };
    let studies: Vec<&Item> = source.items().filter(is_study).collect();
    let [study] = studies[..] else { panic!("one struct that a study file is parsed into, not {}", studies.len()) };
    let mut tables = Tables::new(&source, Format::Keys);
    tables.add("The top of the file", study, Vec::new());
    let head = "# Keys of a study\n\nThe shared file, `study.toml`, in TOML. An unknown key is refused, with the nearest known one.";
    hold("study.md", &format!("{head}\n{}", tables.finish()));

    let mut configs: Vec<&Item> =
        source.items().filter(|item| item.name == "Config" && item.derives("Deserialize")).collect();
    let of = |item: &Item, word: &str| item.file.to_string_lossy().contains(word);
    configs.sort_by_key(|item| (of(item, "coordinator"), of(item, "worker")));
    let mut tables = Tables::new(&source, Format::Keys);
    for config in configs {
        let title = match (of(config, "worker"), of(config, "coordinator")) {
            (true, _) => "A worker: `worker.toml`",
            (_, true) => "The coordinator: `coordinator.toml`",
            _ => "A party: `NAME.toml`, as `alice.toml`",
        };
        tables.add(title, config, source.required(&config.file));
    }
    let head = "# Keys of private files\n\nIn TOML. Paths are relative to the file's own folder; flags override keys, and \
                `--print-config` shows the result. An unknown key is refused, with the nearest known one.";
    hold("private-files.md", &format!("{head}\n{}", tables.finish()));
}

#[test]
fn the_chapter_of_json_is_that_of_what_is_written() {
    let source = Source::read(&root(), &["common/src"]);
    let mut tables = Tables::new(&source, Format::Fields);
    for (name, title) in [
        ("Report", "`report.json`, and `--format json` of a run"),
        ("Consolidated", "`coordinator consolidate --format json`"),
        ("Record", "A line of `worker estimate`"),
    ] {
        let written = |item: &&Item| item.name == name && item.derives("Serialize");
        let item = source.items().find(written).unwrap_or_else(|| panic!("no struct `{name}` is written"));
        tables.add(title, item, Vec::new());
    }
    let head = "# Fields of JSON\n\nNumbers round-trip; what is undefined is null, and what belongs to other kinds of runs is \
                left out. *By role*: in the merged report of a rehearsal the field is an object with one value for each role, \
                `{\"alice\": .., \"bob\": ..}`; in a party's own report it is that value.";
    hold("json.md", &format!("{head}\n{}", tables.finish()));
}
