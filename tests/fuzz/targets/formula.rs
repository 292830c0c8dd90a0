//! Formulas: what parses has terms, what does not has a sentence.

#![no_main]

use fedreg_common::data::formula::Formula;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Formula::parse(text) {
        Ok(formula) => {
            let names = formula.predictors();
            let _ = formula.terms(&names, &["other"]);
        }
        Err(error) => drop(error.to_string()),
    }
});
