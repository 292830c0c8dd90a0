//! One side of a private fit.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{PrivateFit, Table};
use crate::conversation::{Content, Conversation, Opening, Purpose, Refusal, Said, Script, Step};
use crate::fit::{Coefficient, INTERCEPT};
use crate::id::{Digest, Role};
use crate::methods::vertical::agree::{Agreement, Part};
use crate::methods::vertical::message::{Body, Estimates, Noised, Rows, Shared, Terms};
use crate::methods::vertical::names;
use crate::methods::vertical::plan::{Exchange, Fitted, Need, Outlook, Plan, Side};
use crate::methods::vertical::session::Progress;
use crate::privacy::ledger::{Ledger, LedgerError, PersonDigests, Storage, keyed};
use crate::privacy::mechanism::{LatticeVector, NoisedRelease};
use crate::privacy::release::Released;
use crate::privacy::sampler::NoisePool;
use crate::session::{Abort, PeerFault};
use crate::study::statement::{Protects, Statement};
use crate::study::{CoefficientTerms, Study, Vertical};

/// What a private session needs beside table and opening.
pub struct Setting<S> {
    /// This party's ledger.
    pub ledger: Ledger<S>,
    /// The data set's name in it.
    pub data_set: String,
    /// The digests of its persons under the ledger's key.
    pub persons: PersonDigests,
    /// The peer's name, for the ledger.
    pub peer: String,
    /// Noise, drawn ahead of time or not.
    pub pool: NoisePool,
}

/// Where the ledger keeps the fingerprint of the rows of a run, beside the messages that came.
const FINGERPRINT: u32 = u32::MAX;
/// Where it keeps that the peer has all that it needs.
const DELIVERED: u32 = u32::MAX - 1;

/// The place in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The parties compare their tables.
    Agreeing,
    Terms {
        answered: bool,
    },
    /// A partial prediction with noise; Alice's comes first in a round.
    Partial {
        round: u32,
        from: Role,
    },
    /// Bob's coefficients come first.
    Estimates {
        answered: bool,
    },
    Over,
}

/// One side of a private fit.
pub type PrivateSession<S> = Conversation<PrivateScript<S>>;

/// What the sides of a private fit say.
pub struct PrivateScript<S> {
    role: Role,
    study: Arc<Study<Vertical>>,
    first: Role,
    agreement: Agreement<Table>,
    place: Place,
    setting: Setting<S>,
    run: String,
    plan: Plan,
    exchange: Exchange,
    terms: Option<Terms>,
    estimates: Option<Estimates>,
    /// Messages that came before the run was reserved and belong to it.
    early: Vec<(u32, Vec<u8>)>,
    reserved: bool,
}

/// Whether a run that was interrupted here was begun with other rows. To be asked before anybody is contacted: what a session
/// refuses, the peer may notice.
///
/// # Errors
/// The ledger refuses.
pub fn has_changed<S: Storage>(table: &Table, run: &str, ledger: &mut Ledger<S>) -> Result<bool, LedgerError> {
    let fingerprint = table.clipped().0.fingerprint(&ledger.key()?);
    Ok(ledger.received(run, FINGERPRINT)?.is_some_and(|kept| kept != fingerprint))
}

impl<S: Storage> PrivateSession<S> {
    /// A session over a clipped table. Nothing is spent yet, and whether the ledger can afford the run is checked.
    ///
    /// # Errors
    /// A study that cannot be run on this number of rows, and a ledger that refuses.
    pub fn new(table: Table, opening: Opening, mut setting: Setting<S>) -> Result<PrivateSession<S>, Abort> {
        let study = Arc::clone(table.study());
        let role = table.role();
        let plan = study.private_plan(table.rows() as u64).map_err(|error| Abort::Refused(error.to_string()))?;
        let (rows, outcome) = table.clipped();
        let secret = setting.ledger.key()?;
        let fingerprint = rows.fingerprint(&secret);
        let exchange = Exchange::new(plan.clone(), Side::of(role), rows, outcome)
            .map_err(|error| Abort::Bug(error.to_string()))?;
        let run = opening.run.to_string();
        let reserved = setting.ledger.resumes(&run, &setting.data_set, &study.digest().to_string())?;
        if !reserved {
            let releases = &plan.side(Side::of(role)).releases;
            let digest = study.digest().to_string();
            setting.ledger.afford(&setting.data_set, &setting.persons, &digest, releases)?;
        } else if setting.ledger.received(&run, FINGERPRINT)?.is_some_and(|kept| kept != fingerprint) {
            // Releases of one run are charged together because they are about the same rows.
            return Err(Abort::Changed { run });
        }
        // The same whenever this party is started again in the run: the other one may have reserved by then and say the same.
        let key = keyed(&secret, &[b"rows of run ", run.as_bytes()]);
        let first = opening.first_speaker(role);
        let agreement = Agreement::new(table, role, first, key, &[Part::Rows, Part::Shared]);
        let script = PrivateScript {
            role,
            study: Arc::clone(&study),
            first,
            agreement,
            place: Place::Agreeing,
            setting,
            run,
            plan,
            exchange,
            terms: None,
            estimates: None,
            early: vec![(FINGERPRINT, fingerprint.to_vec())],
            reserved,
        };
        Ok(Conversation::open(role, Purpose::Fit, &study, &opening, script))
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let phase = match self.script().place {
            Place::Agreeing if !self.has_greeted() => "comparing studies",
            Place::Agreeing => "lining up rows",
            Place::Terms { .. } => "comparing budgets",
            Place::Partial { .. } => "fitting",
            Place::Estimates { .. } => "exchanging results",
            Place::Over => "done",
        };
        // No gradient: nobody may look whether it has converged.
        Progress { phase, fit: (0, 1), round: self.script().exchange.rounds(), certificate: None }
    }

    /// Keeps that the peer has confirmed our last message: from here on nobody else is needed for the result.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn delivered(&mut self) -> Result<(), LedgerError> {
        let script = self.script_mut();
        script.setting.ledger.keep_received(&script.run, DELIVERED, b"delivered")
    }

    /// Whether that is known.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn is_delivered(&mut self) -> Result<bool, LedgerError> {
        let script = self.script_mut();
        Ok(script.reserved && script.setting.ledger.received(&script.run, DELIVERED)?.is_some())
    }

    /// Says in the ledger that the run is over, once its results are where they belong.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn close(&mut self) -> Result<(), LedgerError> {
        let script = self.script_mut();
        script.setting.ledger.finish(&script.run)
    }
}

impl<S: Storage> Script for PrivateScript<S> {
    type Body = Body;
    type Output = PrivateFit;

    fn step(&self) -> Option<Step> {
        let in_order = |answered: bool, first: Role| if answered { first.partner() } else { first };
        let (speaker, expected) = match self.place {
            Place::Agreeing => return self.agreement.step(),
            Place::Terms { answered } => (in_order(answered, self.first), "terms of a budget"),
            Place::Partial { from, .. } => (from, "noised values"),
            Place::Estimates { answered } => (in_order(answered, Role::Bob), "noised estimates"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    fn build(&mut self) -> Result<Said<Body>, Abort> {
        let said = match self.place {
            Place::Agreeing => self.agreement.build()?.into(),
            Place::Terms { .. } => Body::Terms(self.own_terms()?).into(),
            Place::Partial { .. } => {
                let noised = self.work()?.ok_or_else(|| Abort::Bug("no partial prediction".to_string()))?;
                Said::Released(Released::noised(&noised, |index, value| Body::Noised(Noised { index, value })))
            }
            Place::Estimates { .. } => {
                self.work()?;
                let shared: fn(&Fitted) -> Body = match self.study.method.fit.coefficients {
                    CoefficientTerms::Shared => |fitted| Body::Estimates(estimates(fitted)),
                    CoefficientTerms::Own => {
                        |fitted| Body::Estimates(Estimates { shift: fitted.shift(), slopes: None })
                    }
                };
                Said::Released(Released::post_processed(&self.fitted()?, shared))
            }
            Place::Over => Body::Go.into(),
        };
        self.advance()?;
        Ok(said)
    }

    fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        let came = body.kind();
        match (self.place, body) {
            (Place::Agreeing, body) => {
                if let Some(theirs) = self.agreement.absorb(&self.study, body)? {
                    self.check_width(theirs.columns)?;
                }
            }
            (Place::Terms { .. }, Body::Terms(terms)) => self.absorb_terms(terms)?,
            (Place::Partial { round, .. }, Body::Noised(noised)) => self.absorb_partial(round, &noised)?,
            (Place::Estimates { .. }, Body::Estimates(theirs)) => {
                let shared = self.study.method.fit.coefficients == CoefficientTerms::Shared;
                let peer = self.role.partner();
                let owned = theirs.slopes.iter().flatten().all(|row| row.party == peer);
                if !theirs.shift.is_finite() || theirs.slopes.is_some() != shared || !owned {
                    return Err(PeerFault::Kind { came, expected: "those that the study shares" }.into());
                }
                names::given(&self.study, peer, theirs.slopes.as_deref().unwrap_or_default())?;
                self.estimates = Some(theirs);
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(self.advance()?)
    }

    fn finish(&mut self) -> Result<PrivateFit, Abort> {
        let missing = || Abort::Bug("the peer's results are missing".to_string());
        let theirs = self.estimates.clone().ok_or_else(missing)?;
        let terms = self.terms.ok_or_else(missing)?;
        self.work()?;
        let fitted = self.fitted()?;
        let own = estimates(&fitted);
        let inference = self.study.method.inference.allowed;
        let bare = |mut row: Coefficient| {
            if !inference {
                row = Coefficient::normal(row.term, row.party, row.estimate, None);
            }
            row
        };
        // In one order at both parties, so that both print the same digits.
        let (alice, bob) = match self.role {
            Role::Alice => (&own, &theirs),
            Role::Bob | Role::Worker | Role::Coordinator => (&theirs, &own),
        };
        let shift = alice.shift + bob.shift;
        let (alice, bob) = (alice.slopes.clone(), bob.slopes.clone());
        let mut coefficients = Vec::new();
        if alice.is_some() {
            let (_, outcome) = self.agreement.table.bounds();
            let intercept = outcome.centre() + shift;
            coefficients.push(Coefficient::normal(INTERCEPT.to_string(), Role::Alice, Some(intercept), None));
        }
        coefficients.extend(alice.into_iter().flatten().map(bare));
        coefficients.extend(bob.into_iter().flatten().map(bare));
        let side = self.plan.side(Side::of(self.role));
        let account = self.setting.ledger.account(&self.setting.data_set)?;
        let receipts = self.setting.ledger.receipts(&self.run);
        let statement =
            Statement::new(&account, receipts, side.releases.charge(), Protects::Block { peer_cap: terms.cap });
        let outlook = self.study.outlook(&self.plan).map_err(|error| Abort::Bug(error.to_string()))?;
        Ok(PrivateFit {
            coefficients,
            nobs: self.agreement.table.rows() as u64,
            rounds: self.exchange.rounds(),
            notes: notes(&self.study, &outlook),
            statement,
            outlook,
        })
    }

    /// Keeps a message of the peer before anything follows from it.
    fn keep(&mut self, sequence: u64, body: &Body) -> Result<(), Abort> {
        let Some(bytes) = record(body) else { return Ok(()) };
        match self.reserved {
            true => self.setting.ledger.keep_received(&self.run, sequence as u32, &bytes)?,
            false => self.early.push((sequence as u32, bytes)),
        }
        Ok(())
    }

    fn resumes(&self) -> bool {
        self.reserved
    }

    fn recall(&mut self, sequence: u64) -> Result<Option<Body>, Abort> {
        let part = self.agreement.part();
        if part == Some(Part::Shared) {
            // What both agreed on before the budget was reserved follows from the own side.
            let columns = self.plan.side(Side::of(self.role.partner())).width as u32;
            return Ok(Some(Body::Shared(Shared { columns, ..self.agreement.shared()? })));
        }
        if let Some(bytes) = self.setting.ledger.received(&self.run, sequence as u32)? {
            let changed = || LedgerError::Changed { name: format!("message {sequence} of run {}", self.run) };
            return Ok(Some(recall(&bytes).ok_or_else(changed)?));
        }
        // A run of an earlier version kept no proof of rows: it follows from the own one.
        let key = (self.first != self.role).then_some([0; 32]);
        Ok((part == Some(Part::Rows)).then(|| Body::Rows(self.agreement.proof(key))))
    }

    /// All that the parties say before the first noised value is small, and a peer that was killed before it had reserved says it again.
    fn is_answered_again(&self, body: &Body) -> bool {
        matches!(body, Body::Hello(_) | Body::Rows(_) | Body::Shared(_) | Body::Terms(_))
    }
}

impl<S: Storage> PrivateScript<S> {
    fn advance(&mut self) -> Result<(), Abort> {
        self.place = match self.place {
            Place::Agreeing if self.agreement.part().is_some() => Place::Agreeing,
            Place::Agreeing => Place::Terms { answered: false },
            Place::Terms { answered: false } => Place::Terms { answered: true },
            Place::Terms { answered: true } => {
                self.reserve()?;
                Place::Partial { round: 1, from: Role::Alice }
            }
            Place::Partial { round, from: Role::Alice } => Place::Partial { round, from: Role::Bob },
            Place::Partial { round, .. } if round < self.plan.setup().rounds => {
                Place::Partial { round: round + 1, from: Role::Alice }
            }
            Place::Partial { .. } => Place::Estimates { answered: false },
            Place::Estimates { answered: false } => Place::Estimates { answered: true },
            Place::Estimates { answered: true } | Place::Over => Place::Over,
        };
        Ok(())
    }

    /// Reserves the budget of the whole run. When this returns the charge is on disk; only then noise is used.
    fn reserve(&mut self) -> Result<(), Abort> {
        let early = std::mem::take(&mut self.early);
        let Setting { ledger, data_set, persons, peer, .. } = &mut self.setting;
        if self.reserved {
            return Ok(early
                .iter()
                .try_for_each(|(sequence, bytes)| ledger.keep_received(&self.run, *sequence, bytes))?);
        }
        let releases = &self.plan.side(Side::of(self.role)).releases;
        let study = self.study.digest().to_string();
        ledger.state_bounds(data_set, &study, &self.study.stated_bounds(self.role))?;
        ledger.reserve_with(&self.run, data_set, persons, std::slice::from_ref(peer), &study, releases, &early)?;
        self.reserved = true;
        Ok(())
    }

    fn own_terms(&self) -> Result<Terms, Abort> {
        let account = self.setting.ledger.account(&self.setting.data_set)?;
        let columns = self.plan.side(Side::of(self.role)).width as u32;
        Ok(Terms { epsilon: account.epsilon, delta: account.delta, cap: account.cap, columns })
    }

    /// Makes releases until one is to be sent, or a message is needed, or nothing is.
    fn work(&mut self) -> Result<Option<NoisedRelease>, Abort> {
        loop {
            match self.exchange.need().map_err(|error| Abort::Bug(error.to_string()))? {
                Need::Release { index, query, send } => {
                    let Setting { ledger, pool, .. } = &mut self.setting;
                    let noised = ledger.release::<Abort>(&self.run, index, &query, pool)?;
                    self.exchange.supply(&noised).map_err(|error| Abort::Bug(error.to_string()))?;
                    if send {
                        return Ok(Some(noised));
                    }
                }
                Need::Message { .. } | Need::Nothing => return Ok(None),
            }
        }
    }

    fn fitted(&self) -> Result<Fitted, Abort> {
        let (rows, outcome) = self.agreement.table.bounds();
        self.exchange.fitted(rows, outcome).ok_or_else(|| Abort::Bug("no estimate at the end".to_string()))
    }

    fn absorb_terms(&mut self, terms: Terms) -> Result<(), Refusal> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        if !(positive(terms.epsilon) && positive(terms.delta) && positive(terms.cap)) {
            return Err(PeerFault::Value { what: "a budget", expected: "positive", round: 0 }.into());
        }
        self.check_width(terms.columns)?;
        // A person's joint epsilon is computed from the peer's cap; it would be too small if the peer understated it.
        let partner = self.role.partner();
        if terms.cap < self.plan.side(Side::of(partner)).releases.charge() {
            return Err(Abort::Refused(format!(
                "the budget that {partner} has for its data set is smaller than what this run spends there: {partner} needs a larger \
                 one, or the study a smaller epsilon"
            ))
            .into());
        }
        self.terms = Some(terms);
        Ok(())
    }

    /// The peer's partial prediction: whatever it holds, the residuals made of it are cut here.
    fn absorb_partial(&mut self, round: u32, noised: &Noised) -> Result<(), Refusal> {
        let expected = 2 * round;
        if noised.index != expected {
            return Err(PeerFault::Round { came: noised.index, expected }.into());
        }
        self.work()?;
        Ok(self.exchange.receive(&noised.value).map_err(|error| PeerFault::Garbage(error.to_string()))?)
    }

    fn check_width(&self, came: u32) -> Result<(), PeerFault> {
        let expected = self.plan.side(Side::of(self.role.partner())).width as u64;
        match u64::from(came) == expected {
            true => Ok(()),
            false => Err(PeerFault::Length { what: "columns", came: came.into(), expected }),
        }
    }
}

fn estimates(fitted: &Fitted) -> Estimates {
    let party = fitted.side().role();
    let row = |slope: &crate::methods::vertical::plan::Slope| {
        Coefficient::normal(slope.term.clone(), party, Some(slope.estimate), Some(slope.std_error))
    };
    Estimates { shift: fitted.shift(), slopes: Some(fitted.slopes().iter().map(row).collect()) }
}

fn notes(study: &Study<Vertical>, outlook: &Outlook) -> Vec<String> {
    let cases = outlook.cases.iter().map(|case| {
        format!(
            "at correlation {} by {:.0} %, and by {:.0} % if nothing is exchanged",
            case.correlation,
            100.0 * case.relative_error,
            100.0 * case.relative_error_alone
        )
    });
    let cases: Vec<String> = cases.collect();
    let mut notes = vec![
        format!(
            "expected before the run, from public facts and assumptions, nothing computed from the data: the slopes miss the pooled \
             ones, as a share of their length, {}",
            cases.join("; ")
        ),
        format!("assumed: {}", outlook.assumed.words.join("; ")),
        outlook.comparison(),
    ];
    if study.method.inference.allowed {
        notes.push(
            "standard errors and intervals show the noise alone, about the coefficient that the same rounds and cuts give \
             without noise; they do not show what a sample tells about a population"
                .to_string(),
        );
        notes.extend(outlook.bias());
        notes.push(
            "no standard error for the intercept: both blocks add to it, and how their noise moves together does not follow \
             from noised values"
                .to_string(),
        );
    } else {
        notes.push("standard errors: the study does not allow them".to_string());
    }
    notes
}

/// Bytes of a message as the ledger keeps it; what came before the budget was reserved need not be kept.
fn record(body: &Body) -> Option<Vec<u8>> {
    let kept = match body {
        Body::Terms(terms) => Kept::Terms(*terms),
        Body::Noised(Noised { index, value }) => {
            let mut bytes = b"noised ".to_vec();
            bytes.extend_from_slice(&index.to_le_bytes());
            bytes.extend_from_slice(&value.encode());
            return Some(bytes);
        }
        Body::Estimates(estimates) => Kept::Estimates(estimates.clone()),
        Body::Rows(Rows { key, rows, ids }) => Kept::Rows { key: *key, rows: *rows, ids: ids.0 },
        Body::Go => Kept::Go,
        Body::Hello(_)
        | Body::Complete(_)
        | Body::Shared(_)
        | Body::Held(_)
        | Body::LargestGradient(_)
        | Body::Partial(_)
        | Body::Ended(_)
        | Body::Basis(_)
        | Body::Table(_)
        | Body::Redo(_)
        | Body::Results(_)
        | Body::Prediction(_)
        | Body::Masked(_)
        | Body::Share(_)
        | Body::Joint(_)
        | Body::Product(_)
        | Body::Dealt(_) => return None,
    };
    serde_json::to_vec(&kept).ok()
}

fn recall(bytes: &[u8]) -> Option<Body> {
    if let Some(rest) = bytes.strip_prefix(b"noised ") {
        let (index, value) = rest.split_first_chunk::<4>()?;
        let value = LatticeVector::decode(value).ok()?;
        return Some(Body::Noised(Noised { index: u32::from_le_bytes(*index), value }));
    }
    Some(match serde_json::from_slice(bytes).ok()? {
        Kept::Terms(terms) => Body::Terms(terms),
        Kept::Estimates(estimates) => Body::Estimates(estimates),
        Kept::Rows { key, rows, ids } => Body::Rows(Rows { key, rows, ids: Digest(ids) }),
        Kept::Go => Body::Go,
    })
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kept {
    Terms(Terms),
    Estimates(Estimates),
    Rows { key: Option<[u8; 32]>, rows: u64, ids: [u8; 32] },
    Go,
}
