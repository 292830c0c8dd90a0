//! The report as text that follows R's `summary(glm(...))`, for eyes that know where to look.

use std::fmt::Write as _;

use super::number::{
    UNDEFINED, bytes, column, duration, exponential, percent, round, shape, significant, single, small, thousands,
    visible,
};
use super::{CvPoint, Disclosure, PathPoint, Report, caution, horizontal};
use crate::fit::Coefficient;
use crate::glm::Family;
use crate::id::{Mode, Role};
use crate::study::statement::Statement;

/// Significant digits of estimates, as `summary.glm` prints them.
const DIGITS: usize = 4;
/// Columns whose reconstructible share is named in the text; all of them are in JSON and HTML.
const NAMED_COLUMNS: usize = 5;
/// A share below this is rounding of a column of which nothing was shown.
const SMALLEST_SHARE: f64 = 1e-12;
/// Where a value stands after its label in the closing lines.
const INDENT: usize = 11;
/// Width after which the closing lines are folded.
const WIDTH: usize = 100;

/// The report as text: what R prints for a `glm`, then how it ended, what left, what privacy was spent, and notes.
///
/// Estimates are rounded and aligned as by R's `printCoefmat`. There is no colour and no trailing space, and names are
/// shown with control characters escaped, since they come from the header of somebody's file.
///
/// # Privacy
/// Nothing in it belongs to a single record. In private mode there are no stars: they would count noise as evidence.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, report);
    let mut lines: Vec<&str> = out.lines().map(str::trim_end).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    if let Some(caution) = &report.caution {
        caution::write(out, caution)?;
    }
    if report.workers.is_some() {
        return horizontal::write(out, report);
    }
    writeln!(out, "Call:\n{}\n", visible(&report.call))?;
    coefficients(out, report)?;
    fit(out, report)?;
    if let Some(path) = &report.path {
        lambda_path(out, path, report.statistics.null_deviance)?;
    }
    if let Some(cv) = &report.cv {
        cross_validation(out, report, cv)?;
    }
    closing(out, report)
}

/// The cells of a coefficient table, formatted as by R's `printCoefmat`, a row a coefficient.
pub(crate) struct Cells {
    /// Estimates and standard errors.
    pub(crate) estimate: Vec<String>,
    /// Standard errors, with as many decimals as the estimates.
    pub(crate) std_error: Vec<String>,
    /// t or z.
    pub(crate) statistic: Vec<String>,
    /// Two-sided.
    pub(crate) p_value: Vec<String>,
    /// `***` and the like; empty where nothing is below 0.1.
    pub(crate) stars: Vec<&'static str>,
    /// Whether any row has a star or a point.
    pub(crate) starred: bool,
}

impl Cells {
    /// Formats the rows together: what one needs, all get.
    pub(crate) fn new(rows: &[Coefficient], stars: bool) -> Cells {
        let n = rows.len();
        let mut sizes: Vec<Option<f64>> = rows.iter().map(|row| row.estimate).collect();
        sizes.extend(rows.iter().map(|row| row.std_error));
        let smallest =
            sizes.iter().flatten().map(|x| x.abs()).filter(|x| x.is_finite() && *x > 0.0).fold(f64::INFINITY, f64::min);
        let before_point = match smallest.is_finite() {
            true => 1 + smallest.log10().floor() as i32,
            false => 0,
        };
        let decimals = (DIGITS as i32 - before_point).max(1);
        let rounded: Vec<Option<f64>> = sizes.iter().map(|x| x.map(|x| round(x, decimals))).collect();
        let mut text = column(&rounded, DIGITS);
        // Rounding to the decimals of the largest may have hidden a small number altogether.
        let hidden: Vec<usize> =
            (0..2 * n).filter(|&at| sizes[at].is_some_and(|x| x != 0.0) && text[at].parse() == Ok(0.0)).collect();
        let shown = column(&hidden.iter().map(|&at| sizes[at]).collect::<Vec<_>>(), DIGITS - 1);
        for (at, shown) in hidden.into_iter().zip(shown) {
            text[at] = shown;
        }
        let std_error = text.split_off(n);

        let tests: Vec<Option<f64>> = rows.iter().map(|row| row.statistic.map(|t| round(t, 3))).collect();
        let p_values: Vec<Option<f64>> = rows.iter().map(|row| row.p_value.filter(|p| p.is_finite())).collect();
        let starred = stars && p_values.iter().flatten().any(|p| *p < 0.1);
        Cells {
            estimate: text,
            std_error,
            statistic: column(&tests, DIGITS),
            p_value: p_value_column(&p_values),
            stars: p_values.iter().map(|p| if starred { symbol(*p) } else { "" }).collect(),
            starred,
        }
    }
}

/// The ends of intervals with as many decimals as the estimates beside them.
pub(crate) fn interval_cells(ends: &[Option<f64>], estimates: &[String]) -> Vec<String> {
    let decimals = estimates
        .iter()
        .filter(|text| *text != UNDEFINED)
        .map(|text| match text.contains('e') {
            true => None,
            false => Some(text.split_once('.').map_or(0, |(_, decimals)| decimals.len())),
        })
        .reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)))
        .flatten();
    match decimals {
        Some(decimals) if ends.iter().flatten().all(|x| x.abs() < 1e9) => ends
            .iter()
            .map(|end| match end.filter(|x| x.is_finite()) {
                Some(x) => format!("{x:.decimals$}"),
                None => UNDEFINED.to_string(),
            })
            .collect(),
        _ => column(&ends.iter().map(|end| end.map(|x| significant(x, DIGITS))).collect::<Vec<_>>(), DIGITS),
    }
}

/// The symbol of R's legend.
fn symbol(p_value: Option<f64>) -> &'static str {
    match p_value {
        Some(p) if p <= 0.001 => "***",
        Some(p) if p <= 0.01 => "**",
        Some(p) if p <= 0.05 => "*",
        Some(p) if p <= 0.1 => ".",
        _ => "",
    }
}

/// R's `format.pval` with three digits: small ones in scientific notation, those below the machine's precision as a bound.
fn p_value_column(p_values: &[Option<f64>]) -> Vec<String> {
    const DIGITS: usize = 3;
    let vanishing = |p: f64| p < f64::EPSILON;
    let plain = |p: f64| p == 0.0 || p.log10().floor() >= -4.0;
    let only = |keep: &dyn Fn(f64) -> bool| -> Vec<Option<f64>> {
        p_values.iter().map(|p| p.filter(|p| !vanishing(*p) && keep(*p))).collect()
    };
    let fixed = column(&only(&plain), DIGITS);
    let tiny = column(&only(&|p| !plain(p)), DIGITS);
    let mut text: Vec<String> = p_values
        .iter()
        .zip(fixed.into_iter().zip(tiny))
        .map(|(p, (fixed, tiny))| match p {
            Some(p) if plain(*p) => fixed,
            Some(_) => tiny,
            None => UNDEFINED.to_string(),
        })
        .collect();
    let shown =
        p_values.iter().zip(&text).filter(|(p, _)| p.is_some_and(|p| !vanishing(p))).map(|(_, text)| text.len()).max();
    let bound = if shown.is_some_and(|width| width > 6) { "< 2e-16" } else { "<2e-16" };
    for (p, text) in p_values.iter().zip(&mut text) {
        if p.is_some_and(vanishing) {
            *text = bound.to_string();
        }
    }
    text
}

/// The name of the statistic, by the law that the p-values have: `t` where the dispersion is estimated or estimates of sites are
/// consolidated, with the degrees of freedom of their rows; `z` where it is known or, between two parties, noise is all there is.
pub(crate) fn statistic_name(report: &Report) -> char {
    let normal = only_noised(report) && report.workers.is_none();
    if report.family.estimates_dispersion() && !normal { 't' } else { 'z' }
}

/// Whether all that is known of the run was released with noise, and nobody may look at its course.
pub(crate) fn only_noised(report: &Report) -> bool {
    match report.mode {
        Mode::Plain => false,
        Mode::Private => true,
    }
}

/// Whether the rows belong to more than one party, so that each must say to whom.
pub(crate) fn several_parties(report: &Report) -> bool {
    report.workers.is_none()
        && (report.role.is_none() || report.coefficients.iter().any(|row| Some(row.party) != report.role))
}

/// Why there are no standard errors at all; `None` if there are some, or no estimates to have them.
pub(crate) fn why_no_errors(report: &Report) -> Option<&'static str> {
    let estimates = report.coefficients.iter().any(|row| row.estimate.is_some());
    if !estimates || report.coefficients.iter().any(|row| row.std_error.is_some()) {
        None
    } else if only_noised(report) {
        Some("in private mode they are printed only where they account for the noise")
    } else if report.notes.iter().any(|note| note.to_lowercase().contains("standard error")) {
        Some("see the notes")
    } else if report.path.is_some() {
        Some("the estimates are penalised")
    } else {
        Some("this run did not compute them")
    }
}

/// To which penalty the coefficients belong; `None` without one.
pub(crate) fn shown_lambda(report: &Report) -> Option<String> {
    let lambda = single(Some(report.lambda?), DIGITS);
    let last = report.path.as_ref().and_then(|path| path.last()).map(|point| point.lambda);
    Some(match (report.lambda == report.lambda_min, report.lambda == last) {
        (true, _) => format!("lambda = {lambda}, that of the smallest cross-validated error"),
        (_, true) => format!("lambda = {lambda}, the last of the path"),
        _ => format!("lambda = {lambda}"),
    })
}

pub(crate) fn coefficients(out: &mut String, report: &Report) -> std::fmt::Result {
    let rows = &report.coefficients;
    if rows.is_empty() {
        return writeln!(out, "No Coefficients\n");
    }
    let private = only_noised(report);
    let parties = several_parties(report);
    let dropped = rows.iter().filter(|row| row.estimate.is_none()).count();
    let mut remarks = Vec::new();
    if let (Some(role), false, None) = (report.role, parties, &report.workers) {
        remarks.push(format!("columns of {role}"));
    }
    remarks.extend(shown_lambda(report));
    if dropped > 0 {
        remarks.push(format!("{dropped} not defined because of singularities"));
    }
    match remarks.is_empty() {
        true => writeln!(out, "Coefficients:")?,
        false => writeln!(out, "Coefficients: ({})", remarks.join("; "))?,
    }
    let cells = Cells::new(rows, !private);
    let test = statistic_name(report);
    let mut columns = vec![Column::left("", rows.iter().map(|row| visible(&row.term)).collect())];
    if parties {
        columns.push(Column::left("Party", rows.iter().map(|row| row.party.to_string()).collect()));
    }
    columns.push(Column::right("Estimate", cells.estimate));
    // Methods of many sites that have no standard errors at all: columns of NA would say nothing.
    let bare = report.workers.is_some() && rows.iter().all(|row| row.std_error.is_none());
    if !bare {
        columns.push(Column::right("Std. Error", cells.std_error));
        columns.push(Column::right(&format!("{test} value"), cells.statistic));
        columns.push(Column::right(&format!("Pr(>|{test}|)"), cells.p_value));
        columns.push(Column::left("", cells.stars.iter().map(ToString::to_string).collect()));
    }
    table(out, &columns)?;
    if cells.starred {
        writeln!(out, "---\nSignif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1")?;
    }
    if let Some(why) = why_no_errors(report) {
        let missing = if bare { "not available" } else { "NA" };
        writeln!(out, "---\nStandard errors are {missing}: {why}")?;
    }
    writeln!(out)
}

fn fit(out: &mut String, report: &Report) -> std::fmt::Result {
    let s = &report.statistics;
    let private = only_noised(report);
    if s.dispersion.is_some() || !private {
        writeln!(out, "(Dispersion parameter for {} family taken to be {})\n", report.family, single(s.dispersion, 7))?;
    }
    if s.deviance.is_none() && s.null_deviance.is_none() && s.aic.is_none() && private {
        writeln!(out, "Deviances and AIC are NA: nobody may look at them in private mode")?;
    } else {
        let deviances = aligned(column(&[s.null_deviance, s.deviance], DIGITS + 1));
        let degrees = aligned(
            [s.df_null, s.df_residual].map(|df| df.map_or_else(|| UNDEFINED.to_string(), |df| df.to_string())).into(),
        );
        for (name, (deviance, df)) in ["    Null", "Residual"].into_iter().zip(deviances.iter().zip(&degrees)) {
            writeln!(out, "{name} deviance: {deviance}  on {df}  degrees of freedom")?;
        }
        if report.missing > 0 {
            let plural = if report.missing == 1 { "" } else { "s" };
            writeln!(out, "  ({} observation{plural} deleted due to missingness)", report.missing)?;
        }
        writeln!(out, "AIC: {}", single(s.aic, DIGITS + 1))?;
        let others: Vec<String> = [("BIC", s.bic), ("log-likelihood", s.log_lik), ("R squared", s.r_squared)]
            .into_iter()
            .filter(|(_, value)| value.is_some_and(f64::is_finite))
            .map(|(name, value)| format!("{name}: {}", single(value, DIGITS + 1)))
            .collect();
        if !others.is_empty() {
            writeln!(out, "{}", others.join(",  "))?;
        }
    }
    writeln!(out, "\nNumber of rounds: {}\n", report.rounds)
}

fn lambda_path(out: &mut String, path: &[PathPoint], null_deviance: Option<f64>) -> std::fmt::Result {
    writeln!(out, "Path of {} values of lambda:", path.len())?;
    let explained = path
        .iter()
        .map(|point| match null_deviance {
            Some(null) if null > 0.0 && point.deviance.is_finite() => {
                format!("{:.2}", 100.0 * (1.0 - point.deviance / null) + 0.0)
            }
            _ => UNDEFINED.to_string(),
        })
        .collect();
    let lambdas: Vec<Option<f64>> = path.iter().map(|point| Some(significant(point.lambda, DIGITS))).collect();
    table(
        out,
        &[
            Column::left("", (1..=path.len()).map(|at| at.to_string()).collect()),
            Column::right("Df", path.iter().map(|point| point.df.to_string()).collect()),
            Column::right("%Dev", explained),
            Column::right("Lambda", column(&lambdas, DIGITS)),
        ],
    )?;
    let worst = path.iter().map(|point| point.kkt).filter(|kkt| kkt.is_finite()).fold(f64::NAN, f64::max);
    writeln!(out, "Largest violation of the optimality conditions: {}\n", small(Some(worst)))
}

/// What cross-validation measures.
pub(crate) fn measure(family: Family) -> &'static str {
    match family {
        Family::Gaussian => "Mean-Squared Error",
        Family::Binomial => "Binomial Deviance",
        Family::Poisson => "Poisson Deviance",
    }
}

fn cross_validation(out: &mut String, report: &Report, cv: &[CvPoint]) -> std::fmt::Result {
    writeln!(out, "Cross-validation over {} values of lambda", cv.len())?;
    writeln!(out, "Measure: {}\n", measure(report.family))?;
    let chosen: Vec<(&str, usize)> = [("min", report.lambda_min), ("1se", report.lambda_1se)]
        .into_iter()
        .filter_map(|(name, lambda)| Some((name, cv.iter().position(|point| Some(point.lambda) == lambda)?)))
        .collect();
    let number = |value: fn(&CvPoint) -> f64| {
        let values: Vec<Option<f64>> = chosen.iter().map(|&(_, at)| Some(value(&cv[at]))).collect();
        column(&values, DIGITS)
    };
    let nonzero = |lambda: f64| {
        let points = report.path.as_deref().unwrap_or_default();
        points.iter().find(|point| point.lambda == lambda).map(|point| point.df)
    };
    table(
        out,
        &[
            Column::left("", chosen.iter().map(|(name, _)| name.to_string()).collect()),
            Column::right("Lambda", number(|point| point.lambda)),
            Column::right("Index", chosen.iter().map(|(_, at)| (at + 1).to_string()).collect()),
            Column::right("Measure", number(|point| point.mean)),
            Column::right("SE", number(|point| point.se)),
            Column::right(
                "Nonzero",
                chosen
                    .iter()
                    .map(|&(_, at)| nonzero(cv[at].lambda).map_or_else(|| UNDEFINED.to_string(), |df| df.to_string()))
                    .collect(),
            ),
        ],
    )?;
    writeln!(out)
}

fn closing(out: &mut String, report: &Report) -> std::fmt::Result {
    let view = match report.role {
        Some(role) => format!("report of {role}"),
        None => "merged report".to_string(),
    };
    let digest: String = report.study_digest.chars().take(8).collect();
    labelled(
        out,
        "Study:",
        &[format!(
            "{} (digest {}), run {}, {} {}, {view}",
            visible(&report.study),
            visible(&digest),
            visible(&report.run),
            report.protocol.name(),
            report.mode.name()
        )],
    )?;
    if let Some(date) = &report.date {
        labelled(out, "Made:", &[format!("{} by fedreg {}", visible(date), visible(&report.version))])?;
    }
    labelled(
        out,
        "Rows:",
        &[format!(
            "{} used, {} left out for missing values",
            thousands(report.statistics.nobs),
            thousands(report.missing)
        )],
    )?;
    labelled(out, "Ended:", &[ending(report)])?;
    let shown = reconstructible(report);
    let plain = report.privacy.each(report.role).iter().all(|(_, account)| account.is_none());
    if plain {
        let lines = match shown.is_empty() {
            true => vec!["none: values left without noise".to_string()],
            false => shown.into_iter().map(|line| format!("none: {line}")).collect(),
        };
        labelled(out, "Privacy:", &lines)?;
    }
    let left: Vec<String> = report
        .disclosure
        .each(report.role)
        .into_iter()
        .map(|(role, disclosure)| {
            let sent = report.bytes_sent.of_or_own(role).copied();
            left_here(role, disclosure, sent, report.statistics.nobs)
        })
        .collect();
    labelled(out, "Left:", &left)?;
    if !plain {
        labelled(out, "Privacy:", &accounts(report))?;
    }
    let times: Vec<String> = report
        .seconds
        .each(report.role)
        .into_iter()
        .filter(|(_, s)| s.total.is_finite())
        .map(|(role, s)| {
            format!(
                "{}{} in all: reading {}, computing {}, exchange {}",
                owner(role),
                duration(s.total),
                duration(s.read),
                duration(s.solve),
                duration(s.exchange)
            )
        })
        .collect();
    if !times.is_empty() {
        labelled(out, "Time:", &times)?;
    }
    if !report.notes.is_empty() {
        writeln!(out, "Notes:")?;
        for note in &report.notes {
            writeln!(out, "{}", folded(&visible(note), "  - ", "    "))?;
        }
    }
    Ok(())
}

/// The privacy accounts of a report in words: what all promise is said once.
fn accounts(report: &Report) -> Vec<String> {
    let accounts = report.privacy.each(report.role);
    let common = promised_by_all(&accounts);
    let said_once: Vec<String> = common.iter().map(|line| visible(line)).collect();
    let privacy = accounts.into_iter().flat_map(|(role, account)| {
        let Some(account) = account else {
            return vec![format!("{}none: values left without noise", owner(role))];
        };
        let own = account.promise.iter().chain(&account.account).filter(|line| !common.contains(line));
        own.map(|line| format!("{}{}", owner(role), visible(line))).collect()
    });
    said_once.into_iter().chain(privacy).collect()
}

fn owner(role: Option<Role>) -> String {
    role.map(|role| format!("{role}: ")).unwrap_or_default()
}

/// How it ended, in one sentence.
pub(crate) fn ending(report: &Report) -> String {
    let rounds = match report.rounds {
        1 => "1 round".to_string(),
        n => format!("{n} rounds"),
    };
    let mut parts = vec![rounds];
    if let Some(certificate) = largest_certificate(report) {
        parts.push(format!("certificate {}", small(Some(certificate))));
    }
    if let Some(last) = report.trace.last().filter(|last| last.change.is_finite()) {
        parts.push(format!("last change {}", small(Some(last.change))));
    }
    if parts.len() > 1 {
        parts.push(format!("tol {}", small(Some(report.tol))));
    }
    format!("{} ({})", report.termination, parts.join(", "))
}

/// The larger certificate of both sides; `None` where nobody may look.
pub(crate) fn largest_certificate(report: &Report) -> Option<f64> {
    report
        .certificate
        .each(report.role)
        .into_iter()
        .filter_map(|(_, certificate)| *certificate)
        .filter(|certificate| certificate.is_finite())
        .reduce(f64::max)
}

fn left_here(role: Option<Role>, disclosure: &Disclosure, sent: Option<u64>, nobs: u64) -> String {
    let mut parts = Vec::new();
    if disclosure.vectors == 0 && disclosure.declared.is_empty() {
        parts.push("nothing without noise".to_string());
    } else {
        let plural = if disclosure.vectors == 1 { "" } else { "s" };
        let (vectors, nobs) = (thousands(disclosure.vectors), thousands(nobs));
        parts.push(format!("{vectors} vector{plural} of {nobs} values"));
    }
    match sent {
        Some(sent) if sent >= 1_000_000 => parts.push(format!("{} bytes ({}) in all", thousands(sent), bytes(sent))),
        Some(sent) => parts.push(format!("{} bytes in all", thousands(sent))),
        None => {}
    }
    let mut text = owner(role) + &parts.join(", ");
    if !disclosure.declared.is_empty() {
        let declared: Vec<String> = disclosure.declared.iter().map(|kind| visible(kind)).collect();
        let _ = write!(text, "; declared: {}", declared.join(", "));
    }
    if !disclosure.columns.is_empty() {
        let _ = write!(text, "; rank disclosed: {}", disclosure.rank);
    }
    text
}

/// Which columns of whom the other side can work out from what left in plain mode, a sentence a party that can: columns
/// with the same share are named together, the largest share first.
pub fn reconstructible(report: &Report) -> Vec<String> {
    let sentence = |(role, disclosure): (Option<Role>, &Disclosure)| {
        let mut columns: Vec<_> = disclosure.columns.iter().filter(|column| column.share > SMALLEST_SHARE).collect();
        // An outcome that leaves is the first that a reader must know.
        columns.sort_by(|a, b| {
            // All that is printed as 100 % stays in the order of the columns.
            let [a_share, b_share] = [a, b].map(|column| column.share.min(1.0 - 1e-9));
            (b.term == report.outcome).cmp(&(a.term == report.outcome)).then(b_share.total_cmp(&a_share))
        });
        let more = columns.len().saturating_sub(NAMED_COLUMNS);
        columns.truncate(NAMED_COLUMNS);
        let groups: Vec<String> = columns
            .chunk_by(|a, b| percent(a.share) == percent(b.share))
            .map(|group| {
                let names: Vec<String> = group.iter().map(|column| visible(&column.term)).collect();
                format!("{} ({})", names.join(", "), percent(group[0].share))
            })
            .collect();
        let peer = role.map_or("the other party", |role| role.partner().name());
        let more = match more {
            0 => String::new(),
            1 => " and 1 more column".to_string(),
            more => format!(" and {more} more columns"),
        };
        (!groups.is_empty()).then(|| format!("{peer} can reconstruct {}{more}", groups.join(", ")))
    };
    report.disclosure.each(report.role).into_iter().filter_map(sentence).collect()
}

/// What every one of several privacy accounts promises: it is said once.
fn promised_by_all<'a>(accounts: &[(Option<Role>, &'a Option<Statement>)]) -> Vec<&'a String> {
    let promise = |account: &'a Option<Statement>| account.as_ref().map_or(&[][..], |account| &account.promise);
    let first = accounts.first().map_or(&[][..], |(_, account)| promise(account));
    first.iter().filter(|line| accounts.iter().all(|(_, account)| promise(account).contains(line))).collect()
}

/// A number of a privacy account, to six significant digits.
pub(crate) fn plain_number(x: f64) -> String {
    match shape(x, 6) {
        (exponent, digits) if x.is_finite() && exponent.abs() > 6 => exponential(x, (digits - 1) as usize),
        _ => single(Some(x).filter(|x| x.is_finite()), 6),
    }
}

/// A label and its lines, folded and indented.
pub(crate) fn labelled(out: &mut String, label: &str, lines: &[String]) -> std::fmt::Result {
    let indent = " ".repeat(INDENT);
    let mut first = format!("{label:<INDENT$}");
    for line in lines {
        // A party's name hangs to the left of its own lines.
        let hanging = match ["alice: ", "bob: "].iter().find(|name| line.starts_with(**name)) {
            Some(name) => INDENT + name.len(),
            None => INDENT,
        };
        writeln!(out, "{}", folded(line, &first, &" ".repeat(hanging)))?;
        first.clone_from(&indent);
    }
    Ok(())
}

/// Breaks a sentence at spaces so that lines stay within the width; a word that is longer stays whole.
pub fn folded(sentence: &str, first: &str, others: &str) -> String {
    let mut text = first.to_string();
    let mut width = first.chars().count();
    let mut fresh = true;
    for word in sentence.split_whitespace() {
        let length = word.chars().count();
        if !fresh && width + 1 + length > WIDTH {
            text.push('\n');
            text.push_str(others);
            width = others.chars().count();
            fresh = true;
        }
        if !fresh {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
        fresh = false;
    }
    text
}

/// A column of a text table.
pub struct Column {
    name: String,
    cells: Vec<String>,
    left: bool,
}

impl Column {
    /// Cells that begin below each other.
    pub fn left(name: &str, cells: Vec<String>) -> Column {
        let name = name.to_string();
        Column { name, cells, left: true }
    }

    /// Cells that end below each other.
    pub fn right(name: &str, cells: Vec<String>) -> Column {
        let name = name.to_string();
        Column { name, cells, left: false }
    }
}

/// Columns side by side, a space between them.
pub fn table(out: &mut String, columns: &[Column]) -> std::fmt::Result {
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            let cells = column.cells.iter().map(|cell| cell.chars().count());
            cells.chain([column.name.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    for row in 0..=rows {
        let line: Vec<String> = columns
            .iter()
            .zip(&widths)
            .map(|(column, &width)| {
                let cell = match row {
                    0 => column.name.as_str(),
                    _ => column.cells.get(row - 1).map_or("", String::as_str),
                };
                if column.left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            })
            .collect();
        writeln!(out, "{}", line.join(" ").trim_end())?;
    }
    Ok(())
}

fn aligned(cells: Vec<String>) -> Vec<String> {
    let width = cells.iter().map(String::len).max().unwrap_or(0);
    cells.into_iter().map(|cell| format!("{cell:>width$}")).collect()
}
