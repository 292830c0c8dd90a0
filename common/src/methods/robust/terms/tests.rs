//! Private robust studies: bounds, plans, and what is refused.

use crate::privacy::mechanism::ReleasePlan;
use crate::study::tests::sites;
use crate::study::{SiteMethod, Sites, Study};

const PRIVATE: &str = r#"
    id = "clinics"
    protocol = "robust"
    mode = "private"
    [privacy]
    epsilon = 1.0
    delta = 1e-6
    [workers.north]
    certificate = "north"
    [workers.south]
    certificate = "south"
    [model]
    features = ["age", "region", "smoker"]
    [outcome]
    column = "cost"
    [columns.age]
    range = [18, 90]
    [columns.region]
    levels = ["north", "south", "west"]
    [columns.smoker]
    levels = ["false", "true"]
    [columns.cost]
    range = [0, 70000]
    [sites]
    batch_rows = 10000
    "#;

fn complaint(text: &str) -> String {
    Study::parse(text).unwrap_err().to_string()
}

#[test]
fn bounds_and_releases_of_every_batch_follow_from_the_study() {
    let study = sites(PRIVATE);
    let bounds_of = |study: &Study<Sites>| match &study.method.method {
        SiteMethod::Robust(robust) => study.batch_bounds(robust).unwrap(),
        other => panic!("{other:?}"),
    };
    let bounds = bounds_of(&study);
    assert_eq!(bounds.names(), ["age", "regionsouth", "regionwest", "smokerTRUE"]);
    let budget = study.private().unwrap().budget;
    let SiteMethod::Robust(robust) = &study.method.method else { panic!("{study:?}") };
    let plan = study.batch_plan(robust, 10_000).unwrap();
    let norm = |text: &str| bounds_of(&sites(text)).radius();
    assert_eq!(norm(PRIVATE), 4f64.sqrt());
    assert_eq!(norm(&PRIVATE.replace("range = [18, 90]", "centre = 50\nscale = 20")), 2.0);
    assert_eq!(norm(&PRIVATE.replace("[sites]", "[robust.private]\nrow_norm = 1.25\n[sites]")), 1.25);
    assert!(plan.releases().charge() <= budget.cap() && plan.releases().charge() > 0.999 * budget.cap());
    let twelve = ReleasePlan::of_parts(&vec![plan.releases().clone(); 12]);
    assert_eq!(twelve.releases().len(), 12 * plan.releases().releases().len());
    assert_eq!(twelve.charge().to_bits(), plan.releases().charge().to_bits());
    assert!(study.disclosures().declared().is_empty());
}

#[test]
fn private_robust_studies_that_cannot_be_kept_are_refused_before_anything_is_spent() {
    for (find, put, says) in [
        ("batch_rows = 10000", "batch_rows = 60", "this budget cannot fit 5 columns on 60 rows"),
        ("range = [18, 90]", "", "lacks public bounds of `age`"),
        ("range = [0, 70000]", "", "give [columns.cost] a `range`"),
        ("range = [0, 70000]", "centre = 0\nscale = 1", "give [columns.cost] a `range`"),
        ("[sites]", "[robust.private]\nrow_norm = 0.0\n[sites]", "robust.private.row_norm"),
        ("[sites]", "[robust.private]\nrow_norm = inf\n[sites]", "robust.private.row_norm"),
        ("range = [18, 90]", "centre = 50\nscale = -1", "columns.age.scale"),
        ("delta = 1e-6", "", "`privacy.delta` is missing"),
        ("delta = 1e-6", "delta = 1e-6\nclip = 0.1", "`privacy.clip` has no place"),
        ("[sites]", "[robust]\ngram = false\n[sites]", "robust.gram"),
        ("[sites]", "[robust.online]\nwindow = 7\n[sites]", "robust.online"),
        ("[sites]", "[robust.private]\nrounds = 1\n[sites]", "robust.private.rounds"),
        ("[sites]", "[robust.private]\nfirst_cut = 0.0\n[sites]", "robust.private.first_cut"),
        ("[sites]", "[rows]\nmissing = \"complete-cases\"\n[sites]", "rows.missing"),
        ("features = [\"age\", \"region\", \"smoker\"]", "formula = \"cost ~ age\"", "list `features`"),
        ("[outcome]", "intercept = false\n[outcome]", "leaves an intercept"),
    ] {
        let text = PRIVATE.replacen(find, put, 1);
        assert!(complaint(&text).contains(says), "{put}: {}", complaint(&text));
    }
    let plain = PRIVATE.replacen("mode = \"private\"", "", 1).replacen(
        "[privacy]\n    epsilon = 1.0\n    delta = 1e-6",
        "[robust.private]",
        1,
    );
    assert!(complaint(&plain).contains("robust.private"), "{}", complaint(&plain));
}
