//! The public bounds that a study states, column by column, as a ledger compares them between runs.

use std::collections::BTreeMap;

use super::Study;
use crate::id::Role;

impl Study {
    /// What the study states of the columns that `role` brings into a private run, the outcome among them: a range or levels, in words.
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
            match (terms.range, &terms.levels[..]) {
                (Some([low, high]), _) => Some((name.clone(), format!("{low} to {high}"))),
                (None, []) => None,
                (None, levels) => Some((name.clone(), format!("levels {}", levels.join(", ")))),
            }
        });
        stated.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(stated(Role::Alice).collect::<Vec<_>>(), ["age: 18 to 90.5", "y: 0 to 100"]);
        assert_eq!(stated(Role::Bob).collect::<Vec<_>>(), ["region: levels north, south", "y: 0 to 100"]);
    }
}
