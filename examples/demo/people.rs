//! Two synthetic tables that overlap in part: a hospital's and an insurer's, who know their people under different columns and spell them
//! differently. Made here from a seed, so that nobody's data are shipped.

use std::fmt::Write as _;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal, Poisson};

const SURNAMES: [&str; 48] = [
    "Müller",
    "Schmidt",
    "Schneider",
    "Fischer",
    "Weber",
    "Meyer",
    "Wagner",
    "Becker",
    "Schulz",
    "Hoffmann",
    "Schäfer",
    "Koch",
    "Bauer",
    "Richter",
    "Klein",
    "Wolf",
    "Schröder",
    "Neumann",
    "Schwarz",
    "Zimmermann",
    "Braun",
    "Krüger",
    "Hofmann",
    "Hartmann",
    "Lange",
    "Groß",
    "Weiß",
    "Jäger",
    "Böhm",
    "Köhler",
    "König",
    "Größer",
    "O'Neill",
    "Müller-Lüdenscheidt",
    "van den Berg",
    "Yılmaz",
    "Núñez",
    "Sørensen",
    "Łukasiewicz",
    "Đorđević",
    "Þórsson",
    "Ångström",
    "Çelik",
    "Lefèvre",
    "Ibáñez",
    "Kovář",
    "Nguyễn",
    "Strauß",
];
const GIVEN: [&str; 32] = [
    "Anna",
    "Jürgen",
    "Maria",
    "Peter",
    "Ursula",
    "Wolfgang",
    "Monika",
    "Günther",
    "Petra",
    "Klaus",
    "Elisabeth",
    "Hans-Peter",
    "Sabine",
    "Jörg",
    "Renate",
    "Björn",
    "Helga",
    "Stefan",
    "Karin",
    "René",
    "Brigitte",
    "Thomas",
    "Ingrid",
    "Andreas",
    "Zoë",
    "Michael",
    "Ólafur",
    "Frank",
    "Şebnem",
    "Bernd",
    "Chloé",
    "Uwe",
];

/// How large the tables are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Rows of each table.
    pub(crate) rows: u32,
    /// People who stand in both.
    pub(crate) common: u32,
}

/// Of the rehearsal.
pub(crate) const SHIPPED: Size = Size { rows: 5000, common: 3800 };

/// Of the walkthrough `examples/two-hospitals/match`.
#[cfg(test)]
pub(crate) const WALKTHROUGH: Size = Size { rows: 600, common: 450 };

/// The tables.
pub(crate) struct People {
    /// `Versicherungsnummer`, `Nachname`, `Vorname`, `geboren` (day first), `Geschlecht`, `PLZ`; age, bmi, pressure and the outcome stay.
    pub(crate) hospital: String,
    /// `national_id`, `last_name`, `first_name`, `birth_date` (year first), `sex`, `zip`; visits, drugs.
    pub(crate) insurer: String,
    /// People in both tables whose identifier or name can be compared.
    #[cfg(test)]
    pub(crate) findable: u64,
    /// For each row of the hospital and of the insurer, whose it is.
    #[cfg(test)]
    pub(crate) whose: [Vec<usize>; 2],
}

struct Person {
    id: u64,
    surname: &'static str,
    given: &'static str,
    born: (u32, u32, u32),
    male: bool,
    postcode: u32,
    visits: f64,
    drugs: f64,
}

/// Errors in one table's row of a person.
#[derive(Default, Clone, Copy)]
struct Errors {
    no_id: bool,
    id: bool,
    name: bool,
}

impl Errors {
    fn drawn(rng: &mut ChaCha8Rng, missing: f64) -> Errors {
        let no_id = rng.random_bool(missing);
        Errors { no_id, id: rng.random_bool(0.015), name: rng.random_bool(0.03) }
    }

    /// Whether the identifier of the row is that of the person, and whether its name is.
    #[cfg(test)]
    fn sound(self) -> [bool; 2] {
        [!self.no_id && !self.id, !self.name]
    }
}

/// Draws the people and writes both tables.
pub(crate) fn people(size: Size, seed: u64) -> People {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let Size { rows, common } = size;
    let all = (0..2 * rows - common).map(|at| person(&mut rng, at)).collect::<Vec<_>>();
    let (rows, common) = (rows as usize, common as usize);
    // Some whom the insurer does not know stand in the hospital's table twice.
    let repeats = (rows - common) / 40;
    let mut hospital: Vec<usize> = (0..rows - repeats).chain(common..common + repeats).collect();
    let mut insurer: Vec<usize> = (0..common).chain(rows..all.len()).collect();
    hospital.shuffle(&mut rng);
    insurer.shuffle(&mut rng);
    let errors: [Vec<Errors>; 2] =
        [0.02, 0.04].map(|missing| all.iter().map(|_| Errors::drawn(&mut rng, missing)).collect());
    let noise = Normal::new(0.0, 1.2).unwrap_or_else(|_| unreachable!("a positive standard deviation"));
    let mut first = String::from("Versicherungsnummer,Nachname,Vorname,geboren,Geschlecht,PLZ,age,bmi,pressure,stay\n");
    for &at in &hospital {
        let (person, errors) = (&all[at], errors[0][at]);
        let (year, month, day) = person.born;
        let age = f64::from(2026 - year);
        let bmi = 22.0 + 9.0 * rng.random::<f64>() + 0.03 * age;
        let pressure = 105.0 + 0.4 * age + 30.0 * rng.random::<f64>();
        let stay = 2.0
            + 0.04 * age
            + 0.1 * (bmi - 26.0)
            + 0.02 * (pressure - 130.0)
            + 0.4 * person.visits
            + 0.25 * person.drugs;
        let stay = stay + noise.sample(&mut rng);
        let name = misspelt(person.surname, errors.name, &mut rng);
        let sex = if person.male { "m" } else { "w" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            first,
            "{},\"{}\",{},{day:02}.{month:02}.{year},{sex},{:05},{age},{bmi:.1},{pressure:.0},{stay:.2}",
            identifier(person.id, errors, true, &mut rng),
            if rng.random_bool(0.3) { name.to_uppercase() } else { name },
            person.given,
            person.postcode
        );
    }
    let mut second = String::from("national_id,last_name,first_name,birth_date,sex,zip,visits,drugs\n");
    for &at in &insurer {
        let (person, errors) = (&all[at], errors[1][at]);
        let (year, month, day) = person.born;
        let name = misspelt(person.surname, errors.name, &mut rng);
        let name = if rng.random_bool(0.5) { spelt_out(&name) } else { decomposed(&name) };
        let (sex, visits, drugs) = (if person.male { "M" } else { "F" }, person.visits, person.drugs);
        let _ = writeln!(
            second,
            "{},{name},{},{year}-{month:02}-{day:02},{sex},{:05},{visits},{drugs}",
            identifier(person.id, errors, false, &mut rng),
            person.given,
            person.postcode
        );
    }
    People {
        hospital: first,
        insurer: second,
        #[cfg(test)]
        findable: (0..common)
            .filter(|at| {
                let [ours, theirs] = [errors[0][*at].sound(), errors[1][*at].sound()];
                (ours[0] && theirs[0]) || (ours[1] && theirs[1])
            })
            .count() as u64,
        #[cfg(test)]
        whose: [hospital, insurer],
    }
}

fn person(rng: &mut ChaCha8Rng, at: u32) -> Person {
    let mean = 0.5 + 3.0 * rng.random::<f64>();
    let count = Poisson::new(mean).unwrap_or_else(|_| unreachable!("a positive mean"));
    Person {
        // The last digits tell all apart.
        id: u64::from(rng.random_range(1000..99_999_u32)) * 100_000 + u64::from(at),
        surname: SURNAMES[rng.random_range(0..SURNAMES.len())],
        given: GIVEN[rng.random_range(0..GIVEN.len())],
        born: (rng.random_range(1932..2006), rng.random_range(1..=12), rng.random_range(1..=28)),
        male: rng.random_bool(0.48),
        postcode: rng.random_range(1..=199) * 500 + rng.random_range(0..4),
        visits: count.sample(rng),
        drugs: count.sample(rng),
    }
}

/// Ten digits; in the hospital in groups.
fn identifier(id: u64, errors: Errors, grouped: bool, rng: &mut ChaCha8Rng) -> String {
    if errors.no_id {
        return if grouped { "9999999999".to_string() } else { String::new() };
    }
    // A digit in front of those that tell people apart: the identifier of nobody else.
    let id = if errors.id { id ^ 1 << rng.random_range(20..28) } else { id };
    let digits = format!("{id:010}");
    let digits = if digits.len() == 10 { digits } else { format!("{:010}", id % 10_000_000_000) };
    match grouped {
        true => format!("{} {} {}", &digits[..4], &digits[4..7], &digits[7..]),
        false => digits,
    }
}

/// A letter replaced by another.
fn misspelt(name: &str, wrong: bool, rng: &mut ChaCha8Rng) -> String {
    let letters: Vec<char> = name.chars().collect();
    let place = if wrong { Some(rng.random_range(0..letters.len())) } else { None };
    let change =
        |(at, letter): (usize, char)| if Some(at) == place { if letter == 'x' { 'q' } else { 'x' } } else { letter };
    letters.into_iter().enumerate().map(change).collect()
}

/// Umlauts written out, as old systems do.
fn spelt_out(name: &str) -> String {
    let pairs = [('ä', "ae"), ('ö', "oe"), ('ü', "ue"), ('ß', "ss"), ('Ä', "Ae"), ('Ö', "Oe"), ('Ü', "Ue")];
    pairs.iter().fold(name.to_string(), |name, (letter, plain)| name.replace(*letter, plain))
}

/// Accents behind their letters, as some systems store them.
fn decomposed(name: &str) -> String {
    let pairs = [
        ('ä', "a\u{308}"),
        ('ö', "o\u{308}"),
        ('ü', "u\u{308}"),
        ('é', "e\u{301}"),
        ('è', "e\u{300}"),
        ('ñ', "n\u{303}"),
    ];
    pairs.iter().fold(name.to_string(), |name, (letter, marks)| name.replace(*letter, marks))
}

#[cfg(test)]
#[path = "people/tests.rs"]
mod tests;
