//! One number of a simulation is varied, everything else stays: a table and a plot of every method's error.

use crate::chart::{Axis, Chart};
use crate::document::{Document, Table};
use crate::tables::{line, number, row};

/// What is varied, and how it is shown.
pub(crate) struct Sweep<'a> {
    /// Name of the picture's file.
    pub(crate) name: String,
    /// Stands above the table.
    pub(crate) caption: String,
    /// What is varied.
    pub(crate) over: Axis,
    /// Its values.
    pub(crate) values: &'a [f64],
    /// What is measured.
    pub(crate) measured: Axis,
    /// The rows.
    pub(crate) methods: &'a [&'a str],
}

impl Sweep<'_> {
    /// Measures all methods at every value, and adds table and plot. Returns a row for each method.
    pub(crate) fn run(
        self,
        document: &mut Document,
        measure: impl Fn(f64) -> anyhow::Result<Vec<f64>>,
    ) -> anyhow::Result<Vec<Vec<f64>>> {
        let columns = self.values.iter().map(|value| measure(*value)).collect::<anyhow::Result<Vec<_>>>()?;
        let rows: Vec<Vec<f64>> = (0..self.methods.len())
            .map(|method| columns.iter().map(|column| column.get(method).copied().unwrap_or(f64::NAN)).collect())
            .collect();
        let header = std::iter::once(self.over.name.clone()).chain(self.values.iter().map(|value| number(*value)));
        let mut table = Table::new(self.caption.as_str(), header.collect::<Vec<_>>());
        for (name, values) in self.methods.iter().zip(&rows) {
            table.ours(row(name, values));
        }
        document.table(table);
        let named = self.methods.iter().zip(&rows).enumerate();
        let lines = named.map(|(at, (name, values))| line(name, at, self.values, values, false)).collect();
        let chart = Chart { title: self.caption.clone(), x: self.over, y: self.measured, lines };
        document.figure(self.name, chart, self.caption);
        Ok(rows)
    }
}
