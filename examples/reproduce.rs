//! Published tables beside ours: the simulations of the source papers, run again on this implementation.
//!
//! Numbers of others are typed in with their source. `--quick` runs small versions in seconds, whose errors are not
//! comparable with the published ones; without it every table has the published size.

#[path = "reproduce/arguments.rs"]
mod arguments;
#[path = "reproduce/chart.rs"]
mod chart;
#[path = "reproduce/comparators.rs"]
mod comparators;
#[path = "reproduce/coordinated.rs"]
mod coordinated;
#[path = "reproduce/cost.rs"]
mod cost;
#[path = "reproduce/curves.rs"]
mod curves;
#[path = "reproduce/dealt.rs"]
mod dealt;
#[path = "reproduce/designs.rs"]
mod designs;
#[path = "reproduce/document.rs"]
mod document;
#[path = "reproduce/drlr.rs"]
mod drlr;
#[path = "reproduce/em.rs"]
mod em;
#[path = "reproduce/evidence.rs"]
mod evidence;
#[path = "reproduce/fairness.rs"]
mod fairness;
#[path = "reproduce/features.rs"]
mod features;
#[path = "reproduce/files.rs"]
mod files;
#[path = "reproduce/matching.rs"]
mod matching;
#[path = "reproduce/opened.rs"]
mod opened;
#[path = "reproduce/privacy.rs"]
mod privacy;
#[path = "reproduce/research/mod.rs"]
mod research;
#[path = "reproduce/robust.rs"]
mod robust;
#[path = "reproduce/sealed.rs"]
mod sealed;
#[path = "reproduce/stream.rs"]
mod stream;
#[path = "reproduce/sweep.rs"]
mod sweep;
#[path = "reproduce/tables.rs"]
mod tables;
#[path = "reproduce/vectors.rs"]
mod vectors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, ValueEnum as _};
use fedreg_common::exit::Exit;
use fedreg_party::output::{Folder, OutputError, print};

use crate::arguments::{Program, What};
use crate::document::Document;
use crate::files::Unusable;

/// What a table needs to know.
pub(crate) struct Run {
    seeds: Option<u64>,
    pub(crate) quick: bool,
    pub(crate) insurance: Option<PathBuf>,
    pub(crate) wine: Vec<PathBuf>,
    pub(crate) adult: Option<PathBuf>,
    pub(crate) ipums: Vec<PathBuf>,
}

impl Run {
    /// Repetitions: those asked for, or the published number, or a few.
    pub(crate) fn seeds(&self, published: u64) -> u64 {
        self.seeds.unwrap_or(if self.quick { published.min(2) } else { published })
    }

    /// One size or the other.
    pub(crate) fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// States a bound, unless the tables are too small to be judged by it.
    pub(crate) fn target(&self, document: &mut Document, measured: f64, largest: f64, what: &str) {
        if !self.quick {
            let text = format!("{what}: at most {}, measured {}", tables::number(largest), tables::number(measured));
            document.target(measured <= largest, text);
        }
    }
}

fn main() -> ExitCode {
    let program = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => {
            // Help goes to standard output and is no failure. If neither can be printed, the code still tells.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    if let Err(problem) = check(&program) {
        fedreg_proto::telemetry::say(&format!("reproduce: {problem}"));
        return Exit::Usage.into();
    }
    match reproduce(&program) {
        Ok(0) => Exit::Done,
        Ok(missed) => {
            fedreg_proto::telemetry::say(&format!("reproduce: {missed} of the stated bounds were missed"));
            Exit::NotConverged
        }
        Err(error) => {
            fedreg_proto::telemetry::say(&format!("reproduce: {error:#}"));
            match () {
                () if error.is::<OutputError>() => Exit::CannotWrite,
                () if error.is::<Unusable>() => Exit::Data,
                () => Exit::Internal,
            }
        }
    }
    .into()
}

/// Files for other tables than those that were asked for, and too many of them, are refused.
fn check(program: &Program) -> Result<(), String> {
    let files = [
        ("--insurance", What::Features, usize::from(program.insurance.is_some()), 1),
        ("--wine", What::Features, program.wine.len(), 2),
        ("--adult", What::Em, usize::from(program.adult.is_some()), 1),
        ("--ipums", What::Em, program.ipums.len(), 2),
    ];
    for (flag, of, given, most) in files {
        if given > 0 && program.what != of {
            let name = of.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            return Err(format!("{flag} is for `{name}` only"));
        }
        if given > most {
            return Err(format!("{flag} is given {given} times, at most {most} were expected"));
        }
    }
    Ok(())
}

fn reproduce(program: &Program) -> anyhow::Result<usize> {
    let folder = program.out.as_deref().map(Folder::prepare).transpose()?;
    let Program { seeds, quick, insurance, wine, adult, ipums, .. } = program.clone();
    let run = Run { seeds, quick, insurance, wine, adult, ipums };
    let (name, document) = match program.what {
        What::DrlrTable2 => ("drlr-table2", drlr::table(&run)?),
        What::Robust => ("robust", robust::tables(&run)?),
        What::RobustCurves => ("robust-curves", curves::tables(&run)?),
        What::Cost => ("cost", cost::tables(&run)?),
        What::Privacy => ("privacy", privacy::tables(&run)?),
        What::Sealed => ("sealed", sealed::tables(&run)?),
        What::Em => ("em", em::tables(&run)?),
        What::Features => ("features", features::tables(&run)?),
        What::Stream => ("stream", stream::tables(&run)?),
        What::Matching => ("matching", matching::tables(&run)?),
    };
    print(&document.text())?;
    if let Some(folder) = folder {
        folder.write(&format!("{name}.html"), document.html().as_bytes())?;
        folder.write(&format!("{name}.txt"), document.text().as_bytes())?;
        for (picture, svg) in document.pictures() {
            folder.write(&format!("{name}-{picture}.svg"), svg.as_bytes())?;
        }
        fedreg_proto::telemetry::say(&format!(
            "reproduce: wrote {}",
            folder.path().join(format!("{name}.html")).display()
        ));
    }
    Ok(document.missed())
}

/// A text file of the source tree.
pub(crate) fn text_of(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::f64::consts::SQRT_2;

    use nalgebra::{DMatrix, DVector};
    use rand::{Rng as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::document::Part;
    use crate::research::solvers::{cut_gradients, gradients_sensitivity};

    /// The smallest run.
    fn small() -> Run {
        Run { seeds: Some(2), quick: true, insurance: None, wine: Vec::new(), adult: None, ipums: Vec::new() }
    }

    /// Its pictures are drawn, have these names among them, and no cell of a table is empty of a number.
    fn whole(document: &Document, pictures: &[&str]) {
        let drawn = document.pictures();
        for name in pictures {
            let picture = drawn.iter().find(|(drawn, _)| drawn == name);
            let svg = &picture.unwrap_or_else(|| panic!("no picture {name}")).1;
            assert!(svg.starts_with("<?xml") && svg.contains("polyline") && !svg.contains("NaN"), "{name}: {svg}");
        }
        assert_eq!(document.missed(), 0, "no bound is judged by small tables");
        for part in &document.parts {
            let Part::Table(table) = part else { continue };
            for row in &table.rows {
                assert_eq!(row.cells.len(), table.header.len(), "{}: {row:?}", table.caption);
            }
        }
    }

    /// Statements that contain a text, and whether they hold.
    fn findings(document: &Document, about: &str) -> Vec<bool> {
        let of = |part: &Part| match part {
            Part::Finding { holds, text } if text.contains(about) => Some(*holds),
            _ => None,
        };
        let found: Vec<bool> = document.parts.iter().filter_map(of).collect();
        assert!(!found.is_empty(), "no statement about {about:?}");
        found
    }

    #[test]
    fn streams_have_boxes_curves_and_rates_and_the_stated_rate_does_not_survive_privacy() {
        let document = stream::tables(&small()).unwrap();
        let boxes = ["boxes-plain-case-1", "boxes-plain-case-2", "boxes-private-case-1", "boxes-private-case-2"];
        whole(&document, &boxes);
        let curves = ["curves-plain-case-1", "curves-plain-case-2", "curves-private-case-1", "curves-private-case-2"];
        whole(&document, &curves);
        whole(&document, &["rates", "rates-private", "rates-private-own", "budgets", "persons"]);
        for (figure, curves) in [
            ("curves-plain-case-1", ["FSGD, least squares", "H-FSGD"]),
            ("curves-private-case-2", ["PH-FSGD, epsilon 1"; 2]),
        ] {
            let part = document.parts.iter().find(|part| matches!(part, Part::Figure { name, .. } if name == figure));
            let Some(Part::Figure { chart, .. }) = part else { panic!("no picture {figure}") };
            for curve in curves {
                let line = chart.lines.iter().find(|line| line.name == curve);
                assert!(line.is_some_and(|line| line.points.len() == 61), "{figure} has no curve of {curve}");
            }
        }
        assert_eq!(findings(&document, "the curve of H-FSGD").len(), 2);
        assert_eq!(findings(&document, "no person's records cost more than the budget"), [true]);
        assert_eq!(findings(&document, "the error falls as fast as with the same epsilon for every record").len(), 3);
        assert_eq!(findings(&document, "the error falls as fast as with the same delta for every record").len(), 3);
        assert_eq!(findings(&document, "of the records are used at the most records").len(), 3);
        let private = findings(&document, "Private, the stated schedule");
        assert!(private.len() == 3 && private.contains(&false), "{private:?}");
        let plain = findings(&document, "Without privacy");
        assert!(plain.len() == 9 && plain.iter().filter(|holds| **holds).count() >= 6, "{plain:?}");
        assert_eq!(findings(&document, "stronger privacy leads to greater error"), [true; 2]);
    }

    #[test]
    fn robust_regression_has_a_curve_for_every_number_and_is_exact_without_dense_noise() {
        let document = curves::tables(&small()).unwrap();
        whole(&document, &["corruption", "corruption-exact", "batches", "columns", "rows", "time"]);
        assert_eq!(findings(&document, "exactly without dense noise"), [true; 2]);
        assert_eq!(findings(&document, "outperforms all rivals").len(), 8);
        assert_eq!(findings(&document, "grows linearly").len(), 2);
    }

    #[test]
    fn the_check_before_a_merge_runs_every_reproduction() {
        let script = text_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/run")).unwrap();
        let names = script.split_once("reproductions() {").and_then(|(_, rest)| rest.split_once("for name in "));
        let (names, _) = names.and_then(|(_, rest)| rest.split_once(';')).unwrap();
        let run: Vec<&str> = names.split_whitespace().collect();
        for what in What::value_variants() {
            let name = what.to_possible_value().unwrap();
            assert!(run.contains(&name.get_name()), "{} is not run by .ci/run", name.get_name());
        }
    }

    /// A CSV file with these rows.
    fn written(folder: &Path, name: &str, header: &str, rows: impl Iterator<Item = String>) -> PathBuf {
        let path = folder.join(name);
        let text: Vec<String> = std::iter::once(header.to_owned()).chain(rows).collect();
        std::fs::write(&path, text.join("\n") + "\n").unwrap();
        path
    }

    /// Numbers between 0 and 1 that look random.
    fn scattered(seed: usize) -> impl Iterator<Item = f64> {
        (1..).map(move |k| ((seed * 7919 + k * 104_729) as f64 * 0.618_033_988_75).fract())
    }

    const INSURANCE: &str = "age,sex,bmi,children,smoker,region,charges";
    const WINE: &str = "\"fixed acidity\";\"volatile acidity\";\"citric acid\";\"residual sugar\";\"chlorides\";\
        \"free sulfur dioxide\";\"total sulfur dioxide\";\"density\";\"pH\";\"sulphates\";\"alcohol\";\"quality\"";

    fn patient(row: usize) -> String {
        let drawn: Vec<f64> = scattered(row).take(4).collect();
        let (age, smoker) = (18.0 + 46.0 * drawn[0], row.is_multiple_of(5));
        let charges = 2000.0 + 200.0 * age + if smoker { 20_000.0 } else { 0.0 } + 1000.0 * drawn[1];
        let (sex, bmi) = (["male", "female"][row % 2], 20.0 + 20.0 * drawn[2]);
        let region = ["northeast", "northwest", "southeast", "southwest"][row % 4];
        let smoker = if smoker { "yes" } else { "no" };
        format!("{age:.0},{sex},{bmi:.2},{},{smoker},{region},{charges:.2}", row % 6)
    }

    fn bottle(row: usize) -> String {
        let share: Vec<f64> = scattered(row).take(11).collect();
        let low = [4.0, 0.1, 0.0, 1.0, 0.01, 1.0, 10.0, 0.99, 2.8, 0.3, 8.0];
        let wide = [8.0, 1.0, 1.0, 20.0, 0.3, 100.0, 200.0, 0.02, 1.0, 1.0, 6.0];
        let cells: Vec<String> = (0..11).map(|at| format!("{:.4}", low[at] + wide[at] * share[at])).collect();
        format!("{};{:.0}", cells.join(";"), 3.0 + 6.0 * share[10])
    }

    #[test]
    fn random_features_have_both_functions_the_wine_and_the_gaps_of_groups() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = small();
        run.insurance = Some(written(folder.path(), "insurance.csv", INSURANCE, (0..120).map(patient)));
        run.wine = vec![
            written(folder.path(), "red.csv", WINE, (0..100).map(bottle)),
            written(folder.path(), "white.csv", WINE, (500..650).map(bottle)),
        ];
        let document = features::tables(&run).unwrap();
        whole(&document, &["counts-f1-40", "counts-f1-05", "counts-f2-40", "counts-f2-05", "counts-insurance"]);
        whole(&document, &["counts-wine", "wine", "impact-smoking", "impact-sex", "impact-colour"]);
        whole(&document, &["impact-private-smoking", "impact-private-sex", "impact-private-colour"]);
        whole(&document, &["rows-f1-40", "rows-f1-05", "rows-f2-40", "rows-f2-05"]);
        assert_eq!(findings(&document, "decays with the training rows").len(), 8);
        assert_eq!(findings(&document, "better than SGD that is where rows are scarce").len(), 4);
        assert_eq!(findings(&document, "is better than private SGD").len(), 6);
        assert_eq!(findings(&document, "Gaussian noise gives smaller errors than Gamma noise").len(), 6);
        assert_eq!(findings(&document, "f2, sd 0.500: with their noise it predicts"), [false]);
        assert_eq!(findings(&document, "are smaller than those of the linear regression"), [true; 3]);
        assert_eq!(findings(&document, "gaps of the source's Algorithm 1 are smaller").len(), 3);
        assert_eq!(findings(&document, "with the noise that its lemma asks for").len(), 3);
        assert_eq!(findings(&document, "the gaps of what the source compares decrease"), [true; 3]);
        let mut sources = 0;
        for part in &document.parts {
            let Part::Table(table) = part else { continue };
            if !table.caption.contains("Algorithm 1 with 400 features and its rival, NOT PRIVATE") {
                continue;
            }
            // Both groups at every epsilon; what noise on coefficients adds falls as one over epsilon squared.
            assert_eq!((table.header.len(), table.rows.len()), (7, 4), "{}", table.caption);
            sources += 1;
            for row in &table.rows {
                let gaps: Vec<f64> = row.cells[1..].iter().map(|cell| cell.parse().unwrap()).collect();
                let at = |place: usize, epsilon: f64| gaps[place] * epsilon * epsilon;
                assert!(gaps[0] > 0.0 && (at(0, 0.05) / at(5, 3.0) - 1.0).abs() < 0.1, "{row:?}");
            }
        }
        assert_eq!(sources, 3);
    }

    #[test]
    fn one_record_moves_one_pass_of_gradients_by_no_more_than_its_noise_is_for_and_some_do_by_as_much() {
        let mut generator = ChaCha8Rng::seed_from_u64(1);
        let mut farthest = 0.0_f64;
        for trial in 0..300 {
            let (count, features) = (generator.random_range(1..12), generator.random_range(1..5));
            let mut row = || -> DVector<f64> {
                let row = DVector::from_fn(features, |_, _| generator.random_range(-1.0..1.0_f64));
                row.normalize() * SQRT_2 * if generator.random_bool(0.5) { 1.0 } else { generator.random() }
            };
            let mut rows = DMatrix::from_columns(&(0..count).map(|_| row()).collect::<Vec<_>>());
            let (other, place) = (row(), trial as usize % count);
            let mut outcomes = DVector::from_fn(count, |_, _| generator.random_range(-9.0..9.0_f64));
            let (step, tau) = (if trial % 2 == 0 { 1.0 } else { generator.random_range(0.01..1.0) }, 1.5);
            let first = cut_gradients(&rows, &outcomes, step, tau, trial).unwrap();
            if trial % 3 == 0 {
                outcomes[place] = -outcomes[place];
            } else {
                rows.set_column(place, &other);
            }
            let second = cut_gradients(&rows, &outcomes, step, tau, trial).unwrap();
            farthest = farthest.max((first - second).norm() / gradients_sensitivity(step, tau));
        }
        assert!(farthest <= 1.0 + 1e-12 && farthest > 0.95, "{farthest} of the bound");
    }

    #[test]
    fn files_that_cannot_be_used_are_data_and_flags_of_other_tables_are_misuse() {
        let folder = tempfile::tempdir().unwrap();
        let bad = |line: &str| {
            let rows = (0..20).map(patient).chain(std::iter::once(line.to_owned()));
            written(folder.path(), "insurance.csv", INSURANCE, rows)
        };
        for (line, says) in [
            ("20,male,30,1,perhaps,northeast,3000", "line 22, column 5: expected one of no, yes"),
            ("20,male,heavy,1,no,northeast,3000", "line 22, column 3: expected a number"),
            ("20,male", "line 22: expected 7 cells, got 2"),
        ] {
            let Err(error) = features::given(&Run { insurance: Some(bad(line)), ..small() }) else {
                panic!("{line} was taken");
            };
            assert!(error.is::<Unusable>() && error.to_string().ends_with(says), "{error}");
        }
        let given = |arguments: &str| check(&Program::try_parse_from(arguments.split(' ')).unwrap());
        assert_eq!(given("reproduce stream --wine a.csv"), Err("--wine is for `features` only".to_owned()));
        let many = given("reproduce features --wine a --wine b --wine c");
        assert_eq!(many, Err("--wine is given 3 times, at most 2 were expected".to_owned()));
        assert_eq!(given("reproduce features --insurance a.csv --wine b.csv"), Ok(()));
    }

    fn person(row: usize) -> String {
        let share: Vec<f64> = scattered(row).take(5).collect();
        let above = row.is_multiple_of(3);
        let more = if above { 1.0 } else { 0.0 };
        let (age, years) = (20.0 + 40.0 * share[0] + 8.0 * more, 6.0 + 7.0 * share[1] + 3.0 * more);
        let (gain, loss, hours) =
            (1000.0 * share[2] + 500.0 * more, 100.0 * share[3], 20.0 + 30.0 * share[4] + 10.0 * more);
        let income = if above { ">50K" } else { "<=50K" };
        format!(
            "{age:.0}, Private, 77516, Bachelors, {years:.0}, Never-married, Sales, Husband, White, Male, {gain:.0}, {loss:.0}, {hours:.0}, Cuba, {income}"
        )
    }

    fn resident(row: usize) -> String {
        let share: Vec<f64> = scattered(row).take(3).collect();
        let above = row.is_multiple_of(2);
        let more = if above { 10.0 } else { 0.0 };
        format!("{},{:.2},{}", 20.0 + 40.0 * share[0] + more, more + 20.0 * share[1], if above { 500 } else { 200 })
    }

    #[test]
    fn expectation_maximisation_has_its_sweeps_and_the_census_data() {
        let folder = tempfile::tempdir().unwrap();
        let adult = (0..400).map(person).collect::<Vec<_>>();
        let (first, rest) = adult.split_first().unwrap();
        let mut run = small();
        run.adult = Some(written(folder.path(), "adult.data", first, rest.iter().cloned()));
        run.ipums = vec![written(folder.path(), "ipums.csv", "age,rooms,income", (0..300).map(resident))];
        let document = em::tables(&run).unwrap();
        whole(&document, &["clipping", "gmm-rounds", "gmm-records", "gmm-columns", "mrm-records", "rmc-columns"]);
        whole(&document, &["direct-epsilon", "direct-records", "direct-columns", "census-adult", "census-ipums"]);
        assert_eq!(findings(&document, "C = 1 has the lowest error of all bounds").len(), 3);
        assert_eq!(findings(&document, "converges nearly as EM without privacy"), [false; 3]);
        assert_eq!(findings(&document, "gradient EM has a lower error than direct EM").len(), 6);
        assert_eq!(findings(&document, "outperforms clipping at C = 1").len(), 5);
        let broken = written(folder.path(), "adult.data", "1,2", std::iter::empty());
        let error = em::tables(&Run { adult: Some(broken), ..small() }).unwrap_err();
        assert!(error.is::<Unusable>() && error.to_string().ends_with("line 1: expected 15 cells, got 2"), "{error}");
    }
}
