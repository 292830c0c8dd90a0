//! Study files parse with the digest that they have always had: runs, ledgers, states and models name it.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use fedreg_common::study::Study;

macro_rules! files {
    ($($name:literal => $digest:literal),* $(,)?) => {
        [$(($name, include_str!($name), $digest)),*]
    };
}

/// Computed before studies were parsed into a head, a guarantee and a method.
const FILES: [(&str, &str, &str); 16] = files! {
    "../../examples/two-hospitals/study.toml" => "546c5672172d0100ee4d1d5f63353b3f9d15b245e08eacea8dc19f2a98528ee0",
    "../../examples/two-hospitals-private/study.toml" => "606546127a7045d5aa6921ccf28414a485398bde48bf45bf18f630d5b3fb5b97",
    "../../examples/many-sites/study.toml" => "0379e03e6584620c14c3048e6c44c51312f9f79ffa0766dfd24d7e2af8cc60b3",
    "studies/vertical-full.toml" => "cc93d25d7d775cb4eeaec298f30f3de03c3ae4e18e44573996d5ad6fe874efb0",
    "studies/vertical-path.toml" => "b3bfb49b13044843f013a1a34752b9b1eccfedce352d9921ac35d0fa89b83113",
    "studies/vertical-private.toml" => "038412dbb028c68bcf39e48a3fd9224659e84bbdc5e6b507f2bb96ec903659d1",
    "studies/vertical-private-short.toml" => "f7410965ec2d72b1ea49e9cb65765f2a7e542be7248d39f0a814f83b1d5bcec0",
    "studies/robust-short.toml" => "f2dda66063a21b6c841d69a57579883a80c5a987db3029a45f0642de2011538d",
    "studies/robust-full.toml" => "ea5cb73d5d9e497b71135378aed0ad1e9f2cdf653e7c63636f8ee1bebef9cf45",
    "studies/robust-private.toml" => "641fc51ded6b368b6e46f52a88f9e0e8dfd59daee0ac4e0864383f476d747fa7",
    "studies/em.toml" => "f40b76f89e4ee959b2e567bec134b997ab540513ce8d43bb80eaa03c4d16c320",
    "studies/em-private.toml" => "8a2ff0d749f682b8cb7934bffa194c7e96a9c984736b4d0a944c778144006fb3",
    "studies/features.toml" => "da26084fb31f10b1a85d768bc96e23943f193acbd3ef194a9ef15cdbf2405e4f",
    "studies/features-private.toml" => "985b5ddc4e6169a9e4cc36a15c34ae6a9a2f6e6565f0896045a7c61ad0c3a755",
    "studies/stream.toml" => "43a4289e6749362abfbcd017eef8cfa0b31c999b7e457d83cb2cfa93819d27c0",
    "studies/stream-private.toml" => "ac3a97921763f94ffda10c910800e2d8c1c0618c5d7356e69af332cf107a8de3",
};

#[test]
fn study_files_keep_their_digests() {
    for (name, text, digest) in FILES {
        let study = Study::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(study.digest().to_string(), digest, "{name}");
    }
}

#[test]
fn a_study_between_sites_cannot_be_sealed() {
    let mut seen = 0;
    for (name, text, _) in
        FILES.iter().filter(|(name, ..)| !name.contains("vertical") && !name.contains("two-hospitals"))
    {
        let sealed = match text.contains("mode = \"plain\"") {
            true => text.replacen("mode = \"plain\"", "mode = \"sealed\"", 1),
            false if text.contains("mode = \"private\"") => text.replacen("mode = \"private\"", "mode = \"sealed\"", 1),
            false => format!("mode = \"sealed\"\n{text}"),
        };
        let error = Study::parse(&sealed).unwrap_err();
        // A study that was private has keys that no other mode takes, which may be named first.
        let said = error.to_string().contains("`mode` is \"sealed\", which is between two parties");
        assert!(said || text.contains("mode = \"private\""), "{name}: {error}");
        seen += 1;
    }
    assert_eq!(seen, 10);
}

#[test]
fn a_sealed_study_of_two_parties_is_another_study_and_what_it_cannot_keep_is_refused_by_key() {
    let sealed = FILES[0].1.replacen("mode = \"plain\"", "mode = \"sealed\"", 1);
    let error = Study::parse(&sealed).unwrap_err();
    assert!(error.to_string().contains("`fit.max_rounds` has no place in a sealed gaussian study"), "{error}");
    let sealed = sealed.replacen("max_rounds = 200", "", 1);
    let study = Study::parse(&sealed).unwrap();
    assert_ne!(study.digest().to_string(), FILES[0].2);
    for (from, to, says) in [
        ("tol = 1e-8", "tol = 1e-6", "`fit.tol` has no place in a sealed gaussian study"),
        ("acceleration = \"anderson\"", "acceleration = \"none\"", "`fit.acceleration` has no place"),
        ("[inference]", "[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[inference]", "privacy"),
    ] {
        assert!(sealed.contains(from), "{from}");
        let error = Study::parse(&sealed.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(says), "{to}: {error}");
    }
    // Binomial and poisson models are sealed too, without cross-validation.
    for family in ["binomial", "poisson"] {
        let sealed = sealed.replacen("family = \"gaussian\"", &format!("family = \"{family}\""), 1);
        let without = sealed.replacen("intercept = true", "intercept = false", 1);
        assert!(Study::parse(&sealed).is_ok() && Study::parse(&without).is_ok());
        let with = |key: &str, says: &str| {
            Study::parse(&sealed.replacen("[outcome]", &format!("[{key}]\n{says}\n\n[outcome]"), 1))
        };
        for held_by in ["both", "alice"] {
            assert!(with("offset", &format!("column = \"cases\"\nheld_by = \"{held_by}\"")).is_ok());
        }
        assert!(with("weights", "column = \"cases\"").is_ok());
        for penalty in ["lambda = 1.0\nalpha = 0.0", "lambda = [1.0, 0.1]", "lambda = \"path\"\nalpha = 0.5"] {
            assert!(with("penalty", penalty).is_ok());
        }
        let refused = [
            ("weights", "column = \"cases\"\nheld_by = \"alice\"", "`weights.held_by` is alice: in sealed mode both"),
            ("penalty", "lambda = 1.0\ncv = 5", "`penalty.cv` is given: sealed mode has that for gaussian only"),
        ];
        for (key, value, says) in refused {
            let error = with(key, value).unwrap_err();
            assert!(error.to_string().contains(says), "{family}: {error}");
        }
    }
}

#[test]
fn a_sealed_study_may_fix_the_range_or_open_the_table_to_both_and_no_other_study_may() {
    let sealed = FILES[0].1.replacen("mode = \"plain\"", "mode = \"sealed\"", 1).replacen("max_rounds = 200", "", 1);
    let with = |text: &str, range: &str| Study::parse(&text.replacen("[outcome]", &format!("{range}\n\n[outcome]"), 1));
    let binomial = sealed.replacen("family = \"gaussian\"", "family = \"binomial\"", 1);
    let digest = |range: &str| with(&binomial, range).unwrap().digest();
    // The parties must have the same range; a section without one is none.
    let digests = [digest(""), digest("[sealed]\nrange = 8"), digest("[sealed]\nrange = 10")];
    assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
    assert_eq!((digest("[sealed]"), digest("[sealed]\nrange = 8.0")), (digests[0], digests[1]));
    assert!(with(&binomial.replace("binomial", "poisson"), "[sealed]\nrange = 1.5").is_ok());
    // To whom the table opens is agreed as well.
    let both = with(&sealed, "[sealed]\nopens = \"both\"").unwrap();
    let alice = with(&sealed, "[sealed]\nopens = \"alice\"").unwrap();
    assert!(both.digest() != alice.digest() && alice.digest() == with(&sealed, "").unwrap().digest());
    // Of two parties, both are all.
    assert_eq!(with(&sealed, "[sealed]\nopens = \"all\"").unwrap().digest(), both.digest());
    assert_eq!(digest("[sealed]\nopens = \"all\""), digest("[sealed]\nopens = \"both\""));
    assert_ne!(digest("[sealed]\nopens = \"both\""), digests[0]);
    for (text, section, says) in [
        (
            &binomial,
            "range = 0.75",
            "`sealed.range` must be one of 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, got 0.75",
        ),
        (&binomial, "range = 7", "`sealed.range` must be one of"),
        (&binomial, "range = 33", "`sealed.range` must be one of"),
        (&binomial, "range = -8", "`sealed.range` must be one of"),
        (&binomial, "range = nan", "`sealed.range` must be one of"),
        (&binomial, "range = inf", "`sealed.range` must be one of"),
        (&binomial, "range = \"8\"", "invalid type"),
        (&binomial, "ranges = 8", "unknown key `ranges`; did you mean `range`?"),
        (&sealed, "range = 8", "`sealed.range` has no place in a sealed gaussian study"),
        (&FILES[0].1.to_string(), "range = 8", "`sealed.range` is given, but `mode` is \"plain\""),
        (&FILES[0].1.to_string(), "opens = \"both\"", "`sealed.opens` is given, but `mode` is \"plain\""),
        (&FILES[0].1.to_string(), "", "`sealed` is given, but `mode` is \"plain\""),
        (&FILES[0].1.to_string(), "opens = \"all\"", "`sealed.opens` is given, but `mode` is \"plain\""),
        (&sealed, "opens = \"bob\"", "unknown value `bob`"),
    ] {
        let error = with(text, &format!("[sealed]\n{section}")).unwrap_err();
        assert!(error.to_string().contains(says), "{section}: {error}");
    }
}
