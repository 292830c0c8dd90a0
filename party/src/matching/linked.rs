//! The table of record pairs that was made elsewhere.

use std::path::Path;
use std::sync::Arc;

use fedreg_common::data::Ids;
use fedreg_common::data::matching::alignment::{MatchPurpose, PassRecord};
use fedreg_common::data::matching::linked::Linked;
use fedreg_common::methods::vertical::linked::Pairs;
use fedreg_common::session::Abort;

use super::least;
use crate::alignment::wrong;
use crate::failure::Failure;
use crate::party::Party;
use crate::read::{self, Request, Stated, Written};

/// The column of own record ids.
const OWN: &str = "own_id";
/// The column of pairs.
const PAIR: &str = "pair_id";

/// Where the table is.
///
/// # Errors
/// The private file does not say.
pub(super) fn place(party: Party<'_>) -> Result<&Path, Failure> {
    party.config.matching.pairs.as_deref().ok_or_else(|| {
        let problem = format!(
            "is missing: the study matches rows by a table of pairs; set it in the private file, or give --pairs FILE with the columns \
             {OWN} and {PAIR}"
        );
        wrong("match.pairs", problem)
    })
}

/// Reads the table and joins it with the data; also gives the rows of the data.
///
/// # Errors
/// A table that cannot be read, records that the data do not have, and records or pairs that stand there twice.
pub(super) fn read(party: Party<'_>, purpose: MatchPurpose) -> Result<(Pairs, u64), Failure> {
    let place = place(party)?;
    let own = column(&place.into(), OWN, None, &Written::default())?;
    let pairs = column(&place.into(), PAIR, None, &Written::default())?;
    let config = party.config;
    let written = config.written();
    let id = config.matching.id.as_deref();
    let (ids, rows) = match id {
        Some(id) => {
            let ids = column(&config.source(), id, written.separator, &written)?;
            let rows = ids.len();
            (Some(ids), rows)
        }
        None => {
            // Rows are counted as they are read for the fit.
            let request = Request { columns: Some(Vec::new()), written: written.clone(), ..Request::default() };
            (None, read::read(config.source(), &request)?.rows())
        }
    };
    let linked = Linked::new(&own, &pairs, ids.as_ref(), rows)
        .map_err(|error| Abort::OwnData(format!("{}: {error}", place.display())))?;
    let (role, study, least) = (party.role, Arc::clone(party.study), least(party, purpose));
    Ok((Pairs { role, study, purpose, linked, least }, rows as u64))
}

/// The cells of a column as they are written, none of them missing.
fn column(file: &Stated, name: &str, separator: Option<u8>, written: &Written) -> Result<Ids, Failure> {
    let request = Request {
        columns: Some(Vec::new()),
        id: Some(name.to_string()),
        written: Written { separator, marks: written.marks.clone() },
        ..Request::default()
    };
    Ok(read::read(file, &request)?.ids().cloned().unwrap_or_default())
}

/// The counts of the only pass.
pub(super) fn pass(pairs: u64) -> PassRecord {
    PassRecord {
        name: "table of pairs".to_string(),
        own_eligible: pairs,
        peer_eligible: pairs,
        matched: pairs,
        ..PassRecord::default()
    }
}
