//! What a run would do and disclose, without opening a connection.

use std::path::Path;

use fedreg_common::explanation::site_leaves;
use fedreg_common::methods::registry;
use fedreg_common::session::Abort;
use fedreg_common::star::site::local::{Act, Batch, Input, Local};
use fedreg_common::study::{Protocol, SiteMethod, Sites, Study, StudyError};
use serde::Serialize;

use super::batches::{Arrival, Encoding, Source};
use super::config::Config;
use super::join::identity;
use super::privacy;
use super::private::Private;
use crate::failure::Failure;
use crate::output::Folder;
use crate::show::size;
use crate::store::Store;

/// A configuration that was found sound, and what a run with it would disclose.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// The worker's name in the study.
    pub worker: String,
    /// The study's id.
    pub study: String,
    /// Its method.
    pub protocol: Protocol,
    /// Its digest: every worker must see the same.
    pub study_digest: String,
    /// Rows of the table; `None` where they come from standard input.
    pub rows: Option<u64>,
    /// Batches that they make.
    pub batches: Option<u64>,
    /// Batches with too few rows to be fitted.
    pub too_small: u64,
    /// The coefficients.
    pub terms: Vec<String>,
    /// Certificate in use.
    pub certificate: Vec<String>,
    /// What would leave, per batch.
    pub leaves: Vec<String>,
    /// Bytes that would leave, per batch.
    pub bytes_per_batch: u64,
    /// What a run would cost and what is left, in private mode.
    pub privacy: Option<String>,
}

/// Checks study, configuration, data, certificates and folders; reads the whole table, a batch at a time.
///
/// # Errors
/// The first thing that a run would fail on here.
pub fn check(config: &Config, out: Option<&Path>) -> Result<Checked, Failure> {
    let study = super::join::study(config)?;
    let usage = |error: StudyError| Failure::Usage(error.to_string());
    let shapes = registry::hub(&study).map_err(usage)?.shapes();
    let (identity, worker) = identity(config, &study)?;
    let privacy = match Private::of(config, &study) {
        None => None,
        Some(private) => {
            private.countable()?;
            Some(privacy::cost(config, &study, private)?)
        }
    };
    if let Some(out) = out {
        Folder::prepare(out)?;
    }
    drop(Store::open(&config.state)?);
    let encoding = Encoding::new(&study, config.written());
    let policy = config.policy.min_rows.unwrap_or(0);
    let least = usize::try_from(policy).unwrap_or(usize::MAX).max(encoding.least());
    let mut too_small = 0;
    let (mut rows, mut batches) = (None, None);
    let mut trial = Trial::new(&study, policy).map_err(usage)?;
    if !config.reads_stdin() {
        let mut source = Source::open(config, encoding, study.site_terms().batch_rows, &Arrival::default())?;
        while let Some(batch) = source.batch()? {
            *rows.get_or_insert(0) += batch.y.len() as u64;
            *batches.get_or_insert(0) += 1;
            too_small += u64::from(batch.y.len() < least);
            trial.take(batch)?;
        }
    }
    trial.end()?;
    Ok(Checked {
        worker,
        study: study.head.id.clone(),
        study_digest: study.digest().to_string(),
        rows,
        batches,
        too_small,
        terms: study.method.coefficients.clone(),
        protocol: study.protocol(),
        certificate: identity.facts().names.clone(),
        leaves: site_leaves(&study).map_err(usage)?.into_iter().map(|leaves| leaves.what).collect(),
        privacy: privacy.map(|cost| cost.budget()),
        bytes_per_batch: shapes.iter().map(|shape| 8 * (shape.counts + shape.values) as u64).max().unwrap_or(0),
    })
}

/// Whether a run of batches would have an estimate of any of them: without one it ends.
struct Trial {
    /// What fits batches, as in a run; none of studies that fit none at a site, and once one was fitted.
    site: Option<Local>,
    /// Why the first batch has none.
    reason: Option<String>,
}

impl Trial {
    fn new(study: &Study<Sites>, least: u64) -> Result<Trial, StudyError> {
        let fits = matches!(study.method.method, SiteMethod::Robust(_)) && study.private().is_none();
        Ok(Trial { site: fits.then(|| registry::site(study, least)).transpose()?, reason: None })
    }

    /// Fits a batch, unless one before it was fitted already.
    fn take(&mut self, batch: Batch) -> Result<(), Abort> {
        let Some(site) = &mut self.site else { return Ok(()) };
        if self.reason.is_none() {
            site.step(Input::Begin(0))?;
        }
        if let Act::Fit(fitting) = site.step(Input::Rows(Some(batch)))? {
            match fitting.run().unfit {
                Some(reason) => drop(self.reason.get_or_insert(reason)),
                None => self.site = None,
            }
        }
        Ok(())
    }

    fn end(self) -> Result<(), Abort> {
        match (self.site, self.reason) {
            (Some(_), Some(reason)) => Err(Abort::OwnData(format!("no batch could be fitted: {reason}"))),
            (None, _) | (_, None) => Ok(()),
        }
    }
}

impl Checked {
    /// For people.
    pub fn text(&self) -> String {
        let (rows, batches) = match (self.rows, self.batches) {
            (Some(rows), Some(batches)) => (rows.to_string(), batches.to_string()),
            _ => ("from standard input".to_string(), "as they come".to_string()),
        };
        let Checked { worker, study, study_digest: digest, terms, certificate, .. } = self;
        let (count, terms, certificate) = (terms.len(), terms.join(", "), certificate.join(", "));
        let mut text = format!(
            "{worker} can take part in `{study}`\n\n  study digest   {digest}\n  rows           {rows}\n  batches        {batches}\n  \
             coefficients   {count}: {terms}\n  certificate    {certificate}\n\nWhat would leave {worker}\n"
        );
        for what in &self.leaves {
            text.push_str(&format!("  {what}\n"));
        }
        let each = match self.protocol {
            Protocol::Em => "in each round, and the number of rows",
            Protocol::Features => "once, and the number of rows",
            Protocol::Stream => "at most in a message, and the number of its records",
            Protocol::Robust | Protocol::Vertical => "a batch, and the number of its rows",
        };
        text.push_str(&format!("  {} {each}\n", size(self.bytes_per_batch)));
        if self.too_small > 0 {
            text.push_str(&format!("  {} batches have too few rows to be fitted\n", self.too_small));
        }
        if let Some(privacy) = &self.privacy {
            text.push_str(&format!("  {privacy}\n"));
        }
        text.push_str("No connection was opened, and nothing has left.\n");
        text
    }
}
