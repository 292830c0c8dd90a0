//! A long vector that several keep, none of whom changes it.

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

impl Deref for Values {
    type Target = Vec<f64>;

    fn deref(&self) -> &Vec<f64> {
        &self.0
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut Vec<f64> {
        Arc::make_mut(&mut self.0)
    }
}
