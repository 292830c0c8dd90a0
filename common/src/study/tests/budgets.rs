//! What private studies between sites may cost.

use crate::study::tests::sites;
use crate::study::*;

const PRIVATE: &str = r#"
    id = "sites"
    protocol = "em"
    mode = "private"
    [privacy]
    epsilon = 1.0
    delta = 1e-5
    [workers.north]
    certificate = "north"
    [workers.south]
    certificate = "south"
    [model]
    features = ["a", "b"]
    [em]
    model = "gmm"
    sigma = 1.0
    tau = 5.0
    rounds = 10
"#;

fn complaint(text: &str) -> String {
    Study::parse(text).unwrap_err().to_string()
}

#[test]
fn all_rounds_together_cost_no_more_than_the_budget_and_the_last_half_is_averaged() {
    let study = sites(PRIVATE);
    let (plan, budget) = (study.site_plan().unwrap(), study.private().unwrap().budget);
    assert_eq!(plan.releases().len(), 10);
    assert!(plan.charge() <= budget.cap() && plan.charge() > 0.999 * budget.cap());
    let SiteMethod::Em(em) = &study.method.method else { panic!("{study:?}") };
    assert_eq!(em.settings.stated().averaged, 5);
    assert!(study.disclosures().declared().is_empty());
    assert!(
        sites(&PRIVATE.replace("mode = \"private\"", "").replace("[privacy]\n    epsilon = 1.0\n    delta = 1e-5", ""))
            .site_plan()
            .is_none()
    );
}

#[test]
fn a_person_with_several_rows_costs_the_budget_and_each_row_its_share() {
    let of = |more: &str| sites(&PRIVATE.replace("[em]", &format!("{more}\n[em]")));
    let (one, three) = (of(""), of("[rows]\nid = \"id\"\n[sites]\nrows_per_person = 3"));
    assert!((one.site_mu() / three.site_mu() - 3.0).abs() < 1e-12);
    let cap = three.private().unwrap().budget.cap();
    let charge = three.site_charge().unwrap();
    assert!(charge <= cap && charge > 0.999 * cap && three.site_plan().unwrap().charge() < cap / 8.9);
    let promise = three.site_promise().unwrap();
    assert!(promise.scope.unit.contains("at most 3"), "{promise:?}");
    assert_eq!(promise.charge, charge);
    assert_ne!(one.digest(), three.digest());
}

#[test]
fn private_studies_between_sites_that_promise_nothing_are_refused() {
    for (find, put, says) in [
        ("delta = 1e-5", "", "`privacy.delta` is missing"),
        ("epsilon = 1.0", "epsilon = 0.0", "`privacy.epsilon` must be a positive"),
        ("epsilon = 1.0", "epsilon = 20.0", "large_epsilon"),
        ("delta = 1e-5", "delta = 1e-5\nrounds = 3", "`privacy.rounds` has no place"),
        ("delta = 1e-5", "delta = 1e-5\nclip = 0.1", "`privacy.clip` has no place"),
        ("mode = \"private\"", "", "set mode"),
        ("[em]", "[sites]\nrows_per_person = 2\n[em]", "needs `rows.id`"),
        ("[em]", "[sites]\nrows_per_person = 0\n[em]", "`sites.rows_per_person` must lie between 1 and 1000"),
        ("rounds = 10", "rounds = 10\nestimator = \"none\"", "`em.estimator` is `none`"),
        ("[em]", "[rows]\nmissing = \"complete-cases\"\n[em]", "`rows.missing`"),
    ] {
        let text = PRIVATE.replacen(find, put, 1);
        assert!(complaint(&text).contains(says), "{put}: {}", complaint(&text));
    }
}
