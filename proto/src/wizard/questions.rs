//! What a new study is asked for, on a command line or on a terminal.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use fedreg_common::data::formula::Formula;
use fedreg_common::data::unknown;
use fedreg_common::glm::StatedFamily;
use fedreg_common::id::{Mode, Protocol, Role};
use fedreg_common::methods::em::Model as Hidden;
use fedreg_common::study::{
    ColumnTerms, EmTerms, HeldBy, HeldColumn, KeyKind, KeyTerms, MatchProtocol, MatchTerms, Mechanism, PartyTerms,
    PassTerms, StudyFile, WorkerTerms,
};
use serde::Deserialize;
use serde::de::value::StrDeserializer;

use super::draft::{accepted, bounded, empty, mechanism, needs_ranges, own_columns, privacy, problem, refused};
use super::folders::{Outline, table_of};
use super::places::{self, PlaceFlags};
use super::words::{entries, list};
use super::{Asker, Header, WizardError};
use crate::shell::{Values, values};

/// Answers that flags give.
#[derive(Debug, Clone, Default, Args)]
pub struct Answers {
    /// Name of the study, in reports and ledgers; `study` by default
    #[arg(long, value_name = "NAME")]
    pub study_id: Option<String>,
    /// Who holds what, and what is computed; vertical by default
    #[arg(long, value_parser = values(&METHODS), value_name = "METHOD")]
    pub method: Option<Protocol>,
    /// Of a vertical study: two to sixteen parties by name, each with its columns or formula: "alice=age,bmi;bob=~ log(glucose)"
    #[arg(long, value_name = "NAME=COLS;...")]
    pub parties: Option<String>,
    /// Of parties by other names than alice and bob: the one that all others connect to, if another than the first by name
    #[arg(long, value_name = "NAME")]
    pub leader: Option<String>,
    /// Between sites: their names, comma-separated
    #[arg(long, value_name = "NAME,..")]
    pub sites: Option<String>,
    /// Between sites: columns of the model, comma-separated, quoted as in CSV
    #[arg(long, value_name = "COLS")]
    pub features: Option<String>,
    /// Outcome column
    #[arg(long, value_name = "COL")]
    pub outcome: Option<String>,
    /// Of a vertical study: who holds the outcome: `both`, or `all`, or one party alone, by its name
    #[arg(long, value_name = "WHO")]
    pub held_by: Option<String>,
    /// Of a vertical study: family of the model; gaussian by default
    #[arg(long, value_parser = values(&FAMILIES), value_name = "FAMILY")]
    pub family: Option<StatedFamily>,
    /// Of a vertical study: column of identifiers, under the same header in all tables
    #[arg(long, value_name = "COL")]
    pub id: Option<String>,
    /// Of a vertical study: whether all tables have the same people, or the common ones are found first; selected by default
    #[arg(long, value_parser = values(&ROWS), value_name = "ROWS")]
    pub rows: Option<RowsAre>,
    /// Of models with something hidden: what it is
    #[arg(long, value_parser = values(&HIDDEN), value_name = "MODEL")]
    pub hidden: Option<Hidden>,
    /// Of models with something hidden: standard deviation of the noise in the model, known from outside the data
    #[arg(long, value_name = "SIGMA")]
    pub sigma: Option<String>,
    /// Of models with something hidden: bound on the second moment of a gradient's coordinate, known from outside the data
    #[arg(long, value_name = "TAU")]
    pub tau: Option<String>,
    /// What leaves, and under which guarantee; sealed by default, where there is a sealed mode for the study
    #[arg(long, value_parser = values(&MODES), value_name = "MODE")]
    pub mode: Option<Mode>,
    /// Of a private vertical study: how values are made private; crossprod by default
    #[arg(long, value_parser = values(&MECHANISMS), value_name = "HOW")]
    pub mechanism: Option<Mechanism>,
    /// Of a private study: epsilon of one run at each party or site
    #[arg(long, value_name = "EPSILON")]
    pub epsilon: Option<String>,
    /// Of a private study: its delta
    ///
    /// By default 1e-5 between sites, and between parties the smaller of 1e-6 and one over ten times the rows.
    #[arg(long, value_name = "DELTA")]
    pub delta: Option<String>,
    /// Public range of columns, or their levels, known without the data: "age=18..90;sex=f,m"
    #[arg(long, value_name = "COL=..;...")]
    pub ranges: Option<String>,
    /// Where everybody is.
    #[command(flatten)]
    pub places: PlaceFlags,
}

/// Which rows the tables of a vertical study have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsAre {
    /// Those of the same people, selected beforehand.
    Selected,
    /// Those of people some of whom are in all tables.
    Matched,
}

const METHODS: Values<Protocol, 5> = [
    ("vertical", "Parties with different columns about the same people", Protocol::Vertical),
    ("robust", "Sites with the same columns about different people, some of them wrong", Protocol::Robust),
    ("em", "Such sites; a model with something hidden", Protocol::Em),
    ("features", "Such sites; a function of a few columns", Protocol::Features),
    ("stream", "Such sites; a function that follows a stream of records", Protocol::Stream),
];

const FAMILIES: Values<StatedFamily, 5> = [
    ("gaussian", "A number: linear regression", StatedFamily::Gaussian),
    ("binomial", "Yes or no: logistic regression", StatedFamily::Binomial),
    ("poisson", "A count: Poisson regression", StatedFamily::Poisson),
    ("quasibinomial", "Logistic regression with an estimated dispersion, in plain mode", StatedFamily::Quasibinomial),
    ("quasipoisson", "Poisson regression with an estimated dispersion, in plain mode", StatedFamily::Quasipoisson),
];

const ROWS: Values<RowsAre, 2> = [
    ("selected", "All tables have the same people already", RowsAre::Selected),
    ("matched", "The parties find the people that all tables have, and learn who these are", RowsAre::Matched),
];

const HIDDEN: Values<Hidden, 3> = [
    ("gmm", "Which of two groups a point is in", Hidden::GaussianMixture),
    ("mrm", "Which of two regressions a row follows", Hidden::MixedRegressions),
    ("rmc", "Covariates of a regression that are missing at random", Hidden::MissingCovariates),
];

/// The recommended one first, and plain mode as what it is.
const MODES: Values<Mode, 3> = [
    ("sealed", "Columns leave behind masks, and only small declared tables open (recommended)", Mode::Sealed),
    ("private", "Everything that can be read has noise first", Mode::Private),
    ("plain", "Values leave without protection: between parties the others can reconstruct columns", Mode::Plain),
];

const MECHANISMS: Values<Mechanism, 2> = [
    (
        "crossprod",
        "One table with little noise; rests on parties that follow the protocol and on the dealer",
        Mechanism::Crossprod,
    ),
    ("residual", "Far more noise; rests on nobody", Mechanism::Residual),
];

/// Largest table of a party that a study with a match allows.
const MOST_ROWS: u64 = 10_000_000;
/// Fewest matched rows of a study with a match.
const LEAST_MATCHED: u64 = 100;
/// The key and the pass of a match by identifiers.
const KEY: &str = "id";
/// Delta of a private run between sites.
const SITE_DELTA: &str = "1e-5";
/// Names that stand where nothing is known yet.
const NOT_YET: &str = "(not yet known)";

/// The study that flags and whoever is asked describe. `role` is whose program asks; `header` that of its own table.
///
/// # Errors
/// Answers that are missing or make no sense.
pub fn outline(
    answers: &Answers,
    role: Option<Role>,
    header: Option<Header>,
    asker: &mut Asker,
) -> Result<Outline, WizardError> {
    asker.tell("A new study. Enter takes what stands in brackets; nothing is written before the last answer.");
    let id = asker.answer("study-id", answers.study_id.as_deref(), "Name of the study", Some("study"), |text| {
        let name = text.trim();
        match !name.is_empty() && name.chars().count() <= 200 && !name.chars().any(char::is_control) {
            true => Ok(name.to_string()),
            false => Err("must have 1 to 200 printable characters".to_string()),
        }
    })?;
    let protocol = asker.value("method", answers.method, "Who holds what", &METHODS)?;
    answers.only(protocol)?;
    let mut file = StudyFile { protocol, ..empty(&id)? };
    let mut dialogue = Dialogue { answers, role, header, asker };
    match protocol {
        Protocol::Vertical => dialogue.parties(&mut file)?,
        Protocol::Robust | Protocol::Em | Protocol::Features | Protocol::Stream => dialogue.sites(&mut file)?,
    }
    dialogue.mode(&mut file)?;
    dialogue.ranges(&mut file)?;
    accepted(&file)?;
    dialogue.places(file)
}

impl Answers {
    /// Refuses flags that have no place in studies of a method.
    fn only(&self, protocol: Protocol) -> Result<(), WizardError> {
        let between_parties = [
            ("parties", self.parties.is_some()),
            ("leader", self.leader.is_some()),
            ("held-by", self.held_by.is_some()),
            ("family", self.family.is_some()),
            ("id", self.id.is_some()),
            ("rows", self.rows.is_some()),
            ("mechanism", self.mechanism.is_some()),
        ];
        let hidden = [("hidden", self.hidden.is_some()), ("sigma", self.sigma.is_some()), ("tau", self.tau.is_some())];
        let between_sites = [("sites", self.sites.is_some()), ("features", self.features.is_some())];
        let misplaced: Vec<(&str, bool)> = match protocol {
            Protocol::Vertical => hidden.into_iter().chain(between_sites).collect(),
            Protocol::Em => between_parties.to_vec(),
            Protocol::Robust | Protocol::Features | Protocol::Stream => {
                between_parties.into_iter().chain(hidden).collect()
            }
        };
        match misplaced.iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                Err(WizardError::Answer(format!("--{flag} has no place in a {} study", protocol.name())))
            }
            None => Ok(()),
        }
    }
}

struct Dialogue<'a> {
    answers: &'a Answers,
    role: Option<Role>,
    header: Option<Header>,
    asker: &'a mut Asker,
}

impl Dialogue<'_> {
    /// Parties, their columns, the outcome, and which rows take part.
    fn parties(&mut self, file: &mut StudyFile) -> Result<(), WizardError> {
        file.outcome.column = NOT_YET.to_string();
        file.parties = match &self.answers.parties {
            Some(text) => self.parties_of_flag(text)?,
            None => self.parties_asked()?,
        };
        if let Some(leader) = self.answers.leader.as_deref() {
            let leader = leader.parse::<Role>().map_err(|error| WizardError::Answer(format!("--leader: {error}")))?;
            file.leader = Some(leader);
        }
        if let Some(problem) = problem(file) {
            return Err(WizardError::Answer(problem));
        }
        let question = "Outcome column: which column is to be explained?";
        let given = self.answers.outcome.as_deref();
        file.outcome.column = self.asker.answer("outcome", given, question, None, |text| {
            let outcome = HeldColumn { column: one(text)?, held_by: HeldBy::default() };
            problem(&StudyFile { outcome: outcome.clone(), ..file.clone() }).map_or(Ok(outcome.column), Err)
        })?;
        file.outcome.held_by = self.holder(file)?;
        let family = self.asker.value("family", self.answers.family, "What is the outcome", &FAMILIES)?;
        file.model.family = family;
        self.own_outcome(file)?;
        let id =
            self.column("id", self.answers.id.clone(), "Column of identifiers, under the same header in all tables")?;
        match self.asker.value("rows", self.answers.rows, "Which people do the tables have", &ROWS)? {
            RowsAre::Selected => file.rows.id = Some(id),
            RowsAre::Matched => file.matching = Some(by_identifier(file)),
        }
        Ok(())
    }

    fn parties_of_flag(&self, text: &str) -> Result<BTreeMap<Role, PartyTerms>, WizardError> {
        let wrong = |problem: String| WizardError::Answer(format!("--parties: {problem}"));
        let mut parties = BTreeMap::new();
        for (name, own) in entries(text).map_err(wrong)? {
            let role = party(&name).map_err(wrong)?;
            parties.insert(role, self.part(role, &own).map_err(wrong)?);
        }
        Ok(parties)
    }

    fn parties_asked(&mut self) -> Result<BTreeMap<Role, PartyTerms>, WizardError> {
        // Who takes part and with what is never taken for granted where nobody can be asked.
        let asks = self.asker.asks();
        let (question, default) = match asks {
            true => ("Parties with their columns; first their names, comma-separated", Some("alice,bob")),
            false => ("every party with its columns or its formula, as in \"alice=age,bmi;bob=~ log(glucose)\"", None),
        };
        let roles = self.asker.answer("parties", None, question, default, |text| {
            let roles: Vec<Role> = list(text)?.iter().map(|name| party(name)).collect::<Result<_, _>>()?;
            problem_of_names(&roles).map_or(Ok(roles), Err)
        })?;
        let mut parties: BTreeMap<Role, PartyTerms> = BTreeMap::new();
        for role in roles {
            if let Some(header) = self.header.as_ref().filter(|_| self.role == Some(role)) {
                let offered = format!("  {} has the columns {}", header.file.display(), header.columns.join(", "));
                self.asker.tell(&offered);
            }
            let (own, this) = (&parties, (self.role, self.header.clone()));
            let terms = self.asker.answer(
                "parties",
                None,
                &format!("Columns of {role}, comma-separated, or a formula behind ~"),
                None,
                |text| {
                    let terms = part(&this, role, text)?;
                    let taken = |name: &String| own.iter().find(|(_, terms)| own_columns(terms).contains(name));
                    match own_columns(&terms).iter().find_map(|name| Some((name.clone(), taken(name)?.0))) {
                        Some((name, other)) => Err(format!("{other} has `{name}` already")),
                        None => Ok(terms),
                    }
                },
            )?;
            parties.insert(role, terms);
        }
        Ok(parties)
    }

    fn part(&self, role: Role, text: &str) -> Result<PartyTerms, String> {
        part(&(self.role, self.header.clone()), role, text)
    }

    /// A column by its name.
    fn column(&mut self, flag: &'static str, given: Option<String>, question: &str) -> Result<String, WizardError> {
        self.asker.answer(flag, given.as_deref(), question, None, one)
    }

    /// Who holds the outcome.
    fn holder(&mut self, file: &StudyFile) -> Result<HeldBy, WizardError> {
        let names: Vec<&str> = file.parties.keys().map(Role::name).collect();
        let question = format!("Who holds the outcome: all, or alone one of {}?", names.join(", "));
        let given = self.answers.held_by.as_deref();
        self.asker.answer("held-by", given, &question, None, |text| {
            let held_by = who(text.trim())?;
            let tried =
                StudyFile { outcome: HeldColumn { column: file.outcome.column.clone(), held_by }, ..file.clone() };
            problem(&tried).map_or(Ok(held_by), Err)
        })
    }

    /// Refuses an outcome that the asking party should hold, and that its table has not.
    fn own_outcome(&self, file: &StudyFile) -> Result<(), WizardError> {
        let (Some(header), Some(role)) = (&self.header, self.role) else { return Ok(()) };
        let holds = file.outcome.held_by.holder().is_none_or(|holder| holder == role);
        match file.parties.contains_key(&role) && holds {
            true => known(header, std::slice::from_ref(&file.outcome.column))
                .map_err(|problem| WizardError::Answer(format!("--outcome: {problem}"))),
            false => Ok(()),
        }
    }

    /// Sites, the columns of the model, and what is hidden.
    fn sites(&mut self, file: &mut StudyFile) -> Result<(), WizardError> {
        let names = self.asker.answer(
            "sites",
            self.answers.sites.as_deref(),
            "Names of the sites, comma-separated",
            None,
            |text| {
                let names = list(text)?;
                match names.iter().find(|name| !sound(name)) {
                    Some(odd) => Err(format!(
                        "`{}` cannot be the name of a site: a letter or digit, then letters, digits, _ and -",
                        odd.escape_debug()
                    )),
                    None => Ok(names),
                }
            },
        )?;
        for name in names {
            let terms = WorkerTerms { certificate: name.clone(), rows: None };
            if file.workers.insert(name.clone(), terms).is_some() {
                return Err(WizardError::Answer(format!("--sites: names `{name}` twice")));
            }
        }
        let hidden = match file.protocol {
            Protocol::Em => Some(self.asker.value("hidden", self.answers.hidden, "What is hidden", &HIDDEN)?),
            Protocol::Vertical | Protocol::Robust | Protocol::Features | Protocol::Stream => None,
        };
        if let Some(header) = self.header.as_ref().filter(|_| self.role == Some(Role::Worker)) {
            let offered = format!("  {} has the columns {}", header.file.display(), header.columns.join(", "));
            self.asker.tell(&offered);
        }
        match hidden {
            Some(Hidden::GaussianMixture) if self.answers.outcome.is_some() => {
                return Err(WizardError::Answer(
                    "--outcome has no place in the mixture gmm, which has points alone".to_string(),
                ));
            }
            Some(Hidden::GaussianMixture) => {}
            Some(Hidden::MixedRegressions | Hidden::MissingCovariates) | None => {
                let question = "Outcome column: which column is to be explained?";
                file.outcome.column = self.column("outcome", self.answers.outcome.clone(), question)?;
            }
        }
        let header = self.header.clone().filter(|_| self.role == Some(Role::Worker));
        let outcome = Some(file.outcome.column.clone()).filter(|name| !name.is_empty());
        let features = self.answers.features.as_deref();
        file.model.features =
            self.asker.answer("features", features, "Columns of the model, comma-separated", None, |text| {
                let names = list(text)?;
                let all: Vec<String> = names.iter().chain(&outcome).cloned().collect();
                header.as_ref().map_or(Ok(()), |header| known(header, &all)).map(|()| names)
            })?;
        if let Some(model) = hidden {
            let question = "Standard deviation of the noise in the model, known from outside the data";
            let sigma = self.number("sigma", self.answers.sigma.clone(), question, None)?;
            let question = "Bound on the second moment of a gradient's coordinate, known from outside the data";
            let tau = self.number("tau", self.answers.tau.clone(), question, None)?;
            file.em = Some(em(model, sigma, tau)?);
        }
        Ok(())
    }

    fn number(
        &mut self,
        flag: &'static str,
        given: Option<String>,
        question: &str,
        default: Option<&str>,
    ) -> Result<f64, WizardError> {
        self.asker.answer(flag, given.as_deref(), question, default, |text| match text.trim().parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
            Ok(_) | Err(_) => Err(format!("`{}` is not a number above zero", text.escape_debug())),
        })
    }

    /// The mode, among those that there are for the study: the recommended first, and plain mode as what it is.
    fn mode(&mut self, file: &mut StudyFile) -> Result<(), WizardError> {
        let mut choices = Vec::new();
        for (name, help, mode) in MODES {
            match refused(file, mode)? {
                None => choices.push((name, help, mode)),
                Some(reason) if self.answers.mode == Some(mode) => {
                    return Err(WizardError::Answer(format!(
                        "--mode: there is no {name} mode for this study: {reason}"
                    )));
                }
                Some(reason) => self.asker.tell(&format!("There is no {name} mode for this study: {reason}")),
            }
        }
        let recommended = choices.iter().any(|(_, _, mode)| *mode == Mode::Sealed);
        let question = match recommended {
            true => "What leaves, and under which guarantee".to_string(),
            // Plain mode is never what nobody has asked for.
            false => "What leaves, and under which guarantee; there is no sealed mode for this study".to_string(),
        };
        file.mode = self.asker.choice("mode", self.answers.mode, &question, &choices, recommended)?;
        let private = match file.mode {
            Mode::Private => true,
            Mode::Plain | Mode::Sealed => false,
        };
        let misplaced = [
            ("epsilon", self.answers.epsilon.is_some()),
            ("delta", self.answers.delta.is_some()),
            ("mechanism", self.answers.mechanism.is_some()),
        ];
        if let Some((flag, _)) = misplaced.iter().find(|(_, given)| *given && !private) {
            return Err(WizardError::Answer(format!("--{flag} has no place in a {} study", file.mode.name())));
        }
        if private { self.budget(file) } else { Ok(()) }
    }

    fn budget(&mut self, file: &mut StudyFile) -> Result<(), WizardError> {
        let mechanism = match mechanism(file.protocol) {
            Some(_) => Some(self.asker.value(
                "mechanism",
                self.answers.mechanism,
                "How values are made private",
                &MECHANISMS,
            )?),
            None => None,
        };
        let epsilon =
            self.number("epsilon", self.answers.epsilon.clone(), "Epsilon of one run, at each who holds data", None)?;
        let question = "Its delta";
        let delta = match file.protocol {
            Protocol::Vertical => match self.answers.delta.clone() {
                Some(given) => Some(self.number("delta", Some(given), question, None)?),
                None => None,
            },
            Protocol::Robust | Protocol::Em | Protocol::Features | Protocol::Stream => {
                Some(self.number("delta", self.answers.delta.clone(), question, Some(SITE_DELTA))?)
            }
        };
        file.privacy = Some(privacy(epsilon, delta, mechanism)?);
        Ok(())
    }

    /// Ranges and levels of columns, where mode or method need them.
    fn ranges(&mut self, file: &mut StudyFile) -> Result<(), WizardError> {
        let wrong = |problem: String| WizardError::Answer(format!("--ranges: {problem}"));
        let columns = bounded(file);
        for (name, words) in self.answers.ranges.as_deref().map_or(Ok(Vec::new()), entries).map_err(wrong)? {
            if !columns.contains(&name) {
                return Err(wrong(unknown(&name, columns.iter().map(String::as_str)).to_string()));
            }
            file.columns.insert(name.clone(), range(&words).map_err(|problem| wrong(format!("`{name}` {problem}")))?);
        }
        let needed = needs_ranges(file.mode, file.protocol);
        for name in columns.iter().filter(|_| needed) {
            if !file.columns.contains_key(name) {
                let question =
                    format!("Public range of `{name}`, as in 18..90, or its levels, as in f,m, known without the data");
                let terms = self.asker.answer("ranges", None, &question, None, range)?;
                file.columns.insert(name.clone(), terms);
            }
        }
        Ok(())
    }

    /// Hosts, ports, and the names in certificates that follow.
    fn places(&mut self, file: StudyFile) -> Result<Outline, WizardError> {
        let mut outline = places::ask(file, &self.answers.places, None, self.asker)?;
        self.own_table(&mut outline);
        accepted(&outline.file)?;
        Ok(outline)
    }

    /// What the asking party's private file says of its table, and which column its keys are.
    fn own_table(&self, outline: &mut Outline) {
        let named = self.header.as_ref().zip(self.role.filter(|role| role.is_party()));
        if let Some((header, role)) = named.filter(|(_, role)| outline.file.parties.contains_key(role)) {
            let file = std::path::absolute(&header.file).unwrap_or_else(|_| Path::new(&header.file).to_path_buf());
            outline.tables.insert(role.to_string(), table_of(file));
        }
        let Some(id) = self.answers.id.clone().filter(|_| outline.file.matching.is_some()) else { return };
        outline.match_by(&id);
    }
}

impl Outline {
    /// The column of every party that identifiers are matched by.
    fn match_by(&mut self, column: &str) {
        for role in self.file.parties.keys() {
            let columns = toml::Table::from_iter([(KEY.to_string(), toml::Value::from(column))]);
            let section = toml::Table::from_iter([("columns".to_string(), toml::Value::from(columns))]);
            let sections = toml::Table::from_iter([("match".to_string(), toml::Value::from(section))]);
            self.sections.insert(role.to_string(), sections);
        }
    }
}

/// One column by its name.
fn one(text: &str) -> Result<String, String> {
    match &list(text)?[..] {
        [one] => Ok(one.clone()),
        more => Err(format!("is one column, not {}", more.len())),
    }
}

/// The party of a name.
fn party(name: &str) -> Result<Role, String> {
    let role: Role = name.trim().parse()?;
    match role.is_party() {
        true => Ok(role),
        false => Err(format!("`{role}` is not the name of a party: it has a meaning of its own")),
    }
}

/// What is wrong with parties of these names, whatever their columns.
fn problem_of_names(roles: &[Role]) -> Option<String> {
    let mut file = match empty(NOT_YET) {
        Ok(file) => file,
        Err(error) => return Some(error.to_string()),
    };
    for role in roles {
        if file.parties.insert(*role, terms(*role, vec![format!("{NOT_YET} {role}")], None)).is_some() {
            return Some(format!("names {role} twice"));
        }
    }
    file.outcome.column = NOT_YET.to_string();
    problem(&file)
}

fn terms(role: Role, columns: Vec<String>, formula: Option<String>) -> PartyTerms {
    PartyTerms { certificate: role.to_string(), columns, formula, row_norm: None }
}

/// A party's columns or formula; those of whoever asks must stand in the header of its table.
fn part((own, header): &(Option<Role>, Option<Header>), role: Role, text: &str) -> Result<PartyTerms, String> {
    let terms = match text.trim_start().starts_with('~') {
        false => terms(role, list(text)?, None),
        true => {
            let formula = Formula::parse(text).map_err(|error| error.to_string())?;
            match formula.has_rest() {
                true => return Err("`.` would be all columns of a table; name the columns".to_string()),
                false => terms(role, Vec::new(), Some(text.trim().to_string())),
            }
        }
    };
    match header.as_ref().filter(|_| *own == Some(role)) {
        Some(header) => known(header, &own_columns(&terms)).map(|()| terms),
        None => Ok(terms),
    }
}

/// Refuses names that a header has not.
fn known(header: &Header, names: &[String]) -> Result<(), String> {
    match names.iter().find(|name| !header.columns.contains(name)) {
        Some(name) => Err(unknown(name, header.columns.iter().map(String::as_str)).to_string()),
        None => Ok(()),
    }
}

/// The terms of a match by one column of identifiers.
fn by_identifier(file: &StudyFile) -> MatchTerms {
    let key = KEY.to_string();
    MatchTerms {
        protocol: MatchProtocol::Direct,
        max_rows: file.parties.keys().map(|role| (*role, MOST_ROWS)).collect(),
        keys: BTreeMap::from([(key.clone(), KeyTerms::of(KeyKind::Identifier))]),
        pass: vec![PassTerms { name: key.clone(), keys: vec![key] }],
        ..MatchTerms::linked(LEAST_MATCHED)
    }
}

fn em(model: Hidden, sigma: f64, tau: f64) -> Result<EmTerms, WizardError> {
    let word = HIDDEN.iter().find(|(_, _, known)| *known == model).map_or("", |(name, ..)| *name);
    let table = toml::Table::from_iter([
        ("model".to_string(), toml::Value::from(word)),
        ("sigma".to_string(), toml::Value::from(sigma)),
        ("tau".to_string(), toml::Value::from(tau)),
    ]);
    table.try_into().map_err(|error: toml::de::Error| WizardError::Answer(error.to_string()))
}

/// A range, or levels.
fn range(text: &str) -> Result<ColumnTerms, String> {
    let Some((low, high)) = text.split_once("..") else {
        let levels = list(text)?;
        return match levels.len() {
            0 | 1 => Err(format!("`{}` is neither a range, as in 18..90, nor two levels or more", text.escape_debug())),
            _ => Ok(ColumnTerms::of_levels(levels)),
        };
    };
    match (low.trim().parse::<f64>(), high.trim().parse::<f64>()) {
        (Ok(low), Ok(high)) if low.is_finite() && high.is_finite() && low < high => {
            Ok(ColumnTerms::of_range(low, high))
        }
        _ => Err(format!("`{}` is no range: two numbers, the smaller first, as in 18..90", text.escape_debug())),
    }
}

/// Who holds a column, by a word.
fn who(word: &str) -> Result<HeldBy, String> {
    HeldBy::deserialize(StrDeserializer::<serde::de::value::Error>::new(word)).map_err(|error| error.to_string())
}

/// Whether a site's name can be that of its folder.
fn sound(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    name.bytes().all(letters) && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
}
