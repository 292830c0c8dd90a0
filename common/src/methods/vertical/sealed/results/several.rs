//! What opens in a sealed fit of several parties.

use crate::methods::vertical::sealed::opened::OpeningOfSeveral;
use crate::methods::vertical::sealed::session::Work;
use crate::report::Opened;
use crate::secure::gaussian::Table;

/// What this party has let open, in order: at the leader to each of the others, elsewhere to the leader.
pub(super) fn opened(work: &Work) -> Vec<Opened> {
    let (rows, parties) = (work.rows as u64, work.study.parties_in_order());
    let (own, intercept) = (work.basis.own() as u64, work.study.method.intercept);
    let others = if work.leads { work.shape.right } else { work.shape.left - 1 } as u64;
    let to_all = work.study.guarantee.opens_to_both();
    let refit = work.study.guarantee.opens_factors();
    let opening = OpeningOfSeveral { parties: &parties, role: work.role, rows, own, others, intercept, to_all, refit };
    if work.leads {
        let stay: Vec<u64> =
            work.table().map(Table::blocks).unwrap_or_default().iter().map(|stay| *stay as u64).collect();
        return opening.of_leader(&stay, work.asked());
    }
    let dropped = work.reduction.as_ref().map(|reduction| reduction.dropped.len() as u64);
    opening.of_another(dropped)
}
