use std::cell::RefCell;
use std::fs;
use std::io::Cursor;
use std::rc::Rc;

use clap::Parser;
use fedreg_common::id::Protocol;
use fedreg_common::study::{HeldBy, Study};

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    answers: Answers,
}

const TWO: &str = "--parties alice=age,bmi;bob=s1,s2 --outcome y --held-by alice --id id \
                   --hosts coordinator=registry.example;alice=north.example;bob=south.example";

fn answers(line: &str) -> Answers {
    Program::try_parse_from(std::iter::once("study").chain(line.split(' '))).unwrap().answers
}

/// What flags alone make, where nobody can be asked.
fn flags(line: &str) -> Result<Outline, WizardError> {
    outline(&answers(line), None, None, &mut Asker::new(None, Box::new(io::sink())))
}

fn refused(line: &str) -> (String, u8) {
    let error = flags(line).unwrap_err();
    (error.to_string(), error.exit().code())
}

#[derive(Debug, Clone, Default)]
struct Screen(Rc<RefCell<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What somebody who types these lines is shown, and what they make.
fn typed(line: &str, role: Role, header: Option<Header>, lines: &[&str]) -> (Result<Outline, WizardError>, String) {
    let screen = Screen::default();
    let input = Cursor::new(lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes());
    let mut asker = Asker::new(Some(Box::new(input)), Box::new(screen.clone()));
    let answers = if line.is_empty() { Answers::default() } else { answers(line) };
    let made = outline(&answers, Some(role), header, &mut asker);
    let shown = String::from_utf8(screen.0.borrow().clone()).unwrap();
    (made, shown)
}

fn parsed(outline: &Outline) -> Study {
    Study::parse(&toml::to_string(&outline.file).unwrap()).unwrap()
}

#[test]
fn a_study_from_flags_alone_is_sealed_unless_another_mode_is_named() {
    let sealed = flags(TWO).unwrap();
    assert_eq!(sealed.file.mode.name(), "sealed");
    assert_eq!(sealed.file.parties[&Role::Alice].certificate, "north.example");
    assert_eq!(sealed.file.coordinator.certificate, "registry.example");
    assert_eq!(sealed.places["alice"], Place { host: "north.example".to_string(), port: Some(7101) });
    assert_eq!(sealed.places["coordinator"].port, Some(7100));
    assert_eq!(sealed.places["bob"].port, None);
    let plain = flags(&format!("{TWO} --mode plain")).unwrap();
    assert_eq!(plain.file.mode.name(), "plain");
    let private =
        flags(&format!("{TWO} --mode private --epsilon 3 --ranges age=0..100;bmi=10..60;s1=0..9;s2=0..9;y=0..400"))
            .unwrap();
    assert_eq!(private.file.privacy.as_ref().unwrap().mechanism, fedreg_common::study::Mechanism::Crossprod);
    for outline in [sealed, plain, private] {
        parsed(&outline);
    }
}

#[test]
fn where_there_is_no_sealed_mode_plain_is_not_taken_for_granted() {
    let three = "--parties hospital=bmi;laboratory=s1;office=age --outcome y --held-by hospital --id id \
                 --hosts coordinator=c.example;hospital=h.example";
    let (sentence, code) = refused(&format!("{three} --family poisson"));
    assert!(
        sentence.starts_with("--mode is missing: What leaves")
            && sentence.contains("there is no sealed mode for this study (plain)"),
        "{sentence}"
    );
    assert_eq!(code, 2);
    let (sentence, _) = refused(&format!("{three} --family poisson --mode sealed"));
    assert!(
        sentence.contains("--mode: there is no sealed mode for this study: `model.family` is poisson"),
        "{sentence}"
    );
    let plain = flags(&format!("{three} --family poisson --mode plain")).unwrap();
    assert_eq!(parsed(&plain).vertical().unwrap().first().name(), "hospital");
    let (sentence, _) =
        refused("--method robust --sites north,south --features a,b --outcome y --hosts coordinator=c.example");
    assert!(sentence.contains("there is no sealed mode for this study (private, plain)"), "{sentence}");
}

#[test]
fn a_family_with_an_estimated_dispersion_is_written_for_plain_and_refused_elsewhere_as_the_study_refuses_it() {
    let outline = flags(&format!("{TWO} --family quasipoisson --mode plain")).unwrap();
    assert_eq!(parsed(&outline).vertical().unwrap().method.stated_family().name(), "quasipoisson");
    let (sentence, code) = refused(&format!("{TWO} --family quasibinomial --mode sealed"));
    let says = "`model.family` is quasibinomial: its dispersion needs the residual of every row";
    assert!(sentence.contains(says) && code == 2, "{sentence}");
    let private = "--mode private --epsilon 3 --ranges age=0..100;bmi=10..60;s1=0..9;s2=0..9;y=0..400";
    let (sentence, code) = refused(&format!("{TWO} --family quasipoisson {private}"));
    let says = "`model.family` is quasipoisson: its dispersion needs the residual of every row";
    assert!(sentence.contains(says) && code == 2, "{sentence}");
}

#[test]
fn a_method_whose_plain_mode_needs_ranges_is_written_with_them_and_asked_for_them() {
    for (method, protocol) in [("features", Protocol::Features), ("stream", Protocol::Stream)] {
        let line = format!("--method {method} --sites n,s --features a,b --outcome y --mode plain");
        let outline = flags(&format!("{line} --ranges a=0..1;b=0..1;y=0..5 --hosts coordinator=h")).unwrap();
        let study = parsed(&outline).sites().unwrap();
        assert!(study.protocol() == protocol && study.private().is_none(), "{method}");
        let (sentence, code) = refused(&line);
        assert!(sentence.starts_with("--ranges is missing: ") && code == 2, "{method}: {sentence}");
    }
}

#[test]
fn an_answer_that_is_missing_is_named_by_its_flag() {
    for (line, flag) in [
        ("--outcome y", "parties"),
        ("--parties alice=a;bob=b", "outcome"),
        ("--parties alice=a;bob=b --outcome y", "held-by"),
        ("--parties alice=a;bob=b --outcome y --held-by both", "id"),
        ("--parties alice=a;bob=b --outcome y --held-by both --id id", "hosts"),
        ("--parties alice=a;bob=b --outcome y --held-by both --id id --mode private", "epsilon"),
        ("--parties alice=a;bob=b --outcome y --held-by both --id id --mode private --epsilon 1", "ranges"),
        ("--method robust --features a", "sites"),
        ("--method em --sites n,s", "features"),
        ("--method em --sites n,s --features a", "sigma"),
    ] {
        let (sentence, code) = refused(line);
        assert!(sentence.starts_with(&format!("--{flag} is missing: ")), "{line}: {sentence}");
        assert!(!sentence.contains('\n') && code == 2, "{line}: {sentence}");
    }
}

#[test]
fn a_wrong_answer_is_one_sentence_with_code_2() {
    let seventeen: Vec<String> = (0..17).map(|at| format!("p{at}=c{at}")).collect();
    let seventeen = format!("--parties {} --outcome y", seventeen.join(";"));
    let two = "--parties alice=a;bob=b --outcome y";
    let known = format!("{two} --held-by both --id id");
    for (line, says) in [
        ("--parties alice=a;Bob=b".to_string(), "--parties: `Bob` is not the name of a party"),
        ("--parties alice=a;coordinator=b".to_string(), "`coordinator` is not the name of a party"),
        (seventeen, "`parties` names 17 parties: a vertical study is of two to 16"),
        ("--parties alice=a".to_string(), "`parties` names one party"),
        ("--parties alice=a;bob=a --outcome y".to_string(), "names `a`, which alice has already"),
        ("--parties alice=a,;bob=b".to_string(), "holds an empty name"),
        ("--parties alice=~log(;bob=b".to_string(), "--parties: formula"),
        (format!("{two} --held-by carol"), "--held-by: `outcome.held_by` names carol, which is no party of the study"),
        (format!("{two} --held-by bob"), "--held-by: `outcome.held_by` names bob"),
        (format!("{two} --held-by nobody!"), "--held-by: `held_by`: `nobody!` is not the name of a party"),
        (
            "--parties alice=a;bob=y --outcome y --held-by both --id id --hosts coordinator=c;alice=a".to_string(),
            "names the outcome `y`",
        ),
        (format!("{known} --hosts coordinator=a;alice=a;carol=b"), "--hosts: names `carol`, who is not in the study"),
        (format!("{known} --hosts coordinator=a/b;alice=a"), "--hosts: `a/b` is no host name or address"),
        (format!("{known} --hosts coordinator=h:1;alice=a"), "--hosts: `h:1` is no host name or address"),
        (format!("{known} --hosts coordinator=::1;alice=a"), "is an IPv6 address: write it in brackets, as `[::1]`"),
        (
            format!("{known} --hosts coordinator=h;alice=h --ports alice=0"),
            "--ports: `0` is not a port from 1 to 65535",
        ),
        (format!("{known} --hosts coordinator=h;alice=h --ports bob=7000"), "--ports: bob listens nowhere"),
        (
            format!("{known} --mode sealed --epsilon 3 --hosts coordinator=h;alice=h"),
            "--epsilon has no place in a sealed study",
        ),
        (format!("{known} --mode private --epsilon minus"), "--epsilon: `minus` is not a number above zero"),
        (format!("{known} --mode private --epsilon 1 --ranges a=5..1"), "--ranges: `a` `5..1` is no range"),
        (format!("{known} --mode private --epsilon 1 --ranges c=1..5"), "--ranges: there is no column `c`"),
        (format!("{known} --sites n,s"), "--sites has no place in a vertical study"),
        ("--method robust --sites n --parties alice=a;bob=b".to_string(), "--parties has no place in a robust study"),
        ("--method robust --sites n,n --features a --outcome y".to_string(), "--sites: names `n` twice"),
        ("--method robust --sites n,../x --features a --outcome y".to_string(), "`../x` cannot be the name of a site"),
    ] {
        let (sentence, code) = refused(&line);
        assert!(sentence.contains(says), "{line}: {sentence}");
        // A formula is shown with the place below it.
        assert!(sentence.contains('\n') == line.contains("~log(") && code == 2, "{line}: {sentence}");
    }
    let spaced = Answers { parties: Some("alice smith=a;bob=b".to_string()), ..Answers::default() };
    let error = outline(&spaced, None, None, &mut Asker::new(None, Box::new(io::sink()))).unwrap_err();
    assert!(error.to_string().starts_with("--parties: `alice smith` is not the name of a party; expected"), "{error}");
}

#[test]
fn two_who_would_listen_at_the_same_place_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let made = flags(
        "--parties alice=a;bob=b --outcome y --held-by both --id id --hosts coordinator=h;alice=h --ports alice=7100",
    )
    .unwrap();
    let error = write(&made, &folder.path().join("new"), "dir").unwrap_err();
    assert_eq!(
        error.to_string(),
        "coordinator and alice would both listen at h:7100: give one of them another port with --ports"
    );
    assert_eq!(error.exit().code(), 2);
    assert!(!folder.path().join("new").exists());
}

#[test]
fn whoever_sits_at_a_terminal_is_asked_again_after_a_wrong_answer() {
    let lines = [
        "",
        "vertical",
        "alice, bob smith",
        "alice,bob",
        "age, bmi",
        "age",
        "s1",
        "y",
        "carol",
        "alice",
        "",
        "id",
        "1",
        "",
        "registry.example",
        "",
        "north.example",
        "99999",
        "7200",
        "",
    ];
    let (made, shown) = typed("", Role::Coordinator, None, &lines);
    let made = made.unwrap_or_else(|error| panic!("{error}\n{shown}"));
    for line in [
        "Name of the study [study]: ",
        "`bob smith` is not the name of a party",
        "alice has `age` already",
        "`outcome.held_by` names carol, which is no party of the study",
        "  1 sealed   Columns leave behind masks, and only small declared tables open (recommended)",
        "  3 plain    Values leave without protection: between parties the others can reconstruct columns",
        "`99999` is not a port from 1 to 65535",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert_eq!(made.file.mode.name(), "sealed");
    assert_eq!(made.file.outcome.held_by, HeldBy::One(Role::Alice));
    assert_eq!(made.places["alice"].port, Some(7200));
    // A terminal that is closed has not agreed to anything.
    let (made, _) = typed("", Role::Coordinator, None, &lines[..12]);
    assert!(matches!(made, Err(WizardError::Missing { .. })));
}

#[test]
fn the_header_of_the_own_table_is_offered_and_asked_of_own_columns_alone() {
    let header =
        || Some(Header { file: "/data/a.csv".into(), columns: ["id", "age", "bmi", "y"].map(String::from).to_vec() });
    let (made, shown) = typed(
        "",
        Role::Alice,
        header(),
        &["", "", "alice,bob", "age,bmj", "age,bmi", "s1", "y", "alice", "", "id", "", "", "c", "", "a", "", ""],
    );
    assert!(shown.contains("/data/a.csv has the columns id, age, bmi, y"), "{shown}");
    assert!(shown.contains("there is no column `bmj`; the nearest name is `bmi`"), "{shown}");
    let made = made.unwrap();
    assert_eq!(made.tables["alice"]["file"].as_str(), Some("/data/a.csv"));
    assert!(!made.tables.contains_key("bob"));
    let line = |outcome: &str| {
        format!("--parties alice=age;bob=s1 --outcome {outcome} --held-by alice --id id --hosts coordinator=c;alice=a")
    };
    let asked = |role, outcome: &str| {
        outline(&answers(&line(outcome)), Some(role), header(), &mut Asker::new(None, Box::new(io::sink())))
    };
    let error = asked(Role::Alice, "why").unwrap_err();
    assert_eq!(error.to_string(), "--outcome: there is no column `why`");
    assert!(asked(Role::Bob, "why").is_err(), "s1 is no column of the table that bob has named");
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All files below a folder, by their path in it.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(
                files(&path).iter().map(|name| format!("{}/{name}", path.file_name().unwrap().to_string_lossy())),
            ),
            false => found.push(path.file_name().unwrap().to_string_lossy().into_owned()),
        }
    }
    found.sort();
    found
}

#[test]
fn everybody_gets_the_same_study_and_its_own_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new");
    let hosts = "--parties alice=age,bmi;bob=s1 --outcome y --held-by alice --id id --hosts coordinator=c.example;alice=a.example;bob=b.example;dealer=d.example";
    let said = write(&flags(hosts).unwrap(), &dir, "dir").unwrap();
    assert!(said.contains("mode sealed") && said.contains("holds a private key"), "{said}");
    let names = ["alice", "bob", "coordinator", "dealer"];
    let studies: Vec<String> = names.iter().map(|name| read(&dir, &format!("{name}/study.toml"))).collect();
    assert!(studies.iter().all(|study| *study == studies[0]), "study.toml differs between folders");
    Study::parse(&studies[0]).unwrap();
    assert!(studies[0].contains("# It assumes of the dealer: that it colludes with neither party."), "{}", studies[0]);
    for (name, certificate) in names.into_iter().zip(["a.example", "b.example", "c.example", "d.example"]) {
        let own = files(&dir.join(name));
        let keys: Vec<&String> = own.iter().filter(|file| file.ends_with(".key")).collect();
        let expected = format!("certificates/{certificate}.key");
        let mut all = vec![expected.as_str()];
        if name == "coordinator" {
            all.insert(0, "authority/authority.key");
        }
        assert_eq!(keys, all, "{name}");
        assert!(
            own.contains(&format!("certificates/{certificate}.csr"))
                && own.contains(&"certificates/authority.pem".to_string()),
            "{own:?}"
        );
        assert!(own.contains(&format!("{name}.toml")) && own.contains(&"explanation.html".to_string()), "{own:?}");
        #[cfg(unix)]
        for key in keys {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(
                fs::metadata(dir.join(name).join(key)).unwrap().permissions().mode() & 0o777,
                0o600,
                "{name}/{key}"
            );
        }
        let readme = read(&dir, &format!("{name}/README.md"));
        assert_eq!(readme.lines().count(), 5, "{readme}");
        assert!(readme.lines().enumerate().all(|(at, line)| line.starts_with(&format!("{}. ", at + 1))), "{readme}");
        let secret = read(&dir, &format!("{name}/certificates/{certificate}.key"));
        for (other, file) in
            names.iter().flat_map(|other| files(&dir.join(other)).into_iter().map(move |file| (*other, file)))
        {
            let holds = read(&dir, &format!("{other}/{file}")).contains(secret.trim());
            assert_eq!(
                holds,
                other == name && file.ends_with(&format!("{certificate}.key")),
                "the key of {name} is in {other}/{file}"
            );
        }
    }
}

#[test]
fn who_has_an_ipv6_address_listens_there() {
    let folder = tempfile::tempdir().unwrap();
    let line = "--parties alice=a;bob=b --outcome y --held-by both --id id --mode plain --hosts coordinator=[::1];alice=10.0.0.1";
    write(&flags(line).unwrap(), folder.path(), "dir").unwrap();
    let text = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    assert!(
        text("coordinator/coordinator.toml").contains("listen = \"[::]:"),
        "{}",
        text("coordinator/coordinator.toml")
    );
    assert!(text("alice/alice.toml").contains("listen = \"0.0.0.0:"), "{}", text("alice/alice.toml"));
}

#[test]
fn folders_that_cannot_be_written_whole_are_removed_again() {
    let folder = tempfile::tempdir().unwrap();
    let name = "n".repeat(60);
    let line = format!("--method robust --sites {name} --features a --outcome y --mode plain --hosts coordinator=h");
    let made = flags(&line).unwrap();
    // Long enough that the site's study can be written and its certificate request cannot: the system takes 4095 bytes of a path.
    let mut dir = folder.path().to_path_buf();
    while 4095 - dir.as_os_str().len() > 400 {
        dir.push("d".repeat(150));
    }
    dir.push("d".repeat(4095 - 120 - dir.as_os_str().len() - 1));
    let error = write(&made, &dir, "dir").unwrap_err();
    assert!(error.to_string().starts_with("cannot write ") && error.to_string().ends_with(".csr"), "{error}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "folders are left");
}

#[test]
fn a_folder_that_exists_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::create_dir(dir.join("bob")).unwrap();
    let error = write(&flags(TWO).unwrap(), dir, "dir").unwrap_err();
    assert!(error.to_string().ends_with("bob exists already: choose another folder with --dir"), "{error}");
    assert_eq!(error.exit().code(), 73);
    assert_eq!(files(dir), Vec::<String>::new());
    assert!(!dir.join("coordinator").exists() && !dir.join("alice").exists(), "nothing is half-written");
}

/// A line of the README in somebody's folder.
fn line_two(dir: &Path, name: &str) -> String {
    let readme = read(dir, &format!("{name}/README.md"));
    assert_eq!(readme.lines().count(), 5, "{readme}");
    readme.lines().nth(1).unwrap().to_string()
}

#[test]
fn addresses_of_one_machine_are_called_that_with_the_keys_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("here");
    let dealer = "--parties alice=age,bmi;bob=s1 --outcome y --held-by alice --id id --hosts \
                  coordinator=localhost;alice=localhost;dealer=localhost --ports alice=7201";
    let said = write(&flags(dealer).unwrap(), &dir, "dir").unwrap();
    let here = "The addresses are those of this machine (localhost)";
    assert!(said.contains(here) && said.contains("--hosts, or change `connect`, `coordinator`, `dealer` in"), "{said}");
    for (name, change) in [
        ("alice", "change `coordinator` and `dealer` in alice.toml."),
        ("bob", "change `coordinator` and `connect` and `dealer` in bob.toml."),
        ("coordinator", "the others put this one's name into `coordinator` of their private files."),
        ("dealer", "the others put this one's name into `dealer` of their private files."),
    ] {
        let line = line_two(&dir, name);
        assert!(line.contains(here) && line.ends_with(change), "{line}");
    }
    let dir = folder.path().join("sites");
    let sites =
        "--method robust --sites north,south --features a,b --outcome y --mode plain --hosts coordinator=localhost";
    let said = write(&flags(sites).unwrap(), &dir, "dir").unwrap();
    assert!(said.contains("--hosts, or change `coordinator` in"), "{said}");
    assert!(line_two(&dir, "north").ends_with("change `coordinator` in worker.toml."));
    let dir = folder.path().join("there");
    let said = write(&flags(TWO).unwrap(), &dir, "dir").unwrap();
    assert!(!said.contains(here), "{said}");
    assert!(["alice", "bob", "coordinator"].iter().all(|name| !line_two(&dir, name).contains("this machine")));
}

#[test]
fn a_study_that_is_there_gets_its_places_from_the_same_flags() {
    let file = || {
        flags("--parties alice=a;bob=b --outcome y --held-by both --id id --hosts coordinator=h;alice=h").unwrap().file
    };
    let places = |hosts: Option<&str>, ports: Option<&str>| {
        placed(file(), &PlaceFlags { hosts: hosts.map(str::to_string), ports: ports.map(str::to_string) })
    };
    let here = places(None, Some("alice=7201")).unwrap();
    assert_eq!(here.places["alice"], Place { host: "localhost".to_string(), port: Some(7201) });
    assert_eq!(here.file.parties[&Role::Alice].certificate, "alice");
    let there = places(Some("coordinator=registry.example;alice=north.example"), None).unwrap();
    assert_eq!(there.places["coordinator"], Place { host: "registry.example".to_string(), port: Some(7100) });
    assert_eq!(there.file.parties[&Role::Alice].certificate, "north.example");
    assert_eq!(there.file.parties[&Role::Bob].certificate, "bob");
    for (hosts, ports, says) in [
        (
            Some("coordinator=registry.example"),
            None,
            "--hosts is missing: Host name or address at which others reach alice",
        ),
        (None, Some("bob=7201"), "--ports: bob listens nowhere"),
        (None, Some("carol=7201"), "--ports: names `carol`, who is not in the study"),
        (Some("coordinator=a b;alice=c"), None, "--hosts: `a b` is no host name or address"),
    ] {
        let error = places(hosts, ports).unwrap_err();
        assert!(error.to_string().starts_with(says) && error.exit().code() == 2, "{error}");
    }
}
