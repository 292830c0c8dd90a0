//! What a coordinator sees of a private worker whose records or tables are broken: the same as of one whose are not.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arrow;
mod hub;
mod ledgers;
mod sites;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ledgers::stored;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sites::{DEMO, LOOK, PATIENCE, Running, WORKERS, World, table};

use arrow::Record;
use hub::{Seen, seen_of};

const STREAM: &str = r#"
    id = "records"
    protocol = "stream"
    mode = "private"
    [privacy]
    epsilon = 1.0
    delta = 1e-5
    [workers.north]
    certificate = "north"
    [rows]
    id = "who"
    [model]
    features = ["a"]
    [outcome]
    column = "y"
    [columns.a]
    range = [-1, 1]
    [columns.y]
    range = [-6, 6]
    [sites]
    batch_rows = 4
    [stream]
    grid = 8
"#;

/// Sound records of a table `who,a,y`.
const RECORDS: usize = 9;

fn sound(at: usize) -> String {
    format!("p{at},{},{}", at as f64 / 10.0 - 0.4, at as f64 / 4.0)
}

/// A table in which the record `at` is another.
fn text(at: usize, record: &[u8]) -> Vec<u8> {
    let mut text = b"who,a,y\n".to_vec();
    for row in 0..RECORDS {
        match row == at {
            true => text.extend(record),
            false => text.extend(sound(row).into_bytes()),
        }
        text.push(b'\n');
    }
    text
}

/// Records that cannot be read, each in a way of its own.
fn broken() -> Vec<Vec<u8>> {
    let long = "9".repeat(10_000_000);
    let mut all: Vec<Vec<u8>> = [
        "\"p4",
        "p4,\"0.1,1",
        "\"p4\"x,0.1,1",
        "p4,0.1,\"1",
        "",
        "   ",
        "\r",
        "p4",
        "p4,1,2,3",
        "\0\0\0",
        "p4,\0,1",
        ",0.1,1",
        "NA,0.1,1",
        "p4,NaN,inf",
        "p4,1e999,1",
        "p4,much,1",
        "p1,0.1,1",
        "p4,7,1",
        "#",
        "\u{feff}p4,0.1,1",
    ]
    .map(|line| line.as_bytes().to_vec())
    .into();
    all.push(b"\xff\xfe\xe9,0.1,\xe9".to_vec());
    all.push(format!("p4,{long},1").into_bytes());
    all.push(format!("\"p4,{long},1").into_bytes());
    all.push(format!("{long},0.1,1").into_bytes());
    all
}

/// Lines of bytes that readers of CSV take for something special.
fn drawn(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let bytes = b"\"\",,;\t|p41.5-eN\0\r\xff\xe9\x01 ";
    (0..count)
        .map(|_| (0..generator.random_range(0..14)).map(|_| bytes[generator.random_range(0..bytes.len())]).collect())
        .collect()
}

fn shown(record: &[u8]) -> String {
    format!("{:.60?}", String::from_utf8_lossy(record))
}

/// What is seen of a sound table of a stream: nine records in messages of one, two, four and two.
fn usual() -> Vec<String> {
    let message =
        |number: usize, records: usize| format!("contribution {number}: {records} records, {} values", 8 * records);
    let messages = [(0, 1), (1, 2), (2, 4), (3, 2)].map(|(number, records)| message(number, records));
    let ends = ["joined".to_string(), "complete: 4".to_string()];
    [&ends[..1], &messages[..], &ends[1..]].concat()
}

#[test]
fn whatever_a_record_of_a_private_stream_is_the_coordinator_sees_the_same() {
    let world = World::of(STREAM);
    let cases: Vec<Vec<u8>> = [broken(), drawn(11, 40)].concat();
    for (case, record) in cases.iter().enumerate() {
        let data = world.path("records.csv");
        fs::write(&data, text(4, record)).unwrap();
        let seen = seen_of(&world, &data, &format!("file-{case}"), None);
        assert_eq!(seen, Seen::of(usual()), "{}", shown(record));
    }
}

#[test]
fn a_last_line_without_an_end_is_one_record_of_a_private_stream_whatever_stands_in_it() {
    let world = World::of(STREAM);
    let data = world.path("records.csv");
    let whole = text(RECORDS, b"");
    let start = &whole[..whole.len() - sound(RECORDS - 1).len() - 1];
    for (case, last) in [sound(8), "p8,0.".to_string(), "p".to_string(), "\"p8,0.1,1".to_string()].iter().enumerate() {
        fs::write(&data, [start, last.as_bytes()].concat()).unwrap();
        for idle in [None, Some(Duration::from_millis(60))] {
            let seen = seen_of(&world, &data, &format!("last-{case}-{}", idle.is_some()), idle);
            assert_eq!(seen, Seen::of(usual()), "{last}");
        }
    }
}

#[test]
fn a_followed_private_stream_shows_nothing_of_its_records_either() {
    let world = World::of(STREAM);
    let cases: Vec<Vec<u8>> = [broken(), drawn(12, 5)].concat();
    let data = world.path("records.csv");
    for (case, record) in cases.iter().enumerate().step_by(2) {
        fs::write(&data, text(4, record)).unwrap();
        let seen = seen_of(&world, &data, &format!("followed-{case}"), Some(Duration::from_millis(60)));
        assert_eq!(seen, Seen::of(usual()), "{}", shown(record));
    }
}

/// What is seen of a real worker that reads these bytes from standard input; its log.
fn piped(world: &World, tag: &str, bytes: &[u8]) -> (Seen, String) {
    hub::private_worker(world, Path::new("-"), tag);
    let office = hub::Office::open(world);
    let mut child = Command::new(DEMO)
        .args(["--role", "worker", "join", "--data", "-", "--coordinator", &office.address, "--study", "study.toml"])
        .args(["--config", &format!("{tag}.toml"), "--state", &format!("{tag}-state"), "--wait", "20"])
        .args(["--authority", "authority.pem", "--certificate", "north.pem", "--key", "north.key"])
        .current_dir(world.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(fs::File::create(world.path(&format!("{tag}.log"))).unwrap())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    // A worker that has ended reads no more.
    let written = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let seen = office.watch(async move {
        let ended = tokio::task::spawn_blocking(move || child.wait().unwrap().code());
        ended.await.unwrap().unwrap_or(-1)
    });
    written.join().unwrap();
    (seen, fs::read_to_string(world.path(&format!("{tag}.log"))).unwrap())
}

#[test]
fn a_piped_private_stream_shows_nothing_of_its_records_and_its_own_log_says_where_they_are() {
    let world = World::of(STREAM);
    let broken = broken();
    for (case, record) in broken.iter().enumerate().filter(|(case, _)| [0, 1, 4, 7, 9, 20, 21, 22].contains(case)) {
        let (seen, log) = piped(&world, &format!("piped-{case}"), &text(4, record));
        assert_eq!(seen, Seen::of(usual()), "{} {log}", shown(record));
        assert!(log.contains("line 6: the row cannot be used and counts as zero"), "{} {log}", shown(record));
    }
    // A quote that is opened in one record and closed in another belongs to these two, and the ones between are heard.
    let mut lines: Vec<String> = (0..RECORDS).map(sound).collect();
    lines[2] = "p2,\"0.1,1".to_string();
    lines[7] = "p7\",0.1,1".to_string();
    let (seen, log) = piped(&world, "quoted", format!("who,a,y\n{}\n", lines.join("\n")).as_bytes());
    assert_eq!(seen, Seen::of(usual()), "{log}");
    assert!(log.contains("1 rows of standard input could not be used"), "{log}");
    // A last line that was cut short.
    let (seen, log) = piped(&world, "cut", &text(RECORDS, b"")[..text(RECORDS, b"").len() - 2]);
    assert_eq!(seen, Seen::of(usual()), "{log}");
    assert!(log.contains("line 10: the row cannot be used"), "{log}");
}

#[test]
fn a_record_that_its_persons_budget_has_no_room_for_is_told_at_home_only() {
    let world = World::of(&format!("{STREAM}\n[stream.budgets]\nepsilon_exponent = 0.5\n"));
    // Of a whole budget, p0's record in place 1 costs all, p1's in place 2 .53, and one in place 5 .22.
    for (case, record, refused) in [("p0", b"p0,0.1,1", true), ("p1", b"p1,0.1,1", false), ("p4", b"p4,0.1,1", false)] {
        let (seen, log) = piped(&world, case, &text(4, record));
        assert_eq!(seen, Seen::of(usual()), "{log}");
        let said = log
            .contains("1 records had no name, or were of persons with no budget left for them: noise alone went out");
        assert_eq!(said, refused, "{case}: {log}");
    }
}

#[test]
fn a_piped_private_stream_of_arrow_shows_nothing_of_its_records_nor_how_it_ends() {
    let world = World::of(STREAM);
    let records = |at: usize, record: Record<'static>| -> Vec<Record<'static>> {
        let names: [&[u8]; RECORDS] = [b"p0", b"p1", b"p2", b"p3", b"p4", b"p5", b"p6", b"p7", b"p8"];
        let sound = |row: usize| Record { who: Some(names[row]), a: Some(row as f64 / 10.0), y: Some(1.0) };
        (0..RECORDS).map(|row| if row == at { record } else { sound(row) }).collect()
    };
    let good = Record { who: Some(b"p4"), a: Some(0.1), y: Some(1.0) };
    let nameless = Record { who: None, ..good };
    let cases = [
        ("null", nameless),
        ("empty", Record { who: Some(b""), ..good }),
        ("bytes", Record { who: Some(b"\xff\xfe\0"), ..good }),
        ("values", Record { a: None, y: Some(f64::NAN), ..good }),
    ];
    for (tag, record) in cases {
        let (seen, log) = piped(&world, tag, &arrow::stream(&records(4, record), 4));
        assert_eq!(seen, Seen::of(usual()), "{tag} {log}");
    }
    // A stream that loses its end ends where it is cut, for whatever records.
    let end = |tag: &str, record| {
        let whole = arrow::stream(&records(4, record), 4);
        piped(&world, tag, &whole[..whole.len() - 12])
    };
    let (seen, log) = end("short", good);
    assert!(log.contains("the stream ends here, as it cannot be read on"), "{log}");
    assert_eq!(seen.said.last().map(String::as_str), Some("complete: 4"), "{log}");
    assert_eq!(seen, end("shorter", nameless).0);
}

/// A study of three sites.
fn of_three(method: &str) -> World {
    let sites: String = WORKERS.iter().map(|name| format!("[workers.{name}]\ncertificate = \"{name}\"\n")).collect();
    let (protocol, rest) = method.split_once('\n').unwrap();
    let epsilon = if protocol == "robust" { 8.0 } else { 1.0 };
    let world = World::of(&format!(
        "id = \"sites\"\nprotocol = \"{protocol}\"\nmode = \"private\"\n[privacy]\nepsilon = {epsilon:?}\ndelta = 1e-5\n{sites}[model]\n\
         features = [\"a\", \"b\"]\n[outcome]\ncolumn = \"y\"\n{}{rest}",
        if protocol == "em" { "" } else { RANGES }
    ));
    for name in WORKERS {
        let text = format!(
            "[privacy]\nledger = \"{name}-state/privacy.sqlite\"\nanchor = \"anchors/{name}\"\ndata_set = \"cohort\"\nepsilon = 8.0\n"
        );
        world.write(&format!("{name}.toml"), &text);
        let made = Command::new(DEMO)
            .args(["--role", "worker", "privacy", "init", "--config", &format!("{name}.toml")])
            .args(["--study", "study.toml", "--coordinator", &world.address, "--data", &format!("{name}.csv")])
            .args(["--state", &format!("{name}-state"), "--authority", "authority.pem"])
            .args(["--certificate", &format!("{name}.pem"), "--key", &format!("{name}.key")])
            .current_dir(world.path(""))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    world
}

const RANGES: &str = "[columns.a]\nrange = [-4, 4]\n[columns.b]\nrange = [-4, 4]\n[columns.y]\nrange = [-30, 30]\n";

const METHODS: [&str; 3] = [
    "em\n[sites]\ndeadline = 50\n[em]\nmodel = \"mrm\"\nsigma = 1.0\ntau = 15.0\nrounds = 3\n",
    "features\n[sites]\ndeadline = 50\n[features]\ncount = 10\n",
    "robust\n[sites]\ndeadline = 50\nbatch_rows = 50\n[robust.private]\nrounds = 3\n",
];

#[test]
fn a_private_run_goes_on_with_the_rows_that_were_read_before_anybody_was_contacted() {
    for (method, contributions) in METHODS.into_iter().zip([3, 1, 2]) {
        let world = of_three(method);
        let worker = |name: &str| world.worker(name, &["--config", &format!("{name}.toml")]);
        let listener = TcpListener::bind(&world.address).unwrap();
        let north = worker("north");
        // Whoever dials has read; and is hung up on.
        drop(listener.accept().unwrap());
        drop(listener);
        // The table breaks in its form, and its rows go.
        world.write("north.csv", "a,b,y\n\"1,2,3\n");
        let coordinator = world.coordinator(&["--wait", "1"]);
        let others = ["south", "west"].map(worker);
        for ended in [north].into_iter().chain(others).map(Running::end) {
            assert_eq!(ended.code, 0, "{method} {}", ended.log);
        }
        let ended = coordinator.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
        let rows = world.report("coordinator")["workers"].as_array().unwrap().clone();
        assert!(
            rows.len() == 3 && rows.iter().all(|row| row["contributions"] == contributions),
            "{rows:?} {}",
            ended.log
        );
    }
}

#[test]
fn rows_that_changed_since_a_run_was_interrupted_are_spoken_of_at_home_only() {
    let world = of_three(&METHODS[2].replace("[sites]", "[sites]\nquorum = 1"));
    let worker = |name: &str| world.worker(name, &["--config", &format!("{name}.toml")]);
    let coordinator = world.coordinator(&["--wait", "60"]);
    let ledger = world.path("south-state/privacy.sqlite");
    ledgers::hold(&ledger, "bytes WHEN NEW.name LIKE 'sent/%/1'");
    let south = worker("south");
    let since = Instant::now();
    while stored(&ledger, "sent/%").is_empty() {
        assert!(since.elapsed() < PATIENCE, "{}", south.log());
        std::thread::sleep(LOOK);
    }
    south.kill();
    ledgers::let_go(&ledger);
    world.write("south.csv", &table(9, 100));
    let ended = worker("south").end();
    assert!(ended.code == 77 && ended.log.contains("the data have changed since run"), "{} {}", ended.code, ended.log);
    let seen = coordinator.kill();
    assert!(!seen.contains("the data") && !seen.contains("left ("), "{seen}");
}
