//! Kills of runs that score new rows: a file of predictions is whole or absent, whenever whoever is killed, and the next run writes it.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::Rng;

use super::{DEMO, LOOK, PATIENCE, Play, Running, TWO_PARTIES, arguments, count, generator};

/// Rows that are scored: enough for reading, exchange and writing to be hit.
const ROWS: usize = 20_000;
/// Where Alice writes.
const SCORES: &str = "scored/scores.csv";

/// A fit of two parties, and roles that score new rows with it.
fn scoring() -> Play {
    let mut play = Play::of_parties("plain, two parties", "plain", &TWO_PARTIES);
    play.undisturbed();
    for name in TWO_PARTIES {
        let rows = (0..ROWS).map(|row| format!("q{row:06},{}\n", (0.37 * row as f64).sin()));
        let text: String = std::iter::once(format!("id,x_{name}\n")).chain(rows).collect();
        fs::write(play.folder.join(format!("{name}_new.csv")), text).unwrap();
    }
    for role in play.roles.iter_mut().filter(|role| !role.out.is_empty()) {
        let name = role.name;
        let after = |flag: &str| {
            let words = &role.arguments;
            words.iter().position(|word| word == flag).map(|at| words[at..at + 2].to_vec())
        };
        let mut words =
            arguments(&["predict", "--wait", "60", "--data", &format!("{name}_new.csv"), "--out", "scored"]);
        words.extend(arguments(&["--model", &format!("{name}/model.json")]));
        words.extend(["--coordinator", "--listen", "--connect"].into_iter().filter_map(after).flatten());
        role.arguments = words;
        role.out = "scored";
    }
    play
}

impl Play {
    fn scores(&self) -> Option<Vec<u8>> {
        fs::read(self.folder.join(SCORES)).ok()
    }

    /// Waits for the parties; once Alice has her file and is done, nobody is left for whom one that was started again could wait.
    fn scored(&self, mut running: Vec<Running>) -> Vec<Option<i32>> {
        let begun = Instant::now();
        let mut codes: Vec<Option<i32>> = vec![None; running.len()];
        let done = |codes: &[Option<i32>]| codes[1] == Some(0) && self.scores().is_some();
        while codes[1..].iter().any(Option::is_none) && !done(&codes) && begun.elapsed() < PATIENCE {
            for (code, running) in codes.iter_mut().zip(&mut running) {
                *code = code.or_else(|| running.ended());
            }
            std::thread::sleep(LOOK);
        }
        codes
    }

    fn all_scoring(&self) -> Vec<Running> {
        (0..self.roles.len()).map(|at| self.start(at, &[])).collect()
    }
}

#[test]
fn whoever_is_killed_while_rows_are_scored_the_file_is_whole_or_absent() {
    let mut rng = generator();
    let play = scoring();
    play.reset();
    let begun = Instant::now();
    let codes = play.scored(play.all_scoring());
    let time = begun.elapsed();
    let whole = play.scores().unwrap_or_else(|| panic!("{codes:?}\n{}", play.logs()));
    assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count(), ROWS + 1);
    let wanted = count("FEDREG_KILLS", 6);
    let (mut kills, mut tries, mut written) = (0, 0, 0);
    while kills < wanted {
        tries += 1;
        assert!(tries < 20 * wanted + 100, "processes end before they can be killed");
        let (victim, delay) = (rng.random_range(0..3), time.mul_f64(rng.random_range(0.0..1.0)));
        play.forget_logs();
        play.reset();
        let mut running = play.all_scoring();
        std::thread::sleep(delay);
        if running[victim].ended().is_some() {
            continue;
        }
        running[victim].child.kill().unwrap();
        running[victim].child.wait().unwrap();
        kills += 1;
        let what = format!("kill {kills}: {} after {} ms", play.roles[victim].name, delay.as_millis());
        let at_once = play.scores();
        assert!(at_once.is_none() || at_once.as_ref() == Some(&whole), "{what}");
        if at_once.is_none() || victim == 0 {
            running[victim] = play.start(victim, &[]);
        }
        let codes = play.scored(running);
        let found = play.scores();
        assert!(victim == 0 || found.is_some() || codes[1..].iter().all(Option::is_some), "{what}: {codes:?}");
        assert!(found.is_none() || found.as_ref() == Some(&whole), "{what}: {codes:?}\n{}", play.logs());
        if codes[1] == Some(0) {
            assert!(found.is_some(), "{what}: nothing is written\n{}", play.logs());
        }
        written += usize::from(found.is_some());
        if found.is_none() {
            let codes = play.scored(play.all_scoring());
            assert_eq!(play.scores().as_ref(), Some(&whole), "the run after {what}: {codes:?}\n{}", play.logs());
        }
    }
    println!(
        "{kills} kills of predictions between two: no file was wrong, {written} were there, the next run wrote the others"
    );
}

#[test]
fn a_worker_that_is_killed_while_it_scores_rows_leaves_a_whole_file_or_none() {
    let mut rng = generator();
    let play = Play::all().into_iter().find(|play| play.name == "plain robust").unwrap();
    play.undisturbed();
    let rows = (0..5 * ROWS).map(|row| format!("{},{}\n", (0.37 * row as f64).sin(), (0.11 * row as f64).cos()));
    let text: String = std::iter::once("a,b\n".to_string()).chain(rows).collect();
    fs::write(play.folder.join("new.csv"), text).unwrap();
    let place = play.folder.join("predictions.csv");
    let start = || {
        let mut command = Command::new(DEMO);
        command.args(["--role", "worker", "predict", "--report", "coordinator/report.json", "--data", "new.csv"]);
        command.args(["--out", "predictions.csv"]).current_dir(&play.folder);
        Running { child: command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap() }
    };
    let ends = |mut running: Running| running.child.wait().unwrap().code();
    let begun = Instant::now();
    assert_eq!(ends(start()), Some(0));
    let time = begun.elapsed();
    let whole = fs::read(&place).unwrap();
    assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count(), 5 * ROWS + 1);
    let wanted = count("FEDREG_KILLS", 20);
    let (mut kills, mut tries, mut written) = (0, 0, 0);
    while kills < wanted {
        tries += 1;
        assert!(tries < 20 * wanted + 100, "it ends before it can be killed");
        // An older file stays as it was until the new one is whole.
        let older = rng.random_bool(0.5).then(|| b"prediction\n0\n".to_vec());
        match &older {
            Some(older) => fs::write(&place, older).unwrap(),
            None => drop(fs::remove_file(&place)),
        }
        let mut running = start();
        // Half of the kills fall on the end, when the file is written.
        let from = if rng.random_bool(0.5) { 0.8 } else { 0.0 };
        std::thread::sleep(time.mul_f64(rng.random_range(from..1.1)));
        if running.ended().is_some() {
            continue;
        }
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        kills += 1;
        let found = fs::read(&place).ok();
        assert!(found == older || found.as_ref() == Some(&whole), "kill {kills}: {:?} bytes", found.map(|f| f.len()));
        written += usize::from(found.as_ref() == Some(&whole));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(ends(start()), Some(0));
    assert_eq!(fs::read(&place).unwrap(), whole);
    println!("{kills} kills of a worker's predictions: no file was wrong, {written} were there");
}
