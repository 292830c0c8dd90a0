//! Lists in flags: names between commas, quoted as in CSV, and entries `NAME=WORDS` between semicolons.

/// A comma-separated list of names, quoted as in CSV.
///
/// # Errors
/// A name that is empty, or a quote that does not end.
pub fn list(text: &str) -> Result<Vec<String>, String> {
    let wrong = |problem: &str| Err(format!("`{}` {problem}", text.escape_debug()));
    let mut names = Vec::new();
    let mut letters = text.trim().chars().peekable();
    loop {
        while letters.next_if(|letter| *letter == ' ').is_some() {}
        let mut name = String::new();
        if letters.next_if_eq(&'"').is_some() {
            loop {
                match letters.next() {
                    Some('"') if letters.next_if_eq(&'"').is_some() => name.push('"'),
                    Some('"') => break,
                    Some(letter) => name.push(letter),
                    None => return wrong("has a quote that does not end"),
                }
            }
            while letters.next_if(|letter| *letter == ' ').is_some() {}
        } else {
            while let Some(letter) = letters.next_if(|letter| *letter != ',') {
                name.push(letter);
            }
            name.truncate(name.trim_end().len());
        }
        if name.is_empty() {
            return wrong("holds an empty name");
        }
        names.push(name);
        match letters.next() {
            None => return Ok(names),
            Some(',') => {}
            Some(_) => return wrong("has letters behind a quote"),
        }
    }
}

/// Entries `NAME=WORDS` between semicolons outside of quotes, in their order; no name stands twice.
///
/// # Errors
/// An entry without `=`, without words, or with a name that has been there.
pub fn entries(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for letter in text.chars() {
        quoted ^= letter == '"';
        match (letter, quoted, parts.last_mut()) {
            (';', false, _) => parts.push(String::new()),
            (_, _, Some(part)) => part.push(letter),
            (_, _, None) => {}
        }
    }
    let mut entries: Vec<(String, String)> = Vec::new();
    for part in parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()) {
        let Some((name, words)) = part.split_once('=').map(|(name, words)| (name.trim(), words.trim())) else {
            return Err(format!("`{}` is not NAME=VALUE", part.escape_debug()));
        };
        if entries.iter().any(|(other, _)| other == name) {
            return Err(format!("names `{}` twice", name.escape_debug()));
        }
        if words.is_empty() {
            return Err(format!("says nothing of `{}`", name.escape_debug()));
        }
        entries.push((name.to_string(), words.to_string()));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_cells_of_a_line_of_csv() {
        let names = list("age, \"weight, kg\" ,\"say \"\"x\"\"\",blood pressure").unwrap();
        assert_eq!(names, ["age", "weight, kg", "say \"x\"", "blood pressure"]);
        for (text, says) in [
            ("", "holds an empty name"),
            ("a,,b", "holds an empty name"),
            ("a,", "holds an empty name"),
            ("\"a", "a quote that does not end"),
            ("\"a\"b", "letters behind a quote"),
        ] {
            assert!(list(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn entries_have_a_name_each_and_none_twice() {
        let read = entries("alice=a,b; carol = ~ log(c) ;bob=\"x;y\",\"u=v\";").unwrap();
        let shown: Vec<String> = read.iter().map(|(name, words)| format!("{name}:{words}")).collect();
        assert_eq!(shown, ["alice:a,b", "carol:~ log(c)", "bob:\"x;y\",\"u=v\""]);
        for (text, says) in [("a", "is not NAME=VALUE"), ("a=1;a=2", "twice"), ("a=;b=1", "says nothing of `a`")] {
            assert!(entries(text).unwrap_err().contains(says), "{text}");
        }
    }
}
