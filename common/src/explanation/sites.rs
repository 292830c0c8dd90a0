//! Many sites with the same columns about different people.

use super::{Explanation, Leaves, Member, facts_of_groups, listed, matching, on_the_network, unknown};
use crate::id::Role;
use crate::methods::registry;
use crate::privacy::release::{Declaration, Discloses};
use crate::star::message::Body;
use crate::study::{Guarantee, Promise, Release, SiteMethod, Sites, Study, StudyError};

/// Sites that are named; of more their number is said.
const NAMED: usize = 12;

/// What a study between sites means for each of them.
pub(super) fn explain(study: &Study<Sites>) -> Explanation {
    let (sentence, readable) = in_a_sentence(&study.guarantee);
    Explanation {
        study: study.head.id.clone(),
        study_digest: study.digest().to_string(),
        protocol: study.protocol(),
        mode: study.guarantee.mode(),
        model: model(study),
        in_a_sentence: format!("{sentence}; values of a row that leave readably: {readable}"),
        members: vec![sites(study), coordinator(study)],
        protected: protected(study),
        assumes: assumes(study),
        breaks: breaks(study),
        counted: counted(&study.guarantee),
        matching: matching::of_sites(),
        prediction: prediction(&study.method.method),
        result: result(&study.guarantee),
        unknown: unknown(&Role::Worker.program()),
    }
}

fn in_a_sentence(guarantee: &Guarantee) -> (&'static str, &'static str) {
    match guarantee {
        Guarantee::Plain => (
            "estimates and sums of each site leave without noise, as declared below",
            "none, but in a stream all of each record",
        ),
        Guarantee::Private(_) => {
            ("every site noises what it sends, before it sends it, and charges its own ledger", "none without noise")
        }
    }
}

fn model(study: &Study<Sites>) -> String {
    let method = &study.method;
    let what = match &method.method {
        SiteMethod::Robust(_) => "one regression of rows some of which may be wrong",
        SiteMethod::Em(_) => "a model with something hidden, by expectation maximisation",
        SiteMethod::Features(_) => "a function of a few columns, by random features",
        SiteMethod::Stream(_) => "a function that follows a stream of records",
    };
    let of = match method.outcome.as_str() {
        "" => String::new(),
        outcome => format!(", of `{outcome}`"),
    };
    format!(
        "{what}{of}; {} sites hold the same columns of different people, and no table leaves its site",
        method.workers.len()
    )
}

fn sites(study: &Study<Sites>) -> Member {
    let names: Vec<&str> = study.method.workers.keys().map(String::as_str).collect();
    let name = match names.len() {
        1..=NAMED => format!("each site: {}", listed(&names)),
        more => format!("each of the {more} sites"),
    };
    let method = &study.method;
    let mut columns = method.inputs();
    columns.extend(Some(method.outcome.clone()).filter(|name| !name.is_empty()));
    let leaves = match site_leaves(study) {
        Ok(leaves) => leaves,
        // A study that parses has a hub; should one not, its reader must hear of it.
        Err(problem) => vec![Leaves { what: "not known".to_string(), to: String::new(), reveals: problem.to_string() }],
    };
    Member {
        name,
        certificate: None,
        holds: format!("rows with the columns {}", listed(&columns)),
        leaves,
        learns: vec!["the result, and in rounds what the coordinator publishes of it; nothing of another site's rows beside that".to_string()],
    }
}

/// What leaves each site, in the order in which the study declares it.
///
/// # Errors
/// A study whose method cannot be set up.
pub fn site_leaves(study: &Study<Sites>) -> Result<Vec<Leaves>, StudyError> {
    let one =
        |what: String, reveals: &str| Leaves { what, to: Role::Coordinator.to_string(), reveals: reveals.to_string() };
    match &study.guarantee {
        Guarantee::Plain => {
            let declared = study.disclosures();
            Ok(declared.declared().iter().map(|kind| one(kind.name().to_string(), reveals(*kind))).collect())
        }
        Guarantee::Private(_) => {
            let shapes = registry::hub(study)?.shapes();
            let kinds = shapes.iter().flat_map(|shape| Body::noised(shape.kind, Vec::new()).discloses());
            let noised = "at most what (epsilon, delta) permits, whatever the coordinator does with it";
            Ok(kinds.map(|kind| one(format!("{} with noise", kind.name()), noised)).collect())
        }
    }
}

/// What can be learnt from a kind of value that leaves a site without noise.
fn reveals(declaration: Declaration) -> &'static str {
    match declaration {
        Declaration::BatchEstimate => "coefficients, number of rows kept and scale of every batch of rows",
        Declaration::BatchGram => "how the columns of every batch relate to each other, as sums over its rows",
        Declaration::GradientSum => "a sum over all rows, once a round",
        Declaration::FeatureStatistics => {
            "sums over all rows of products of the features, which relate the columns to each other and to the outcome"
        }
        Declaration::FeatureSolution => "the function that the site's own rows alone would give",
        Declaration::RecordUpdate => "the record: what it adds to the function gives it away",
        // Of studies between parties.
        Declaration::PartialPrediction
        | Declaration::Outcome
        | Declaration::Weights
        | Declaration::Offset
        | Declaration::Basis
        | Declaration::ProjectionTable
        | Declaration::Summary
        | Declaration::MissingRows
        | Declaration::Coefficients
        | Declaration::Covariance
        | Declaration::Prediction
        | Declaration::Masked
        | Declaration::CrossProducts
        | Declaration::MatchCounts
        | Declaration::Membership
        | Declaration::SameRecords
        | Declaration::Undeclarable => "nothing: it never leaves a site",
    }
}

fn coordinator(study: &Study<Sites>) -> Member {
    let sees = match &study.guarantee {
        Guarantee::Plain => "all that leaves the sites, as it is",
        Guarantee::Private(_) => "all that leaves the sites, with its noise",
    };
    Member {
        name: Role::Coordinator.to_string(),
        certificate: Some(study.head.coordinator.certificate.clone()),
        holds: "no data; it combines what the sites send, and returns the result".to_string(),
        leaves: Vec::new(),
        learns: vec![sees.to_string(), "certificate names, numbers of rows, who is there, and byte counts".to_string()],
    }
}

fn protected(study: &Study<Sites>) -> Vec<String> {
    let mut lines = match &study.guarantee {
        Guarantee::Plain => vec![
            "kind of guarantee: none; what leaves is declared".to_string(),
            "against the coordinator: nothing. It sees what each site sends".to_string(),
            "against the other sites: they see the result, and what the coordinator publishes of it".to_string(),
        ],
        Guarantee::Private(_) => study.site_promise().map(|promise| promise.promise).unwrap_or_default(),
    };
    lines.push(on_the_network());
    lines
}

fn assumes(study: &Study<Sites>) -> Vec<String> {
    let honest = match &study.method.method {
        SiteMethod::Robust(_) => {
            "of the other sites, for the result: that fewer than half are wrong. Nothing for one's own rows"
        }
        SiteMethod::Features(features) => match features.release {
            Release::Output => {
                "of the other sites, for the result: that fewer than half are wrong. Nothing for one's own rows"
            }
            Release::Statistics => {
                "of the other sites, for the result: that all send sums of their real rows. Nothing for one's own rows"
            }
        },
        SiteMethod::Em(_) | SiteMethod::Stream(_) => {
            "of the other sites, for the result: that all send what their real rows give. Nothing for one's own rows"
        }
    };
    let of_coordinator = match &study.guarantee {
        Guarantee::Plain => "of the coordinator: that it may see what the sites send, and combines it as it should",
        Guarantee::Private(_) => {
            "of the coordinator: nothing for the protection of rows, only that it combines what comes as it should"
        }
    };
    vec![honest.to_string(), of_coordinator.to_string()]
}

fn breaks(study: &Study<Sites>) -> Vec<String> {
    match &study.guarantee {
        Guarantee::Plain => {
            let small = match &study.method.method {
                SiteMethod::Robust(_) => "small batches: an estimate of few rows says much about each of them; a site's own `min_rows` keeps such batches at home",
                SiteMethod::Em(_) | SiteMethod::Features(_) => "a site with few rows: its sums are about these few",
                SiteMethod::Stream(_) => "nothing has to break: assume that the coordinator has the records",
            };
            vec![small.to_string(), "repeated runs: the difference between two runs is about the rows between them".to_string()]
        }
        Guarantee::Private(_) => vec![
            "bounds or levels that were looked up in the data; a ledger and its anchor that are deleted together; the same persons under two names"
                .to_string(),
            "persons at several sites: what the sites spend on them adds up".to_string(),
        ],
    }
}

fn counted(guarantee: &Guarantee) -> Vec<String> {
    match guarantee {
        Guarantee::Plain => vec!["nothing: a plain run is not limited by earlier ones".to_string()],
        Guarantee::Private(_) => vec![
            "the budget, for the lifetime of the data".to_string(),
            "in each site's own ledger, which is anchored; a run that does not fit into what is left is refused before anything leaves".to_string(),
        ],
    }
}

fn prediction(method: &SiteMethod) -> Vec<String> {
    let sentence = match method {
        SiteMethod::Robust(_) | SiteMethod::Em(_) => {
            "nothing: every site has the coefficients, and applies them to its own rows at home"
        }
        SiteMethod::Features(_) | SiteMethod::Stream(_) => {
            "nothing: `worker predict` computes from the report alone, and anyone who has the report may predict with it"
        }
    };
    vec![sentence.to_string()]
}

fn result(guarantee: &Guarantee) -> Vec<String> {
    let facts = match guarantee {
        Guarantee::Plain => facts_of_groups(),
        Guarantee::Private(_) => {
            "the result is computed from noised values, so that it may be shown to anybody; `worker privacy plan` foretells its error".to_string()
        }
    };
    vec!["every site and the coordinator see all of it".to_string(), facts]
}
