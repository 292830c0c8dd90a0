//! What a fit between two parties has to say: deviances, a path with its cross-validation, convergence, and what each party showed the other.

use maud::{Markup, html};

use crate::fit::Termination;
use crate::glm::Family;
use crate::id::{Mode, Role};
use crate::privacy::release::Declaration;
use crate::report::coefficients::{Style, section};
use crate::report::layout::Layout;
use crate::report::number::{
    UNDEFINED, bytes, column, duration, percent, significant, single, small, thousands, visible,
};
use crate::report::section::Section;
use crate::report::sites::NOISE_ALONE;
use crate::report::table::{Column, Entry, entry, markup};
use crate::report::{CvPoint, Disclosure, PathPoint, Report, account, plot};
use crate::study::statement::Statement;

mod refit;
pub mod sealed;
mod statistics;

/// Significant digits of estimates, as `summary.glm` prints them.
const DIGITS: usize = 4;

/// What masks are to whoever receives them, and what their dealer knows.
const OF_MASKS: &str = "Masked columns are uniform random numbers to a party that does not hold their mask. The dealer of the masks, which is \
                        the coordinator unless the study names another, sees who is ready, how many rows and columns there are, phases and byte \
                        counts, and no column, masked or not.";

/// Columns whose reconstructible share is named in the text; all of them are in JSON and HTML.
const NAMED_COLUMNS: usize = 5;
/// A share below this is rounding of a column of which nothing was shown.
const SMALLEST_SHARE: f64 = 1e-12;

/// The report of a party, or of both.
pub fn layout(report: &Report) -> Layout<'_> {
    let parties = report.role.is_none() || report.coefficients.iter().any(|row| Some(row.party) != report.role);
    let private = report.noised();
    // In private mode noise is all there is, and it is normal.
    let test = if report.family.estimates_dispersion() && !private { 't' } else { 'z' };
    let style = Style {
        parties: parties.then(|| report.colours()),
        holder: report.role.filter(|_| !parties),
        covered: private.then_some(NOISE_ALONE),
        ..Style::new(test)
    };
    let chosen: Vec<(&str, f64)> = [("min", report.lambda_min), ("1se", report.lambda_1se)]
        .into_iter()
        .filter_map(|(name, lambda)| Some((name, lambda?)))
        .collect();
    let mut sections = vec![section(report, &style).page(whole_fit(report)), fit(report)];
    sections.extend(statistics::ratios(report, &style));
    sections.extend(statistics::terms(report, &style));
    sections.extend(statistics::covariance(report, &style));
    sections.extend(statistics::performance(report));
    sections.extend(report.path.as_ref().map(|points| path(report, points, &chosen)));
    sections.extend(report.cv.as_ref().map(|cv| cross_validation(report, cv, &chosen)));
    sections.extend(crate::report::matched_rows(report));
    sections.extend([
        convergence(report),
        match &report.refit {
            Some(of) => refit::disclosure(of),
            None => disclosure(report),
        },
        match (is_sealed(report), &report.refit) {
            (true, Some(_)) => refit::no_account(),
            (true, None) => sealed::no_account(),
            (false, _) => account::section(report),
        },
    ]);
    // A sub-model is computed in no time.
    sections.extend(report.refit.is_none().then(|| timings(report)));
    Layout {
        report,
        title: format!("{} regression of {}", report.family, visible(&report.outcome)),
        merged: match report.is_of_several() {
            false => "merged report of both parties",
            true => "merged report of all parties",
        },
        good: report.termination.converged() || report.termination == Termination::FixedRounds,
        ending: ending(report),
        facts: facts(report),
        first: report.refit.as_ref().map(|of| refit::first(report, of)),
        sections,
        closing: closing(report),
    }
}

/// What stands in the page's head.
fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let s = &report.statistics;
    let mut facts = vec![
        ("rows", thousands(s.nobs)),
        ("coefficients", report.coefficients.iter().filter(|row| row.estimate.is_some()).count().to_string()),
        match is_sealed(report) {
            _ if report.refit.is_some() => ("exchanges", "none".to_string()),
            true if sealed::one_table(report) => ("exchanges", thousands(u64::from(report.rounds))),
            true => ("gradients", thousands(u64::from(report.rounds))),
            false => ("rounds", thousands(u64::from(report.rounds))),
        },
    ];
    if !report.noised() {
        facts.push(("deviance", single(s.deviance, 5)));
        facts.push(match s.r_squared {
            Some(_) => ("R squared", single(s.r_squared, 4)),
            None => ("null deviance", single(s.null_deviance, 5)),
        });
        facts.push(("AIC", single(s.aic, 5)));
    }
    facts
}

/// A deviance with its degrees of freedom, which a fit with a penalty does not have.
fn deviance_on(deviance: Option<f64>, df: Option<i64>) -> String {
    match df {
        Some(_) => format!("{} on {} df", single(deviance, 5), whole(df)),
        None => single(deviance, 5),
    }
}

/// Deviances and the like, on the page.
fn whole_fit(report: &Report) -> Markup {
    let s = &report.statistics;
    let entries = [
        ("Null deviance", deviance_on(s.null_deviance, s.df_null)),
        ("Residual deviance", deviance_on(s.deviance, s.df_residual)),
        ("Dispersion", single(s.dispersion, 7)),
        ("Log-likelihood", single(s.log_lik, 5)),
        ("AIC", single(s.aic, 5)),
        ("BIC", single(s.bic, 5)),
        ("R squared", single(s.r_squared, 4)),
        ("Rows left out for missing values", thousands(report.missing)),
    ];
    let nothing = report.noised() && s.deviance.is_none() && s.aic.is_none();
    html! {
        @if nothing {
            p.remark { "Deviances, AIC and R squared are not available: nobody may look at them in private mode." }
        } @else {
            dl.grid {
                @for (name, value) in entries.iter().filter(|(name, value)| *name != "R squared" || value != UNDEFINED) {
                    div { dt { (name) } dd { (value) } }
                }
                @for (name, value) in statistics::entries(report) {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}

fn whole<T: ToString>(number: Option<T>) -> String {
    number.map_or_else(|| UNDEFINED.to_string(), |number| number.to_string())
}

/// Deviances and the like, in the text as R prints them.
fn fit(report: &Report) -> Section {
    let s = &report.statistics;
    let private = report.noised();
    let mut section = Section::default();
    if s.dispersion.is_some() || !private {
        let dispersion = single(s.dispersion, 7);
        section =
            section.line(format!("(Dispersion parameter for {} family taken to be {dispersion})\n", report.family));
    }
    if s.deviance.is_none() && s.null_deviance.is_none() && s.aic.is_none() && private {
        section = section.line("Deviances and AIC are NA: nobody may look at them in private mode");
    } else {
        let deviances = aligned(column(&[s.null_deviance, s.deviance], DIGITS + 1));
        let degrees = aligned([s.df_null, s.df_residual].map(whole).into());
        // Those of a fit with a penalty are not known.
        let degrees = degrees.iter().zip([s.df_null, s.df_residual]).map(|(df, known)| known.map(|_| df));
        for (name, (deviance, df)) in ["    Null", "Residual"].into_iter().zip(deviances.iter().zip(degrees)) {
            let on = df.map(|df| format!("  on {df}  degrees of freedom")).unwrap_or_default();
            section = section.line(format!("{name} deviance: {deviance}{on}"));
        }
        if report.missing > 0 {
            let plural = if report.missing == 1 { "" } else { "s" };
            let missing = report.missing;
            section = section.line(format!("  ({missing} observation{plural} deleted due to missingness)"));
        }
        section = section.line(format!("AIC: {}", single(s.aic, DIGITS + 1)));
        let others: Vec<String> = [("BIC", s.bic), ("log-likelihood", s.log_lik), ("R squared", s.r_squared)]
            .into_iter()
            .filter(|(_, value)| value.is_some_and(f64::is_finite))
            .map(|(name, value)| format!("{name}: {}", single(value, DIGITS + 1)))
            .collect();
        if !others.is_empty() {
            section = section.line(others.join(",  "));
        }
        section = statistics::lines(report).into_iter().fold(section, Section::line);
    }
    section.line(match is_sealed(report) {
        _ if report.refit.is_some() => "\nNo exchange: a sub-model of an earlier run".to_string(),
        true if sealed::one_table(report) => "\nOne exchange, without rounds".to_string(),
        true => format!("\nNumber of gradients that opened: {}", report.rounds),
        false => format!("\nNumber of rounds: {}", report.rounds),
    })
}

fn aligned(cells: Vec<String>) -> Vec<String> {
    let width = cells.iter().map(String::len).max().unwrap_or(0);
    cells.into_iter().map(|cell| format!("{cell:>width$}")).collect()
}

/// What the lines at the chosen lambdas are.
const MARKS: &str =
    "Dashed: the lambda of the smallest error (min) and the largest within one standard error of it (1se).";

/// A section with a picture on the page; without one it stands in the text only.
fn pictured(heading: &str, picture: Option<Markup>, caption: Markup) -> Section {
    match picture {
        Some(_) => Section::new(heading).figure(picture, caption),
        None => Section::default(),
    }
}

/// The party whose coefficients alone a path counts, where it has no others.
fn counted_alone(report: &Report) -> Option<Role> {
    let mut holders = report.path.iter().flatten().flat_map(|point| &point.coefficients).map(|row| row.party);
    let first = holders.next()?;
    let others = report.role == Some(first) || report.coefficients.iter().any(|row| row.party != first);
    (others && holders.all(|holder| holder == first)).then_some(first)
}

fn path(report: &Report, points: &[PathPoint], chosen: &[(&str, f64)]) -> Section {
    let alone = counted_alone(report).map(|who| format!("the coefficients of {who} alone"));
    let caption = html! {
        "The intercept is left out; df counts " (alone.as_deref().unwrap_or("the coefficients")) " that are not zero. "
        @if plot::path_is_relative(points) { "The sizes differ so much that each line is divided by its largest value. " }
        @if !chosen.is_empty() { (MARKS) }
    };
    let explained = |point: &PathPoint| match report.statistics.null_deviance {
        Some(null) if null > 0.0 && point.deviance.is_finite() => {
            // Rounded first, and 0.0 added, so that no zero has a sign.
            format!("{:.2}", (1e4 * (1.0 - point.deviance / null)).round() / 100.0 + 0.0)
        }
        _ => UNDEFINED.to_string(),
    };
    let lambdas: Vec<Option<f64>> = points.iter().map(|point| Some(significant(point.lambda, DIGITS))).collect();
    let columns = [
        Column::left("", (1..=points.len()).map(|at| at.to_string()).collect()),
        Column::right("Df", points.iter().map(|point| point.df.to_string()).collect()),
        Column::right("%Dev", points.iter().map(explained).collect()),
        Column::right("Lambda", column(&lambdas, DIGITS)),
    ];
    let worst = points.iter().map(|point| point.kkt).filter(|kkt| kkt.is_finite()).fold(f64::NAN, f64::max);
    pictured("Coefficient path", plot::path(points, chosen), caption)
        .line(match alone {
            Some(alone) => format!("Path of {} values of lambda; Df counts {alone}:", points.len()),
            None => format!("Path of {} values of lambda:", points.len()),
        })
        .table(columns.map(Column::text_only).into())
        .line(format!("Largest violation of the optimality conditions: {}", small(Some(worst))))
}

/// What cross-validation measures.
fn measure(family: Family) -> &'static str {
    match family {
        Family::Gaussian => "Mean-Squared Error",
        Family::Binomial => "Binomial Deviance",
        Family::Poisson => "Poisson Deviance",
    }
}

fn cross_validation(report: &Report, cv: &[CvPoint], chosen: &[(&str, f64)]) -> Section {
    let points = report.path.as_deref().unwrap_or_default();
    let measure = measure(report.family.base());
    let alone = counted_alone(report).map(|who| format!("Nonzero counts the coefficients of {who} alone. "));
    let caption = html! {
        "Mean over the folds, bars of one standard error. "
        @if !chosen.is_empty() { (alone.as_deref().unwrap_or_default()) (MARKS) }
    };
    let picture = plot::cross_validation(cv, points, &measure.to_lowercase(), chosen);
    let found: Vec<(&str, usize)> = chosen
        .iter()
        .filter_map(|(name, lambda)| Some((*name, cv.iter().position(|point| point.lambda == *lambda)?)))
        .collect();
    let numbers = |name: &str, digits: usize, value: fn(&CvPoint) -> f64| {
        let values: Vec<Option<f64>> = found.iter().map(|&(_, at)| Some(value(&cv[at]))).collect();
        let each = values.iter().map(|value| single(*value, digits)).collect();
        Column::right(name, column(&values, DIGITS)).on_page(each)
    };
    let nonzero = |&(_, at): &(&str, usize)| {
        whole(points.iter().find(|point| point.lambda == cv[at].lambda).map(|point| point.df))
    };
    let columns = vec![
        Column::left("", found.iter().map(|(name, _)| name.to_string()).collect())
            .heading("Choice")
            .on_page(found.iter().map(|(name, _)| format!("lambda {name}")).collect()),
        numbers("Lambda", 4, |point| point.lambda),
        Column::right("Index", found.iter().map(|(_, at)| (at + 1).to_string()).collect()).text_only(),
        numbers("Measure", 5, |point| point.mean),
        numbers("SE", 3, |point| point.se),
        Column::right("Nonzero", found.iter().map(nonzero).collect()),
    ];
    pictured("Cross-validation", picture, caption)
        .page(html! { @if !found.is_empty() { (markup(&columns)) } })
        .line(format!(
            "Cross-validation over {} values of lambda\nMeasure: {measure}{}\n",
            cv.len(),
            alone.map_or_else(String::new, |alone| format!("\n{}", alone.trim_end_matches(['.', ' '])))
        ))
        .table(columns.into_iter().map(Column::text_only).collect())
}

fn convergence(report: &Report) -> Section {
    let section = Section::new("Convergence");
    if is_sealed(report) {
        return sealed::course(report, section);
    }
    let section = match plot::convergence(&report.trace, report.tol) {
        Some(picture) => section.figure(Some(picture), html! {
            "The larger value of both sides in each round. The fit ends when the scaled gradient (certificate) and the "
            "relative change of every coefficient are at most the tolerance."
        }),
        None if report.noised() => section.remark(html! {
            "Not recorded: in private mode the number of rounds is fixed and nobody may look at the course."
        }),
        None => section.remark(html! { "Not recorded in this run." }),
    };
    let certificates = report.certificate.each(report.role).into_iter();
    let certificates = certificates
        .filter(|(_, certificate)| certificate.is_some())
        .map(|(role, certificate)| (format!("Certificate of {}", party(role)), small(*certificate)));
    let tolerance = largest_certificate(report).map(|_| ("Tolerance".to_string(), small(Some(report.tol))));
    section.facts(certificates.chain(tolerance))
}

fn party(role: Option<Role>) -> String {
    role.map_or_else(|| "this party".to_string(), |role| role.to_string())
}

/// Who saw what left a party: of several, the others see sums of the leader, and the leader sees each.
fn peer(report: &Report, role: Option<Role>, unknown: &str) -> String {
    match (role, report.leader_of_several()) {
        (None, _) => unknown.to_string(),
        (Some(role), None) => report.peer_of(role).to_string(),
        (Some(_), Some(_)) if opens_noised(report) => "all others".to_string(),
        (Some(role), Some(leader)) if role == leader => "the others".to_string(),
        (Some(_), Some(leader)) => leader.to_string(),
    }
}

/// Of several parties: whether all that opens has noise, and opens to all.
fn opens_noised(report: &Report) -> bool {
    match report.mode {
        Mode::Private => report.is_of_several(),
        Mode::Plain | Mode::Sealed => false,
    }
}

/// Of several parties: who learnt what from whom. The leader speaks with each; what the others learn of each other is within sums.
fn learnt(report: &Report) -> Option<Vec<Column>> {
    let leader = report.leader_of_several()?;
    let left = |from: Role| report.disclosure.of(from).filter(|_| report.role.is_none_or(|own| own == from));
    let page = |to: Role, from: Role| {
        let basis = |left: &Disclosure| left.declared.iter().any(|kind| kind == Declaration::Basis.name());
        match (to == from, from == leader, to == leader, left(from)) {
            (true, ..) => "-".to_string(),
            _ if opens_noised(report) => {
                "noised sums over its columns, and over these with those of every other party".to_string()
            }
            (_, _, true, Some(left)) => {
                let span = if basis(left) { ", and its column space" } else { "" };
                format!("{} vectors, each singly, of rank {}{span}", thousands(left.vectors), left.rank)
            }
            (_, _, true, None) => "vectors, each singly".to_string(),
            (_, true, false, Some(left)) => format!("sums, {} vectors in all", thousands(left.vectors)),
            (_, true, false, None) => "sums".to_string(),
            (_, false, false, _) => format!("what is in the sums of {leader}"),
        }
    };
    let text = |to: Role, from: Role| {
        match (to == from, to == leader, left(from)) {
            (true, ..) => "-",
            _ if opens_noised(report) => "noised sums",
            (_, true, Some(left)) if left.rank > 0 => return format!("singly, rank {}", left.rank),
            (_, true, _) => "singly",
            (_, false, _) => "in sums",
        }
        .to_string()
    };
    let to = report.parties.iter();
    let names = Column::left("", to.clone().map(Role::to_string).collect()).heading("Learnt by");
    let mut columns = vec![names.parties(to.clone().map(|role| Some(*role)), report.colours())];
    columns.extend(report.parties.iter().map(|from| {
        let cells = |of: &dyn Fn(Role, Role) -> String| to.clone().map(|to| of(*to, *from)).collect();
        Column::left(&format!("from {from}"), cells(&text)).on_page(cells(&page)).class("wrap")
    }));
    Some(columns)
}

/// Whether columns left behind masks only. The mode of the run is part of the value, so that a report that was read back says the same.
fn is_sealed(report: &Report) -> bool {
    match report.mode {
        Mode::Sealed => true,
        Mode::Plain | Mode::Private => false,
    }
}

/// What each party showed the other.
fn disclosure(report: &Report) -> Section {
    if is_sealed(report) {
        return sealed::disclosure(report);
    }
    let all = report.disclosure.each(report.role);
    let of = |value: &dyn Fn(Option<Role>, &Disclosure) -> String| {
        all.iter().map(|(role, left)| value(*role, left)).collect()
    };
    let sent = |role| report.bytes_sent.of_or_own(role).map_or_else(|| UNDEFINED.to_string(), |sent| bytes(*sent));
    let noised = is_noised(report);
    let kinds = |left: &Disclosure| kinds_left(left, noised).unwrap_or_else(|| left.kinds());
    // A run behind masks sends no vectors; what it opens are the releases of the account.
    let masked =
        noised && all.iter().any(|(_, left)| left.declared.iter().any(|kind| kind == Declaration::Masked.name()));
    let mut columns = vec![
        Column::left("From", of(&|role, _| party(role))).parties(all.iter().map(|(role, _)| *role), report.colours()),
        Column::left("Seen by", of(&|role, _| peer(report, role, "the peer"))),
        Column::left("Kinds of values", of(&|_, left| kinds(left))).class("wrap"),
    ];
    match masked {
        true => columns.extend([
            Column::left("Opened with noise", of(&|role, _| released(report, role))).class("wrap"),
            Column::right("Bytes", of(&|role, _| sent(role))),
        ]),
        false => columns.extend([
            Column::right("Vectors", of(&|_, left| thousands(left.vectors))),
            Column::right("Bytes", of(&|role, _| sent(role))),
            Column::right("Rank disclosed", of(&|_, left| left.rank.to_string())),
        ]),
    }
    let section = Section::new("Who saw what")
        .page(html! { @for sentence in reconstructible(report) { p { strong { "No privacy: " } (sentence) "." } } })
        .table(columns.into_iter().map(Column::page_only).collect());
    let section = match learnt(report) {
        None => section,
        Some(table) if opens_noised(report) => section.line("Who learnt what from whom:").table(table).remark(html! {
            "Columns leave behind masks and pass by the leader. The leader opens sums that hold the noise of each party that they are about, \
             and sends them to all."
        }),
        Some(table) => section.line("Who learnt what from whom:").table(table).remark(html! {
            "The leader sees what each of the others sends singly; another party sees sums of all blocks but its own."
        }),
    };
    let section = section.remark(html! {
        @if masked {
            (OF_MASKS)
        } @else {
            "A vector has one value a row (" (thousands(report.statistics.nobs)) "). The coordinator sees who is ready, rounds and byte counts, and no data."
        }
    });
    all.iter().fold(section, |section, (role, left)| {
        let Some(picture) = plot::disclosure(role.unwrap_or(report.first()), &left.columns, report.colours()) else { return section };
        let caption = html! {
            "R squared of the centred column on everything that was sent: 100 % means that the peer could reconstruct it. "
            @if left.columns.len() > plot::MOST_ROWS { "The " (plot::MOST_ROWS) " largest of " (left.columns.len()) " are drawn." }
        };
        section.page(html! { h3 { "Columns of " (party(*role)) } }).figure(Some(picture), caption)
    })
}

/// What a private run on shares let open of a party, by the releases that were charged.
fn released(report: &Report, role: Option<Role>) -> String {
    let account = report.privacy.of_or_own(role).and_then(Option::as_ref);
    let mut labels: Vec<String> = Vec::new();
    for release in account.and_then(Statement::charged).into_iter().flat_map(|charged| &charged.releases) {
        let label = visible(&release.label);
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    if labels.is_empty() { UNDEFINED.to_string() } else { labels.join("; ") }
}

fn timings(report: &Report) -> Section {
    let seconds = report.seconds.each(report.role);
    let picture = html! {
        @match plot::timings(&seconds) {
            Some(picture) => figure { (picture) },
            None => p.remark { "Not measured." },
        }
    };
    let times = seconds.iter().filter(|(_, seconds)| seconds.total.is_finite()).map(|(role, seconds)| {
        let after = (seconds.total - seconds.read).max(0.0);
        (format!("Time of {} after reading", party(*role)), duration(after))
    });
    let memory = report.peak_rss_bytes.each(report.role).into_iter().map(|(role, peak)| {
        let peak = peak.map_or_else(|| UNDEFINED.to_string(), bytes);
        (format!("Peak memory of {}", party(role)), peak)
    });
    let in_files = report.in_files.iter().flat_map(|lay| lay.each(report.role));
    let in_files = in_files.map(|(role, lay)| (format!("Numbers of {} in files", party(role)), lay.words()));
    Section::new("Time and memory").page(picture).facts(times.chain(memory).chain(in_files))
}

/// How it ended, what left, what was promised, and how long it took.
fn closing(report: &Report) -> Vec<Entry> {
    let made = report.date.as_ref();
    let made = made.map(|date| entry("Made:", format!("{} by fedreg {}", visible(date), visible(&report.version))));
    let (used, missing) = (thousands(report.statistics.nobs), thousands(report.missing));
    let mut closing: Vec<Entry> = made.into_iter().collect();
    closing.push(entry("Rows:", format!("{used} used, {missing} left out for missing values")));
    closing.push(entry("Ended:", ending(report)));
    if let Some(of) = &report.refit {
        closing.extend(refit::closing(report, of));
        return closing;
    }
    let left = report.disclosure.each(report.role).into_iter().map(|(role, disclosure)| {
        let sent = report.bytes_sent.of_or_own(role).copied();
        (
            role,
            match is_sealed(report) {
                true => sealed::left_here(disclosure, sent),
                false => left_here(role, disclosure, sent, report),
            },
        )
    });
    let left = ("Left:", left.collect());
    if is_sealed(report) {
        closing.extend([sealed::privacy(report), left]);
    } else if !is_noised(report) {
        let shown = reconstructible(report).into_iter().map(|line| (None, format!("none: {line}")));
        let privacy = match shown.len() {
            0 => entry("Privacy:", "none: values left without noise".to_string()),
            _ => ("Privacy:", shown.collect()),
        };
        closing.extend([privacy, left]);
    } else {
        closing.extend([left, ("Privacy:", accounts(report))]);
    }
    let known = report.seconds.each(report.role).into_iter().filter(|(_, s)| s.total.is_finite());
    let times = known.map(|(role, s)| {
        let [total, read, solve, exchange] = [s.total, s.read, s.solve, s.exchange].map(duration);
        (role, format!("{total} in all: reading {read}, computing {solve}, exchange {exchange}"))
    });
    closing.push(("Time:", times.collect()));
    closing
}

/// The privacy accounts of a report in words: what all promise is said once.
fn accounts(report: &Report) -> Vec<(Option<Role>, String)> {
    let accounts = report.privacy.each(report.role);
    let common = promised_by_all(&accounts);
    let said_once: Vec<_> = common.iter().map(|line| (None, visible(line))).collect();
    let privacy = accounts.into_iter().flat_map(|(role, account)| {
        let Some(account) = account else {
            return vec![(role, "none: values left without noise".to_string())];
        };
        let own = account.promise.iter().chain(&account.account).filter(|line| !common.contains(line));
        own.map(|line| (role, visible(line))).collect()
    });
    said_once.into_iter().chain(privacy).collect()
}

/// How it ended, in one sentence.
fn ending(report: &Report) -> String {
    let rounds = match report.rounds {
        _ if report.refit.is_some() => "no exchange".to_string(),
        _ if is_sealed(report) && sealed::one_table(report) => "one exchange".to_string(),
        n if is_sealed(report) => format!("{n} gradient{}", if n == 1 { "" } else { "s" }),
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
    if parts.len() > 1 && report.refit.is_none() {
        parts.push(format!("tol {}", small(Some(report.tol))));
    }
    let how = match (&report.refit, report.termination) {
        (Some(_), Termination::FixedRounds) => "computed from noised tables".to_string(),
        (Some(_), Termination::CollinearAcrossParties) => {
            "computed, after columns that depend on others were set aside".to_string()
        }
        (Some(_), _) => "computed".to_string(),
        (None, termination) => termination.to_string(),
    };
    format!("{how} ({})", parts.join(", "))
}

/// The larger certificate of both sides; `None` where nobody may look.
fn largest_certificate(report: &Report) -> Option<f64> {
    report
        .certificate
        .each(report.role)
        .into_iter()
        .filter_map(|(_, certificate)| *certificate)
        .filter(|certificate| certificate.is_finite())
        .reduce(f64::max)
}

fn is_noised(report: &Report) -> bool {
    report.privacy.each(report.role).iter().any(|(_, account)| account.is_some())
}

/// What left of a party of which nothing could be read that bears no noise; none where something could.
fn kinds_left(disclosure: &Disclosure, noised: bool) -> Option<String> {
    match (disclosure.declared.is_empty(), noised) {
        (true, _) => Some("nothing without noise".to_string()),
        // What they are in a run that opens nothing without noise: masked, and uniform to their receiver.
        (false, true) => Some(format!("nothing readable without noise; {}", disclosure.kinds())),
        (false, false) => None,
    }
}

fn left_here(role: Option<Role>, disclosure: &Disclosure, sent: Option<u64>, report: &Report) -> String {
    let unread = kinds_left(disclosure, is_noised(report)).filter(|_| disclosure.vectors == 0);
    let declared = unread.is_none() && !disclosure.declared.is_empty();
    let mut parts = Vec::new();
    if let Some(kinds) = unread {
        parts.push(kinds);
    } else {
        let plural = if disclosure.vectors == 1 { "" } else { "s" };
        let (vectors, nobs) = (thousands(disclosure.vectors), thousands(report.statistics.nobs));
        // Of several parties the leader tells each of the others another sum in a round, and the meter counts a round once.
        let leads = role.is_some() && report.leader_of_several() == role;
        let to = if leads { format!(" to each of the {} others", report.parties.len() - 1) } else { String::new() };
        parts.push(format!("{vectors} vector{plural} of {nobs} values{to}"));
    }
    match sent {
        Some(sent) if sent >= 1_000_000 => parts.push(format!("{} bytes ({}) in all", thousands(sent), bytes(sent))),
        Some(sent) => parts.push(format!("{} bytes in all", thousands(sent))),
        None => {}
    }
    let mut text = parts.join(", ");
    if declared {
        text.push_str(&format!("; declared: {}", disclosure.kinds()));
    }
    if !disclosure.columns.is_empty() {
        text.push_str(&format!("; rank disclosed: {}", disclosure.rank));
    }
    text
}

/// Which columns of whom the other side can work out from what left in plain mode, a sentence a party that can: columns
/// with the same share are named together, the largest share first.
pub fn reconstructible(report: &Report) -> Vec<String> {
    if is_sealed(report) {
        return Vec::new();
    }
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
        let peer = peer(report, role, "the other party");
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
