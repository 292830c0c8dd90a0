//! Where everybody who takes part in a study is reached, and the names in certificates that follow.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv6Addr;

use clap::Args;
use fedreg_common::id::Role;
use fedreg_common::study::{DealerTerms, StudyFile};

use super::draft::accepted;
use super::folders::{DEALER, HERE, Member, Outline, Place};
use super::words::entries;
use super::{Asker, WizardError};
use crate::files::check_address;
use crate::tls::check_name;

/// Hosts and ports, as flags say them.
#[derive(Debug, Clone, Default, Args)]
pub struct PlaceFlags {
    /// Host names or addresses by name: "coordinator=registry.example;alice=north.example"
    ///
    /// Those of the coordinator and of the party that the others connect to are needed; `dealer=HOST` names a dealer of masks apart from the
    /// coordinator. A host name that nobody else has is the name in the certificate, else the name in the study is.
    #[arg(long, value_name = "NAME=HOST;...")]
    pub hosts: Option<String>,
    /// Ports by name, 7100 for the coordinator, 7101 for the party that the others connect to and 7102 for a dealer by default
    #[arg(long, value_name = "NAME=PORT;...")]
    pub ports: Option<String>,
}

impl PlaceFlags {
    /// Whether there is any of them.
    pub fn are_given(&self) -> bool {
        self.hosts.is_some() || self.ports.is_some()
    }
}

/// A study of which nobody is asked, with everybody's place: where no hosts are named, on this machine.
///
/// # Errors
/// Flags that make no sense, and a host that is missing beside others.
pub fn placed(file: StudyFile, flags: &PlaceFlags) -> Result<Outline, WizardError> {
    let host = Some(HERE).filter(|_| flags.hosts.is_none());
    ask(file, flags, host, &mut Asker::new(None, Box::new(io::sink())))
}

/// Hosts and ports of flags and of whoever is asked; `usual` is the host of those of whom nothing is said.
pub(super) fn ask(
    mut file: StudyFile,
    flags: &PlaceFlags,
    usual: Option<&str>,
    asker: &mut Asker,
) -> Result<Outline, WizardError> {
    let wrong = |flag: &str, problem: String| WizardError::Answer(format!("--{flag}: {problem}"));
    let given = |flag: &'static str, text: Option<&str>| -> Result<BTreeMap<String, String>, WizardError> {
        let read = text.map_or(Ok(Vec::new()), entries).map_err(|problem| wrong(flag, problem))?;
        Ok(read.into_iter().collect())
    };
    let mut hosts = given("hosts", flags.hosts.as_deref())?;
    let mut ports = given("ports", flags.ports.as_deref())?;
    if hosts.contains_key(DEALER) {
        file.dealer = Some(DealerTerms { certificate: DEALER.to_string() });
        accepted(&file)?;
    }
    let mut outline = Outline { file, places: BTreeMap::new(), tables: BTreeMap::new(), sections: BTreeMap::new() };
    for member in outline.members() {
        let said = [hosts.remove(&member.name), ports.remove(&member.name)];
        let place = place(&member, said, usual, asker)?;
        outline.places.extend(place.map(|place| (member.name.clone(), place)));
    }
    for (flag, rest) in [("hosts", &hosts), ("ports", &ports)] {
        if let Some(name) = rest.keys().next() {
            return Err(wrong(flag, format!("names `{}`, who is not in the study", name.escape_debug())));
        }
    }
    outline.name_certificates();
    Ok(outline)
}

/// Where a member is; nothing of one that dials out, and of which nothing was said.
fn place(
    member: &Member,
    [host, port]: [Option<String>; 2],
    usual_host: Option<&str>,
    asker: &mut Asker,
) -> Result<Option<Place>, WizardError> {
    let name = &member.name;
    let Some(usual) = member.part.usual_port() else {
        if port.is_some() {
            return Err(WizardError::Answer(format!("--ports: {name} listens nowhere: it connects to others")));
        }
        if host.is_none() && !asker.asks() {
            return Ok(None);
        }
        let question = format!("Host name of {name}, for its certificate");
        let host = asker.answer("hosts", host.as_deref(), &question, Some(name.as_str()), host_name)?;
        return Ok(Some(Place { host, port: None }));
    };
    let question = format!("Host name or address at which others reach {name}");
    let host = asker.answer("hosts", host.as_deref(), &question, usual_host, host_name)?;
    let question = format!("Port at which {name} listens");
    let usual = usual.to_string();
    let port =
        asker.answer("ports", port.as_deref(), &question, Some(&usual), |text| match text.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            Ok(_) | Err(_) => Err(format!("`{}` is not a port from 1 to 65535", text.escape_debug())),
        })?;
    Ok(Some(Place { host, port: Some(port) }))
}

impl Outline {
    /// Names in certificates: that of the host where nobody else has it, else the name in the study.
    fn name_certificates(&mut self) {
        let host = |name: &str| self.places.get(name).map(|place| place.host.as_str());
        let once = |host: &&str| self.places.values().filter(|place| place.host == *host).count() == 1;
        let valid = |host: &&str| check_name(host).is_ok() && *host != HERE;
        let taken: Vec<String> = self.members().into_iter().map(|member| member.name).collect();
        let named = |name: &str| {
            let free = |host: &&str| *host == name || !taken.iter().any(|other| other == host);
            host(name).filter(once).filter(valid).filter(free).unwrap_or(name).to_string()
        };
        let coordinator = named(Role::Coordinator.name());
        let dealer = named(DEALER);
        let parties: Vec<(Role, String)> = self.file.parties.keys().map(|role| (*role, named(role.name()))).collect();
        let workers: Vec<(String, String)> = self.file.workers.keys().map(|name| (name.clone(), named(name))).collect();
        self.file.coordinator.certificate = coordinator;
        if let Some(terms) = &mut self.file.dealer {
            terms.certificate.clone_from(&dealer);
        }
        for (role, certificate) in parties {
            self.file.parties.get_mut(&role).into_iter().for_each(|terms| terms.certificate.clone_from(&certificate));
        }
        for (name, certificate) in workers {
            self.file.workers.get_mut(&name).into_iter().for_each(|terms| terms.certificate.clone_from(&certificate));
        }
    }
}

fn host_name(text: &str) -> Result<String, String> {
    let text = text.trim();
    let plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-_[]:".contains(letter));
    let bare = !text.contains(':') || text.starts_with('[') && text.ends_with(']');
    match plain && bare && check_address("host", &format!("{text}:1")).is_ok() {
        true => Ok(text.to_string()),
        false if text.parse::<Ipv6Addr>().is_ok() => {
            Err(format!("`{text}` is an IPv6 address: write it in brackets, as `[{text}]`"))
        }
        false => Err(format!("`{}` is no host name or address", text.escape_debug())),
    }
}
