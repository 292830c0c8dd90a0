use super::*;

use fedreg_common::conversation::VERSION;
use fedreg_proto::files::TlsTerms;

const STUDY: &str = "id = \"s\"\n[outcome]\ncolumn = \"y\"\nheld_by = \"a\"\n[parties.a]\ncertificate = \"a\"\ncolumns = [\"u\"]\n\
                     [parties.b]\ncertificate = \"b\"\ncolumns = [\"v\"]\n[parties.c]\ncertificate = \"c\"\ncolumns = [\"w\"]\n";

/// One party's end of a line to the coordinator.
struct Line {
    role: Role,
    number: u64,
    told: mpsc::Receiver<CoordinatorEvent>,
}

impl Line {
    /// The run that started on it.
    fn started(&mut self) -> Option<RunId> {
        std::iter::from_fn(|| self.told.try_recv().ok()).find_map(|event| match event {
            CoordinatorEvent::Start { run } => Some(run),
            CoordinatorEvent::Abort { notice, .. } => panic!("{}: {}", self.role, notice.sentence),
            CoordinatorEvent::Welcome { .. } | CoordinatorEvent::Peer { .. } | CoordinatorEvent::Ended => None,
        })
    }

    /// Whether the coordinator has closed it.
    fn is_closed(&mut self) -> bool {
        while self.told.try_recv().is_ok() {}
        self.told.is_closed()
    }
}

fn job(folder: &std::path::Path) -> Job<Vertical> {
    let nowhere = || folder.join("none.pem");
    Job {
        config: Config {
            study: folder.join("study.toml"),
            listen: "127.0.0.1:0".to_owned(),
            state: folder.join("state"),
            wait: 5,
            tls: TlsTerms { authority: nowhere(), certificate: nowhere(), key: nowhere() },
        },
        study: Arc::new(Study::parse(STUDY).unwrap().vertical().unwrap()),
        keep: true,
        out: None,
        call: String::new(),
        announce: None,
    }
}

/// A coordinator in its first run, and the roles of its study.
fn run(job: &Job<Vertical>) -> (Run<'_>, [Role; 3]) {
    let register = Register::new(&job.study, fresh().unwrap());
    let run = Run {
        job,
        address: String::new(),
        status: watch::channel(register.status()).0,
        register,
        lines: BTreeMap::new(),
        early: BTreeMap::new(),
        told: BTreeSet::new(),
        lost: BTreeMap::new(),
        until: None,
        notice: None,
        store: Store::open(&job.config.state).unwrap(),
        next: 0,
    };
    let roles: Vec<Role> = job.study.method.parties.keys().copied().collect();
    (run, roles.try_into().unwrap())
}

impl Run<'_> {
    fn opened(&mut self, role: Role) -> Line {
        let name = self.job.study.method.parties[&role].certificate.clone();
        let ((_, hear), (say, told)) = (mpsc::channel(8), mpsc::channel(64));
        // Nobody listens: the test says itself what a line brings.
        let (heard, _) = mpsc::channel(8);
        self.open(Caller { name, hear, say }, &heard);
        Line { role, number: self.next, told }
    }

    fn told(&mut self, line: &Line, event: PartyEvent) {
        self.heard(line.role, line.number, Some(event)).unwrap();
    }

    /// A party joins with nothing of an earlier run, and has read its data.
    fn joins(&mut self, line: &Line, instance: u8) {
        let keys = self.job.study.key_digests();
        let (role, instance) = (line.role, Some([instance; 16]));
        self.told(line, PartyEvent::Join { role, version: VERSION, keys, run: None, instance });
        self.told(line, PartyEvent::Ready);
    }

    fn leaves(&mut self, line: &Line) {
        self.told(line, PartyEvent::Done(Exit::Done));
        self.heard(line.role, line.number, None).unwrap();
    }
}

/// Runs a first run to the point where all are in it.
fn started<'a>(run: &mut Run<'a>, roles: [Role; 3]) -> ([Line; 3], RunId) {
    let mut lines = roles.map(|role| run.opened(role));
    for line in &lines {
        run.joins(line, 1);
    }
    let ids = lines.each_mut().map(|line| line.started().unwrap());
    assert!(ids.iter().all(|id| *id == ids[0]));
    (lines, ids[0])
}

#[tokio::test]
async fn a_party_that_comes_for_the_next_run_while_others_are_still_in_this_one_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    // A party that is done comes back at once, in any order.
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let (mut run, roles) = run(&job);
        let (first, id) = started(&mut run, roles);
        let mut next: Vec<Line> = Vec::new();
        for at in order {
            run.leaves(&first[at]);
            let line = run.opened(roles[at]);
            run.joins(&line, 2);
            next.push(line);
        }
        let ids: Vec<Option<RunId>> = next.iter_mut().map(Line::started).collect();
        assert!(
            ids[0].is_some_and(|next| next != id) && ids.iter().all(|other| *other == ids[0]),
            "{order:?}: {ids:?}"
        );
    }
}

#[tokio::test]
async fn a_line_that_was_opened_for_the_next_run_outlives_the_end_of_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let (mut run, roles) = run(&job);
    let (first, id) = started(&mut run, roles);
    first.iter().for_each(|line| run.leaves(line));
    // All have a line before anybody says what it is for.
    let mut next = roles.map(|role| run.opened(role));
    for line in &next {
        run.joins(line, 2);
    }
    let ids = next.each_mut().map(Line::started);
    assert!(ids[0].is_some_and(|next| next != id) && ids.iter().all(|other| *other == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn a_party_that_waits_for_the_next_run_may_leave_again_and_a_flood_of_words_closes_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let (mut run, roles) = run(&job);
    let (first, _) = started(&mut run, roles);
    run.leaves(&first[0]);
    let mut flood = run.opened(roles[0]);
    run.joins(&flood, 2);
    for _ in 0..SAID_EARLY {
        run.told(&flood, PartyEvent::Ready);
    }
    assert!(flood.is_closed(), "nothing is kept without bound");
    let mut gone = run.opened(roles[0]);
    run.joins(&gone, 3);
    assert!(!gone.is_closed());
    run.heard(gone.role, gone.number, None).unwrap();
    assert!(gone.is_closed());
    run.leaves(&first[1]);
    run.leaves(&first[2]);
    assert_eq!(run.register.verdict(), Some(Exit::Done), "the run ended as if nobody had come early");
}
