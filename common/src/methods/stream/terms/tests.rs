//! Studies of streams.

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
        (stream("records_per_person = 0"), "`stream.records_per_person`"),
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
