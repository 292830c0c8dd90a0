//! Sealed fits: digits beside the reference fits, gradients that open on hard designs, bytes that pass.

use std::collections::BTreeSet;

use fedreg_common::data::Frame;
use fedreg_common::glm::Family;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::secure::open::Limits;
use nalgebra::DVector;

use crate::Run;
use crate::dealt::{Bytes, SealedFit, UNLIMITED, sealed};
use crate::designs::{DESIGNS, Design, Drawn, names};
use crate::document::{Document, Table};
use crate::research::newton::pooled;
use crate::tables::{each, median};
use crate::vectors::{Reference, parsed, references, sealed_study};

/// The seed of every design, and others that show what depends on the draw.
const SEED: u64 = 1;
const OTHERS: u64 = 10;

/// Beyond this canonical correlation between the parties' columns coefficients are judged in standard errors.
const NEARLY_DEPENDENT: f64 = 0.999;

pub(crate) fn tables(run: &Run) -> anyhow::Result<Document> {
    let mut document = Document::new("Sealed: digits, gradients and bytes of fits on shares");
    document.paragraph(
        "Both parties and the dealer in one process, with the masks, messages and openings of a real run. An estimate is off by its distance \
         from the reference over the size of the reference, or over a thousandth of its standard error where that is more; a standard error by \
         its relative distance.",
    );
    digits(run, &mut document)?;
    let fitted = designs(run, &mut document)?;
    draws(run, &mut document)?;
    bytes(&mut document, &fitted)?;
    Ok(document)
}

/// Most that estimates, estimates in standard errors, and standard errors are off.
#[derive(Debug, Clone, Copy, Default)]
struct Off {
    estimates: f64,
    in_errors: f64,
    errors: f64,
}

impl Off {
    fn add(&mut self, [estimate, error]: [f64; 2], [reference, of_reference]: [f64; 2]) {
        // What is not a number stays: no maximum loses it.
        let larger = |most: f64, off: f64| if off > most || off.is_nan() { off } else { most };
        let away = (estimate - reference).abs();
        self.estimates = larger(self.estimates, away / reference.abs().max(1e-3 * of_reference));
        self.in_errors = larger(self.in_errors, away / of_reference);
        self.errors = larger(self.errors, (error - of_reference).abs() / of_reference);
    }
}

/// The digits that are asked for: of estimates, and of standard errors.
fn asked(reference: &Reference) -> (f64, f64) {
    match reference.family.as_str() {
        "binomial" => (2e-8, 1e-6),
        "poisson" => (5e-8, 1e-6),
        _ if reference.tags.iter().any(|tag| tag == "longley") => (1e-8, 1e-8),
        _ => (1e-9, 1e-9),
    }
}

fn digits(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("Digits");
    document.paragraph(
        "The reference fits of the tests (`tests/vectors/glm`): Newton steps in 60-digit arithmetic, on data that R, statsmodels and NIST \
         have. Limits on what may open are loosened, since most of these data have few rows.",
    );
    let references = references()?;
    for family in ["gaussian", "binomial", "poisson"] {
        // Fewer rows than columns have no errors.
        let of_family = |reference: &&Reference| {
            reference.family == family && !reference.tags.iter().any(|tag| tag == "fewer_rows_than_columns")
        };
        let chosen: Vec<&Reference> = references.iter().filter(of_family).take(run.size(usize::MAX, 2)).collect();
        let fits = each(chosen.len() as u64, |at| fit_reference(chosen[at as usize]))?;
        let mut table = Table::new(
            format!("{family}: most that is off in a fit"),
            ["data", "estimates", "asked for", "standard errors", "asked for", "gradients"],
        );
        let mut statements = Document::new("");
        for (reference, (off, fit)) in chosen.iter().zip(&fits) {
            let (estimates, errors) = asked(reference);
            let gradients = if family == "gaussian" { "none".to_owned() } else { fit.rounds.to_string() };
            table.ours([
                reference.name.clone(),
                tiny(off.estimates),
                tiny(estimates),
                tiny(off.errors),
                tiny(errors),
                gradients,
            ]);
            missed(&mut statements, run, off.estimates, estimates, &format!("{}, estimates", reference.name));
            missed(&mut statements, run, off.errors, errors, &format!("{}, standard errors", reference.name));
        }
        document.table(table);
        if statements.parts.is_empty() {
            let worst = |of: fn(&Off) -> f64| fits.iter().map(|(off, _)| of(off)).fold(0.0, f64::max);
            let text = format!(
                "{family}: every estimate and standard error of {} fits has the digits that are asked for; the most that is off is {} and {}",
                fits.len(),
                tiny(worst(|off| off.estimates)),
                tiny(worst(|off| off.errors))
            );
            if !run.quick {
                document.target(true, text);
            }
        }
        document.parts.extend(statements.parts);
    }
    Ok(())
}

/// States a bound that was missed; those that were reached stand in the table.
fn missed(document: &mut Document, run: &Run, measured: f64, largest: f64, what: &str) {
    if !run.quick && !(measured <= largest) {
        document.target(false, format!("{what}: at most {}, measured {}", tiny(largest), tiny(measured)));
    }
}

/// Two digits with their power of ten.
fn tiny(value: f64) -> String {
    if value.is_finite() { format!("{value:.1e}") } else { "NA".to_owned() }
}

fn fit_reference(reference: &Reference) -> anyhow::Result<(Off, VerticalFit)> {
    let study = reference.study()?;
    let frames = [reference.frame(&study, Role::Alice)?, reference.frame(&study, Role::Bob)?];
    let SealedFit { fit, .. } = sealed(study, frames, UNLIMITED)?;
    let mut off = Off::default();
    for row in &reference.coefficients {
        let found = fit.coefficients.iter().find(|found| found.term == row.term);
        let ours = found.map(|found| (found.estimate, found.std_error));
        match (row.estimate.zip(row.std_error), ours) {
            // Both say that the column depends on others.
            (None, Some((None, None))) => {}
            (Some((estimate, error)), Some((Some(ours), Some(of_ours)))) => {
                off.add([ours, of_ours], [estimate, error]);
            }
            _ => off.add([f64::NAN; 2], [1.0; 2]),
        }
    }
    Ok((off, fit))
}

/// A fit of a design beside the pooled one.
struct Fitted {
    design: Design,
    family: Family,
    sealed: SealedFit,
    off: Off,
    canonical: f64,
}

fn fit_design(design: &Design, rows: usize, family: Family, seed: u64, limits: Limits) -> anyhow::Result<Fitted> {
    let drawn = design.draw(rows, family, seed);
    let sealed = sealed_design(design, &drawn, family, limits)?;
    let mut off = Off::default();
    let reference = pooled(family, &drawn.x.clone().insert_column(0, 1.0), &drawn.y);
    match reference {
        Some((estimates, covariance)) if sealed.fit.coefficients.len() == estimates.len() => {
            let errors: DVector<f64> = covariance.diagonal().map(f64::sqrt);
            for (at, row) in sealed.fit.coefficients.iter().enumerate() {
                let ours = [row.estimate, row.std_error].map(|value| value.unwrap_or(f64::NAN));
                off.add(ours, [estimates[at], errors[at]]);
            }
        }
        _ => off.add([f64::NAN; 2], [1.0; 2]),
    }
    Ok(Fitted { design: *design, family, sealed, off, canonical: drawn.canonical() })
}

fn sealed_design(design: &Design, drawn: &Drawn, family: Family, limits: Limits) -> anyhow::Result<SealedFit> {
    let columns = [Role::Alice, Role::Bob].map(|role| names(role, design.width));
    let study = parsed(&sealed_study(family.name(), [&columns[0], &columns[1]], "y", true))?;
    let frames: [Frame; 2] = [drawn.frame(Role::Alice)?, drawn.frame(Role::Bob)?];
    sealed(study, frames, limits)
}

/// A tenth of the rows, as far as these are enough for a fit.
fn few(design: &Design) -> usize {
    (design.rows / 10).max(40 * design.width).min(design.rows)
}

fn designs(run: &Run, document: &mut Document) -> anyhow::Result<Vec<Fitted>> {
    document.heading("Gradients that open on hard designs");
    document.paragraph(
        "Columns and outcomes drawn from a seed, the pooled fit by Newton steps in double precision. Each gradient that is asked for opens one \
         number a column, so their number is what a fit discloses beside its table. Where the parties' columns nearly depend on each other \
         (canonical correlation above .999) estimates are judged in standard errors.",
    );
    let (limits, mut all) = (run.size(Limits::default(), UNLIMITED), Vec::new());
    for (design, family) in families() {
        let rows = run.size(design.rows, few(&design));
        all.push(fit_design(&design, rows, family, SEED, limits)?);
    }
    let header = [
        "design",
        "family",
        "rows",
        "gradients",
        "at most",
        "estimates off",
        "in std. errors",
        "std. errors off",
        "largest canonical",
    ];
    let mut table = Table::new("Seed 1, both parties have as many columns as the other", header);
    let mut statements = Document::new("");
    for Fitted { design, family, sealed, off, canonical } in &all {
        let binomial = *family == Family::Binomial;
        let gradients = sealed.fit.rounds;
        table.ours([
            format!("{}, {w} + {w}", design.name, w = design.width),
            family.to_string(),
            sealed.fit.statistics.nobs.to_string(),
            gradients.to_string(),
            if binomial { design.most.to_string() } else { String::new() },
            tiny(off.estimates),
            tiny(off.in_errors),
            tiny(off.errors),
            format!("{canonical:.5}"),
        ]);
        let what = format!("{}, {family}", design.name);
        if !sealed.fit.termination.converged() && !run.quick {
            statements.target(false, format!("{what}: the fit converges; it ended: {}", why(&sealed.fit)));
            continue;
        }
        if binomial {
            run.target(&mut statements, f64::from(gradients), f64::from(design.most), &format!("{what}: gradients"));
        }
        let (estimates, how) = match (*canonical > NEARLY_DEPENDENT, binomial) {
            (true, _) => (1e-6, "estimates in standard errors"),
            (false, true) => (2e-8, "estimates"),
            (false, false) => (5e-8, "estimates"),
        };
        let measured = if *canonical > NEARLY_DEPENDENT { off.in_errors } else { off.estimates };
        run.target(&mut statements, measured, estimates, &format!("{what}: {how}"));
        run.target(&mut statements, off.errors, 1e-6, &format!("{what}: standard errors"));
    }
    document.table(table);
    document.parts.extend(statements.parts);
    Ok(all)
}

/// Why a fit did not converge; limits that were loosened are noted, too, and are no reason.
fn why(fit: &VerticalFit) -> String {
    let note = fit.notes.iter().find(|note| !note.contains("loosened"));
    note.map_or_else(|| fit.termination.to_string(), Clone::clone)
}

/// Every design with each family that is fitted.
fn families() -> impl Iterator<Item = (Design, Family)> {
    DESIGNS.into_iter().flat_map(|design| {
        let counts = design.counts.then_some((design, Family::Poisson));
        std::iter::once((design, Family::Binomial)).chain(counts)
    })
}

/// How much the number of gradients depends on the draw.
fn draws(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    let seeds = run.seeds(OTHERS);
    let mut table = Table::new(
        format!("Gradients of fits of {seeds} other draws; nothing is asked of these"),
        ["design", "family", "least", "median", "most", "not converged"],
    );
    let mut ended = Vec::new();
    for (design, family) in families() {
        let rows = run.size(design.rows, few(&design));
        let found = each(seeds, |seed| {
            let drawn = design.draw(rows, family, SEED + 1 + seed);
            let fit = sealed_design(&design, &drawn, family, UNLIMITED)?.fit;
            Ok(if fit.termination.converged() { Ok(f64::from(fit.rounds)) } else { Err(why(&fit)) })
        })?;
        let mut gradients: Vec<f64> = found.iter().flatten().copied().collect();
        let reasons: BTreeSet<&String> = found.iter().filter_map(|ended| ended.as_ref().err()).collect();
        for reason in reasons {
            ended.push(format!("{}, {family}: {reason}", design.name));
        }
        gradients.sort_by(f64::total_cmp);
        let shown = |value: Option<f64>| value.map_or_else(|| "NA".to_owned(), |value| value.to_string());
        table.ours([
            design.name.to_owned(),
            family.to_string(),
            shown(gradients.first().copied()),
            shown((!gradients.is_empty()).then(|| median(gradients.clone()))),
            shown(gradients.last().copied()),
            (found.len() - gradients.len()).to_string(),
        ]);
    }
    document.table(table);
    if !ended.is_empty() {
        document.paragraph(format!("Those that did not converge ended so: {}.", ended.join("; ")));
    }
    Ok(())
}

fn bytes(document: &mut Document, fitted: &[Fitted]) -> anyhow::Result<()> {
    document.heading("Bytes");
    document.paragraph(
        "Elements of the ring that pass in a whole fit with standard errors, a row, beside the formulas: 16 p_k each way for the table, 16 D each \
         way and 16 from the dealer for a gradient whose kernel has D terms, 16 min(p) one way and 16 p_k from the dealer to each for the \
         weighted table. What is more are canaries, shares and tables, whose size does not grow with the rows, and one public column beside \
         each block of the table.",
    );
    let header =
        ["design", "family", "most terms", "Alice to Bob", "formula", "Bob to Alice", "formula", "dealer", "formula"];
    let mut table = Table::new("Bytes a row", header);
    let mut most = 0.0_f64;
    for Fitted { design, family, sealed, .. } in fitted {
        let (passed, formula) = (sealed.passed, sealed.predicted()?);
        let rows = sealed.fit.statistics.nobs as f64;
        let a_row = |of: fn(&Bytes) -> u64| [&passed, &formula].map(|bytes| format!("{:.0}", of(bytes) as f64 / rows));
        let pairs: [fn(&Bytes) -> u64; 3] = [|b| b.from_alice, |b| b.from_bob, |b| b.from_dealer];
        let mut cells = vec![design.name.to_owned(), family.to_string(), sealed.terms().to_string()];
        cells.extend(pairs.into_iter().flat_map(a_row));
        table.ours(cells);
        // Of what both say of the two lines between the parties.
        for of in &pairs[..2] {
            most = most.max(((of(&passed) as f64 - of(&formula) as f64) / rows).abs());
        }
    }
    document.table(table);
    document.paragraph(format!("Between the parties at most {most:.1} bytes a row pass beyond the formulas."));
    Ok(())
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;

    use super::*;

    #[test]
    fn an_estimate_that_is_no_number_is_not_lost_behind_those_that_are() {
        let mut off = Off::default();
        off.add([1.0, 2.0], [1.0, 2.0]);
        off.add([f64::NAN, 2.0], [1.0, 2.0]);
        off.add([1.0 + 1e-9, 2.0 + 4e-9], [1.0, 2.0]);
        assert!(off.estimates.is_nan() && off.in_errors.is_nan());
        assert!((off.errors - 2e-9).abs() < 1e-15);
    }

    #[test]
    fn the_pooled_fit_beside_a_design_has_the_digits_of_the_reference_fits() {
        let mut cases = 0;
        for name in ["binomial_wine_like", "binomial_steep", "poisson_unscaled"] {
            let reference = references().unwrap().into_iter().find(|reference| reference.name == name).unwrap();
            let table = reference.columns();
            let x = DMatrix::from_fn(table[0].len(), table.len() - 1, |row, column| table[column + 1][row]);
            let family = Family::ALL.into_iter().find(|family| family.name() == reference.family).unwrap();
            let x = x.insert_column(0, 1.0);
            let (estimates, covariance) = pooled(family, &x, &DVector::from_vec(table[0].clone())).unwrap();
            for (at, row) in reference.coefficients.iter().enumerate() {
                let (estimate, error) = (row.estimate.unwrap(), row.std_error.unwrap());
                let away = (estimates[at] - estimate).abs() / estimate.abs().max(1e-3 * error);
                let of_error = (covariance[(at, at)].sqrt() / error - 1.0).abs();
                assert!(away < 1e-10 && of_error < 1e-9, "{name} {}: {away:e} {of_error:e}", row.term);
                cases += 1;
            }
        }
        assert!(cases > 10, "{cases}");
    }

    #[test]
    fn a_design_is_what_its_name_says_and_what_passes_in_its_fit_is_a_little_more_than_the_formulas() {
        let events = DESIGNS[2].draw(20_000, Family::Binomial, SEED).y.mean();
        assert!((0.0105..0.0155).contains(&events), "{events}");
        assert!(DESIGNS[1].draw(3000, Family::Binomial, SEED).canonical() > NEARLY_DEPENDENT);
        let fitted = fit_design(&DESIGNS[0], 1000, Family::Binomial, SEED, Limits::default()).unwrap();
        assert!(fitted.off.estimates < 2e-8 && fitted.off.errors < 1e-6, "{:?}", fitted.off);
        let (passed, formula) = (fitted.sealed.passed, fitted.sealed.predicted().unwrap());
        for of in [|b: &Bytes| b.from_alice, |b: &Bytes| b.from_bob, |b: &Bytes| b.from_dealer] {
            let beyond = of(&passed) - of(&formula);
            // The public column of the table, and what does not grow with the rows.
            assert!(beyond < 16 * 1000 + 10_000, "{beyond}");
        }
    }
}
