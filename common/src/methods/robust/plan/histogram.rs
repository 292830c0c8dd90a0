//! What a fit reads off its noised histograms: the cut and the shape of the residuals, and how long the kept rows are.

use super::Influence;

/// The public grid of absolute residuals, in half ranges of the outcome: from 0, then 10 cells a decade from 1e-4 to 10.
/// Fewer cells blur the quantiles, more cells add noise to every sum of counts.
pub(super) struct Grid;
pub(super) const EDGES: Grid = Grid;

impl Grid {
    const PER_DECADE: i32 = 10;
    const DECADES: i32 = 5;
    const LOW: f64 = 1e-4;

    pub(super) fn with_cells(&self) -> usize {
        (Self::PER_DECADE * Self::DECADES) as usize + 1
    }

    pub(super) fn edge(&self, index: usize) -> f64 {
        if index == 0 { 0.0 } else { Self::LOW * 10f64.powf((index - 1) as f64 / f64::from(Self::PER_DECADE)) }
    }

    /// The cell of an absolute residual; beyond the grid the last one.
    pub(super) fn cell(&self, residual: f64) -> usize {
        let residual = residual.abs();
        if residual < Self::LOW {
            return 0;
        }
        let cell = ((residual / Self::LOW).log10() * f64::from(Self::PER_DECADE)).floor() + 1.0;
        // A NaN cannot come from clipped values and finite coefficients; the cast would send it to cell 0.
        (cell as usize).min(self.with_cells() - 1)
    }
}

/// A distribution of absolute residuals, read from noised counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Distribution {
    /// Rows at or below the upper edge of each cell; never decreasing.
    cumulative: Vec<f64>,
    rows: f64,
}

impl Distribution {
    pub(super) fn new(counts: &[f64], rows: usize) -> Distribution {
        let rows = rows as f64;
        // The number of rows is public, so the sum of the noise is known and can be taken out.
        let surplus = (counts.iter().sum::<f64>() - rows) / counts.len().max(1) as f64;
        let (mut sum, mut largest) = (0.0f64, 0.0f64);
        let cumulative = counts
            .iter()
            .map(|count| {
                sum += count - surplus;
                largest = largest.max(sum).min(rows);
                largest
            })
            .collect();
        Distribution { cumulative, rows }
    }

    fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.rows;
        let cell = self.cumulative.partition_point(|&count| count < wanted).min(self.cumulative.len() - 1);
        let below = if cell == 0 { 0.0 } else { self.cumulative[cell - 1] };
        let within = ((wanted - below) / (self.cumulative[cell] - below).max(1e-9)).clamp(0.0, 1.0);
        EDGES.edge(cell) + within * (EDGES.edge(cell + 1) - EDGES.edge(cell))
    }

    /// Share of rows with absolute residual at most `at`, linear within cells.
    fn share(&self, at: f64) -> f64 {
        let cell = EDGES.cell(at);
        let below = if cell == 0 { 0.0 } else { self.cumulative[cell - 1] };
        let (low, high) = (EDGES.edge(cell), EDGES.edge(cell + 1));
        let within = ((at - low) / (high - low)).clamp(0.0, 1.0);
        (below + within * (self.cumulative[cell] - below)) / self.rows
    }

    /// The heuristic cut: the largest residual that still lies on the line through the small ones, up to a factor 2.
    pub(super) fn heuristic_cut(&self) -> f64 {
        const POINTS: usize = 200;
        let sorted: Vec<f64> = (0..POINTS).map(|index| self.quantile((index as f64 + 0.5) / POINTS as f64)).collect();
        let half = POINTS / 2;
        let mut squares = vec![0.0; POINTS + 1];
        for (index, residual) in sorted.iter().enumerate() {
            squares[index + 1] = squares[index] + residual * residual;
        }
        (half + 1..=POINTS)
            .rev()
            .find(|&kept| {
                let mean = squares[kept - half] / (kept - half) as f64;
                let right = sorted.partition_point(|residual| residual * residual < mean).clamp(1, POINTS - 1);
                let gap = |index: usize| (sorted[index] * sorted[index] - mean).abs();
                let nearest = if gap(right - 1) <= gap(right) { right - 1 } else { right };
                sorted[kept - 1] <= 2.0 * kept as f64 * sorted[nearest] / (nearest + 1) as f64
            })
            .map_or(sorted[half - 1], |kept| sorted[kept - 1])
    }

    /// Mean over all rows of the squared residual where it is at most `cut`, linear within the cut's cell.
    fn second_moment(&self, cut: f64) -> f64 {
        let mut before = 0.0;
        let mut sum = 0.0;
        for (cell, &count) in self.cumulative.iter().enumerate() {
            let (low, high) = (EDGES.edge(cell), EDGES.edge(cell + 1));
            let top = high.min(cut);
            if top <= low {
                break;
            }
            sum += 0.5 * (low * low + top * top) * (count - before) * (top - low) / (high - low);
            before = count;
        }
        sum / self.rows
    }
}

/// What a round read off its noised histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cut {
    pub(super) at: f64,
    pub(super) share: f64,
    pub(super) slope: f64,
    pub(super) second_moment: f64,
}

impl Cut {
    pub(super) fn read(distribution: &Distribution, influence: Influence) -> Cut {
        // Two first cells; and twice the half range, which residuals of sensible coefficients stay below.
        let (smallest, largest) = (2.0 * Grid::LOW, 2.0);
        let at = match influence {
            // More than half of the rows are sound; noise in the counts must not reject them.
            Influence::Reject => distribution.heuristic_cut().max(2.0 * distribution.quantile(0.5)),
            Influence::Huber => 1.345 * distribution.quantile(0.5) / 0.674_489_75,
        }
        .clamp(smallest, largest);
        let inside = distribution.share(at);
        let inner = distribution.second_moment(at);
        let (slope, second_moment) = match influence {
            Influence::Reject => {
                let density = (distribution.share(1.2 * at) - distribution.share(0.8 * at)) / (0.4 * at);
                (inside - at * density, inner)
            }
            Influence::Huber => (inside, inner + at * at * (1.0 - inside).max(0.0)),
        };
        Cut { at, share: inside.clamp(0.5, 1.0), slope: slope.clamp(0.2, 1.0), second_moment }
    }
}

/// What the lengths of the rows within the cut say, read from counts on a public grid in units of the norm that rows are
/// shortened to; one more cell takes all other rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lengths {
    /// Mean of `u min(u, 1)` over the rows within the cut, `u` the length before shortening.
    pub(super) crossed: f64,
    /// Mean of `min(u, 1)^2` over them.
    pub(super) squared: f64,
}

impl Lengths {
    const EDGES: [f64; 11] = [0.0, 0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.35, 1.7, 2.3, 3.2];

    /// Cells of the release: one a length, one for all other rows.
    pub(super) const CELLS: usize = Self::EDGES.len() + 1;

    /// The cell of a row; a row beyond the cut is in the last.
    pub(super) fn cell(length: f64, kept: bool) -> usize {
        if kept { Self::EDGES.partition_point(|&edge| edge <= length).saturating_sub(1) } else { Self::CELLS - 1 }
    }

    /// Reads noised counts; `None` where fewer than a quarter of the rows seem to be within the cut.
    pub(super) fn read(counts: &[f64], rows: usize) -> Option<Lengths> {
        let kept: f64 = counts.iter().take(Self::EDGES.len()).sum();
        if kept < 0.25 * rows as f64 {
            return None;
        }
        // Rows of the longest cell count as if they had its lower edge, which makes intervals wider, not narrower.
        let upper = Self::EDGES.iter().skip(1).chain(Self::EDGES.last());
        let lengths = Self::EDGES.iter().zip(upper).map(|(low, high)| 0.5 * (low + high));
        let mean =
            |of: fn(f64) -> f64| lengths.clone().zip(counts).map(|(length, n)| of(length) * n).sum::<f64>() / kept;
        Some(Lengths { crossed: mean(|u| u * u.min(1.0)), squared: mean(|u| u.min(1.0).powi(2)) })
    }
}
