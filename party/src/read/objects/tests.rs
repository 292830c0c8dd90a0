//! Against a small server on loopback, which gives parts of what it holds and misbehaves as it is told.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fedreg_common::data::Values;
use fedreg_common::exit::Exit;
use parquet::data_type::DoubleType;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::super::stated::unescaped;
use super::super::tests::chain;
use super::super::{Arrival, Batches, Chosen, Request, Stated, content, folder, header, identity, read};
use super::store::OF_TESTS;

/// How a server answers.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Usual,
    Refuses,
    /// Sends half of what it promises and hangs up.
    Breaks,
    /// Knows nothing of parts.
    Whole,
    /// Takes requests and says nothing.
    Silent,
    /// Gives one part after the other, each after a while.
    Slow,
    /// Answers with a code.
    Says(&'static str),
}

struct Server {
    bucket: String,
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    manner: Arc<Mutex<Manner>>,
    asked: Arc<AtomicUsize>,
}

impl Server {
    /// A server of a bucket that no other test has.
    fn new(bucket: &str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Server {
            bucket: bucket.to_owned(),
            objects: Arc::default(),
            manner: Arc::new(Mutex::new(Manner::Usual)),
            asked: Arc::default(),
        };
        let variables = [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
            ("AWS_ACCESS_KEY_ID", "the-key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "the-secret".to_owned()),
        ];
        server.knows(&variables);
        let (objects, manner, asked) =
            (Arc::clone(&server.objects), Arc::clone(&server.manner), Arc::clone(&server.asked));
        let bucket = bucket.to_owned();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (objects, manner, asked, bucket) =
                    (Arc::clone(&objects), Arc::clone(&manner), Arc::clone(&asked), bucket.clone());
                thread::spawn(move || answer(stream, &bucket, &objects, &manner, &asked));
            }
        });
        server
    }

    fn knows(&self, variables: &[(&str, String)]) {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        OF_TESTS.lock().unwrap().insert(self.bucket.clone(), variables);
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Stated {
        self.objects.lock().unwrap().insert(key.to_owned(), bytes.to_vec());
        self.at(key)
    }

    fn at(&self, key: &str) -> Stated {
        Stated::from(Path::new(&format!("s3://{}/{key}", self.bucket)))
    }

    fn is(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    fn refused(&self, key: &str) -> (Exit, String) {
        let error = read(self.at(key).place(), &by_id()).unwrap_err();
        let text = chain(&error);
        assert!(!text.contains("the-secret") && !text.contains("the-key"), "{text}");
        (error.exit(), text)
    }
}

/// How long a request waits where one is answered after the other, in the order in which they came.
fn turn() -> Duration {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let (mut last, now) = (LAST.lock().unwrap(), Instant::now());
    let own = last.map_or(now, |last| last.max(now)) + Duration::from_millis(250);
    *last = Some(own);
    own - now
}

/// Answers the requests of one connection.
fn answer(
    stream: TcpStream,
    bucket: &str,
    objects: &Mutex<BTreeMap<String, Vec<u8>>>,
    manner: &Mutex<Manner>,
    asked: &AtomicUsize,
) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        asked.fetch_add(1, Ordering::Relaxed);
        let field = |name: &str| {
            let line = head.iter().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")))?;
            Some(line.split_once(": ")?.1.to_owned())
        };
        let key = head[0].split(' ').nth(1).unwrap().trim_start_matches(&format!("/{bucket}/"));
        let key = unescaped(key);
        let found = objects.lock().unwrap().get(&key).cloned();
        let manner = *manner.lock().unwrap();
        let error = |stream: &mut TcpStream, code: &str| {
            let body = "<Error><Code>X</Code><AWSAccessKeyId>the-key</AWSAccessKeyId></Error>";
            let body = if head[0].starts_with("HEAD") { "" } else { body };
            // Who asked may be gone.
            let _ = write!(stream, "HTTP/1.1 {code}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        };
        match manner {
            Manner::Silent => {
                // Longer than anybody waits here.
                thread::sleep(Duration::from_secs(20));
                return;
            }
            Manner::Slow => thread::sleep(turn()),
            Manner::Says(code) => {
                error(&mut stream, code);
                continue;
            }
            Manner::Usual | Manner::Refuses | Manner::Breaks | Manner::Whole => {}
        }
        if manner == Manner::Refuses || field("authorization").is_none_or(|signed| !signed.contains("the-key")) {
            error(&mut stream, "403 Forbidden");
            continue;
        }
        let Some(bytes) = found else {
            error(&mut stream, "404 Not Found");
            continue;
        };
        let tag = format!("\"{}-{}\"", bytes.len(), bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        if field("if-match").is_some_and(|wanted| wanted != tag) {
            error(&mut stream, "412 Precondition Failed");
            continue;
        }
        let range = field("range").filter(|_| manner != Manner::Whole);
        let (code, from, to) = match range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) {
            None => ("200 OK".to_owned(), 0, bytes.len()),
            Some((from, to)) => {
                let (from, to) = (from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap() + 1);
                (format!("206 Partial Content\r\nContent-Range: bytes {from}-{}/{}", to - 1, bytes.len()), from, to)
            }
        };
        let _ = write!(
            stream,
            "HTTP/1.1 {code}\r\nContent-Length: {}\r\nETag: {tag}\r\nLast-Modified: Wed, 31 Jan 2024 08:30:00 GMT\r\n\r\n",
            to - from
        );
        if head[0].starts_with("GET") {
            if manner == Manner::Breaks && from > 0 {
                let _ = stream.write_all(&bytes[from..from + (to - from) / 2]);
                return;
            }
            if stream.write_all(&bytes[from..to]).is_err() {
                return;
            }
        }
    }
}

/// Rows of text, more than a few parts.
fn rows(count: usize) -> String {
    let row = |at: usize| format!("p{at},{},{:.9}\n", at % 7, (at as f64 * 0.37).sin());
    format!("id,k,x\n{}", (0..count).map(row).collect::<String>())
}

/// A Parquet file of columns of numbers.
fn write(file: &Path, names: &[String]) {
    let columns: String = names.iter().map(|name| format!("required double {name}; ")).collect();
    let schema = Arc::new(parse_message_type(&format!("message m {{ {columns}}}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_dictionary_enabled(false).build());
    let mut writer = SerializedFileWriter::new(File::create(file).unwrap(), schema, properties).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    for at in 0..names.len() {
        let numbers: Vec<f64> = (0..20_000).map(|row| f64::from(row) + at as f64).collect();
        let mut column = rows.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&numbers, None, None).unwrap();
        column.close().unwrap();
    }
    rows.close().unwrap();
    writer.close().unwrap();
}

/// What says where a store is, and the keys for it.
fn address(endpoint: &str) -> [(&'static str, String); 3] {
    [
        ("AWS_ENDPOINT", endpoint.to_owned()),
        ("AWS_ACCESS_KEY_ID", "the-key".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "the-secret".to_owned()),
    ]
}

fn by_id() -> Request {
    Request { id: Some("id".into()), ..Request::default() }
}

#[test]
fn objects_are_read_in_parts_as_files_are_whole() {
    let server = Server::new("usual");
    let text = rows(200_000);
    let csv = server.put("of ana/a+b.csv", text.as_bytes());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    std::fs::write(&file, &text).unwrap();
    assert_eq!(header(&csv, None).unwrap(), ["id", "k", "x"]);
    let (there, here) = (read(&csv, &by_id()).unwrap(), read(&file, &by_id()).unwrap());
    assert!(there.ids() == here.ids() && there.column("x").unwrap().values == here.column("x").unwrap().values);
    let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let packed = server.put("a.csv.zst", &packed);
    assert_eq!(read(&packed, &by_id()).unwrap().rows(), 200_000);
    let digests = |source: &Stated| content::digests(source, None, None).unwrap();
    assert_eq!(digests(&csv), digests(&Stated::from(&file)));
    // Parquet: only the columns that are asked for, group by group.
    folder::tests::write(&file, ["id", "x"], 0, 250_000);
    let object = server.put("a.parquet", &std::fs::read(&file).unwrap());
    assert_eq!(header(&object, None).unwrap(), ["id", "x"]);
    let (there, here) = (read(&object, &by_id()).unwrap(), read(&file, &by_id()).unwrap());
    assert!(there.ids() == here.ids() && there.column("x").unwrap().values == here.column("x").unwrap().values);
    let request = Request { columns: Some(vec!["x".into()]), ..Request::default() };
    let before = server.asked.load(Ordering::Relaxed);
    let mut batches = Batches::open(&object, &request, &Arrival::default()).unwrap();
    let mut row = 0;
    while let Some(frame) = batches.next(77_777).unwrap() {
        let Values::Numeric(values) = &frame.column("x").unwrap().values else { panic!() };
        for value in values {
            assert_eq!(*value, f64::from(row) / 2.0);
            row += 1;
        }
    }
    assert_eq!(row, 250_000);
    // One of the two columns of 2 MB, in parts of 1 MiB: the other one was left where it is.
    let asked = server.asked.load(Ordering::Relaxed) - before;
    assert!(asked <= 8, "{asked} requests");
}

#[test]
fn a_store_that_is_gone_slow_or_refuses_gets_a_sentence_without_a_secret() {
    let server = Server::new("trouble");
    server.put("a.csv", rows(200_000).as_bytes());
    let (exit, text) = server.refused("none.csv");
    assert_eq!((exit, text.as_str()), (Exit::Data, "s3://trouble/none.csv: there is no such object or bucket"));
    server.is(Manner::Refuses);
    let (exit, text) = server.refused("a.csv");
    assert!(exit == Exit::Refused && text.contains("does not allow the object to be read with these keys"), "{text}");
    server.is(Manner::Breaks);
    let (exit, text) = server.refused("a.csv");
    assert!(exit == Exit::Unreachable && text.contains("cannot be reached or does not answer"), "{text}");
    server.is(Manner::Whole);
    let (exit, text) = server.refused("a.csv");
    assert!(exit == Exit::Unreachable && text.starts_with("s3://trouble/a.csv: the store"), "{text}");
    for (code, expected, part) in [
        ("400 Bad Request", Exit::Refused, "refuses the request (400): AWS_REGION may be another than the bucket's"),
        ("301 Moved Permanently", Exit::Refused, "sends us to another region: set AWS_REGION"),
        ("429 Too Many Requests", Exit::Unreachable, "the store is busy (429)"),
        ("503 Slow Down", Exit::Unreachable, "the store fails (503)"),
    ] {
        server.is(Manner::Says(code));
        let (exit, text) = server.refused("a.csv");
        assert!(exit == expected && text.contains(part), "{code}: {text}");
    }
    // One that takes the request and is silent.
    server.is(Manner::Silent);
    let (exit, text) = server.refused("a.csv");
    assert!(exit == Exit::Unreachable && text.contains("the store does not answer within 5 s"), "{text}");
    // The same in the middle.
    server.is(Manner::Usual);
    let source = server.at("a.csv");
    let mut batches = Batches::open(&source, &by_id(), &Arrival::default()).unwrap();
    batches.next(10).unwrap().unwrap();
    server.is(Manner::Silent);
    let error = std::iter::repeat_with(|| batches.next(50_000)).find_map(Result::err).unwrap();
    assert!(error.exit() == Exit::Unreachable && chain(&error).contains("does not answer"), "{}", chain(&error));
    // Nobody listens there.
    server.knows(&address("http://127.0.0.1:1"));
    let (exit, text) = server.refused("a.csv");
    assert!(exit == Exit::Unreachable && text.contains("cannot be reached or does not answer"), "{text}");
    server.knows(&address("http://store.example"));
    let (exit, text) = server.refused("a.csv");
    assert!(exit == Exit::Usage && text.contains("the endpoint must be https"), "{text}");
    server.knows(&address("https://the-key:the-secret@store.example"));
    let (exit, text) = server.refused("a.csv");
    assert!(exit == Exit::Usage && text.contains("AWS_ENDPOINT_URL must hold no key"), "{text}");
    server.knows(&[("AWS_SHARED_CREDENTIALS_FILE", "/nowhere".to_owned())]);
    let (exit, text) = server.refused("a.csv");
    assert!(exit == Exit::Refused && text.contains("no key for the store is known"), "{text}");
    for place in ["s3://trouble", "s3://trouble/", "s3://trouble/folder/", "s3:///a.csv", "s3://trou ble/a.csv"] {
        let error = read(Path::new(place), &Request::default()).unwrap_err();
        assert_eq!(error.exit(), Exit::Usage, "{place}: {}", chain(&error));
    }
    let chosen = Stated::new("s3://trouble/a.csv", Some(Chosen::Table("t".into())));
    assert_eq!(read(&chosen, &Request::default()).unwrap_err().exit(), Exit::Usage);
}

#[test]
fn a_store_that_is_slow_is_asked_for_no_more_than_it_can_give_in_time() {
    let server = Server::new("slow");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.parquet");
    // Each column is a part, and all at once would take longer than a request may.
    let names: Vec<String> = (0..30).map(|column| format!("x{column}")).collect();
    write(&file, &names);
    let object = server.put("a.parquet", &std::fs::read(&file).unwrap());
    server.is(Manner::Slow);
    let (there, here) = (read(&object, &Request::default()).unwrap(), read(&file, &Request::default()).unwrap());
    assert_eq!(there.column("x29").unwrap().values, here.column("x29").unwrap().values);
}

#[test]
fn an_object_that_is_written_anew_while_it_is_read_is_no_table() {
    let server = Server::new("changing");
    let source = server.put("a.csv", rows(200_000).as_bytes());
    let before = identity(&source).unwrap().unwrap();
    let mut batches = Batches::open(&source, &by_id(), &Arrival::default()).unwrap();
    batches.next(10).unwrap().unwrap();
    thread::sleep(Duration::from_millis(100));
    server.put("a.csv", rows(199_999).as_bytes());
    let error = std::iter::repeat_with(|| batches.next(50_000)).find_map(Result::err).unwrap();
    assert!(chain(&error).contains("written anew while it was read"), "{}", chain(&error));
    // Nor may a second pass see other rows than the first.
    let error = read(&source, &by_id()).unwrap_err();
    assert!(error.exit() == Exit::Data && chain(&error).contains("written anew"), "{}", chain(&error));
    let other = server.put("b.csv", rows(10).as_bytes());
    let after = identity(&other).unwrap().unwrap();
    assert!(after.key != before.key && after.stamp != before.stamp);
}

#[test]
fn an_address_or_a_key_that_cannot_be_one_gets_a_sentence_without_a_secret() {
    let server = Server::new("slips");
    for (endpoint, part) in [
        (
            "localhost:9000",
            "must begin with http:// or https://: for a store on this machine write http://localhost:9000",
        ),
        ("foo", "must begin with http:// or https://"),
        ("https:/x", "must begin with http:// or https://"),
        ("ftp://x", "must begin with http:// or https://"),
        ("http://", "must name a host"),
        ("https:///x", "must name a host"),
        ("https://a b", "must name a host"),
        ("https://ä.example", "must name a host"),
        ("https://999.1.1.1", "must name a host"),
        ("https://[::1", "must name a host"),
        ("http://localhost:port", "the port of AWS_ENDPOINT_URL is no number from 1 to 65535"),
        ("http://localhost:99999", "the port of AWS_ENDPOINT_URL is no number from 1 to 65535"),
        ("http://localhost:+80", "the port of AWS_ENDPOINT_URL is no number from 1 to 65535"),
        ("http://localhost:", "the port of AWS_ENDPOINT_URL is no number from 1 to 65535"),
        ("https://store.example/a?b", "the path of AWS_ENDPOINT_URL"),
        ("HTTP://store.example", "the endpoint must be https"),
    ] {
        server.knows(&address(endpoint));
        let (exit, text) = server.refused("a.csv");
        assert!(exit == Exit::Usage && text.contains(part), "{endpoint}: {text}");
    }
    for (name, value, part) in [
        ("AWS_ACCESS_KEY_ID", "the-key\nthe-secret", "the name of the key (AWS_ACCESS_KEY_ID"),
        ("AWS_ACCESS_KEY_ID", "the-key-ä", "the name of the key (AWS_ACCESS_KEY_ID"),
        ("AWS_SECRET_ACCESS_KEY", "the-secret\0", "the key (AWS_SECRET_ACCESS_KEY"),
        ("AWS_SESSION_TOKEN", "the-secret\r\nx", "the token (AWS_SESSION_TOKEN"),
        ("AWS_REGION", "eu west", "the region (AWS_REGION) holds a line break or another character"),
        ("AWS_SECRET_ACCESS_KEY", "", "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"),
        ("AWS_SKIP_SIGNATURE", "yes1", "AWS_SKIP_SIGNATURE has a value that it cannot have"),
        ("AWS_CHECKSUM_ALGORITHM", "the-secret", "AWS_CHECKSUM_ALGORITHM has a value that it cannot have"),
    ] {
        let mut known: BTreeMap<&str, String> = address("http://127.0.0.1:1").into_iter().collect();
        known.insert(name, value.to_owned());
        let known: Vec<_> = known.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        server.knows(&known);
        let (exit, text) = server.refused("a.csv");
        assert!(exit == Exit::Usage && text.contains(part), "{name}: {text}");
    }
}

#[test]
fn a_line_break_after_a_key_or_an_endpoint_is_none_of_it() {
    let server = Server::new("breaks");
    let source = server.put("a.csv", b"x\n1\n");
    let endpoint = OF_TESTS.lock().unwrap()["breaks"]["AWS_ENDPOINT_URL"].clone();
    server.knows(&[
        ("AWS_ENDPOINT_URL", format!("{endpoint}/ \n")),
        ("AWS_ACCESS_KEY_ID", "the-key\n".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "the-secret\r\n".to_owned()),
        ("AWS_SESSION_TOKEN", "token\n".to_owned()),
    ]);
    assert_eq!(read(&source, &Request::default()).unwrap().rows(), 1);
}

#[test]
fn keys_are_those_of_the_profile_that_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    std::fs::write(
        &file,
        "[default]\naws_access_key_id = other\naws_secret_access_key = x\n# a line\n[ana]\naws_access_key_id=the-key\naws_secret_access_key = the-secret\n",
    )
    .unwrap();
    let server = Server::new("profiles");
    let endpoint = OF_TESTS.lock().unwrap()["profiles"]["AWS_ENDPOINT_URL"].clone();
    let known = [("AWS_ENDPOINT_URL", endpoint), ("AWS_SHARED_CREDENTIALS_FILE", file.display().to_string())];
    let source = server.put("a.csv", b"x\n1\n");
    server.knows(&known);
    let allow = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    allow(0o600);
    assert!(server.refused("a.csv").1.contains("does not allow the object to be read with these keys"));
    let mut named = known.to_vec();
    named.push(("AWS_PROFILE", "ana".to_owned()));
    server.knows(&named);
    assert_eq!(read(&source, &Request::default()).unwrap().rows(), 1);
    allow(0o644);
    let (exit, text) = server.refused("a.csv");
    assert!(exit == Exit::Refused && text.ends_with("holds keys and can be read by others: chmod 600"), "{text}");
}
