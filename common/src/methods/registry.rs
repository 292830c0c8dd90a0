//! The list of methods: which hub and which site computation a study asks for, and who lays out the report of a run.
//!
//! A new variant of [`SiteMethod`] fails to compile here and in every other place that has to decide.

use super::{em, features, robust, stream, vertical};
use crate::id::Protocol;
use crate::report::Report;
use crate::report::layout::Layout;
use crate::star::method::Method;
use crate::star::site::local::{Local, LocalMethod};
use crate::study::{Guarantee, SiteMethod, Sites, Study, StudyError};

/// The hub of a study, before anything came.
///
/// # Errors
/// The study cannot be used.
pub fn hub(study: &Study<Sites>) -> Result<Box<dyn Method>, StudyError> {
    match &study.method.method {
        SiteMethod::Robust(terms) => Ok(Box::new(robust::hub::Robust::new(study, terms)?)),
        SiteMethod::Em(terms) => Ok(Box::new(em::hub::Em::new(study, terms))),
        SiteMethod::Features(terms) => Ok(Box::new(features::hub::Features::new(study, terms)?)),
        SiteMethod::Stream(terms) => Ok(Box::new(stream::hub::Stream::new(study, terms))),
    }
}

/// What a site of a study computes, of at least a given number of rows.
///
/// # Errors
/// Bounds that cannot be used.
pub fn site(study: &Study<Sites>, least: u64) -> Result<Local, StudyError> {
    let charged = match study.guarantee {
        Guarantee::Plain => false,
        Guarantee::Private(_) => true,
    };
    let method: Box<dyn LocalMethod> = match &study.method.method {
        SiteMethod::Robust(terms) if charged => Box::new(robust::site::Private::new(study, terms, least)?),
        SiteMethod::Robust(terms) => Box::new(robust::site::Plain::new(terms, least)),
        SiteMethod::Em(terms) => Box::new(em::site::Site::new(terms, charged, least)),
        SiteMethod::Features(terms) => Box::new(features::site::Site::new(terms, charged, least)),
        SiteMethod::Stream(terms) => Box::new(stream::site::Site::new(study, terms, charged)),
    };
    Ok(Local::of(method, charged, charged || study.in_rounds()))
}

/// The report of a run with its method's sections, to be shown as text or as a page.
pub fn layout(report: &Report) -> Layout<'_> {
    match report.protocol {
        Protocol::Vertical => vertical::report::layout(report),
        Protocol::Robust => robust::report::layout(report),
        Protocol::Em => em::report::layout(report),
        Protocol::Features => features::report::layout(report),
        Protocol::Stream => stream::report::layout(report),
    }
}
