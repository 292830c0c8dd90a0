//! What stands in the files of everybody's folder.

use std::path::Path;

use fedreg_common::explanation::Explanation;
use fedreg_common::id::{Mode, Role};
use fedreg_common::report::table::folded;
use fedreg_common::study::{MatchRun, Study, StudyFile};
use toml::{Table, Value};

use super::draft::own_columns;
use super::folders::{DEALER, HERE, Member, Outline, Part, Place};

/// The file of a table whose place nobody has said.
const TABLE: &str = "data.csv";

/// What the texts are made from.
pub(super) struct Texts<'a> {
    pub(super) outline: &'a Outline,
    pub(super) study: &'a Study,
    pub(super) members: &'a [Member],
}

/// The name of a private file.
pub(super) fn private_file(member: &Member) -> String {
    match member.part {
        // Programs that find a file of this name in their folder need no flag.
        Part::Site => format!("{}.toml", Role::Worker),
        Part::Coordinator | Part::Dealer | Part::First(_) | Part::Further(_) => format!("{}.toml", member.name),
    }
}

impl Texts<'_> {
    fn file(&self) -> &StudyFile {
        &self.outline.file
    }

    fn address(&self, name: &str) -> String {
        self.outline.places.get(name).and_then(Place::address).unwrap_or_default()
    }

    /// Where the parties of a study meet.
    fn meeting(&self) -> String {
        let first = self.members.iter().find(|member| match member.part {
            Part::First(_) => true,
            Part::Coordinator | Part::Dealer | Part::Further(_) | Part::Site => false,
        });
        first.map(|member| self.address(&member.name)).unwrap_or_default()
    }

    /// Keys of a member's private file with an address on this machine.
    fn keys_here(&self, part: Part) -> Vec<&'static str> {
        let coordinator = ("coordinator", self.address(Role::Coordinator.name()));
        let (meeting, dealer) = (("connect", self.meeting()), ("dealer", self.address(DEALER)));
        let keys = match part {
            Part::Coordinator | Part::Dealer => Vec::new(),
            Part::First(_) => vec![coordinator, dealer],
            Part::Further(_) => vec![coordinator, meeting, dealer],
            Part::Site => vec![coordinator],
        };
        let here = keys.into_iter().filter(|(_, address)| address.starts_with(&format!("{HERE}:")));
        here.map(|(key, _)| key).collect()
    }

    /// That the addresses are those of this machine, and what is to be changed for others; nothing where they are not.
    fn on_one_machine(&self, member: &Member) -> String {
        let quoted = |keys: Vec<&str>| keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" and ");
        let change = match member.part {
            Part::Coordinator | Part::Dealer => {
                let here = self.address(&member.name).starts_with(&format!("{HERE}:"));
                here.then(|| format!("the others put this one's name into `{}` of their private files", member.name))
            }
            Part::First(_) | Part::Further(_) | Part::Site => {
                let keys = self.keys_here(member.part);
                (!keys.is_empty()).then(|| format!("change {} in {}", quoted(keys), private_file(member)))
            }
        };
        change.map_or_else(String::new, |change| {
            format!(" The addresses are those of this machine ({HERE}): for a study between machines {change}.")
        })
    }

    /// The shared study, with a word on what it lets leave.
    pub(super) fn study(&self, explanation: &Explanation, written: &str) -> String {
        let mut text = String::new();
        let mode = explanation.mode.name();
        for sentence in [
            "What all who take part agree on. Everybody has the same file: a difference in any key ends the run before data are touched."
                .to_string(),
            format!("Mode {mode}: {}.", explanation.in_a_sentence),
        ]
        .into_iter()
        .chain(explanation.assumes.iter().map(|assumed| match assumed.strip_prefix("in short, ") {
            Some(rest) => format!("In short, {rest}."),
            None => format!("It assumes {assumed}."),
        }))
        .chain(["`study explain` says what leaves whom: explanation.html.".to_string()])
        {
            text.push_str(&comment(&sentence));
        }
        format!("{text}\n{written}")
    }

    /// The columns that a member's table needs.
    fn columns(&self, member: &Member) -> Vec<String> {
        let file = self.file();
        let outcome = Some(file.outcome.column.clone()).filter(|name| !name.is_empty());
        let id = file.rows.id.clone();
        match member.part {
            Part::Coordinator | Part::Dealer => Vec::new(),
            Part::First(role) | Part::Further(role) => {
                let own = file.parties.get(&role).map(own_columns).unwrap_or_default();
                let key = self.outline.sections.get(&member.name).into_iter().flat_map(key_columns);
                let held = [Some(&file.outcome), file.offset.as_ref(), file.weights.as_ref()];
                let held = held.into_iter().flatten().filter(|column| {
                    column.held_by.holder().is_none_or(|holder| holder == role) && !column.column.is_empty()
                });
                let folds = file.penalty.iter().filter_map(|penalty| penalty.folds.clone());
                id.into_iter()
                    .chain(key)
                    .chain(own)
                    .chain(held.map(|column| column.column.clone()))
                    .chain(folds)
                    .collect()
            }
            Part::Site => id.into_iter().chain(file.model.features.clone()).chain(outcome).collect(),
        }
    }

    /// A member's private file.
    pub(super) fn private(&self, member: &Member) -> String {
        let coordinator = self.address(Role::Coordinator.name());
        let place = self.outline.places.get(&member.name);
        let port = place.and_then(|place| place.port).unwrap_or_default();
        // Every interface; of an address in brackets by IPv6, which on most systems takes IPv4 too.
        let every = if place.is_some_and(|place| place.host.starts_with('[')) { "[::]" } else { "0.0.0.0" };
        let anywhere = format!("{every}:{port}");
        let mut text = comment(&format!(
            "The private file of {}: nobody else ever sees it. Paths are relative to this file.",
            member.name
        ));
        text.push('\n');
        let mut key = |name: &str, value: &str, remark: &str| {
            let line = format!("{name} = {}", Value::from(value));
            text.push_str(&if remark.is_empty() { format!("{line}\n") } else { format!("{line:<33} # {remark}\n") });
        };
        key("study", "study.toml", "the same file at everybody");
        match member.part {
            Part::Coordinator | Part::Dealer => {
                key("listen", &anywhere, &format!("others reach it at {}", self.address(&member.name)));
            }
            Part::First(_) => {
                key("coordinator", &coordinator, "");
                key("listen", &anywhere, &format!("the others connect to {}", self.address(&member.name)));
            }
            Part::Further(_) => {
                key("coordinator", &coordinator, "");
                key("connect", &self.meeting(), "");
            }
            Part::Site => key("coordinator", &coordinator, ""),
        }
        if let (Part::First(_) | Part::Further(_), Some(_)) = (member.part, &self.file().dealer) {
            key("dealer", &self.address(DEALER), "");
        }
        key("state", "state", "what must outlive a run; keep it, and back it up");
        match member.part {
            Part::Coordinator | Part::Dealer => {}
            Part::First(_) | Part::Further(_) | Part::Site => text.push_str(&self.data(member)),
        }
        let certificate = &member.certificate;
        text.push_str(&format!(
            "\n[tls]\nauthority = \"certificates/authority.pem\"\ncertificate = \"certificates/{certificate}.pem\"\nkey = \
             \"certificates/{certificate}.key\"\n"
        ));
        text
    }

    /// Table and limits of a member that holds data.
    fn data(&self, member: &Member) -> String {
        let mut table = self.outline.tables.get(&member.name).cloned().unwrap_or_default();
        let file = table.remove("file").unwrap_or_else(|| Value::from(TABLE));
        let mut text = format!("\n[data]\nfile = {file}\n");
        text.push_str(&table.to_string());
        text.push_str(&comment(&format!("It needs the columns {}.", self.columns(member).join(", "))));
        if let Some(terms) = &self.file().privacy {
            text.push_str(&format!("\n[policy]\nmax_epsilon = {:?}\n", terms.epsilon));
            text.push_str(&comment(
                "Of one run. The budget of these persons for the lifetime of the data is that of one run, unless [privacy] epsilon and delta \
                 say another before `privacy init`. Studies on the same persons must share one ledger ([privacy] ledger).",
            ));
        }
        if let Some(sections) = self.outline.sections.get(&member.name) {
            text.push_str(&format!("\n{sections}"));
        }
        text
    }

    /// What to do next, in five lines.
    pub(super) fn readme(&self, member: &Member) -> String {
        let digest = self.study.digest().short();
        let program = match member.part {
            Part::Coordinator | Part::Dealer => Role::Coordinator.to_string(),
            Part::First(role) | Part::Further(role) => role.program(),
            Part::Site => Role::Worker.to_string(),
        };
        let read = format!(
            "Read `explanation.html`, or `{program} study explain study.toml`: what leaves whom. Everybody's study.toml has the digest {digest}; it is not \
             changed by one alone."
        );
        let lines = match member.part {
            Part::Coordinator => self.of_coordinator(member, read),
            Part::Dealer => [
                read,
                self.certificate(member, &program) + &self.on_one_machine(member),
                format!(
                    "Others must reach {}; `listen` in dealer.toml says where it listens.",
                    self.address(&member.name)
                ),
                "Deal the masks, while the others fit: `coordinator deal`".to_string(),
                "Collude with no party: the seeds of the masks give columns to whoever has the masked ones."
                    .to_string(),
            ],
            Part::First(_) | Part::Further(_) | Part::Site => self.of_holder(member, &program, read),
        };
        lines.iter().enumerate().map(|(at, line)| format!("{}. {line}\n", at + 1)).collect()
    }

    /// How a member comes by its certificate.
    fn certificate(&self, member: &Member, program: &str) -> String {
        let name = &member.certificate;
        format!(
            "Get `{name}.pem` from the coordinator, made from certificates/{name}.csr, into certificates/. The key {name}.key never leaves this folder; if \
             this folder came by a way that others can read, make another one and send the new request: `{program} certs request --name {name} \
             --out certificates --force`"
        )
    }

    fn of_coordinator(&self, member: &Member, read: String) -> [String; 5] {
        let names: Vec<&str> = self.members.iter().map(|member| member.certificate.as_str()).collect();
        let others: Vec<&str> = names.iter().skip(1).copied().collect();
        let serve = match self.file().workers.is_empty() {
            true => "coordinator serve",
            false => "coordinator serve --out results",
        };
        [
            read,
            format!(
                "Sign the requests, once each is the one that its owner has: `for name in {}; do coordinator certs sign --authority authority --request \
                 requests/$name.csr --name $name --out certificates; done`.{}",
                names.join(" "),
                self.on_one_machine(member)
            ),
            format!(
                "Send back to each its own of certificates/{}; authority/authority.key stays here, and whoever has it can pass for anybody.",
                others.iter().map(|name| format!("{name}.pem")).collect::<Vec<_>>().join(", certificates/")
            ),
            format!("Bring all together: `{serve}`; others must reach {}.", self.address(Role::Coordinator.name())),
            "See who is there, meanwhile: `coordinator status`".to_string(),
        ]
    }

    fn of_holder(&self, member: &Member, program: &str, read: String) -> [String; 5] {
        let file = private_file(member);
        let columns = self.columns(member).join(", ");
        let table =
            match self.outline.tables.get(&member.name).and_then(|table| table.get("file")).and_then(Value::as_str) {
                Some(table) => format!("{file} names {table}"),
                None => format!("put it at {TABLE}, or name another `file` in {file}"),
            };
        let order = match self.study.head.lines_up_by_place() && !self.file().parties.is_empty() {
            true => " Its rows must be in the same order as those of all other tables: nothing checks that.",
            false => "",
        };
        let reached = match member.part {
            Part::First(_) => format!(" The others must reach {}.", self.address(&member.name)),
            Part::Coordinator | Part::Dealer | Part::Further(_) | Part::Site => String::new(),
        };
        let look = match self.file().mode {
            Mode::Plain | Mode::Sealed => format!("Look what would leave, without a connection: `{program} check`"),
            Mode::Private => format!(
                "Register the table with its budget, once: `{program} privacy init`. Look what would leave, without a connection: `{program} check`"
            ),
        };
        let fit = match member.part {
            Part::Site => format!("Take part, when the coordinator serves: `{program} join --out results`"),
            Part::Coordinator | Part::Dealer | Part::First(_) | Part::Further(_) => match &self.file().matching {
                Some(terms) if terms.run == MatchRun::Command => format!(
                    "Find the common rows, when the coordinator serves: `{program} match`. Fit, when it serves again: `{program} fit --out results`"
                ),
                Some(_) | None => format!("Fit, when the coordinator serves: `{program} fit --out results`"),
            },
        };
        [
            read,
            format!("The table needs the columns {columns}: {table}.{order}{reached}{}", self.on_one_machine(member)),
            self.certificate(member, program),
            look,
            fit,
        ]
    }

    /// What was written, for whoever made it.
    pub(super) fn written(&self, dir: &Path) -> String {
        let mut text = format!(
            "study {} (digest {}), mode {}\n",
            self.study.head.id,
            self.study.digest().short(),
            self.file().mode.name()
        );
        for member in self.members {
            let what = match member.part {
                Part::Coordinator => "signs the requests and brings all together; has the authority",
                Part::Dealer => "deals the masks",
                Part::First(_) => "a party, which the others dial",
                Part::Further(_) => "a party",
                Part::Site => "a site",
            };
            text.push_str(&format!("  {}  {what}\n", dir.join(&member.name).display()));
        }
        text.push_str(
            "Each folder is for its owner alone: it holds a private key. Its README.md has five lines on what to do.\n",
        );
        let keys: Vec<&str> = self.members.iter().flat_map(|member| self.keys_here(member.part)).collect();
        let mut keys: Vec<String> = keys.into_iter().map(|key| format!("`{key}`")).collect();
        keys.sort_unstable();
        keys.dedup();
        if !keys.is_empty() {
            text.push_str(&format!(
                "The addresses are those of this machine ({HERE}). For a study between machines name them with --hosts, or change {} in the \
                 private files.\n",
                keys.join(", ")
            ));
        }
        text
    }
}

/// Own columns that a match compares.
fn key_columns(sections: &Table) -> Vec<String> {
    let columns = sections.get("match").and_then(|section| section.get("columns")).and_then(Value::as_table);
    let column = |value: &Value| value.as_str().or_else(|| value.get("column")?.as_str()).map(str::to_string);
    columns.into_iter().flat_map(|columns| columns.values().filter_map(column)).collect()
}

/// A sentence as lines of a comment.
fn comment(sentence: &str) -> String {
    let sentence = sentence.replace(|letter: char| letter.is_control(), " ");
    folded(&sentence, "# ", "# ") + "\n"
}
