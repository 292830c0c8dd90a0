//! Questions on a terminal, each of which a flag can answer.

use std::fmt;
use std::io::{BufRead, Write};

use super::{WizardError, say};
use crate::shell::Values;

/// Who answers what no flag says.
pub struct Asker {
    input: Option<Box<dyn BufRead>>,
    out: Box<dyn Write>,
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("asks", &self.input.is_some()).finish_non_exhaustive()
    }
}

impl Asker {
    /// Asks where there is an `input`, and shows questions at `out`.
    pub fn new(input: Option<Box<dyn BufRead>>, out: Box<dyn Write>) -> Asker {
        Asker { input, out }
    }

    /// Whether there is somebody to ask.
    pub fn asks(&self) -> bool {
        self.input.is_some()
    }

    /// Shows a line to whoever is asked.
    pub fn tell(&mut self, line: &str) {
        if self.asks() {
            say(&mut *self.out, line);
        }
    }

    /// An answer in words: the flag's; where there is none, that of whoever is asked, for as long as it makes no sense; else the default.
    ///
    /// # Errors
    /// A flag's answer that makes no sense, or no answer and no default.
    pub fn answer<T>(
        &mut self,
        flag: &'static str,
        given: Option<&str>,
        question: &str,
        default: Option<&str>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, WizardError> {
        let of_flag = |problem: String| WizardError::Answer(format!("--{flag}: {problem}"));
        if let Some(given) = given {
            return read(given).map_err(of_flag);
        }
        let missing = || WizardError::Missing { flag, question: question.to_string() };
        while self.asks() {
            let shown = default.map_or_else(String::new, |default| format!(" [{default}]"));
            let Some(line) = self.line(&format!("{question}{shown}: ")) else { break };
            let answer = match (line.trim(), default) {
                ("", Some(default)) => default,
                (answer, _) => answer,
            };
            match read(answer) {
                Ok(answer) => return Ok(answer),
                Err(problem) => self.tell(&format!("  {problem}")),
            }
        }
        match default.filter(|_| !self.asks()) {
            Some(default) => read(default).map_err(of_flag),
            None => Err(missing()),
        }
    }

    /// One of several, each with its name and what is said of it; the first is the default where `has_default`.
    ///
    /// # Errors
    /// No answer, and no default.
    pub fn choice<T: Copy>(
        &mut self,
        flag: &'static str,
        given: Option<T>,
        question: &str,
        choices: &[(&'static str, &'static str, T)],
        has_default: bool,
    ) -> Result<T, WizardError> {
        if let Some(given) = given {
            return Ok(given);
        }
        let width = choices.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
        self.tell(&format!("{question}?"));
        for (at, (name, help, _)) in choices.iter().enumerate() {
            self.tell(&format!("  {} {name:width$}  {help}", at + 1));
        }
        let names: Vec<&str> = choices.iter().map(|(name, ..)| *name).collect();
        let default = names.first().copied().filter(|_| has_default);
        let one = |answer: &str| {
            let numbered = answer.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
            let named = choices.iter().find(|(name, ..)| *name == answer);
            let found = numbered.or(named).map(|(.., value)| *value);
            found.ok_or_else(|| format!("`{}` is none of {}", answer.escape_debug(), names.join(", ")))
        };
        let question = format!("{question} ({})", names.join(", "));
        self.answer(flag, None, &question, default, one)
    }

    /// As [`Asker::choice`], of a table of a flag's values.
    ///
    /// # Errors
    /// As [`Asker::choice`].
    pub fn value<T: Copy, const N: usize>(
        &mut self,
        flag: &'static str,
        given: Option<T>,
        question: &str,
        choices: &Values<T, N>,
    ) -> Result<T, WizardError> {
        self.choice(flag, given, question, choices, true)
    }

    /// A line, once the prompt is shown; none at the end of the input, after which nobody is asked any more.
    fn line(&mut self, prompt: &str) -> Option<String> {
        let _ = write!(self.out, "{prompt}").and_then(|()| self.out.flush());
        let mut line = String::new();
        let read = self.input.as_mut().map(|input| input.read_line(&mut line));
        match read {
            Some(Ok(count)) if count > 0 => Some(line),
            Some(Ok(_) | Err(_)) | None => None,
        }
    }
}
