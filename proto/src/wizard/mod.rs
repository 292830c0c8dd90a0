//! The subcommand `study`, the same in every binary: a new study for everybody who takes part in it, and what a study means.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::study::StudyError;
use thiserror::Error;

use crate::certs::CertsError;
use crate::files::{FileError, read_study};
use crate::output::{self, OutputError};

mod ask;
mod draft;
mod folders;
mod places;
mod questions;
mod texts;
pub mod words;

pub use self::ask::Asker;
pub use self::draft::empty;
pub use self::folders::{Outline, Place, write};
pub use self::places::{PlaceFlags, placed};
pub use self::questions::{Answers, outline};

/// Makes and explains studies.
#[derive(Debug, Clone, Args)]
pub struct StudyCommand<D: Args> {
    #[command(subcommand)]
    action: Action<D>,
}

#[derive(Debug, Clone, Subcommand)]
enum Action<D: Args> {
    /// Write a folder for everybody who takes part in a new study: the study, a private file, a certificate request and what to do
    ///
    /// On a terminal it asks for what no flag says. Elsewhere an answer that is missing and has no default ends it with exit code 2 and
    /// the name of the flag.
    Init(Init<D>),
    /// Say in plain words what leaves whom in a study, against whom it is protected, and what it assumes
    Explain(Explain),
}

#[derive(Debug, Clone, Args)]
struct Init<D: Args> {
    /// Folder below which everybody gets one; none of them may exist
    #[arg(long, value_name = "DIR", default_value = "fedreg-study")]
    dir: PathBuf,
    #[command(flatten)]
    answers: Box<Answers>,
    #[command(flatten)]
    table: D,
}

#[derive(Debug, Clone, Args)]
struct Explain {
    /// The shared study file
    #[arg(value_name = "STUDY")]
    study: PathBuf,
    /// How it is shown
    #[arg(long, value_enum, default_value_t)]
    format: ExplainFormat,
    /// File to write it to, in place of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// How an explanation is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum ExplainFormat {
    /// For people, on a terminal
    #[default]
    Text,
    /// One page for a browser, without anything from elsewhere
    Html,
    /// With stable names
    Json,
}

/// The header of a table that the asking program has at hand; nothing else of the table is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The table.
    pub file: PathBuf,
    /// Its columns.
    pub columns: Vec<String>,
}

/// Where a program can read the header of a table of its own.
pub trait OwnTable: Args {
    /// The header, where a table was named.
    ///
    /// # Errors
    /// A sentence on a table that cannot be read.
    fn header(&self) -> Result<Option<Header>, String>;
}

/// Of a program that holds no data.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct NoTable {}

impl OwnTable for NoTable {
    fn header(&self) -> Result<Option<Header>, String> {
        Ok(None)
    }
}

/// Why a study cannot be made or explained.
#[derive(Debug, Error)]
pub enum WizardError {
    /// An answer that makes no sense.
    #[error("{0}")]
    Answer(String),
    /// An answer that is missing, and nobody to ask.
    #[error("--{flag} is missing: {question}")]
    Missing {
        /// The flag that would say it.
        flag: &'static str,
        /// What it says.
        question: String,
    },
    /// The answers do not make a study.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// A study file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The table whose header was to be offered.
    #[error("{0}")]
    Table(String),
    /// A folder that would be overwritten.
    #[error("{} exists already: choose another folder with --{flag}", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
        /// The flag that names where it is.
        flag: &'static str,
    },
    /// A file or folder that cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A key or request that cannot be made.
    #[error(transparent)]
    Certs(#[from] CertsError),
}

impl WizardError {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            WizardError::Answer(_) | WizardError::Missing { .. } | WizardError::Study(_) => Exit::Usage,
            WizardError::File(error) => error.exit(),
            WizardError::Table(_) => Exit::Data,
            WizardError::Exists { .. } => Exit::CannotWrite,
            WizardError::Output(error) => error.exit(),
            WizardError::Certs(error) => error.exit(),
        }
    }
}

/// Runs `study` for a program of a role; none of the program whose party is not named.
///
/// # Errors
/// [`WizardError`], whose `exit` is the exit code.
pub fn run<D: OwnTable>(role: Option<Role>, command: &StudyCommand<D>) -> Result<(), WizardError> {
    match &command.action {
        Action::Init(init) => {
            let header = init.table.header().map_err(WizardError::Table)?;
            // A wrong answer is asked for again only where somebody sits there.
            let stdin = io::stdin();
            let input = stdin.is_terminal().then(|| Box::new(stdin.lock()) as Box<dyn BufRead>);
            let mut asker = Asker::new(input, Box::new(io::stderr()));
            let outline = outline(&init.answers, role, header, &mut asker)?;
            let lines = write(&outline, &init.dir, "dir")?;
            Ok(output::print(&lines)?)
        }
        Action::Explain(explain) => explain.run(),
    }
}

impl Explain {
    fn run(&self) -> Result<(), WizardError> {
        let same = |file: &PathBuf| match (file.canonicalize(), self.study.canonicalize()) {
            (Ok(file), Ok(study)) => file == study,
            _ => false,
        };
        if let Some(file) = self.out.as_ref().filter(|file| same(file)) {
            let problem =
                format!("--out names the study itself, {}, which would be lost: choose another file", file.display());
            return Err(WizardError::Answer(problem));
        }
        let explanation = read_study(&self.study)?.explanation();
        let text = match self.format {
            ExplainFormat::Text => explanation.text(),
            ExplainFormat::Html => explanation.html(),
            ExplainFormat::Json => {
                let json = serde_json::to_string_pretty(&explanation);
                // An explanation is made of words and lists, which JSON can hold.
                format!("{}\n", json.unwrap_or_default())
            }
        };
        match &self.out {
            None => Ok(output::print(&text)?),
            Some(file) => Ok(whole(file, &text)?),
        }
    }
}

/// Writes a file that everybody may read.
fn whole(file: &Path, text: &str) -> Result<(), OutputError> {
    output::replace(file, text.as_bytes(), false).map_err(OutputError::at(file))
}

/// Says a line to whoever is asked; what cannot be said there cannot be complained of either.
fn say(out: &mut dyn Write, line: &str) {
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests;
