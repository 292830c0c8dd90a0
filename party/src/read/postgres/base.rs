//! Connections, and the one snapshot that all readings of a process share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::{DbError, ErrorPosition, SqlState};
use tokio_postgres::types::{Kind as TypeKind, Type};
use tokio_postgres::{Client, Config, Error, NoTls};

use super::super::{Chosen, Identity, ReadError, Stated};
use super::dsn::Place;
use super::tls::Tls;

/// What every reading asks for: all of it in one moment, and nothing else than reading.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Rows come in the same order in every pass, as far as the query leaves it open, and times mean and are written the same everywhere.
const SETTINGS: &str = "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; SET LOCAL synchronize_seqscans = off; \
    SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

/// The tables that the transaction has read, those behind materialised views too, by number and by name.
const RELATIONS: &str = "WITH RECURSIVE read(relation) AS (
        SELECT relation FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        UNION SELECT d.refobjid FROM read JOIN pg_class c ON c.oid = read.relation AND c.relkind IN ('m', 'v')
            JOIN pg_rewrite w ON w.ev_class = c.oid
            JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass
    )
    SELECT c.oid::int8, n.nspname::text, c.relname::text FROM read
        JOIN pg_class c ON c.oid = read.relation JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        ORDER BY 2, 3";

/// What is said of a statement that no cursor can be of.
const NO_CURSOR: [SqlState; 3] =
    [SqlState::SYNTAX_ERROR, SqlState::FEATURE_NOT_SUPPORTED, SqlState::INVALID_CURSOR_DEFINITION];

/// What the crate says where a server asks for a password that it was not given.
const NO_PASSWORD: &str = "password missing";

/// How long a connection may be silent before it is looked whether the server is still there.
const SILENCE: Duration = Duration::from_secs(30);

/// The snapshots of this process, by data base and by what is read of it.
static HELD: Mutex<BTreeMap<(PathBuf, String), Arc<Held>>> = Mutex::new(BTreeMap::new());

/// A snapshot that is held until the process ends, with the locks that keep what is read from being changed in its form.
pub(super) struct Held {
    pub(super) place: Place,
    /// What is read.
    pub(super) query: String,
    /// Its columns.
    pub(super) columns: Vec<Column>,
    /// The name by which other transactions take part in it.
    pub(super) snapshot: String,
    ask: UnboundedSender<SyncSender<Result<Identity, ReadError>>>,
}

/// A column of what is read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    /// Its type, under all domains.
    pub(super) of: Type,
}

pub(super) fn runtime(name: &str) -> Result<Runtime, ReadError> {
    Builder::new_current_thread().enable_all().build().map_err(ReadError::read(name))
}

/// The snapshot that this process has of a source; the first who asks takes it.
pub(super) fn held(stated: &Stated) -> Result<Arc<Held>, ReadError> {
    let place = Place::read(stated.place(), &variable)?;
    let query = query(stated, &place)?;
    let key = (stated.place().to_owned(), query.clone());
    let mut all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(held) = all.get(&key) {
        return Ok(Arc::clone(held));
    }
    let held = Arc::new(hold(place, query)?);
    all.insert(key, Arc::clone(&held));
    Ok(held)
}

/// By what a source is known again: the server, the tables that it reads, whatever the query says, and nothing of the query.
pub(super) fn identity(stated: &Stated) -> Result<Identity, ReadError> {
    let held = held(stated)?;
    let (answer, answered) = sync_channel(1);
    let gone = || gone(&held.place.name);
    held.ask.send(answer).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// That the snapshot cannot be taken part in any more.
pub(super) fn gone(name: &str) -> ReadError {
    let problem = "the server has ended the snapshot that all passes share: start again";
    ReadError::Unreachable { file: name.to_owned(), problem: problem.to_owned() }
}

fn query(stated: &Stated, place: &Place) -> Result<String, ReadError> {
    match stated.chosen() {
        Some(Chosen::Table(name)) => {
            Ok(format!("SELECT * FROM {}", name.split('.').map(quoted).collect::<Vec<_>>().join(".")))
        }
        Some(Chosen::Query(text)) => Ok(text.trim().trim_end_matches(';').to_owned()),
        None => Err(ReadError::stated(place.name.clone(), "neither a table nor a query is stated")),
    }
}

/// What begins a transaction that takes part in a snapshot.
pub(super) fn begin_with(snapshot: &str) -> String {
    format!("{BEGIN}; SET TRANSACTION SNAPSHOT '{}'; {SETTINGS}", snapshot.replace('\'', "''"))
}

/// A name as SQL has it, whatever letters it has.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Begins the transaction in a thread that lives as long as the process.
fn hold(place: Place, query: String) -> Result<Held, ReadError> {
    let (tell, told) = sync_channel(1);
    let (ask, asked) = unbounded_channel();
    let (name, own, text) = (place.name.clone(), place.clone(), query.clone());
    let thread = move || {
        let runtime = match runtime(&own.name) {
            Ok(runtime) => runtime,
            Err(error) => return drop(tell.send(Err(error))),
        };
        runtime.block_on(async move {
            match begin(&own, &text).await {
                Err(error) => drop(tell.send(Err(error))),
                Ok((client, system, snapshot, columns)) => {
                    let _ = tell.send(Ok((snapshot, columns)));
                    answer(&own, &client, &system, asked).await;
                }
            }
        });
    };
    thread::Builder::new().name("snapshot".to_owned()).spawn(thread).map_err(ReadError::read(&name))?;
    let (snapshot, columns) = told.recv().map_err(|_| gone(&name))??;
    Ok(Held { place, query, columns, snapshot, ask })
}

async fn begin(place: &Place, query: &str) -> Result<(Client, String, String, Vec<Column>), ReadError> {
    let client = connect(place).await?;
    let failed = failure(place);
    // Before the transaction, which a refusal would end; without it the address stands for the server.
    let system = client.query_one("SELECT system_identifier::text FROM pg_control_system()", &[]).await;
    let system = system.and_then(|row| row.try_get(0)).unwrap_or_else(|_| format!("{}:{}", place.host, place.port));
    let base = client.query_one("SELECT oid::int8 FROM pg_database WHERE datname = current_database()", &[]).await;
    let base: i64 = base.and_then(|row| row.try_get(0)).map_err(&failed)?;
    client.batch_execute(BEGIN).await.map_err(&failed)?;
    client.batch_execute(SETTINGS).await.map_err(&failed)?;
    let snapshot = client.query_one("SELECT pg_export_snapshot()", &[]).await.map_err(&failed)?;
    let snapshot: String = snapshot.try_get(0).map_err(&failed)?;
    let columns = columns(place, &client, query).await?;
    // Planned, it has locked all that it will read.
    let cursor = format!("DECLARE fedreg NO SCROLL CURSOR FOR {query}\n");
    client.batch_execute(&cursor).await.map_err(|error| {
        // It could be prepared: then it is a statement, and none that gives rows and does nothing else.
        match error.code().is_some_and(|code| NO_CURSOR.contains(code)) {
            true => ReadError::stated(&place.name, "the query does something else than reading"),
            false => failed(error),
        }
    })?;
    Ok((client, format!("{system} {base}"), snapshot, columns))
}

/// The columns of a query.
pub(super) async fn columns(place: &Place, client: &Client, query: &str) -> Result<Vec<Column>, ReadError> {
    let statement = client.prepare(query).await.map_err(failure(place))?;
    let refused = |problem: &str| Err(ReadError::stated(place.name.clone(), problem));
    if !statement.params().is_empty() {
        return refused("the query has places for values such as `$1`: write the values into it");
    }
    if statement.columns().is_empty() {
        return refused("the query gives no rows");
    }
    let under = |of: &Type| {
        let mut of = of.clone();
        while let TypeKind::Domain(base) = of.kind() {
            of = base.clone();
        }
        of
    };
    let columns = statement.columns().iter();
    Ok(columns.map(|column| Column { name: column.name().to_owned(), of: under(column.type_()) }).collect())
}

/// Tells who asks by what the source is known, until nobody can ask any more.
async fn answer(
    place: &Place,
    client: &Client,
    system: &str,
    mut asked: UnboundedReceiver<SyncSender<Result<Identity, ReadError>>>,
) {
    let mut fetched = false;
    while let Some(answer) = asked.recv().await {
        let known = async {
            // Functions read their tables once they run.
            if !fetched {
                client.batch_execute("FETCH FORWARD 1 FROM fedreg").await.map_err(failure(place))?;
                fetched = true;
            }
            relations(place, client, system).await
        };
        let _ = answer.send(known.await);
    }
}

async fn relations(place: &Place, client: &Client, system: &str) -> Result<Identity, ReadError> {
    let failed = failure(place);
    let rows = client.query(RELATIONS, &[]).await.map_err(&failed)?;
    let (mut parts, mut names) = (Vec::new(), Vec::new());
    for row in rows {
        let number: i64 = row.try_get(0).map_err(&failed)?;
        let name: String =
            format!("{}.{}", row.try_get::<_, &str>(1).map_err(&failed)?, row.try_get::<_, &str>(2).map_err(&failed)?);
        // A table that is made anew has another number, and one that is renamed another name.
        parts.push(format!("postgres {system} table {number}"));
        parts.push(format!("postgres {system} table {name}"));
        names.push(name);
    }
    let names = names.join(", ");
    Ok(Identity {
        key: format!("postgres {system} tables {names}"),
        parts,
        place: format!("{} tables {names}", place.name),
        stamp: None,
    })
}

/// Connects; the connection ends with the client.
pub(super) async fn connect(place: &Place) -> Result<Client, ReadError> {
    let mut config = Config::new();
    config
        .user(&place.user)
        .host(&place.host)
        .port(place.port)
        .dbname(&place.database)
        .application_name("fedreg")
        .connect_timeout(place.patience)
        .keepalives_idle(SILENCE)
        .tcp_user_timeout(4 * SILENCE);
    if let Some(password) = place.password(&variable)? {
        config.password(password);
    }
    let failed = failure(place);
    let answered = match &place.authorities {
        None => {
            let connecting = config.ssl_mode(SslMode::Disable).connect(NoTls);
            let (client, connection) = in_time(place, connecting).await?.map_err(&failed)?;
            tokio::spawn(connection);
            client
        }
        Some(file) => {
            let tls = Tls::new(file).map_err(|problem| ReadError::stated(place.name.clone(), problem))?;
            let connecting = config.ssl_mode(SslMode::Require).connect(tls);
            let (client, connection) = in_time(place, connecting).await?.map_err(&failed)?;
            tokio::spawn(connection);
            client
        }
    };
    Ok(answered)
}

/// The crate counts the time of the connection only, and not that of a server that does not speak.
async fn in_time<T>(place: &Place, connecting: impl Future<Output = T>) -> Result<T, ReadError> {
    let connected = tokio::time::timeout(place.patience, connecting).await;
    connected.map_err(|_| {
        let problem = format!("the server does not answer within {} s", place.patience.as_secs());
        ReadError::Unreachable { file: place.name.clone(), problem }
    })
}

/// What an error of the server or of the line means here. Its text is the server's, which has no password to tell.
pub(super) fn failure(place: &Place) -> impl Fn(Error) -> ReadError {
    let (file, user) = (place.name.clone(), place.user.clone());
    move |error| {
        let file = file.clone();
        let Some(said) = error.as_db_error() else {
            let said = fedreg_proto::output::chain(&error);
            if said.contains(NO_PASSWORD) {
                let problem = format!(
                    "the server asks {user} for a password and none is known: PGPASSWORD and ~/.pgpass can hold it"
                );
                return ReadError::Refused { file, problem };
            }
            let problem = match error.is_closed() {
                true => "the server has closed the connection".to_owned(),
                false => format!("the server cannot be spoken to ({said})"),
            };
            return match std::error::Error::source(&error).is_some_and(is_of_certificates) {
                true => ReadError::Refused { file, problem },
                false => ReadError::Unreachable { file, problem },
            };
        };
        let (code, problem) = (said.code(), told(said));
        match code.code().get(..2) {
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
                ReadError::stated(file, format!("the query does something else than reading ({problem})"))
            }
            _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => ReadError::Refused { file, problem },
            _ if *code == SqlState::UNDEFINED_OBJECT && problem.contains("snapshot") => gone(&file),
            _ if *code == SqlState::INVALID_PARAMETER_VALUE && problem.contains("snapshot") => gone(&file),
            Some("28") => {
                ReadError::Refused { file, problem: format!("the server does not let {user} in ({problem})") }
            }
            Some("3D") => ReadError::stated(file, problem),
            Some("08" | "53" | "57" | "58" | "XX") => {
                ReadError::Unreachable { file, problem: format!("the server has broken off ({problem})") }
            }
            _ => ReadError::format(&file, format!("the server refuses the query ({problem})")),
        }
    }
}

/// What the server says, without what it quotes of literals in the query or of values in rows.
fn told(said: &DbError) -> String {
    let message = said.message();
    if *said.code() == SqlState::SYNTAX_ERROR {
        return match said.position() {
            Some(ErrorPosition::Original(at)) => format!("syntax error at character {at} of the query"),
            _ => "syntax error".to_owned(),
        };
    }
    match said.code().code().get(..2) {
        // Data exceptions end with the value: `invalid input syntax for type integer: "12 kg"`.
        Some("22") => message.split(": \"").next().unwrap_or_default().to_owned(),
        _ => message.to_owned(),
    }
}

fn is_of_certificates(error: &(dyn std::error::Error + 'static)) -> bool {
    let text = fedreg_proto::output::chain(error);
    text.contains("certificate")
}
