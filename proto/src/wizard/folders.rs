//! A folder for everybody who takes part in a study.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fedreg_common::id::{Protocol, Role};
use fedreg_common::study::StudyFile;
use time::OffsetDateTime;

use super::draft::accepted;
use super::texts::{self, Texts};
use super::{WizardError, whole};
use crate::certs::{self, Authority, CertsError, NewFile, Subject, Validity};
use crate::output::{make_own_folder, write_whole};

/// Days that a new authority is valid, as `certs authority` has it.
const DAYS: u32 = 3650;

/// Where somebody who takes part is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name or address of the machine.
    pub host: String,
    /// The port at which it listens; none of those who dial out only.
    pub port: Option<u16>,
}

impl Place {
    /// How others reach it.
    pub(super) fn address(&self) -> Option<String> {
        self.port.map(|port| format!("{}:{port}", self.host))
    }
}

/// A study, and what else everybody's folder takes.
#[derive(Debug, Clone)]
pub struct Outline {
    /// The study, with the names in certificates.
    pub file: StudyFile,
    /// Where everybody is, by name: parties or sites, the coordinator, and the dealer where the study names one.
    pub places: BTreeMap<String, Place>,
    /// What the private file of a party says of its table, where something is known.
    pub tables: BTreeMap<String, toml::Table>,
    /// Further sections of a party's private file.
    pub sections: BTreeMap<String, toml::Table>,
}

/// One who gets a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// Its name in the study, and of its folder.
    pub(super) name: String,
    /// The name in its certificate.
    pub(super) certificate: String,
    /// What it does.
    pub(super) part: Part,
}

/// What one who gets a folder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Brings parties or sites together.
    Coordinator,
    /// Deals masks, apart from the coordinator.
    Dealer,
    /// A party at which the others meet.
    First(Role),
    /// A party that dials it.
    Further(Role),
    /// A site.
    Site,
}

/// Port of the coordinator, and of the party that the others dial, unless others are asked for; and of a dealer of its own.
pub(super) const PORTS: [u16; 3] = [7100, 7101, 7102];

impl Outline {
    /// Everybody, the coordinator first.
    pub(super) fn members(&self) -> Vec<Member> {
        let file = &self.file;
        let member = |name: &str, certificate: &str, part| Member {
            name: name.to_string(),
            certificate: certificate.to_string(),
            part,
        };
        let mut members = vec![member(Role::Coordinator.name(), &file.coordinator.certificate, Part::Coordinator)];
        members.extend(file.dealer.iter().map(|dealer| member(DEALER, &dealer.certificate, Part::Dealer)));
        let first = first(file);
        members.extend(file.parties.iter().map(|(role, terms)| {
            let part = if Some(*role) == first { Part::First(*role) } else { Part::Further(*role) };
            member(role.name(), &terms.certificate, part)
        }));
        members.extend(file.workers.iter().map(|(name, terms)| member(name, &terms.certificate, Part::Site)));
        members
    }
}

impl Part {
    /// The port at which it listens unless another is asked for; none of those who dial out only.
    pub(super) fn usual_port(self) -> Option<u16> {
        let [coordinator, first, dealer] = PORTS;
        match self {
            Part::Coordinator => Some(coordinator),
            Part::First(_) => Some(first),
            Part::Dealer => Some(dealer),
            Part::Further(_) | Part::Site => None,
        }
    }
}

/// The host of programs that meet on one machine.
pub(super) const HERE: &str = "localhost";

/// The name of a dealer's folder.
pub(super) const DEALER: &str = "dealer";

/// The party that all others dial; none between sites.
pub(super) fn first(file: &StudyFile) -> Option<Role> {
    match file.protocol {
        Protocol::Vertical => accepted(file).ok().and_then(|(study, _)| study.vertical()).map(|study| study.first()),
        Protocol::Robust | Protocol::Em | Protocol::Features | Protocol::Stream => None,
    }
}

/// Writes all folders below `dir`, which the flag `flag` has named, and says what there is.
///
/// The key of a certificate is written to the folder of its owner alone, the authority and its key to the coordinator's.
///
/// # Errors
/// A study that cannot be used, a folder that is there already, and what cannot be written.
pub fn write(outline: &Outline, dir: &Path, flag: &'static str) -> Result<String, WizardError> {
    let (study, written) = accepted(&outline.file)?;
    let members = outline.members();
    check(outline, &members)?;
    let folder = |name: &str| dir.join(name);
    if let Some(member) = members.iter().find(|member| folder(&member.name).symlink_metadata().is_ok()) {
        return Err(WizardError::Exists { folder: folder(&member.name), flag });
    }
    let texts = Texts { outline, study: &study, members: &members };
    let explanation = study.explanation();
    let (shared, page) = (texts.study(&explanation, &written), explanation.html());
    let authority = Authority::create(
        &format!("authority of {}", study.head.id),
        Validity::days(OffsetDateTime::now_utc(), DAYS)?,
    )?;
    let mut made = Made(Vec::new());
    for member in &members {
        let own = folder(&member.name);
        let place = |name: &str| own.join(name);
        make_own_folder(&own)?;
        made.0.push(own.clone());
        whole(&place("study.toml"), &shared)?;
        whole(&place("explanation.html"), &page)?;
        whole(&place("README.md"), &texts.readme(member))?;
        write_whole(&place(&texts::private_file(member)), texts.private(member).as_bytes())?;
        // As `certs request` makes them: the key is for its owner alone.
        let request = certs::request(&Subject::new(&member.certificate, &[]).map_err(CertsError::from)?)?;
        let [csr, key] = ["csr", "key"].map(|ending| format!("certificates/{}.{ending}", member.certificate));
        let to_sign = folder(Role::Coordinator.name()).join(format!("requests/{}.csr", member.certificate));
        let [pem, csr, key] = ["certificates/authority.pem", csr.as_str(), key.as_str()].map(place);
        certs::write(
            &[
                NewFile { path: &pem, contents: &authority.pem, secret: false },
                NewFile { path: &csr, contents: &request.pem, secret: false },
                NewFile { path: &key, contents: &request.key, secret: true },
                NewFile { path: &to_sign, contents: &request.pem, secret: false },
            ],
            false,
        )?;
    }
    let of_authority = |ending: &str| folder(Role::Coordinator.name()).join(format!("authority/authority.{ending}"));
    certs::write(
        &[
            NewFile { path: &of_authority("pem"), contents: &authority.pem, secret: false },
            NewFile { path: &of_authority("key"), contents: &authority.key, secret: true },
        ],
        false,
    )?;
    made.keep();
    Ok(texts.written(dir))
}

/// New folders, which are removed unless all that belongs into them could be written: what is left would be in the way of the next try.
struct Made(Vec<PathBuf>);

impl Made {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for folder in &self.0 {
            // What cannot be removed is named by the next try.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Refuses names that cannot be folders, certificates or places side by side.
fn check(outline: &Outline, members: &[Member]) -> Result<(), WizardError> {
    let wrong = |problem: String| Err(WizardError::Answer(problem));
    let (mut names, mut addresses) = (BTreeSet::new(), BTreeMap::new());
    for member in members {
        let name = member.name.as_str();
        if !is_folder(name) {
            return wrong(format!(
                "`{}` cannot be the name of a folder: a letter or digit, then letters, digits, _ and -",
                name.escape_debug()
            ));
        }
        if !names.insert(name.to_lowercase()) {
            return wrong(format!("`{name}` would be the folder of two"));
        }
        let Some(address) = outline.places.get(name).and_then(Place::address) else { continue };
        if let Some(other) = addresses.insert(address.clone(), name) {
            return wrong(format!(
                "{other} and {name} would both listen at {address}: give one of them another port with --ports"
            ));
        }
    }
    Ok(())
}

fn is_folder(name: &str) -> bool {
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let goes_on = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    begins && goes_on && name.len() <= 100
}

/// What a private file says of a table in this file.
pub(super) fn table_of(file: PathBuf) -> toml::Table {
    toml::Table::from_iter([("file".to_string(), toml::Value::from(file.display().to_string()))])
}
