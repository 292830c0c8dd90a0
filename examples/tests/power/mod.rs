//! Power cuts: a role is killed at a chosen system call, all that it had not synced is taken from its folders, and the run goes on
//! from what is left. A release or a receipt that left before it was synced would then be missing at the one side and known
//! at the other: the noise is drawn again, the repeated message is another one, and the run does not end with its result.
//!
//! The calls are those that `strace` shows; without it nothing is tried here.

mod disc;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use rand::Rng;

use self::disc::{Disc, Loss};
use super::{DEMO, PATIENCE, Play, Running, count, generator, sites};

/// What is traced: all that changes files, and what goes to the line.
const TRACED: &str = "trace=openat,write,pwrite64,ftruncate,fsync,fdatasync,mkdir,unlink,rename,sendto,sendmsg,writev";
/// Calls at which a role is killed.
const STRUCK: &str = "fsync,fdatasync,pwrite64,unlink,sendto,writev";

impl Play {
    /// Folders that a role writes.
    fn written_by(&self, at: usize) -> Vec<PathBuf> {
        let role = &self.roles[at];
        let names = [format!("{}-state", role.name), format!("anchors/{}", role.name), role.out.to_string()];
        names.iter().filter(|name| !name.is_empty()).map(|name| self.folder.join(name)).collect()
    }

    /// Starts a role under `strace`, which kills it at its call `strike`, where one is given.
    fn traced(&self, at: usize, strike: Option<usize>) -> Running {
        let role = &self.roles[at];
        let program = if sites::WORKERS.contains(&role.name) { "worker" } else { role.name };
        let file = |kind: &str| {
            let path = self.folder.join(format!("{}.{kind}", role.name));
            fs::OpenOptions::new().append(true).create(true).open(path).unwrap()
        };
        let mut command = Command::new("strace");
        command.args(["-f", "-q", "-y", "-x", "-s", "100000000", "-o", "trace", "-e", TRACED]);
        if let Some(strike) = strike {
            command.args(["-e", &format!("inject={STRUCK}:signal=SIGKILL:when={strike}")]);
        }
        command.arg(DEMO).args(["--role", program]).args(&role.arguments).args(self.own(role));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(file("out")).stderr(file("log"));
        Running { child: command.spawn().unwrap() }
    }

    fn trace(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("trace")).unwrap_or_default()).into_owned()
    }

    /// Runs with one role traced; that role's discs as they were before, and what all ended with.
    fn run_traced(&self, victim: usize, strike: Option<usize>) -> (Vec<(PathBuf, Disc)>, Vec<Running>) {
        self.forget_logs();
        self.reset();
        let _ = fs::remove_file(self.folder.join("trace"));
        let folders = self.written_by(victim);
        folders.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let discs = folders.into_iter().map(|folder| (folder.clone(), Disc::of(&folder))).collect();
        let start = |at: usize| if at == victim { self.traced(at, strike) } else { self.start(at, &[]) };
        (discs, (0..self.roles.len()).map(start).collect())
    }
}

/// Calls of a trace at which a role can be killed: those of the thread that makes most, as `strace` counts by threads.
fn strikes(trace: &str) -> usize {
    let names: Vec<String> = STRUCK.split(',').map(|name| format!("{name}(")).collect();
    let mut calls: HashMap<&str, usize> = HashMap::new();
    for (thread, call) in trace.lines().filter_map(|line| line.split_once(' ')) {
        if names.iter().any(|name| call.trim_start().starts_with(name)) {
            *calls.entry(thread).or_default() += 1;
        }
    }
    calls.into_values().max().unwrap_or(0)
}

#[test]
fn a_power_cut_at_any_moment_loses_no_release_no_charge_and_no_result() {
    if !Command::new("strace").args(["-f", "true"]).output().is_ok_and(|output| output.status.success()) {
        println!("strace is missing or may not trace: no power is cut");
        return;
    }
    let mut rng = generator();
    // Links in the path of a temporary folder are not those that the trace shows.
    let plays: Vec<Play> = Play::all()
        .into_iter()
        .filter(|play| ["private, two parties", "private robust"].contains(&play.name))
        .map(|play| Play { folder: play.folder.canonicalize().unwrap(), ..play })
        .collect();
    let clean: Vec<_> = plays.iter().map(Play::undisturbed).collect();
    // A ledger in each play, and the hub that stores what sites sent.
    let victims: [(usize, usize); 4] = [(0, 1), (1, 1), (1, 0), (0, 2)];
    let calls = victims.map(|(at, victim)| {
        let play = &plays[at];
        let (_, running) = play.run_traced(victim, None);
        let codes = play.codes(running, Instant::now());
        play.assert_whole(&clean[at], &codes, "traced");
        let (calls, syncs) = (strikes(&play.trace()), play.trace().matches("sync(").count());
        assert!(syncs >= 4, "{}: {} synced {syncs} times", play.name, play.roles[victim].name);
        calls
    });
    let wanted = count("FEDREG_POWER", victims.len());
    let (mut cuts, mut tries) = (0, 0);
    while cuts < wanted {
        let number = tries % victims.len();
        let ((at, victim), calls) = (victims[number], calls[number]);
        let (play, clean) = (&plays[at], &clean[at]);
        tries += 1;
        assert!(tries < 5 * wanted + 20, "processes end before their power is cut");
        let (strike, loss) = (rng.random_range(1..=calls), if rng.random_bool(0.5) { Loss::All } else { Loss::Some });
        let (discs, mut running) = play.run_traced(victim, Some(strike));
        let begun = Instant::now();
        let mut code = None;
        while code.is_none() && begun.elapsed() < PATIENCE {
            code = running[victim].ended();
            std::thread::sleep(super::LOOK);
        }
        let trace = play.trace();
        if !trace.contains("+++ killed by SIGKILL") {
            continue;
        }
        cuts += 1;
        let mut syncs = 0;
        for (folder, mut disc) in discs {
            disc.follow(&trace, &play.folder);
            syncs += disc.syncs;
            disc.leave(&folder, loss, &mut rng);
        }
        let name = play.roles[victim].name;
        let what = format!("power cut {cuts} of {name} at call {strike} of {calls}, {loss:?} lost");
        println!("{}: {what}, {syncs} syncs before", play.name);
        running[victim] = play.start(victim, &[]);
        let codes = play.codes(running, Instant::now());
        play.assert_whole(clean, &codes, &what);
    }
    println!("{cuts} power cuts: no release, no charge and no result lost");
}
