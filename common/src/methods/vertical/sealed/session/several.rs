//! What a party of several has beside one of two: columns of each, the exchange with all others by way of the leader, and the
//! intercept over more than two blocks.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};

use super::all::{Seen, part_of, rest_of};
use super::{Place, Work};
use crate::conversation::Refusal;
use crate::id::Role;
use crate::methods::vertical::masked::{length, out_of_order};
use crate::methods::vertical::message::{Body, Share};
use crate::methods::vertical::sealed::kept;
use crate::methods::vertical::sealed::penalised::Theirs;
use crate::methods::vertical::several::Exchange;
use crate::secure::gaussian::{Means, Table, position};
use crate::secure::product::SeveralShape;
use crate::session::{Abort, PeerFault};

/// What a party of several has beside.
#[derive(Default)]
pub(in super::super::super) struct Several {
    /// At another than the leader.
    pub(super) exchange: Option<Exchange>,
    /// At another than the leader, the blocks of all parties.
    pub(super) shape: Option<SeveralShape>,
    /// There too, the tables where they open to all.
    pub(super) seen: Option<Seen>,
    /// Factors of the others than the leader, by their places behind it, where these open for sub-models.
    pub(super) theirs: BTreeMap<usize, Theirs>,
    /// Columns that third parties have set aside.
    pub(super) dropped: usize,
    /// At the leader: those that were asked which of their columns stay, and how many these are.
    asked: Vec<(Role, u64)>,
}

impl Work {
    /// The blocks of all parties: the outcome stands behind the leader's.
    pub(in super::super::super) fn shape_of_several(&self, blocks: &[usize]) -> Result<SeveralShape, Abort> {
        let mut wide = blocks.to_vec();
        if let Some(first) = wide.first_mut() {
            *first += 1;
        }
        let (width, bits) = (self.shape.width, self.shape.bits);
        let shape = SeveralShape::new(width, bits, self.rows, &wide);
        shape.ok_or_else(|| {
            let names: Vec<String> = self.study.parties_in_order().iter().map(ToString::to_string).collect();
            let none = names.iter().zip(blocks).find(|(_, columns)| **columns == 0).map_or("a party", |(name, _)| name);
            Abort::Data(format!("{none} has no column in the model: a sealed fit needs columns of all parties"))
        })
    }

    /// At another than the leader: columns of each party.
    pub(super) fn take_columns(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let parties = self.study.parties_in_order();
        if values.len() != parties.len() {
            return Err(length("columns of each party", values.len(), parties.len()).into());
        }
        let place = parties.iter().position(|party| *party == self.role).ok_or_else(out_of_order)?;
        let (own, others) = (self.basis.own(), self.shape.left - 1);
        let whole = |value: &f64| (*value >= 1.0 && *value <= 1e6 && value.fract() == 0.0).then_some(*value as usize);
        let columns: Vec<usize> = values.iter().filter_map(whole).collect();
        if columns.len() != values.len() || columns[place] != own || columns.iter().sum::<usize>() != own + others {
            let (what, expected) = ("columns of each party", "those of all parties");
            return Err(PeerFault::Value { what, expected, round: 0 }.into());
        }
        let shape = self.shape_of_several(&columns)?;
        let exchange = Exchange::new((self.role, self.opening.peer), &self.study, self.opening.run, (shape, place));
        self.several = Some(Several { exchange: Some(exchange), shape: Some(shape), ..Several::default() });
        self.place = Place::Masked;
        Ok(())
    }

    pub(super) fn after_exchange(&mut self) {
        let exchange = self.several.as_ref().and_then(|several| several.exchange.as_ref());
        if exchange.is_some_and(|exchange| exchange.step().is_none()) {
            self.place = Place::Share;
        }
    }

    /// The shares of all tables with the own columns, for the leader.
    pub(super) fn tell_shares(&mut self) -> Result<Body, Abort> {
        let exchange = self.several.as_mut().and_then(|several| several.exchange.as_mut());
        let shares = exchange.ok_or_else(out_of_order)?.take_shares()?;
        self.place = match self.opens_to_both() {
            true => Place::Tables,
            false if kept::opens(self) => Place::Factor,
            false => Place::Solution,
        };
        let canary = crate::secure::ring::Elements::zeros(self.shape.width, 0);
        Ok(Body::Share(Share { canary, table: Some(shares.shares().clone()) }))
    }

    /// At the leader: the tables of all pairs have opened.
    pub(in super::super::super) fn open_tables(&mut self, tables: &[DMatrix<f64>]) -> Result<(), Abort> {
        self.table = Some(Table::of_several(tables, self.across()).ok_or_else(out_of_order)?);
        self.place = Place::Solution;
        Ok(())
    }

    /// Where the means of the own columns are in their basis, for the parties after this one: they need it for the standard error of the
    /// intercept.
    pub(super) fn position(&self) -> Vec<f64> {
        let parties = self.study.parties_in_order();
        match self.several.is_some() && self.study.method.intercept && parties.last() != Some(&self.role) {
            true => position(&self.factor(), &self.means_of(&self.dropped())).as_slice().to_vec(),
            false => Vec::new(),
        }
    }

    /// Numbers that answer all others: of several parties, each hears of its own columns alone.
    pub(super) fn answering(&self, all: usize) -> usize {
        let blocks = self.table().map(Table::blocks).unwrap_or_default();
        match self.several {
            Some(_) => blocks.iter().map(|columns| columns * (columns + 2) + 3).sum(),
            None => all,
        }
    }

    /// At the leader: what is said to one of the others, of the answer to all of them together. `positions` are those of the others
    /// before it.
    pub(in super::super::super) fn answer_of(&self, at: usize, positions: &[DVector<f64>]) -> Option<Vec<f64>> {
        let (answer, _) = self.answer.as_ref()?;
        let block = self.table()?.block(at);
        let (begin, size) = (block.start, block.len());
        let view = |first: usize, columns: usize| answer.part.covariance.view((begin, first), (size, columns));
        let part = part_of(self.table()?, &answer.part, at);
        let mut lean = answer.lean.rows(begin, size).into_owned();
        let mut first = 0;
        for position in positions {
            lean += view(first, position.len()) * position;
            first += position.len();
        }
        let rest = rest_of(answer.residual, &part)?;
        let mut values = part.gamma.as_slice().to_vec();
        values.extend_from_slice(part.covariance.as_slice());
        values.extend_from_slice(lean.as_slice());
        values.extend([answer.residual, rest, self.dropped().len() as f64]);
        Some(values)
    }

    /// At another than the leader: how many columns all parties set aside stands behind the answer; the answer without it.
    pub(super) fn take_dropped<'a>(&mut self, values: &'a [f64], expected: usize) -> Result<&'a [f64], PeerFault> {
        let (own, others) = (self.dropped().len(), self.shape.left - 1);
        let (Some(several), Some((all, rest))) = (&mut self.several, values.split_last()) else { return Ok(values) };
        if values.len() != expected + 1 {
            return Err(length("the joint solution", values.len(), expected + 1));
        }
        let elsewhere = all - own as f64;
        if !(elsewhere >= 0.0 && elsewhere <= others as f64 && elsewhere.fract() == 0.0) {
            let (what, expected) = ("columns that are set aside", "possible");
            return Err(PeerFault::Value { what, expected, round: 1 });
        }
        several.dropped = elsewhere as usize;
        Ok(rest)
    }

    /// Columns that third parties have set aside.
    pub(in super::super) fn dropped_elsewhere(&self) -> usize {
        self.several.as_ref().map_or(0, |several| several.dropped)
    }

    /// At the leader: one of the others is about to be asked which of its columns stay.
    pub(in super::super::super) fn ask(&mut self, to: Role, columns: usize) -> Result<(), Abort> {
        self.count(columns * columns)?;
        if let Some(several) = &mut self.several {
            several.asked.push((to, columns as u64));
        }
        Ok(())
    }

    /// Who was asked that, in order.
    pub(in super::super) fn asked(&self) -> &[(Role, u64)] {
        self.several.as_ref().map_or(&[], |several| &several.asked)
    }

    /// At the leader: the parts of all others of the intercept have come.
    pub(in super::super::super) fn take_all_means(&mut self, means: Means) {
        self.means = Some(means);
        self.place = Place::Results { answered: false };
    }

    /// At the leader: what one of the others said of its means, and where they are in its basis unless it is the last.
    pub(in super::super::super) fn read_means(
        &self,
        at: usize,
        values: &[f64],
    ) -> Result<(Means, DVector<f64>), PeerFault> {
        let table = self.table().ok_or(PeerFault::Garbage("means before a table".to_string()))?;
        let is_last = at + 1 == table.blocks().len();
        let size = if is_last || !self.study.method.intercept { 0 } else { table.blocks()[at] };
        match values.split_first_chunk::<2>() {
            Some((means, position)) if position.len() == size => {
                Ok((Means { shift: means[0], spread: means[1] }, DVector::from_column_slice(position)))
            }
            _ => Err(length("means", values.len(), 2 + size)),
        }
    }
}
