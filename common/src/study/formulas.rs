//! What a party's formula says of the whole model: that there is no intercept, and which column is the offset.

use super::file::StudyFile;
use crate::data::formula::{Formula, caret};
use crate::data::functions::Factor;
use crate::id::Role;
use crate::methods::vertical::terms::PartyTerms;
use crate::terms::{HeldBy, HeldColumn, StudyError, value};

/// An offset in a party's formula.
struct Offset {
    role: Role,
    text: String,
    /// The column, or what is computed from columns.
    of: Factor,
    place: usize,
}

impl Offset {
    fn refused(&self, problem: &str) -> StudyError {
        at(self.role, &self.text, problem, self.place)
    }
}

fn at(role: Role, text: &str, problem: &str, place: usize) -> StudyError {
    value(&format!("parties.{role}.formula"), format!("{problem}{}", caret(text, place)))
}

impl StudyFile {
    /// Takes `- 1` out of the formula of the party that holds the intercept, and `offset(x)` out of any, as if `model.intercept` and
    /// `[offset]` said so. A formula that cannot be read is left to whoever checks it.
    pub(super) fn follow_formulas(&mut self) -> Result<(), StudyError> {
        let first = self.leader.unwrap_or(Role::Alice);
        let read = |text: &String| Formula::parse(text).ok().map(|formula| (text.clone(), formula));
        let formulas = |(role, terms): (&Role, &PartyTerms)| Some((*role, terms.formula.as_ref().and_then(read)?));
        let formulas: Vec<(Role, (String, Formula))> = self.parties.iter().filter_map(formulas).collect();
        self.model.intercept &= formulas.iter().all(|(role, (_, formula))| *role != first || formula.intercept);
        let mut offsets = Vec::new();
        for (role, (text, formula)) in formulas {
            if !formula.intercept && self.model.intercept {
                let problem = format!(
                    "leaves the intercept out, which {first} holds: write it in the formula of {first}, or `model.intercept = false`"
                );
                return Err(at(role, &text, &problem, formula.places.intercept));
            }
            let place = formula.places.offset;
            let offset = |of| Offset { role, text: text.clone(), of, place };
            offsets.extend(formula.offsets.into_iter().map(offset));
        }
        self.follow_offsets(&offsets)
    }

    /// The one offset of these formulas, and who holds it.
    fn follow_offsets(&mut self, offsets: &[Offset]) -> Result<(), StudyError> {
        let Some(offset) = offsets.first() else { return Ok(()) };
        if let Some(other) = offsets.iter().find(|other| other.of != offset.of) {
            let problem = format!(
                "has the offset `{}`, and the formula of {} has `{}`: a model has one offset, so make a column of their sum",
                other.of.name().escape_debug(),
                offset.role,
                offset.of.name().escape_debug()
            );
            return Err(other.refused(&problem));
        }
        if let Some(stated) = &self.offset {
            let problem =
                format!("has another offset than `offset.column`, which is `{}`", stated.column.escape_debug());
            if stated.column != offset.of.to_string() {
                return Err(offset.refused(&problem));
            }
            let holder = stated.held_by.holder();
            return match holder.and_then(|holder| offsets.iter().find(|offset| offset.role != holder)) {
                Some(other) => Err(other.refused(&format!(
                    "has the offset that `offset.held_by` gives to {} alone",
                    stated.held_by.word()
                ))),
                None => Ok(()),
            };
        }
        let held_by = if self.parties.keys().all(|role| offsets.iter().any(|offset| offset.role == *role)) {
            if self.is_led() { HeldBy::All } else { HeldBy::Both }
        } else {
            if let Some(other) = offsets.iter().find(|other| other.role != offset.role) {
                let problem = format!(
                    "has the offset that {} has: write it in the formula of one party, or of all of them",
                    offset.role
                );
                return Err(other.refused(&problem));
            }
            if offset.role == Role::Bob && !self.is_led() {
                let problem = "has an offset, and of alice and bob only alice can hold one alone: write it in the formula of alice, or of both";
                return Err(offset.refused(problem));
            }
            HeldBy::One(offset.role)
        };
        self.offset = Some(HeldColumn { column: offset.of.name().to_owned(), held_by });
        Ok(())
    }
}
