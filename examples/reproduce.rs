//! Published tables beside ours: the simulations of the source papers, run again on this implementation.
//!
//! Numbers of others are typed in with their source. `--quick` runs small versions in seconds, whose errors are not
//! comparable with the published ones; without it every table has the published size.

#[path = "reproduce/arguments.rs"]
mod arguments;
#[path = "reproduce/chart.rs"]
mod chart;
#[path = "reproduce/comparators.rs"]
mod comparators;
#[path = "reproduce/coordinated.rs"]
mod coordinated;
#[path = "reproduce/cost.rs"]
mod cost;
#[path = "reproduce/curves.rs"]
mod curves;
#[path = "reproduce/dealt.rs"]
mod dealt;
#[path = "reproduce/designs.rs"]
mod designs;
#[path = "reproduce/document.rs"]
mod document;
#[path = "reproduce/drlr.rs"]
mod drlr;
#[path = "reproduce/em.rs"]
mod em;
#[path = "reproduce/evidence.rs"]
mod evidence;
#[path = "reproduce/fairness.rs"]
mod fairness;
#[path = "reproduce/features.rs"]
mod features;
#[path = "reproduce/matching.rs"]
mod matching;
#[path = "reproduce/opened.rs"]
mod opened;
#[path = "reproduce/privacy.rs"]
mod privacy;
#[path = "reproduce/research/mod.rs"]
mod research;
#[path = "reproduce/robust.rs"]
mod robust;
#[path = "reproduce/sealed.rs"]
mod sealed;
#[path = "reproduce/stream.rs"]
mod stream;
#[path = "reproduce/sweep.rs"]
mod sweep;
#[path = "reproduce/tables.rs"]
mod tables;
#[path = "reproduce/vectors.rs"]
mod vectors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use fedreg_common::exit::Exit;
use fedreg_party::output::{Folder, OutputError, print};

use crate::arguments::{Program, What};
use crate::document::Document;

/// What a table needs to know.
pub(crate) struct Run {
    seeds: Option<u64>,
    pub(crate) quick: bool,
    pub(crate) insurance: Option<PathBuf>,
}

impl Run {
    /// Repetitions: those asked for, or the published number, or a few.
    pub(crate) fn seeds(&self, published: u64) -> u64 {
        self.seeds.unwrap_or(if self.quick { published.min(2) } else { published })
    }

    /// One size or the other.
    pub(crate) fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// States a bound, unless the tables are too small to be judged by it.
    pub(crate) fn target(&self, document: &mut Document, measured: f64, largest: f64, what: &str) {
        if !self.quick {
            let text = format!("{what}: at most {}, measured {}", tables::number(largest), tables::number(measured));
            document.target(measured <= largest, text);
        }
    }
}

fn main() -> ExitCode {
    let program = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => {
            // Help goes to standard output and is no failure. If neither can be printed, the code still tells.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    match reproduce(&program) {
        Ok(0) => Exit::Done,
        Ok(missed) => {
            eprintln!("reproduce: {missed} of the stated bounds were missed");
            Exit::NotConverged
        }
        Err(error) => {
            eprintln!("reproduce: {error:#}");
            if error.is::<OutputError>() { Exit::CannotWrite } else { Exit::Internal }
        }
    }
    .into()
}

fn reproduce(program: &Program) -> anyhow::Result<usize> {
    let folder = program.out.as_deref().map(Folder::prepare).transpose()?;
    let run = Run { seeds: program.seeds, quick: program.quick, insurance: program.insurance.clone() };
    let (name, document) = match program.what {
        What::DrlrTable2 => ("drlr-table2", drlr::table(&run)?),
        What::Robust => ("robust", robust::tables(&run)?),
        What::RobustCurves => ("robust-curves", curves::tables(&run)?),
        What::Cost => ("cost", cost::tables(&run)?),
        What::Privacy => ("privacy", privacy::tables(&run)?),
        What::Sealed => ("sealed", sealed::tables(&run)?),
        What::Em => ("em", em::tables(&run)?),
        What::Features => ("features", features::tables(&run)?),
        What::Stream => ("stream", stream::tables(&run)?),
        What::Matching => ("matching", matching::tables(&run)?),
    };
    print(&document.text())?;
    if let Some(folder) = folder {
        folder.write(&format!("{name}.html"), document.html().as_bytes())?;
        folder.write(&format!("{name}.txt"), document.text().as_bytes())?;
        for (picture, svg) in document.pictures() {
            folder.write(&format!("{name}-{picture}.svg"), svg.as_bytes())?;
        }
        eprintln!("reproduce: wrote {}", folder.path().join(format!("{name}.html")).display());
    }
    Ok(document.missed())
}

/// A text file of the user.
pub(crate) fn text_of(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Part;

    /// The smallest run.
    fn small() -> Run {
        Run { seeds: Some(2), quick: true, insurance: None }
    }

    /// Its pictures are drawn, have these names among them, and no cell of a table is empty of a number.
    fn whole(document: &Document, pictures: &[&str]) {
        let drawn = document.pictures();
        for name in pictures {
            let picture = drawn.iter().find(|(drawn, _)| drawn == name);
            let svg = &picture.unwrap_or_else(|| panic!("no picture {name}")).1;
            assert!(svg.starts_with("<?xml") && svg.contains("polyline") && !svg.contains("NaN"), "{name}: {svg}");
        }
        assert_eq!(document.missed(), 0, "no bound is judged by small tables");
        for part in &document.parts {
            let Part::Table(table) = part else { continue };
            for row in &table.rows {
                assert_eq!(row.cells.len(), table.header.len(), "{}: {row:?}", table.caption);
            }
        }
    }

    /// Statements that contain a text, and whether they hold.
    fn findings(document: &Document, about: &str) -> Vec<bool> {
        let of = |part: &Part| match part {
            Part::Finding { holds, text } if text.contains(about) => Some(*holds),
            _ => None,
        };
        let found: Vec<bool> = document.parts.iter().filter_map(of).collect();
        assert!(!found.is_empty(), "no statement about {about:?}");
        found
    }

    #[test]
    fn streams_have_boxes_curves_and_rates_and_the_stated_rate_does_not_survive_privacy() {
        let document = stream::tables(&small()).unwrap();
        let boxes = ["boxes-plain-case-1", "boxes-plain-case-2", "boxes-private-case-1", "boxes-private-case-2"];
        whole(&document, &boxes);
        whole(&document, &["curves-case-1", "curves-case-2", "rates", "rates-private", "rates-private-own"]);
        let private = findings(&document, "Private, the stated schedule");
        assert!(private.len() == 3 && private.contains(&false), "{private:?}");
        let plain = findings(&document, "Without privacy");
        assert!(plain.len() == 9 && plain.iter().filter(|holds| **holds).count() >= 6, "{plain:?}");
        assert_eq!(findings(&document, "stronger privacy leads to greater error"), [true; 2]);
    }

    #[test]
    fn robust_regression_has_a_curve_for_every_number_and_is_exact_without_dense_noise() {
        let document = curves::tables(&small()).unwrap();
        whole(&document, &["corruption", "corruption-exact", "batches", "columns", "rows", "time"]);
        assert_eq!(findings(&document, "exactly without dense noise"), [true; 2]);
        assert_eq!(findings(&document, "outperforms all rivals").len(), 8);
        assert_eq!(findings(&document, "grows linearly").len(), 2);
    }
}
