//! Studies of models with something hidden.

use super::*;
use crate::study::tests::{sites, written};
use crate::study::{SiteMethod, Study};

const SITES: &str = r#"
        id = "sites"
        [workers.north]
        certificate = "north.example"
        [workers.south]
        certificate = "south.example"
    "#;

fn em(more: &str) -> String {
    format!(
        "protocol = \"em\"\n{SITES}\n[model]\nfeatures = [\"a\", \"b\"]\n[outcome]\ncolumn = \"y\"\n[em]\nmodel = \"mrm\"\nsigma = \
         1.0\ntau = 5.0\n{more}"
    )
}

fn complaint(text: &str) -> String {
    Study::parse(text).unwrap_err().to_string()
}

#[test]
fn a_short_study_has_the_defaults_and_one_digest() {
    let study = sites(&em(""));
    let SiteMethod::Em(Em { settings, .. }) = &study.method.method else { panic!("{study:?}") };
    assert_eq!((settings.stated().rounds, settings.stated().columns, settings.stated().averaged), (22, 2, 1));
    assert_eq!(settings.stated().estimator, Estimator::Clip { bound: clip_bound(2, 5.0) });
    assert_eq!(study.method.coefficients, ["a", "b"]);
    assert_eq!(study.digest(), Study::parse(&em("rounds = 22\nestimator = \"clip\"")).unwrap().digest());
    assert_eq!(sites(&written(&em(""))), study);
}

#[test]
fn every_mistake_names_its_key() {
    for (text, says) in [
        (em("").replace("sigma = 1.0", ""), "`em.sigma` is missing: the standard deviation"),
        (em("").replace("tau = 5.0", ""), "`em.tau` is missing"),
        (
            em("").replace("sigma = 1.0", "sigma = \"data\""),
            "sigma = \"data\": a number taken from the data is a release",
        ),
        (em("").replace("tau = 5.0", "tau = [1]"), "tau must be a number"),
        (em("").replace("sigma = 1.0", "sigma = -1.0"), "`em.sigma` must be positive"),
        (em("").replace("tau = 5.0", "tau = 0.5"), "`em.tau` must be greater than sigma squared"),
        (em("rounds = 0"), "`em.rounds` must be from 1"),
        (em("step = 3.0"), "`em.step` must be positive and at most 2, got 3"),
        (em("start = [9.0, 0.0]"), "`em.start` cannot be used: the start must be nonzero and at most 2 long"),
        (em("start = [0.0, 0.0]"), "`em.start`"),
        (em("start = [1.0]"), "`em.start` cannot be used: expected 2 values"),
        (em("estimator = \"catoni\""), "`em.scale` is missing"),
        (em("scale = 2.0"), "`em.scale` has no place"),
        (em("estimator = \"none\"\nbound = 2.0"), "`em.bound` has no place"),
        (em("update = \"direct\""), "`em.update` cannot be used: direct EM is defined for gmm"),
        (em("").replace("column = \"y\"", "column = \"\""), "`outcome.column` is missing"),
        (em("").replace("\"mrm\"", "\"gmm\""), "`outcome` has no place in the mixture"),
        (em("[columns.a]\nlevels = [\"u\", \"v\"]"), "`columns.a.levels` has no place"),
        (em("").replace("features = [\"a\", \"b\"]", "formula = \"y ~ a + b\""), "`model.formula`"),
        (em("").replace("features = [\"a\", \"b\"]", ""), "`model` needs"),
        (em("[features]\ncount = 4"), "`features` has no place"),
    ] {
        assert!(complaint(&text).contains(says), "{says}: {}", complaint(&text));
    }
}
