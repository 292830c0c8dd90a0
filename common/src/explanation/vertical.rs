//! Parties with different columns about the same people.

use super::modes::protects;
use super::{
    Explanation, Leaves, Member, ModeFacts, NoisedKind, Rests, Reveals, facts_of_groups, listed, matching,
    on_the_network, unknown,
};
use crate::glm::Family;
use crate::id::Role;
use crate::privacy::release::Declaration;
use crate::study::{
    CoefficientTerms, HeldBy, MatchProtocol, Mechanism, PartyTerms, Promise, Study, Vertical, VerticalGuarantee,
};

/// What a study between parties means for each of them.
pub(super) fn explain(study: &Study<Vertical>) -> Explanation {
    let view = View { study, facts: ModeFacts::of(&study.guarantee), several: study.is_of_several() };
    let parties = study.parties_in_order();
    let members = parties.iter().map(|role| view.party(*role)).chain(view.others()).collect();
    Explanation {
        study: study.head.id.clone(),
        study_digest: study.digest().to_string(),
        protocol: study.protocol(),
        mode: study.guarantee.mode(),
        model: view.model(),
        in_a_sentence: view.facts.sentence.to_string(),
        members,
        protected: view.protected(),
        assumes: view.assumes(),
        breaks: view.breaks(),
        counted: view.counted(),
        matching: matching::of_parties(study),
        prediction: view.prediction(),
        result: view.result(),
        unknown: unknown(&study.first().program()),
    }
}

struct View<'a> {
    study: &'a Study<Vertical>,
    facts: ModeFacts,
    several: bool,
}

impl View<'_> {
    /// "the other party", or "each of the others".
    fn other(&self) -> &'static str {
        if self.several { "each of the others" } else { "the other party" }
    }

    fn model(&self) -> String {
        let method = &self.study.method;
        let names: Vec<String> = self.study.parties_in_order().iter().map(Role::to_string).collect();
        let penalty = if method.penalty.is_some() { " with a penalty" } else { "" };
        format!(
            "one {} regression of `{}`{penalty} on columns that {} hold about the same people; no table leaves its institution",
            method.stated_family(),
            method.outcome.column,
            listed(&names)
        )
    }

    fn party(&self, role: Role) -> Member {
        let terms = self.study.method.parties.get(&role);
        Member {
            name: role.to_string(),
            certificate: terms.map(|terms| terms.certificate.clone()),
            holds: terms.map(|terms| self.holds(role, terms)).unwrap_or_default(),
            leaves: self.leaves(role),
            learns: self.learns(role),
        }
    }

    fn holds(&self, role: Role, terms: &PartyTerms) -> String {
        let columns = match &terms.formula {
            Some(formula) => format!("the terms of `{formula}`"),
            None => format!("the columns {}", listed(&terms.columns)),
        };
        let outcome = &self.study.method.outcome;
        match outcome.held_by {
            HeldBy::Both | HeldBy::All => format!("{columns}, and the outcome `{}`, which all hold", outcome.column),
            HeldBy::One(holder) if holder == role => {
                format!("{columns}, and alone the outcome `{}`", outcome.column)
            }
            HeldBy::One(_) => columns,
        }
    }

    fn leaves(&self, role: Role) -> Vec<Leaves> {
        let study = self.study;
        let reveals = Reveals::of(study, role, study.uses_tables());
        let declared = study.disclosures(role);
        let one = |declaration: &Declaration| Leaves {
            what: declaration.name_among(self.several).to_string(),
            to: self.receiver(role, *declaration),
            reveals: reveals.declared(*declaration).to_string(),
        };
        match &study.guarantee {
            VerticalGuarantee::Plain => {
                let within = reveals.outcome_within_predictions().map(|reveals| Leaves {
                    what: "outcome, in predictions".to_string(),
                    to: self.receiver(role, Declaration::Outcome),
                    reveals: reveals.to_string(),
                });
                let told = |declaration: &&Declaration| !reveals.told(**declaration).is_empty();
                declared.declared().iter().filter(told).map(one).chain(within).collect()
            }
            VerticalGuarantee::Sealed(_) => declared.declared().iter().map(one).collect(),
            VerticalGuarantee::Private(terms) => {
                let kinds: &[NoisedKind] = match (terms.stated.mechanism, study.method.family) {
                    (Mechanism::Residual, _) => &[NoisedKind::Predictions, NoisedKind::Coefficients],
                    (Mechanism::Crossprod, Family::Gaussian | Family::Poisson) if self.several => {
                        &[NoisedKind::Masked, NoisedKind::Statistics, NoisedKind::Shares]
                    }
                    (Mechanism::Crossprod, Family::Gaussian | Family::Poisson) => {
                        &[NoisedKind::Masked, NoisedKind::Statistics, NoisedKind::Share]
                    }
                    (Mechanism::Crossprod, Family::Binomial) => {
                        &[NoisedKind::Masked, NoisedKind::MaskedFactors, NoisedKind::Statistics, NoisedKind::Shares]
                    }
                };
                let noised = kinds.iter().map(|kind| Leaves {
                    what: kind.name().to_string(),
                    to: self.receiver_of_noised(role, *kind),
                    reveals: kind.reveals(self.several).to_string(),
                });
                let membership = declared.declared().iter().filter(|kind| **kind == Declaration::Membership).map(one);
                membership.chain(noised).collect()
            }
        }
    }

    /// Who gets a kind of value of a party.
    fn receiver(&self, role: Role, declaration: Declaration) -> String {
        let study = self.study;
        let Some(leader) = study.leader_of_several() else {
            // New rows are scored for the party that the study names.
            let scored = declaration == Declaration::Prediction;
            return if scored { study.result_to() } else { study.peer(role) }.to_string();
        };
        if let Some(receivers) = Reveals::of(study, role, false).receivers(declaration) {
            return receivers;
        }
        if leader == role {
            return "each of the others".to_string();
        }
        match declaration {
            Declaration::Masked => by_way_of(leader),
            Declaration::CrossProducts if study.guarantee.opens_to_both() => by_way_of(leader),
            Declaration::Coefficients => format!("{leader}, who tells all others"),
            Declaration::PartialPrediction => format!("{leader}, which sees them singly; others see them in sums"),
            Declaration::Outcome
            | Declaration::Weights
            | Declaration::Offset
            | Declaration::Basis
            | Declaration::ProjectionTable
            | Declaration::Summary
            | Declaration::MissingRows
            | Declaration::Covariance
            | Declaration::Prediction
            | Declaration::BatchEstimate
            | Declaration::BatchGram
            | Declaration::GradientSum
            | Declaration::FeatureStatistics
            | Declaration::FeatureSolution
            | Declaration::RecordUpdate
            | Declaration::CrossProducts
            | Declaration::MatchCounts
            | Declaration::Membership
            | Declaration::SameRecords
            | Declaration::Undeclarable => leader.to_string(),
        }
    }

    fn receiver_of_noised(&self, role: Role, kind: NoisedKind) -> String {
        let Some(leader) = self.study.leader_of_several() else { return self.study.peer(role).to_string() };
        if leader == role {
            return "all others".to_string();
        }
        match kind {
            NoisedKind::Share | NoisedKind::Shares => {
                format!("{leader}, who opens the tables and sends what opened to all")
            }
            NoisedKind::Predictions
            | NoisedKind::Coefficients
            | NoisedKind::Masked
            | NoisedKind::MaskedFactors
            | NoisedKind::Statistics => by_way_of(leader),
        }
    }

    /// What a party learns of the others.
    fn learns(&self, role: Role) -> Vec<String> {
        let leads = self.study.is_first(role);
        match &self.study.guarantee {
            VerticalGuarantee::Plain => {
                let of_columns = match (self.several, leads) {
                    (false, _) => format!("of a column of {}: {}", self.study.peer(role), self.facts.learnt),
                    (true, true) => format!(
                        "of a column of each of the others, whose partial predictions it sees singly: {}",
                        self.facts.learnt
                    ),
                    (true, false) => {
                        "sums of all blocks but its own: they hide each of them less and less with every round; and which rows lack a value \
                         somewhere"
                            .to_string()
                    }
                };
                std::iter::once(of_columns).chain(self.sent_whole_to(role)).collect()
            }
            VerticalGuarantee::Sealed(terms) => {
                let mut learns = self.learns_sealed(leads);
                if self.study.method.family != Family::Gaussian && !self.several {
                    learns.push(match terms.range {
                        Some(range) => format!(
                            "no range of the other's part of the linear predictor: the study fixes it at {range}, and each cuts its own there"
                        ),
                        None => "the class of the other's range, which is that of the largest part of the linear predictor in its rows, one of \
                                 sixteen from 0.5 to 32, or for Poisson the smallest whole number above it"
                            .to_string(),
                    });
                }
                learns
            }
            VerticalGuarantee::Private(_) => vec![
                format!("of any row of {}: {}", self.owners(role), self.facts.learnt.replace(" about any row", "")),
                "the number of rows, column names and public bounds, which the study or the run states".to_string(),
            ],
        }
    }

    /// The columns of others that a party is sent whole in plain mode, and an outcome that what it is sent contains.
    fn sent_whole_to(&self, role: Role) -> Vec<String> {
        let mut learns = Vec::new();
        for peer in self.study.peers(role) {
            let (reveals, declared) = (Reveals::of(self.study, peer, false), self.study.disclosures(peer));
            let told = |declaration: &Declaration| reveals.told(*declaration).contains(&role);
            let whole = [Declaration::Outcome, Declaration::Weights, Declaration::Offset].into_iter();
            let whole = whole.filter(|kind| declared.allows(*kind) && told(kind));
            learns.extend(whole.map(|kind| reveals.declared(kind).to_string()));
            let within = reveals.outcome_within_predictions().filter(|_| told(&Declaration::Outcome));
            learns.extend(
                within.map(|words| format!("the outcome, which the partial predictions of {peer} contain: {words}")),
            );
        }
        learns
    }

    fn owners(&self, role: Role) -> String {
        let others: Vec<String> = self.study.others(role).iter().map(Role::to_string).collect();
        listed(&others)
    }

    fn learns_sealed(&self, leads: bool) -> Vec<String> {
        let to_all = self.study.guarantee.opens_to_both();
        let mut learns = Vec::new();
        if leads || to_all {
            learns.extend([self.tables().to_string(), self.of_a_column()]);
        }
        learns.push(if leads { self.told_to_first() } else { self.own_solution(to_all) });
        learns.extend(self.by_gradients(leads, to_all));
        learns.extend(self.where_columns_depend(leads, to_all));
        learns
    }

    fn is_gaussian(&self) -> bool {
        self.study.method.family == Family::Gaussian
    }

    /// Whether the fit has a penalty.
    fn is_penalised(&self) -> bool {
        self.study.method.penalty.is_some()
    }

    /// Whether there is cross-validation.
    fn has_folds(&self) -> bool {
        self.study.method.penalty.as_ref().is_some_and(|penalty| penalty.cv.is_some())
    }

    /// Whether standard errors follow.
    fn has_errors(&self) -> bool {
        self.study.method.inference.allowed && !self.is_penalised()
    }

    /// The tables that open.
    fn tables(&self) -> &'static str {
        match (self.several, self.is_gaussian(), self.has_errors()) {
            (true, _, _) => "the tables of cross-products of every two parties, which open to it",
            (false, true, _) if self.has_folds() => {
                "a table of cross-products between both blocks for each fold, which opens to it"
            }
            (false, true, _) => "one table of cross-products between both blocks, which opens to it",
            (false, false, true) => {
                "a table of cross-products between both blocks, a gradient at each point of the fit, and at its end the weighted \
                 cross-products of all columns"
            }
            (false, false, false) => {
                "a table of cross-products between both blocks, and a gradient at each point of the fit"
            }
        }
    }

    fn of_a_column(&self) -> String {
        let more = match self.study.method.family {
            Family::Gaussian => "",
            Family::Binomial | Family::Poisson => {
                "; gradients and weighted cross-products let it predict more, so that this figure is no upper bound"
            }
        };
        format!("of a column of another party: {}{more}", self.facts.learnt)
    }

    /// What the others tell the first party beside the tables.
    fn told_to_first(&self) -> String {
        match (self.several, self.is_penalised()) {
            (true, _) => {
                "of each of the others its part of the intercept and of its variance; of all of them but the last the means of its columns, in \
                 the coordinates of its basis"
                    .to_string()
            }
            (false, false) => "the other party's part of the intercept and of its variance, two numbers".to_string(),
            (false, true) => {
                let folds = match self.has_folds() {
                    true => ", and the products and sums of its columns over each fold",
                    false => "",
                };
                format!(
                    "the other party's factor: with the table the correlations of all columns{folds}; its part of the intercept at every lambda"
                )
            }
        }
    }

    /// What another party than the first is told of the solution, and what it learns from that.
    fn own_solution(&self, to_all: bool) -> String {
        let first = self.study.first();
        let part = match (self.is_gaussian(), self.has_errors()) {
            (true, _) => "its own part of the solution with its covariance, and two sums of squares",
            (false, true) => "its own part of the solution with its covariance",
            (false, false) => "its own part of the solution",
        };
        let shared = self.study.method.outcome.held_by.is_shared();
        match (self.several, self.is_penalised()) {
            (true, _) if to_all => {
                format!(
                    "{part}, and how its own columns relate to the column means of {first} and of the parties before it"
                )
            }
            (true, _) => {
                let rest = match shared {
                    true => ", and to the rest of the linear predictor",
                    false => ", and to what all other columns leave of the outcome",
                };
                format!(
                    "{part}: how well all columns but its own together explain its own, and how its own relate to the column means of {first} and \
                     of the parties before it{rest}; nothing else of a third party apart from the others"
                )
            }
            (false, true) => {
                let folds = match self.has_folds() {
                    true => ", and the mean held-out error of each fold at every lambda",
                    false => "",
                };
                format!(
                    "its own coefficients at every lambda, with how well the fit does there, and R squared of each of its columns on {first}'s and \
                     the outcome{folds}"
                )
            }
            // Its columns and what the first one's hold of them stand with the points.
            (false, false) if !self.is_gaussian() && !self.has_errors() => part.to_string(),
            (false, false) if to_all => format!("{part}, and how its own columns relate to {first}'s column means"),
            (false, false) => {
                let outcome = match shared {
                    true => {
                        "that party's part of the linear predictor: where all coefficients are shown, also to a single column whose term is most \
                         of that part"
                    }
                    false => "what that party's columns leave of the outcome",
                };
                format!(
                    "{part}: how well the other party's columns together explain its own, and how its own relate to that party's column means and to \
                     {outcome}; if the other party has one column only, its cross-products with them"
                )
            }
        }
    }

    /// What else opens in a fit that is led by gradients.
    fn by_gradients(&self, leads: bool, to_all: bool) -> Vec<String> {
        let method = &self.study.method;
        let (points, sum) = match method.family {
            Family::Gaussian => return Vec::new(),
            Family::Binomial => (
                "its own coordinates of every point of the fit and the intercept there, and how many digits each gradient has",
                Some("the sum of the losses"),
            ),
            Family::Poisson => (
                "its own coordinates of every point of the fit, and the bits of the largest outcome",
                Some("the sum of the residuals").filter(|_| !method.intercept),
            ),
        };
        let every = if self.is_penalised() { " at every lambda" } else { " at the end of the fit" };
        let mut learns = Vec::new();
        if let (Some(sum), true) = (sum, leads || to_all) {
            learns.push(format!("{sum}{every}"));
        }
        if leads && method.outcome.held_by.is_shared() && !self.is_penalised() {
            learns.push(
                "the outcome's product with the other party's part of the linear predictor, one number".to_string(),
            );
        }
        if !leads {
            let held = match self.is_penalised() {
                true => "",
                false => "; and what the other party's columns and the outcome hold of its own",
            };
            learns.push(format!("{points}{held}"));
        }
        learns
    }

    /// What opens only where columns depend on those of another party; with a penalty none is set aside.
    fn where_columns_depend(&self, leads: bool, to_all: bool) -> Option<String> {
        if self.is_penalised() {
            return None;
        }
        let own = "only where its own columns depend on those of a party before it: what these leave of its own, a table of few numbers";
        Some(match (self.several, leads) {
            (false, true) => {
                "only where columns of the other party depend on its own: which of them stay, and what these are".to_string()
            }
            (true, true) => {
                "only where columns of another party depend on those of the parties before it: which of them stay, and what these are"
                    .to_string()
            }
            (false, false) => {
                "only where its own columns depend on those of the other party: what these leave of its own, a table of few numbers"
                    .to_string()
            }
            (true, false) if to_all => format!("{own}; and which columns of any other party stay, and what these are"),
            (true, false) => own.to_string(),
        })
    }

    /// The coordinator, and the dealer where it is another.
    fn others(&self) -> Vec<Member> {
        let head = &self.study.head;
        let convenes =
            "certificate names, digests of the study's keys, who is ready, phases, rounds and byte counts; no data"
                .to_string();
        let deals = "the numbers of rows and columns and, of binomial and Poisson models, how many products there are and how many terms each \
                     has; it receives no column, masked or not"
            .to_string();
        let seeds = "the seeds of all masks, which it deals: with a masked column that a party received a seed gives every value of it"
            .to_string();
        let apart = head.dealer.as_ref().filter(|_| self.study.is_dealt());
        let mut learns = vec![convenes];
        if self.study.is_dealt() && apart.is_none() {
            learns.extend([deals.clone(), seeds.clone()]);
        }
        learns.extend(matching::of_coordinator(self.study));
        let member = |name: &str, certificate: &str, holds: &str, learns| Member {
            name: name.to_string(),
            certificate: Some(certificate.to_string()),
            holds: holds.to_string(),
            leaves: Vec::new(),
            learns,
        };
        let holds = match (self.study.is_dealt(), apart) {
            (true, None) => "no data; it brings the parties together and deals the masks",
            (true, Some(_)) | (false, _) => "no data; it brings the parties together",
        };
        let coordinator = member(Role::Coordinator.name(), &head.coordinator.certificate, holds, learns);
        let dealer = apart.map(|dealer| {
            let holds = "no data; it deals the masks";
            member(
                "dealer",
                &dealer.certificate,
                holds,
                vec![format!("who is ready, phases and byte counts; {deals}"), seeds.clone()],
            )
        });
        std::iter::once(coordinator).chain(dealer).collect()
    }

    fn protected(&self) -> Vec<String> {
        let mut lines = vec![format!("kind of guarantee: {}", self.facts.kind)];
        match &self.study.guarantee {
            VerticalGuarantee::Plain => {
                lines.push(format!(
                    "against {}: nothing. No table is sent, but what leaves lets {} reconstruct columns: assume that it has them",
                    self.other(),
                    if self.several { "the leader" } else { "the other party" }
                ));
                lines.push("against the coordinator: it receives no value of a row".to_string());
            }
            VerticalGuarantee::Sealed(_) => {
                lines.push(format!(
                    "against {}, as long as it follows the protocol: no value of a row leaves in a readable form, and only declared tables open",
                    self.other()
                ));
                lines.push("against the dealer alone: it receives no column, masked or not".to_string());
                lines.push(
                    "not protected: what the opened tables and the result say, the number of rows, column names, and that a person is in the \
                     data where the study matches rows"
                        .to_string(),
                );
            }
            VerticalGuarantee::Private(terms) => {
                let shared = self.study.method.outcome.held_by.is_shared();
                lines.clear();
                lines.extend(protects(terms.stated.mechanism, self.several, shared).lines(1));
                let delta = match terms.stated.delta {
                    Some(delta) => format!("delta {delta:e}"),
                    None => {
                        "the delta that follows from the number of rows, the smaller of 1e-6 and 1/(10 n)".to_string()
                    }
                };
                lines.push(format!(
                    "guarantee of one run, at each party for its own data set: epsilon {} at {delta}",
                    terms.stated.epsilon
                ));
            }
        }
        lines.push(on_the_network());
        lines
    }

    fn assumes(&self) -> Vec<String> {
        let of_party = format!("of {}: {}", self.other(), self.facts.of_party);
        let dealer = match self.study.head.dealer {
            Some(_) => "the dealer",
            None => "the coordinator, who deals the masks",
        };
        let of_dealer = match self.several {
            false => format!("of {dealer}: {}", self.facts.of_coordinator),
            true => format!("of {dealer}: that it colludes with none of the parties"),
        };
        match &self.study.guarantee {
            VerticalGuarantee::Plain => vec![of_party, format!("of the coordinator: {}", self.facts.of_coordinator)],
            VerticalGuarantee::Sealed(_) => vec![
                of_party,
                of_dealer,
                format!("in short, it rests on {}", Rests::of(self.several).on()),
            ],
            VerticalGuarantee::Private(terms) => match terms.stated.mechanism {
                Mechanism::Residual => vec![
                    "of the other party: nothing; it may break the protocol, and can spoil coefficients, but learns no more".to_string(),
                    "of the coordinator: nothing".to_string(),
                    bounds_from_outside(),
                ],
                Mechanism::Crossprod => vec![
                    of_party,
                    of_dealer,
                    format!("in short, it rests on {}; the noise protects rows in all that opens", Rests::of(self.several).on()),
                    bounds_from_outside(),
                ],
            },
        }
    }

    fn breaks(&self) -> Vec<String> {
        let colludes = "a dealer that colludes with a party: it knows the seeds of all masks, and with the masked columns that the party received \
                        a seed gives every value of the other's columns"
            .to_string();
        let with_leader =
            self.several.then(|| "a party that conspires with the leader: it sees what the leader sees".to_string());
        let lines = match &self.study.guarantee {
            VerticalGuarantee::Plain => vec![
                "nothing has to break: assume that the other party has the columns. A party's own `max_disclosure` ends a run before it could \
                 reconstruct more than a share of a column"
                    .to_string(),
            ],
            VerticalGuarantee::Sealed(_) => vec![
                colludes,
                "a party that deviates from the protocol: a column that is zero in all rows but one makes the opened cross-products the values of \
                 that row, and the others see only masks and cannot notice"
                    .to_string(),
                "few rows, or rare values: exact numbers about few unknown values can be solved for them. Limits at each party refuse such runs \
                 before a column leaves; a party may loosen those for its own rows, and its report then says so"
                    .to_string(),
                "repeated runs: every table tells something more about the same rows, and the difference between two runs is the table of the rows \
                 between them, and of the values that were changed. Each party's ledger counts what opened and refuses"
                    .to_string(),
            ],
            VerticalGuarantee::Private(terms) => {
                let always = [
                    "bounds or levels that were looked up in the data; a ledger and its anchor that are deleted together; the same persons under \
                     two names"
                        .to_string(),
                    "a run in plain or sealed mode on the same persons: what it showed is not covered".to_string(),
                ];
                let shares = match terms.stated.mechanism {
                    Mechanism::Residual => None,
                    Mechanism::Crossprod => Some([
                        colludes,
                        "a party that deviates from the protocol: the promise is towards parties that follow it".to_string(),
                    ]),
                };
                shares.into_iter().flatten().chain(always).collect()
            }
        };
        lines.into_iter().chain(with_leader).collect()
    }

    fn counted(&self) -> Vec<String> {
        let first = self.facts.counted.to_string();
        let where_ = "in each party's own ledger, which is anchored: a state folder that is deleted or restored lets no further run begin";
        match &self.study.guarantee {
            VerticalGuarantee::Plain => vec![first],
            VerticalGuarantee::Sealed(_) => vec![
                first,
                format!(
                    "{where_}, and neither does another state folder, or another name, for the same file; together with earlier runs on the same data set at most half of the unknown values may open"
                ),
            ],
            VerticalGuarantee::Private(_) => vec![
                first,
                format!("{where_}; a run that does not fit into what is left is refused before anything leaves"),
            ],
        }
    }

    fn prediction(&self) -> Vec<String> {
        match &self.study.guarantee {
            VerticalGuarantee::Plain => {
                let name = self.study.result_to();
                vec![format!(
                    "new rows are scored jointly; {name} alone gets the scores, and with them the others' part of each score and which rows lack a value there"
                )]
            }
            VerticalGuarantee::Sealed(_) => vec![
                "refused: a score would show a value of a row. Each party may use its own coefficients on its own rows"
                    .to_string(),
            ],
            VerticalGuarantee::Private(_) => {
                vec!["refused: a partial prediction of a new row is a release of its own".to_string()]
            }
        }
    }

    fn result(&self) -> Vec<String> {
        let method = &self.study.method;
        let shown = match method.fit.coefficients {
            CoefficientTerms::Shared => "every party sees all coefficients",
            CoefficientTerms::Own => "each party sees its own coefficients only",
        };
        // Penalised fits have none, nor have private ones of counts.
        let counts = matches!(self.study.guarantee, VerticalGuarantee::Private(_)) && method.family == Family::Poisson;
        let errors = match method.inference.allowed && method.penalty.is_none() && !counts {
            true => "with standard errors",
            false => "without standard errors",
        };
        let facts = match &self.study.guarantee {
            VerticalGuarantee::Plain | VerticalGuarantee::Sealed(_) => facts_of_groups(),
            VerticalGuarantee::Private(_) => {
                "the result is computed from noised values, so that it may be shown to anybody; with few rows it is mostly noise, and `privacy \
                 plan` says so before anything is spent"
                    .to_string()
            }
        };
        vec![format!("{shown}, {errors}"), facts]
    }
}

/// What every private study takes for granted.
fn bounds_from_outside() -> String {
    "of those who wrote the study: that ranges and levels come from outside the data".to_string()
}

/// That rows are matched through the coordinator.
pub(super) fn through_the_coordinator(study: &Study<Vertical>) -> bool {
    match study.head.matching.as_ref().map(|terms| terms.protocol) {
        Some(MatchProtocol::Coordinator) => true,
        Some(MatchProtocol::Direct | MatchProtocol::Linked) | None => false,
    }
}

/// Receivers of what the leader of several passes on.
fn by_way_of(leader: Role) -> String {
    format!("all others, by way of {leader}")
}
