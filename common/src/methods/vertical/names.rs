//! Which coefficients a peer may send: those of the terms that the study gives it, and among several parties, from the leader, those of
//! all others.

use std::collections::{BTreeMap, BTreeSet};

use crate::data::formula::{Formula, Term};
use crate::data::functions::Factor;
use crate::fit::{Coefficient, INTERCEPT};
use crate::id::Role;
use crate::session::PeerFault;
use crate::study::{ColumnTerms, Study, Vertical};

/// Whose coefficients a peer shows: its own; the leader of several shows those of all others.
pub(super) fn shown_by(study: &Study<Vertical>, peer: Role, receiver: Role) -> Vec<Role> {
    match study.leader_of_several() {
        Some(leader) if leader == peer => study.others(receiver),
        Some(_) | None => vec![peer],
    }
}

/// Checks the names in the coefficient tables of these parties, each row against the party that it names.
///
/// The columns of a `.` stand in the peer's file only, so that any name goes there; so do the levels of a column without declared
/// ones, where a name must begin with the column's.
///
/// # Errors
/// A name that the study does not give the peer, or one that comes twice.
pub(super) fn given(study: &Study<Vertical>, parties: &[Role], rows: &[Coefficient]) -> Result<(), PeerFault> {
    let all: BTreeMap<Role, Terms> = study.method.parties.keys().map(|role| (*role, Terms::of(study, *role))).collect();
    let mut seen = BTreeSet::new();
    for (place, row) in rows.iter().enumerate() {
        let wrong = || PeerFault::Term { came: row.term.clone() };
        let terms = all.get(&row.party).filter(|_| parties.contains(&row.party)).ok_or_else(wrong)?;
        let intercept = study.is_first(row.party) && place == 0 && row.term == INTERCEPT;
        // A level may make it the name of another party's column, as `sex` with `m` that of `sexm`: every row says whose it is.
        let named = terms.name(study, &row.term);
        if !(intercept || named || terms.rest) || !seen.insert((row.party, &row.term)) {
            return Err(wrong());
        }
    }
    Ok(())
}

/// The column or term of a party's formula that a coefficient belongs to; none of those that a `.` stands for. Of several that it may be
/// the one of just this name, or else that of the longest, as `ab` with the level `c` against `a` with the level `bc`.
pub(super) fn source(study: &Study<Vertical>, party: Role, name: &str) -> Option<Term> {
    let Terms { named, .. } = Terms::of(study, party);
    let may_be = named.into_iter().filter(|term| names(study, &term.factors, name));
    may_be.max_by_key(|term| {
        let label = term.to_string();
        (label == name, label.len())
    })
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

    fn rows(party: Role, names: &[&str]) -> Vec<Coefficient> {
        let row = |name: &&str| Coefficient::new(name.to_string(), party, Some(1.0), None, Family::Gaussian, 9.0);
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
            let fault = given(&study(bob), &[Role::Bob], &rows(Role::Bob, names)).err();
            assert_eq!(fault, refused.map(|came| PeerFault::Term { came: came.to_string() }), "{bob} {names:?}");
        }
    }

    #[test]
    fn a_level_may_make_the_name_of_a_column_at_the_other_party() {
        let text = "id = \"x\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"go\"]\n\
                    [parties.bob]\ncertificate = \"bob\"\ncolumns = [\"gox\"]\n";
        let study = Study::parse(text).unwrap().vertical().unwrap();
        for (party, names) in [(Role::Alice, &["(Intercept)", "gox"][..]), (Role::Bob, &["gox"][..])] {
            assert!(given(&study, &[party], &rows(party, names)).is_ok(), "{party}");
        }
        assert!(given(&study, &[Role::Alice], &rows(Role::Alice, &["(Intercept)", "gox", "gox"])).is_err());
    }

    #[test]
    fn alice_has_the_intercept_first() {
        let study = study("columns = [\"b\"]");
        let alice = |names: &[&str]| given(&study, &[Role::Alice], &rows(Role::Alice, names));
        assert!(alice(&["(Intercept)", "a", "a1"]).is_ok());
        assert!(alice(&["a", "(Intercept)"]).is_err());
        assert!(alice(&["b"]).is_err());
        // Rows of another party than the one that sends them.
        assert!(given(&study, &[Role::Alice], &rows(Role::Bob, &["b"])).is_err());
    }

    #[test]
    fn the_leader_of_several_shows_the_terms_of_all_but_the_receiver_each_under_its_party() {
        let text = "id = \"x\"\nleader = \"bob\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a\"]\n\
                    [parties.bob]\ncertificate = \"bob\"\ncolumns = [\"b\"]\n[parties.carol]\ncertificate = \"carol\"\ncolumns = [\"c\"]\n";
        let study = Study::parse(text).unwrap().vertical().unwrap();
        let carol: Role = "carol".parse().unwrap();
        let dave: Role = "dave".parse().unwrap();
        let to_carol = shown_by(&study, Role::Bob, carol);
        assert_eq!(to_carol, [Role::Bob, Role::Alice]);
        assert_eq!(shown_by(&study, carol, Role::Bob), [carol]);
        let joined =
            |parts: &[(Role, &[&str])]| parts.iter().flat_map(|(role, names)| rows(*role, names)).collect::<Vec<_>>();
        let shown = |parts: &[(Role, &[&str])]| given(&study, &to_carol, &joined(parts));
        assert!(shown(&[(Role::Bob, &["(Intercept)", "b"]), (Role::Alice, &["a"])]).is_ok());
        for wrong in [
            &[(Role::Bob, &["b"][..]), (carol, &["c"])],
            &[(Role::Bob, &["b"]), (dave, &["a"])],
            &[(Role::Bob, &["a"]), (Role::Alice, &["b"])],
            &[(Role::Alice, &["(Intercept)"]), (Role::Bob, &["b"])],
            &[(Role::Alice, &["a"]), (Role::Alice, &["a"])],
        ] {
            assert!(shown(wrong).is_err(), "{wrong:?}");
        }
    }
}
