//! The public bounds that a study states, column by column, as a ledger compares them between runs.

use std::collections::BTreeMap;

use super::horizontal::{SiteMethod, Sites};
use super::{Head, Study, Vertical};
use crate::id::Role;

/// Beside the columns.
const ROW_NORM: &str = "norm of rows";

impl Study<Vertical> {
    /// What the study states of the columns that `role` brings into a private run, the outcome among them: a range, levels, or a centre and
    /// a scale, in words; and the norm at which rows are cut.
    pub fn stated_bounds(&self, role: Role) -> BTreeMap<String, String> {
        let party = self.method.parties.get(&role);
        let columns = party.into_iter().flat_map(|party| &party.columns);
        self.head.stated_bounds(columns.chain([&self.method.outcome.column]), party.map(|party| party.row_norm))
    }
}

impl Study<Sites> {
    /// The same of the columns of the model, which every site brings.
    pub fn stated_bounds(&self) -> BTreeMap<String, String> {
        let norm = match &self.method.method {
            SiteMethod::Robust(robust) => Some(robust.private.row_norm),
            SiteMethod::Em(_) | SiteMethod::Features(_) | SiteMethod::Stream(_) => None,
        };
        let outcome = Some(&self.method.outcome).filter(|name| !name.is_empty());
        self.head.stated_bounds(self.method.features.iter().chain(outcome), norm)
    }
}

impl Head {
    fn stated_bounds<'a>(
        &self,
        columns: impl Iterator<Item = &'a String>,
        norm: Option<Option<f64>>,
    ) -> BTreeMap<String, String> {
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
        let norm = norm.map(|norm| norm.map_or_else(|| "the default".to_owned(), |norm| norm.to_string()));
        stated.chain(norm.map(|norm| (ROW_NORM.to_owned(), norm))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::ColumnTerms;
    use crate::study::tests::vertical;

    #[test]
    fn each_party_states_the_bounds_of_its_own_columns_and_of_the_outcome() {
        let study = vertical(
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
        );
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
            .head
            .columns
            .insert("age".to_owned(), ColumnTerms { centre: Some(50.0), scale: Some(12.5), ..ColumnTerms::default() });
        assert_eq!(centred.stated_bounds(Role::Alice)["age"], "centre 50 and scale 12.5");
    }
}
