//! End-to-end tests; one binary, so that linking stays cheap.

mod accountants;
mod across;
mod anova;
mod extremes;
mod imports;
mod offsets;
mod protocol;
mod quasi;
mod refit;
mod sandwich;
mod schema;
mod sealed;
mod several;
mod several_formulas;
mod several_sealed;
mod vertical;
mod vertical_rounds;
mod words;
