//! Studies of streams.

use crate::methods::stream::Step;
use crate::privacy::mechanism::records::{Costs, Spending};
use crate::study::tests::{sites, written};
use crate::study::{SiteMethod, Study};

const SITES: &str = r#"
        id = "sites"
        [workers.north]
        certificate = "north.example"
        [workers.south]
        certificate = "south.example"
    "#;

fn stream(more: &str) -> String {
    format!(
        "protocol = \"stream\"\n{SITES}\n[model]\nfeatures = [\"x\"]\n[outcome]\ncolumn = \"y\"\n[columns.x]\nrange = [0, 1]\n[stream]\n{more}"
    )
}

fn budgets(more: &str) -> String {
    let private = "mode = \"private\"\nprotocol";
    stream(&format!("[stream.budgets]\n{more}\n[columns.y]\nrange = [-1, 1]\n[privacy]\nepsilon = 1.0\ndelta = 1e-6"))
        .replacen("protocol", private, 1)
}

fn complaint(text: &str) -> String {
    Study::parse(text).unwrap_err().to_string()
}

#[test]
fn a_short_study_has_the_defaults_and_one_digest() {
    let study = sites(&stream(""));
    let SiteMethod::Stream(found) = &study.method.method else { panic!("{study:?}") };
    assert_eq!(found.settings.basis().len(), 50);
    assert_eq!(sites(&written(&stream(""))), study);
}

#[test]
fn every_mistake_names_its_key() {
    for (text, says) in [
        (stream("grid = 5000"), "`stream.grid` cannot be used: 5000 grid points"),
        (stream("grid = 1"), "`stream.grid` must be at least 2"),
        (stream("width = 20.0"), "`stream.width` must be from 0.001"),
        (stream("kernel = \"sobolev\"\nwidth = 0.2"), "`stream.width` has no place"),
        (stream("loss = \"squares\"\ntau = 1.0"), "`stream.tau` has no place"),
        (stream("tau = 0.0"), "`stream.tau` must be positive"),
        (stream("step = 11.0"), "`stream.step` must be positive and at most 10"),
        (stream("exponent = 0.5"), "`stream.exponent` has no place beside the decay `root`"),
        (stream("decay = \"constant\"\nhorizon = 9"), "`stream.horizon` has no place beside the decay `constant`"),
        (stream("decay = \"power\""), "`stream.exponent` is missing beside the decay `power`"),
        (stream("decay = \"power\"\nexponent = 1.0"), "`stream.exponent` must be at least 0 and below 1, got 1"),
        (stream("decay = \"power\"\nexponent = nan"), "`stream.exponent` must be at least 0 and below 1"),
        (
            stream("decay = \"power\"\nexponent = 0.5\nhorizon = 9"),
            "`stream.horizon` has no place beside the decay `power`",
        ),
        (stream("decay = \"horizon\"\nexponent = 0.5"), "`stream.horizon` is missing beside the decay `horizon`"),
        (stream("decay = \"horizon\"\nhorizon = 9"), "`stream.exponent` is missing beside the decay `horizon`"),
        (stream("decay = \"horizon\"\nexponent = 0.5\nhorizon = 0"), "`stream.horizon` must be from 1 to 1e15, got 0"),
        (stream("records_per_person = 0"), "`stream.records_per_person`"),
        (
            budgets("").replacen("[stream.budgets]", "", 1).replacen(
                "[stream]",
                "[stream]\nrecords_per_person = 4000000000",
                1,
            ),
            "`stream.records_per_person` of 4000000000 leaves too small a budget for a record of 50 numbers",
        ),
        (stream("[stream.budgets]"), "`stream.budgets` has no place in a plain study"),
        (budgets("epsilon_exponent = -0.5"), "`stream.budgets.epsilon_exponent` must be from 0 to 2, got -0.5"),
        (budgets("delta_exponent = nan"), "`stream.budgets.delta_exponent` must be from 0 to 2"),
        (budgets("epsilon = 0.0"), "`stream.budgets.epsilon` must be a positive number"),
        (budgets("delta = 1.0"), "`stream.budgets.delta` must be above 0 and below 1"),
        (budgets("epsilon = 1.01"), "`stream.budgets.epsilon` costs more than a person has in the run"),
        (budgets("epsilon = 1e-9"), "is too small for a record of 50 numbers"),
        (budgets("epsilon_exponents = 1.0"), "epsilon_exponents"),
        (
            budgets("").replacen("[stream]\n", "[stream]\nrecords_per_person = 2\n", 1),
            "`stream.records_per_person` has no place beside `stream.budgets`",
        ),
        (stream("[sites]\nbatch_rows = 50001"), "`sites.batch_rows` makes messages"),
        (
            stream("[stream.features]\ncount = 20\nfrequency_sd = 1.0").replacen(
                "[stream]\n",
                "[stream]\ngrid = 10\n",
                1,
            ),
            "`stream.grid` has no place",
        ),
        (stream("").replace("range = [0, 1]", ""), "`columns.x.range` is missing"),
        (
            stream("").replace("[\"x\"]", "[\"x\", \"u\", \"v\", \"w\"]")
                + "[columns.u]\nrange = [0, 1]\n[columns.v]\nrange = [0, 1]\n[columns.w]\nrange = [0, 1]\n",
            "`model.features` cannot be used",
        ),
    ] {
        assert!(complaint(&text).contains(says), "{says}: {}", complaint(&text));
    }
}

#[test]
fn the_schedules_of_the_source_are_options_and_studies_without_them_are_written_as_before() {
    let step = |more: &str| {
        let study = sites(&stream(more));
        assert_eq!(sites(&written(&stream(more))), study);
        let SiteMethod::Stream(found) = &study.method.method else { panic!("{study:?}") };
        found.settings.stated().step
    };
    let power = step("step = 0.5\ndecay = \"power\"\nexponent = 0.25");
    assert_eq!(power, Step::Power { length: 0.5, exponent: 0.25 });
    // 0.5 / 16^(1/4) and 0.5 / 81^(1/4).
    assert!((power.at(16.0) - 0.25).abs() < 1e-15 && (power.at(81.0) - 0.5 / 3.0).abs() < 1e-15);
    let horizon = step("step = 0.5\ndecay = \"horizon\"\nexponent = 0.75\nhorizon = 10000");
    assert_eq!(horizon, Step::Horizon { length: 0.5, exponent: 0.75, records: 10_000 });
    // 0.5 / 10^3, for the first record and for the last.
    assert!([1.0, 1e4].iter().all(|record| (horizon.at(*record) - 0.0005).abs() < 1e-18));
    assert_eq!(step("step = 0.5").at(4.0), 0.25);
    for more in ["", "decay = \"constant\""] {
        let text = written(&stream(more));
        assert!(!text.contains("exponent") && !text.contains("horizon") && !text.contains("budgets"), "{text}");
    }
}

#[test]
fn records_may_have_budgets_of_their_own_and_the_first_one_sets_the_step() {
    let parsed = |more: &str| {
        let study = sites(&budgets(more));
        assert_eq!(sites(&written(&budgets(more))), study);
        let SiteMethod::Stream(found) = &study.method.method else { panic!("{study:?}") };
        (found.settings.stated().step.length(), found.spending(&study.guarantee), study.site_plan().unwrap())
    };
    let even = sites(&budgets("").replacen("[stream.budgets]", "", 1));
    let SiteMethod::Stream(stream) = &even.method.method else { panic!("{even:?}") };
    assert_eq!(stream.spending(&even.guarantee), Spending::Even { records: 1 });
    let usual = stream.settings.stated().step.length();
    let (length, spending, plan) = parsed("epsilon_exponent = 0.5");
    assert!((length / usual - 1.0).abs() < 1e-12, "{length} {usual}");
    assert_eq!(plan.charge_of(1), even.site_charge().unwrap(), "a person costs what the run has, as before");
    assert_eq!(plan.releases()[0].label, "every record, within the budget of its person");
    assert_eq!(Costs::new(spending).of(1), spending.room());
    // Half of epsilon costs .2727 of the budget (fifty digits, tests/vectors/privacy/budgets.json).
    let (length, ..) = parsed("epsilon = 0.5");
    assert!((length / usual - 0.272_685_680_702_494_55_f64.sqrt()).abs() < 1e-9, "{length} {usual}");
}
