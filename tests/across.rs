//! Covariances across the parties against R's `vcov`, `vcovHC` and `linearHypothesis`, over the simulated line.

use fedreg_common::id::{Mode, Role};
use fedreg_common::methods::vertical::message::{Body, JointKind, Message};
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::prepare::Policy;
use fedreg_common::privacy::release::Declaration;
use fedreg_common::report::hypothesis::{self, Fitted};
use fedreg_common::session::Abort;
use fedreg_common::sim::pair::Faults;
use fedreg_common::study::{Study, Vertical};
use fedreg_tests::vectors::{self, Case, Glm, Hypotheses, Implied, Sandwich};
use fedreg_tests::vertical::{family, fitted, frame, run, run_with, session, study};

const SHARED: &str = "[fit]\ntol = 1e-11\n[inference]\ncovariance = \"shared\"\n";

fn by_bob() -> String {
    format!("{SHARED}sender = \"bob\"\n")
}

/// How far the covariances of a fit are off, in units of eight digits of the variances, each with its name.
fn off(name: &str, fit: &VerticalFit, terms: &[String], expected: &[Vec<f64>]) -> Vec<(f64, String)> {
    let covariance = fit.covariance.as_ref().unwrap_or_else(|| panic!("{name}: no covariance"));
    // In the order of the table of coefficients, which is that of the vectors.
    assert_eq!(covariance.terms, terms, "{name}");
    let rows = fit.coefficients.iter().filter(|row| row.estimate.is_some());
    assert!(
        rows.map(|row| (&row.term, row.party)).eq(covariance.terms.iter().zip(covariance.parties.iter().copied())),
        "{name}"
    );
    let mut all = Vec::new();
    for (i, (row, known)) in covariance.matrix.iter().zip(expected).enumerate() {
        assert_eq!(row.len(), known.len(), "{name}");
        for (j, (got, known)) in row.iter().zip(known).enumerate() {
            let got = got.unwrap_or_else(|| panic!("{name}: nothing between {} and {}", terms[i], terms[j]));
            let size = (expected[i][i] * expected[j][j]).sqrt();
            all.push(((got - known).abs() / (1e-8 * size), format!("{name} {} {}: {got} {known}", terms[i], terms[j])));
        }
    }
    all
}

fn assert_small(mut all: Vec<(f64, String)>, least: usize) {
    assert!(all.len() >= least, "{}", all.len());
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("worst {:?}", &all[..5]);
    let bad: Vec<_> = all.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), all.len(), &bad[..bad.len().min(20)]);
}

fn case_of(name: &str) -> Case {
    vectors::all::<Glm>("glm").into_iter().find(|glm| glm.case.name == name).unwrap().case
}

fn fits(case: &Case, more: &str) -> [VerticalFit; 2] {
    fitted(run(&study(case, more), &case.file(), Faults::NONE))
}

#[test]
fn shared_covariances_have_the_digits_of_r_at_either_party_whoever_sends_its_basis() {
    let mut all = Vec::new();
    for implied in vectors::all::<Implied>("statistics") {
        let case = case_of(&implied.name);
        for more in [SHARED.to_string(), by_bob()] {
            let [alice, bob] = fits(&case, &more);
            for (fit, who) in [(&alice, "alice"), (&bob, "bob")] {
                let name = format!("{} {more:?} at {who}", case.name);
                all.extend(off(&name, fit, &implied.covariance.terms, &implied.covariance.matrix));
            }
            assert_eq!(alice.coefficients, bob.coefficients, "{}", case.name);
        }
    }
    assert_small(all, 10_000);
}

#[test]
fn shared_covariances_from_residuals_have_the_digits_of_sandwich() {
    let mut all = Vec::new();
    for of in vectors::all::<Sandwich>("sandwich") {
        let case = case_of(&of.name);
        for more in [SHARED.to_string(), by_bob()] {
            for (fit, who) in fits(&case, &format!("{more}errors = \"HC1\"\n")).iter().zip(["alice", "bob"]) {
                all.extend(off(&format!("{} {more:?} at {who}", case.name), fit, &of.terms, &of.covariance_hc1));
            }
        }
    }
    assert_small(all, 10_000);
}

#[test]
fn linear_hypotheses_about_terms_of_both_parties_are_those_of_car_in_either_report() {
    let (mut all, mut tests) = (Vec::new(), 0);
    for reference in vectors::all::<Hypotheses>("hypotheses") {
        let case = case_of(&reference.name);
        for fit in &fits(&case, SHARED) {
            let reported = Fitted {
                family: family(&case.family),
                outcome: &case.outcome,
                statistics: &fit.statistics,
                coefficients: &fit.coefficients,
                covariance: fit.covariance.as_ref(),
                unfit: None,
            };
            for linear in reference.across.iter().chain(&reference.linear) {
                let tested = hypothesis::linear(reported, &linear.hypotheses).unwrap().test.unwrap();
                let (expected, name) = (&linear.test, format!("{} {:?}", case.name, linear.hypotheses));
                assert_eq!((tested.df, tested.df_residual), (expected.df, expected.df_residual), "{name}");
                let share = |got: f64, expected: f64| (got - expected).abs() / (1e-8 * expected.abs());
                let most = share(tested.statistic, expected.statistic).max(share(tested.p_value, expected.p_value));
                all.push((most, format!("{name}: {tested:?} {expected:?}")));
                tests += 1;
            }
        }
    }
    assert!(tests >= 80, "{tests}");
    assert_small(all, 80);
}

#[test]
fn covariances_leave_only_where_the_study_says_so_and_count_as_columns_in_full() {
    let case = case_of("binomial_admissions");
    let covariances = |more: &str| {
        let mut seen = Vec::new();
        let study = study(&case, more);
        let observe = |side: usize, message: &Message| {
            if let Body::Joint(joint) = &message.body {
                assert_eq!(joint.what, JointKind::Covariance);
                seen.push((side, joint.values.len()));
            }
        };
        let fits = fitted(run_with(&study, &case.file(), Faults::NONE, Policy::default(), observe));
        (fits, seen)
    };
    let (usual, none) = covariances("");
    assert!(none.is_empty());
    for fit in &usual {
        let parties = &fit.covariance.as_ref().unwrap().parties;
        assert!(parties.windows(2).all(|pair| pair[0] == pair[1]));
    }
    let (shared, seen) = covariances(SHARED);
    let own = |fit: &VerticalFit| fit.model.terms.len() + usize::from(fit.model.role == Role::Alice);
    let [a, b] = [own(&shared[0]), own(&shared[1])];
    // Whoever received the basis speaks first.
    assert_eq!(seen, [(1, b * (a + b)), (0, a * (a + b))]);
    for fit in &shared {
        assert!(fit.disclosure.declared.iter().any(|declared| declared == "covariances of all coefficients"));
        assert!(fit.disclosure.columns.iter().all(|column| column.share == 1.0), "{:?}", fit.disclosure.columns);
    }
    // Nothing of it is there without standard errors.
    let strict = Policy { allow_basis: false, ..Policy::default() };
    let study = study(&case, SHARED);
    let observe = |_: usize, message: &Message| {
        if let Body::Joint(joint) = &message.body {
            assert!(joint.values.is_empty());
        }
    };
    for fit in fitted(run_with(&study, &case.file(), Faults::NONE, strict, observe)) {
        assert!(fit.covariance.is_none() && fit.coefficients.iter().all(|row| row.std_error.is_none()));
    }
    // A limit on what may be reconstructed of a column refuses it before anything is said.
    for role in [Role::Alice, Role::Bob] {
        let strict = Policy { max_disclosure: Some(0.99), ..Policy::default() };
        let refused = session(&std::sync::Arc::new(study.clone()), role, strict, frame(&study, role, &case.file()));
        let Err(Abort::Policy { what, .. }) = refused else { panic!("{role}: it begins") };
        assert!(what.contains("covariances of all coefficients") && what.contains("99.0 %"), "{what}");
    }
}

#[test]
fn studies_declare_shared_covariances_and_refuse_them_where_they_have_no_place() {
    let case = case_of("gaussian_diabetes");
    let declares = |study: &Study<Vertical>, role| study.disclosures(role).allows(Declaration::Covariance);
    for role in [Role::Alice, Role::Bob] {
        assert!(declares(&study(&case, SHARED), role) && !declares(&study(&case, ""), role));
    }
    let text = |mode: Mode, more: &str| {
        format!(
            "id = \"x\"\nmode = \"{}\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a\"]\n\
             [parties.bob]\ncertificate = \"bob\"\ncolumns = [\"b\"]\n[inference]\ncovariance = \"shared\"\n{more}",
            mode.name()
        )
    };
    for (mode, more, reason) in [
        (Mode::Sealed, "", "no sealed study lets open"),
        (Mode::Private, "[privacy]\nepsilon = 1.0\n", "has no noise in a private study"),
        (Mode::Plain, "allowed = false\n", "rules out"),
        (Mode::Plain, "[penalty]\nlambda = 0.1\n", "has no place beside `[penalty]`"),
        (Mode::Plain, "[fit]\ncoefficients = \"own\"\n", "keeps from the other party"),
    ] {
        let error = Study::parse(&text(mode, more)).unwrap_err().to_string();
        assert!(error.contains("`inference.covariance`") && error.contains(reason), "{error}");
    }
    let third = "[parties.carol]\ncertificate = \"carol\"\ncolumns = [\"third\"]\n";
    let error = Study::parse(&format!("{}\n{third}", text(Mode::Plain, ""))).unwrap_err().to_string();
    assert!(error.contains("is for two parties"), "{error}");
    assert!(Study::parse(&text(Mode::Plain, "").replace("alice", "anna")).is_ok());
    // A study that says what is usual has the digest of one that says nothing.
    let usual = text(Mode::Plain, "").replace("\"shared\"", "\"own\"");
    let silent = usual.replace("covariance = \"own\"\n", "");
    assert_eq!(Study::parse(&usual).unwrap().digest(), Study::parse(&silent).unwrap().digest());
}
