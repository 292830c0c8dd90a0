//! What to do about model syntax of other programs where the name of a column is expected, or where a formula does not know it.

use super::error::shown;

/// What to write in place of a name that is model syntax, such as `log(crp)` or `a:b`; `None` where it is not.
///
/// For names that no column has: a header may well be `log(crp)`.
pub fn remedy(name: &str) -> Option<String> {
    let text = name.trim();
    if matches!(text, "-1" | "+0" | "0" | "- 1" | "+ 0") {
        return Some(format!(
            "`{text}` is formula syntax; a model without intercept is `model.intercept = false` in the study"
        ));
    }
    if text.contains('~') {
        return Some(
            "a formula is `formula` in the study, in place of a list of columns; a list has names of columns only"
                .to_owned(),
        );
    }
    if let Some((function, argument)) = call(text) {
        return Some(format!("`{}` is formula syntax: {}", shown(text), of_function(function, argument)));
    }
    if let Some((base, power)) = text.split_once('^')
        && is_name(base)
        && !power.trim().is_empty()
    {
        let power = format!("a power is `I({})` in `formula` in the study, in place of a list of columns", shown(text));
        return Some(format!("`{}` is formula syntax: {power}", shown(text)));
    }
    let joined = |sign: char| {
        let parts: Vec<&str> = text.split(sign).collect();
        parts.len() > 1 && parts.iter().all(|part| is_name(part))
    };
    [':', '*', '+'].into_iter().find(|sign| joined(*sign)).map(|sign| match sign {
        '+' => format!("a list has names between commas, so write {}", text.split('+').map(str::trim).collect::<Vec<_>>().join(",")),
        _ => format!(
            "`{}` is formula syntax; interactions are terms of `formula` in the study, in place of a list of columns, or columns made \
             beforehand",
            shown(text)
        ),
    })
}

/// What to do about calling a function in a model.
pub(super) fn of_function(function: &str, argument: &str) -> String {
    let column = argument.split([',', '^', '*', '+', '-', '/']).next().unwrap_or_default().trim();
    let column = shown(if column.is_empty() { "x" } else { column });
    let name = shown(function);
    if super::functions::is_known(function) {
        return format!(
            "the function `{name}` has its place in `formula` in the study, or in --alice and --bob of a rehearsal behind `~`, in place of a \
             list of columns"
        );
    }
    match function {
        "as.factor" | "C" | "ordered" => format!(
            "the function `{name}` is not understood, write `factor({column})` in a formula; a column is categorical too if it is text or \
             `[columns.{column}] levels` of the study lists its levels"
        ),
        "offset" => format!(
            "an offset is `offset({column})` in a party's formula or `[offset] column = \"{column}\"` in the study, --offset in a rehearsal"
        ),
        _ => format!(
            "the function `{name}` is not understood, make a column of its values beforehand and name that; known in formulas are {}",
            super::functions::KNOWN
        ),
    }
}

/// A call such as `log(crp)`, also where a list was cut at the comma in `poly(x,2)`: the function and its first argument.
fn call(text: &str) -> Option<(&str, &str)> {
    let (function, rest) = text.split_once('(')?;
    let closed = rest.strip_suffix(')').unwrap_or(rest);
    // `weight (kg)` is a header with a unit.
    let sound = is_name(function)
        && function.trim_end() == function
        && !closed.trim().is_empty()
        && (rest.ends_with(')') || !rest.contains(')'));
    sound.then(|| (function.trim(), closed))
}

/// Whether something could be a name in a formula without backticks.
fn is_name(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(|c: char| c.is_alphabetic() || c == '.')
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_'))
}

#[cfg(test)]
mod tests {
    use super::super::unknown;
    use super::*;

    #[test]
    fn model_syntax_in_place_of_a_name_is_answered_with_what_to_write() {
        for (name, part) in [
            ("log(crp)", "the function `log` has its place in `formula` in the study"),
            ("sin(crp)", "the function `sin` is not understood, make a column of its values"),
            ("factor(ward)", "the function `factor` has its place in `formula`"),
            ("as.factor(ward)", "write `factor(ward)` in a formula"),
            ("poly(x,2)", "the function `poly` has its place in `formula`"),
            ("poly(x", "the function `poly` has its place in `formula`"),
            ("I(x^2)", "the function `I` has its place in `formula`"),
            ("x^2", "a power is `I(x^2)` in `formula`"),
            ("offset(days)", "`offset(days)` in a party's formula or `[offset] column = \"days\"`"),
            ("a:b", "interactions are terms of `formula` in the study"),
            ("a * b", "interactions are terms of `formula` in the study"),
            ("a + b", "so write a,b"),
            ("y ~ a + b", "a formula is `formula` in the study"),
            ("-1", "`model.intercept = false` in the study"),
            ("0", "`model.intercept = false` in the study"),
        ] {
            let said = unknown(name, ["crp", "x", "ward"].into_iter()).to_string();
            assert!(said.starts_with(&format!("there is no column `{name}`; ")) && said.contains(part), "{said}");
            assert!(remedy(name).is_some_and(|remedy| said.ends_with(&remedy)), "{said}");
        }
    }

    #[test]
    fn odd_names_that_are_no_syntax_are_not_taken_for_it() {
        for name in
            ["", "weight (kg)", "s5", "a-b", "1:2", "my column", "(x)", "f()", "x)", "50 %", "p^", "größe", "a:"]
        {
            assert_eq!(remedy(name), None, "{name}");
        }
    }
}
