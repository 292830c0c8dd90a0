//! Reading of objects: some parts of each on their way while those before them are worked on.
//!
//! All parts of all passes are of one version of the object, which the store is told with every request.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey as Key};
use object_store::limit::LimitStore;
use object_store::path::Path as Name;
use object_store::{ClientOptions, Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Runtime};
use tokio_stream::StreamExt;

use super::super::ranges::Ranges;
use super::super::rows::Rows;
use super::super::{Bytes, Found, How, Identity, Opened, ReadError, Stated, Table, holds_secret, of_bytes, secrets};
use super::BEGINNING;

/// Bytes of a request.
const PART: u64 = 1 << 20;

/// Parts of what is read that are asked for before they are needed.
const AHEAD: u64 = 2;

/// Bytes at the end of an object that are read at once: what a Parquet file says of itself.
const END: u64 = 1 << 16;

/// Requests that are under way at a time: a slow line must bring each of them within the time that a request has.
const AT_ONCE: usize = 8;

/// Parts that were read whose room is kept: about those that are there at a time where all columns of a table are read.
const SPARE: usize = 64;

/// How long a store may take for a connection, to say that it has the object, for a part, and with all attempts for one together. Tests
/// wait for the end of it.
const CONNECTION: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 20 });
const REQUEST: Duration = Duration::from_secs(if cfg!(test) { 6 } else { 40 });
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 6 } else { 60 });
const ATTEMPTS: usize = 3;

/// The versions of objects that this process reads.
static READ: Mutex<BTreeMap<PathBuf, ObjectMeta>> = Mutex::new(BTreeMap::new());

/// What speaks to stores while others compute.
static SPEAKER: OnceLock<Runtime> = OnceLock::new();

/// An object of one version.
struct Object {
    store: Arc<LimitStore<AmazonS3>>,
    name: Name,
    about: ObjectMeta,
    windows: Mutex<Windows>,
    /// Room of parts that were read, for parts to come: memory that is new to the process costs about as much as a copy.
    spare: Arc<Mutex<Vec<BytesMut>>>,
    /// Why reading ended, whatever those who read make of it.
    trouble: Mutex<Option<Trouble>>,
}

/// A table whose bytes come from a store.
struct Watched {
    table: Box<dyn Table>,
    object: Arc<Object>,
    name: String,
}

impl Table for Watched {
    fn pick(&mut self, position: usize, id: bool) -> Result<(), ReadError> {
        self.table.pick(position, id)
    }

    fn next(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError> {
        let next = self.table.next(most, rows);
        next.map_err(|error| self.object.cause(&self.name, error))
    }
}

/// What is there and on its way.
#[derive(Default)]
struct Windows {
    /// By where they begin, parts of the object that are read each from its beginning on.
    expected: BTreeMap<u64, Window>,
    /// The last part that nobody had expected.
    other: Option<(u64, Arc<Slot>)>,
}

struct Window {
    end: u64,
    /// By number.
    parts: BTreeMap<u64, Arc<Slot>>,
}

/// Why nothing comes.
#[derive(Debug, Clone)]
enum Trouble {
    /// No such object, or another than before.
    Other(String),
    Refused(String),
    Unreachable(String),
}

impl Trouble {
    /// What an error means here. What a store answers may quote keys and requests, and is not shown.
    // Errors of the crate are an open set.
    #[allow(clippy::wildcard_enum_match_arm)]
    fn of(error: &Error) -> Trouble {
        match error {
            Error::NotFound { .. } => Trouble::Other("there is no such object or bucket".to_owned()),
            Error::Precondition { .. } | Error::NotModified { .. } => Trouble::Other(CHANGED.to_owned()),
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                Trouble::Refused("the store does not allow the object to be read with these keys".to_owned())
            }
            error => {
                let said = fedreg_proto::output::chain(error);
                match status(&said) {
                    Some(code @ (408 | 429)) => Trouble::Unreachable(format!("the store is busy ({code})")),
                    Some(code @ 400..500) => Trouble::Refused(format!(
                        "the store refuses the request ({code}): AWS_REGION may be another than the bucket's, or the keys have run out"
                    )),
                    Some(code) => Trouble::Unreachable(format!("the store fails ({code})")),
                    None if said.contains(REDIRECT) => Trouble::Refused(
                        "the store sends us to another region: set AWS_REGION to the bucket's".to_owned(),
                    ),
                    None if said.contains("certificate") => {
                        Trouble::Refused("the certificate of the store is not one that is trusted here".to_owned())
                    }
                    None if said.contains("dns error") => Trouble::Unreachable(
                        "the name of the store is not known (AWS_ENDPOINT_URL, AWS_REGION)".to_owned(),
                    ),
                    None => {
                        Trouble::Unreachable(format!("the store cannot be reached or does not answer{}", reason(error)))
                    }
                }
            }
        }
    }

    fn told(self, file: &str) -> ReadError {
        let file = file.to_owned();
        match self {
            Trouble::Other(problem) => ReadError::Format { file, problem },
            Trouble::Refused(problem) => ReadError::Refused { file, problem },
            Trouble::Unreachable(problem) => ReadError::Unreachable { file, problem },
        }
    }
}

/// A part that comes.
#[derive(Default)]
struct Slot {
    come: Mutex<Option<Result<bytes::Bytes, Trouble>>>,
    bell: Condvar,
}

impl Slot {
    fn put(&self, come: Result<bytes::Bytes, Trouble>) {
        *locked(&self.come) = Some(come);
        self.bell.notify_all();
    }

    fn wait(&self) -> Result<bytes::Bytes, Trouble> {
        let mut come = locked(&self.come);
        loop {
            match &*come {
                Some(come) => return come.clone(),
                None => come = self.bell.wait(come).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// What a store sends, no more than was asked for and what comes with that, in the room of a part that was read.
async fn filled(got: GetResult, spare: &Mutex<Vec<BytesMut>>, length: u64) -> Result<BytesMut, Error> {
    let mut room = locked(spare).pop().unwrap_or_default();
    room.clear();
    room.reserve(usize::try_from(length).unwrap_or_default());
    let mut pieces = got.into_stream();
    while let Some(piece) = pieces.next().await {
        room.extend_from_slice(&piece?);
        if room.len() as u64 > length {
            break;
        }
    }
    Ok(room)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn speaker() -> io::Result<&'static Runtime> {
    match SPEAKER.get() {
        Some(speaker) => Ok(speaker),
        None => {
            let made = Builder::new_multi_thread().worker_threads(1).thread_name("store").enable_all().build()?;
            Ok(SPEAKER.get_or_init(|| made))
        }
    }
}

/// Waits in this thread for what another one gets.
fn got<T: Send + 'static>(getting: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    speaker()?.spawn(async move { tell.send(getting.await) });
    told.recv().map_err(|_| io::Error::other("the request to the store was not made"))
}

pub(super) fn open(stated: &Stated, how: &How) -> Result<Opened, ReadError> {
    let name = stated.to_string();
    if how.arrival.follow {
        return Err(ReadError::stated(name, "an object cannot be followed; only a file that grows can"));
    }
    let object = found(stated)?;
    let object = Arc::new(object);
    let cause = |error| object.cause(&name, error);
    let mut start = vec![0; object.size().min(4) as usize];
    let read = object.read_at(&mut start, 0).map_err(ReadError::read(&name)).map_err(cause)?;
    start.truncate(read);
    let found = Found { name: name.clone(), start, bytes: Bytes::Object(Arc::clone(&object) as Arc<dyn Ranges>) };
    let Opened { name, columns, table } = of_bytes(found, how).map_err(cause)?;
    let watched = Watched { table, object, name: name.clone() };
    Opened::new(&name, columns, watched)
}

/// By its address, wherever its store is; it has no other.
pub(super) fn identity(stated: &Stated) -> Result<Identity, ReadError> {
    let object = found(stated)?;
    let about = &object.about;
    let stamp = format!("{} {} {}", about.e_tag.clone().unwrap_or_default(), about.size, about.last_modified);
    let endpoint = endpoint(&variables(stated)).unwrap_or_default();
    Ok(Identity {
        key: format!("object {endpoint} {stated}"),
        parts: Vec::new(),
        place: format!("{stated} {endpoint}").trim_end().to_owned(),
        stamp: Some(stamp),
    })
}

/// Variables of the environment that are about stores.
type Variables = BTreeMap<String, String>;

/// By bucket, what stands for the environment in tests, which cannot change it.
#[cfg(test)]
pub(super) static OF_TESTS: Mutex<BTreeMap<String, Variables>> = Mutex::new(BTreeMap::new());

fn variables(_stated: &Stated) -> Variables {
    #[cfg(test)]
    if let Some(variables) = locked(&OF_TESTS).get(bucket_and_key(_stated).0) {
        return variables.clone();
    }
    let own =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    own.filter(|(name, value)| (name == "HOME" || name.starts_with("AWS_")) && !value.is_empty()).collect()
}

fn bucket_and_key(stated: &Stated) -> (&str, &str) {
    let rest = stated.after(BEGINNING).unwrap_or_default();
    rest.split_once('/').unwrap_or((rest, ""))
}

/// Where the store is, if it is not that of AWS.
fn endpoint(variables: &Variables) -> Option<String> {
    let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
    names.iter().find_map(|name| variables.get(*name)).map(|endpoint| endpoint.trim().to_owned())
}

/// Whether the store is on this machine and spoken to without TLS.
///
/// # Errors
/// No address of a store, which the crate would not survive, or one of another machine without TLS.
fn is_plain(endpoint: &str) -> Result<bool, &'static str> {
    // It is shown, and kept with what is known of the data set.
    if endpoint.contains('@') || holds_secret(Path::new(endpoint)) {
        return Err("AWS_ENDPOINT_URL must hold no key and no password");
    }
    let (scheme, rest) = endpoint.split_once("://").unwrap_or_default();
    let plain = scheme.eq_ignore_ascii_case("http");
    if !plain && !scheme.eq_ignore_ascii_case("https") {
        return Err(
            "AWS_ENDPOINT_URL must begin with http:// or https://: for a store on this machine write http://localhost:9000",
        );
    }
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (address, None),
    };
    if !is_host(host) {
        return Err("AWS_ENDPOINT_URL must name a host behind http:// or https://, as http://localhost:9000 does");
    }
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<NonZeroU16>().is_ok();
    if !port.is_none_or(is_port) {
        return Err("the port of AWS_ENDPOINT_URL is no number from 1 to 65535");
    }
    if !path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/-._~%+".contains(letter)) {
        return Err("the path of AWS_ENDPOINT_URL has a character that cannot stand there");
    }
    let address = host.trim_matches(['[', ']']).parse();
    let here = host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address: IpAddr| address.is_loopback());
    match plain && !here {
        true => Err("without TLS only a store on this machine is spoken to: the endpoint must be https"),
        false => Ok(plain),
    }
}

/// Whether this is the name or the address of a machine.
fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    // What ends in a number is read as an address.
    match last.bytes().all(|digit| digit.is_ascii_digit()) || last.to_ascii_lowercase().starts_with("0x") {
        true => host.parse::<Ipv4Addr>().is_ok(),
        false => is_name(host),
    }
}

/// Whether a text has the characters only that names of hosts, buckets and regions have.
fn is_name(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter))
}

/// Asks the store for the object; a second pass gets the version of the first.
fn found(stated: &Stated) -> Result<Object, ReadError> {
    let (store, name) = store(stated)?;
    let shown = stated.to_string();
    let asked = (Arc::clone(&store), name.clone());
    let head = got(async move { tokio::time::timeout(ANSWER, asked.0.head(&asked.1)).await });
    let about = match head.map_err(ReadError::read(&shown))? {
        Ok(head) => head.map_err(|error| Trouble::of(&error).told(&shown))?,
        Err(_) => {
            let problem = format!("the store does not answer within {} s", ANSWER.as_secs());
            return Err(Trouble::Unreachable(problem).told(&shown));
        }
    };
    let before = locked(&READ).entry(stated.place().to_owned()).or_insert_with(|| about.clone()).clone();
    if (&before.e_tag, before.size, before.last_modified) != (&about.e_tag, about.size, about.last_modified) {
        return Err(ReadError::format(&shown, CHANGED));
    }
    Ok(Object { store, name, about, windows: Mutex::default(), spare: Arc::default(), trouble: Mutex::default() })
}

const CHANGED: &str = "the object was written anew while it was read: start again";

fn store(stated: &Stated) -> Result<(Arc<LimitStore<AmazonS3>>, Name), ReadError> {
    let shown = stated.to_string();
    let wrong = |problem: String| ReadError::stated(shown.clone(), problem);
    let ((bucket, key), variables) = (bucket_and_key(stated), variables(stated));
    if bucket.is_empty()
        || key.is_empty()
        || key.ends_with('/')
        || [bucket, key].iter().any(|part| part.contains(['?', '@']))
    {
        return Err(wrong("an object is stated as s3://BUCKET/KEY".to_owned()));
    }
    if !is_name(bucket) {
        return Err(wrong("the bucket has a character that no bucket can have".to_owned()));
    }
    let name = Name::parse(key).map_err(|_| wrong("the key has a part that no key can have".to_owned()))?;
    let options = ClientOptions::new().with_connect_timeout(CONNECTION).with_timeout(REQUEST);
    let retries = RetryConfig { max_retries: ATTEMPTS, retry_timeout: PATIENCE, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::new();
    for (name, value) in &variables {
        if let Ok(key) = name.to_ascii_lowercase().parse::<Key>() {
            builder = builder.with_config(key, value.trim());
        }
    }
    builder = builder.with_client_options(options).with_retry(retries).with_bucket_name(bucket).with_allow_http(false);
    if let Some(endpoint) = endpoint(&variables) {
        let plain = is_plain(&endpoint).map_err(|problem| wrong(problem.to_owned()))?;
        // A store that is no bucket's own host has its buckets in the path.
        builder = builder.with_endpoint(endpoint).with_allow_http(plain);
    }
    if builder.get_config_value(&Key::Region).is_none() {
        builder = builder.with_region("us-east-1");
    }
    builder = keys(builder, &variables, &shown)?;
    check_keys(&builder).map_err(&wrong)?;
    // What the crate says quotes values.
    let store = builder.build().map_err(|_| wrong(unusable(&variables)))?;
    Ok((Arc::new(LimitStore::new(store, AT_ONCE)), name))
}

/// The keys: from the environment, from a role that it names, or from the file of AWS.
fn keys(builder: AmazonS3Builder, variables: &Variables, shown: &str) -> Result<AmazonS3Builder, ReadError> {
    const NAMED: [Key; 6] = [
        Key::AccessKeyId,
        Key::SkipSignature,
        Key::WebIdentityTokenFile,
        Key::ContainerCredentialsRelativeUri,
        Key::ContainerCredentialsFullUri,
        Key::MetadataEndpoint,
    ];
    if NAMED.iter().any(|key| builder.get_config_value(key).is_some_and(|value| !value.is_empty() && value != "false"))
    {
        return Ok(builder);
    }
    let file = variables.get("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let file = file.or_else(|| variables.get("HOME").map(|home| PathBuf::from(home).join(".aws/credentials")));
    let profile = variables.get("AWS_PROFILE").map_or("default", String::as_str);
    if let Some(file) = &file {
        secrets::check(file, "keys", shown)?;
    }
    let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let entries = entries(&text, profile);
    match (entries.get("aws_access_key_id"), entries.get("aws_secret_access_key")) {
        (Some(id), Some(secret)) => {
            let builder = builder.with_access_key_id(*id).with_secret_access_key(*secret);
            Ok(match entries.get("aws_session_token") {
                Some(token) => builder.with_token(*token),
                None => builder,
            })
        }
        _ => {
            let problem = "no key for the store is known: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials \
                 (AWS_SKIP_SIGNATURE=true for a public bucket)";
            Err(ReadError::Refused { file: shown.to_owned(), problem: problem.to_owned() })
        }
    }
}

/// Whether keys and region can stand in a request, which the crate takes for granted.
fn check_keys(builder: &AmazonS3Builder) -> Result<(), String> {
    fn is_line(text: &str) -> bool {
        text.bytes().all(|letter| (b' '..=b'~').contains(&letter))
    }
    fn is_text(text: &str) -> bool {
        !text.contains(char::is_control)
    }
    let parts = [
        (Key::AccessKeyId, "the name of the key (AWS_ACCESS_KEY_ID, aws_access_key_id)", is_line as fn(&str) -> bool),
        (Key::SecretAccessKey, "the key (AWS_SECRET_ACCESS_KEY, aws_secret_access_key)", is_text),
        (Key::Token, "the token (AWS_SESSION_TOKEN, aws_session_token)", is_line),
        (Key::Region, "the region (AWS_REGION)", is_name),
    ];
    for (key, name, is_usable) in parts {
        if !builder.get_config_value(&key).is_none_or(|value| is_usable(&value)) {
            return Err(format!("{name} holds a line break or another character that cannot stand there"));
        }
    }
    let is_set = |key| builder.get_config_value(&key).is_some();
    match is_set(Key::AccessKeyId) && !is_set(Key::SecretAccessKey) {
        true => Err("AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY".to_owned()),
        false => Ok(()),
    }
}

/// What is said where the crate cannot use what the environment says: the name of the variable, and not its value.
fn unusable(variables: &Variables) -> String {
    let alone = |name: &str, value: &str| {
        let key = name.to_ascii_lowercase().parse::<Key>().ok()?;
        let builder = AmazonS3Builder::new().with_access_key_id("key").with_secret_access_key("key");
        let builder = builder.with_config(key, value.trim()).with_client_options(ClientOptions::new());
        builder.with_bucket_name("bucket").build().err()
    };
    match variables.iter().find(|(name, value)| alone(name, value).is_some()) {
        Some((name, _)) => format!("{name} has a value that it cannot have"),
        None => "the variables AWS_* of the environment do not go together".to_owned(),
    }
}

/// The entries of a profile in a file of AWS.
fn entries<'a>(text: &'a str, profile: &str) -> BTreeMap<&'a str, &'a str> {
    let mut own = false;
    let mut entries = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            own = name.trim() == profile;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| own) {
            entries.insert(key.trim(), value.trim());
        }
    }
    entries
}

/// What the crate says before the code of an answer, and where an answer sends us on without saying where to.
const STATUS: &str = "non-2xx status code: ";
const REDIRECT: &str = "redirect without LOCATION";

/// The code of the answer of which an error tells; the crate keeps it to itself.
fn status(said: &str) -> Option<u16> {
    said.split_once(STATUS)?.1.get(..3)?.parse().ok()
}

/// What the system says, where an error comes from it.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = Some(error);
    let mut reason = String::new();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.raw_os_error().is_some()
        {
            reason = format!(" ({error})");
        }
        cause = error.source();
    }
    reason
}

impl Object {
    /// Why reading ended, where it was the store; otherwise what those who read it say.
    fn cause(&self, name: &str, error: ReadError) -> ReadError {
        locked(&self.trouble).clone().map_or(error, |trouble| trouble.told(name))
    }

    /// Asks for bytes, without waiting.
    fn fetch(&self, range: Range<u64>) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        let (own, store, name, tag) =
            (Arc::clone(&slot), Arc::clone(&self.store), self.name.clone(), self.about.e_tag.clone());
        let spare = Arc::clone(&self.spare);
        let fetch = async move {
            let length = range.end - range.start;
            let options = GetOptions { if_match: tag, range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
            let got = async { filled(store.get_opts(&name, options).await?, &spare, length).await };
            own.put(match got.await {
                Ok(bytes) if bytes.len() as u64 == length => Ok(bytes.freeze()),
                Ok(_) => Err(Trouble::Unreachable("the store sends other parts than it was asked for".to_owned())),
                Err(error) => Err(Trouble::of(&error)),
            });
        };
        match speaker() {
            Ok(speaker) => drop(speaker.spawn(fetch)),
            Err(error) => slot.put(Err(Trouble::Unreachable(error.to_string()))),
        }
        slot
    }

    /// Keeps the room of parts that nobody reads any more.
    fn keep(&self, read: BTreeMap<u64, Arc<Slot>>) {
        let mut spare = locked(&self.spare);
        for slot in read.into_values() {
            let come = Arc::into_inner(slot).and_then(|slot| slot.come.into_inner().ok().flatten());
            if let Some(room) = come.and_then(|come| come.ok()?.try_into_mut().ok())
                && spare.len() < SPARE
            {
                spare.push(room);
            }
        }
    }

    /// The part with a byte, and where it begins; those after it are asked for.
    fn slot(&self, place: u64) -> (u64, Arc<Slot>) {
        let mut windows = locked(&self.windows);
        let window = windows.expected.range_mut(..=place).next_back().filter(|(_, window)| place < window.end);
        if let Some((start, window)) = window {
            let number = (place - start) / PART;
            self.ask(*start, window, number, AHEAD);
            // Nobody goes back in what is read from its beginning on.
            let parts = window.parts.split_off(&number);
            self.keep(std::mem::replace(&mut window.parts, parts));
            if let Some(slot) = window.parts.get(&number) {
                return (start + number * PART, Arc::clone(slot));
            }
        }
        if let Some((start, slot)) = windows.other.as_ref().filter(|(start, _)| (*start..start + END).contains(&place))
        {
            return (*start, Arc::clone(slot));
        }
        // The end of an object is read in pieces that go backwards.
        let start = if place + END >= self.about.size { self.about.size.saturating_sub(END) } else { place };
        let slot = self.fetch(start..self.about.size.min(start + END));
        windows.other = Some((start, Arc::clone(&slot)));
        (start, slot)
    }

    /// What has come from a place on, as far as its part goes.
    fn from(&self, place: u64) -> io::Result<bytes::Bytes> {
        let (start, slot) = self.slot(place);
        let come = slot.wait().map_err(|trouble| {
            *locked(&self.trouble) = Some(trouble);
            io::Error::other("the store gives no more of the object")
        })?;
        let from = usize::try_from(place - start).map_or(come.len(), |from| from.min(come.len()));
        Ok(come.slice(from..))
    }

    /// Asks for a part and for some after it.
    fn ask(&self, start: u64, window: &mut Window, number: u64, ahead: u64) {
        for number in number..=number + ahead {
            let from = start + number * PART;
            if from < window.end {
                window.parts.entry(number).or_insert_with(|| self.fetch(from..window.end.min(from + PART)));
            }
        }
    }
}

impl Ranges for Object {
    fn size(&self) -> u64 {
        self.about.size
    }

    fn read_at(&self, bytes: &mut [u8], place: u64) -> io::Result<usize> {
        if place >= self.about.size || bytes.is_empty() {
            return Ok(0);
        }
        let part = self.from(place)?;
        let count = part.len().min(bytes.len());
        bytes[..count].copy_from_slice(&part[..count]);
        Ok(count)
    }

    fn piece(&self, place: u64, length: usize) -> io::Result<Option<bytes::Bytes>> {
        if place >= self.about.size {
            return Ok(None);
        }
        let part = self.from(place)?;
        Ok((part.len() >= length).then(|| part.slice(..length)))
    }

    fn announce(&self, parts: &[Range<u64>], later: &[Range<u64>]) {
        let mut windows = locked(&self.windows);
        let mut before = std::mem::take(&mut windows.expected);
        // Of what is read later its beginning is enough, and as much as can be under way.
        let later = later.iter().take(AT_ONCE).map(|part| (part, 0));
        let all = parts.iter().map(|part| (part, AHEAD)).chain(later);
        for (part, ahead) in all.filter(|(part, _)| part.start < part.end.min(self.about.size)) {
            let end = part.end.min(self.about.size);
            // What is on its way already is not asked for again.
            let known = before.remove(&part.start).filter(|window| window.end == end);
            let mut window = known.unwrap_or_else(|| Window { end, parts: BTreeMap::new() });
            self.ask(part.start, &mut window, 0, ahead);
            windows.expected.insert(part.start, window);
        }
        before.into_values().for_each(|window| self.keep(window.parts));
    }
}
