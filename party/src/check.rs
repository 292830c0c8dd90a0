//! What a run would do and disclose, without opening a connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use fedreg_common::explanation::{Reveals, membership};
use fedreg_common::glm::{Family, StatedFamily};
use fedreg_common::id::Role;
use fedreg_common::privacy::release::Declaration;
use fedreg_common::report::{INTERCEPT, MatchReport, Opened};
use fedreg_common::study::{Acceleration, ErrorKind, Lambda, Study, Vertical, VerticalGuarantee};
use serde::Serialize;

use crate::alignment;
use crate::config::Config;
use crate::failure::Failure;
use crate::job;
use crate::output::Folder;
use crate::party::Party;
use crate::plain;
pub use crate::show::{CheckFormat, size};
use crate::store::Store;

mod private;
mod sealed;

pub use self::sealed::beyond_limits;

/// Flags of a check, with those that lead to a role's configuration.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments<O: Args> {
    #[command(flatten)]
    pub(crate) overrides: O,
    /// Folder that results would be written to
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: CheckFormat,
}

/// A configuration that was found sound, and what a run with it would disclose.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// As whom.
    pub role: Role,
    /// The study's id.
    pub study: String,
    /// Its digest: the other party must see the same.
    pub study_digest: String,
    /// The family of the model.
    pub family: StatedFamily,
    /// Rows of the table.
    pub rows: u64,
    /// The match that the rows are taken by.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<MatchReport>,
    /// Terms of this party's block; the intercept is one.
    pub terms: Vec<String>,
    /// Certificate in use.
    pub certificate: Vec<String>,
    /// Where the other party is met.
    pub line: String,
    /// What a run would bring.
    #[serde(flatten)]
    pub run: Foreseen,
}

/// What a run would disclose and take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Foreseen {
    /// What would leave, in the order of the study's declarations.
    pub leaves: Vec<Leaving>,
    /// Predicted rounds, over all fits; `None` where nobody can tell.
    pub predicted_rounds: Option<u64>,
    /// Most rounds of one fit that study and policy allow.
    pub round_limit: u32,
    /// Fits in the run: values of lambda, and those again for each fold.
    pub fits: u64,
    /// Predicted bytes of messages that would leave.
    pub predicted_bytes: Option<u64>,
    /// What the policy forbids, and what follows.
    pub policy: Vec<String>,
    /// What would open to the peer in a sealed run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<Opened>,
}

/// One kind of value that would leave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Leaving {
    /// The declaration's name.
    pub what: &'static str,
    /// How much of it.
    pub amount: String,
    /// What the peer can learn from it.
    pub reveals: &'static str,
}

/// Checks study, configuration, data, certificates, policy and folders.
///
/// # Errors
/// The first thing that a run would fail on here.
pub fn check(role: Role, config: &Config, out: Option<&Path>) -> Result<Checked, Failure> {
    let study = Arc::new(job::study(role, config)?);
    let party = Party { role, config, study: &study };
    let identity = party.identity()?;
    if let Some(out) = out {
        Folder::prepare(out)?;
    }
    drop(Store::open(&config.state)?);
    plain::writable(&config.ledger())?;
    let (rows, terms, run) = match study.guarantee {
        VerticalGuarantee::Plain => foresee_plain(party)?,
        VerticalGuarantee::Sealed(_) => sealed::foresee(party)?,
        VerticalGuarantee::Private(_) => private::foresee(party)?,
    };
    Ok(Checked {
        role,
        study: study.head.id.clone(),
        study_digest: study.digest().to_string(),
        family: study.method.stated_family(),
        rows,
        matching: alignment::report(party),
        terms,
        certificate: identity.facts().names.clone(),
        line: line(study.as_ref(), role, config),
        run,
    })
}

/// Rows and terms of the table, and what a run with them would bring.
fn foresee_plain(party: Party<'_>) -> Result<(u64, Vec<String>, Foreseen), Failure> {
    let Party { role, config, study } = party;
    let table = party.table()?;
    let rows = table.rows() as u64;
    let mut terms = table.term_names();
    if study.method.intercept && study.is_first(role) {
        terms.insert(0, INTERCEPT.to_string());
    }
    let forecast = Forecast::new(role, config, study, rows, terms.len() as u64);
    let run = Foreseen {
        leaves: forecast.leaves(),
        predicted_rounds: forecast.rounds(),
        round_limit: forecast.limit,
        fits: forecast.fits,
        predicted_bytes: forecast.bytes(),
        policy: forecast.policy(),
        opened: Vec::new(),
    };
    Ok((rows, terms, run))
}

fn line(study: &Study<Vertical>, role: Role, config: &Config) -> String {
    let peers = study.peers(role).iter().map(Role::to_string).collect::<Vec<_>>().join(" and ");
    match (&config.listen, &config.connect) {
        (Some(address), _) => format!("listens at {address} for {peers}"),
        (_, Some(address)) => format!("connects to {peers} at {address}"),
        _ => String::new(),
    }
}

impl Checked {
    /// For people.
    pub fn text(&self) -> String {
        let Checked { role, study, study_digest: digest, family, rows, terms, certificate, line, .. } = self;
        let (count, terms, certificate) = (terms.len(), terms.join(", "), certificate.join(", "));
        let mut text = format!(
            "{role} can take part in `{study}`\n\n  study digest   {digest}\n  family         {family}\n  rows           {rows}\n  \
             columns        {count}: {terms}\n  certificate    {certificate}\n  line           {line}\n\nWhat would leave {role}\n"
        );
        if let Some(found) = &self.matching {
            let (matched, of, run) = (found.matched, found.rows, &found.run);
            let line = format!("  match          {matched} of {of} rows, found by run {run}\n\nWhat would leave");
            text = text.replacen("\nWhat would leave", &line, 1);
        }
        let width = self.run.leaves.iter().map(|leaving| leaving.what.len()).max().unwrap_or(0);
        for leaving in &self.run.leaves {
            text.push_str(&format!("  {:width$}  {}\n", leaving.what, leaving.amount));
            text.push_str(&format!("  {:width$}  {}\n", "", leaving.reveals));
        }
        let fits = match self.run.fits {
            1 => String::new(),
            fits => format!(" over {fits} fits"),
        };
        let predicted = match (self.run.predicted_rounds, self.run.predicted_bytes) {
            (Some(rounds), Some(bytes)) => format!(
                "about {rounds} {}{fits} and {} sent",
                if rounds == 1 { "round" } else { "rounds" },
                size(bytes)
            ),
            _ => format!("hundreds to thousands of rounds{fits}"),
        };
        match (self.run.opened.is_empty(), self.run.predicted_bytes) {
            (false, Some(bytes)) => text.push_str(&format!("\nPredicted: one exchange and {} sent\n", size(bytes))),
            (false, None) => {
                text.push_str(&format!("\nPredicted: 5 to 20 gradients; at most {} may open\n", self.run.round_limit));
            }
            _ => text.push_str(&format!("\nPredicted: {predicted}; at most {} rounds a fit\n", self.run.round_limit)),
        }
        for line in &self.run.policy {
            text.push_str(&format!("Policy: {line}\n"));
        }
        text.push_str("No connection was opened, and nothing has left.\n");
        text
    }
}

struct Forecast<'a> {
    role: Role,
    config: &'a Config,
    study: &'a Study<Vertical>,
    rows: u64,
    own: u64,
    /// Columns of all others together.
    peer: u64,
    /// Columns of each other party.
    others: Vec<u64>,
    limit: u32,
    fits: u64,
}

impl<'a> Forecast<'a> {
    fn new(role: Role, config: &'a Config, study: &'a Study<Vertical>, rows: u64, own: u64) -> Self {
        // Of another's block only the study is known: its columns, which categorical ones make more of.
        let columns = |other: Role| {
            let named = study.named_columns(other).len() as u64;
            named.max(1) + u64::from(study.method.intercept && study.is_first(other))
        };
        let others: Vec<u64> = study.others(role).into_iter().map(columns).collect();
        let peer = others.iter().sum();
        let limit = study.method.fit.round_limit();
        let lambdas = match study.method.penalty.as_ref().map(|penalty| &penalty.lambda) {
            None | Some(Lambda::One(_)) => 1,
            Some(Lambda::Many(list)) => list.len() as u64,
            Some(Lambda::Path(_)) => 100,
        };
        let folds = study.method.penalty.as_ref().and_then(|penalty| penalty.cv).unwrap_or(0);
        Forecast {
            role,
            config,
            study,
            rows,
            own,
            peer,
            others,
            limit: config.policy.max_rounds.map_or(limit, |most| most.min(limit)),
            fits: lambdas * (1 + u64::from(folds)),
        }
    }

    fn basis(&self) -> bool {
        let sends = self.study.sends_basis(self.role);
        let limited = sends && self.config.policy.max_disclosure.is_some_and(|most| most < 1.0);
        self.study.uses_basis() && self.config.policy.allow_basis && !limited
    }

    /// Whether messages of the fit have one value a basis column in place of one a row.
    fn tables(&self) -> bool {
        self.study.uses_tables() && self.basis()
    }

    /// Rounds of all fits: the accelerated method needs about as many as the smaller block has columns, a few more
    /// where weights change with the fit; a warm start saves about half.
    fn rounds(&self) -> Option<u64> {
        if self.study.method.fit.acceleration == Acceleration::None {
            return None;
        }
        let smaller = match self.study.is_of_several() {
            // Of several, all blocks but the largest.
            true => self.own + self.peer - self.others.iter().copied().max().unwrap_or(0).max(self.own),
            false => self.own.min(self.peer),
        };
        let one = match self.study.method.family {
            // One before the exchange, and those after it.
            _ if self.study.has_errors_first() && self.basis() => 4,
            Family::Gaussian => smaller + 3,
            Family::Binomial | Family::Poisson => smaller + smaller / 4 + 6,
        };
        let later = (one / 2).max(3);
        Some((one + (self.fits - 1) * later).min(u64::from(self.limit) * self.fits))
    }

    fn vector(&self) -> u64 {
        match self.tables() {
            false => 8 * self.rows,
            true if self.study.sends_basis(self.role) => 8 * self.own,
            true => 8 * self.peer,
        }
    }

    /// Whether this is the party that all others of several dial.
    fn leads_several(&self) -> bool {
        self.study.leader_of_several() == Some(self.role)
    }

    /// How many parties each round speaks with.
    fn lines(&self) -> u64 {
        if self.leads_several() { self.others.len() as u64 } else { 1 }
    }

    fn bytes(&self) -> Option<u64> {
        let mut bytes = self.rounds()? * self.lines() * (self.vector() + 200);
        if self.basis() {
            bytes += match self.study.sends_basis(self.role) {
                true => 8 * self.rows * self.own,
                false => 8 * self.projected(),
            };
        }
        bytes += 8 * self.rows * self.lines() * self.study.sent_whole(self.role).len() as u64;
        if self.study.method.shares_covariance() && self.basis() {
            bytes += 8 * self.covariances();
        }
        Some(bytes)
    }

    /// Numbers of the covariances that this party sends: of its own coefficients, and of these with the other's.
    fn covariances(&self) -> u64 {
        self.own * (self.own + self.peer)
    }

    /// Numbers in the projection tables that this party returns: to each of several, one beside the blocks before it and one beside all; and for
    /// errors from residuals one more.
    fn projected(&self) -> u64 {
        let more = u64::from(!self.study.method.inference.errors.is_model());
        match self.leads_several() {
            true => self.others.iter().map(|columns| (2 + more) * columns * columns + 2 * columns).sum(),
            false => (1 + more) * self.peer * self.peer + 2 * self.peer,
        }
    }

    /// Who sees what leaves.
    fn seen_by(&self) -> String {
        match self.leads_several() {
            true => "the others".to_string(),
            false => self.study.peer(self.role).to_string(),
        }
    }

    fn leaves(&self) -> Vec<Leaving> {
        self.study
            .disclosures(self.role)
            .declared()
            .iter()
            .filter(|declaration| {
                !matches!(declaration, Declaration::Basis | Declaration::ProjectionTable) || self.basis()
            })
            .filter(|declaration| !self.reveals().told(**declaration).is_empty())
            .map(|declaration| self.leaving(*declaration))
            .chain(self.outcome_within_predictions())
            .collect()
    }

    /// An outcome that is not sent by itself, and yet leaves.
    fn outcome_within_predictions(&self) -> Option<Leaving> {
        let outcome = &self.study.method.outcome;
        self.reveals().outcome_within_predictions().map(|reveals| Leaving {
            what: "outcome, in predictions",
            amount: format!("part of each partial prediction: `{}` less the prediction", outcome.column),
            reveals,
        })
    }

    /// What can be learnt from what leaves.
    fn reveals(&self) -> Reveals<'_> {
        Reveals::of(self.study, self.role, self.tables())
    }

    /// Who of several parties sees a partial prediction of this one.
    fn seen_singly(&self) -> String {
        let leader = self.study.leader_of_several();
        leader.map_or_else(String::new, |leader| {
            format!(", to {leader}, which sees them singly; others see them in sums")
        })
    }

    fn leaving(&self, declaration: Declaration) -> Leaving {
        let (rows, own, peer) = (self.rows, self.own, self.peer);
        let name = self.study.result_to();
        let rounds = match self.rounds() {
            Some(rounds) => format!("about {rounds}"),
            None => format!("up to {}", u64::from(self.limit) * self.fits),
        };
        let amount = match declaration {
            Declaration::PartialPrediction if self.tables() => {
                format!("{rounds} vectors with one value a basis column")
            }
            Declaration::PartialPrediction if self.leads_several() => format!(
                "{rounds} vectors of {rows} values, {} each, to each of the {} others: the sum of all blocks but that party's own",
                size(8 * rows),
                self.others.len()
            ),
            Declaration::PartialPrediction => {
                format!("{rounds} vectors of {rows} values, {} each{}", size(8 * rows), self.seen_singly())
            }
            Declaration::Summary => "a few numbers a message".to_string(),
            Declaration::Outcome | Declaration::Weights | Declaration::Offset => {
                let to = self.reveals().receivers(declaration).map_or_else(String::new, |to| format!(", to {to}"));
                format!("one vector of {rows} values{to}")
            }
            Declaration::Basis => {
                let to = self.study.leader_of_several().map_or_else(String::new, |leader| format!(", to {leader}"));
                format!("{rows} x {own} values, {}{to}", size(8 * rows * own))
            }
            Declaration::ProjectionTable if self.leads_several() => {
                format!("tables of {} numbers in all, to each party those of its own columns", self.projected())
            }
            Declaration::ProjectionTable => match self.study.method.inference.errors {
                ErrorKind::Model => format!("a table of about {peer} x {peer}"),
                kind @ (ErrorKind::Hc0 | ErrorKind::Hc1 | ErrorKind::Hc2 | ErrorKind::Hc3) => {
                    format!("two tables of about {peer} x {peer}, the second for {} errors", kind.name())
                }
            },
            Declaration::MissingRows if self.leads_several() => format!("{rows} bits to each"),
            Declaration::MissingRows => format!("{rows} bits"),
            Declaration::Membership => {
                membership(self.study.leader().is_some(), self.study.leader() == Some(self.role)).0.to_string()
            }
            Declaration::Coefficients if self.leads_several() => {
                format!("{} rows of the coefficient table, of all parties", own + peer)
            }
            Declaration::Coefficients => format!("{own} rows of the coefficient table"),
            Declaration::Covariance => format!("{} numbers", self.covariances()),
            Declaration::Prediction => format!("only when predicting: one value a new row, to {name}"),
            // Those of studies between many sites, which `worker check` shows; of a match, which comes before the fit; of sealed studies,
            // which have a forecast of their own; and what never leaves.
            Declaration::BatchEstimate
            | Declaration::BatchGram
            | Declaration::GradientSum
            | Declaration::FeatureStatistics
            | Declaration::FeatureSolution
            | Declaration::RecordUpdate
            | Declaration::MatchCounts
            | Declaration::SameRecords
            | Declaration::Masked
            | Declaration::CrossProducts
            | Declaration::Undeclarable => String::new(),
        };
        Leaving { what: declaration.name(), amount, reveals: self.reveals().declared(declaration) }
    }

    fn policy(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let policy = &self.config.policy;
        if self.study.uses_basis() && !self.basis() {
            lines.push(match policy.allow_basis {
                false => "the projection exchange is forbidden: standard errors will be NA".to_string(),
                true => "the projection exchange would exceed max_disclosure: standard errors will be NA".to_string(),
            });
        }
        if let Some(percent) = policy.max_disclosure.map(|most| 100.0 * most) {
            let peer = self.seen_by();
            lines.push(format!("the run ends before {peer} could reconstruct more than {percent:.1} % of a column"));
        }
        if policy.max_rounds.is_some_and(|most| most < self.study.method.fit.round_limit()) {
            lines.push(format!("at most {} rounds a fit, fewer than the study allows", self.limit));
        }
        if let Some(least) = policy.min_rows {
            lines.push(format!("at least {least} rows must take part"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "id = \"three\"\nleader = \"a\"\n[parties.a]\ncertificate = \"x\"\ncolumns = [\"x1\", \"x2\"]\n\
                         [parties.b]\ncertificate = \"y\"\ncolumns = [\"x3\"]\n[parties.c]\ncertificate = \"z\"\ncolumns = [\"x4\"]\n";
    const TWO: &str = "id = \"two\"\nleader = \"a\"\n[parties.a]\ncertificate = \"x\"\ncolumns = [\"x1\", \"x2\"]\n\
                       [parties.b]\ncertificate = \"y\"\ncolumns = [\"x3\"]\n";
    const CONFIG: &str = "study = \"study.toml\"\ncoordinator = \"c:1\"\nstate = \"state\"\n[data]\nfile = \"data.csv\"\n[tls]\n\
                          authority = \"a.pem\"\ncertificate = \"b.pem\"\nkey = \"b.key\"\n";
    const ALONE: &str = "[outcome]\ncolumn = \"y\"\nheld_by = \"b\"\n[model]\nfamily = \"binomial\"\n";

    /// What leaves a party that has two terms of 100 rows, how much of each kind, and the bytes.
    fn leaves(head: &str, more: &str, role: &str) -> (Vec<(&'static str, String)>, u64) {
        let study = Study::parse(&format!("{head}{more}")).unwrap().vertical().unwrap();
        let config: Config = toml::from_str(CONFIG).unwrap();
        let forecast = Forecast::new(role.parse().unwrap(), &config, &study, 100, 2);
        let leaves = forecast.leaves().into_iter().map(|leaving| (leaving.what, leaving.amount)).collect();
        (leaves, forecast.bytes().unwrap())
    }

    fn amount(leaves: &[(&'static str, String)], what: &str) -> Option<String> {
        leaves.iter().find(|(kind, _)| *kind == what).map(|(_, amount)| amount.clone())
    }

    #[test]
    fn a_check_says_who_gets_an_outcome_that_goes_on() {
        let outcome = |head: &str, role: &str| amount(&leaves(head, ALONE, role).0, "outcome");
        let on = "one vector of 100 values, to a, who sends it on to all others";
        assert_eq!(outcome(THREE, "b").as_deref(), Some(on));
        assert_eq!(outcome(THREE, "a").as_deref(), Some("one vector of 100 values, to c"));
        assert_eq!(outcome(THREE, "c"), None);
        // What comes back to its holder tells it nothing.
        assert_eq!(outcome(TWO, "b").as_deref(), Some("one vector of 100 values"));
        assert_eq!(outcome(TWO, "a"), None);
        let own = ALONE.replace("\"b\"", "\"a\"");
        let whole = amount(&leaves(THREE, &own, "a").0, "outcome");
        assert_eq!(whole.as_deref(), Some("one vector of 100 values, to each of the others"));
    }

    #[test]
    fn errors_from_residuals_are_counted_with_their_table() {
        let outcome = "[outcome]\ncolumn = \"y\"\n";
        let robust = format!("{outcome}[inference]\nerrors = \"HC3\"\n");
        // Of two parties the first, which has the intercept and two columns, sends its basis.
        let ((model, bytes), (errors, more)) = (leaves(TWO, outcome, "b"), leaves(TWO, &robust, "b"));
        assert_eq!(amount(&model, "projection table").as_deref(), Some("a table of about 3 x 3"));
        let two = "two tables of about 3 x 3, the second for HC3 errors";
        assert_eq!((amount(&errors, "projection table").as_deref(), more - bytes), (Some(two), 8 * 9));
        assert_eq!(leaves(TWO, outcome, "a").1, leaves(TWO, &robust, "a").1);
        // The leader of several returns one more to each of the two others, of a column each.
        let ((_, bytes), (errors, more)) = (leaves(THREE, outcome, "a"), leaves(THREE, &robust, "a"));
        assert_eq!(more - bytes, 8 * 2);
        let ten = "tables of 10 numbers in all, to each party those of its own columns";
        assert_eq!(amount(&errors, "projection table").as_deref(), Some(ten));
    }
}
