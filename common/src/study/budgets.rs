//! The private mode of the methods between many sites: what the file must say, what it must not, and what every site releases.
//!
//! Everything here is public. Every site has the same budget, and spends it on its own records.

use super::file::{Missing, StudyFile};
use super::horizontal::{SiteMethod, Sites};
use super::methods::{EstimatorName, Features};
use super::{Guarantee, Mechanism, PrivacyTerms, Protocol, Release, Study, StudyError, value};
use crate::methods::features;
use crate::privacy::mechanism::{PlannedRelease, ReleasePlan, noise_scale};
use crate::study::statement::{Protects, Statement};

/// What rounding may add to a sum of squares, per release.
pub(super) const ROOM: f64 = 1.0 - 1e-12;

/// Largest delta of a stream, whose records may still be to come; where they can be counted, one over their number is the limit, as
/// everywhere.
const MOST_STREAM_DELTA: f64 = 1e-3;

impl Guarantee {
    /// The root of what one run costs a row at a site, as a sum of (sensitivity / sigma)^2; infinite without noise. A person with several
    /// rows costs that many times as much, which is the budget of the run.
    pub(super) fn row_mu(&self, rows_per_person: u32) -> f64 {
        match self {
            Guarantee::Plain => f64::INFINITY,
            Guarantee::Private(terms) => terms.budget.cap().sqrt() / f64::from(rows_per_person.max(1)) * ROOM,
        }
    }
}

impl Study<Sites> {
    /// The root of what one run costs a row at a site, as a sum of (sensitivity / sigma)^2; infinite without noise. A person with
    /// `sites.rows_per_person` rows costs that many times as much, which is the budget of the run.
    pub fn site_mu(&self) -> f64 {
        self.guarantee.row_mu(self.rows_per_person())
    }

    /// Most rows of one person at a site.
    pub fn rows_per_person(&self) -> u32 {
        self.method.terms.rows_per_person
    }

    /// What a run costs a person at a site, as a sum of (sensitivity / sigma)^2; none without noise.
    pub fn site_charge(&self) -> Option<f64> {
        Some(self.site_plan()?.charge_of(self.rows_per_person()))
    }

    /// Every release of a site, in their order; none without noise. For robust regression those of one batch: all batches together
    /// cost as much as one.
    pub fn site_plan(&self) -> Option<ReleasePlan> {
        let mu = match &self.guarantee {
            Guarantee::Plain => return None,
            Guarantee::Private(_) => self.site_mu(),
        };
        // What is released, and its share of the budget relative to the others'.
        let shares: Vec<(String, f64)> = match &self.method.method {
            SiteMethod::Robust(robust) => {
                return Some(self.batch_plan(robust, self.method.terms.batch_rows).ok()?.releases().clone());
            }
            SiteMethod::Em(em) => {
                let rounds = em.settings.stated().rounds;
                (1..=rounds).map(|round| (format!("sum of gradients, round {round}"), 1.0)).collect()
            }
            SiteMethod::Features(features) => match features.release {
                Release::Output => vec![("solution".to_string(), 1.0)],
                Release::Statistics => vec![("cross-products of features".to_string(), 1.0)],
            },
            SiteMethod::Stream(stream) => {
                vec![(format!("every record, {} of a person", stream.records_per_person), 1.0)]
            }
        };
        let whole: f64 = shares.iter().map(|(_, share)| share).sum();
        let planned = |(label, share): (String, f64)| PlannedRelease { label, mu: mu * (share / whole).sqrt() * ROOM };
        Some(ReleasePlan::new(shares.into_iter().map(planned).collect()))
    }

    /// Standard deviation of the noise in each number that a site of a study with random features sends; zero without noise.
    ///
    /// # Errors
    /// A study that cannot be used.
    pub fn features_sigma(&self, features: &Features) -> Result<f64, StudyError> {
        let Some(plan) = self.site_plan() else { return Ok(0.0) };
        let mu = plan.releases().first().map_or(f64::NAN, |release| release.mu);
        let entries = features::Statistics::len(&features.map);
        match noise_scale(features::sensitivity(), entries, mu) {
            Ok((sigma, _)) => Ok(sigma),
            Err(error) => Err(value("privacy", format!("cannot be used: {error}"))),
        }
    }

    /// What a private run between sites protects.
    pub fn site_protects(&self) -> Protects {
        match &self.method.method {
            SiteMethod::Stream(stream) => Protects::Records { per_person: stream.records_per_person },
            SiteMethod::Robust(_) => Protects::Rows { batches: true },
            SiteMethod::Em(_) | SiteMethod::Features(_) => Protects::Rows { batches: false },
        }
    }

    /// What every site's persons are promised, for reports; none without noise.
    pub fn site_promise(&self) -> Option<Statement> {
        let (budget, plan) = (self.private()?.budget, self.site_plan()?);
        let size = (self.method.workers.len(), self.rows_per_person());
        Some(Statement::planned(&budget, &plan, self.site_charge()?, self.site_protects(), size))
    }
}

impl StudyFile {
    /// As of the study that it becomes: by this a rehearsal chooses settings that are still to be written. Infinite also where the budget
    /// will be refused.
    pub fn site_mu(&self) -> f64 {
        Guarantee::parse(self, "")
            .map_or(f64::INFINITY, |guarantee| guarantee.row_mu(self.site_terms().rows_per_person))
    }

    /// The guarantee of a study between sites.
    pub(super) fn site_guarantee(&self) -> Result<Guarantee, StudyError> {
        let guarantee = Guarantee::parse(self, "`privacy.epsilon` and `privacy.delta`")?;
        match &guarantee {
            Guarantee::Plain => {}
            Guarantee::Private(terms) => self.check_site_privacy(&terms.stated)?,
        }
        Ok(guarantee)
    }

    fn check_site_privacy(&self, terms: &PrivacyTerms) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: String| Err(value(key, problem));
        let PrivacyTerms { mechanism, rounds, clip, ridge, design, .. } = terms;
        for (key, given) in [
            ("privacy.mechanism", *mechanism != Mechanism::default()),
            ("privacy.rounds", *rounds != 1),
            ("privacy.clip", *clip != 0.3),
            ("privacy.ridge", *ridge != 0.0),
        ] {
            if given {
                return wrong(key, format!("has no place in a study of protocol `{}`", self.protocol.name()));
            }
        }
        let reckoned: &[&str] = match self.protocol {
            Protocol::Robust => &["correlation", "residual", "signal", "corrupted"],
            Protocol::Em => &["signal"],
            Protocol::Features | Protocol::Stream => &["residual", "signal"],
            Protocol::Vertical => &[],
        };
        design.check(reckoned, self.protocol.name())?;
        if self.rows.missing == Missing::CompleteCases {
            let problem = "cannot be used in private mode: which rows are left out would show in their number; an incomplete row \
                           counts as zero";
            return wrong("rows.missing", problem.to_owned());
        }
        if self.em.as_ref().is_some_and(|terms| terms.estimator == EstimatorName::None) {
            return wrong(
                "em.estimator",
                "is `none`, which bounds nothing: a private run needs `clip` or `catoni`".to_owned(),
            );
        }
        if self.protocol == Protocol::Stream && terms.delta.is_some_and(|delta| delta > MOST_STREAM_DELTA) {
            let problem =
                format!("must be at most {MOST_STREAM_DELTA:e} in a stream, whose records are not counted beforehand");
            return wrong("privacy.delta", problem);
        }
        match terms.delta {
            Some(_) => Ok(()),
            None => {
                let problem = "is missing: every site's noise, which the coordinator must know, follows from it";
                wrong("privacy.delta", problem.to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::sites;

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
            sites(
                &PRIVATE
                    .replace("mode = \"private\"", "")
                    .replace("[privacy]\n        epsilon = 1.0\n        delta = 1e-5", "")
            )
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
}
