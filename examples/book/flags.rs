//! A chapter of flags from a program's command line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

/// Flags that at least so many commands share stand in a table of their own.
const SHARED: usize = 3;

/// A command without commands of its own.
struct Leaf {
    /// The words behind the program's name.
    name: String,
    command: Command,
}

/// The chapter of a program, and the arguments that have no help text. Commands that begin with one of the words
/// `elsewhere` are left out, as another chapter has them.
pub(super) fn chapter(title: &str, mut program: Command, elsewhere: &[(&str, &str)]) -> (String, Vec<String>) {
    program.build();
    let mut leaves = Vec::new();
    collect("", &program, &mut leaves);
    leaves.retain(|leaf| !elsewhere.iter().any(|(word, _)| leaf.name.split(' ').next() == Some(word)));
    let mut bare = Vec::new();
    let mut text = format!("# {title}\n\n{}\n", sentences(program.get_about(), program.get_long_about()));
    let names: Vec<&str> = leaves.iter().map(|leaf| leaf.name.as_str()).filter(|name| !name.is_empty()).collect();
    if !names.is_empty() {
        let _ = writeln!(text, "\nCommands: {}.", listed(&names));
    }
    for (word, place) in elsewhere {
        let _ = writeln!(text, "`{word}` is the same in every program: see [{word}]({place}).");
    }
    text.push_str("Every command has `--help`, and `--version` prints the version.\n");
    let groups = groups(&leaves);
    for (index, (users, rows)) in groups.iter().enumerate() {
        let _ = write!(text, "\n## Shared flags {}\n\nOf {}.\n\n{}", index + 1, listed(users), table(rows));
    }
    for leaf in &leaves {
        let name = if leaf.name.is_empty() { program.get_name() } else { &leaf.name };
        let about = sentences(leaf.command.get_about(), leaf.command.get_long_about());
        let _ = writeln!(text, "\n## `{name}`\n");
        if !leaf.name.is_empty() {
            let _ = writeln!(text, "{about}");
        }
        let mut own = Vec::new();
        for argument in arguments(&leaf.command) {
            if argument.get_help().is_none() {
                bare.push(format!("{} {} {}", program.get_name(), leaf.name, argument.get_id()));
            }
            let row = row(argument);
            if !groups.iter().any(|(users, rows)| users.contains(&name) && rows.contains(&row)) {
                own.push(row);
            }
        }
        let others: Vec<String> = groups
            .iter()
            .enumerate()
            .filter(|(_, (users, _))| users.contains(&name))
            .map(|(index, _)| format!("[shared flags {0}](#shared-flags-{0})", index + 1))
            .collect();
        if !others.is_empty() {
            let _ = writeln!(text, "\nTakes the {}.", others.join(", the "));
        }
        if !own.is_empty() {
            let _ = write!(text, "\n{}", table(&own));
        }
    }
    (text, bare)
}

fn collect(prefix: &str, command: &Command, leaves: &mut Vec<Leaf>) {
    let inner: Vec<&Command> =
        command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set()).collect();
    if inner.is_empty() {
        leaves.push(Leaf { name: prefix.to_string(), command: command.clone() });
    }
    for inner in inner {
        collect(format!("{prefix} {}", inner.get_name()).trim(), inner, leaves);
    }
}

fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        !argument.is_hide_set() && !matches!(argument.get_action(), ArgAction::Help | ArgAction::Version)
    })
}

/// Rows of flags by the commands that have them, where these are at least [`SHARED`].
fn groups(leaves: &[Leaf]) -> Vec<(Vec<&str>, Vec<String>)> {
    let mut users: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut order = Vec::new();
    for leaf in leaves {
        for argument in arguments(&leaf.command) {
            let row = row(argument);
            let of = users.entry(row.clone()).or_default();
            if of.is_empty() {
                order.push(row);
            }
            of.push(&leaf.name);
        }
    }
    let mut groups: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    for row in order {
        let of = users[&row].clone();
        match groups.iter_mut().find(|(users, _)| *users == of) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((of, vec![row])),
        }
    }
    groups.retain(|(users, rows)| users.len() > 1 && users.len() * rows.len() >= SHARED * 2);
    groups
}

fn row(argument: &Arg) -> String {
    let takes = argument.get_action().takes_values();
    let names = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let mut values = names.collect::<Vec<_>>().join(" ");
    if values.is_empty() {
        values = argument.get_id().as_str().to_uppercase();
    }
    let flag = match (argument.get_long(), takes) {
        (Some(long), true) => format!("--{long} {values}"),
        (Some(long), false) => format!("--{long}"),
        (None, _) => values,
    };
    let mut meaning = sentences(argument.get_help(), argument.get_long_help());
    let words: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| takes)
        .map(|word| match word.get_help() {
            Some(help) => format!("`{}`: {}", word.get_name(), help.to_string().trim_end_matches('.')),
            None => format!("`{}`", word.get_name()),
        })
        .collect();
    if !words.is_empty() {
        meaning = format!("{meaning} {}.", words.join("; "));
    }
    for alias in argument.get_visible_aliases().unwrap_or_default() {
        let _ = write!(meaning, " Also `--{alias}`.");
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    let default = match (argument.is_required_set(), takes) {
        (true, _) => "required".to_string(),
        (false, true) => defaults.join(", "),
        (false, false) => String::new(),
    };
    format!("| `{}` | {} | {default} |", escaped(&flag), escaped(&meaning))
}

fn table(rows: &[String]) -> String {
    format!("| flag | meaning | default |\n| --- | --- | --- |\n{}\n", rows.join("\n"))
}

/// The short help, and what the long one says beyond it, as sentences.
fn sentences(short: Option<&clap::builder::StyledStr>, long: Option<&clap::builder::StyledStr>) -> String {
    let short = short.map(ToString::to_string).unwrap_or_default();
    let long = long.map(ToString::to_string).unwrap_or_default();
    let rest = long.strip_prefix(short.as_str()).unwrap_or_default().trim();
    let mut text = short.trim().to_string();
    if !text.is_empty() && !text.ends_with('.') {
        text.push('.');
    }
    for paragraph in rest.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        text.push(' ');
        text.push_str(&paragraph.replace('\n', " "));
    }
    text
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
