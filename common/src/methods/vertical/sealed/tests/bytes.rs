//! Bytes of a small fit, each kind of message each way, against the formulas.

use std::collections::BTreeMap;

use super::super::*;
use super::glm::{BINOMIAL, rows};
use super::transcript::{Transcript, transcript};
use crate::fit::Termination;
use crate::methods::vertical::message::JointKind;
use crate::secure::kernel::{Kernel, Separated};

/// Bytes of each message by its receiver and its kind.
type Passed = BTreeMap<(usize, &'static str), Vec<u64>>;

const ALICE: usize = 0;
const BOB: usize = 1;
/// Rows, and columns of both.
const N: u64 = 40;
const P: [u64; 2] = [2, 3];

fn passed(transcript: &Transcript) -> Passed {
    let mut passed = Passed::new();
    for (to, what, elements) in &transcript.received {
        passed.entry((*to, what)).or_default().push(elements.to_bytes().len() as u64);
    }
    for (from, what, values) in &transcript.joints {
        let what = match what {
            JointKind::Point => "points",
            JointKind::Range => "ranges",
            JointKind::End => "the end",
            JointKind::Answer => "the solution",
            JointKind::Means => "means",
            other => panic!("{other:?}"),
        };
        passed.entry((1 - from, what)).or_default().push(8 * values.len() as u64);
    }
    passed
}

/// Rows of which the outcome has nothing to do with the columns.
fn few() -> Vec<[f64; 6]> {
    let mut rows = rows("binomial", N as usize, false);
    rows.iter_mut().enumerate().for_each(|(row, values)| values[5] = f64::from(u8::from(row % 5 < 2)));
    rows
}

/// Coefficients of the kernels of the fit: of the mean at each point, of weight and loss at the end.
fn coefficients(transcript: &Transcript) -> (Vec<u64>, [u64; 2]) {
    let of = |kind| transcript.joints.iter().filter(move |(_, what, _)| *what == kind).map(|(_, _, values)| values);
    let points = of(JointKind::Point).zip(of(JointKind::Range));
    let classes: Vec<(usize, u32)> =
        points.map(|(point, range)| (point[1].min(range[0]) as usize, point[0] as u32)).collect();
    let terms = |kernel, class, digits| Separated::new(kernel, class, digits).unwrap().terms as u64;
    let (last, _) = *classes.last().unwrap();
    let means = classes.iter().map(|(class, digits)| terms(Kernel::Mean, *class, *digits)).collect();
    (means, [terms(Kernel::Weight, last, 9), terms(Kernel::Loss, last, 9)])
}

#[test]
fn a_small_binomial_fit_passes_the_bytes_of_the_formulas_and_no_other() {
    let run = transcript(BINOMIAL, &few(), 50);
    let (passed, (means, ends)) = (passed(&run), coefficients(&run));
    let [p_a, p_b] = P;
    let all = 1 + p_a + p_b;
    let mut expected = Passed::new();
    let mut add = |to, what, bytes| expected.entry((to, what)).or_default().push(bytes);
    // The table: 16 p_k a row each way, Alice's with the outcome, and a public column beside each block.
    add(BOB, "columns", 16 * N * (p_a + 1 + 1));
    add(ALICE, "columns", 16 * N * (p_b + 1));
    add(BOB, "the last correction of a product", 16 * (p_a + 2) * (p_b + 1));
    add(BOB, "canaries", 16);
    add(ALICE, "canaries", 16);
    add(ALICE, "shares", 16 * (p_a + 1) * p_b);
    let mut corrected = (0..).map(|product| [BOB, ALICE][product % 2]);
    let mut within = |add: &mut dyn FnMut(usize, &'static str, u64), d: u64| {
        // D - 1 factors a row each way and as many public integers; one element a row from the dealer, to either party in turn.
        [ALICE, BOB].iter().for_each(|to| add(*to, "factors", 16 * (N + 1) * (d - 1)));
        add(corrected.next().unwrap(), "corrections of rows", 16 * (N + 1));
    };
    for d in &means {
        add(BOB, "points", 8 * (3 + p_b));
        add(ALICE, "ranges", 8);
        within(&mut add, *d);
        [ALICE, BOB].iter().for_each(|to| add(*to, "residuals", 16 * N));
        add(BOB, "the last correction of a product", 16 * (p_a + p_b));
        add(BOB, "canaries", 16);
        add(ALICE, "shares", 16 * (1 + all));
    }
    // Weights, losses, and the weighted table: 16 min(p) a row one way, 16 p_k from the dealer to each.
    add(BOB, "the end", 8);
    ends.iter().for_each(|d| within(&mut add, *d));
    [ALICE, BOB].iter().for_each(|to| add(*to, "weights", 16 * N));
    add(BOB, "columns with weights", 16 * N * p_a.min(p_b));
    add(ALICE, "corrections of rows", 16 * N * p_a);
    add(BOB, "corrections of rows", 16 * N * p_b);
    add(BOB, "the last correction of a product", 16 * (p_a * p_a + p_b * p_b + p_a * p_b));
    add(BOB, "canaries", 2 * 16);
    add(ALICE, "shares", 16 * (2 + all * (all + 1) / 2 + 1));
    add(BOB, "the solution", 8 * (2 + p_b + p_b * p_b + p_b * p_b + p_b));
    add(ALICE, "means", 8 * 3);
    assert_eq!(passed, expected);
    // What a check foretells of a gradient: 16 D a row, and the public integers.
    let sizes = Sizes::new(&super::study("sealed", BINOMIAL), N as usize, 2, 3);
    for (at, d) in means.iter().enumerate() {
        for to in [ALICE, BOB] {
            let sent = passed[&(to, "factors")][at] + passed[&(to, "residuals")][at];
            assert_eq!(sent, 16 * N * d + 16 * (d - 1));
            assert_eq!(sizes.gradient_bytes(d - 1), sent);
        }
    }
    let fits = super::fits(run.ended);
    assert!(fits.iter().all(|fit| fit.termination == Termination::Converged && fit.rounds as usize == means.len()));
    assert!(means.len() >= 2, "{means:?}");
}
