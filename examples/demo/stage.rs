//! What every rehearsal needs: a folder with the study's files, fresh certificates, a coordinator.

use std::path::{Path, PathBuf};

use anyhow::Context;
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::report::{Report, json};
use fedreg_common::study::{Mode, Study, StudyFile};
use fedreg_coordinator::config as coordinator_config;
use fedreg_party::config::MatchConfig;
use fedreg_party::output::{Folder, OutputError, print};
use fedreg_proto::certs::{self, Authority, CertsError, NewFile, Subject, Validity};
use fedreg_proto::files::TlsTerms;
use fedreg_proto::wizard::{self, PlaceFlags, WizardError};

use crate::Failure;
use crate::processes::Process;

/// Listens at a free port, whichever that is.
pub(crate) const ANY_PORT: &str = "127.0.0.1:0";

/// Days that the certificates of a rehearsal are valid.
const DAYS: u32 = 30;

/// What is said of a private run whose ledger was begun for it.
const REHEARSAL: &str = "rehearsal: earlier rehearsals on these data are not counted, as each begins with its whole budget; the lifetime \
                         guarantee is that of a ledger which is kept";

/// Where a rehearsal writes: its folder, or a passing one where it only becomes a study.
pub(crate) struct Place {
    folder: Folder,
    passing: bool,
}

impl Place {
    /// Makes the folder.
    pub(crate) fn of(out: &Path, as_study: Option<&Path>, places: &PlaceFlags) -> Result<Place, Failure> {
        let passing = as_study.is_some();
        if places.are_given() && !passing {
            return Err(Failure::usage("--hosts and --ports need --as-study: a rehearsal meets on this machine"));
        }
        let path = match passing {
            true => std::env::temp_dir().join(format!("fedreg-as-study-{}", std::process::id())),
            false => absolute(out)?,
        };
        Ok(Place { folder: folder(&path)?, passing })
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.passing {
            // What is left of a passing folder does no harm.
            let _ = std::fs::remove_dir_all(self.folder.path());
        }
    }
}

/// Writes a rehearsal's study into folders for everybody, ready to be sent where places are named. No row of the rehearsal's table is in
/// them.
pub(crate) fn as_study(
    (dir, places): (&Path, &PlaceFlags),
    file: &StudyFile,
    matching: Option<&[MatchConfig; 2]>,
) -> Result<Exit, Failure> {
    let wrong = |error: WizardError| Failure::new(error.exit(), error);
    let name = dir.file_name().map_or_else(|| "study".to_string(), |name| name.to_string_lossy().into_owned());
    let mut outline = wizard::placed(StudyFile { id: name, ..file.clone() }, places).map_err(wrong)?;
    for (role, config) in [Role::Alice, Role::Bob].into_iter().zip(matching.into_iter().flatten()) {
        let section = toml::Value::try_from(config)
            .context("the keys of the match cannot be written")
            .map_err(|error| Failure::new(Exit::Internal, error))?;
        outline.sections.insert(role.to_string(), toml::Table::from_iter([("match".to_string(), section)]));
    }
    let written = wizard::write(&outline, dir, "as-study").map_err(wrong)?;
    print(&written).map_err(cannot_write)?;
    Ok(Exit::Done)
}

/// The folder of a rehearsal, ready to be looked at and run.
pub(crate) struct Stage<'a> {
    folder: &'a Folder,
    /// The command that writes here.
    command: &'static str,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(folder: &'a Folder, command: &'static str) -> Stage<'a> {
        Stage { folder, command }
    }

    /// Writes a file of the study with a word on what it is.
    pub(crate) fn write(&self, name: &str, what: &str, text: &str) -> Result<(), Failure> {
        let text = format!("# {what}\n# Written by `{}`.\n\n{text}", self.command);
        self.folder.write(name, text.as_bytes()).map_err(cannot_write)
    }

    /// Whether the study's own parser accepts it: the demo complains as every other program does.
    pub(crate) fn accepts(file: &StudyFile) -> Result<(Study, String), Failure> {
        let text = toml::to_string_pretty(file)
            .context("the study cannot be written")
            .map_err(|error| Failure::new(Exit::Internal, error))?;
        Ok((Study::parse(&text).map_err(Failure::usage)?, text))
    }

    /// Writes the study, once it is accepted.
    pub(crate) fn study(&self, file: &StudyFile) -> Result<Study, Failure> {
        let (study, text) = Stage::accepts(file)?;
        self.write("study.toml", "What all parties agree on; each has the same file.", &text)?;
        Ok(study)
    }

    /// Removes what an earlier rehearsal counted: every rehearsal begins with its whole budget. Only here: no other program ever removes
    /// a ledger. Plain rehearsals before a sealed one would count as such that showed all.
    pub(crate) fn forget_ledger(&self, role: Role, mode: Mode) {
        let plain = (mode == Mode::Sealed).then(|| format!("{role}/privacy.sqlite.plain-runs"));
        let ledger = [format!("{role}/privacy.sqlite"), format!("anchors/{role}.anchor")];
        ledger.into_iter().chain(plain).for_each(|file| drop(std::fs::remove_file(self.path(&file))));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A fresh authority and a certificate for each name; the authority's key is not kept.
    pub(crate) fn certificates(&self, names: &[&str]) -> Result<(), Failure> {
        self.issue(names).map_err(|error| Failure::new(error.exit(), error))
    }

    fn issue(&self, names: &[&str]) -> Result<(), CertsError> {
        let validity = Validity::days(time::OffsetDateTime::now_utc(), DAYS)?;
        let made = Authority::create("demo authority", validity)?;
        let place = self.path("certificates/authority.pem");
        let authority = Authority::from_pem(&made.pem, &made.key, (&place, &place))?;
        let write = |path: &Path, contents: &str, secret| certs::write(&[NewFile { path, contents, secret }], true);
        write(&place, &made.pem, false)?;
        for name in names {
            let issued = authority.issue(&Subject::new(name, &[])?, validity)?;
            write(&self.path(&format!("certificates/{name}.key")), &issued.key, true)?;
            write(&self.path(&format!("certificates/{name}.pem")), &issued.pem, false)?;
        }
        Ok(())
    }

    /// Where a role finds its certificates, relative to the folder.
    pub(crate) fn tls(name: &str) -> TlsTerms {
        TlsTerms {
            authority: "certificates/authority.pem".into(),
            certificate: format!("certificates/{name}.pem").into(),
            key: format!("certificates/{name}.key").into(),
        }
    }

    /// Starts the coordinator and gives its address.
    pub(crate) fn coordinator(&self, arguments: &[&str]) -> Result<(Process, String), Failure> {
        let config = coordinator_config::Config {
            study: "study.toml".into(),
            listen: ANY_PORT.to_string(),
            state: "coordinator".into(),
            wait: 60,
            tls: Stage::tls("coordinator"),
        };
        self.write("coordinator.toml", "The coordinator's own file.", &config.print())?;
        let announce = self.path("coordinator.address");
        let (config, shown_announce) = (shown(&self.path("coordinator.toml")), shown(&announce));
        let mut all = vec!["serve", "--config", &config, "--announce", &shown_announce];
        all.extend(arguments);
        let mut process = Process::start(Role::Coordinator, "coordinator", &all, &self.path("coordinator/log.txt"))?;
        let address = process.address(&announce)?;
        self.fix_port("coordinator.toml", &address)?;
        Ok((process, address))
    }

    /// Puts the address that a process was given into its file, so that the folder's files can be used again as they are.
    pub(crate) fn fix_port(&self, file: &str, address: &str) -> Result<(), Failure> {
        let path = self.path(file);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))
            .map_err(|error| Failure::new(Exit::Internal, error))?;
        self.folder.write(file, text.replace(ANY_PORT, address).as_bytes()).map_err(cannot_write)
    }

    /// The report that a role wrote. That of a private run gets the remark that its ledger is a rehearsal's, also on disk.
    pub(crate) fn report(&self, name: &str) -> Result<Report, Failure> {
        let path = self.path(&format!("{name}/report.json"));
        let mut report = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))
            .and_then(|text| json::parse(&text).with_context(|| format!("{}", path.display())))
            .map_err(|error| Failure::new(Exit::Internal, error))?;
        match report.mode {
            Mode::Plain | Mode::Sealed => {}
            Mode::Private => {
                report.notes.insert(0, REHEARSAL.to_string());
                folder(&self.path(name))?.report(&report).map_err(cannot_write)?;
            }
        }
        Ok(report)
    }
}

pub(crate) fn folder(path: &Path) -> Result<Folder, Failure> {
    Folder::prepare(path).map_err(cannot_write)
}

pub(crate) fn cannot_write(error: OutputError) -> Failure {
    Failure::new(error.exit(), error)
}

/// What stands in the way of a rehearsal's second run, in brackets; nothing where nothing does.
pub(crate) fn spent(mode: Mode) -> &'static str {
    match mode {
        Mode::Plain | Mode::Sealed => "",
        Mode::Private => " (its ledgers have spent their budget: another run on them is refused with 77)",
    }
}

/// The table that is rehearsed on, wherever the rehearsal runs.
pub(crate) fn located(source: &Path) -> Result<PathBuf, Failure> {
    fedreg_party::read::located(source)
        .with_context(|| format!("`{}` is no path", source.display()))
        .map_err(|error| Failure::new(Exit::Usage, error))
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .with_context(|| format!("`{}` is no path", path.display()))
        .map_err(|error| Failure::new(Exit::Usage, error))
}

pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub(crate) fn heading(title: &str) -> String {
    format!("--- {title} {}", "-".repeat(90_usize.saturating_sub(title.len())))
}
