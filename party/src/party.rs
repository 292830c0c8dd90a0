//! One of the two parties of a study, as its own files name it.

use std::sync::Arc;

use fedreg_common::id::Role;
use fedreg_common::study::{Study, Vertical};
use fedreg_proto::files::FileError;
use fedreg_proto::tls::Identity;

use crate::config::Config;
use crate::failure::Failure;

/// That the study has no such party.
pub(crate) fn no_party(role: Role) -> Failure {
    Failure::Usage(format!("the study has no party {role}"))
}

/// One of the two parties of a study.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Party<'a> {
    pub(crate) role: Role,
    pub(crate) config: &'a Config,
    pub(crate) study: &'a Arc<Study<Vertical>>,
}

impl<'a> Party<'a> {
    /// Loads the party's certificate and checks that it carries the study's name for it.
    pub(crate) fn identity(self) -> Result<Identity, Failure> {
        let identity = Identity::load(&self.config.tls)?;
        identity.check_own_name(self.certificate(self.role)?)?;
        identity.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(identity)
    }

    /// Where the dealer of a sealed run is, and the name in its certificate.
    ///
    /// # Errors
    /// The study and the private file do not agree on who deals.
    pub(crate) fn dealer(self) -> Result<(&'a str, &'a str), Failure> {
        let wrong = |problem: &str| Err(FileError::Value { key: "dealer", problem: problem.to_string() }.into());
        match (&self.study.head.dealer, &self.config.dealer) {
            (None, None) => Ok((&self.config.coordinator, &self.study.head.coordinator.certificate)),
            (Some(dealer), Some(address)) => Ok((address, &dealer.certificate)),
            (Some(dealer), None) => wrong(&format!(
                "is missing: masks are dealt by `{}`, apart from the coordinator; set its address in the private file, or give --dealer",
                dealer.certificate
            )),
            (None, Some(_)) => wrong("is given, but the study names no dealer: the coordinator deals"),
        }
    }

    /// The name in a party's certificate.
    pub(crate) fn certificate(self, role: Role) -> Result<&'a str, Failure> {
        let terms = self.study.method.parties.get(&role);
        terms.map(|terms| terms.certificate.as_str()).ok_or_else(|| no_party(role))
    }

    /// The column of record ids, which the study or, in a study with a match, the private file names.
    pub(crate) fn id_column(self) -> Option<&'a str> {
        match self.study.head.matching {
            Some(_) => self.config.matching.id.as_deref(),
            None => self.study.head.rows.id.as_deref(),
        }
    }
}
