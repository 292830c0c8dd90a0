//! Against a server, where FEDREG_POSTGRES says where one is (`.ci/sources` starts one), and of what needs none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedreg_common::data::{Frame, Values};
use fedreg_common::exit::Exit;

use super::super::tests::chain;
use super::super::{Arrival, Batches, Chosen, Opened, ReadError, Request, Stated, content, identity, read};
use super::base::{connect, variable};
use super::dsn::Place;

/// A server for tests, with a data base whose tables this user may make; nothing where there is none.
struct Server {
    address: String,
}

impl Server {
    fn new() -> Option<Server> {
        let address = variable("FEDREG_POSTGRES");
        if address.is_none() {
            eprintln!(
                "SKIPPED: no PostgreSQL server is named in FEDREG_POSTGRES; .ci/sources starts one and runs this"
            );
        }
        address.map(|address| Server { address })
    }

    /// Statements of the user who owns the tables.
    fn run(&self, sql: &str) {
        self.run_as(&self.address, sql).unwrap();
    }

    fn run_as(&self, address: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
        let place = Place::read(Path::new(address), &variable).unwrap();
        super::base::runtime("test").unwrap().block_on(async {
            let client = connect(&place).await.unwrap();
            client.batch_execute(sql).await
        })
    }

    /// The address of another user, who may read everything and has settings of its own, and the folder of its password.
    fn of_another(&self, name: &str, settings: &[&str]) -> (String, tempfile::TempDir) {
        let settings: String = settings.iter().map(|setting| format!("ALTER ROLE {name} SET {setting};")).collect();
        self.run(&format!(
            "DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN SUPERUSER PASSWORD 'nobody knows'; {settings}"
        ));
        let place = Place::read(Path::new(&self.address), &variable).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let passwords = folder.path().join("pass");
        std::fs::write(&passwords, "*:*:*:*:nobody knows\n").unwrap();
        private(&passwords);
        let address = self.address.replace(&format!("//{}@", place.user), &format!("//{name}@"));
        (format!("{address}?passfile={}", passwords.display()), folder)
    }

    fn query(&self, text: &str) -> Stated {
        Stated::new(&self.address, Some(Chosen::Query(text.to_owned())))
    }

    fn table(&self, name: &str) -> Stated {
        Stated::new(&self.address, Some(Chosen::Table(name.to_owned())))
    }

    fn refused(&self, source: &Stated) -> (Exit, String) {
        let error = read(source, &Request::default()).unwrap_err();
        (error.exit(), chain(&error))
    }
}

/// Lets nobody but the owner read a file.
fn private(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn numbers(frame: &Frame, name: &str) -> Vec<Option<f64>> {
    match &frame.column(name).unwrap().values {
        Values::Numeric(values) => values.iter().map(|value| (!value.is_nan()).then_some(*value)).collect(),
        other => panic!("{name}: {other:?}"),
    }
}

fn by(id: &str, columns: &[&str]) -> Request {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Request { id: Some(id.into()), columns: Some(columns), ..Request::default() }
}

fn ids(frame: &Frame) -> Vec<String> {
    frame.ids().unwrap().iter().map(|id| String::from_utf8(id.to_vec()).unwrap()).collect()
}

#[test]
fn every_usable_type_is_read_with_nulls_as_missing_and_ids_with_all_their_digits() {
    let Some(server) = Server::new() else { return };
    server.run(
        "DROP TABLE IF EXISTS types; DROP TYPE IF EXISTS region; DROP DOMAIN IF EXISTS age;
         CREATE TYPE region AS ENUM ('north', 'south'); CREATE DOMAIN age AS int2;
         CREATE TABLE types (small int2, age age, whole int4, big int8, single float4, double float8, amount numeric(12, 2),
             long numeric, flag bool, city text, code char(4), region region, key uuid, day date, local timestamp, moment timestamptz,
             note jsonb);
         INSERT INTO types VALUES
             (-3, 41, 70000, 9007199254740993, 0.25, 0.1, 1234567890.12, 12345678901234567890.123456789, true, '1', 'ab', 'south',
              '6F9619FF-8B86-D011-B42D-00C04FC964FF', '2024-02-29', '2024-01-31 08:30:00.25', '2024-01-31 09:30:00+01', '{}'),
             (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
             (7, 0, -1, -9223372036854775808, 1.5, 1e300, -0.05, 1e45, false, 'x', 'abcd', 'north',
              '00000000-0000-0000-0000-000000000000', 'infinity', '1969-12-31 23:59:59', '2024-07-01 00:00:00+02', NULL)",
    );
    let source = server.table("types");
    let frame = read(
        &source,
        &Request {
            columns: Some(
                [
                    "small", "age", "whole", "big", "single", "double", "amount", "long", "flag", "city", "code",
                    "region",
                ]
                .map(String::from)
                .to_vec(),
            ),
            ..Request::default()
        },
    )
    .unwrap();
    assert_eq!(numbers(&frame, "small"), [Some(-3.0), None, Some(7.0)]);
    assert_eq!(numbers(&frame, "age"), [Some(41.0), None, Some(0.0)]);
    assert_eq!(numbers(&frame, "whole"), [Some(70000.0), None, Some(-1.0)]);
    assert_eq!(numbers(&frame, "big"), [Some(9007199254740992.0), None, Some(-9223372036854775808.0)]);
    assert_eq!(numbers(&frame, "single"), [Some(0.25), None, Some(1.5)]);
    assert_eq!(numbers(&frame, "double"), [Some(0.1), None, Some(1e300)]);
    assert_eq!(numbers(&frame, "amount"), [Some(1234567890.12), None, Some(-0.05)]);
    assert_eq!(numbers(&frame, "long"), [Some(12345678901234567890.123456789), None, Some(1e45)]);
    assert_eq!(frame.column("flag").unwrap().values, Values::Boolean(vec![Some(true), None, Some(false)]));
    for (name, expected) in [("city", ["1", "x"]), ("code", ["ab", "abcd"]), ("region", ["north", "south"])] {
        let Values::Categorical { levels, .. } = &frame.column(name).unwrap().values else { panic!("{name}") };
        assert_eq!(levels, &expected, "{name}");
    }
    let texts = |name: &str| {
        let texts = super::super::texts(&source, None, &[name]).unwrap();
        texts[0].iter().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(texts("big"), ["9007199254740993", "", "-9223372036854775808"]);
    assert_eq!(texts("long"), ["12345678901234567890.123456789", "", &format!("1{:0>45}", 0)]);
    assert_eq!(texts("amount"), ["1234567890.12", "", "-0.05"]);
    assert_eq!(texts("key"), ["6f9619ff-8b86-d011-b42d-00c04fc964ff", "", "00000000-0000-0000-0000-000000000000"]);
    assert_eq!(texts("day"), ["2024-02-29", "", ""]);
    assert_eq!(texts("local"), ["2024-01-31T08:30:00.25", "", "1969-12-31T23:59:59"]);
    // A moment is that of UTC, in whatever zone it was written and whatever the server's is.
    assert_eq!(texts("moment"), ["2024-01-31T08:30:00Z", "", "2024-06-30T22:00:00Z"]);
    let text = |request: &Request| chain(&read(&source, request).unwrap_err());
    let columns = |name: &str| Request { columns: Some(vec![name.to_owned()]), ..Request::default() };
    assert!(
        text(&columns("note")).contains("column `note` is of type jsonb; truth values, numbers and text can be read")
    );
    assert!(text(&columns("moment")).contains("column `moment` is of type timestamptz; it can be an id"));
    assert!(text(&by("double", &["big"])).contains("ids must be text, whole numbers, dates or timestamps"));
    assert!(text(&by("big", &["small"])).contains("the row has no id"));
    for (value, word) in [("NaN", "NaN"), ("Infinity", "inf"), ("-Infinity", "-inf")] {
        for of in ["numeric", "float8", "float4"] {
            let source = server.query(&format!("SELECT 1 AS one, '{value}'::{of} AS x"));
            let (exit, text) = server.refused(&source);
            assert!(
                exit == Exit::Data && text.contains(&format!("column `x`, row 1: `{word}` is not a value")),
                "{text}"
            );
        }
    }
}

#[test]
fn times_are_those_of_utc_whatever_the_server_and_the_user_are_set_to() {
    let Some(server) = Server::new() else { return };
    server.run("DROP TABLE IF EXISTS times; CREATE TABLE times AS SELECT 1 AS x, timestamptz '2024-01-31 09:30:00+01' AS moment");
    let (address, _folder) = server.of_another("tokyo", &["TimeZone = 'Asia/Tokyo'", "DateStyle = 'German'"]);
    for (column, expected) in [
        ("moment", "2024-01-31T08:30:00Z"),
        ("moment::text", "2024-01-31 08:30:00+00"),
        ("moment::date", "2024-01-31"),
        ("moment::timestamp", "2024-01-31T08:30:00"),
    ] {
        let query = Chosen::Query(format!("SELECT {column} AS at, x FROM times"));
        let frame = read(Stated::new(&address, Some(query)), &by("at", &["x"])).unwrap();
        assert_eq!(ids(&frame), [expected], "{column}");
    }
}

#[test]
fn a_query_that_gives_other_columns_the_second_time_is_refused() {
    let Some(server) = Server::new() else { return };
    server.run(
        "DROP SCHEMA IF EXISTS first, second CASCADE; CREATE SCHEMA first; CREATE SCHEMA second;
         CREATE TABLE first.turns (x int, y int); INSERT INTO first.turns VALUES (1, 2);
         CREATE TABLE second.turns (x int, y float8, z int); INSERT INTO second.turns VALUES (3, 4, 5)",
    );
    let (address, _folder) = server.of_another("turned", &["search_path = first"]);
    let source = Stated::new(&address, Some(Chosen::Table("turns".into())));
    assert_eq!(numbers(&read(&source, &Request::default()).unwrap(), "x"), [Some(1.0)]);
    // Locks keep the table as it is, and the next connection finds another one by its name.
    server.run("ALTER ROLE turned SET search_path = second");
    let (exit, text) = server.refused(&source);
    let sentence = "the query gives other columns than before: `x` (int4), `y` (float8), `z` (int4), and it gave `x` (int4), `y` (int4)";
    assert!(exit == Exit::Data && text.ends_with(sentence), "{text}");
}

#[test]
fn many_rows_come_in_order_and_in_batches_and_are_those_of_csv() {
    let Some(server) = Server::new() else { return };
    let source = server.query("SELECT i AS id, i / 8.0::float8 AS x, CASE WHEN i % 7 <> 0 THEN i % 5 END AS y FROM generate_series(0, 99999) AS i;");
    let request = by("id", &["y", "x"]);
    let mut batches = Batches::open(&source, &request, &Arrival::default()).unwrap();
    let mut row = 0;
    while let Some(frame) = batches.next(7001).unwrap() {
        let (x, y) = (numbers(&frame, "x"), numbers(&frame, "y"));
        for at in 0..frame.rows() {
            assert_eq!((x[at], y[at]), (Some(row as f64 / 8.0), (row % 7 != 0).then_some((row % 5) as f64)));
            row += 1;
        }
    }
    assert_eq!(row, 100_000);
    // Rows alone, without a column, are counted.
    let none = Request { columns: Some(Vec::new()), ..Request::default() };
    assert_eq!(read(&source, &none).unwrap().rows(), 100_000);
    // Let go in the middle.
    let mut some = Batches::open(&source, &request, &Arrival::default()).unwrap();
    assert_eq!(some.next(10).unwrap().unwrap().rows(), 10);
    drop(some);
    let small = server.query("SELECT i AS id, i / 8.0::float8 AS x FROM generate_series(0, 99) AS i -- to CSV");
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("rows.csv");
    let rows: String = (0..100).map(|i| format!("{i},{}\n", f64::from(i) / 8.0)).collect();
    std::fs::write(&csv, format!("id,x\n{rows}")).unwrap();
    let digests = |source: &Stated| content::digests(source, None, Some("id")).unwrap();
    assert_eq!(digests(&small), digests(&Stated::from(&csv)));
}

#[test]
fn all_passes_are_of_one_moment_and_the_transaction_can_only_read() {
    let Some(server) = Server::new() else { return };
    server.run("DROP TABLE IF EXISTS moment; CREATE TABLE moment AS SELECT i AS x FROM generate_series(1, 5000) AS i");
    let source = server.table("moment");
    let rows = || read(&source, &Request::default()).unwrap().rows();
    assert_eq!(rows(), 5000);
    let before = content::in_order(&source).unwrap();
    server.run("DELETE FROM moment WHERE x > 10; UPDATE moment SET x = -x; INSERT INTO moment VALUES (7)");
    assert_eq!(rows(), 5000);
    assert_eq!(content::in_order(&source).unwrap(), before);
    // What would take the rows from under a snapshot waits until the process has ended.
    let changed = server.run_as(&server.address, "SET lock_timeout = '200ms'; TRUNCATE moment");
    assert!(changed.unwrap_err().as_db_error().unwrap().message().contains("lock timeout"));
    // Another process begins with what is there now.
    assert_eq!(read(server.query("SELECT * FROM moment -- now"), &Request::default()).unwrap().rows(), 11);
    let says = |name: &str| {
        let source =
            server.query(&format!("SELECT current_setting('{name}') AS says, i AS x FROM generate_series(1, 2) AS i"));
        ids(&read(&source, &by("says", &["x"])).unwrap())[0].clone()
    };
    assert_eq!(says("transaction_isolation"), "repeatable read");
    assert_eq!(says("transaction_read_only"), "on");
    assert_eq!(says("synchronize_seqscans"), "off");
    for text in [
        "WITH gone AS (DELETE FROM moment RETURNING x) SELECT x FROM gone",
        "SELECT nextval('counted') AS x",
        "DELETE FROM moment RETURNING x",
        "SELECT x INTO other FROM moment",
        "SELECT x FROM moment; DELETE FROM moment",
        "SELECT x FROM moment WHERE x = $1",
        "BEGIN",
        "",
    ] {
        server.run("CREATE SEQUENCE IF NOT EXISTS counted");
        let (exit, sentence) = server.refused(&server.query(text));
        assert_eq!(exit, if text.contains(';') { Exit::Data } else { Exit::Usage }, "{text}: {sentence}");
    }
    assert_eq!(read(server.query("SELECT * FROM moment -- still"), &Request::default()).unwrap().rows(), 11);
}

#[test]
fn sources_that_read_one_table_have_it_in_common_however_they_are_stated() {
    let Some(server) = Server::new() else { return };
    server.run(
        "DROP VIEW IF EXISTS adults CASCADE; DROP TABLE IF EXISTS visits, others, parts CASCADE;
         CREATE TABLE visits AS SELECT i AS id, i % 90 AS age FROM generate_series(1, 100) AS i;
         CREATE TABLE others AS SELECT i AS id FROM generate_series(1, 100) AS i;
         CREATE VIEW adults AS SELECT * FROM visits WHERE age > 17;
         CREATE MATERIALIZED VIEW kept AS SELECT age FROM adults;
         CREATE TABLE parts (year int, x int) PARTITION BY LIST (year);
         CREATE TABLE parts_2023 PARTITION OF parts FOR VALUES IN (2023);
         CREATE TABLE parts_2024 PARTITION OF parts FOR VALUES IN (2024);
         CREATE OR REPLACE FUNCTION ages() RETURNS SETOF int LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT age FROM visits; END'",
    );
    let of = |source: &Stated| identity(source).unwrap().unwrap();
    let table = of(&server.table("public.visits"));
    assert_eq!(table.stamp, None);
    let shared = |source: &Stated, with: &[String]| of(source).parts.iter().any(|part| with.contains(part));
    for text in [
        "SELECT age FROM visits WHERE id < 5",
        "SELECT id FROM adults",
        "SELECT age FROM kept",
        "SELECT a.id FROM others a JOIN visits v USING (id)",
        "SELECT id FROM others WHERE id IN (SELECT age FROM visits)",
        "SELECT ages() AS age",
    ] {
        assert!(shared(&server.query(text), &table.parts), "{text}");
    }
    assert!(!shared(&server.table("others"), &table.parts));
    assert!(shared(&server.query("SELECT x FROM parts"), &of(&server.table("parts_2024")).parts));
    // By another name of the host, and no secret and no query in what is kept.
    let other = server.address.replace("127.0.0.1", "localhost");
    let same = of(&Stated::new(other, Some(Chosen::Query("SELECT id FROM visits WHERE age = 4711".into()))));
    assert!(same.parts.iter().any(|part| table.parts.contains(part)));
    assert!(!format!("{same:?}").contains("4711"));
}

#[test]
fn servers_that_do_not_let_us_in_or_are_not_there_get_a_sentence_without_a_secret() {
    let Some(server) = Server::new() else { return };
    server.run(
        "DROP TABLE IF EXISTS closed; CREATE TABLE closed (x int); INSERT INTO closed VALUES (1);
         DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN PASSWORD 'nobody knows'",
    );
    let place = Place::read(Path::new(&server.address), &variable).unwrap();
    let at = |address: String, name: &str| Stated::new(address, Some(Chosen::Table(name.into())));
    let stranger = server.address.replace(&format!("//{}@", place.user), "//stranger@");
    let (exit, text) = server.refused(&at(stranger.clone(), "closed"));
    assert!(exit == Exit::Refused && text.contains("asks stranger for a password and none is known"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let passwords = folder.path().join("pass");
    std::fs::write(&passwords, format!("*:{}:*:stranger:nobody knows\n", place.port)).unwrap();
    let with = format!("{stranger}?passfile={}", passwords.display());
    let (exit, text) = server.refused(&at(with.clone(), "closed"));
    assert!(exit == Exit::Refused && text.contains("can be read by others: chmod 600"), "{text}");
    private(&passwords);
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "*:*:*:*:a guess\n").unwrap();
    private(&wrong);
    let (exit, text) = server.refused(&at(format!("{stranger}?passfile={}", wrong.display()), "closed"));
    assert!(exit == Exit::Refused && text.contains("does not let stranger in"), "{text}");
    assert!(!text.contains("a guess") && !text.contains("nobody knows"), "{text}");
    let (exit, text) = server.refused(&at(with.clone(), "closed"));
    assert!(exit == Exit::Refused && text.ends_with("permission denied for table closed"), "{text}");
    server.run("GRANT SELECT ON closed TO stranger");
    assert_eq!(read(at(with, "closed"), &Request::default()).unwrap().rows(), 1);
    let (machine, _) = server.address.rsplit_once('/').unwrap();
    let none = format!("{machine}/nowhere");
    let (exit, text) = server.refused(&at(none, "closed"));
    assert!(exit == Exit::Usage && text.contains("database \"nowhere\" does not exist"), "{text}");
    let gone = server.address.replace(&format!(":{}", place.port), ":1");
    let (exit, text) = server.refused(&at(gone, "closed"));
    assert!(exit == Exit::Unreachable && text.contains("Connection refused"), "{text}");
    let (exit, text) = server.refused(&at(server.address.clone(), "nothing"));
    assert!(exit == Exit::Data && text.contains("relation \"nothing\" does not exist"), "{text}");
    let (exit, text) = server.refused(&server.query("SELECT x FORM closed"));
    assert!(exit == Exit::Data && text.contains("the server refuses the query"), "{text}");
    // Literals of the query and values of rows are not told.
    for (query, says) in [
        ("SELECT x FROM closed WHERE 'hidden", "refuses the query (syntax error at character 28 of the query)"),
        ("SELECT CAST('hidden' AS integer) AS x FROM closed", "(invalid input syntax for type integer)"),
    ] {
        let (exit, text) = server.refused(&server.query(query));
        assert!(exit == Exit::Data && text.contains(says) && !text.contains("hidden"), "{text}");
    }
    let (exit, text) = server.refused(&server.query("SELECT 1 / (x - 1) AS x FROM closed"));
    assert!(exit == Exit::Data && text.contains("division by zero"), "{text}");
    // A server that takes the connection and says nothing.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = deaf.local_addr().unwrap().port();
    let (exit, text) = server.refused(&at(format!("postgres://ana@127.0.0.1:{port}/x?connect_timeout=1"), "closed"));
    assert!(exit == Exit::Unreachable && text.contains("does not answer within 1 s"), "{text}");
    // The server ends the connection in the middle.
    let slow = server.query("SELECT i AS x FROM generate_series(1, 3000000) AS i -- ended");
    let mut batches = Batches::open(&slow, &Request::default(), &Arrival::default()).unwrap();
    batches.next(10).unwrap().unwrap();
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%-- ended%' AND pid <> pg_backend_pid()");
    let ended = std::iter::repeat_with(|| batches.next(100_000)).find_map(Result::err).unwrap();
    assert_eq!(ended.exit(), Exit::Unreachable, "{}", chain(&ended));
    // The snapshot itself is ended: no pass may go on with other rows.
    let held = server.query("SELECT x FROM closed -- held");
    drop(Opened::open(&held, None).unwrap());
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%DECLARE%-- held%' AND pid <> pg_backend_pid()");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (exit, text) = server.refused(&held);
    assert!(exit == Exit::Unreachable && text.contains("has ended the snapshot"), "{text}");
}

#[test]
fn tls_is_spoken_to_a_server_whose_name_and_authority_are_known() {
    let Some(server) = Server::new() else { return };
    let Some(authority) = variable("FEDREG_POSTGRES_AUTHORITY") else {
        eprintln!("SKIPPED: FEDREG_POSTGRES_AUTHORITY names no certificate");
        return;
    };
    let at = |host: &str, authority: &str| {
        let address = server.address.replace("127.0.0.1", host);
        Stated::new(
            format!("{address}?sslmode=verify-full&sslrootcert={authority}"),
            Some(Chosen::Query(
                "SELECT ssl::text AS says, 1 AS x FROM pg_stat_ssl WHERE pid = pg_backend_pid()".into(),
            )),
        )
    };
    assert_eq!(ids(&read(at("localhost", &authority), &by("says", &["x"])).unwrap()), ["true"]);
    // The certificate is of `localhost`.
    let (exit, text) = server.refused(&at("127.0.0.1", &authority));
    assert!(exit == Exit::Refused && text.contains("certificate"), "{text}");
    // Beside it there is one that has vouched for nobody.
    let other = Path::new(&authority).with_file_name("other.pem");
    let (exit, text) = server.refused(&at("localhost", &other.display().to_string()));
    assert!(exit == Exit::Refused && text.contains("certificate"), "{text}");
    let (exit, text) = server.refused(&at("localhost", "/nowhere.pem"));
    assert!(exit == Exit::Usage && text.contains("cannot read /nowhere.pem"), "{text}");
}

fn parsed(text: &str, variables: &[(&str, &str)]) -> Result<Place, ReadError> {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Place::read(Path::new(text), &|name| variables.get(name).cloned())
}

#[test]
fn an_address_says_where_a_data_base_is_and_the_environment_the_rest() {
    let place = parsed("postgres://ana@db.example:5433/cohort?sslrootcert=/ca.pem", &[]).unwrap();
    assert_eq!((place.user.as_str(), place.host.as_str(), place.port), ("ana", "db.example", 5433));
    assert_eq!((place.database.as_str(), place.authorities), ("cohort", Some(PathBuf::from("/ca.pem"))));
    assert_eq!(place.name, "postgres://db.example:5433/cohort");
    let place = parsed("postgresql:///cohort", &[("USER", "bob")]).unwrap();
    assert_eq!((place.host.as_str(), place.user.as_str(), place.authorities), ("/var/run/postgresql", "bob", None));
    let place = parsed("POSTGRES://%2Ftmp/?user=ana%20b", &[("PGDATABASE", "c")]).unwrap();
    assert_eq!((place.host.as_str(), place.user.as_str(), place.database.as_str()), ("/tmp", "ana b", "c"));
    let place = parsed("postgres://[::1]:6000", &[("PGUSER", "ana")]).unwrap();
    assert_eq!(
        (place.host.as_str(), place.port, place.database.as_str(), place.authorities),
        ("::1", 6000, "ana", None)
    );
    for (text, part) in [
        ("postgres://ana@db.example/c?sslmode=disable", "only a server on this machine"),
        ("postgres://ana@db.example/c?sslmode=require", "`verify-full`, as it is by default, and nothing less"),
        ("postgres://ana@localhost/c?sslmode=prefer", "and nothing less"),
        ("postgres:///c?user=ana&sslmode=verify-full", "not spoken over a socket"),
        ("postgres://ana@localhost:99999/c", "the port is no number"),
        ("postgres://ana@localhost/c?options=-c%20x", "`options` is no term that is known here"),
        ("postgres://localhost/c", "no user is named"),
        ("postgres://ana@localhost/c?connect_timeout=soon", "no whole number of seconds"),
    ] {
        let error = parsed(text, &[]).unwrap_err();
        assert!(error.exit() == Exit::Usage && chain(&error).contains(part), "{text}: {}", chain(&error));
    }
}

#[test]
fn passwords_come_from_the_environment_or_from_a_file_that_is_the_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pass");
    std::fs::write(&file, "# a line\nother:*:*:*:no\ndb.example:5432:coh\\:ort:ana:a:b\\\\c\n*:*:*:*:any\n").unwrap();
    private(&file);
    let password = |text: &str, variables: &[(&str, &str)]| {
        let variables: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let look = |name: &str| variables.get(name).cloned();
        Place::read(Path::new(text), &look).unwrap().password(&look).unwrap()
    };
    let named = [("PGPASSFILE", file.to_str().unwrap())];
    let own = "postgres://ana@db.example/coh%3Aort?sslrootcert=x";
    assert_eq!(password(own, &named).as_deref(), Some("a:b\\c"));
    assert_eq!(password("postgres://ana@localhost/x", &named).as_deref(), Some("any"));
    assert_eq!(password(own, &[named[0], ("PGPASSWORD", "first")]).as_deref(), Some("first"));
    assert_eq!(password("postgres://ana@localhost/x", &[("HOME", "/nowhere")]), None);
}
