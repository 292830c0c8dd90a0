//! What a hub tells of a run: the report, whole for the coordinator, and to each site its own part.

use super::{Hub, NAMED};
use crate::exit::Exit;
use crate::glm::Family;
use crate::id::Role;
use crate::privacy::caution::Caution;
use crate::report::{Disclosure, PerParty, Report, VERSION, WorkerRow};
use crate::star::message::ToSite;
use crate::star::method::Outcome;
use crate::study::Guarantee;

impl Hub {
    /// Who is not complete, and why, as the end of a sentence.
    pub(super) fn absences(&self) -> String {
        let absent: Vec<String> = self
            .sites
            .iter()
            .filter(|(_, site)| site.position.left.is_some() || !site.finished())
            .filter(|(_, site)| self.asked || !site.counts())
            .take(NAMED)
            .map(|(name, site)| match !self.asked && site.line.is_some() && site.position.left.is_none() {
                true => format!("; {name} was connected, but not ready"),
                false => format!("; {name} {}", site.state(true)),
            })
            .collect();
        absent.concat()
    }

    pub(super) fn outcome_for(&self, name: &str) -> ToSite {
        let Some(over) = &self.over else {
            return ToSite::Refused { exit: Exit::Internal, sentence: "the run is not over".to_string() };
        };
        match &over.result {
            Ok(report) => {
                let own = own_view(report, name);
                ToSite::Outcome { exit: over.exit, report: serde_json::to_string(&own).unwrap_or_default() }
            }
            Err(reason) => ToSite::Refused { exit: over.exit, sentence: reason.clone() },
        }
    }

    /// The report; of a run that goes on, without complaint about who is still expected.
    pub(super) fn written(&self, outcome: Outcome, reason: Option<String>, goes_on: bool) -> Report {
        let mut notes = outcome.notes;
        notes.extend(reason);
        for (name, site) in self.sites.iter().filter(|(_, site)| site.position.left.is_some() || !site.finished()) {
            if !goes_on || site.position.left.is_some() {
                notes.push(format!("{name}: {}", site.state(!goes_on)));
            }
        }
        let mut consolidation = outcome.consolidation;
        match &mut consolidation {
            Some(consolidation) => {
                consolidation.rejected = self.rejections.all();
                consolidation.repeated.clone_from(&self.rejections.repeated);
            }
            None => notes.extend(self.rejections.all().iter().map(|r| format!("rejected: {}: {}", r.from, r.reason))),
        }
        let workers = self
            .sites
            .iter()
            .map(|(name, site)| WorkerRow {
                worker: name.clone(),
                state: site.state(!goes_on),
                contributions: site.position.accepted,
                rejected: site.position.rejected,
                bytes: site.position.bytes,
            })
            .collect();
        let report = Report {
            protocol: self.study.protocol(),
            mode: self.study.mode(),
            study: self.study.head.id.clone(),
            study_digest: self.digest.to_string(),
            run: self.run.to_string(),
            version: VERSION.to_string(),
            role: Some(Role::Coordinator),
            link: Family::Gaussian.link().to_string(),
            outcome: self.study.method.outcome.clone(),
            coefficients: outcome.coefficients,
            statistics: outcome.statistics,
            rounds: outcome.rounds,
            // Under noise nobody may look whether the estimates are the solution.
            converged: match self.study.guarantee {
                Guarantee::Plain => Some(outcome.termination.converged()),
                Guarantee::Private(_) => None,
            },
            termination: outcome.termination,
            tol: f64::NAN,
            notes,
            disclosure: PerParty::Own(Disclosure {
                declared: self.study.disclosures().declared().iter().map(|d| d.name().to_string()).collect(),
                ..Disclosure::default()
            }),
            privacy: PerParty::Own(self.study.site_promise()),
            consolidation,
            workers: Some(workers),
            course: outcome.course,
            function: outcome.function,
            ..Report::default()
        };
        let caution = self.caution(&report, goes_on);
        report.cautioned(caution)
    }

    /// What a reader of a private report must know first: from its plan, for as many rows a site as took part on average, and from what
    /// was released. Of a run that `goes_on` only what costs no time.
    fn caution(&self, report: &Report, goes_on: bool) -> Option<Caution> {
        match &self.study.guarantee {
            Guarantee::Plain => return None,
            Guarantee::Private(_) => {}
        }
        let all = match &report.consolidation {
            Some(consolidation) => consolidation.batches.iter().fold(0u64, |sum, batch| sum.saturating_add(batch.nobs)),
            None => report.statistics.nobs,
        };
        let came = report.workers.iter().flatten().filter(|row| row.contributions > 0).count().max(1) as u64;
        let foretold = match self.study.method.method.terms().foretold_quickly(goes_on, all, report.rounds) {
            true => self.study.expectation(all / came).ok().and_then(|expected| expected.caution()),
            false => None,
        };
        Caution::joined(foretold, Caution::of_released(&report.coefficients))
    }
}

/// What a worker may see of the hub's report: the result, and of batches and rejections its own.
fn own_view(report: &Report, name: &str) -> Report {
    let mut own = Report { role: Some(Role::Worker), ..report.clone() };
    if let Some(consolidation) = &mut own.consolidation {
        consolidation.keep_site(name);
        if report.course.is_some() {
            consolidation.trusted = consolidation.batches.iter().filter(|batch| batch.trusted).count() as u64;
        }
    }
    if let Some(workers) = &mut own.workers {
        workers.retain(|row| row.worker == name);
    }
    own
}
