use std::io::Cursor;

use fedreg_common::data::{Frame, Values};

use super::super::Request;
use super::super::tests::chain;
use super::*;

/// Written by pyarrow: see `tests/vectors/make/arrow.py`.
const MIXED: &[u8] = include_bytes!("../../../../tests/vectors/arrow/mixed.arrows");

fn request(columns: &[&str]) -> Request {
    Request {
        columns: Some(columns.iter().map(|name| name.to_string()).collect()),
        levels: [
            ("region".to_owned(), vec!["north".to_owned(), "south".to_owned()]),
            ("large".to_owned(), vec!["u".to_owned(), "v".to_owned()]),
        ]
        .into(),
        ..Request::default()
    }
}

fn open(bytes: &[u8]) -> Result<Opened, ReadError> {
    super::open(Box::new(Cursor::new(bytes.to_vec())), "stream", false)
}

fn all(bytes: &[u8], columns: &[&str], rows: usize) -> Result<Vec<Frame>, ReadError> {
    let mut table = open(bytes)?.batches(&request(columns))?;
    let mut frames = Vec::new();
    while let Some(frame) = table.next(rows)? {
        frames.push(frame);
    }
    Ok(frames)
}

#[test]
fn values_are_those_that_pyarrow_wrote_in_batches_of_the_size_asked_for() {
    let frames = all(MIXED, &["n", "smoker", "region", "y", "single", "tiny", "large"], 4).unwrap();
    assert_eq!(frames.iter().map(Frame::rows).collect::<Vec<_>>(), [4, 3]);
    assert_eq!((frames[0].place(0), frames[1].place(0)), (Place::Row(1), Place::Row(5)));
    let numbers = |name: &str| -> Vec<f64> {
        frames
            .iter()
            .flat_map(|frame| match &frame.column(name).unwrap().values {
                Values::Numeric(values) => values.clone(),
                other => panic!("{name} is {}", other.kind()),
            })
            .collect()
    };
    let y = numbers("y");
    assert!(y[1].is_nan() && y.iter().enumerate().all(|(i, y)| i == 1 || *y == 0.5 * i as f64 - 1.0), "{y:?}");
    assert_eq!(numbers("n"), [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 9_007_199_254_740_991.0]);
    assert_eq!(numbers("single"), [0.25, 1.25, 2.25, 3.25, 4.25, 5.25, 6.25]);
    assert_eq!(numbers("tiny"), [255.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let smoker = &frames[0].column("smoker").unwrap().values;
    assert!(matches!(smoker, Values::Boolean(values) if *values == [Some(true), Some(false), Some(true), Some(false)]));
    for (name, expected) in [("region", [0, 1, 0]), ("large", [1, 0, 1])] {
        let text = &frames[1].column(name).unwrap().values;
        assert!(matches!(text, Values::Categorical { codes, .. } if *codes == expected), "{name}");
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_is_refused() {
    for length in 0..MIXED.len() {
        let message = chain(&all(&MIXED[..length], &["n", "y"], 2).unwrap_err());
        assert!(message.contains("damaged or cut short"), "{length} of {}: {message}", MIXED.len());
    }
}

#[test]
fn a_changed_byte_gives_an_error_or_a_table_and_never_a_panic() {
    for at in 0..MIXED.len() {
        for flip in [1, 0x40, 0x80, 0xff] {
            let mut changed = MIXED.to_vec();
            changed[at] ^= flip;
            let _ = all(&changed, &["n", "y", "region", "smoker", "large"], 3);
        }
    }
}

#[test]
fn types_without_a_place_in_a_regression_are_named_and_may_stand_unread() {
    for (column, kind) in [("day", "date"), ("pair", "list"), ("cents", "decimal")] {
        let message = chain(&all(MIXED, &[column], 2).unwrap_err());
        assert!(message.contains(&format!("column `{column}` is of type {kind}")), "{message}");
    }
    let message = chain(&all(MIXED, &["smokre"], 2).unwrap_err());
    assert!(message.contains("the nearest name is `smoker`"), "{message}");
    let id = Request { id: Some("y".to_owned()), ..request(&["n"]) };
    let message = chain(&open(MIXED).unwrap().batches(&id).unwrap_err());
    assert!(message.contains("ids must be text or whole numbers"), "{message}");
}

/// Written by pandas and pyarrow: see `tests/vectors/make/arrow_coded.py`.
const FILE_OF_PANDAS: &[u8] = include_bytes!("../../../../tests/vectors/arrow/coded.lz4.arrow");
const STREAM: &[u8] = include_bytes!("../../../../tests/vectors/arrow/coded.zstd.arrows");

fn city(row: usize) -> Option<&'static str> {
    let cities: &[&str] = match row {
        0..300 => &["Bergen", "Oslo"],
        300..600 => &["Bergen", "Oslo", "Tromsø"],
        _ => &["Oslo", "Paris"],
    };
    (row % 11 != 3).then(|| cities[row % cities.len()])
}

fn levels_of(frame: &Frame, name: &str) -> Vec<Option<String>> {
    let Values::Categorical { codes, levels, .. } = &frame.column(name).unwrap().values else { panic!("{name}") };
    codes.iter().map(|code| levels.get(*code as usize).cloned()).collect()
}

fn numbers_of(frame: &Frame, name: &str) -> Vec<f64> {
    match &frame.column(name).unwrap().values {
        Values::Numeric(values) => values.clone(),
        other => panic!("{name} is {}", other.kind()),
    }
}

fn by_name(columns: &[&str]) -> Request {
    let columns = columns.iter().map(|name| name.to_string()).collect();
    Request { columns: Some(columns), id: Some("name".to_owned()), ..Request::default() }
}

#[test]
fn categoricals_of_pandas_in_a_compressed_file_are_read_as_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("any name");
    std::fs::write(&path, FILE_OF_PANDAS).unwrap();
    let frame = super::super::read(&path, &by_name(&["x", "city", "dose", "y"])).unwrap();
    assert_eq!(frame.rows(), 300);
    let cities = ["Bergen", "Oslo", "Tromsø"];
    let expected = |row: usize| (row % 11 != 3).then(|| cities[row % 3].to_owned());
    assert_eq!(levels_of(&frame, "city"), (0..300).map(expected).collect::<Vec<_>>());
    let dose: Vec<f64> = (0..300).map(|row| f64::from((row * 7) % 5 * 10)).collect();
    assert_eq!(numbers_of(&frame, "dose"), dose);
    assert_eq!(numbers_of(&frame, "x"), (0..300).map(|row| f64::from(row) / 8.0).collect::<Vec<_>>());
    for (row, y) in (0..300).zip(numbers_of(&frame, "y")) {
        assert!(if row % 13 == 5 { y.is_nan() } else { y == f64::from((row * row) % 97) }, "{row}: {y}");
    }
    assert_eq!(frame.ids().unwrap().bytes(299), b"p299");
    let by = |id: &str| Request { id: Some(id.to_owned()), ..by_name(&["x"]) };
    assert_eq!(super::super::read(&path, &by("city")).unwrap_err().exit(), fedreg_common::exit::Exit::Data);
    assert_eq!(super::super::read(&path, &by("dose")).unwrap().ids().unwrap().bytes(1), b"20");
    let message = chain(&super::super::read(&path, &by_name(&["day"])).unwrap_err());
    assert!(message.contains("column `day` is of type timestamp"), "{message}");
    let message = chain(&super::super::read(&path, &by_name(&["pair"])).unwrap_err());
    assert!(message.contains("column `pair` is of type list"), "{message}");
    let end = FILE_OF_PANDAS.len();
    for length in (4..end).step_by(97).chain([end - 1]) {
        std::fs::write(&path, &FILE_OF_PANDAS[..length]).unwrap();
        let message = chain(&super::super::read(&path, &by_name(&["x", "city"])).unwrap_err());
        assert!(message.contains("damaged or cut short"), "{length}: {message}");
    }
}

#[test]
fn dictionaries_go_on_and_are_replaced_within_a_stream() {
    let frame = open(STREAM).unwrap().read(&by_name(&["city", "x"])).unwrap();
    assert_eq!(frame.rows(), 900);
    assert_eq!(levels_of(&frame, "city"), (0..900).map(|row| city(row).map(str::to_owned)).collect::<Vec<_>>());
    assert_eq!(numbers_of(&frame, "x"), (0..900).map(|row| f64::from(row) / 8.0).collect::<Vec<_>>());
    let torn = super::open(Box::new(Cursor::new(STREAM)), "stream", true).unwrap();
    let mut torn = torn.batches(&Request { torn: true, lenient: true, ..by_name(&["x"]) }).unwrap();
    let message = chain(&torn.next(10).unwrap_err());
    assert!(message.contains("a private stream cannot be read from compressed record batches"), "{message}");
}

#[test]
fn a_changed_byte_of_a_dictionary_or_a_packed_buffer_gives_an_error_or_a_table_and_never_a_panic() {
    let request = by_name(&["city", "dose", "x", "y"]);
    for at in (0..STREAM.len()).step_by(3) {
        for flip in [1, 0x80, 0xff] {
            let mut changed = STREAM.to_vec();
            changed[at] ^= flip;
            let _ = open(&changed).and_then(|opened| opened.read(&request));
        }
    }
    for at in (8..FILE_OF_PANDAS.len()).step_by(3) {
        let mut changed = FILE_OF_PANDAS[8..].to_vec();
        changed[at - 8] ^= 0x41;
        let _ = open(&changed).and_then(|opened| opened.read(&request));
    }
}

/// Written by polars and, the last two, by pyarrow: see `tests/vectors/make/arrow_polars.py`.
const POLARS: &[u8] = include_bytes!("../../../../tests/vectors/arrow/polars.arrow");
const POLARS_ZSTD: &[u8] = include_bytes!("../../../../tests/vectors/arrow/polars.zstd.arrow");
const POLARS_OLDEST: &[u8] = include_bytes!("../../../../tests/vectors/arrow/polars.oldest.arrow");
const POLARS_NUMBERS: &[u8] = include_bytes!("../../../../tests/vectors/arrow/polars.numbers.arrow");
const POLARS_SMALL: &[u8] = include_bytes!("../../../../tests/vectors/arrow/polars.small.arrow");
const POLARS_STREAM: &[u8] = include_bytes!("../../../../tests/vectors/arrow/polars.arrows");
const POLARS_STREAM_LZ4: &[u8] = include_bytes!("../../../../tests/vectors/arrow/polars.lz4.arrows");
const RARE: &[u8] = include_bytes!("../../../../tests/vectors/arrow/rare.arrow");
const RARE_STREAM: &[u8] = include_bytes!("../../../../tests/vectors/arrow/rare.arrows");

const REGIONS: [&str; 3] = ["north", "exactly 12 b", "south, with a name above twelve bytes"];
const SITES: [&str; 3] = ["Bergen", "Oslo", "Tromsø, beyond the polar circle"];
const GRADES: [&str; 3] = ["low", "mid", "high and even higher"];

/// Bytes as a file.
struct Held(Vec<u8>);

impl Ranges for Held {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, bytes: &mut [u8], place: u64) -> io::Result<usize> {
        let mut rest = usize::try_from(place).ok().and_then(|place| self.0.get(place..)).unwrap_or_default();
        rest.read(bytes)
    }
}

fn held(bytes: &[u8]) -> Arc<dyn Ranges> {
    Arc::new(Held(bytes.to_vec()))
}

fn open_any(bytes: &[u8]) -> Result<Opened, ReadError> {
    match bytes.starts_with(&FILE[..4]) {
        true => open_file(held(bytes), "file", false),
        false => open(bytes),
    }
}

fn name(row: usize) -> String {
    if row.is_multiple_of(3) { format!("person number {row} of Tromsø") } else { format!("p{row}") }
}

fn names_of(frame: &Frame) -> Vec<String> {
    let ids = frame.ids().unwrap();
    (0..frame.rows()).map(|row| String::from_utf8_lossy(ids.bytes(row)).into_owned()).collect()
}

#[test]
fn files_and_streams_of_polars_are_read_as_their_values() {
    let rows = 0..24usize;
    for bytes in [POLARS, POLARS_ZSTD, POLARS_OLDEST, POLARS_STREAM, POLARS_STREAM_LZ4] {
        let request = by_name(&["region", "site", "grade", "x", "y", "smoker"]);
        let frame = open_any(bytes).unwrap().read(&request).unwrap();
        assert_eq!(frame.rows(), 24);
        assert_eq!(names_of(&frame), rows.clone().map(name).collect::<Vec<_>>());
        let region = |row: usize| (row % 7 != 3).then(|| REGIONS[row % 3].to_owned());
        assert_eq!(levels_of(&frame, "region"), rows.clone().map(region).collect::<Vec<_>>());
        let site = |row: usize| (row % 11 != 5).then(|| SITES[row % 3].to_owned());
        assert_eq!(levels_of(&frame, "site"), rows.clone().map(site).collect::<Vec<_>>());
        let grade = |row: usize| Some(GRADES[row * row % 3].to_owned());
        assert_eq!(levels_of(&frame, "grade"), rows.clone().map(grade).collect::<Vec<_>>());
        assert_eq!(numbers_of(&frame, "x"), rows.clone().map(|row| row as f64 / 8.0).collect::<Vec<_>>());
        for (row, y) in rows.clone().zip(numbers_of(&frame, "y")) {
            assert!(if row % 5 == 2 { y.is_nan() } else { y == (row * row) as f64 }, "{row}: {y}");
        }
        let smoker = &frame.column("smoker").unwrap().values;
        let even: Vec<_> = rows.clone().map(|row| Some(row % 2 == 0)).collect();
        assert!(matches!(smoker, Values::Boolean(values) if *values == even));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("any name");
    std::fs::write(&path, POLARS_NUMBERS).unwrap();
    let request = Request { columns: Some(vec!["x".to_owned()]), ..Request::default() };
    let frame = super::super::read(&path, &request).unwrap();
    assert_eq!(numbers_of(&frame, "x"), rows.map(|row| row as f64 / 8.0).collect::<Vec<_>>());
}

#[test]
fn columns_of_all_other_types_may_stand_unread_and_are_named() {
    let unusable = [
        ("words", "list"),
        ("blob", "bytes"),
        ("part", "structure"),
        ("wide", "whole number of more than 64 bits"),
        ("half", "half-precision number"),
        ("money", "decimal"),
        ("day", "date"),
        ("pair", "list of fixed length"),
    ];
    for bytes in [POLARS, POLARS_STREAM] {
        for (column, kind) in unusable {
            let message = chain(&open_any(bytes).unwrap().read(&by_name(&[column])).unwrap_err());
            assert!(message.contains(&format!("column `{column}` is of type {kind};")), "{message}");
        }
    }
    let of = |columns: &[&str]| {
        let columns = columns.iter().map(|name| name.to_string()).collect();
        Request { columns: Some(columns), ..Request::default() }
    };
    let cities = [Some("Bergen"), Some("Oslo"), None, Some("Oslo"), Some("Bergen"), Some("Oslo"), None, Some("Paris")];
    for bytes in [RARE, RARE_STREAM] {
        let frame = open_any(bytes).unwrap().read(&of(&["city", "region", "x"])).unwrap();
        assert_eq!(levels_of(&frame, "city"), cities.map(|city| city.map(str::to_owned)));
        assert_eq!(levels_of(&frame, "region"), [0, 1, 2, 0, 0, 1, 2, 0].map(|at: usize| Some(REGIONS[at].to_owned())));
        assert_eq!(numbers_of(&frame, "x"), (0..8).map(f64::from).collect::<Vec<_>>());
        for (column, kind) in [("dense", "union"), ("sparse", "union"), ("runs", "run-end encoded"), ("lists", "list")]
        {
            let message = chain(&open_any(bytes).unwrap().read(&of(&[column])).unwrap_err());
            assert!(message.contains(&format!("column `{column}` is of type {kind};")), "{message}");
        }
    }
}

/// Ids, levels of `site` and values of `x`.
type Small = (Vec<String>, Vec<Option<String>>, Vec<f64>);

/// What the small file holds, if these are its bytes.
fn small(bytes: &[u8]) -> Result<Small, ReadError> {
    let frame = open_file(held(bytes), "file", false)?.read(&by_name(&["site", "x"]))?;
    Ok((names_of(&frame), levels_of(&frame, "site"), numbers_of(&frame, "x")))
}

fn changed(at: usize, by: &[u8]) -> Vec<u8> {
    let mut bytes = POLARS_SMALL.to_vec();
    bytes[at..at + by.len()].copy_from_slice(by);
    bytes
}

/// Where the small file has these bytes, and has them once.
fn once(part: &[u8]) -> usize {
    let mut found = POLARS_SMALL.windows(part.len()).enumerate().filter(|(_, bytes)| *bytes == part);
    let (at, _) = found.next().unwrap();
    assert!(found.next().is_none());
    at
}

/// The blocks of its footer, and where they stand: dictionaries and record batches.
fn small_blocks() -> Vec<((i64, i32, i64), usize)> {
    let footer = Footer::read(&held(POLARS_SMALL), "file").unwrap();
    let footer = Flat::root(&footer.bytes).unwrap();
    let blocks = [footer.blocks(2).unwrap(), footer.blocks(3).unwrap()].concat();
    let at = |block: &(i64, i32, i64)| once(&[&block.0.to_le_bytes()[..], &block.1.to_le_bytes()].concat());
    blocks.into_iter().map(|block| (block, at(&block))).collect()
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    assert_eq!(small(POLARS_SMALL).unwrap().0, [0, 1, 2, 3].map(name));
    for length in 0..POLARS_SMALL.len() {
        let message = chain(&small(&POLARS_SMALL[..length]).unwrap_err());
        assert!(message.contains("the Arrow file is damaged or cut short"), "{length}: {message}");
    }
}

#[test]
fn a_changed_byte_of_a_file_gives_an_error_or_a_table_and_never_a_panic() {
    let right = small(POLARS_SMALL).unwrap();
    // What says where everything lies.
    let blocks = small_blocks();
    let places = blocks.iter().flat_map(|(_, at)| *at..*at + 24);
    let places: Vec<usize> = places.chain(0..8).chain(POLARS_SMALL.len() - 10..POLARS_SMALL.len()).collect();
    for at in 0..POLARS_SMALL.len() {
        for flip in (0..8).map(|bit| 1 << bit).chain([0xff]) {
            let read = small(&changed(at, &[POLARS_SMALL[at] ^ flip]));
            if places.contains(&at) {
                assert!(read.is_err() || read.is_ok_and(|read| read == right), "{at}");
            }
        }
    }
    let of_polars =
        [POLARS, POLARS_ZSTD, POLARS_STREAM, POLARS_STREAM_LZ4].map(|bytes| (bytes, by_name(&["site", "x"])));
    for (bytes, request) in of_polars.into_iter().chain([(RARE, request(&["city", "region"]))]) {
        for at in 0..bytes.len() {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= [1, 0x80, 0xff][at % 3];
            let _ = open_any(&bytes).and_then(|opened| opened.read(&request));
        }
    }
}

#[test]
fn blocks_that_a_footer_puts_where_they_cannot_be_are_refused() {
    let all = small_blocks();
    let ((_, header, body), _) = all[1];
    let size = POLARS_SMALL.len() as i64;
    for (_, at) in &all {
        for place in [i64::MIN, -8, 0, 7, size - 8, size, size + 8, i64::MAX - 7, i64::MAX] {
            let message = chain(&small(&changed(*at, &place.to_le_bytes())).unwrap_err());
            assert!(message.contains("its footer names a place that is not in the file"), "{place}: {message}");
        }
        for header in [i32::MIN, -8, 1, 1 << 24, i32::MAX - 7] {
            let message = chain(&small(&changed(*at + 8, &header.to_le_bytes())).unwrap_err());
            assert!(message.contains("its footer names a place that is not in the file"), "{header}: {message}");
        }
        for body in [i64::MIN, -8, 1, size, 1 << 62, i64::MAX - 7] {
            let message = chain(&small(&changed(*at + 16, &body.to_le_bytes())).unwrap_err());
            assert!(message.contains("its footer names a place that is not in the file"), "{body}: {message}");
        }
        for header in [0, 8] {
            let message = chain(&small(&changed(*at + 8, &i32::to_le_bytes(header))).unwrap_err());
            assert!(message.contains("a message is not the one that its footer names"), "{header}: {message}");
        }
    }
    // The record batch in the place of the dictionary: one of another kind, and together they are longer than the file.
    let ((place, ..), at) = (all[1].0, all[0].1);
    let twice = [&place.to_le_bytes()[..], &header.to_le_bytes(), &[0; 4], &body.to_le_bytes()].concat();
    assert!(chain(&small(&changed(at, &twice)).unwrap_err()).contains("damaged or cut short"));
}

#[test]
fn views_that_lead_out_of_their_buffers_are_refused() {
    let length = (name(0).len() as u32).to_le_bytes();
    let at = once(&[&length[..], b"pers", &[0; 8]].concat());
    let right = small(POLARS_SMALL).unwrap();
    // A text is where its length, its beginning, its buffer and its place all say that it is.
    for (word, values) in [
        (0, &[-1, i32::MIN, i32::MAX, 13_000][..]),
        (1, &[0, -1]),
        (2, &[-1, 1, 2, i32::MIN, i32::MAX]),
        (3, &[-1, 1, 2, 1000, i32::MIN, i32::MAX]),
    ] {
        for value in values {
            let message = chain(&small(&changed(at + 4 * word, &value.to_le_bytes())).unwrap_err());
            assert!(message.contains("a value of a column is not where its batch says"), "{word}, {value}: {message}");
        }
        for value in (0..32).map(|bit| 1u32 << bit) {
            let read = small(&changed(at + 4 * word, &value.to_le_bytes()));
            // A shorter length is as good as the true one.
            assert!(read.is_err() || word == 0 || read.is_ok_and(|read| read == right), "{word}, {value}");
        }
    }
    // In a private stream the record that leads nowhere has no id, and the others are what they were.
    let bytes = changed(at + 12, &i32::MAX.to_le_bytes());
    let torn = Request { torn: true, lenient: true, ..by_name(&["x"]) };
    let mut torn = open_file(held(&bytes), "file", true).unwrap().batches(&torn).unwrap();
    assert_eq!(names_of(&torn.next(10).unwrap().unwrap()), [String::new(), name(1), name(2), name(3)]);
    assert!(torn.next(10).unwrap().is_none());
}

#[test]
fn text_of_a_view_that_is_not_utf_8_is_refused() {
    let texts = by_name(&["region"]);
    let place = POLARS.windows(6).position(|bytes| bytes == b", with").unwrap();
    let mut bytes = POLARS.to_vec();
    bytes[place + 3] = 0xff;
    let message = chain(&open_any(&bytes).unwrap().read(&texts).unwrap_err());
    assert!(message.contains("UTF-8"), "{message}");
}

#[test]
fn a_dictionary_that_a_file_has_twice_is_refused() {
    let footer = Footer::read(&held(POLARS), "file").unwrap();
    let blocks = Flat::root(&footer.bytes).unwrap().blocks(2).unwrap();
    let bytes_of = |block: &(i64, i32, i64)| {
        [&block.0.to_le_bytes()[..], &block.1.to_le_bytes(), &[0; 4], &block.2.to_le_bytes()].concat()
    };
    let mut messages = Vec::new();
    for (one, other) in blocks.iter().flat_map(|one| blocks.iter().map(move |other| (one, other))) {
        let at = POLARS.windows(24).position(|bytes| bytes == bytes_of(one)).unwrap();
        let mut bytes = POLARS.to_vec();
        bytes[at..at + 24].copy_from_slice(&bytes_of(other));
        let read = open_any(&bytes).unwrap().read(&by_name(&["site", "grade"]));
        messages.push(read.map_or_else(|error| chain(&error), |frame| format!("{} rows", frame.rows())));
    }
    let twice = messages.iter().filter(|message| message.contains("a dictionary is there twice")).count();
    assert!(blocks.len() == 3 && twice == 4, "{messages:?}");
}

#[test]
fn a_file_in_a_pipe_is_read_as_the_stream_that_it_may_hold() {
    let piped = |bytes: &'static [u8], columns: &[&str]| {
        super::super::Batches::from_pipe(Cursor::new(bytes), "pipe", &by_name(columns))?.next(usize::MAX)
    };
    assert_eq!(piped(FILE_OF_PANDAS, &["x"]).unwrap().unwrap().rows(), 300);
    let message = chain(&piped(POLARS, &["x"]).unwrap_err());
    assert!(message.contains("can be read by its footer only, which a pipe does not allow"), "{message}");
    for length in 4..12 {
        let message = chain(&piped(&FILE_OF_PANDAS[..length], &["x"]).unwrap_err());
        assert!(message.contains("damaged or cut short"), "{length}: {message}");
    }
}

#[test]
fn entries_beyond_everything_are_not_there() {
    assert!(entry::<8>(&[0; 8], usize::MAX).is_err() && entry::<8>(&[0; 8], 1).is_err());
    assert!(whole(&[0; 16], usize::MAX / 2, 4, true).is_err() && bit(&[0], usize::MAX).is_err());
    assert_eq!(entry::<8>(&[1; 8], 0), Ok([1; 8]));
}
