//! Reads, fits in parallel, and gives the contributions in order; memory is bounded by a few batches.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fedreg_common::privacy::release::Released;
use fedreg_common::robust::{BatchError, FitSettings, fit, minimum_rows};
use fedreg_common::star::message::Body;
use fedreg_common::star::robust::body_of;
use tokio::sync::mpsc;

use crate::service::Failure;

use super::batches::{Batch, Source};

/// What the pipeline yields, in the order of the batches.
#[derive(Debug)]
pub(crate) enum Yield {
    /// The next contribution.
    Piece(Piece),
    /// The rows are read, and their budget is there: contributions follow when the coordinator asks for them.
    Ready,
    /// The table cannot be used.
    Failed(Failure),
}

/// A batch's contribution.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) number: u64,
    pub(crate) content: Content,
    pub(crate) rows: u64,
    pub(crate) missing: u64,
    /// Why it has no estimate, with the batch's place.
    pub(crate) unfit: Option<String>,
    pub(crate) solve: Duration,
}

/// What a contribution brings.
#[derive(Debug)]
pub(crate) enum Content {
    /// Values without noise, which leave only if the study declares them.
    Plain(Body),
    /// Values that may leave: noised, charged and stored.
    Released(Released<Body>),
}

/// How batches are fitted.
#[derive(Debug, Clone)]
pub(crate) struct Fitting {
    pub(crate) settings: FitSettings,
    pub(crate) with_gram: bool,
    pub(crate) min_rows: u64,
    pub(crate) threads: usize,
}

/// Fits the batches from number `first` on. The channel ends after the last.
pub(crate) fn start(mut source: Source, first: u64, fitting: &Fitting) -> mpsc::Receiver<Yield> {
    let threads = fitting.threads.max(1);
    let (give, take) = sync_channel::<Batch>(threads);
    let take = Arc::new(Mutex::new(take));
    let (fitted, out) = mpsc::channel(2 * threads);
    for _ in 0..threads {
        let (take, fitted, fitting) = (Arc::clone(&take), fitted.clone(), fitting.clone());
        thread::spawn(move || {
            while let Some(batch) = next(&take) {
                if fitted.blocking_send(Yield::Piece(piece(&batch, &fitting))).is_err() {
                    return;
                }
            }
        });
    }
    thread::spawn(move || {
        loop {
            match source.batch() {
                Ok(Some(batch)) if batch.number < first => {}
                Ok(Some(batch)) => {
                    if give.send(batch).is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let _ = fitted.blocking_send(Yield::Failed(error.into()));
                    return;
                }
            }
        }
    });
    out
}

fn next(take: &Mutex<Receiver<Batch>>) -> Option<Batch> {
    take.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn piece(batch: &Batch, fitting: &Fitting) -> Piece {
    let begun = Instant::now();
    let rows = batch.y.len() as u64;
    let q = batch.x.ncols() + usize::from(fitting.settings.intercept);
    let needed = usize::try_from(fitting.min_rows).unwrap_or(usize::MAX).max(minimum_rows(q));
    let fitted = match (rows as usize) < needed {
        true => Err(BatchError::TooFewRows { rows: batch.y.len(), needed }),
        false => fit(&batch.x, &batch.y, &fitting.settings),
    };
    let (first, last) = batch.place;
    let unfit = fitted.as_ref().err().map(|error| format!("batch {} ({first} to {last}): {error}", batch.number));
    Piece {
        number: batch.number,
        content: Content::Plain(body_of(fitted.as_ref(), rows, fitting.with_gram)),
        rows,
        missing: batch.missing,
        unfit,
        solve: begun.elapsed(),
    }
}

/// Puts pieces back into their order.
#[derive(Debug)]
pub(crate) struct InOrder {
    next: u64,
    early: BTreeMap<u64, Piece>,
}

impl InOrder {
    pub(crate) fn new(first: u64) -> InOrder {
        InOrder { next: first, early: BTreeMap::new() }
    }

    /// With one piece, which is the next.
    pub(crate) fn of(piece: Piece) -> InOrder {
        let mut order = InOrder::new(piece.number);
        order.put(piece);
        order
    }

    pub(crate) fn put(&mut self, piece: Piece) {
        self.early.insert(piece.number, piece);
    }

    pub(crate) fn next(&mut self) -> Option<Piece> {
        let piece = self.early.remove(&self.next)?;
        self.next += 1;
        Some(piece)
    }
}
