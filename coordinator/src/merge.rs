//! Merges the lists of a match through the coordinator: reads both parties' tags beside each other, says how many both have, and, once both
//! ask for it, where.
//!
//! It stands on the coordinator's port. It has no key, so that tags tell it no value; it keeps of them what is at hand, and where both lists
//! meet in a file without a name. Each pass of a run has lines of its own. Where one is lost both parties open new ones and send the same
//! lists again, which is why a digest of each is kept ([`lists`]).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::secure::group::Tag;
use fedreg_common::secure::merging::{DUMMIES, Merge, Merged, PART_POSITIONS};
use fedreg_common::study::{MatchProtocol, Study, StudyError, Vertical};
use fedreg_proto::link::Notice;
use fedreg_proto::merge::{Announced, Answer, Asked, Caller};
use fedreg_proto::star::Heard;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use self::lists::Lists;

mod lists;

/// Lines, and lists that were announced on them, that wait to be taken.
const QUEUE: usize = 16;
/// Entries of both lists after which the parties hear how far it is.
const PROGRESS: u64 = 1 << 20;
/// Bytes of a pair of positions in the file.
const PAIR_BYTES: usize = 2 * size_of::<u32>();
const PARTIES: [Role; 2] = [Role::Alice, Role::Bob];

/// Starts the merger of a study whose match goes through the coordinator; it works until nobody can call any more. Its file is in `folder`.
///
/// # Errors
/// The study's match cannot be set up.
pub(crate) fn start(study: &Study<Vertical>, folder: &Path) -> Result<Option<mpsc::Sender<Caller>>, StudyError> {
    let Some(terms) = &study.head.matching else { return Ok(None) };
    match terms.protocol {
        MatchProtocol::Direct | MatchProtocol::Linked => return Ok(None),
        MatchProtocol::Coordinator => {}
    }
    let rules = terms.rules(false)?;
    let longest = rules.capacity.unwrap_or(rules.max_rows);
    let terms = Terms {
        study: study.digest(),
        longest: PARTIES.map(|role| longest.of(role).saturating_add(DUMMIES)),
        passes: rules.keys.passes().len() as u32,
        folder: folder.to_owned(),
    };
    let certificates = study.method.parties.iter().map(|(role, terms)| (terms.certificate.clone(), *role));
    let (callers, calls) = mpsc::channel(QUEUE);
    let service = MergeService {
        terms: Arc::new(terms),
        certificates: certificates.collect(),
        waiting: [None, None],
        present: None,
    };
    tokio::spawn(service.run(calls));
    Ok(Some(callers))
}

/// What the study says.
struct Terms {
    study: Digest,
    /// Longest list of Alice and of Bob.
    longest: [u64; 2],
    passes: u32,
    folder: PathBuf,
}

/// A line on which a list was announced.
struct Arrived {
    side: usize,
    announced: Announced,
    line: Caller,
}

struct MergeService {
    terms: Arc<Terms>,
    certificates: BTreeMap<String, Role>,
    /// Each party's line, until the other has come.
    waiting: [Option<Arrived>; 2],
    /// The pass that is being merged.
    present: Option<AbortHandle>,
}

impl MergeService {
    async fn run(mut self, mut calls: mpsc::Receiver<Caller>) {
        let (arrive, mut arrived) = mpsc::channel(QUEUE);
        loop {
            tokio::select! {
                caller = calls.recv() => match caller {
                    Some(caller) => self.open(caller, &arrive),
                    None => return,
                },
                Some(arrived) = arrived.recv() => self.pair(arrived),
            }
        }
    }

    fn open(&self, mut line: Caller, arrive: &mpsc::Sender<Arrived>) {
        let role = self.certificates.get(&line.name);
        let Some(side) = role.and_then(|role| PARTIES.iter().position(|party| party == role)) else {
            let sentence = format!("`{}` has no part in the match", line.name);
            return dismiss(&line, Exit::Refused, sentence);
        };
        let (terms, arrive) = (Arc::clone(&self.terms), arrive.clone());
        tokio::spawn(async move {
            let fault = match line.hear.recv().await {
                Some(Heard::Message(Asked::List(announced))) if announced.study == terms.study => {
                    drop(arrive.send(Arrived { side, announced, line }).await);
                    return;
                }
                Some(Heard::Message(Asked::List(_))) => "sent a list of another study".to_owned(),
                Some(Heard::Message(Asked::Part(_) | Asked::Positions(_))) => UNANNOUNCED.to_owned(),
                Some(Heard::Fault(fault)) => fault.to_string(),
                None => return,
            };
            dismiss(&line, Exit::Peer, format!("{} {fault}", PARTIES[side]));
        });
    }

    /// Begins once both parties of a run are there with the same pass. A party's newest line stands for it: its older one ends, and with it
    /// that of the other party, which opens another.
    fn pair(&mut self, arrived: Arrived) {
        let side = arrived.side;
        self.waiting[side] = Some(arrived);
        if let Some(present) = self.present.take() {
            present.abort();
        }
        let place = |arrived: &Arrived| (arrived.announced.run, arrived.announced.pass);
        if let [Some(alice), Some(bob)] = &self.waiting
            && place(alice) == place(bob)
            && let [Some(alice), Some(bob)] = std::mem::take(&mut self.waiting)
        {
            let run = Run { terms: Arc::clone(&self.terms), run: alice.announced.run, lines: [alice.line, bob.line] };
            self.present = Some(tokio::spawn(run.merge([alice.announced, bob.announced])).abort_handle());
        }
    }
}

const UNANNOUNCED: &str = "sent something else than the length of a list";

/// Why the lines of a pass end here.
enum End {
    /// A party's line is lost while something was owed to the other, which comes again with a line of its own.
    Lost(usize),
    /// A party has left where nothing was owed to the other.
    Done,
    /// The others hear why.
    Told(Exit, String),
    /// A reason that is no party's fault.
    Internal(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Internal(format!("the positions of a merge cannot be stored: {error}"))
    }
}

fn fault(side: usize, what: &str) -> End {
    End::Told(Exit::Peer, format!("{} {what}", PARTIES[side]))
}

fn dismiss(line: &Caller, exit: Exit, sentence: String) {
    tracing::warn!("the merge ends for `{}`: {sentence} ({})", line.name, exit.code());
    // Where its queue is full the party learns of the end only.
    drop(line.say.try_send(Answer::Notice(Notice { exit, sentence })));
}

/// The lines of both parties in one pass of a run.
struct Run {
    terms: Arc<Terms>,
    run: RunId,
    lines: [Caller; 2],
}

impl Run {
    async fn merge(mut self, announced: [Announced; 2]) {
        let (exit, sentence) = match self.pass(announced).await {
            Ok(()) | Err(End::Done) => return,
            Err(End::Lost(side)) => {
                let (pass, run) = (announced[0].pass + 1, self.run);
                tracing::warn!(
                    "the line to {} is lost in pass {pass} of run {run}: both parties send their lists again",
                    PARTIES[side]
                );
                return;
            }
            Err(End::Told(exit, sentence)) => (exit, sentence),
            Err(End::Internal(reason)) => {
                tracing::error!("the merge of run {} failed: {reason}", self.run);
                (Exit::Internal, "internal error at the coordinator; the reason is shown there only".to_owned())
            }
        };
        for line in &self.lines {
            dismiss(line, exit, sentence.clone());
        }
    }

    async fn pass(&mut self, announced: [Announced; 2]) -> Result<(), End> {
        let pass = self.check(&announced)?;
        tracing::info!("merging the lists of pass {} in run {}", pass + 1, self.run);
        let found = self.lists(pass, announced.map(|list| list.tags)).await?;
        self.tell(Merged::Count { pass, count: found.count }).await;
        // A pass with too few matches is left.
        match self.both().await? {
            [Asked::Positions(first), Asked::Positions(second)] if [first, second] == [pass; 2] => {}
            _ => {
                let sentence = "alice and bob did not ask for the same after the count".to_owned();
                return Err(End::Told(Exit::Peer, sentence));
            }
        }
        self.positions(pass, found).await?;
        // The lines end together: a party that lacks something comes again, and the other one hears of it by that.
        let [alice, bob] = &self.lines;
        tokio::select! {
            () = alice.say.closed() => {}
            () = bob.say.closed() => {}
        }
        Ok(())
    }

    /// The pass of two lists, which belong together and are not too long.
    fn check(&self, announced: &[Announced; 2]) -> Result<u32, End> {
        let pass = announced[0].pass;
        for (side, list) in announced.iter().enumerate() {
            if pass >= self.terms.passes {
                return Err(fault(side, "sent a list of another pass"));
            }
            if list.tags > self.terms.longest[side] {
                let sentence = format!("{} has a longer list than the study allows", PARTIES[side]);
                return Err(End::Told(Exit::Refused, sentence));
            }
        }
        Ok(pass)
    }

    async fn tell(&self, merged: Merged) {
        for line in &self.lines {
            // Fails when the line is gone, which the next step shows.
            drop(line.say.send(Answer::Merged(merged.clone())).await);
        }
    }

    /// Reads both lists.
    async fn lists(&mut self, pass: u32, sizes: [u64; 2]) -> Result<Found, End> {
        let merge = Merge::new(sizes).ok_or_else(|| fault(0, "sent a list that is too long"))?;
        let mut work = (merge, Found::new(&self.terms.folder)?);
        let mut told = 0;
        while let Some(side) = work.0.wants() {
            let part = self.part(side).await?;
            let (after, taken) = beside(move || {
                let taken = work.1.take(&mut work.0, side, part);
                (work, taken)
            })
            .await?;
            work = after;
            taken.map_err(|end| match end {
                Unstored::Unfit(unfit) => fault(side, &format!("sent {unfit}")),
                Unstored::Io(error) => error.into(),
            })?;
            if work.0.passed() >= told + PROGRESS {
                told = work.0.passed();
                for line in &self.lines {
                    // Where nobody takes it, the next one says more.
                    drop(line.say.try_send(Answer::Merged(Merged::Passed { pass, entries: told })));
                }
            }
        }
        let (merge, found) = work;
        let (lists, run) = (Lists::of(&self.terms.folder), self.run);
        let same = beside(move || -> io::Result<[bool; 2]> {
            let [alice, bob] = merge.digests();
            Ok([lists.add(run, pass, Role::Alice, alice)?, lists.add(run, pass, Role::Bob, bob)?])
        });
        match same.await??.iter().position(|same| !same) {
            Some(side) => Err(fault(side, "sent another list than before in this pass of the run")),
            None => Ok(found),
        }
    }

    /// The next part of a list.
    async fn part(&mut self, side: usize) -> Result<Vec<Tag>, End> {
        let [alice, bob] = &mut self.lines;
        let (line, other) = if side == 0 { (alice, bob) } else { (bob, alice) };
        let heard = tokio::select! {
            heard = line.hear.recv() => heard,
            () = other.say.closed() => return Err(End::Lost(1 - side)),
        };
        match heard {
            Some(Heard::Message(Asked::Part(part))) => Ok(part),
            Some(Heard::Message(Asked::List(_) | Asked::Positions(_))) => Err(fault(side, "sent no tags")),
            Some(Heard::Fault(found)) => Err(fault(side, &found.to_string())),
            None => Err(End::Lost(side)),
        }
    }

    /// What both parties ask for next. One that leaves before the other has asked for anything owes it nothing: the match is over, or ends
    /// between the parties.
    async fn both(&mut self) -> Result<[Asked; 2], End> {
        let mut asked: [Option<Asked>; 2] = [None, None];
        loop {
            let [alice, bob] = &mut self.lines;
            let (side, heard) = tokio::select! {
                heard = alice.hear.recv(), if asked[0].is_none() => (0, heard),
                heard = bob.hear.recv(), if asked[1].is_none() => (1, heard),
                () = alice.say.closed(), if asked[0].is_some() => (0, None),
                () = bob.say.closed(), if asked[1].is_some() => (1, None),
            };
            match heard {
                Some(Heard::Message(message)) => asked[side] = Some(message),
                Some(Heard::Fault(found)) => return Err(fault(side, &found.to_string())),
                None if asked[1 - side].is_some() => return Err(End::Lost(side)),
                None => return Err(End::Done),
            }
            if let [Some(_), Some(_)] = &asked
                && let [Some(first), Some(second)] = std::mem::take(&mut asked)
            {
                return Ok([first, second]);
            }
        }
    }

    /// Tells each party where its list meets the other's.
    async fn positions(&self, pass: u32, mut found: Found) -> Result<(), End> {
        found.file.rewind()?;
        let mut first = 0;
        while first < found.count {
            let many = (found.count - first).min(PART_POSITIONS as u64) as usize;
            let (after, pairs) = beside(move || {
                let mut bytes = vec![0; many * PAIR_BYTES];
                let read = found.file.read_exact(&mut bytes);
                (found, read.map(|()| bytes))
            })
            .await?;
            found = after;
            let pairs = pairs?;
            let (words, _) = pairs.as_chunks::<4>();
            for (side, line) in self.lines.iter().enumerate() {
                let own = words.iter().skip(side).step_by(2);
                let positions = own.map(|bytes| u32::from_le_bytes(*bytes)).collect();
                let part = Merged::Positions { pass, first, positions };
                if line.say.send(Answer::Merged(part)).await.is_err() {
                    return Err(End::Lost(side));
                }
            }
            first += many as u64;
        }
        Ok(())
    }
}

/// Runs what reads or writes a file beside everything else.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, End> {
    tokio::task::spawn_blocking(work).await.map_err(|panic| End::Internal(panic.to_string()))
}

/// Where both lists meet: a file that no other process can open, and that is gone with this one.
struct Found {
    file: File,
    count: u64,
}

/// Why a part of a list was not taken.
enum Unstored {
    Unfit(fedreg_common::secure::merging::Unfit),
    Io(io::Error),
}

impl Found {
    fn new(folder: &Path) -> io::Result<Found> {
        Ok(Found { file: tempfile::tempfile_in(folder)?, count: 0 })
    }

    fn take(&mut self, merge: &mut Merge, side: usize, part: Vec<Tag>) -> Result<(), Unstored> {
        let mut pairs = Vec::new();
        merge.take(side, part, &mut pairs).map_err(Unstored::Unfit)?;
        let bytes: Vec<u8> = pairs.iter().flatten().flat_map(|position| position.to_le_bytes()).collect();
        self.file.write_all(&bytes).map_err(Unstored::Io)?;
        self.count += pairs.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
