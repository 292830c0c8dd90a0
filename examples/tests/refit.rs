//! Sub-models by the command `refit`, after fits by real processes, and what it refuses.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use world::demo;

const TABLE: &str = "opened-table.json";

struct Rehearsal {
    folder: tempfile::TempDir,
}

/// What a program printed and said, and its exit code.
struct Said {
    code: i32,
    printed: String,
    said: String,
}

impl Rehearsal {
    /// A rehearsal that ended well.
    fn of(words: &[&str]) -> Rehearsal {
        let rehearsal = Rehearsal { folder: tempfile::tempdir().unwrap() };
        let out = rehearsal.path("out");
        let Said { code, said, .. } = run(&[&["vertical", "--out", out.to_str().unwrap()], words].concat());
        assert_eq!(code, 0, "{said}");
        rehearsal
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn table(&self, role: &str) -> PathBuf {
        self.path(&format!("out/{role}/{TABLE}"))
    }

    /// The command `refit` of a party.
    fn refit(&self, role: &str, words: &[&str]) -> Said {
        let config = self.path(&format!("out/{role}.toml"));
        run(&[&["--role", role, "refit", "--config", config.to_str().unwrap()], words].concat())
    }

    /// Its report.
    fn report(&self, role: &str, words: &[&str]) -> Value {
        let said = self.refit(role, &[words, &["--format", "json"]].concat());
        assert_eq!(said.code, 0, "{words:?}: {}", said.said);
        serde_json::from_str(&said.printed).unwrap()
    }

    #[track_caller]
    fn refuses(&self, role: &str, words: &[&str], code: i32, why: &str) {
        let said = self.refit(role, words);
        assert_eq!((said.code, said.printed.as_str()), (code, ""), "{words:?}: {}", said.said);
        assert!(said.said.contains(why), "{words:?}: {}", said.said);
        assert!(!said.said.contains("panicked"), "{}", said.said);
    }
}

fn run(words: &[&str]) -> Said {
    let output = demo(words);
    let [printed, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    Said { code: output.status.code().unwrap(), printed, said }
}

fn report_in(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap()
}

fn assert_close(ours: &Value, theirs: &Value, what: &str) {
    let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
    assert!((ours - theirs).abs() <= 1e-8 * theirs.abs().max(1e-3), "{what}: {ours} {theirs}");
}

fn terms(report: &Value) -> Vec<&str> {
    report["coefficients"].as_array().unwrap().iter().map(|row| row["term"].as_str().unwrap()).collect()
}

#[cfg(unix)]
fn mode(file: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
fn set_mode(file: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_sealed_fit_leaves_sub_models_that_a_plain_fit_of_these_columns_confirms() {
    let sealed = Rehearsal::of(&["--mode", "sealed", "--refit"]);
    assert!(!sealed.table("bob").exists(), "the table opened to alice");
    #[cfg(unix)]
    assert_eq!(mode(&sealed.table("alice")), 0o600);
    // What a check foretells is what opened.
    let merged = report_in(&sealed.path("out"));
    for role in ["alice", "bob"] {
        let config = sealed.path(&format!("out/{role}.toml"));
        let checked = run(&["--role", role, "check", "--config", config.to_str().unwrap(), "--format", "json"]);
        let checked: Value = serde_json::from_str(&checked.printed).unwrap();
        assert_eq!(checked["opened"], merged["disclosure"][role]["opened"]);
        let (foretold, sent) =
            (checked["predicted_bytes"].as_f64().unwrap(), merged["bytes_sent"][role].as_f64().unwrap());
        assert!((foretold / sent - 1.0).abs() < 0.01, "{role}: {foretold} {sent}");
    }
    let opened = merged["disclosure"]["bob"]["opened"].to_string();
    assert!(opened.contains("bob's factor with places, means and scales of its columns"), "{opened}");
    let ours = sealed.report("alice", &["--drop", "s1,s2", "--out", sealed.path("refit").to_str().unwrap()]);
    let parties = ["--alice", "age,sex,bmi,bp", "--bob", "s3,s4,s5,s6"];
    let plain = Rehearsal::of(&parties);
    let theirs = report_in(&plain.path("out"));
    assert_eq!(terms(&ours), terms(&theirs));
    let rows = |report: &Value| report["coefficients"].as_array().unwrap().clone();
    for (ours, theirs) in rows(&ours).iter().zip(&rows(&theirs)) {
        for key in ["estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high"] {
            assert_close(&ours[key], &theirs[key], &format!("{key} of {}", ours["term"]));
        }
    }
    for key in ["deviance", "null_deviance", "aic", "bic", "log_lik", "dispersion", "r_squared", "adj_r_squared"] {
        assert_close(&ours[key], &theirs[key], key);
    }
    assert_close(&ours["f_test"]["statistic"], &theirs["f_test"]["statistic"], "F");
    // It says what it is, and that nothing left.
    let dropped = json!([{ "term": "s1", "party": "alice" }, { "term": "s2", "party": "bob" }]);
    let refit = json!({ "run": merged["run"], "dropped": dropped, "numbers_sent": 0, "charged": 0.0 });
    assert_eq!((&ours["refit"], &ours["run"], &ours["bytes_sent"]), (&refit, &merged["run"], &json!(0)));
    for name in ["report.txt", "report.html", "report.csv", "report.json"] {
        let text = fs::read_to_string(sealed.path("refit").join(name)).unwrap();
        assert!(!text.contains("One exchange"), "{name}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let says = words.contains("nothing left this party") || words.contains("nothing left");
        assert!(says || name == "report.csv", "{name}: {text}");
    }
    // The same rows and outcome: both reports can be compared.
    let [smaller, larger] = [sealed.path("refit/report.json"), sealed.path("out/alice/report.json")];
    let test = run(&[
        "--role",
        "alice",
        "test",
        "nested",
        smaller.to_str().unwrap(),
        larger.to_str().unwrap(),
        "--format",
        "json",
    ]);
    assert_eq!(test.code, 0, "{}", test.said);
    let test: Value = serde_json::from_str(&test.printed).unwrap();
    assert_eq!(test["f"]["df"], 2, "{test}");
    // A path, and names that are kept.
    let path = sealed.report("alice", &["--lambda", "path", "--alpha", "0.5"]);
    assert_eq!(path["path"].as_array().unwrap().len(), 100);
    assert_eq!(path["coefficients"][1]["std_error"], Value::Null);
    let kept = sealed.report("alice", &["--keep", "bmi", "--keep", "s5, bp"]);
    assert_eq!(terms(&kept), ["(Intercept)", "bmi", "bp", "s5"]);
    let csv = sealed.refit("alice", &["--keep", "bmi", "--format", "csv"]);
    assert!(csv.printed.starts_with("term,party,estimate") && csv.printed.lines().count() == 3, "{}", csv.printed);
}

/// The numbers are those of R: `lm` on the same rows, and `(L b - r)'(L V L')^-1 (L b - r) / rows of L`, as `car::linearHypothesis`.
#[test]
fn test_linear_tests_hypotheses_about_coefficients_that_the_report_has_covariances_of() {
    let test = |report: &Path, hypotheses: &[&str]| {
        // What stands behind the report is a hypothesis.
        let words = ["--role", "alice", "test", "linear", "--format", "json", report.to_str().unwrap()];
        run(&[&words[..], hypotheses].concat())
    };
    let numbers = |said: &Said| -> Value {
        assert_eq!(said.code, 0, "{}", said.said);
        serde_json::from_str(&said.printed).unwrap()
    };
    let apart = Rehearsal::of(&[]);
    let report = apart.path("out/alice/report.json");
    let two = numbers(&test(&report, &["age - 2*bmi = 0.1", "sex = 0"]));
    assert_close(&two["test"]["statistic"], &json!(44.158_389_741_243_8), "F");
    assert_close(&two["distances"][0], &json!(-11.342_285_408_071), "distance");
    assert_close(&two["std_errors"][0], &json!(1.449_294_082_725_85), "standard error");
    assert_eq!((&two["test"]["df"], &two["test"]["df_residual"]), (&json!(2), &json!(431)), "{two}");
    assert!((two["test"]["p_value"].as_f64().unwrap() / 3.582_442_094_798_12e-18 - 1.0).abs() < 1e-6, "{two}");
    let words = test(&report, &["sex = 0"]);
    assert!(words.code == 0 && !words.printed.contains("NaN"), "{}", words.said);
    // A coefficient of the other party has no covariances here, and none with those of this party anywhere.
    let merged = apart.path("out/report.json");
    for (report, hypothesis, code, why) in [
        (&report, "age - 2*", 2, "age - 2*"),
        (&report, "bmi - 0.1*s5 = 0", 2, "no coefficient with an estimate stands behind `0.1*`"),
        (&merged, "bmi - 0.1*s5 = 0", 65, "the covariance of `bmi` of alice with `s5` of bob is in no report"),
    ] {
        let said = test(report, &[hypothesis]);
        assert!(said.code == code && said.printed.is_empty() && said.said.contains(why), "{} {}", said.code, said.said);
    }
    let shared = Rehearsal::of(&["--share-covariance"]);
    for role in ["alice", "bob"] {
        let one = numbers(&test(&shared.path(&format!("out/{role}/report.json")), &["bmi - 0.1*s5 = 0"]));
        assert_close(&one["test"]["statistic"], &json!(0.472_070_544_445_437), "F");
        assert_close(&one["test"]["p_value"], &json!(0.492_405_679_883_788), "p");
    }
}

#[test]
fn a_private_fit_leaves_sub_models_at_both_parties_that_cost_nothing() {
    let private = Rehearsal::of(&["--mode", "private", "--epsilon", "3"]);
    let own = |role: &str| report_in(&private.path(&format!("out/{role}")));
    let [alice, bob] = ["alice", "bob"].map(|role| private.report(role, &["--drop", "s1,s2"]));
    assert_eq!(alice["coefficients"], bob["coefficients"]);
    // All columns: the fit itself, to the last digit.
    let whole = private.report("alice", &[]);
    assert_eq!(whole["coefficients"], own("alice")["coefficients"]);
    assert_eq!((&whole["privacy"]["charge"], &whole["refit"]["charged"]), (&json!(0.0), &json!(0.0)));
    assert_eq!(whole["privacy"]["spent"], own("alice")["privacy"]["spent"]);
    assert_eq!(whole["privacy"]["releases"], json!([]));
    for report in [&alice, &whole] {
        assert_eq!(
            (&report["deviance"], &report["aic"], &report["converged"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert!(report["coefficients"][1]["std_error"].as_f64().unwrap() > 0.0);
        let text = report["notes"].to_string();
        assert!(text.contains("cost nothing of the budget") && text.contains("need values without noise"), "{text}");
    }
    let text = private.refit("bob", &["--keep", "bmi,s5"]).printed;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["spent by this refit: 0 (epsilon 0)", "Left: nothing", "Sub-model of run"] {
        assert!(words.contains(said), "{said}: {text}");
    }
    // The ledger has not moved.
    let config = private.path("out/alice.toml");
    let status =
        run(&["--role", "alice", "privacy", "status", "--config", config.to_str().unwrap(), "--format", "json"]);
    let status: Value = serde_json::from_str(&status.printed).unwrap();
    let spent = own("alice")["privacy"]["spent"].clone();
    assert!(status.to_string().contains(&spent.to_string()), "{status} {spent}");
}

#[test]
fn every_party_of_a_private_study_of_several_has_the_same_sub_models() {
    let parties = "alice=age,sex,bmi;bob=bp,s1,s2;carol=s3,s4,s5,s6";
    let private = Rehearsal::of(&["--mode", "private", "--epsilon", "3", "--parties", parties, "--leader", "alice"]);
    let all = ["alice", "bob", "carol"].map(|name| private.report(name, &["--drop", "s6,age"])["coefficients"].clone());
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
    let named: Vec<&Value> = all[0].as_array().unwrap().iter().map(|row| &row["term"]).collect();
    assert_eq!(named.len(), 9, "{named:?}");
}

#[test]
fn refit_refuses_in_a_sentence_what_it_cannot_do() {
    let sealed = Rehearsal::of(&["--mode", "sealed", "--refit"]);
    sealed.refuses("bob", &["--drop", "s1"], 77, "opened to alice alone, and only alice can refit");
    for (words, why) in [
        (&["--drop", "bmj"][..], "no column or term of the fit is called `bmj`; did you mean `bmi`?"),
        (&["--drop", "(Intercept)"], "the intercept cannot be dropped"),
        (&["--drop", "bmi", "--keep", "age"], "cannot be used with"),
        (&["--keep", "poly(age"], "is not closed"),
        (&["--drop", "age,"], "a name is empty"),
        (&["--lambda", "-1"], "--lambda is `path` or numbers"),
        (&["--alpha", "0.5"], "--lambda"),
        (&["--lambda", "1", "--alpha", "2"], "between 0 (ridge) and 1 (lasso)"),
        (&["--drop", "age,sex,bmi,bp,s1,s2,s3,s4,s5,s6", "--lambda", "1"], "no column is left"),
    ] {
        sealed.refuses("alice", words, 2, why);
    }
    let file = sealed.path("file");
    fs::write(&file, "").unwrap();
    sealed.refuses("alice", &["--out", file.join("below").to_str().unwrap()], 73, "cannot write");
    let table = sealed.table("alice");
    let sound = fs::read_to_string(&table).unwrap();
    #[cfg(unix)]
    for others in [0o640, 0o604, 0o620] {
        set_mode(&table, others);
        sealed.refuses("alice", &[], 77, "by others than its owner");
        set_mode(&table, 0o600);
    }
    // A digit of a number, a cut file, another version.
    let (heading, body) = sound.split_once('\n').unwrap();
    let digit = body.rfind("0.").unwrap() + 2;
    let other = if body.as_bytes()[digit] == b'1' { "2" } else { "1" };
    let changed = format!("{heading}\n{}{other}{}", &body[..digit], &body[digit + 1..]);
    for (text, why) in [
        (changed.as_str(), "is damaged: fit the study again"),
        (&sound[..sound.len() / 2], "is damaged"),
        ("", "is damaged"),
        (
            &sound.replacen("\"format\":1", "\"format\":2", 1),
            "of another version of this program (format 2, expected 1)",
        ),
    ] {
        fs::write(&table, text).unwrap();
        sealed.refuses("alice", &[], 65, why);
    }
    fs::write(&table, &sound).unwrap();
    assert_eq!(sealed.refit("alice", &[]).code, 0);
    // Another study: its table is not this one.
    let study = sealed.path("out/study.toml");
    let text = fs::read_to_string(&study).unwrap();
    fs::write(&study, text.replacen("id = \"demo\"", "id = \"other\"", 1)).unwrap();
    sealed.refuses("alice", &[], 65, "of a study with digest");
    for (change, why) in [
        (text.replacen("refit = true", "refit = false", 1), "the study does not say `sealed.refit = true`"),
        (
            text.replacen("refit = true", "", 1).replacen("coefficients = \"shared\"", "coefficients = \"own\"", 1),
            "is \"own\"",
        ),
    ] {
        fs::write(&study, change).unwrap();
        sealed.refuses("alice", &[], 77, why);
    }
    fs::write(&study, &text).unwrap();
    fs::remove_file(&table).unwrap();
    sealed.refuses("alice", &[], 65, "there is no table in");
    let plain = Rehearsal::of(&[]);
    assert!(!plain.table("alice").exists());
    plain.refuses("alice", &[], 77, "a plain fit opens no table");
}

#[test]
fn a_study_cannot_ask_for_sub_models_that_it_keeps_apart_or_that_no_table_decides() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (words, why) in [
        (&["--refit"][..], "--refit needs --mode sealed"),
        (&["--refit", "--mode", "sealed", "--family", "poisson"], "a poisson fit does not follow from one table"),
    ] {
        let said = run(&[&["vertical", "--out", out.to_str().unwrap()], words].concat());
        assert!(said.code != 0 && said.said.contains(why), "{} {}", said.code, said.said);
    }
}
