//! What opens in a sealed fit of several parties.

use crate::methods::vertical::sealed::session::Work;
use crate::report::Opened;

/// What this party has let open, in order: at the leader to each of the others, elsewhere to the leader.
pub(super) fn opened(work: &Work) -> Vec<Opened> {
    let (rows, parties) = (work.rows as u64, work.study.parties_in_order());
    let own = work.basis.own() as u64;
    if work.leads {
        let Some(table) = work.table() else { return Vec::new() };
        let answer = |(to, stay): (&crate::id::Role, &usize)| {
            let stay = *stay as u64;
            let what = format!("{to}'s part of the solution with its covariance, two sums and a count");
            let (columns, numbers) = (stay + 2, stay * (stay + 2) + 3);
            Opened { what, rows: stay, columns, numbers, unknowns: rows * own.min(stay), to: *to }
        };
        return parties.iter().skip(1).zip(table.blocks()).map(answer).collect();
    }
    let (to, role, others) = (work.opening.peer, work.role, work.shape.left as u64 - 1);
    let (stay, unknowns) = (own - work.dropped().len() as u64, rows * own.min(others));
    let one =
        |what: String, [rows, columns]: [u64; 2], numbers: u64| Opened { what, rows, columns, numbers, unknowns, to };
    let mut all = vec![one(
        format!("cross-products of {role}'s columns with those of all others and the outcome"),
        [others + 1, own],
        (others + 1) * own,
    )];
    if work.reduction.is_some() {
        let numbers = own * stay + work.dropped().len() as u64;
        all.push(one(format!("which of {role}'s columns stay, and what they are"), [own, stay], numbers));
    }
    all.push(one(format!("{role}'s part of the intercept and of its variance"), [1, 2], 2));
    if work.study.method.intercept && parties.last() != Some(&role) {
        all.push(one(format!("the means of {role}'s columns, in the coordinates of their basis"), [1, stay], stay));
    }
    all
}
