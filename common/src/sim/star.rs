//! A hub, its sites, and lines between them that break; processes that die in the middle of a step and start again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::exit::Exit;
use crate::id::RunId;
use crate::report::Report;
use crate::star::hub::{Act, Hub, Line, Record};
use crate::star::message::{Body, ToHub, ToSite};
use crate::star::method::method;
use crate::star::site::{self, Site};
use crate::study::{Sites, Study, StudyError};

/// What happens to messages and processes, each with its probability per message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// The message is lost.
    pub drop: f64,
    /// It arrives twice.
    pub duplicate: f64,
    /// It arrives behind the next one.
    pub reorder: f64,
    /// The line breaks, with everything on it.
    pub cut: f64,
    /// The site's process dies and starts again.
    pub site_crash: f64,
    /// The hub's process dies, before or after what it wanted to keep was kept, and starts again from what was.
    pub hub_crash: f64,
    /// Seed of all luck, the order of arrivals included.
    pub seed: u64,
}

impl Faults {
    /// Only the order of arrivals is left to luck.
    pub fn none(seed: u64) -> Faults {
        Faults { drop: 0.0, duplicate: 0.0, reorder: 0.0, cut: 0.0, site_crash: 0.0, hub_crash: 0.0, seed }
    }
}

/// How a simulated run went.
#[derive(Debug)]
pub struct Ended {
    /// The hub's report, or why there is none.
    pub report: Result<Report, String>,
    /// The code with which the run ended; `None` when it did not.
    pub exit: Option<Exit>,
    /// What each site was told in the end.
    pub told: BTreeMap<String, site::Act>,
    /// Contributions that were handed to the lines, repeats included.
    pub contributed: u64,
    /// Processes of the hub.
    pub hubs: u32,
}

/// Steps after which a run that does not end is a bug.
const PATIENCE: u32 = 400_000;
/// Contributions of a site that may be on their way.
const WINDOW: usize = 4;
const RUN: RunId = RunId([7; 16]);

struct Place {
    site: Site,
    pieces: Vec<Body>,
    cursor: usize,
    complete: bool,
    line: Option<Pipe>,
    told: Option<site::Act>,
    starts: u8,
}

struct Pipe {
    id: Line,
    up: VecDeque<ToHub>,
    down: VecDeque<ToSite>,
}

struct Network {
    study: Arc<Study<Sites>>,
    hub: Hub,
    kept: Vec<Record>,
    places: BTreeMap<String, Place>,
    rng: ChaCha8Rng,
    faults: Faults,
    next: Line,
    contributed: u64,
    /// Records that were kept.
    progress: u64,
    hubs: u32,
}

/// Runs a study in which every site contributes its pieces, until everybody was told the outcome.
///
/// A site without a list never comes; at silence without progress the study's deadline strikes.
///
/// # Errors
/// The study is not of a horizontal kind.
pub fn run(
    study: &Arc<Study<Sites>>,
    pieces: &BTreeMap<String, Vec<Body>>,
    faults: Faults,
) -> Result<Ended, StudyError> {
    let hub = Hub::new(Arc::clone(study), RUN, method(study)?);
    let places = pieces
        .iter()
        .map(|(name, pieces)| {
            let place = Place {
                site: Site::new(Arc::clone(study), [0; 16]),
                pieces: pieces.clone(),
                cursor: 0,
                complete: false,
                line: None,
                told: None,
                starts: 0,
            };
            (name.clone(), place)
        })
        .collect();
    let mut network = Network {
        study: Arc::clone(study),
        hub,
        kept: Vec::new(),
        places,
        rng: ChaCha8Rng::seed_from_u64(faults.seed),
        faults,
        next: 0,
        contributed: 0,
        progress: 0,
        hubs: 1,
    };
    network.play()?;
    Ok(Ended {
        report: network.hub.report(),
        exit: network.hub.exit(),
        told: network.places.into_iter().filter_map(|(name, place)| Some((name, place.told?))).collect(),
        contributed: network.contributed,
        hubs: network.hubs,
    })
}

impl Network {
    fn play(&mut self) -> Result<(), StudyError> {
        let (mut silence, mut known) = (0, 0);
        for _ in 0..PATIENCE {
            if self.places.values().all(|place| place.told.is_some()) {
                break;
            }
            let names: Vec<String> = self.places.keys().cloned().collect();
            // What stands on the lines, in an order left to luck.
            let waiting: Vec<(String, bool)> = names
                .iter()
                .flat_map(|name| {
                    let line = self.places[name].line.as_ref();
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
            let Some(pipe) = self.places.get_mut(&name).and_then(|place| place.line.as_mut()) else { continue };
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
        let Some(place) = self.places.get_mut(name).filter(|place| place.told.is_none()) else { return };
        let acts = match &place.line {
            None => {
                self.next += 1;
                place.line = Some(Pipe { id: self.next, up: VecDeque::new(), down: VecDeque::new() });
                self.hub.open(self.next, name);
                place.site.open()
            }
            Some(_) if !place.site.has_joined() => place.site.open(),
            Some(_) => place.site.resend(),
        };
        self.say(name, acts);
        self.feed(name);
    }

    /// Contributes as much as may be on its way.
    fn feed(&mut self, name: &str) {
        loop {
            let Some(place) = self.places.get_mut(name) else { return };
            if !place.site.has_begun() || !place.site.is_open() || place.site.waiting() >= WINDOW {
                return;
            }
            let acts = match place.pieces.get(place.cursor) {
                Some(piece) => {
                    place.cursor += 1;
                    place.site.contribute(piece.clone()).unwrap_or_default()
                }
                None if !place.complete => {
                    place.complete = true;
                    place.site.complete()
                }
                None => return,
            };
            self.say(name, acts);
        }
    }

    fn hear(&mut self, name: &str, message: ToSite) {
        let Some(place) = self.places.get_mut(name) else { return };
        let acts = place.site.hear(message);
        self.say(name, acts);
        self.feed(name);
    }

    fn say(&mut self, name: &str, acts: Vec<site::Act>) {
        for act in acts {
            let Some(place) = self.places.get_mut(name) else { return };
            match act {
                site::Act::Say(message) => {
                    let message = ToHub::from(message);
                    if matches!(message, ToHub::Contribution(_)) {
                        self.contributed += 1;
                    }
                    if let Some(pipe) = &mut place.line {
                        put(&mut pipe.up, message, &self.faults, &mut self.rng);
                    }
                }
                site::Act::Begin { next, .. } => {
                    place.cursor = usize::try_from(next).unwrap_or(usize::MAX).min(place.pieces.len());
                    place.complete = false;
                    let acts = place.site.ready();
                    self.say(name, acts);
                }
                site::Act::Outcome { .. } | site::Act::Refused { .. } => {
                    place.told = Some(act);
                    if let Some(pipe) = place.line.take() {
                        let acts = self.hub.hear(pipe.id, ToHub::Done);
                        drop(acts);
                        self.hub.lost(pipe.id);
                    }
                }
                site::Act::Open | site::Act::Rejected { .. } | site::Act::Heard { .. } => {}
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
                    let pipe = self.places.values_mut().filter_map(|place| place.line.as_mut()).find(|p| p.id == line);
                    if let Some(pipe) = pipe {
                        put(&mut pipe.down, message, &self.faults, &mut self.rng);
                    }
                }
                Act::Close(line) => {
                    let done = self
                        .places
                        .iter()
                        .find(|(_, place)| place.line.as_ref().is_some_and(|p| p.id == line && p.down.is_empty()))
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
        if let Some(place) = self.places.get_mut(name)
            && let Some(pipe) = place.line.take()
        {
            self.hub.lost(pipe.id);
            place.site.lost();
        }
    }

    fn restart(&mut self, name: &str) {
        self.cut(name);
        if let Some(place) = self.places.get_mut(name) {
            place.starts = place.starts.wrapping_add(1);
            place.site = Site::new(Arc::clone(&self.study), [place.starts; 16]);
            (place.cursor, place.complete) = (0, false);
        }
    }

    fn resume(&mut self) -> Result<(), StudyError> {
        self.hubs += 1;
        self.hub = Hub::new(Arc::clone(&self.study), RUN, method(&self.study)?);
        for record in self.kept.clone() {
            // What was kept was accepted once; if it is not accepted again, the result will show it.
            let _ = self.hub.resume(record);
        }
        for name in self.places.keys().cloned().collect::<Vec<_>>() {
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

/// Puts a message on a line, or what luck makes of it.
fn put<M: Clone>(line: &mut VecDeque<M>, message: M, faults: &Faults, rng: &mut ChaCha8Rng) {
    if rng.random_bool(faults.drop) {
        return;
    }
    if rng.random_bool(faults.duplicate) {
        line.push_back(message.clone());
    }
    if rng.random_bool(faults.reorder) && !line.is_empty() {
        line.insert(line.len() - 1, message);
    } else {
        line.push_back(message);
    }
}
