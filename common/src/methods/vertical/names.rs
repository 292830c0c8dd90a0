//! Which coefficients a peer may send: those of the terms that the study gives it.

use std::collections::BTreeSet;

use crate::data::formula::{Formula, Term};
use crate::data::functions::Factor;
use crate::fit::{Coefficient, INTERCEPT};
use crate::id::Role;
use crate::session::PeerFault;
use crate::study::{ColumnTerms, Study, Vertical};

/// Checks the names in the peer's part of the coefficient table.
///
/// The columns of a `.` stand in the peer's file only, so that any name goes there; so do the levels of a column without declared
/// ones, where a name must begin with the column's.
///
/// # Errors
/// A name that the study does not give the peer, or one that comes twice.
pub(super) fn given(study: &Study<Vertical>, peer: Role, rows: &[Coefficient]) -> Result<(), PeerFault> {
    let [terms, others] = [peer, peer.partner()].map(|role| Terms::of(study, role));
    let mut seen = BTreeSet::new();
    for (place, row) in rows.iter().enumerate() {
        let intercept = peer == Role::Alice && place == 0 && row.term == INTERCEPT;
        let named = terms.name(study, &row.term) && (terms.exactly(&row.term) || !others.exactly(&row.term));
        if !(intercept || named || terms.rest) || !seen.insert(&row.term) {
            return Err(PeerFault::Term { came: row.term.clone() });
        }
    }
    Ok(())
}

/// The terms that the study gives a party by name, and whether it gives it others.
struct Terms {
    named: Vec<Term>,
    rest: bool,
}

impl Terms {
    fn of(study: &Study<Vertical>, role: Role) -> Terms {
        let Some(party) = study.method.parties.get(&role) else {
            return Terms { named: Vec::new(), rest: false };
        };
        match party.formula.as_deref().map(Formula::parse) {
            None => Terms { named: party.columns.iter().map(Term::column).collect(), rest: false },
            Some(Ok(formula)) => Terms { named: formula.terms(&[], &[]), rest: formula.has_rest() },
            // Such a study is refused when the data are read.
            Some(Err(_)) => Terms { named: Vec::new(), rest: false },
        }
    }

    fn exactly(&self, name: &str) -> bool {
        self.named.iter().any(|term| matches!(&term.factors[..], [factor] if factor.to_string() == name))
    }

    fn name(&self, study: &Study<Vertical>, name: &str) -> bool {
        self.named.iter().any(|term| names(study, &term.factors, name))
    }
}

/// Whether a coefficient of a product of these columns may have this name: each column's, joined to a level where there are.
fn names(study: &Study<Vertical>, factors: &[Factor], name: &str) -> bool {
    let Some((factor, further)) = factors.split_first() else {
        return false;
    };
    let Some(rest) = name.strip_prefix(factor.name()) else {
        return false;
    };
    let terms = study.head.columns.get(factor.name());
    let declared = terms.map_or(&[][..], |terms| &terms.levels);
    // The one term of a column of truth values, however its file writes them.
    let truth = terms.is_some_and(ColumnTerms::is_boolean);
    let level = |level: &str| {
        if let Some(has) = factor.has_ending(level) {
            return has;
        }
        declared.is_empty() || declared.iter().any(|declared| declared == level) || (truth && level == "TRUE")
    };
    match further {
        [] => level(rest),
        _ => rest.match_indices(':').any(|(at, _)| level(&rest[..at]) && names(study, further, &rest[at + 1..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glm::Family;

    fn study(bob: &str) -> Study<Vertical> {
        let text = format!(
            "id = \"x\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a\", \"a1\"]\n\
             [parties.bob]\ncertificate = \"bob\"\n{bob}\n[columns.region]\nlevels = [\"north\", \"south\"]\n"
        );
        Study::parse(&text).unwrap().vertical().unwrap()
    }

    fn rows(names: &[&str]) -> Vec<Coefficient> {
        let row = |name: &&str| Coefficient::new(name.to_string(), Role::Bob, Some(1.0), None, Family::Gaussian, 9.0);
        names.iter().map(row).collect()
    }

    #[test]
    fn a_peer_names_the_terms_that_the_study_gives_it_and_no_others() {
        let columns = "columns = [\"b\", \"region\", \"sex\"]";
        let formula = "formula = \"~ b * region + b:sex\"";
        let rest = "formula = \"~ . + region\"";
        let functions = "formula = \"~ log(b) * sex + poly(b, 2)\"";
        for (bob, names, refused) in [
            (columns, &["b", "regionsouth", "sexmale"][..], None),
            (columns, &["b", "a1"], Some("a1")),
            (columns, &["=cmd|' /C calc'!A0"], Some("=cmd|' /C calc'!A0")),
            (columns, &["regionwest"], Some("regionwest")),
            (columns, &["b", "b"], Some("b")),
            (columns, &["(Intercept)"], Some("(Intercept)")),
            (formula, &["b", "regionsouth", "b:regionsouth", "b:sexmale"], None),
            (formula, &["b", "regionwest"], Some("regionwest")),
            (formula, &["region"], Some("region")),
            (formula, &["sexmale"], Some("sexmale")),
            (rest, &["weight", "regionsouth"], None),
            (rest, &["weight", "weight"], Some("weight")),
            (functions, &["log(b)", "poly(b, 2)1", "poly(b, 2)2", "log(b):sexmale"], None),
            (functions, &["poly(b, 2)3"], Some("poly(b, 2)3")),
            (functions, &["log(b)1"], Some("log(b)1")),
        ] {
            let fault = given(&study(bob), Role::Bob, &rows(names)).err();
            assert_eq!(fault, refused.map(|came| PeerFault::Term { came: came.to_string() }), "{bob} {names:?}");
        }
    }

    #[test]
    fn alice_has_the_intercept_first() {
        let study = study("columns = [\"b\"]");
        assert!(given(&study, Role::Alice, &rows(&["(Intercept)", "a", "a1"])).is_ok());
        assert!(given(&study, Role::Alice, &rows(&["a", "(Intercept)"])).is_err());
        assert!(given(&study, Role::Alice, &rows(&["b"])).is_err());
    }
}
