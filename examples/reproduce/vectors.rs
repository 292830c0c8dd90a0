//! The reference fits that the tests hold, read from the source tree.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fedreg_common::data::Frame;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::prepare::needed_columns;
use fedreg_common::study::{Study, Vertical};
use fedreg_party::read;
use serde::Deserialize;

use crate::text_of;

/// A reference fit.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    data: PathBuf,
    outcome: String,
    pub(crate) family: String,
    alice: Vec<String>,
    bob: Vec<String>,
    offset: Option<String>,
    weights: Option<String>,
    intercept: bool,
    pub(crate) coefficients: Vec<ReferenceRow>,
}

/// A coefficient; nothing where a column depends on others.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ReferenceRow {
    pub(crate) term: String,
    pub(crate) estimate: Option<f64>,
    pub(crate) std_error: Option<f64>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors")
}

/// All reference fits without penalty, in order of name.
///
/// # Errors
/// A source tree that is not there any more.
pub(crate) fn references() -> anyhow::Result<Vec<Reference>> {
    let folder = folder().join("glm");
    let listed = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = listed.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let of = |file: &PathBuf| serde_json::from_str(&text_of(file)?).with_context(|| file.display().to_string());
    files.iter().map(of).collect()
}

impl Reference {
    /// The study that asks for this fit in sealed mode.
    ///
    /// # Errors
    /// Never with a fit that the mode has.
    pub(crate) fn study(&self) -> anyhow::Result<Study<Vertical>> {
        let mut text = sealed_study(&self.family, [&self.alice, &self.bob], &self.outcome, self.intercept);
        for (key, column) in [("offset", &self.offset), ("weights", &self.weights)] {
            text.extend(column.iter().map(|column| format!("[{key}]\ncolumn = {column:?}\n")));
        }
        if self.tags.iter().any(|tag| tag == "missing") {
            text.push_str("[rows]\nmissing = \"complete-cases\"\n");
        }
        parsed(&text)
    }

    /// A party's columns.
    ///
    /// # Errors
    /// A file that is not there.
    pub(crate) fn frame(&self, study: &Study<Vertical>, role: Role) -> anyhow::Result<Frame> {
        let file = folder().join(&self.data);
        let header = read::header(&file, None)?;
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let columns = Some(needed_columns(study, role, &header)?);
        Ok(read::read(&file, &read::Request { columns, ..read::Request::default() })?)
    }
}

/// The text of a study of two parties in sealed mode.
pub(crate) fn sealed_study(family: &str, columns: [&[String]; 2], outcome: &str, intercept: bool) -> String {
    let [alice, bob] = columns.map(|names| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", "));
    format!(
        "id = \"reproduced\"\nmode = \"sealed\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [{alice}]\n[parties.bob]\ncertificate = \
         \"bob\"\ncolumns = [{bob}]\n[outcome]\ncolumn = {outcome:?}\n[model]\nfamily = \"{family}\"\nintercept = {intercept}\n"
    )
}

/// A study file, read.
///
/// # Errors
/// A text that is no study of two parties.
pub(crate) fn parsed(text: &str) -> anyhow::Result<Study<Vertical>> {
    Study::parse(text)?.vertical().context("the study is not that of two parties")
}

#[cfg(test)]
impl Reference {
    /// Outcome and columns of a file of numbers, Alice's first.
    pub(crate) fn columns(&self) -> Vec<Vec<f64>> {
        let mut reader = csv::Reader::from_path(folder().join(&self.data)).unwrap();
        let header = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        std::iter::once(&self.outcome)
            .chain(&self.alice)
            .chain(&self.bob)
            .map(|name| {
                let at = header.iter().position(|column| column == name).unwrap();
                rows.iter().map(|row| row[at].parse().unwrap()).collect()
            })
            .collect()
    }
}
