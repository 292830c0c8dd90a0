//! A long vector that several keep, none of whom changes it.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A vector whose clones share its memory; one that is changed gets memory of its own first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values(Arc<Vec<f64>>);

impl From<Vec<f64>> for Values {
    fn from(values: Vec<f64>) -> Values {
        Values(Arc::new(values))
    }
}

impl FromIterator<f64> for Values {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Values {
        Vec::from_iter(values).into()
    }
}

impl Values {
    /// The vector to change: in the memory that it has where nobody else keeps it, else a copy.
    pub fn into_own(self) -> Vec<f64> {
        Arc::unwrap_or_clone(self.0)
    }
}

impl Deref for Values {
    type Target = Vec<f64>;

    fn deref(&self) -> &Vec<f64> {
        &self.0
    }
}

/// Long vectors that are written again once nobody else keeps them: memory that is new costs more than what is written into it.
#[derive(Debug, Default)]
pub struct Spares(VecDeque<Values>);

/// How many are kept.
const MOST: usize = 6;

impl Spares {
    /// A vector of some length that nobody else keeps, whose content counts for nothing.
    pub fn take(&mut self, length: usize) -> Values {
        let free = |spare: &mut Values| spare.0.len() == length && Arc::get_mut(&mut spare.0).is_some();
        let at = self.0.iter_mut().position(free);
        at.and_then(|at| self.0.remove(at)).unwrap_or_else(|| vec![0.0; length].into())
    }

    /// Keeps a vector, to be taken when nobody else keeps it any more.
    pub fn keep(&mut self, values: Values) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(values);
    }

    /// Puts a vector that nobody else keeps in the place of one that is about to be written; its content counts for nothing then.
    pub fn renew(&mut self, values: &mut Values) {
        if Arc::get_mut(&mut values.0).is_none() {
            let fresh = self.take(values.len());
            self.keep(std::mem::replace(values, fresh));
        }
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut Vec<f64> {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_written_again_only_when_nobody_else_keeps_it() {
        let mut spares = Spares::default();
        let mut values = Values::from(vec![1.0, 2.0]);
        let sent = values.clone();
        spares.renew(&mut values);
        values.fill(7.0);
        assert_eq!(*sent, [1.0, 2.0]);
        // Its memory is free as soon as nobody keeps what was sent.
        let place = sent.as_ptr();
        assert_ne!(spares.take(2).as_ptr(), place);
        drop(sent);
        assert_eq!(spares.take(3), Values::from(vec![0.0; 3]));
        assert_eq!(spares.take(2).as_ptr(), place);
        // Somebody's own is a copy as long as another keeps the vector.
        let (place, kept) = (values.as_ptr(), values.clone());
        let copy = kept.into_own();
        assert!(copy.as_ptr() != place && copy == *values);
        let alone = Values::from(vec![3.0]);
        let place = alone.as_ptr();
        let own = alone.into_own();
        assert!(own.as_ptr() == place && own == [3.0]);
        // One that nobody else keeps is left where it is.
        let place = values.as_ptr();
        spares.renew(&mut values);
        assert_eq!(values.as_ptr(), place);
    }

    #[test]
    fn only_a_few_vectors_are_kept() {
        let mut spares = Spares::default();
        (0..2 * MOST).for_each(|value| spares.keep(vec![value as f64].into()));
        assert_eq!(spares.0.len(), MOST);
        assert_eq!(*spares.take(1), [MOST as f64]);
    }
}
