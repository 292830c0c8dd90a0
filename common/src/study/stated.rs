//! The public bounds that a study states, column by column, as a ledger compares them between runs.

use std::collections::BTreeMap;

use super::Study;
use crate::id::Role;

/// Beside the columns.
const ROW_NORM: &str = "norm of rows";

impl Study {
    /// What the study states of the columns that `role` brings into a private run, the outcome among them: a range, levels, or a centre and
    /// a scale, in words; and the norm at which rows are cut.
    ///
    /// A worker's columns are those of the model.
    pub fn stated_bounds(&self, role: Role) -> BTreeMap<String, String> {
        let own = match role {
            Role::Alice | Role::Bob => self.parties.get(&role).map(|party| &party.columns),
            _ => Some(&self.model.features),
        };
        let columns = own.into_iter().flatten().chain(Some(&self.outcome.column).filter(|name| !name.is_empty()));
        let stated = columns.filter_map(|name| {
            let terms = self.columns.get(name)?;
            if let (Some(centre), Some(scale)) = (terms.centre, terms.scale) {
                return Some((name.clone(), format!("centre {centre} and scale {scale}")));
            }
            match (terms.range, &terms.levels[..]) {
                (Some([low, high]), _) => Some((name.clone(), format!("{low} to {high}"))),
                (None, []) => None,
                (None, levels) => Some((name.clone(), format!("levels {}", levels.join(", ")))),
            }
        });
        let norm = match role {
            Role::Alice | Role::Bob => self.parties.get(&role).map(|party| party.row_norm),
            _ => self.robust.as_ref().map(|robust| robust.private.as_ref().and_then(|private| private.row_norm)),
        };
        let norm = norm.map(|norm| norm.map_or_else(|| "the default".to_owned(), |norm| norm.to_string()));
        stated.chain(norm.map(|norm| (ROW_NORM.to_owned(), norm))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::ColumnTerms;

    #[test]
    fn each_party_states_the_bounds_of_its_own_columns_and_of_the_outcome() {
        let study = Study::parse(
            r#"
            id = "s"
            mode = "private"
            [privacy]
            epsilon = 1.0
            delta = 1e-5
            [outcome]
            column = "y"
            [parties.alice]
            certificate = "alice"
            columns = ["age"]
            [parties.bob]
            certificate = "bob"
            columns = ["region"]
            row_norm = 1.25
            [columns.age]
            range = [18, 90.5]
            [columns.region]
            levels = ["north", "south"]
            [columns.y]
            range = [0, 100]
            "#,
        )
        .unwrap();
        let stated = |role| study.stated_bounds(role).into_iter().map(|(name, words)| format!("{name}: {words}"));
        assert_eq!(
            stated(Role::Alice).collect::<Vec<_>>(),
            ["age: 18 to 90.5", "norm of rows: the default", "y: 0 to 100"]
        );
        assert_eq!(
            stated(Role::Bob).collect::<Vec<_>>(),
            ["norm of rows: 1.25", "region: levels north, south", "y: 0 to 100"]
        );
        let mut centred = study.clone();
        centred
            .columns
            .insert("age".to_owned(), ColumnTerms { centre: Some(50.0), scale: Some(12.5), ..ColumnTerms::default() });
        assert_eq!(centred.stated_bounds(Role::Alice)["age"], "centre 50 and scale 12.5");
    }
}
