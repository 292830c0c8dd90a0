//! Sub-models of the last fit, from the table that opened to this party: no line is opened, and no data are read.

use std::fs;
use std::io;
use std::path::Path;

use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role};
use fedreg_common::methods::vertical::refit::{self, Columns, FORMAT, Kept, RefitError, Wanted};
use fedreg_common::report::Report;
use fedreg_common::session::Abort;
use fedreg_common::study::{Lambda, PathWord, PenaltyTerms, Study, Vertical};
use fedreg_proto::files::FileError;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::failure::Failure;
use crate::job;
use crate::output::{self, Folder, OutputError};

/// The file in the state folder.
pub const TABLE: &str = "opened-table.json";

/// The first line of the file: what the second one is.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Heading {
    /// Names the file to whoever opens it.
    about: String,
    /// The version of what is kept.
    format: u32,
    /// Digest of the second line.
    digest: String,
}

const ABOUT: &str =
    "fedreg: what opened to this party in its last fit, for the command refit; to be read by nobody else";

/// A sub-model, as flags name it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// Lists of columns or terms to leave out.
    pub(crate) drop: Vec<String>,
    /// Lists of those to keep.
    pub(crate) keep: Vec<String>,
    /// The penalty's weights: `path`, or numbers with commas.
    pub(crate) lambda: Option<String>,
    /// 1 is the lasso, 0 is ridge.
    pub(crate) alpha: Option<f64>,
}

/// Keeps what opened in a fit, for its owner alone; what another fit kept goes.
///
/// # Errors
/// It cannot be written.
pub(crate) fn keep(config: &Config, kept: Option<&Kept>) -> Result<(), OutputError> {
    let Some(kept) = kept else { return Ok(()) };
    let place = config.state.join(TABLE);
    let failed = |error: serde_json::Error| OutputError { path: place.clone(), source: io::Error::other(error) };
    let body = serde_json::to_string(kept).map_err(failed)?;
    let heading = Heading { about: ABOUT.to_string(), format: FORMAT, digest: Digest::of(body.as_bytes()).to_string() };
    let heading = serde_json::to_string(&heading).map_err(failed)?;
    Folder::prepare(&config.state)?.write(TABLE, format!("{heading}\n{body}\n").as_bytes())?;
    tracing::info!("what sub-models follow from is in {}; see `refit --help`", place.display());
    Ok(())
}

/// Fits a sub-model and writes its results; the report too.
///
/// # Errors
/// The study has no refits, or none for this party; there is no table, or not a sound one of this study; columns that it has not.
pub(crate) fn run(
    role: Role,
    config: &Config,
    asked: &Asked,
    out: Option<&Path>,
    call: String,
) -> Result<(Report, Exit), Failure> {
    let study = job::study(role, config)?;
    refit::allowed(&study, role)?;
    let wanted = asked.wanted()?;
    let kept = read(config, &study, role)?;
    let folder = Folder::of_results(out, &config.state)?;
    let report = kept.refit(&study, &wanted).map_err(|error| match error {
        RefitError::Select(error) => Failure::Usage(error.to_string()),
        RefitError::Abort(abort) => abort.into(),
    })?;
    let report = Report { call, date: Some(output::date()), ..report };
    folder.report(&report)?;
    tracing::info!("the report is in {}; nothing left this party", folder.path().display());
    Ok((report, Exit::Done))
}

impl Asked {
    fn wanted(&self) -> Result<Wanted, Failure> {
        let names = |lists: &[String]| -> Result<Vec<String>, Failure> {
            let all = lists.iter().map(|list| refit::names(list)).collect::<Result<Vec<_>, _>>();
            Ok(all.map_err(|error| Failure::Usage(error.to_string()))?.concat())
        };
        let columns = match (self.drop.is_empty(), self.keep.is_empty()) {
            (true, true) => Columns::All,
            (false, true) => Columns::Drop(names(&self.drop)?),
            (true, false) => Columns::Keep(names(&self.keep)?),
            (false, false) => return Err(Failure::Usage("--drop and --keep exclude each other".to_string())),
        };
        let penalty = match (&self.lambda, self.alpha) {
            (None, None) => None,
            (None, Some(_)) => return Err(Failure::Usage("--alpha needs --lambda".to_string())),
            (Some(lambda), alpha) => {
                let terms =
                    PenaltyTerms { lambda: lambdas(lambda)?, alpha: alpha.unwrap_or(1.0), cv: None, folds: None };
                if !(0.0..=1.0).contains(&terms.alpha) {
                    return Err(Failure::Usage("--alpha must lie between 0 (ridge) and 1 (lasso)".to_string()));
                }
                Some(terms)
            }
        };
        Ok(Wanted { columns, penalty })
    }
}

/// Reads `path`, or numbers with commas between them.
fn lambdas(text: &str) -> Result<Lambda, Failure> {
    if text == "path" {
        return Ok(Lambda::Path(PathWord::Path));
    }
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|lambda| lambda.is_finite() && *lambda >= 0.0);
    let all: Option<Vec<f64>> = text.split(',').map(number).collect();
    let shown = text.escape_debug();
    all.map(Lambda::Many).ok_or_else(|| {
        Failure::Usage(format!(
            "--lambda is `path` or numbers of zero or above with commas between them, got `{shown}`"
        ))
    })
}

/// The table of the last fit of a study, checked.
fn read(config: &Config, study: &Study<Vertical>, role: Role) -> Result<Kept, Failure> {
    let file = config.state.join(TABLE);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let state = config.state.display();
            let sentence = format!("there is no table in {state}: fit the study first, with this state folder");
            return Err(Abort::Data(sentence).into());
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(damaged(&file)),
        Err(source) => return Err(FileError::Read { file, source }.into()),
    };
    refuse_readers(&file)?;
    let (heading, body) = text.split_once('\n').ok_or_else(|| damaged(&file))?;
    let heading: Heading = serde_json::from_str(heading).map_err(|_| damaged(&file))?;
    if heading.format != FORMAT {
        let sentence = format!(
            "{} is of another version of this program (format {}, expected {FORMAT}): fit the study again",
            file.display(),
            heading.format
        );
        return Err(Abort::Data(sentence).into());
    }
    let body = body.strip_suffix('\n').unwrap_or(body);
    if Digest::of(body.as_bytes()).to_string() != heading.digest {
        return Err(damaged(&file));
    }
    let kept: Kept = serde_json::from_str(body).map_err(|_| damaged(&file))?;
    kept.check(study, role)?;
    Ok(kept)
}

fn damaged(file: &Path) -> Failure {
    Abort::Data(format!("{} is damaged: fit the study again", file.display())).into()
}

/// Refuses a table that others than its owner may read or change: it is exact sums over data of all parties.
#[cfg(unix)]
fn refuse_readers(file: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(file).map_err(|source| FileError::Read { file: file.to_path_buf(), source })?;
    let mode = mode.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let place = file.display();
    let sentence = format!(
        "{place} can be read or changed by others than its owner (mode {mode:o}): see who has it, then `chmod 600 {place}`"
    );
    Err(Abort::Refused(sentence).into())
}

#[cfg(not(unix))]
fn refuse_readers(_file: &Path) -> Result<(), Failure> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(drop: &[&str], keep: &[&str], lambda: Option<&str>, alpha: Option<f64>) -> Asked {
        let all = |lists: &[&str]| lists.iter().map(|list| (*list).to_string()).collect();
        Asked { drop: all(drop), keep: all(keep), lambda: lambda.map(str::to_string), alpha }
    }

    #[test]
    fn lists_of_columns_and_penalties_are_read_from_flags() {
        let wanted = asked(&["s1, s2", "`level, coded`"], &[], Some("0.5,2"), Some(0.0)).wanted().unwrap();
        let dropped = ["s1", "s2", "level, coded"].map(str::to_string).to_vec();
        assert_eq!(wanted.columns, Columns::Drop(dropped));
        let lambda = Lambda::Many(vec![0.5, 2.0]);
        assert_eq!(wanted.penalty, Some(PenaltyTerms { lambda, alpha: 0.0, cv: None, folds: None }));
        let path = asked(&[], &["ns(age, df = 3),bmi"], Some("path"), None).wanted().unwrap();
        assert_eq!(path.columns, Columns::Keep(vec!["ns(age, df = 3)".to_string(), "bmi".to_string()]));
        assert_eq!(path.penalty.map(|terms| (terms.lambda, terms.alpha)), Some((Lambda::Path(PathWord::Path), 1.0)));
        for (flags, why) in [
            (asked(&["a"], &["b"], None, None), "exclude each other"),
            (asked(&["a,,b"], &[], None, None), "a name is empty"),
            (asked(&["ns(a, b"], &[], None, None), "is not closed"),
            (asked(&["a)"], &[], None, None), "not open"),
            (asked(&[], &[], None, Some(0.5)), "--alpha needs --lambda"),
            (asked(&[], &[], Some("1"), Some(1.5)), "between 0 (ridge) and 1 (lasso)"),
            (asked(&[], &[], Some("-1"), None), "`path` or numbers"),
            (asked(&[], &[], Some("1,inf"), None), "`path` or numbers"),
            (asked(&[], &[], Some("paths"), None), "`path` or numbers"),
        ] {
            let failure = flags.wanted().unwrap_err();
            assert!(matches!(failure, Failure::Usage(_)) && failure.to_string().contains(why), "{failure}");
        }
    }
}
