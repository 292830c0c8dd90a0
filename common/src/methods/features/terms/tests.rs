//! Studies of functions by random features.

use crate::study::tests::{sites, written};
use crate::study::{SiteMethod, Study};

const SITES: &str = r#"
        id = "sites"
        [workers.north]
        certificate = "north.example"
        [workers.south]
        certificate = "south.example"
    "#;

fn features(more: &str) -> String {
    format!(
        "protocol = \"features\"\n{SITES}\n[model]\nfeatures = [\"age\", \"region\"]\n[outcome]\ncolumn = \"y\"\n[columns.age]\nrange = \
         [18, 90]\n[columns.region]\nlevels = [\"a\", \"b\", \"c\"]\n[columns.y]\nrange = [0, 10]\n[features]\n{more}"
    )
}

fn complaint(text: &str) -> String {
    Study::parse(text).unwrap_err().to_string()
}

#[test]
fn a_short_study_has_the_defaults_and_one_digest() {
    let study = sites(&features(""));
    assert_eq!(study.method.inputs(), ["age", "regionb", "regionc"]);
    let SiteMethod::Features(found) = &study.method.method else { panic!("{study:?}") };
    assert_eq!((found.ranges.len(), found.map.count(), found.lambda), (3, 50, 1e-6));
    assert_eq!(sites(&written(&features(""))), study);
}

#[test]
fn every_mistake_names_its_key() {
    for (text, says) in [
        (features("count = 7"), "`features.count` must be even"),
        (features("count = 3000"), "`features.count` must be at most 2000"),
        (features("frequency_sd = 0.0"), "`features.frequency_sd` must be positive"),
        (features("lambda = -1.0"), "`features.lambda`"),
        (features("consolidation = \"refine\""), "`features.consolidation` has no place"),
        (features("release = \"output\"\nconsolidation = \"best\""), "`features.consolidation` is not known"),
        (features("").replace("range = [18, 90]", ""), "`columns.age.range` is missing"),
        (features("").replace("range = [0, 10]", ""), "`columns.y.range` is missing"),
    ] {
        assert!(complaint(&text).contains(says), "{says}: {}", complaint(&text));
    }
}
