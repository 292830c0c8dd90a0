//! A simulated star: a hub, its sites with their ledgers, and lines between them that break; processes that die in the middle of a step and start again.
//!
//! Sites are those of the product: only the table, the disk of the ledger and the store of a stream's persons are doubles. It exists in
//! tests alone, because noise that depends on a seed does not exist elsewhere.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

mod host;

use self::host::Host;
pub(crate) use self::host::{Part, Table};
use crate::exit::Exit;
use crate::id::{Digest, RunId};
use crate::methods::registry;
use crate::report::Report;
use crate::sim::pair;
use crate::star::hub::{Act, Hub, Line, Record};
use crate::star::message::{Body, Contribution, ToHub, ToSite};
use crate::star::site;
use crate::star::site::local::Input;
use crate::study::{Sites, Study, StudyError};

/// What happens to messages and processes, each with its probability per message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Faults {
    /// The message is lost.
    pub(crate) drop: f64,
    /// It arrives twice.
    pub(crate) duplicate: f64,
    /// It arrives behind the next one.
    pub(crate) reorder: f64,
    /// The line breaks, with everything on it.
    pub(crate) cut: f64,
    /// The site's process dies and starts again; also with each step of its computation, and inside a transaction of its ledger.
    pub(crate) site_crash: f64,
    /// The hub's process dies, before or after what it wanted to keep was kept, and starts again from what was.
    pub(crate) hub_crash: f64,
    /// Seed of all luck, the order of arrivals included.
    pub(crate) seed: u64,
}

impl Faults {
    /// Only the order of arrivals is left to luck.
    pub(crate) fn none(seed: u64) -> Faults {
        Faults { drop: 0.0, duplicate: 0.0, reorder: 0.0, cut: 0.0, site_crash: 0.0, hub_crash: 0.0, seed }
    }

    /// What lines do to single messages.
    fn line(&self) -> pair::Faults {
        pair::Faults { drop: self.drop, duplicate: self.duplicate, reorder: self.reorder, seed: self.seed }
    }
}

/// How a simulated run went.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The hub's report, or why there is none.
    pub(crate) report: Result<Report, String>,
    /// The code with which the run ended; `None` when it did not.
    pub(crate) exit: Option<Exit>,
    /// What each site was told in the end.
    pub(crate) told: BTreeMap<String, site::Act>,
    /// Contributions that were handed to the lines, repeats included.
    pub(crate) contributed: u64,
    /// Of each site with a ledger: what was charged, and how many releases are stored.
    pub(crate) spent: BTreeMap<String, (f64, usize)>,
}

/// Steps after which a run that does not end is a bug.
const PATIENCE: u32 = 400_000;
/// Silent steps after which a line counts as broken.
const LOST: u32 = 10;
/// Contributions of a site that may be on their way.
const WINDOW: usize = 4;
const RUN: RunId = RunId([7; 16]);

struct Pipe {
    id: Line,
    up: VecDeque<ToHub>,
    down: VecDeque<ToSite>,
}

struct Network {
    study: Arc<Study<Sites>>,
    hub: Hub,
    kept: Vec<Record>,
    hosts: BTreeMap<String, Host>,
    rng: ChaCha8Rng,
    faults: Faults,
    next: Line,
    contributed: u64,
    /// What each contribution was when it was first said.
    said: BTreeMap<(String, u64), Digest>,
    /// Records that were kept.
    progress: u64,
}

/// Runs a study in which every site contributes its pieces, until everybody was told the outcome.
///
/// A site without a list never comes; at silence without progress the study's deadline strikes.
///
/// # Errors
/// The study is not of a horizontal kind.
pub(crate) fn run(
    study: &Arc<Study<Sites>>,
    pieces: &BTreeMap<String, Vec<Body>>,
    faults: Faults,
) -> Result<Ended, StudyError> {
    let parts = pieces.iter().map(|(name, pieces)| (name.clone(), Part::Replayed(pieces.clone())));
    run_parts(study, parts.collect(), faults)
}

/// The same of sites that compute on what they hold.
///
/// # Errors
/// The study is not of a horizontal kind.
pub(crate) fn run_parts(
    study: &Arc<Study<Sites>>,
    parts: BTreeMap<String, Part>,
    faults: Faults,
) -> Result<Ended, StudyError> {
    let hub = Hub::new(Arc::clone(study), RUN, registry::hub(study)?);
    let hosts = parts.into_iter().zip(0..).map(|((name, part), at)| (name, Host::new(study, part, at)));
    let mut network = Network {
        study: Arc::clone(study),
        hub,
        kept: Vec::new(),
        hosts: hosts.collect(),
        rng: ChaCha8Rng::seed_from_u64(faults.seed),
        faults,
        next: 0,
        contributed: 0,
        said: BTreeMap::new(),
        progress: 0,
    };
    network.play()?;
    let spent = network.hosts.iter().filter_map(|(name, host)| Some((name.clone(), host.spent()?)));
    Ok(Ended {
        report: network.hub.report(),
        exit: network.hub.exit(),
        spent: spent.collect(),
        told: network.hosts.into_iter().filter_map(|(name, host)| Some((name, host.told?))).collect(),
        contributed: network.contributed,
    })
}

impl Network {
    fn play(&mut self) -> Result<(), StudyError> {
        let (mut silence, mut known) = (0, 0);
        for _ in 0..PATIENCE {
            if self.hosts.values().all(|host| host.told.is_some()) {
                break;
            }
            let names: Vec<String> = self.hosts.keys().cloned().collect();
            // What stands on the lines, in an order left to luck.
            let waiting: Vec<(String, bool)> = names
                .iter()
                .flat_map(|name| {
                    let line = self.hosts[name].line.as_ref();
                    [(true, line.is_some_and(|l| !l.up.is_empty())), (false, line.is_some_and(|l| !l.down.is_empty()))]
                        .into_iter()
                        .filter(|(_, any)| *any)
                        .map(|(up, _)| (name.clone(), up))
                        .collect::<Vec<_>>()
                })
                .collect();
            if waiting.is_empty() {
                silence = if self.progress == known { silence + 1 } else { 0 };
                known = self.progress;
                if silence > 200 {
                    let acts = self.hub.deadline();
                    self.act(acts)?;
                }
                for name in names {
                    // Nobody says a broadcast twice on a line; one on which a message was lost is given up, as lines do that live.
                    if silence > 0 && silence % LOST == 0 {
                        self.cut(&name);
                    }
                    self.wake(&name);
                }
                continue;
            }
            let (name, up) = waiting[self.rng.random_range(0..waiting.len())].clone();
            if self.rng.random_bool(self.faults.cut) {
                self.cut(&name);
                continue;
            }
            if self.rng.random_bool(self.faults.site_crash) {
                self.restart(&name);
                continue;
            }
            let Some(pipe) = self.hosts.get_mut(&name).and_then(|host| host.line.as_mut()) else { continue };
            if up {
                let (id, message) = (pipe.id, pipe.up.pop_front());
                if let Some(message) = message {
                    let mut acts = self.hub.hear(id, message);
                    acts.extend(self.hub.publish());
                    self.act(acts)?;
                }
            } else if let Some(message) = pipe.down.pop_front() {
                self.hear(&name, message);
            }
        }
        Ok(())
    }

    /// A site at which nothing happens: it opens a line, or says again what may have been lost.
    fn wake(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name).filter(|host| host.told.is_none()) else { return };
        let acts = match &host.line {
            None => {
                self.next += 1;
                host.line = Some(Pipe { id: self.next, up: VecDeque::new(), down: VecDeque::new() });
                self.hub.open(self.next, name);
                host.site.open()
            }
            Some(_) if !host.site.has_joined() => host.site.open(),
            Some(_) => host.site.resend(),
        };
        self.say(name, acts);
        self.feed(name);
    }

    /// Computes until it waits for the hub, as much of it as may be on its way; or the process dies.
    fn feed(&mut self, name: &str) {
        loop {
            let Some(host) = self.hosts.get_mut(name).filter(|host| host.told.is_none()) else { return };
            match host.step(&self.faults, &mut self.rng) {
                host::Step::Waits => return,
                host::Step::Said(acts) => self.say(name, acts),
                host::Step::Died => return self.restart(name),
            }
        }
    }

    fn hear(&mut self, name: &str, message: ToSite) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        let acts = host.site.hear(message);
        self.say(name, acts);
        self.feed(name);
    }

    fn say(&mut self, name: &str, acts: Vec<site::Act>) {
        for act in acts {
            let Some(host) = self.hosts.get_mut(name) else { return };
            match act {
                site::Act::Say(message) => {
                    let message: ToHub = message.into();
                    if let ToHub::Contribution(Contribution { number, body, .. }) = &message {
                        self.contributed += 1;
                        let first = *self.said.entry((name.to_string(), *number)).or_insert(body.digest());
                        assert_eq!(first, body.digest(), "{name} says something else as contribution {number}");
                    }
                    if let Some(pipe) = &mut host.line {
                        self.faults.line().put(&mut pipe.up, message, &mut self.rng);
                    }
                }
                site::Act::Begin { next, .. } => host.begin(next),
                site::Act::Outcome { .. } | site::Act::Refused { .. } => {
                    host.told = Some(act);
                    if let Some(pipe) = host.line.take() {
                        let acts = self.hub.hear(pipe.id, ToHub::Done);
                        drop(acts);
                        self.hub.lost(pipe.id);
                    }
                }
                site::Act::Open => host.tell(Input::Opened),
                site::Act::Acknowledged => host.tell(Input::Acknowledged),
                site::Act::Rejected { .. } => host.tell(Input::Rejected),
                site::Act::Heard { number, body } => host.tell(Input::Heard { number, body }),
            }
        }
    }

    /// What the hub wants done; or its process dies in the middle of it.
    fn act(&mut self, acts: Vec<Act>) -> Result<(), StudyError> {
        let dies = self.rng.random_bool(self.faults.hub_crash);
        let keeps = !dies || self.rng.random_bool(0.5);
        if keeps {
            for act in &acts {
                match act {
                    Act::Store(record @ Record::Snapshot(_)) => {
                        self.progress += 1;
                        self.kept = vec![record.clone()];
                    }
                    Act::Store(record) => {
                        self.progress += 1;
                        self.kept.push(record.clone());
                    }
                    Act::Say(..) | Act::Close(_) | Act::Ended(_) => {}
                }
            }
        }
        if dies {
            return self.resume();
        }
        for act in acts {
            match act {
                Act::Store(_) | Act::Ended(_) => {}
                Act::Say(line, message) => {
                    let pipe = self.hosts.values_mut().filter_map(|host| host.line.as_mut()).find(|p| p.id == line);
                    if let Some(pipe) = pipe {
                        self.faults.line().put(&mut pipe.down, message, &mut self.rng);
                    }
                }
                Act::Close(line) => {
                    let done = self
                        .hosts
                        .iter()
                        .find(|(_, host)| host.line.as_ref().is_some_and(|p| p.id == line && p.down.is_empty()))
                        .map(|(name, _)| name.clone());
                    if let Some(name) = done {
                        self.cut(&name);
                    }
                }
            }
        }
        Ok(())
    }

    fn cut(&mut self, name: &str) {
        if let Some(host) = self.hosts.get_mut(name)
            && let Some(pipe) = host.line.take()
        {
            self.hub.lost(pipe.id);
            host.site.lost();
        }
    }

    fn restart(&mut self, name: &str) {
        self.cut(name);
        if let Some(host) = self.hosts.get_mut(name) {
            host.start();
        }
    }

    fn resume(&mut self) -> Result<(), StudyError> {
        self.hub = Hub::new(Arc::clone(&self.study), RUN, registry::hub(&self.study)?);
        for record in self.kept.clone() {
            // What was kept was accepted once; if it is not accepted again, the result will show it.
            let _ = self.hub.resume(record);
        }
        for name in self.hosts.keys().cloned().collect::<Vec<_>>() {
            self.cut(&name);
        }
        // Nobody has a line yet: there is only what is to be kept.
        for act in self.hub.go_on() {
            if let Act::Store(record) = act {
                self.progress += 1;
                self.kept.push(record);
            }
        }
        Ok(())
    }
}
