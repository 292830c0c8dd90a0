//! Logs on stderr: readable on a terminal, JSON for machines.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use fedreg_common::names::is_hidden;
use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

/// What is logged when `RUST_LOG` is not set: our own crates at `info`, everything else at `warn`.
pub const DEFAULT_FILTER: &str = "warn,fedreg_common=info,fedreg_proto=info,fedreg_party=info,fedreg_coordinator=info,\
     fedreg_examples=info,alice=info,bob=info,worker=info,coordinator=info,demo=info";

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// Readable on a terminal, JSON elsewhere
    #[default]
    Auto,
    /// Readable lines
    Text,
    /// One JSON object a line
    Json,
}

/// Whether `--log json` was given.
static JSON_ASKED_FOR: AtomicBool = AtomicBool::new(false);

/// Sends the log of this process to stderr. Call once, first thing in `main`; later calls change nothing.
///
/// `RUST_LOG` replaces [`DEFAULT_FILTER`]; where it cannot be understood, the log says so and the default stands.
pub fn init(format: LogFormat) {
    JSON_ASKED_FOR.store(format == LogFormat::Json, Ordering::Relaxed);
    let terminal = std::io::stderr().is_terminal();
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (filter, complaint) = filter(std::env::var("RUST_LOG").ok().as_deref());
    // Failing means that a subscriber is there already, as under a test harness: it keeps working.
    let _ = tracing::subscriber::set_global_default(subscriber(json, colour, filter, std::io::stderr));
    if let Some(complaint) = complaint {
        tracing::warn!("{complaint}");
    }
}

/// Says on stderr why the program ends: in a line for people and scripts, and where `--log json` was given in an object like the others.
pub fn last_words(who: &str, sentence: &str) {
    match JSON_ASKED_FOR.load(Ordering::Relaxed) {
        true => as_object(who, sentence, std::io::stderr),
        false => say(&format!("{who}: {sentence}")),
    }
}

/// Says something on stderr. A reader that has gone, or a disk that is full, ends nothing.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", on_terminal(text));
}

/// A text in which no letter controls a terminal or reorders what stands around it: names and files of others may hold some.
fn on_terminal(text: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| matches!(letter, '\n' | '\t') || !is_hidden(letter);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_plain(letter) { shown.push(letter) } else { shown.extend(letter.escape_unicode()) }
    }
    Cow::Owned(shown)
}

fn as_object<W>(who: &str, sentence: &str, writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // Whatever `RUST_LOG` says.
    let filter = Targets::new().with_default(LevelFilter::ERROR);
    tracing::subscriber::with_default(subscriber(true, false, filter, writer), || tracing::error!(who, "{sentence}"));
}

/// A subscriber that writes to `writer`; [`init`] gives it stderr.
pub fn subscriber<W>(
    json: bool,
    colour: bool,
    filter: Targets,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync + 'static>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // What cannot be written is lost: to say so on stderr would end the program where that is what cannot be written.
    let builder =
        tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(writer).log_internal_errors(false);
    if json {
        Box::new(builder.json().flatten_event(true).finish().with(filter))
    } else {
        Box::new(builder.with_ansi(colour).with_target(false).finish().with(filter))
    }
}

/// The filter for a value of `RUST_LOG`, and a complaint if that value could not be used.
///
/// `LEVEL` or `MODULE=LEVEL`, several separated by commas.
pub fn filter(rust_log: Option<&str>) -> (Targets, Option<String>) {
    let default = || DEFAULT_FILTER.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    match rust_log.map(str::trim) {
        None | Some("") => (default(), None),
        Some(value) => match value.parse() {
            Ok(filter) => (filter, None),
            Err(error) => {
                (default(), Some(format!("RUST_LOG is ignored: {error}; expected for example fedreg_proto=debug")))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_letter_of_a_sentence_controls_a_terminal() {
        assert_eq!(on_terminal("no column `Größe`\n  at line 3\t!"), "no column `Größe`\n  at line 3\t!");
        assert_eq!(on_terminal("key `a\u{1b}[31m\u{202e}b`"), "key `a\\u{1b}[31m\\u{202e}b`");
    }

    fn logged(json: bool, rust_log: Option<&str>) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(json, false, filter(rust_log).0, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "fedreg_party::drive", round = 3, "round answered");
            tracing::info!(target: "h2::codec", "noise of a library");
            tracing::warn!(target: "h2::codec", "trouble in a library");
            tracing::debug!(target: "fedreg_party::drive", "detail");
        });
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn by_default_our_crates_speak_at_info_and_libraries_at_warn() {
        let text = logged(false, None);
        assert!(text.contains("round answered") && text.contains("round=3"), "{text}");
        assert!(text.contains("trouble in a library"));
        assert!(!text.contains("noise of a library") && !text.contains("detail"));
        assert!(!text.contains('\u{1b}'), "no colours unless asked for");
    }

    #[test]
    fn json_lines_carry_fields_by_name() {
        let text = logged(true, None);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with('{') && first.ends_with('}'), "{first}");
        assert!(first.contains(r#""round":3"#) && first.contains(r#""level":"INFO""#), "{first}");
    }

    #[test]
    fn last_words_are_an_object_like_the_others_where_that_is_asked_for() {
        let sink = Sink::default();
        let writer = sink.clone();
        as_object("alice", "column \"age\" is missing", move || writer.clone());
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let said: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!([&said["level"], &said["who"]], ["ERROR", "alice"]);
        assert_eq!(said["message"], "column \"age\" is missing");
        assert!(said["timestamp"].is_string() && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn rust_log_replaces_the_default_and_nonsense_is_named() {
        assert!(logged(false, Some("fedreg_party=debug")).contains("detail"));
        assert!(!logged(false, Some("fedreg_party=debug")).contains("trouble in a library"));
        let (_, complaint) = filter(Some("fedreg_party=chatty"));
        assert!(complaint.unwrap().starts_with("RUST_LOG is ignored"));
    }
}
