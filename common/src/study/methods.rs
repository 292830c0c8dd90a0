//! The list of methods. What a method between sites says of itself stands in `terms` of its folder, which implements [`MethodTerms`]; its
//! hub and its site stand in [`crate::methods::registry`].

use std::collections::BTreeMap;

use super::file::StudyFile;
use super::{Sites, Study};
use crate::id::{Digest, Protocol};
use crate::methods::em::terms::Em;
use crate::methods::features::terms::Features;
use crate::methods::robust::terms::Robust;
use crate::methods::stream::terms::Stream;
use crate::methods::vertical::terms::{SECTIONS, Vertical, VerticalGuarantee};
use crate::privacy::mechanism::ReleasePlan;
use crate::privacy::release::Disclosures;
use crate::terms::statement::{Protects, Statement};
use crate::terms::suggestion::{ErrorTable, Search};
use crate::terms::{self, Expectation, Guarantee, Guaranteed, Head, MethodTerms, NoExpectation, StudyError, value};

/// Which method a study runs, with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum Method {
    /// Two parties hold different columns of the same rows.
    Vertical(Vertical, VerticalGuarantee),
    /// Many sites hold the same columns of different rows.
    Sites(Sites, Guarantee),
}

/// Of a study whose method is not told apart yet the guarantee stands beside the method.
impl Guaranteed for Method {
    type Guarantee = ();
}

/// What sites compute, with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum SiteMethod {
    /// One regression of rows some of which are wrong.
    Robust(Robust),
    /// Models with something hidden.
    Em(Em),
    /// A function by random features.
    Features(Features),
    /// A function that follows a stream of records.
    Stream(Stream),
}

impl SiteMethod {
    /// What the method says of itself.
    pub fn terms(&self) -> &dyn MethodTerms<SiteMethod> {
        match self {
            SiteMethod::Robust(robust) => robust,
            SiteMethod::Em(em) => em,
            SiteMethod::Features(features) => features,
            SiteMethod::Stream(stream) => stream,
        }
    }

    /// Of the section of a study's method.
    pub(super) fn parse(file: &StudyFile, study: &Study<terms::Sites<()>>) -> Result<SiteMethod, StudyError> {
        match file.protocol {
            Protocol::Vertical => Err(value("protocol", "is `vertical`, which has no workers")),
            Protocol::Robust => Robust::parse(file.robust.as_ref(), study).map(SiteMethod::Robust),
            Protocol::Em => Em::parse(file.em.as_ref(), study).map(SiteMethod::Em),
            Protocol::Features => Features::parse(file.features.as_ref(), study).map(SiteMethod::Features),
            Protocol::Stream => Stream::parse(file.stream.as_ref(), study).map(SiteMethod::Stream),
        }
    }
}

impl StudyFile {
    pub(super) fn parse_vertical(
        mut self,
        head: Head,
        keys: Vec<(String, Digest)>,
    ) -> Result<Study<Vertical>, StudyError> {
        self.check_parties()?;
        self.follow_formulas()?;
        self.takes_only(&SECTIONS, "a vertical study")?;
        if let Some(terms) = &head.matching {
            if head.rows.id.is_some() {
                return Err(value("rows.id", "has no place beside `[match]`: the parties match rows by keys"));
            }
            terms.check(&self.parties.keys().copied().collect::<Vec<_>>())?;
        }
        let method = Vertical {
            parties: self.parties,
            leader: self.leader,
            order: self.order,
            family: self.model.family.base(),
            quasi: self.model.family.is_quasi(),
            intercept: self.model.intercept,
            outcome: self.outcome,
            offset: self.offset,
            weights: self.weights,
            penalty: self.penalty,
            fit: self.fit,
            inference: self.inference,
            prediction: self.prediction,
        };
        method.check(self.mode)?;
        let guarantee = VerticalGuarantee::parse(self.mode, self.privacy.as_ref(), self.sealed.as_ref())?;
        let study = Study { head, guarantee, keys, method };
        match &study.guarantee {
            VerticalGuarantee::Plain => {}
            VerticalGuarantee::Sealed(terms) => study.check_sealed(terms)?,
            VerticalGuarantee::Private(terms) => study.check_private(&terms.stated)?,
        }
        Ok(study)
    }
}

impl Study<Sites> {
    fn terms(&self) -> &dyn MethodTerms<SiteMethod> {
        self.method.method.terms()
    }

    /// Its method by name.
    pub fn protocol(&self) -> Protocol {
        self.terms().protocol()
    }

    /// Whether sites answer round by round, and a round may be closed without one of them.
    pub fn in_rounds(&self) -> bool {
        self.terms().in_rounds()
    }

    /// What this study lets a site disclose.
    pub fn disclosures(&self) -> Disclosures {
        match &self.guarantee {
            Guarantee::Private(_) => Disclosures::default(),
            Guarantee::Plain => Disclosures::new(self.terms().declared()),
        }
    }

    /// What a run costs a person at a site, as a sum of (sensitivity / sigma)^2; none without noise.
    pub fn site_charge(&self) -> Option<f64> {
        Some(self.site_plan()?.charge_of(self.rows_per_person()))
    }

    /// Every release of a site, in their order; none without noise. For robust regression those of one batch: all batches together
    /// cost as much as one.
    pub fn site_plan(&self) -> Option<ReleasePlan> {
        match &self.guarantee {
            Guarantee::Plain => None,
            Guarantee::Private(_) => self.terms().releases(self),
        }
    }

    /// What a private run between sites protects.
    pub fn site_protects(&self) -> Protects {
        self.terms().protects()
    }

    /// What every site's persons are promised, for reports; none without noise.
    pub fn site_promise(&self) -> Option<Statement> {
        let (budget, plan) = (self.private()?.budget, self.site_plan()?);
        let size = (self.method.workers.len(), self.rows_per_person());
        Some(Statement::planned(&budget, &plan, self.site_charge()?, self.site_protects(), size))
    }

    /// What the study states of the columns of the model, which every site brings, in words; and the norm at which rows are cut.
    pub fn stated_bounds(&self) -> BTreeMap<String, String> {
        let outcome = Some(&self.method.outcome).filter(|name| !name.is_empty());
        self.head.stated_bounds(self.method.features.iter().chain(outcome), self.terms().row_norm())
    }

    /// What error to expect of a private run in which every site has this number of rows or records.
    ///
    /// # Errors
    /// Says in a sentence why nothing sound can be said.
    pub fn expectation(&self, rows: u64) -> Result<Expectation, NoExpectation> {
        let reckoned = match &self.guarantee {
            Guarantee::Plain => return Err(NoExpectation::NotPrivate),
            Guarantee::Private(terms) => terms.stated.design.reckoned(),
        };
        if rows == 0 {
            return Err(NoExpectation::NoRows);
        }
        let foretold = self.terms().foretold(self, rows, reckoned)?;
        Ok(foretold.sized(rows, self.number_of_sites(), self.terms().half_range(self)))
    }

    /// The table of errors; the rows that are planned for are in it.
    pub fn error_table(&self, rows: u64) -> ErrorTable {
        let (counts, epsilons) = self.terms().tabled(rows);
        let own = self.private().map(|terms| terms.budget.epsilon());
        ErrorTable::new(counts, epsilons, own, None, |epsilon, rows| {
            let guarantee = Guarantee::Private(self.private()?.at(epsilon)?);
            Study { guarantee, ..self.clone() }.foretold(self.terms(), rows)
        })
    }

    /// The settings of the study's method: what was tried, and what is expected to do better.
    pub fn search(&self, rows: u64) -> Search {
        // Nothing is compared where the study's own error cannot be foretold.
        let now = self.foretold(self.terms(), rows);
        now.map_or_else(Search::default, |now| self.terms().search(self, rows, now))
    }
}
