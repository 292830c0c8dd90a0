//! Study files: what parses has a digest and disclosures, what does not has a sentence.

#![no_main]

use fedreg_common::id::Role;
use fedreg_common::study::Study;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Study::parse(text) {
        Ok(study) => {
            let _ = study.digest();
            let _ = match study.split() {
                Ok(study) => study.disclosures(Role::Alice),
                Err(study) => study.disclosures(),
            };
        }
        Err(error) => drop(error.to_string()),
    }
});
