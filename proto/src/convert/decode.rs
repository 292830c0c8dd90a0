//! Frames to messages.

use super::{
    digest, fixed, garbage, held_from_wire, key_from_wire, missing, name, purpose_from_wire, role_from_wire, run_id,
    termination_from_wire,
};
use crate::limits::{CHUNK_BYTES, COEFFICIENTS, KEYS, Limits, RESULT_VALUES};
use crate::wire::{self, frame::Kind, start};
use fedreg_common::conversation::{Content, Hello};
use fedreg_common::fit;
use fedreg_common::id::{Digest, Header};
use fedreg_common::methods::vertical::message::{
    Basis, Body, Ended, Estimates, FitEnd, Held, HeldKind, Message, Noised, Partial, Results, Rows, Shared, Table,
    Terms,
};
use fedreg_common::privacy::mechanism::LatticeVector;
use fedreg_common::session::PeerFault;

const VALUE_BYTES: u64 = size_of::<f64>() as u64;

/// Puts messages together from frames, whatever carried them.
pub struct Decoder {
    limits: Limits,
    open: Option<Open>,
}

/// A message that is still coming.
struct Open {
    header: Header,
    head: Head,
    /// Bytes announced, and still to come.
    payload: u64,
    payload_left: u64,
    values: Vec<f64>,
    bytes: Vec<u8>,
    /// Entries announced, and still to come.
    entries: u64,
    entries_left: u64,
    keys: Vec<(String, Digest)>,
    coefficients: Vec<fit::Coefficient>,
}

impl Decoder {
    /// A decoder that takes vectors up to `limits`.
    pub fn new(limits: Limits) -> Decoder {
        Decoder { limits, open: None }
    }

    /// Whether no message is under way.
    pub fn is_idle(&self) -> bool {
        self.open.is_none()
    }

    /// Takes the next frame in; returns a message when it is complete.
    ///
    /// # Errors
    /// What is wrong with the frame, or with its place. The message that it belonged to is given up.
    pub fn push(&mut self, frame: wire::Frame) -> Result<Option<Message>, PeerFault> {
        let open = match (frame.kind, self.open.take()) {
            (Some(Kind::Start(start)), None) => Open::begin(start, &self.limits)?,
            (Some(Kind::Start(_)), Some(open)) => return Err(open.incomplete()),
            (Some(Kind::Chunk(chunk)), Some(mut open)) => {
                open.chunk(&chunk)?;
                open
            }
            (Some(Kind::Entries(entries)), Some(mut open)) => {
                open.entries(entries)?;
                open
            }
            (Some(Kind::Chunk(_) | Kind::Entries(_)), None) => {
                return Err(garbage("a part of a message that has no beginning"));
            }
            (Some(Kind::Heartbeat(_)), open) => {
                self.open = open;
                return Ok(None);
            }
            (Some(Kind::Bye(_)), Some(open)) => return Err(open.incomplete()),
            (Some(Kind::Abort(_) | Kind::Bye(_)), _) => return Err(garbage("a farewell where a message was expected")),
            (None, _) => return Err(garbage("a frame of no known kind")),
        };
        if open.payload_left == 0 && open.entries_left == 0 {
            return open.finish().map(Some);
        }
        self.open = Some(open);
        Ok(None)
    }
}

impl Open {
    fn begin(start: wire::Start, limits: &Limits) -> Result<Open, PeerFault> {
        let header = start.header.ok_or_else(|| missing("the header"))?;
        let header = Header {
            study: digest(&header.study, "the digest of a study")?,
            run: run_id(&header.run)?,
            sender: role_from_wire(header.sender)?,
            sequence: header.sequence,
        };
        let head = Head::read(start.body.ok_or_else(|| missing("the body"))?, limits)?;
        let unit = head.unit();
        if !start.payload.is_multiple_of(unit) {
            return Err(garbage(format!("{} bytes of {}", start.payload, head.what)));
        }
        let count = start.payload / unit;
        let length = |what, came, expected| Err(PeerFault::Length { what, came, expected });
        match head.room {
            Room::AtMost(most) if count > most => return length(head.what, count, most),
            Room::Exactly(exactly) if count != exactly => return length(head.what, count, exactly),
            Room::AtMost(_) | Room::Exactly(_) => {}
        }
        if head.split > count {
            return length(head.what, count, head.split);
        }
        if start.entries > head.entries {
            return length("entries", start.entries, head.entries);
        }

        // Address space only: memory is taken as the values arrive.
        let (mut values, mut bytes) = (Vec::new(), Vec::new());
        let reserved = usize::try_from(count).is_ok_and(|count| {
            let reserved = match head.raw() {
                true => bytes.try_reserve_exact(count * unit as usize),
                false => values.try_reserve_exact(count),
            };
            reserved.is_ok()
        });
        if !reserved {
            return Err(garbage(format!("{count} values of {}, more than memory holds", head.what)));
        }
        Ok(Open {
            header,
            head,
            payload: start.payload,
            payload_left: start.payload,
            values,
            bytes,
            entries: start.entries,
            entries_left: start.entries,
            keys: Vec::new(),
            coefficients: Vec::new(),
        })
    }

    fn chunk(&mut self, chunk: &[u8]) -> Result<(), PeerFault> {
        let expected = self.payload_left.min(CHUNK_BYTES as u64);
        if expected == 0 {
            return Err(garbage(format!("more than the announced values of {}", self.head.what)));
        }
        if chunk.len() as u64 != expected {
            return Err(garbage(format!("a chunk of {} bytes, expected {expected}", chunk.len())));
        }
        self.payload_left -= expected;
        if self.head.raw() {
            self.bytes.extend_from_slice(chunk);
            return Ok(());
        }
        let (places, _) = chunk.as_chunks::<{ size_of::<f64>() }>();
        let before = self.values.len();
        self.values.extend(places.iter().map(|place| f64::from_le_bytes(*place)));
        // Without a branch in the loop: a product with zero is zero for every finite value, and nothing else.
        let sum = self.values[before..].iter().fold(0.0, |sum, value| sum + value * 0.0);
        // A new row without a score is not-a-number; nothing else may be.
        let may_lack = matches!(self.head.body, Body::Prediction(_));
        match sum == 0.0 || may_lack && !self.values[before..].iter().any(|value| value.is_infinite()) {
            true => Ok(()),
            false => Err(self.head.not_finite()),
        }
    }

    fn entries(&mut self, entries: wire::Entries) -> Result<(), PeerFault> {
        if self.payload_left > 0 {
            return Err(self.incomplete());
        }
        let came = (entries.keys.len() as u64).saturating_add(entries.coefficients.len() as u64);
        if came == 0 {
            return Err(garbage("a frame of entries without any"));
        }
        let Some(left) = self.entries_left.checked_sub(came) else {
            return Err(PeerFault::Length {
                what: "entries",
                came: self.entries.saturating_add(came - self.entries_left),
                expected: self.entries,
            });
        };
        self.entries_left = left;
        let greeting = matches!(self.head.body, Body::Hello(_));
        if entries.keys.is_empty() == greeting || entries.coefficients.is_empty() != greeting {
            return Err(garbage(format!("entries of another kind in {}", self.head.body.kind())));
        }
        for key in &entries.keys {
            self.keys.push(key_from_wire(key)?);
        }
        for row in entries.coefficients {
            self.coefficients.push(coefficient(row)?);
        }
        Ok(())
    }

    /// The fault of a message that is given up before its end.
    fn incomplete(&self) -> PeerFault {
        let unit = self.head.unit();
        match self.payload_left {
            0 => PeerFault::Length { what: "entries", came: self.entries - self.entries_left, expected: self.entries },
            left => PeerFault::Length {
                what: self.head.what,
                came: (self.payload - left) / unit,
                expected: self.payload / unit,
            },
        }
    }

    fn finish(self) -> Result<Message, PeerFault> {
        let Open { header, head, mut values, bytes, keys, coefficients, .. } = self;
        // It is at most the number of values, which are in memory.
        let mut split_off = || values.split_off(usize::try_from(head.split).unwrap_or(usize::MAX).min(values.len()));
        let mut body = head.body;
        match &mut body {
            Body::Hello(hello) => hello.keys = keys,
            Body::Complete(mask) => *mask = bytes,
            Body::Noised(noised) => {
                noised.value = LatticeVector::decode(&bytes).map_err(|error| garbage(error.to_string()))?;
            }
            Body::Estimates(estimates) => {
                if let Some(rows) = &mut estimates.slopes {
                    *rows = coefficients;
                }
            }
            Body::Held(held) => held.values = values,
            Body::Prediction(prediction) => *prediction = values,
            Body::Partial(partial) => partial.values = values,
            Body::Basis(basis) => basis.values = values,
            Body::Table(table) => {
                table.score = split_off();
                table.factor = values;
            }
            Body::Results(results) => {
                results.fold_errors = split_off();
                let (fits, _) = values.as_chunks::<2>();
                let fits = fits.iter().map(|&[shift, certificate]| FitEnd { shift, certificate });
                results.fits = fits.collect();
                if let Some(rows) = &mut results.coefficients {
                    *rows = coefficients;
                }
            }
            Body::Rows(_)
            | Body::Shared(_)
            | Body::LargestGradient(_)
            | Body::Terms(_)
            | Body::Ended(_)
            | Body::Redo(_)
            | Body::Go => {}
        }
        Ok(Message { header, body })
    }
}

/// How many values a message may have.
enum Room {
    AtMost(u64),
    Exactly(u64),
}

/// The checked beginning of a message.
struct Head {
    /// Vectors and lists are empty yet.
    body: Body,
    /// What its values are.
    what: &'static str,
    round: u32,
    room: Room,
    /// How many values belong to the first vector, where two travel together.
    split: u64,
    /// Most entries.
    entries: u64,
}

impl Head {
    /// Whether what travels in chunks is not doubles.
    fn raw(&self) -> bool {
        matches!(self.body, Body::Complete(_) | Body::Noised(_))
    }

    /// Bytes of a value.
    fn unit(&self) -> u64 {
        if matches!(self.body, Body::Complete(_)) { 1 } else { VALUE_BYTES }
    }

    fn read(body: start::Body, limits: &Limits) -> Result<Head, PeerFault> {
        let room = Room::Exactly(0);
        let mut head = Head { body: Body::Go, what: "anything", round: 0, room, split: 0, entries: 0 };
        head.body = match body {
            start::Body::Hello(hello) => {
                head.entries = KEYS;
                let purpose = purpose_from_wire(hello.purpose)?;
                Body::Hello(Hello { version: hello.version, purpose, keys: Vec::new() })
            }
            start::Body::Rows(rows) => Body::Rows(Rows {
                key: rows.key.map(|key| fixed(&key, "the key of the run's digests")).transpose()?,
                rows: rows.rows,
                ids: digest(&rows.ids, "the digest of the ids")?,
            }),
            start::Body::Complete(_) => {
                head.what = "the mask of complete rows";
                head.room = Room::AtMost(limits.values.div_ceil(8));
                Body::Complete(Vec::new())
            }
            start::Body::Shared(message) => Body::Shared(shared(message)?),
            start::Body::Held(held) => head.held(&held, limits)?,
            start::Body::LargestGradient(of) => Body::LargestGradient(head.finite(of.value, "the largest gradient")?),
            start::Body::Prediction(_) => {
                head.what = "predictions of new rows";
                head.room = Room::AtMost(limits.values);
                Body::Prediction(Vec::new())
            }
            start::Body::Terms(terms) => Body::Terms(Terms {
                epsilon: head.finite(terms.epsilon, "the epsilon of a budget")?,
                delta: head.finite(terms.delta, "the delta of a budget")?,
                cap: head.finite(terms.cap, "the cap of a budget")?,
                columns: terms.columns,
            }),
            start::Body::Noised(noised) => {
                head.what = "noised values";
                // One value more: the step of the lattice.
                head.room = Room::AtMost(limits.values.saturating_add(1));
                Body::Noised(Noised { index: noised.index, value: LatticeVector::empty() })
            }
            start::Body::Estimates(estimates) => {
                head.entries = if estimates.slopes { COEFFICIENTS } else { 0 };
                Body::Estimates(Estimates {
                    shift: head.finite(estimates.shift, "the shift of the intercept")?,
                    slopes: estimates.slopes.then(Vec::new),
                })
            }
            start::Body::Partial(partial) => head.partial(&partial, limits)?,
            start::Body::Ended(ended) => {
                Body::Ended(Ended { termination: termination_from_wire(ended.termination)?, rounds: ended.rounds })
            }
            start::Body::Basis(basis) => head.basis(&basis, limits)?,
            start::Body::Table(table) => {
                head.what = "the projection table";
                head.room = Room::AtMost(limits.matrix);
                head.split = table.factor;
                Body::Table(Table {
                    factor: Vec::new(),
                    score: Vec::new(),
                    residual: head.finite(table.residual, "the residual sum of squares")?,
                    dependent: table.dependent,
                })
            }
            start::Body::Redo(redo) => Body::Redo(redo.fewer),
            start::Body::Results(results) => {
                head.what = "results";
                head.room = Room::AtMost(RESULT_VALUES);
                head.split = 2 * u64::from(results.fits);
                head.entries = if results.coefficients { COEFFICIENTS } else { 0 };
                Body::Results(Results {
                    fits: Vec::new(),
                    fold_errors: Vec::new(),
                    statistics: results.statistics.map(|s| statistics(&s)).transpose()?,
                    coefficients: results.coefficients.then(Vec::new),
                })
            }
            start::Body::Go(_) => Body::Go,
        };
        Ok(head)
    }

    fn held(&mut self, held: &wire::Held, limits: &Limits) -> Result<Body, PeerFault> {
        let what = held_from_wire(held.what)?;
        self.what = match what {
            HeldKind::Outcome => "the outcome",
            HeldKind::Weights => "the weights",
            HeldKind::Scale => "the scale of the outcome",
            HeldKind::NullResidual => "the residual of the null model",
        };
        self.room = Room::AtMost(limits.values);
        let total = self.finite(held.total, "the outcome's sum of squares")?;
        Ok(Body::Held(Held { what, values: Vec::new(), total }))
    }

    fn partial(&mut self, partial: &wire::Partial, limits: &Limits) -> Result<Body, PeerFault> {
        self.what = "partial predictions";
        self.round = partial.round;
        self.room = Room::AtMost(limits.values);
        Ok(Body::Partial(Partial {
            fit: partial.fit,
            round: partial.round,
            values: Vec::new(),
            penalty: self.finite(partial.penalty, "the penalty")?,
            loss: self.finite(partial.loss, "the loss")?,
            change: self.finite(partial.change, "the largest change")?,
            certificate: self.finite(partial.certificate, "the scaled gradient")?,
        }))
    }

    fn basis(&mut self, basis: &wire::Basis, limits: &Limits) -> Result<Body, PeerFault> {
        self.what = "the basis";
        let count = u64::from(basis.rows).saturating_mul(basis.columns.into());
        if count > limits.matrix {
            return Err(self.too_long(count, limits.matrix));
        }
        if basis.start.checked_add(basis.rows.into()).is_none() {
            return Err(garbage("rows of the basis beyond any table"));
        }
        self.room = Room::Exactly(count);
        Ok(Body::Basis(Basis { start: basis.start, rows: basis.rows, columns: basis.columns, values: Vec::new() }))
    }

    fn finite(&self, value: Option<f64>, what: &'static str) -> Result<f64, PeerFault> {
        finite(value.ok_or_else(|| missing(what))?, what, self.round)
    }

    fn not_finite(&self) -> PeerFault {
        PeerFault::Value { what: self.what, expected: "finite", round: self.round }
    }

    fn too_long(&self, came: u64, expected: u64) -> PeerFault {
        PeerFault::Length { what: self.what, came, expected }
    }
}

fn shared(shared: wire::Shared) -> Result<Shared, PeerFault> {
    let of = |bytes: Option<bytes::Bytes>, what| -> Result<Option<Digest>, PeerFault> {
        bytes.map(|bytes| digest(&bytes, what)).transpose()
    };
    Ok(Shared {
        outcome: of(shared.outcome, "the digest of the outcome")?,
        offset: of(shared.offset, "the digest of the offset")?,
        weights: of(shared.weights, "the digest of the weights")?,
        folds: of(shared.folds, "the digest of the folds")?,
        columns: shared.columns,
        basis: shared.basis,
    })
}

fn finite(value: f64, what: &'static str, round: u32) -> Result<f64, PeerFault> {
    if value.is_finite() { Ok(value) } else { Err(PeerFault::Value { what, expected: "finite", round }) }
}

/// A number that may be absent, but not infinite.
fn perhaps(value: Option<f64>, what: &'static str) -> Result<Option<f64>, PeerFault> {
    value.map(|value| finite(value, what, 0)).transpose()
}

fn statistics(statistics: &wire::Statistics) -> Result<fit::Statistics, PeerFault> {
    Ok(fit::Statistics {
        nobs: statistics.nobs,
        df_residual: degrees(statistics.df_residual)?,
        df_null: degrees(statistics.df_null)?,
        deviance: perhaps(statistics.deviance, "the deviance")?,
        null_deviance: perhaps(statistics.null_deviance, "the null deviance")?,
        aic: perhaps(statistics.aic, "the AIC")?,
        bic: perhaps(statistics.bic, "the BIC")?,
        log_lik: perhaps(statistics.log_lik, "the log-likelihood")?,
        dispersion: perhaps(statistics.dispersion, "the dispersion")?,
        r_squared: perhaps(statistics.r_squared, "R squared")?,
    })
}

/// Degrees of freedom that a double holds exactly; a table with more columns than rows may have fewer than none.
fn degrees(value: Option<i64>) -> Result<Option<i64>, PeerFault> {
    match value {
        Some(value) if value.unsigned_abs() > 1 << 53 => Err(garbage(format!("{value} degrees of freedom"))),
        value => Ok(value),
    }
}

fn coefficient(row: wire::Coefficient) -> Result<fit::Coefficient, PeerFault> {
    let p_value = perhaps(row.p_value, "a p-value")?;
    if p_value.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
        return Err(PeerFault::Value { what: "a p-value", expected: "between 0 and 1", round: 0 });
    }
    Ok(fit::Coefficient {
        term: name(&row.term, "a term")?,
        party: role_from_wire(row.party)?,
        estimate: perhaps(row.estimate, "an estimate")?,
        std_error: perhaps(row.std_error, "a standard error")?,
        statistic: perhaps(row.statistic, "a test statistic")?,
        p_value,
        conf_low: perhaps(row.conf_low, "a confidence limit")?,
        conf_high: perhaps(row.conf_high, "a confidence limit")?,
    })
}
