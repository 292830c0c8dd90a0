//! The contributions of the methods that listen: sums of gradients in rounds, statistics of features, records of a stream.
//!
//! Each runs in a thread of its own. It reads, hears what the hub says, and yields contributions in order.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use fedreg_common::em::{self, EmError, Model, Records};
use fedreg_common::id::Role;
use fedreg_common::session::{Abort, PeerFault};
use fedreg_common::star::em::{body_of, coefficients_of};
use fedreg_common::star::features::Gathered;
use fedreg_common::star::message::Body;
use fedreg_common::star::stream::{Maker, before, group, weights_of};
use fedreg_common::study::{Protocol, Study, StudyError};
use nalgebra::DMatrix;
use tokio::sync::mpsc;

use super::batches::{Batch, Source};
use super::pipeline::{Piece, Yield};
use crate::service::Failure;

/// What the hub says, as far as contributions depend on it.
#[derive(Debug)]
pub(crate) enum Word {
    /// What it has found so far, or what it asks.
    Heard(u64, Body),
    /// The latest contribution was not accepted.
    Rejected,
}

/// Contributions that are under way, and the ear of whoever makes them.
pub(crate) struct Under {
    pub(crate) pieces: mpsc::Receiver<Yield>,
    pub(crate) ear: Sender<Word>,
}

/// Begins with contribution number `first`.
///
/// # Errors
/// The study cannot be used.
pub(crate) fn start(study: &Study, source: Source, first: u64, rewound: bool) -> Result<Under, StudyError> {
    let (ear, words) = channel();
    let (give, pieces) = mpsc::channel(2);
    let yields = give.clone();
    let run: Box<dyn FnOnce() -> Result<(), Failure> + Send> = match study.protocol {
        Protocol::Em => {
            let settings = study.em_settings()?;
            Box::new(move || rounds(&settings, source, first, &words, &give))
        }
        Protocol::Features => {
            let gathered = Gathered::new(study)?;
            Box::new(move || once(gathered, source, first, &give))
        }
        _ => {
            let (maker, most) = (Maker::new(study)?, study.site_terms().batch_rows);
            Box::new(move || records(&maker, most, source, first, rewound, &words, &give))
        }
    };
    thread::spawn(move || {
        if let Err(failure) = run() {
            let _ = yields.blocking_send(Yield::Failed(failure));
        }
    });
    Ok(Under { pieces, ear })
}

/// A piece of rows that were read since the piece before.
fn piece(number: u64, body: Body, rows: u64, missing: u64, begun: Instant) -> Yield {
    Yield::Piece(Piece { number, body, rows, missing, unfit: None, solve: begun.elapsed() })
}

fn bug(error: impl std::fmt::Display) -> Failure {
    Abort::Bug(error.to_string()).into()
}

fn fault(expected: &'static str) -> Failure {
    let fault = PeerFault::Garbage(format!("something else than {expected}"));
    Abort::Peer { peer: Role::Coordinator, fault }.into()
}

/// All rows of a table as records of a model with something hidden.
pub(crate) fn read_records(model: Model, source: &mut Source) -> Result<(Records, u64), Failure> {
    let (mut rows, mut y, mut missing, mut columns) = (Vec::new(), Vec::new(), 0, 0);
    while let Some(batch) = source.next()? {
        columns = batch.x.ncols();
        missing += batch.missing;
        rows.extend(batch.x.transpose().iter());
        y.extend(batch.y.iter());
    }
    let x = DMatrix::from_row_slice(y.len(), columns, &rows);
    let records: Result<Records, EmError> = match model {
        Model::GaussianMixture => Records::mixture(&x),
        Model::MixedRegressions => Records::regressions(&x, &y),
        Model::MissingCovariates => Records::with_missing(&x, &y),
    };
    match records {
        Ok(records) if records.is_empty() => Err(Abort::OwnData("no row is complete".to_string()).into()),
        Ok(records) => Ok((records, missing)),
        Err(error) => Err(bug(error)),
    }
}

fn rounds(
    settings: &em::Settings,
    mut source: Source,
    first: u64,
    words: &Receiver<Word>,
    give: &mpsc::Sender<Yield>,
) -> Result<(), Failure> {
    let (records, mut missing) = read_records(settings.stated().model, &mut source)?;
    let mut rows = records.len() as u64;
    let mut next = first;
    while let Ok(word) = words.recv() {
        match word {
            Word::Rejected => next += 1,
            Word::Heard(number, body) if number == next => {
                let begun = Instant::now();
                let beta = coefficients_of(&body, settings.stated().columns).ok_or_else(|| fault("coefficients"))?;
                let answer = body_of(settings, &records, beta).map_err(|_| fault("coefficients that are numbers"))?;
                if give.blocking_send(piece(number, answer, rows, missing, begun)).is_err() {
                    return Ok(());
                }
                (rows, missing) = (0, 0);
                next += 1;
            }
            Word::Heard(..) => {}
        }
    }
    Ok(())
}

/// Reads a whole table into what a site with random features sends.
pub(crate) fn gather(gathered: &mut Gathered, source: &mut Source) -> Result<u64, Failure> {
    let mut missing = 0;
    while let Some(batch) = source.next()? {
        missing += batch.missing;
        gathered.push(&batch.x, batch.y.as_slice()).map_err(bug)?;
    }
    match gathered.records() {
        0 => Err(Abort::OwnData("no row is complete".to_string()).into()),
        _ => Ok(missing),
    }
}

fn once(mut gathered: Gathered, mut source: Source, first: u64, give: &mpsc::Sender<Yield>) -> Result<(), Failure> {
    if first == 0 {
        let begun = Instant::now();
        let missing = gather(&mut gathered, &mut source)?;
        let body = gathered.body().map_err(bug)?;
        let _ = give.blocking_send(piece(0, body, gathered.records(), missing, begun));
    }
    Ok(())
}

/// Rows of a batch as records, in the units of the method.
fn scaled(maker: &Maker, batch: &Batch) -> Vec<(Vec<f64>, f64)> {
    (0..batch.y.len()).map(|i| maker.scaled(batch.x.row(i).iter().copied(), batch.y[i])).collect()
}

fn records(
    maker: &Maker,
    most: u64,
    mut source: Source,
    first: u64,
    rewound: bool,
    words: &Receiver<Word>,
    give: &mpsc::Sender<Yield>,
) -> Result<(), Failure> {
    let width = maker.settings().basis().len();
    if rewound {
        let mut skip = before(first, most);
        while skip > 0 {
            let Some(batch) = source.take(skip.min(most))? else { break };
            skip = skip.saturating_sub(batch.y.len() as u64 + batch.missing);
        }
    }
    let (mut number, mut outside) = (first, 0_u64);
    let mut latest: Option<Body> = None;
    // At the hub there must be so many records before the next ones go out: those of the message before, whoever sent the others.
    let mut least = 0;
    loop {
        let ready = latest.as_ref().and_then(|body| weights_of(body, width)).is_some_and(|(taken, _)| taken >= least);
        if !ready {
            match words.recv() {
                Ok(Word::Heard(_, body)) => {
                    weights_of(&body, width).ok_or_else(|| fault("weights"))?;
                    latest = Some(body);
                }
                Ok(Word::Rejected) => least = 0,
                Err(_) => return Ok(()),
            }
            continue;
        }
        let Some(batch) = source.take(group(number, most))? else { break };
        // Rows may have been long in coming.
        while let Ok(word) = words.try_recv() {
            if let Word::Heard(_, body) = word {
                weights_of(&body, width).ok_or_else(|| fault("weights"))?;
                latest = Some(body);
            }
        }
        let begun = Instant::now();
        let Some((taken, weights)) = latest.as_ref().and_then(|body| weights_of(body, width)) else { continue };
        let rows = scaled(maker, &batch);
        outside += (0..batch.y.len()).filter(|i| maker.outside(batch.x.row(*i).iter().copied())).count() as u64;
        if rows.is_empty() {
            continue;
        }
        let body = maker.body_of(weights.to_vec(), taken, &rows).map_err(bug)?;
        least = taken + rows.len() as u64;
        if give.blocking_send(piece(number, body, rows.len() as u64, batch.missing, begun)).is_err() {
            return Ok(());
        }
        number += 1;
    }
    if outside > 0 {
        tracing::warn!("{outside} records had a covariate outside its public range, to which it was cut");
    }
    Ok(())
}
