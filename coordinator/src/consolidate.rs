//! `coordinator consolidate`: one set of coefficients from estimates that came as lines of JSON.
//!
//! No study, no connection and no data: the lines are what `worker estimate` writes, wherever other engines ran it.
//! Arrow is not read here, since the coordinator holds no reader of data.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fedreg_common::exit::Exit;
use fedreg_common::fit::{BatchName, Consolidation, Rejection};
use fedreg_common::methods::robust::report::Consolidated;
use fedreg_common::methods::robust::{
    ConsolidateError, ConsolidationSettings, EstimateError, Estimates, Insertion, Method, Metric, Record, consolidate,
};
use fedreg_proto::shell::{Values, values};
use thiserror::Error;

/// Longest line, bytes: an estimate of 2000 coefficients with its Gram is shorter.
const LONGEST_LINE: usize = 64 << 20;

/// What is consolidated, and how.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Files of estimates, one a line as `worker estimate` writes them; `-` or none reads standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How estimates become one: refine, pivot, geomed, trimmed, cmedian, filter or mean
    #[arg(long, value_name = "METHOD", default_value_t, visible_alias = "method")]
    pub consolidation: Method,
    /// Estimates that `trimmed` discards at either end, or bad ones that `filter` withstands
    #[arg(long, value_name = "NUMBER")]
    pub discard: Option<usize>,
    /// What a distance between estimates means
    #[arg(long, value_parser = values(&METRICS), default_value = "automatic", value_name = "METRIC")]
    pub metric: Metric,
    /// Leave out lines that are no sound estimates, and name them, where otherwise the first ends the command
    ///
    /// Where lines differ in their columns, those that most lines have count.
    #[arg(long)]
    pub keep_going: bool,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub format: FormatName,
}

/// Metrics by their names on the command line.
const METRICS: Values<Metric, 3> = [
    (
        "automatic",
        "As the method has it: between coefficients for pivot, between predictions otherwise where every estimate has its Gram",
        Metric::Automatic,
    ),
    ("euclidean", "Between coefficients as they are", Metric::Euclidean),
    ("majority", "Between predictions over the majority's rows", Metric::Majority),
];

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum FormatName {
    /// A summary, as R prints it, with the batches
    #[default]
    Text,
    /// Everything, with stable names
    Json,
    /// The coefficient table
    Csv,
    /// One page with pictures
    Html,
}

/// Why there is no result.
#[derive(Debug, Error)]
pub enum ConsolidationFailure {
    /// A file of estimates that cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The error beneath.
        source: io::Error,
    },
    /// A line that is no sound estimate.
    #[error("{}: {}", .0.from, .0.reason)]
    Line(Rejection),
    /// Nothing to consolidate.
    #[error("there are no estimates in {0}")]
    Empty(String),
    /// Settings that do not fit the estimates.
    #[error(transparent)]
    Consolidate(#[from] ConsolidateError),
}

impl ConsolidationFailure {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            ConsolidationFailure::Consolidate(ConsolidateError::Empty)
            | ConsolidationFailure::Read { .. }
            | ConsolidationFailure::Line(_)
            | ConsolidationFailure::Empty(_) => Exit::Data,
            ConsolidationFailure::Consolidate(_) => Exit::Usage,
        }
    }
}

/// Reads estimates and gives the report as text with the exit code: 3 where the result lies outside the guarantee.
///
/// # Errors
/// Files that cannot be read, lines that are no sound estimates, no estimate at all, settings that do not fit.
pub fn run(arguments: &Arguments, call: String, input: impl Read) -> Result<(String, Exit), ConsolidationFailure> {
    let settings = settings(arguments);
    let mut gathering = Gathering { keep_going: arguments.keep_going, ..Gathering::default() };
    let mut input = Some(input);
    let files: &[PathBuf] = if arguments.files.is_empty() { &[PathBuf::from("-")] } else { &arguments.files };
    for path in files {
        if path == Path::new("-") {
            if let Some(input) = input.take() {
                gathering.read(BufReader::new(input), "standard input")?;
            }
        } else {
            let file = path.display().to_string();
            let source =
                File::open(path).map_err(|source| ConsolidationFailure::Read { file: file.clone(), source })?;
            gathering.read(BufReader::with_capacity(1 << 18, source), &file)?;
        }
    }
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let (shape, estimates) = gathering
        .finish()
        .ok_or_else(|| ConsolidationFailure::Empty(names.join(", ").replace('-', "standard input")))?;
    let consensus = consolidate(&estimates, &settings)?;
    let mut about = Consolidation::new(&consensus);
    (about.repeated, about.rejected) = (gathering.repeated, gathering.rejected);
    let report = Consolidated::new(call, shape.outcome, &shape.terms.unwrap_or_default(), &consensus, about);
    let text = match arguments.format {
        FormatName::Text => report.text(),
        FormatName::Json => report.json(),
        FormatName::Csv => report.csv(),
        FormatName::Html => report.html(),
    };
    Ok((text, report.consolidation.exit()))
}

fn settings(arguments: &Arguments) -> ConsolidationSettings {
    let method = match (arguments.consolidation, arguments.discard) {
        (Method::Trimmed { .. }, discard @ Some(_)) => Method::Trimmed { discard },
        (Method::Filter { .. }, discard @ Some(_)) => Method::Filter { discard },
        (method, _) => method,
    };
    ConsolidationSettings { method, metric: arguments.metric }
}

/// What estimates must have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    coefficients: usize,
    with_gram: bool,
    outcome: Option<String>,
    terms: Option<Vec<String>>,
}

/// Estimates of one shape.
struct Group {
    estimates: Estimates,
    first: String,
}

/// Estimates that are being read. Each is held once, as numbers.
#[derive(Default)]
struct Gathering {
    keep_going: bool,
    groups: BTreeMap<Shape, Group>,
    repeated: Vec<BatchName>,
    rejected: Vec<Rejection>,
}

impl Gathering {
    fn read(&mut self, mut source: impl BufRead, file: &str) -> Result<(), ConsolidationFailure> {
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let limited = source.by_ref().take(LONGEST_LINE as u64 + 1).read_until(b'\n', &mut line);
            limited.map_err(|source| ConsolidationFailure::Read { file: file.to_owned(), source })?;
            if line.is_empty() {
                break;
            }
            let from = format!("{file}, line {number}");
            if line.len() > LONGEST_LINE {
                // Where the line ends is not known, so nothing after it can be trusted to be one.
                let reason = format!("expected lines of at most {} MiB", LONGEST_LINE >> 20);
                return Err(ConsolidationFailure::Line(Rejection { from, reason }));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            if let Err(reason) = self.take(&line, &from) {
                let rejection = Rejection { from, reason };
                if !self.keep_going {
                    return Err(ConsolidationFailure::Line(rejection));
                }
                self.rejected.push(rejection);
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &[u8], from: &str) -> Result<(), String> {
        let text = std::str::from_utf8(line).map_err(|_| "this is no text in UTF-8".to_owned())?;
        let record = Record::parse(text).map_err(|error| format!("this is no estimate ({error})"))?;
        if let Some(terms) = record.terms.as_ref().filter(|terms| terms.len() != record.coefficients.len()) {
            let (terms, coefficients) = (terms.len(), record.coefficients.len());
            return Err(format!("expected a coefficient for each of {terms} terms, got {coefficients}"));
        }
        let shape = Shape {
            coefficients: record.coefficients.len(),
            with_gram: record.gram.is_some(),
            outcome: record.outcome.clone(),
            terms: record.terms.clone(),
        };
        if shape.coefficients == 0 {
            return Err("expected at least one coefficient".to_owned());
        }
        if !self.keep_going
            && let Some((first, group)) = self.groups.first_key_value().filter(|(first, _)| **first != shape)
        {
            return Err(difference(first, &shape, &group.first));
        }
        let estimate = record.into_estimate();
        let name = BatchName { worker: estimate.worker.clone(), batch: estimate.batch };
        let group = self.groups.entry(shape.clone()).or_insert_with(|| Group {
            estimates: Estimates::new(shape.coefficients, shape.with_gram),
            first: from.to_owned(),
        });
        let inserted: Result<Insertion, EstimateError> = group.estimates.insert(estimate);
        if group.estimates.is_empty() {
            self.groups.remove(&shape);
        }
        match inserted {
            Ok(Insertion::New) => Ok(()),
            Ok(Insertion::Repeated) => {
                self.repeated.push(name);
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The estimates of the shape that most have; the others are rejected.
    fn finish(&mut self) -> Option<(Shape, Estimates)> {
        let most = self.groups.values().map(|group| group.estimates.len()).max()?;
        let chosen =
            self.groups.iter().find(|(_, group)| group.estimates.len() == most).map(|(shape, _)| shape.clone())?;
        let group = self.groups.remove(&chosen)?;
        for (shape, other) in &self.groups {
            for estimate in other.estimates.iter() {
                let from = format!("batch {} of {}", estimate.batch, estimate.worker);
                self.rejected.push(Rejection { from, reason: difference(&chosen, shape, &group.first) });
            }
        }
        Some((chosen, group.estimates))
    }
}

/// How an estimate differs from those that count.
fn difference(expected: &Shape, got: &Shape, first: &str) -> String {
    if expected.coefficients != got.coefficients {
        return format!("expected {} coefficients as in {first}, got {}", expected.coefficients, got.coefficients);
    }
    if expected.with_gram != got.with_gram {
        let with = |with: bool| if with { "cross-products" } else { "no cross-products" };
        return format!("expected {} as in {first}, got {}", with(expected.with_gram), with(got.with_gram));
    }
    if expected.outcome != got.outcome {
        let name = |outcome: &Option<String>| outcome.clone().unwrap_or_else(|| "no name".to_owned());
        return format!("expected outcome {} as in {first}, got {}", name(&expected.outcome), name(&got.outcome));
    }
    let names = |shape: &Shape| shape.terms.as_ref().map_or_else(|| "no names".to_owned(), |terms| terms.join(", "));
    format!("expected the terms {} as in {first}, got {}", names(expected), names(got))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches, Parser};
    use fedreg_common::methods::robust::Gram;
    use serde_json::Value;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn record(worker: &str, batch: u64, away: f64) -> Record {
        let t = 0.01 * ((batch * 7 % 20) as f64 / 10.0 - 0.95);
        Record {
            worker: worker.into(),
            batch,
            outcome: Some("cost".into()),
            terms: Some(vec!["(Intercept)".into(), "age".into()]),
            coefficients: vec![1.0 + t + away, -2.0 - 0.5 * t],
            gram: Some(Gram::from_packed(vec![900.0, 10.0, 850.0])),
            nobs: 1000,
            kept: 900,
            scale: 0.3,
            cleaned: true,
        }
    }

    fn lines(bad: u64) -> Vec<String> {
        (0..20).map(|i| record("north", i, if i >= 20 - bad { 30.0 } else { 0.0 }).line().unwrap()).collect()
    }

    fn consolidated(flags: &str, input: &str) -> Result<(String, Exit), String> {
        let words = std::iter::once("consolidate").chain(flags.split_whitespace());
        let arguments = Program::from_arg_matches(&Program::command().get_matches_from(words)).unwrap().arguments;
        run(&arguments, "coordinator consolidate".into(), input.as_bytes())
            .map_err(|failure| format!("{} {failure}", failure.exit().code()))
    }

    fn json(flags: &str, input: &str) -> (Value, Exit) {
        let (text, exit) = consolidated(&format!("{flags} --format json"), input).unwrap();
        (serde_json::from_str(&text).unwrap(), exit)
    }

    #[test]
    fn every_method_finds_the_majority_and_mean_does_not() {
        let input = lines(5).join("\n") + "\n";
        for method in ["refine", "pivot", "geomed", "cmedian", "filter", "trimmed --discard 6"] {
            let (report, exit) = json(&format!("--consolidation {method}"), &input);
            let age = report["coefficients"][1]["estimate"].as_f64().unwrap();
            let intercept = report["coefficients"][0]["estimate"].as_f64().unwrap();
            assert!((age + 2.0).abs() < 0.02 && (intercept - 1.0).abs() < 0.02, "{method}: {intercept} {age}");
            assert_eq!((exit, report["converged"].as_bool()), (Exit::Done, Some(true)), "{method}");
            assert_eq!(report["batches"].as_array().unwrap().len(), 20);
            let has_errors = !report["coefficients"][0]["std_error"].is_null();
            assert_eq!(has_errors, method == "refine", "{method}");
        }
        let (report, _) = json("--method mean", &input);
        assert!(report["coefficients"][0]["estimate"].as_f64().unwrap() > 5.0);
    }

    #[test]
    fn of_three_names_in_the_lines_none_owns_the_result_and_of_one_name_estimates_weigh_equally() {
        let named = |name: &str, from: u64, count: u64, away: f64| -> Vec<String> {
            let make = |i: u64| {
                let shift = 0.001 * ((from + i) as f64).sin();
                let record = record(name, i, away);
                Record { coefficients: record.coefficients.iter().map(|b| b + shift).collect(), ..record }
                    .line()
                    .unwrap()
            };
            (0..count).map(make).collect()
        };
        let all = [named("a", 0, 100, 41.0), named("b", 100, 10, 0.0), named("c", 110, 10, 0.0)].concat();
        let (report, exit) = json("", &all.join("\n"));
        assert_eq!((exit, report["site_votes"].as_bool()), (Exit::Done, Some(true)));
        assert!((report["coefficients"][0]["estimate"].as_f64().unwrap() - 1.0).abs() < 0.02, "{report}");
        let (text, _) = consolidated("", &all.join("\n")).unwrap();
        assert!(text.starts_with("*** a is set aside: all 100 of its estimates disagree"), "{text}");
        // The same lines under one name are one site.
        let one = all.join("\n").replace("\"worker\":\"b\",\"batch\":", "\"worker\":\"a\",\"batch\":900");
        let one = one.replace("\"worker\":\"c\",\"batch\":", "\"worker\":\"a\",\"batch\":800");
        let (report, _) = json("--keep-going", &one);
        assert_eq!(report["site_votes"].as_bool(), Some(false));
        assert!((report["coefficients"][0]["estimate"].as_f64().unwrap() - 42.0).abs() < 0.02, "{report}");
        let text = consolidated("--keep-going", &one).unwrap().0.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("all estimates are of one site, so that the guarantee is of estimates and not of sites"),
            "{text}"
        );
    }

    #[test]
    fn half_of_the_sites_lying_is_outside_the_guarantee_and_ends_with_3() {
        let (report, exit) = json("", &lines(10).join("\n"));
        assert_eq!((exit, report["termination"].as_str()), (Exit::NotConverged, Some("outside_guarantee")));
        assert_eq!(report["converged"], false);
    }

    #[test]
    fn a_duplicate_counts_once_and_is_named() {
        let mut all = lines(0);
        all.push(all[3].clone());
        let (report, exit) = json("", &all.join("\n"));
        assert_eq!((exit, report["batches"].as_array().unwrap().len()), (Exit::Done, 20));
        assert_eq!(report["repeated"][0], serde_json::json!({ "worker": "north", "batch": 3 }));
        let (text, _) = consolidated("", &all.join("\n")).unwrap();
        assert!(text.contains("batch 3 of north"), "{text}");
        let (without, _) = json("", &lines(0).join("\n"));
        assert_eq!(without["coefficients"], report["coefficients"]);
        // The same batch with other numbers is no duplicate.
        all[20] = record("north", 3, 0.5).line().unwrap();
        let message = consolidated("", &all.join("\n")).unwrap_err();
        assert!(message.starts_with("65 standard input, line 21: expected batch 3 of north once"), "{message}");
    }

    #[test]
    fn the_order_of_lines_and_their_files_do_not_matter() {
        let all = lines(4);
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
        std::fs::write(&a, all[12..].join("\n")).unwrap();
        std::fs::write(&b, all[..12].iter().rev().cloned().collect::<Vec<_>>().join("\n\n")).unwrap();
        let files = format!("{} {}", a.display(), b.display());
        assert_eq!(json(&files, "").0["coefficients"], json("", &all.join("\n")).0["coefficients"]);
        assert_eq!(
            json(&format!("- {}", b.display()), &all[12..].join("\n")).0["batches"].as_array().unwrap().len(),
            20
        );
    }

    #[test]
    fn what_is_no_sound_estimate_ends_with_65_and_its_line_or_is_left_out_and_named() {
        let changed = |change: &dyn Fn(&mut Record)| {
            let mut record = record("north", 99, 0.0);
            change(&mut record);
            serde_json::to_string(&record).unwrap()
        };
        let good = lines(0);
        for (line, says) in [
            ("garbage".to_owned(), "this is no estimate"),
            (good[0][..good[0].len() - 9].to_owned(), "this is no estimate"),
            (changed(&|r| r.coefficients[0] = f64::NAN), "this is no estimate"),
            (good[0].replace("0.3", "NaN"), "this is no estimate"),
            (changed(&|r| r.coefficients.push(1.0)), "expected a coefficient for each of 2 terms, got 3"),
            (
                changed(&|r| {
                    r.coefficients.push(1.0);
                    r.terms.as_mut().unwrap().push("bmi".into());
                }),
                "expected 2 coefficients as in standard input, line 1, got 3",
            ),
            (
                changed(&|r| r.terms = Some(vec!["(Intercept)".into(), "bmi".into()])),
                "expected the terms (Intercept), age",
            ),
            (changed(&|r| r.outcome = Some("price".into())), "expected outcome cost"),
            (changed(&|r| r.gram = None), "expected cross-products as in"),
            (changed(&|r| r.gram = Some(Gram::from_packed(vec![1.0]))), "expected 3 cross products, got 1"),
            (changed(&|r| r.kept = 2000), "between 1 and 1000 rows kept"),
            (changed(&|r| r.coefficients[1] = 1e200), "finite number below 1e100"),
        ] {
            let mut all = good.clone();
            all.insert(6, line);
            let message = consolidated("", &all.join("\n")).unwrap_err();
            assert!(message.starts_with("65 standard input, line 7: ") && message.contains(says), "{message}");
            let (report, exit) = json("--keep-going", &all.join("\n"));
            assert_eq!((exit, report["batches"].as_array().unwrap().len()), (Exit::Done, 20), "{says}");
            assert_eq!(report["rejected"].as_array().unwrap().len(), 1, "{says}");
        }
    }

    #[test]
    fn nothing_at_all_ends_with_65_and_settings_that_do_not_fit_with_2() {
        for nothing in ["", "\n\n"] {
            assert_eq!(consolidated("", nothing).unwrap_err(), "65 there are no estimates in standard input");
        }
        assert_eq!(consolidated("--keep-going", "x\n").unwrap_err(), "65 there are no estimates in standard input");
        let message = consolidated("--consolidation trimmed --discard 10", &lines(0).join("\n")).unwrap_err();
        assert!(message.starts_with("2 expected to discard fewer than half of 20 estimates"), "{message}");
        let bare = |i| serde_json::to_string(&Record { gram: None, ..record("north", i, 0.0) }).unwrap();
        let bare: Vec<String> = (0..5).map(bare).collect();
        assert!(
            consolidated("--metric majority", &bare.join("\n"))
                .unwrap_err()
                .starts_with("2 expected the cross products")
        );
        assert!(consolidated("/nowhere/estimates", "").unwrap_err().starts_with("65 cannot read /nowhere/estimates"));
    }
}
