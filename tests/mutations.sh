#!/usr/bin/env bash
# Breaks a guarantee on purpose, one at a time, in a copy of the sources, and looks whether a test turns red.
#
#     tests/mutations.sh              all of them
#     tests/mutations.sh sigma noise  those with one of these words in their names
#
# A mutation that no test notices is a failure, and so are one that does not apply any more and one that does not
# compile. Each builds the tests anew.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
wanted=("$@")
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} CARGO_INCREMENTAL=1 CARGO_TERM_COLOR=never
copy=$CARGO_TARGET_DIR/mutations
failed=0 run=0

# Times are those of copying: what was built of a mutation before must not be taken for built of these.
rm -rf "$copy"
mkdir -p "$copy"
(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - 2>/dev/null) | tar -xmf - -C "$copy"
cd "$copy"

# The tests that are run: unit tests of fedreg-common, unless a mutation says otherwise.
where=(-p fedreg-common --lib)

# suite TESTS...: those of them with these words in their names.
suite() {
    # Hardly optimised: most of the time goes into building.
    cargo test --release --locked "${where[@]}" \
        --config 'profile.release.package.fedreg-common.opt-level=1' \
        --config 'profile.release.package.fedreg-common.codegen-units=64' -- "$@" >"$copy.log" 2>&1
}

# is_wanted NAME: whether it has one of the words, or none was given.
is_wanted() {
    local word
    for word in "${wanted[@]}"; do
        if [[ $1 == *"$word"* ]]; then return 0; fi
    done
    ((${#wanted[@]} == 0))
}

# mutate NAME FILE CHANGE TESTS...: applies a change (Perl, on the whole file at once) and expects some of the tests to turn red.
mutate() {
    local name=$1 file=$2 change=$3
    shift 3
    is_wanted "$name" || return 0
    run=$((run + 1))
    perl -0pi -e "$change" "$file"
    if cmp -s "$root/$file" "$file"; then
        echo "DOES NOT APPLY  $name: $file has changed"
        failed=$((failed + 1))
        return 0
    fi
    if suite "$@"; then
        echo "NOT NOTICED     $name"
        failed=$((failed + 1))
    elif ! grep -q '^test result: FAILED' "$copy.log"; then
        echo "DOES NOT BUILD  $name"
        tail -n 30 "$copy.log"
        failed=$((failed + 1))
    else
        echo "noticed         $name, by $(sed -n 's|^test \(.*::\)*\([a-z_]*\) \.\.\. FAILED$|\2|p' "$copy.log" | paste -sd " ")"
    fi
    cp "$root/$file" "$file"
}

tests=(
    privacy::mechanism::tests::no_neighbour privacy::mechanism::tests::an_audit_finds
    privacy::mechanism::tests::the_table_is_free privacy::mechanism::tests::noise_keeps privacy::mechanism::tests::a_message_moves
    privacy::ledger::tests privacy::sampler::tests::an_integer privacy::bounds privacy::accountant
    vertical::accelerate robust::plan::tests::an_invalid_row robust::plan::tests::a_plan_charges
)
if ! suite "${tests[@]}"; then
    echo "the tests are red before anything was broken"
    tail -n 30 "$copy.log"
    exit 1
fi

mechanism=common/src/privacy/mechanism.rs
ledger=common/src/privacy/ledger.rs

mutate "sensitivity of X'r halved" $mechanism \
    's/sensitivity: 2\.0 \* residuals\.bound\(\)/sensitivity: residuals.bound()/' "${tests[@]}"
mutate "sensitivity of a message halved" $mechanism \
    's/sensitivity: 2\.0 \* bound,/sensitivity: bound,/' "${tests[@]}"
mutate "sigma over sqrt 2" $mechanism \
    's/(query\.scale\(sensitivity, planned\.mu\)\.map_err\(\|_\| no_share\)\?;)/$1 let (sigma, step) = (sigma * std::f64::consts::FRAC_1_SQRT_2, step * std::f64::consts::FRAC_1_SQRT_2);/' "${tests[@]}"
mutate "table free at any share" $mechanism \
    's/square\(table\) <= 0\.25 \* \(1\.0 - 1e-9\) \* covering/square(table) <= covering/' "${tests[@]}"
mutate "message not cut" $mechanism \
    's/\(value \/ step\)\.round\(\)\.clamp\(-limit, limit\)/(value \/ step).round()/' "${tests[@]}"
mutate "rounding left out of the sensitivity" $mechanism \
    's/(values, \.\. \} => )\(values\.len\(\) as f64\)\.sqrt\(\)\.next_up\(\)/${1}0.0 * values.len() as f64/' "${tests[@]}"
mutate "noise used twice" common/src/privacy/sampler.rs \
    's/self\.ready\.split_off\(self\.ready\.len\(\) - count\)/self.ready[self.ready.len() - count..].to_vec()/' "${tests[@]}"
mutate "noise drawn before its budget is reserved" $ledger \
    's/(pub fn permit\(&mut self, run: &str, index: u32\) -> Result<Grant, LedgerError> \{)/$1 if !self.is_reserved(run) { let planned = crate::privacy::mechanism::PlannedRelease { label: String::new(), mu: 1.0 }; return Ok(Grant::Fresh(Permit::new(run.to_owned(), index, planned))); }/' "${tests[@]}"
mutate "retry noised anew" $ledger \
    's/known\.stored\.get\(&index\)\.cloned\(\)/known.stored.get(&index).cloned().filter(|_| false)/; s/if !fits \|\| known\.stored\.contains_key\(&index\)/if !fits/' "${tests[@]}"
mutate "stored release stored twice" $ledger \
    's/if !fits \|\| known\.stored\.contains_key\(&index\)/if !fits/' privacy::ledger::tests::of_two_values
mutate "receipt without its bytes" $ledger \
    's/transaction\.storage\.put_blob\(&sent_blob\(&run, index\), &bytes\)\?;//' privacy::ledger::tests
mutate "words of the peer not kept with the reservation" $ledger \
    's/received\.iter\(\)\.try_for_each\(\|\(index, bytes\)\| transaction\.keep\(run, \*index, bytes\)\)/Ok(())/' privacy::ledger::tests::what_the_peer_said
mutate "changed bytes not looked for before spending" ${ledger%.rs}/transaction.rs \
    's/self\.check_bytes\(\)\?;\n/\n/g' privacy::ledger::tests::a_changed_byte
mutate "linked data sets keep their sums" common/src/privacy/ledger/state.rs \
    's/add_charge\(account\.sum, from_second\)/account.sum/' privacy::ledger::tests::data_sets_that_turn_out
mutate "leading zeros make another person" common/src/privacy/ledger/persons.rs \
    's/let value = canonical_id\(identifier\)/let value = std::borrow::Cow::Borrowed(identifier)/' privacy::ledger::tests::ids_that_are
state=common/src/privacy/ledger/state.rs
mutate "a charge taken back although a release is stored" $state \
    's/self\.stored\.is_empty\(\) && !self\.started/!self.started/' privacy::ledger::tests::withdrawn::a_
mutate "a charge taken back that an earlier version had begun to use" $state \
    's/self\.stored\.is_empty\(\) && !self\.started/self.stored.is_empty()/' privacy::ledger::tests::withdrawn::a_
mutate "the charge of another study taken back" $state \
    's/digest\(&run\.study\) == digest\(study\) && //' privacy::ledger::tests::withdrawn::a_
mutate "what a later data set inherited of a withdrawn run stays" $state \
    's/self\.postings\.iter\(\)\.try_for_each/self.postings.iter().filter(|posting| !matches!(posting, Posting::Inherited { from, .. } if !from.is_empty())).try_for_each/; s/            account\.sum = 0\.0;\n            account\.peers/            account.peers/' privacy::ledger::tests::withdrawn::
mutate "a permit after the withdrawal" ${ledger%.rs}/transaction.rs \
    's/known if known\.withdrawn => Err\(LedgerError::Withdrawn \{ run: run\.to_owned\(\) \}\),\n            known =>/known =>/' privacy::ledger::tests::withdrawn::a_
mutate "a release stored after the withdrawal" $state \
    's/self\.runs\.get_mut\(run\)\.filter\(\|run\| !run\.withdrawn\)/self.runs.get_mut(run)/' privacy::ledger::tests::withdrawn::a_
mutate "a later data set of two that are linked keeps the larger sum" $state \
    's/\(true, true\) => add_charge\(account\.sum, from_first\.min\(from_second\)\)/(true, true) => account.sum/' privacy::ledger::tests::withdrawn::a_
mutate "what an idle run reserved stays spent" $ledger \
    's/for idle in transaction\.state\.idle\(data_set, study\) \{/for idle in Vec::<String>::new() {/' privacy::ledger::tests::withdrawn::a_
mutate "budget not checked before sending" $ledger \
    's/let charge = transaction\.affordable\(data_set, persons, plan\)\?;/let _ = (data_set, persons); let charge = plan.charge();/' "${tests[@]}"
mutate "normal tails of too few terms" common/src/privacy/accountant.rs \
    's/15 \+ \(900\.0/15 + (300.0/' accountant
mutate "charge rounded down" common/src/privacy/accountant.rs \
    's/(pub fn add_charge\(.*?\{\n)/$1    if true { return (sum + charge).next_down(); }\n/s' "${tests[@]}"
mutate "sign of the extrapolation" common/src/methods/vertical/accelerate.rs \
    's/next\.axpy\(-share, &image, 1\.0\)/next.axpy(share, &image, 1.0)/' "${tests[@]}"

response=common/src/methods/vertical/response.rs
mutate "a partner that takes nothing away" $response \
    's/taken\.ger\(1\.0 \/ along/taken.ger(0.0 \/ along/' response::tests
mutate "more taken away than there is" $response \
    's/share\.clamp\(0\.0, most\)/share.clamp(0.0, 2.0)/' response::tests::products
mutate "a worse point gone on from" $response \
    's/if !worse \{\n            self\.best/if true {\n            self.best/' response::tests::a_worse
mutate "what was learnt forgotten along a path" $response \
    's/Response \{ secants, \.\.Response::default\(\) \}/Response { secants: VecDeque::new(), ..Response::default() }; drop(secants)/' response::tests::another
mutate "signs of a lasso taken for those of the minimum" common/src/methods/vertical/penalty.rs \
    's/let first = support\.iter\(\)\.copied\(\)\.filter\(leaves\)/let first = support.iter().copied().filter(leaves).filter(|_| false)/' penalty::tests

mutate "sums not cut before the noise" $mechanism \
    's/quotient\.min\(CUT\) as i64/quotient as i64/' values_are_cut_at_a_public_number
mutate "a sum beyond the cut ends the run" $mechanism \
    's/let cut = \|quotient: u128\| quotient\.min\(CUT\) as i64/let cut = |quotient: u128| if quotient > CUT { panic!("too large") } else { quotient as i64 }/' \
    values_are_cut_at_a_public_number
mutate "a sum beyond 2^23 sigma has no release" $mechanism \
    's/let integers = query\.noised\(step, pool\)\?;/let fits = |values: Vec<i64>| values.iter().all(|value| value.unsigned_abs() < 1 << 62); if !query.on_lattice(step).is_some_and(fits) { return Err(ReleaseError::NoShare { label: planned.label, mu }); } $&/' \
    values_are_cut_at_a_public_number
mutate "a margin that vanishes beside 1" common/src/privacy/accountant.rs \
    's/\(1\.0 \+ ROUNDING_MARGIN\)\)\.next_up\(\)/(1.0 + 2f64.powi(-80)))/' a_charged_quotient_is_larger
mutate "the lattice is free" common/src/privacy/accountant.rs \
    's/curve \+ lattice\)\.next_up/curve).next_up/' the_exact_accountant_pays_for_its_lattice
mutate "any share for any number of entries" $mechanism \
    's/    enough_for\(mu, slack \* slack\)\?;\n//' noise_keeps_the_permitted_share
mutate "distance of the solver left out" common/src/methods/features/output.rs \
    's/\(exact \+ solved\) \* ROOM/exact * ROOM/' the_certified_distance_is_in_the_sensitivity
mutate "unfinished rounds averaged away" common/src/methods/robust/plan.rs \
    's/largest \* many as f64/largest/' what_all_batches_leave_unfinished
mutate "inference not withheld" common/src/report/caution.rs \
    's/self\.coefficients\.iter_mut\(\)\.for_each\(Coefficient::withhold_inference\);//' a_caution_stands_first
mutate "every estimate a vote" common/src/methods/robust/weights.rs \
    's/let uniform = sites < SITES \|\| equal/let uniform = true || sites < SITES || equal/' robust::tests::sites
mutate "copies count" common/src/methods/robust/weights.rs \
    's/if !\(0\.\.q\)\.rev\(\)\.all\(same\)/if true || !(0..q).rev().all(same)/' robust::tests::sites::rows_that_come_again
mutate "a majority of estimates for one of sites" common/src/methods/robust/weights.rs \
    's/chosen\.map\(\|i\| self\.each\[i\]\)\.sum::<f64>\(\) > self\.half\(\)/chosen.count() as f64 > self.half()/' robust::tests::sites robust::weights
mutate "a gate of normal rows and no others" common/src/methods/robust/consolidate.rs \
    's/let limit = factor \* weights\.majority_value\(&mut squares\.to_vec\(\)\);/let limit = chi_squared(q, GATE) + 0.0 * factor;/' robust::tests::honest
mutate "a site that is wholly set aside is passed over" common/src/methods/robust/report.rs \
    's/filter\(\|site\| site\.set_aside\(\)\)/filter(|site| site.set_aside() \&\& false)/' report robust::tests
mutate "a window for whoever sends most" common/src/methods/robust/online.rs \
    's/held\(at\) > own\)/true)/' robust::tests::sites::a_site_of_the_majority
mutate "the rarer value rejected" common/src/methods/robust/batch.rs \
    's/const STEPS: f64 = 2\.0/const STEPS: f64 = 0.0/' robust::tests::honest::the_rarer
mutate "a result that was asked for is forgotten" common/src/star/hub.rs \
    's/if !self\.asked \{\n            let why/if self.held {\n            let why/' star::tests::resume
mutate "ready before it joined" common/src/star/hub.rs \
    's/\|\| !self\.asked;/|| false;/' nobody_counts_for_the_quorum
mutate "any count of contributions" common/src/star/hub.rs \
    's/contributions > MOST/contributions > u64::MAX - 1/' counts_that_no_run_reaches
mutate "contributions up to the largest number" common/src/star/hub.rs \
    's/else if contributions > MOST \{/else if false \&\& contributions > MOST {/' counts_that_no_run_reaches
mutate "any count of rows" common/src/star/hub.rs \
    's/\*\*count > MOST_ROWS/**count > u64::MAX - 1/' a_count_of_rows_that_no_table_reaches
mutate "numbers of any size" common/src/star/hub.rs \
    's/value\.abs\(\) >= LARGEST \|\| value\.is_nan\(\)/value.is_nan()/' numbers_so_large
mutate "any broadcast" common/src/star/site.rs \
    's/if number > most/if number > u64::MAX - 1/' a_hub_that_publishes_more
mutate "charged before the quorum" common/src/star/site/local.rs \
    's/\(Stage::Ready, Input::Done\) => Stage::Quorum/(Stage::Ready, Input::Done) => Stage::Reserve/' star::tests::sites
mutate "records noised anew after a restart" common/src/methods/stream/site.rs \
    's/self\.right\.as_ref\(\)\.filter\(\|_\| self\.recalls\)/self.right.as_ref().filter(|_| false)/' star::tests::sites
mutate "weights that lack the message before" common/src/methods/stream/site.rs \
    's/\(self\.stale, self\.latest\) = \(true, None\)/(self.stale, self.latest) = (false, None)/' star::tests::sites
mutate "a record whose spend is not added" common/src/privacy/mechanism/records.rs \
    's/spent\.checked_add\(cost\)/spent.checked_add(0)/' mechanism::records
mutate "a filter that looks at the latest record only" common/src/privacy/mechanism/records.rs \
    's/cost > 0 && \*sum <= room/cost > 0 \&\& cost <= room/' mechanism::records
mutate "a record noised with the whole budget whatever it costs" common/src/privacy/mechanism/records.rs \
    's/self\.mu \/ \(room as f64 \/ cost as f64\)\.sqrt\(\)/self.mu/' mechanism
mutate "budgets that do not fall" common/src/privacy/mechanism/records.rs \
    's/self\.epsilon \/ place\.powf\(self\.epsilon_exponent\)/self.epsilon/' mechanism::records
mutate "a budget of the first of the places that share it" common/src/privacy/mechanism/records.rs \
    's/place \| \(\(1 << lower\) - 1\)/place \& !((1 << lower) - 1)/' mechanism::records
mutate "a person who has spent more than the run charged" common/src/privacy/ledger/filter.rs \
    's/next\.most > next\.room/false/' privacy::ledger::tests::filter
mutate "a second account of one run passes a checkpoint" common/src/privacy/ledger/filter.rs \
    's/next\.messages <= before\.messages/next.messages < before.messages/' privacy::ledger::tests::filter
mutate "numbers of a maximum that does not exist" common/src/report/mod.rs \
    's/if self\.termination == Termination::Separation \{/if self.tol < 0.0 {/' after_separation_nothing
where=(-p fedreg-party --lib)
mutate "a person's spend that is not stored" party/src/worker/persons.rs \
    's/i64::try_from\(after\)/i64::try_from(after.min(1))/' worker::persons
mutate "records that leave beyond the budget" party/src/worker/persons.rs \
    's/charge\(digest, place\)\.map_err\(wrong\)\?/(charge(digest, place).map_err(wrong)? || true)/' worker::persons
mutate "a store without the ledger's word goes on" party/src/worker/persons.rs \
    's/let Some\(Checkpoint \{ messages, word, \.\. \}\) = last else/let Some(Checkpoint { messages, word, .. }) = last.filter(|_| false) else/' worker::private
mutate "a word of another store is taken for the ledger's" party/src/worker/persons.rs \
    's/lower\(hex\(nonce\)\) = \?3/?3 = ?3/' worker::private
mutate "places counted anew after a restart" party/src/worker/persons.rs \
    's/DO UPDATE SET records = records \+ \?2 RETURNING/DO UPDATE SET records = ?2 RETURNING/' worker::persons
where=(-p fedreg-common --lib)
mutate "steps of a schedule that shrink by the root" common/src/methods/stream/learner.rs \
    's/length \/ record\.powf\(exponent\)/length \/ record.powf(0.5)/' the_schedules_of_the_source
mutate "a horizon that is not looked at" common/src/methods/stream/learner.rs \
    's/length \/ \(records as f64\)\.powf\(exponent\)/length \/ record.powf(exponent)/' the_schedules_of_the_source
mutate "batches numbered anew after a restart" common/src/methods/robust/site.rs \
    's/self\.offset \+= releases;\n                    \}/}/' star::tests::sites
where=(-p fedreg-tests --test all)
mutate "a perfect fit without a note" common/src/methods/vertical/outcome.rs \
    's/deviance <= PERFECT \* null_deviance/deviance < 0.0/' a_gaussian_fit_that_leaves
mutate "a constant outcome without a note" common/src/methods/vertical/outcome.rs \
    's/counted\.all\(\|value\| value == first\)/counted.all(|value| value < first)/' a_gaussian_fit_that_leaves
mutate "contrasts where there is no intercept" common/src/methods/vertical/prepare.rs \
    's/study\.method\.intercept \|\| !study\.is_first\(role\)/true || !study.is_first(role)/' formulas_with_functions
mutate "the mean of the outcome squared in the tables of a path" common/src/methods/vertical/exchange.rs \
    's/TableKit \{ centre: [^,]*, side \}/TableKit { centre: 0.0, side }/; s/let centre = block\.null_intercept\([^;]*;/let centre = 0.0;/' a_path_ends_in_few
mutate "an intercept without the centre of its outcome" common/src/methods/vertical/fits/list.rs \
    's/beta\[0\] \+= self\.tables\.as_ref\(\)\.map_or\(0\.0, \|kit\| kit\.centre\);/beta[0] += 0.0;/' penalised_fits_reach
mutate "the minimum at the projection" common/src/methods/vertical/subspace.rs \
    's/if along\.abs\(\) <= CAUTION \* direction\.noise \* length/if false/' fits_converge_in_about_as_many_rounds_as_columns_whatever
where=(-p fedreg-common --lib)
kernels=common/src/linalg/kernels.rs
mutate "a block of rows left out of a gradient" $kernels \
    's/vector\.chunks\(BLOCK_ROWS\)\.enumerate\(\) \{/vector.chunks(BLOCK_ROWS).enumerate().skip(1) {/' linalg::kernels rows::tests
mutate "blocks at the end summed up twice" $kernels \
    's/let rest = a\[whole\.\.\]\.chunks/let rest = a[whole.saturating_sub(BLOCK_ROWS)..].chunks/' linalg::kernels
mutate "the second vector of two by the coefficients of the first" $kernels \
    's/\(\(\*two \+ t \* a\)/((*two + p * a)/' linalg::kernels
mutate "a direction left in another of its round" common/src/methods/vertical/subspace.rs \
    's/kernels::subtract\(share, direction, values\);//' subspace::tests::directions_are
mutate "an offset in a study's formula without its place" common/src/data/formula.rs \
    's/formula\.places\.offset = self\.place\(start\);/formula.places.offset = 1;/' study::tests::what_a_partys
mutate "some rows that do not stand for all" common/src/linalg/estimate.rs 's/&left\) \* self\.each\n/&left)\n/' linalg::estimate
mutate "some rows that are the first ones" common/src/linalg/estimate.rs 's/step_by\(every \* PIECE\)/step_by(PIECE).take(rows \/ (every * PIECE))/' linalg::estimate
mutate "an estimate believed whatever it gains" common/src/methods/vertical/joint.rs \
    's/SMALL \* SMALL \* scale/scale/' vertical::joint
mutate "a column of four read twice" $kernels 's/\+ q \* b\)/+ q * a)/' linalg::kernels rows::tests
mutate "a strip of rows counted twice in a pass" common/src/methods/vertical/rows.rs \
    's/for strip in strips \{/let mut strips = strips;\n        if let Some(last) = strips.pop() {\n            strips.extend([Strip { gradients: last.gradients.clone(), scales: last.scales.clone() }, last]);\n        }\n        for strip in strips {/' rows::tests
mutate "predictions of other coefficients taken for known" common/src/methods/vertical/block.rs \
    's/let known = self\.passed == \*beta;/let known = self.passed.len() == beta.len();/' rows::tests
factor=common/src/linalg/factor.rs
mutate "rows whose factor is forgotten" $factor \
    's/            sum\[\(j, j\)\] \+= 1\.0;\n//' linalg::factor
mutate "a column of zeros that stays one whatever comes" $factor \
    's/ && pieces\.iter\(\)\.all\(zeros\)/ \&\& pieces.iter().any(zeros)/' linalg::factor
mutate "a step that is not halved" common/src/methods/vertical/joint.rs \
    's/while !\(reached <= loss \+ SLACK \* loss\.abs\(\)\)/while false/' joint::
mutate "memory taken that others keep" common/src/linalg/values.rs \
    's/ && Arc::get_mut\(&mut spare\.0\)\.is_some\(\)//' linalg::values
mutate "directions freed once of what they are close to" common/src/methods/vertical/subspace.rs \
    's/change\.left > again \* before/change.left > 0.0 * before/' subspace::tests
mutate "directions of one round not freed of each other" common/src/methods/vertical/subspace.rs \
    's/for at in known\.\.self\.directions\.len\(\)/for at in known..known/' subspace::tests
mutate "a partner's vector not summed up" common/src/methods/vertical/rows.rs \
    's/rest\.iter\(\)\.for_each\(\|more\|/rest.iter().skip(1).for_each(|more|/' rows::tests
where=(-p fedreg-tests --test all)
mutate "inflation without the columns of the others" common/src/methods/vertical/block.rs \
    's/if centre \{\n            let sums/if false {\n            let sums/' what_follows_from_a_fit_at_either
mutate "an intercept whose covariance forgets the means" common/src/methods/vertical/outcome/own.rs \
    's/\*at -= scalings/*at += scalings/' what_follows_from_a_fit_at_either
mutate "a term's covariance taken for that of its neighbour" common/src/fit/blocks.rs \
    's/            first \+= size;\n/            first += 1;\n/' what_follows_from_a_fit_at_either
where=(-p fedreg-common --lib)
mutate "a sealed report says that nothing was promised" common/src/methods/vertical/report.rs \
    's/Mode::Sealed => true/Mode::Sealed => false/' report::tests::sealed
mutate "loosened limits are not told" common/src/methods/vertical/prepare.rs \
    's/\(!loosened\.is_empty\(\)\)\.then\(note\)/(loosened.is_empty()).then(note)/' vertical::sealed
mutate "fewer numbers opened than did" common/src/methods/vertical/sealed/opened.rs \
    's/rows \* tables \* self\.bob\)/(rows - 1) * tables * self.bob)/' vertical::sealed
mutate "the only column of alice is not metered" common/src/methods/vertical/sealed/results.rs \
    's/only_column\(work, joined\)\.into_iter\(\)/None.into_iter()/' vertical::sealed
mutate "a spreadsheet may run a name" common/src/report/csv.rs \
    's/if begun && /if false \&\& /' spreadsheet
conversation=common/src/conversation.rs
mutate "a message by another's line" $conversation \
    's/header\.sender != from \|\| //' conversation::tests
mutate "a coordinator that fills the memory" $conversation \
    's/line\.waiting\.len\(\) == AHEAD/false/' conversation::tests
mutate "an answer before the coordinator has spoken" $conversation \
    's/ if answer\.value\(\)\.header\.sequence > sequence//' conversation::tests
mutate "a message not stored before it is acted on" $conversation \
    's/self\.script\.keep\(came, &message\.body\)\?;//' vertical::private::tests
mutate "cells told to a peer" common/src/session.rs \
    's/Abort::Bug\(_\) => format!\("internal error at \{own\}; the reason is shown there only"\)/Abort::Bug(_) => self.to_string()/' what_may_quote_data

mutate "a peer names its terms as it likes" common/src/methods/vertical/names.rs \
    's/if !\(intercept \|\| named \|\| terms\.rest\)/if !(true || intercept || named || terms.rest)/' vertical::names

where=(-p fedreg-party --lib)
mutate "the last of several columns with errors named" party/src/read/parquet.rs \
    's/ReadError>>>\(\)\.into_iter\(\)\.collect\(\)/ReadError>>>().into_iter().rev().collect()/' read::parquet::tests::of_several
mutate "a column read to its end with the rows of another stretch" party/src/read/parquet.rs \
    's/filter\(\|_\| !is_last\)/filter(|_| is_last)/' read::parquet::tests::columns_that_are_read
mutate "numbers that are not finite taken with others" common/src/data/column.rs \
    's/finite & number\.is_finite\(\)/finite | number.is_finite()/' read::parquet::tests::of_several
mutate "signs of life are progress" party/src/drive.rs \
    's/Ok\(Event::Alive\) => return Ok\(Heard::Nothing\),/Ok(Event::Alive) => { self.progress.at = Instant::now(); return Ok(Heard::Nothing); }/' drive::tests::signs_of_life
mutate "a peer that computes is waited for no longer than another" party/src/drive.rs \
    's/self\.patience\.wait\.saturating_add\(session\.allowance\(\)\)/self.patience.wait/' drive::tests::a_peer_that_computes_is_waited
mutate "a silent peer is waited for until its line counts as lost" party/src/drive.rs \
    's/(self\.patience\.silence\.saturating_sub\(self\.heard\.max\(self\.since\)\.elapsed\(\)\))\.min\(left\)/$1/' drive::tests::a_peer_that_falls_silent
mutate "bytes that left count from when that is noticed" party/src/drive/progress.rs \
    's/self\.part_at\(when\)/self.part()/' drive::
mutate "a coordinator that lives and says nothing is waited for without end" party/src/worker/join.rs \
    's/let \(answer, end\) = \(owed\.until\(wait\), self\.end\(\)\);/let (answer, end) = (owed.until(wait).filter(|_| false), self.end());/' join::tests::a_coordinator_whose_line_lives
mutate "cells in the log of runs" party/src/failure.rs \
    's/&& source\.quotes\(\)\n/\&\& source.quotes() \&\& false\n/' failure::tests
mutate "what a decoder says is printed" party/src/read/parquet.rs \
    's/if !DECODING\.get\(\) \{/if true {/' what_a_panic_of_the_decoder_says
mutate "words of the peer lost while the dealer is heard" party/src/drive.rs \
    's/            if from != self\.ends\.peer \{\n                self\.kept\.get_or_insert_default\(\);\n            \}\n//' drive::tests::what_the_peer
mutate "nothing said on a line that was opened again during a step" party/src/drive.rs \
    's/Heard::Opened => self\.unsaid = true,/Heard::Opened => self.unsaid = false,/' drive::tests::a_line_that_breaks_while
mutate "a second data set over a table of a data base taken for another" party/src/ledger/files.rs \
    's/\.chain\(identity\.parts\.iter\(\)\.cloned\(\)\)//' ledger::files::tests::a_second_data_set
mutate "the tables behind a view of SQLite not seen" party/src/read/sqlite.rs \
    's/AuthAction::Read \{ table_name, \.\. \} => \{/AuthAction::Read { table_name, .. } if context.accessor.is_some() => Authorization::Allow,\n        AuthAction::Read { table_name, .. } => {/' read::sqlite::tests::sources_that_read
mutate "a query that does more than read" party/src/read/sqlite.rs \
    's/_ => Authorization::Deny,/_ => Authorization::Allow,/; s/ \|\| !statement\.readonly\(\)//; s/SQLITE_OPEN_READ_ONLY/SQLITE_OPEN_READ_WRITE/' read::sqlite::tests::a_query_may_read
mutate "a password in an address" party/src/read/stated.rs \
    's/is_secret\(&text\) \|\| names\(address\) \|\| names\(authority\)/is_secret(&text)/' read::stated::tests::a_password
mutate "a password of an address shown" party/src/read/stated.rs \
    's/let rest = rest\.rsplit_once\(.@.\)\.map_or\(rest, \|\(_, rest\)\| rest\);//' read::stated::tests::a_password
mutate "rows of the files of a folder counted anew in each" party/src/read/folder.rs \
    's/if rows\.len\(\) < most \{\n                self\.open = None;/if count == 0 || rows.len() <= most {\n                self.open = None;/' read::folder::tests::a_folder_is_one_table
mutate "a dictionary that is never replaced" party/src/read/arrow.rs \
    's/if !more \{/if !more \&\& false {/' read::arrow::tests::dictionaries_go_on
where=(-p fedreg-proto --lib)
mutate "a query in the call of a report" proto/src/output.rs \
    's/            "--query" => \{/            "--no-such-flag" => {/' a_call_is_quoted
mutate "a sentence repeated as its own cause" proto/src/output.rs \
    's/if !text\.ends_with\(&cause_text\) \{/if true || !text.ends_with(\&cause_text) {/' a_sentence_that_already_ends
mutate "files for everybody" proto/src/output.rs \
    's/mode\(&mut options, 0o600\)/mode(&mut options, 0o644)/' output
mutate "settings without end" proto/src/files.rs \
    's/MAX_FILE_BYTES: u64 = 4 << 20/MAX_FILE_BYTES: u64 = 16 << 20/' a_file_too_large

where=(-p fedreg-proto --test edge)
mutate "a vector sent without its first number" proto/src/convert/encode.rs \
    's/cast_slice\(&self\.0\)/cast_slice(self.0.get(1..).unwrap_or_default())/' frames::
mutate "answers of a merge heard twice" proto/src/merge.rs \
    's/if merged\.pass\(\) == asking\.pass\n/if merged.pass() == u32::MAX\n/' a_line_that_is_lost_is_opened_again
mutate "rounds that no run reaches" proto/src/convert/star.rs \
    's/match number < MOST/match number < u64::MAX/' star::
mutate "a hub makes success or a bug of ours" proto/src/convert/star.rs \
    's/if never\.contains\(&told\) \{ Exit::Peer \}/if false \&\& never.contains(\&told) { Exit::Peer }/' star::
mutate "a party has any number of connections" proto/src/tls/crowd.rs \
    's/CONNECTIONS_A_PARTY: usize = 4/CONNECTIONS_A_PARTY: usize = 4000/' crowd
mutate "a connection carries any number of calls" proto/src/tls.rs \
    's/CALLS_A_CONNECTION: u32 = 2/CALLS_A_CONNECTION: u32 = 2000/' crowd
mutate "questions of any length" proto/src/limits.rs \
    's/QUESTION_BYTES: usize = 1 << 10/QUESTION_BYTES: usize = 4 << 20/' crowd
where=(-p fedreg-common --lib)
secure=common/src/secure
mutate "row blocks whose sums f64 cannot hold" $secure/ring.rs \
    's/pub const ROWS: usize = 2048/pub const ROWS: usize = 4096/' secure::tests::ring::a_row_block
mutate "words of a mask taken as they come" $secure/masks.rs \
    's/if !lanes::sound\(words, /if false \&\& !lanes::sound(words, /' secure::tests::masks::streams
mutate "a word of a stream drawn twice" $secure/masks.rs \
    's/\(self\.drawn \/ 2, self\.drawn % 2\)/(self.drawn \/ 2, 0)/' secure::tests::masks::streams
mutate "a short message without its length" common/src/hash.rs \
    's/8 \* message\.len\(\) as u64\)/0)/' hash::tests
mutate "a label twice" $secure/masks.rs \
    's/\*index \+= 1;//' secure::tests::masks::every_name
mutate "masks that do not depend on the run" $secure/masks.rs \
    's/&self\.run\.0\[\.\.\], //' secure::tests::masks::every_name
mutate "a word of a peer not checked" $secure/ring.rs \
    's/if sound \{ Ok/if true || sound { Ok/' secure::tests::ring::words
mutate "the second words of a part checked as first ones" $secure/ring.rs \
    's/let border = self\.count\.clamp\(begin, end\);/let border = end;/' secure::tests::ring::words
mutate "sums over terms that are never reduced" $secure/lanes.rs \
    's/const TERMS: usize = 1 << 10/const TERMS: usize = 1 << 20/' secure::tests::ring::sums_over
mutate "values beyond fixed point" $secure/lanes.rs \
    's/within &= scaled\.abs\(\) <= largest;//' secure::tests::ring::what_fixed_point
table=$secure/product/table.rs
mutate "the correction made for the other side" $table \
    's/expand\(Purpose::TableShare, left\)/expand(Purpose::TableShare, right)/' secure::tests::table
mutate "the share of the masks product twice" $table \
    's/(share\.add\(&dealt\)\.map_err\(Fault::ring\("correction"\)\)\?;)/$1 $1/' secure::tests::table
mutate "a canary that nobody looks at" $table \
    's/if opened != self\.expected/if false \&\& opened != self.expected/' secure::tests::table
mutate "an opened value of any size" $table \
    's/value\.unsigned_abs\(\) > bound\.unsigned_abs\(\)/false \&\& value.unsigned_abs() > bound.unsigned_abs()/' secure::tests::table
mutate "row blocks in any order" $table \
    's/frame\.block != block as u64 \|\| //' secure::tests::table::row_blocks
mutate "an own level that the outcome shows" common/src/methods/vertical/sealed/limits.rs \
    's/\(other as u64\)\.saturating_add\(1\)/(other as u64)/' sealed::tests::what_may_not_open
mutate "a fold without its complement" $secure/open.rs \
    's/\[Rows::Fold\(fold\), Rows::Without\(fold\)\]/[Rows::Fold(fold)]/' secure::tests::limits
mutate "columns that depend across are kept" $secure/gaussian.rs \
    's/if pivot > across \* of_own/if pivot > 0.0 * across * of_own/' secure::tests::gaussian
mutate "a basis factored once" $secure/basis.rs \
    's/self\.factors\.push\(second\.factor\(\)\.clone\(\)\);//' secure::tests::gaussian
mutate "the constant polynomial sent through products" $secure/kernel.rs \
    's/\[first \* self\.terms\.\.\]/[..(self.terms - first) * self.terms]/' secure::tests::glm
mutate "an angle that the peer does not have" $secure/kernel.rs \
    's/\(u \* self\.theta\.sin\(\)\)\.asin\(\) \/ self\.theta/u/' secure::tests::glm::every_kernel
mutate "predictors beyond the range" $secure/kernel.rs \
    's/\.clamp\(-1\.0, 1\.0\);/;/' secure::tests::glm::predictors
mutate "a step that climbs is kept" $secure/optimiser.rs \
    's/let accepted = slope <= 0\.5 \* line\.slope\.abs\(\) && gained/let accepted = true || gained/' secure::tests::glm::a_step
mutate "a step with a larger gradient is kept" $secure/optimiser.rs \
    's/gradient\.amax\(\) < before\.amax\(\)/gradient.amax() < before.amax() || true/' secure::tests::glm::a_step
mutate "products within rows without the dealer" $secure/product/rows.rs \
    's/\(Some\(mask\), None\) => mask\.block\(block, shape\.length\(block\)\)/(Some(_), None) => Elements::zeros(shape.width, shape.length(block))/' secure::tests::vector
mutate "a canary of rows that nobody looks at" $secure/product/rows.rs \
    's/if opened == self\.expected/if true || opened == self.expected/' secure::tests::vector
mutate "a vector without the peer part" $secure/product/vector.rs \
    's/of_mine\.add_fixed\(&columns, shape\.bits, &whole\)/of_mine.add_fixed(\&columns, shape.bits, vector)/' secure::tests::vector
mutate "masks of a table in place of those of a later one" $secure/dealing.rs \
    's/self\.foreseen\.forget\(\);//' secure::tests::dealing
mutate "a mask of a vector for two products" $secure/product/vector.rs \
    's/self\.waiting\.pop_front\(\)/self.waiting.front().cloned()/' secure::tests::dealing
mutate "the block between without the own part" $secure/product/weighted.rs \
    's/whole\.add\(&frame\.entries\)\.map_err\(Fault::ring\("weighted block"\)\)\?;//' secure::tests::vector::weighted
mutate "a weighted square that is not symmetric" $secure/product/weighted.rs \
    's/all\.add\(&transposed\)/all.add(\&all.clone())/' secure::tests::vector::weighted
received=secure::tests::received
mutate "columns and factors without their mask" $secure/lanes.rs \
    's/\*hidden = rest\(\*own, \*mask, packed\)/*hidden = rest(*own, 0 * *mask, packed)/' sealed::tests::transcript::all_that $received::columns
mutate "a share of residuals without its mask" $secure/product/vector.rs \
    's/entries\.subtract\(&self\.mask\.block\(block, rows\)\)/entries.subtract(\&Elements::zeros(self.shape.width, rows))/' $received::shares
mutate "a share of weights without its mask" $secure/product/weighted.rs \
    's/entries\.subtract\(&self\.vector\.block\(block, rows\)\)/entries.subtract(\&Elements::zeros(self.shape.width, rows))/' $received::weights
mutate "columns with weights without their second mask" $secure/product/weighted.rs \
    's/weighted\.subtract\(&mask\)\.map_err\(&bad\)\?;//' $received::weights
mutate "corrections of rows that are the product of the masks" $secure/product/rows.rs \
    's/sums\.subtract\(&self\.share\.block\(block, rows\)\)/sums.subtract(\&Elements::zeros(shape.width, rows))/' $received::factors
mutate "an order with more terms than were declared" common/src/methods/vertical/sealed/glm.rs \
    's/Some\(RowShape \{ width: Width::Two, bits, rows: self\.sizes\.rows, terms, corrected \}\)/Some(RowShape { width: Width::Two, bits, rows: self.sizes.rows, terms: terms + usize::from(self.corrected == 2), corrected })/' sealed::tests::transcript::the_dealer
mutate "a gradient foretold without its public integers" common/src/methods/vertical/sealed/limits.rs \
    's/factors\.bytes\(\)\.saturating_add/(factors.bytes() - 16 * terms as u64).saturating_add/' sealed::tests::bytes
mutate "columns leave before the limits are looked at" common/src/methods/vertical/sealed/session.rs \
    's/within_limits\(&study, role, &limits, &sizes, \(&encoded, peer_columns\), Before::default\(\)\)\?;/Fewest::NONE;/' sealed::tests::what_may_not_open
mutate "numbers that opened in earlier runs" common/src/privacy/ledger/state.rs \
    's/\*name != run \&\& data_sets\.contains\(\&opened\.data_set\)/false/' openings::tests
mutate "tables of linked data sets not compared" common/src/privacy/ledger/openings.rs \
    's/data_sets\.contains\(\&opened\.data_set\) \&\& !seen/opened.data_set == opening.data_set \&\& !seen/' openings::tests::data_sets_that
mutate "rows that differ from those of an earlier table by one" common/src/privacy/ledger/openings.rs \
    's/few\.filter\(\|rows\| \*rows < fewest\.rows\)/few.filter(|rows| *rows < fewest.rows \&\& fewest.rows == 0)/' openings::tests
mutate "rows between tables that only the number of columns counts" common/src/privacy/openings.rs \
    's/\.max\(self\.apart\.rows\)//' openings::tests
mutate "a column of two values that asks for no rows between tables" common/src/methods/vertical/sealed/limits.rs \
    's/rows: limits\.part\(named\.iter\(\)\.copied\(\), weights, numbers\)/rows: 0/' sealed::tests::limits
mutate "tables whose rows are told apart by different columns" common/src/privacy/ledger/openings.rs \
    's/\*before == opening\.told_by/true/' openings::tests
mutate "a run that takes the place of an earlier one" common/src/privacy/ledger/openings.rs \
    's/            transaction\.goes_on\(opening\)\?;\n//' openings::tests
mutate "single values that changed between tables" common/src/privacy/ledger/openings.rs \
    's/self\.compare_values\(opening, &run, &opened, fewest\.values\)\?;//' openings::tests
mutate "the level of a factor that has no column" common/src/methods/vertical/sealed/limits.rs \
    's/let exclude = columns\.len\(\) > 1/let exclude = columns.len() > 9/' sealed::tests::limits
mutate "a sum of columns that no number holds, at the dealer" common/src/secure/dealing.rs \
    's/all\.saturating_sub\(\*columns\)\.saturating_sub\(parties\)/all - columns - parties/' secure::tests::several
mutate "every study file of a site that differs is named" common/src/star/hub/rejections.rs \
    's/self\.differing\.insert\(site\.to_string\(\), keys\)/self.differing.insert(format!("{site} {keys}"), keys)/' star::tests
mutate "rows of a table that were dropped" common/src/privacy/openings.rs \
    's/opens\.dropped\.is_none_or\(\|dropped\| !dropped\.is_set\(\*at\)\)/true/' openings::tests
mutate "numbers that leave without an account" common/src/methods/vertical/sealed/session.rs \
    's/                self\.count\(self\.shape\.left \* self\.shape\.right\)\?;\n//' sealed::tests::every_number
mutate "the share of bob beside a canary that nobody has checked" $secure/product/table.rs \
    's/if opened != self\.expected \{/if false \&\& opened != self.expected {/' sealed::tests::masks_out_of_step
mutate "a sealed fit without the columns that are set aside" common/src/methods/vertical/sealed/results.rs \
    's/ - work\.dropped\(\)\.len\(\)//' sealed::tests::columns_that_depend
cross=common/src/methods/vertical/private/crossprod.rs
mutate "a share without its noise" common/src/privacy/mechanism/share.rs \
    's/Elements::from_integers\(share\.width\(\), &noise\)/Elements::zeros(share.width(), noise.len())/' mechanism::share
mutate "a share whose noise is on its first entry alone" common/src/privacy/mechanism/share.rs \
    's/(\.map\(i128::from\)\.sum\(\))\)\.collect\(\);/$1).enumerate().map(|(at, noise): (usize, i128)| if at == 0 { noise } else { 0 }).collect();/' mechanism::share
mutate "the other side without noise" common/src/privacy/mechanism/share.rs \
    's/for share in shares \{/for share in \&shares[..1] {/' mechanism::share
mutate "a share sent before its noise" common/src/methods/vertical/terms.rs \
    's/(let membership = self\.head\.matching\.iter\(\)\.map\(\|_\| Declaration::Membership\));/$1.chain(Some(Declaration::CrossProducts));/' private::tests::crossprod
mutate "masks made anew for a stored share" $cross \
    's/let stored = held\.reserved && held\.stored\(index\)\?\.is_some\(\);/let stored = false;/' private::tests::crossprod
mutate "a share with fresh noise for one that was stored" common/src/privacy/ledger.rs \
    's/if let Some\(\(receipt, digest\)\) = known\.stored\.get\(&index\)\.cloned\(\) \{/if let (false, Some((receipt, digest))) = (index == 2, known.stored.get(\&index).cloned()) {/' private::tests::crossprod
mutate "a peer waited for whose share was for other masks" $cross \
    's/\(self\.resumed && waits\)/(false \&\& waits)/' private::tests::crossprod
mutate "a gradient of half its sensitivity" common/src/methods/vertical/plan/logistic.rs \
    's/<< 16\) as f64/<< 15) as f64/' plan::logistic
mutate "means that never leave the unit interval" common/src/methods/vertical/plan/logistic.rs \
    's/\(self\.whole \+ 2 \* self\.excess\(\)\) << 16/self.whole << 16/' plan::logistic
logistic=common/src/methods/vertical/private/logistic.rs
mutate "masks made anew for the stored share of a gradient" $logistic \
    's/while held\.reserved\n/while held.reserved \&\& past < 1\n/' private::tests::logistic
mutate "a peer waited for whose gradient was for other masks" $logistic \
    's/\(self\.resumed && waits\)/(false \&\& waits)/' private::tests::logistic
mutate "means whose canary nobody compares" $logistic \
    's/\?\.check\(&canary\)\.map_err\(peer_fault\)\?;/?.share();/' private::tests::logistic
mutate "an outcome that both sides subtract" $logistic \
    's/self\.pair\.leads\(\)\.then_some/true.then_some/' private::tests::logistic
mutate "an outcome at alice that costs a binomial model nothing" common/src/methods/vertical/plan/logistic.rs \
    's/const JOINT: f64 = 13\.5;/const JOINT: f64 = 12.0;/' plan::logistic
mutate "a gradient that an outcome moves no more than a row" common/src/methods/vertical/plan/logistic.rs \
    's/12f64\.sqrt\(\)\.next_up\(\) \*/4f64.sqrt().next_up() */' plan::logistic
mutate "counts whose linear predictor is not cut" common/src/methods/vertical/plan/logistic/evaluation.rs \
    's/\(\*eta - end\)\.min\(0\.0\)/*eta - end/; s/eta\.exp\(\)\.min\(1\.0\)/eta.exp()/' plan::logistic
mutate "factors of counts that round beyond their root" common/src/methods/vertical/plan/logistic.rs \
    's/\|root\| root \* root/|root| root * root + root + 1/' plan::logistic
mutate "counts in units of one in place of the largest" common/src/methods/vertical/plan/logistic/evaluation.rs \
    's/\(0\.5 \* \(t \+ 1\.0\) \* whole\)\.round/(0.5 * (t + 1.0) * whole * 8.0).round/' private::tests::logistic::what_opens
mutate "an intercept without the largest count" common/src/methods/vertical/plan/logistic/evaluation.rs \
    's/values\[0\] \+= \(2\.0 \* outcome\.half_range\(\)\)\.ln\(\)/values[0] += 0.0 * outcome.half_range()/' private::tests::logistic::with_hardly
mutate "gradients that open without noise" common/src/privacy/mechanism/share.rs \
    's/Elements::from_integers\(share\.width\(\), &noise\)/Elements::zeros(share.width(), noise.len())/' private::tests::logistic::what_opens
mutate "gradients of counts that keep what the cut takes" common/src/methods/vertical/plan/logistic.rs \
    's/Outcomes::Counts => opened -= self\.missing\(\) \* rows,/Outcomes::Counts => {}/' plan::logistic::tests::errors_of_counts
mutate "standard errors of counts" $logistic \
    's/Family::Poisson => false,/Family::Poisson => study.method.inference.allowed,/' private::tests::logistic::with_hardly
mutate "a run of counts that goes on with another outcome" common/src/methods/vertical/private/table.rs \
    's/Family::Gaussian\) => rows,/Family::Gaussian | Family::Poisson) => rows,/; s/Family::Binomial \| Family::Poisson\)\n/Family::Binomial)\n/' private::tests::logistic::another
mutate "three integers of noise charged and one added" common/src/privacy/mechanism/share.rs \
    's/share\.count\(\) \* unit\.draws as usize/share.count()/; s/drawn\.chunks\(unit\.draws\.max\(1\) as usize\)/drawn.chunks(1)/' private::tests::logistic::what_opens
mutate "the exact mean of an outcome at alice" common/src/methods/vertical/plan/logistic/evaluation.rs \
    's/self\.mean_within_noise\(mean\)\)/outcome.values().iter().map(|t| 0.5 * (t + 1.0)).sum::<f64>() \/ setup.rows as f64)/' private::tests::logistic::with_hardly
mutate "an outcome at alice whose values end a run" common/src/methods/vertical/private/table.rs \
    's/holder == role && refuse,/holder == role,/' private::tests::logistic::an_outcome
mutate "columns that passed anew and are forgotten by the next process" $logistic \
    's/\*anew = exchange == 0 \|\| held\.is_noted\(number\)\?;/*anew = exchange == 0 || exchange as usize == past;/' private::tests::logistic::a_run_that_is
mutate "a private penalty that meets the intercept" common/src/methods/vertical/plan/crossprod/penalised.rs \
    's/ - &lean \* lean\.transpose\(\) \* constant//' plan::crossprod::tests::without_noise_penalised
mutate "a private penalty on the scale of half ranges" common/src/methods/vertical/plan/crossprod/penalised.rs \
    's/lambda \/ unit/lambda \/ 1.0/' plan::crossprod::tests::without_noise_penalised
mutate "a private penalty from a table that is not lifted" common/src/methods/vertical/plan/crossprod/penalised.rs \
    's/lifted\(&opened\.joint, self\.floor\(\), 0\.0\)/lifted(\&opened.joint, 0.0 * self.floor(), 0.0)/' plan::crossprod::tests::a_penalised_fit
mutate "standard errors of penalised private estimates" common/src/methods/vertical/private/crossprod.rs \
    's/ && study\.method\.penalty\.is_none\(\);/;/' private::tests::crossprod::a_path_costs
mutate "an outcome at alice that costs nothing" common/src/methods/vertical/plan/crossprod.rs \
    's/&alone, 10f64\.sqrt\(\)\.next_up\(\)/\&alone, 8f64.sqrt().next_up()/; s/let sigma = 10f64/let sigma = 8f64/' plan::crossprod mechanism::share
mutate "rows beyond their norm by what truncation leaves" common/src/privacy/bounds.rs \
    's/\(value \* factor\)\.trunc\(\)/(value * factor).round()/; s/\.sum::<i64>\(\) > limit \{/.sum::<i64>() > limit + limit \/ 64 {/' bounds::tests plan::crossprod
mutate "a path of other lambdas than the study's" common/src/methods/vertical/sealed/penalised.rs \
    's/if !agreed \|\| !possible/if !possible/' penalised::tests
mutate "a factor of columns of any size" common/src/methods/vertical/sealed/penalised.rs \
    's/if !\(0\.\.size\)\.all\(sound\) \|\| /if /' penalised::tests
mutate "seeds with every product" $secure/dealing.rs \
    's/std::mem::replace\(&mut self\.given, true\)/std::mem::replace(\&mut self.given, false)/' secure::tests::dealing
mutate "products that the parties do not both order" $secure/dealing.rs \
    's/find\(\|\(_, other\)\| !same\(&first, other\)\)/find(|(_, other)| false \&\& !same(\&first, other))/' secure::tests::dealing
mutate "bits for which nothing is proved" $secure/dealing.rs \
    's/if bits != expected \&\& /if false \&\& /' secure::tests::dealing
mutate "corrections of rows out of turn" $secure/dealing.rs \
    's/\(corrected != turn,/(false \&\& corrected != turn,/' secure::tests::dealing
mutate "products with columns that no table has" $secure/dealing.rs \
    's/\&\& \(1\.\.=table\.left\)\.contains\(&left\)//' secure::tests::dealing
sealed=common/src/methods/vertical/sealed
mutate "an outcome at the scale of one factor" $sealed/glm/point.rs \
    's/share\.subtract\(&scaled\(rows, bits\)\?\)/share.subtract(\&Elements::fixed(Width::Two, rows, bits).map_err(bug)?)/' sealed::tests::glm::a_sealed_fit
mutate "an intercept that both parties add" $sealed/glm/point.rs \
    's/ \&\& self\.part\(\) == Part::Functions \{/ {/' sealed::tests::glm::a_sealed_fit
beside=sealed::tests::glm::offsets_weights
mutate "case weights that count twice" $sealed/glm/point.rs \
    's/let roots = roots\.filter\(\|_\| kernel == Kernel::Mean\);\n//' $beside
mutate "an intercept without case weights" $sealed/glm.rs \
    's/roots: self\.roots\(\) \}/roots: None }/' $beside
mutate "an offset that stays out of the predictor" $sealed/glm.rs \
    's/if let Some\(offset\) = self\.offset \{/if let Some(offset) = self.offset.filter(|_| false) {/' $beside
mutate "rows of weight zero count as rows" $sealed/limits.rs \
    's/map_or\(rows as u64, effective_rows\)/map_or(rows as u64, |_| rows as u64)/' sealed::tests::rows_of_weight_zero
mutate "shares of another evaluation" common/src/methods/vertical/products.rs \
    's/match came == number \{/match true || came == number {/' sealed::tests::glm::shares_that
mutate "a gradient beside a canary that nobody has checked" $sealed/glm.rs \
    's/            canary\.check\(&peer\.slice\(at\.\.at \+ 1\)\)\.map_err\(peer_fault\)\?;\n/            let _ = (at, canary);\n/' sealed::tests::glm::a_dealer_whose
mutate "a poisson fit that waits for digits of a kernel" common/src/secure/kernel.rs \
    's/family == Family::Poisson \|\| digits/digits/' secure::tests::glm::a_descent
mutate "gradients without an account" $sealed/session.rs \
    's/                self\.count\(opens\)\?;\n/                let _ = opens;\n/' sealed::tests::glm::every_number
mutate "gradients beyond what may open" $sealed/glm.rs \
    's/if u64::from\(self\.points\) >/if false \&\& u64::from(self.points) >/g' sealed::tests::glm::a_fit_ends
mutate "a point of too large means that ends the fit" $sealed/glm/lead.rs \
    's/_ if self\.family != Family::Poisson => false/_ if true => false/' sealed::tests::glm::a_poisson_fit_makes
mutate "an end at a point without a gradient" $sealed/glm.rs \
    's/end == End::Converged && !self\.unsummed &&/end == End::Converged \&\& self.evaluations == 0 \&\&/' sealed::tests::glm::a_fit_does_not_end
mutate "a refused step that leaves the slope at its whole length" $secure/optimiser.rs \
    's/line\.step \*= 0\.5;//' secure::tests::glm::a_step_to
mutate "columns that are set aside stay in the gradient" $sealed/glm/lead.rs \
    's/gradient\(opened, bits, rows, self\.map\.as_ref\(\)\)/gradient(opened, bits, rows, None)/' sealed::tests::glm::columns_that_depend
both=sealed::tests::both
mutate "a table that opens to bob without alice's account" $sealed/limits.rs \
    's/if self\.leads\(role\) && !self\.both \{ 0 \}/if self.leads(role) { 0 }/' $both::alices_own
mutate "a table that opens to bob and is in no list" $sealed/results.rs \
    's/then\(\|\| opening\.table\(\)\)/then(|| opening.table()).filter(|_| false)/' $both::each_share
mutate "a solution that bob does not compare with the table" $sealed/session/both.rs \
    's/match sound \{/match true || sound {/' $both::what_does
mutate "gradients that open to bob without alice's account" $sealed/limits.rs \
    's/if !self\.both \{/if self.both || !self.both {/' $both::alices_own_limit_counts_gradients
mutate "gradients that open to bob and are in no list" $sealed/results.rs \
    's/if to_both \{/if to_both \&\& false {/' $both::whatever_opens
mutate "a gradient that bob reads at another scale" $sealed/glm.rs \
    's/None => self\.seen\.take_gradient\(&opened, \[columns, bits\]/None => self.seen.take_gradient(\&opened, [columns, bits + 1]/' $both::gradients_and_tables
mutate "coordinates that bob does not compare with the weighted table" $sealed/session/both.rs \
    's/near\(&own, DIGITS\) &&/near(\&own, 1e9) \&\&/' $both::what_does_not_follow_from_gradients
range=sealed::tests::range
mutate "a class of the rows in place of the range that the study fixes" $sealed/glm/point.rs \
    's/let range = stated\.unwrap_or_else\(\|\| match family/let range = None.unwrap_or_else(|| match family/' $range::with_a_fixed_range
mutate "a part beyond the fixed range that is not cut" $sealed/glm/point.rs \
    's/\*eta = eta\.clamp\(-range, range\)/*eta = eta.max(f64::NEG_INFINITY)/' $range::a_fit_beyond
mutate "a party that does not say that it has cut its part" $sealed/results.rs \
    's/filter\(\|glm\| glm\.was_cut\(\)\)/filter(|glm| glm.was_cut() \&\& false)/' $range::a_fit_beyond
mutate "a range in messages that is not the one of the study" $sealed/glm/point.rs \
    's/return range == stated;/return range >= 0.0 * stated;/' $range::a_range_in
mutate "a poisson range beyond what fixed point holds" $sealed/session.rs \
    's/        holds_range\(&sizes\)\?;\n//' $range::a_poisson_range
along=sealed::tests::along
mutate "a penalty in the coordinates of the bases" $sealed/penalised/gradients.rs \
    's/factor\.view_mut\(\(first, first\), own\.shape\(\)\)\.copy_from\(own\);//' $along::a_penalised_fit
mutate "a penalised fit that ends before the optimality conditions hold" $sealed/glm/along.rs \
    's/at\.error == 0\.0 \&\& kkt <= TOLERANCE \*/kkt <= 1e5 * TOLERANCE */' $along::a_penalised_fit
mutate "a penalised intercept" $sealed/penalised/gradients.rs \
    's/repeat_n\(&0\.0, first\)/repeat_n(\&1.0, first)/' $along::a_penalised_fit
mutate "a deviance without what the last step changes" $sealed/glm/along.rs \
    's/loss: Some\(loss \+ change\)/loss: Some(loss + 0.0 * change - 1e-6)/' $along::a_penalised_fit
mutate "sums that were asked for twice" $sealed/glm.rs \
    's/code == SUM \&\& self\.unsummed/code == SUM/' $along::a_sum
mutate "a path for which there is no room" $sealed/limits.rs \
    's/GRADIENTS_A_LAMBDA\.saturating_mul\(lambdas as u64\)/1 + 0 * lambdas as u64/' $along::a_path_beyond
mutate "a refused path that does not say how long it may be" $sealed/limits.rs \
    's/lambdas_within\(role, \*before, \*most\)/lambdas_within(role, 0, 0 * *before * *most)/' $along::a_path_beyond
mutate "factors and sums at lambdas that stand in no list" $sealed/results/along.rs \
    's/sizes\s+\.losses_opened\(\)/sizes.losses_opened().filter(|_| false)/' $along::every_number
mutate "fewer lambdas than the study's of a fit that has converged" $sealed/penalised.rs \
    's/ \&\& !\(partly \&\& fewer\)/ \&\& !fewer/' $along::a_path_that_cannot
where=(-p fedreg-common --test study_digests)
mutate "sealed cross-validation of binomial models" common/src/methods/vertical/terms/sealed.rs \
    's/penalty\.cv\.is_some\(\)\)/penalty.cv == Some(0))/' sealed

where=(-p fedreg-proto --test edge)
mutate "a second seed taken" proto/src/convert/dealer.rs \
    's/Kind::Seed\(_\) if self\.seeded =>/Kind::Seed(_) if false =>/; s/if !self\.seeded => \{/=> {/' dealer::nothing_but
mutate "a correction of any size" proto/src/convert/dealer.rs \
    's/if !sizes\.contains\(&elements\) \{/if false \&\& !sizes.contains(\&elements) {/' dealer::nothing_but
mutate "corrections of rows in any order" proto/src/convert/dealer.rs \
    's/if first != passed as u64 \{/if false \&\& first != passed as u64 {/' dealer::corrections_of_rows
mutate "a dealer that is gone waited for" proto/src/dealer.rs \
    's/if self\.decoder\.is_complete\(\) \{/if true {/' dealer::a_line_that_ends
mutate "elements of three words" proto/src/convert.rs \
    's/2 => Ok\(Width::Two\)/2 | 3 => Ok(Width::Two)/' sealed::elements_have

where=(-p fedreg-coordinator --lib)
mutate "another list counted in the same pass of a match" coordinator/src/merge/lists.rs \
    's/line\.list == list\)/line.list.len() == list.len())/' merge::
mutate "a list merged before the digest of it is looked at" coordinator/src/merge.rs \
    's/position\(\|same\| !same\)/position(|_| false)/' merge::tests::another_list
mutate "seeds that nobody drew" coordinator/src/dealer.rs \
    's/try_fill_bytes\(seed\)/try_fill_bytes(\&mut seed[..0])/' dealer::tests
mutate "masks handed out to two lines of a party" coordinator/src/dealer.rs \
    's/            if state\.came\[place\] \{\n/            if false {\n/' dealer::tests::masks
mutate "ready is as good as joined" coordinator/src/register.rs \
    's/is_none_or\(\|party\| !party\.joined\) =>/is_none_or(|party| !party.joined \&\& false) =>/; s/party\.joined && party\.state == PeerState::Ready/party.state == PeerState::Ready/' register::tests::a_party_that_is_ready
mutate "what is said of a run that is over ends the next" coordinator/src/register.rs \
    's/            _ if self\.is_late\(from\) => Vec::new\(\),\n//' register::tests::what_ended_one_run
mutate "a deadline by a clock that can be set" coordinator/src/star.rs \
    's/self\.due\.(filter|map_or)/due(self.job, \&self.state).$1/g' a_clock_that_is_set
mutate "a party left alone" coordinator/src/dealer.rs \
    's/if !done \{/if false {/' dealer::tests::a_party_that_leaves

where=(-p fedreg-examples --test records)
mutate "rows of a private run read again after the first contact" party/src/worker/join.rs \
    's/\(Some\(prepared\), _\) => prepared,/(Some(read), _) => { drop(read); let encoding = Encoding::new(study, config.written()).lenient(); let source = Source::open(config, encoding, study.site_terms().batch_rows, arrival)?; let mut again = Prepared::new(study, source, config.policy.min_rows.unwrap_or(0))?; again.read()?; again }/' a_private_run_goes_on_with_the_rows
where=(-p fedreg-examples --test private)
mutate "a private table between two parties read after the first contact" party/src/private.rs \
    's/const READS_FIRST: bool = true/const READS_FIRST: bool = false/' a_party_whose_table_is_broken
where=(-p fedreg-examples --test sealed)
mutate "a sealed run taken up by a party without its masks" coordinator/src/register.rs \
    's/if !self\.sealed \|\| !another/if true || !another/' whose_party_was_killed
mutate "a sealed fit that is over where the other party was killed" party/src/service.rs \
    's/self\.left > 0 && failure\.is_of_lost_masks\(\)/false \&\& failure.is_of_lost_masks()/' whose_party_was_killed

where=(-p fedreg-examples --test matching_ends)
mutate "matches counted in the state folder alone" party/src/matching/rations.rs \
    's/let \[state, anchor\] = \[lines\(&places\[0\]\)\?, lines\(&places\[1\]\)\?\];/let [state, anchor] = [lines(\&places[0])?, BTreeSet::new()];/' \
    a_state_folder_that_is_deleted
mutate "a match that nobody else is in goes on for ever" party/src/meet.rs \
    's/self\.came_with && self\.awaited\(\)\.1 == PeerState::Absent/false/' a_match_that_the_other_party a_match_by_pairs
mutate "a match that was refused kept" party/src/matching/attempt.rs \
    's/if passes && !nobodys \{/if !nobodys {/' a_match_whose_other_party
mutate "a match by pairs with another secret after a crash" party/src/matching/journal.rs \
    's/Some\(begun\) => Kept::resume\(&path, begun\.seed\)/Some(_) => Kept::resume(\&path, fresh)/' a_match_by_pairs a_party_that_is_killed_in_any_phase

# Record matching: unit tests of fedreg-common again.
where=(-p fedreg-common --lib)
match=common/src/methods/vertical/matching
mutate "a proof of a match that is the same of both parties" $match/agreement.rs \
    's/\[role\.name\(\)\.as_bytes\(\), &tags\.concat\(\)\]/[b"".as_slice(), &tags.concat()]/' matching::tests::hostile::the_own_proof
mutate "a proof of a match by its keys alone" $match/mod.rs \
    's/let scalar = self\.scalar\(PASS_OF_PROOF\)\?;/let scalar = Scalar::derive(\&[0; 32], \&self.run, 0).expect("a scalar");/' matching::tests::hostile::who_names
mutate "rows of tiny weight counted as rows" common/src/secure/open.rs \
    's/if squares > 0\.0 \{ .*? \} else \{ 0 \}/if squares > 0.0 { weights.len() as u64 } else { 0 }/' secure::tests::limits::rows_of_tiny
mutate "false links not scaled to the table of the peer" common/src/data/matching/records.rs \
    's/let times = \(peer \/ self\.records as f64\)/let times = (1.0_f64)/' data::matching::records::tests
mutate "a scalar used in every pass" common/src/secure/group.rs \
    's/(b"fedreg match scalar"\.as_slice\(\), run\.0\.as_slice\(\), )pass\.to_le_bytes\(\)/${1}(pass - pass).to_le_bytes()/' secure::group::tests::scalars
mutate "a pass masked by the scalar of the first" $match/direct.rs \
    's/self\.scalar\(self\.pass as u32\)/self.scalar(0)/' matching::tests::every_pass
mutate "a scalar used in every run" common/src/secure/group.rs \
    's/(b"fedreg match scalar"\.as_slice\(\), )run\.0\.as_slice\(\), /$1/' secure::group::tests::scalars
mutate "the identity taken for an element" common/src/secure/group.rs \
    's/\.filter\(\|element\| !element\.is_identity\(\)\)//' secure::group::tests::elements matching::tests::hostile
mutate "matches revealed before the gate" $match/mod.rs \
    's/if !self\.gate\(lists\.counts, lists\.sizes\[1 - side\], counted\) \{/if !self.gate(lists.counts, lists.sizes[1 - side], counted) \&\& self.pass > 0 {/; s/(Stage::Reveal \{ lists, turns, revealed, before \} if turns\.next\(\)\.is_none\(\) => \{)/$1\n                    if !self.passes[0].revealed {\n                        return Err(self.closed());\n                    }/' \
    matching::tests::a_first_pass
mutate "the policy of the peer left out of the gate" $match/checks.rs \
    's/self\.min_matched = self\.min_matched\.max\(theirs\.min_matched\);//' matching::tests::a_first_pass
mutate "counts not compared" $match/mod.rs \
    's/if came\.number != expected \{\n(\s+let what = "a count of matches")/if came.number > u64::from(u32::MAX) {\n$1/' matching::tests::hostile::sizes
mutate "keys compared as they stand in the file" common/src/data/matching/normalise.rs \
    's/Some\(identifier\(text\)\)/Some(text.to_owned())/' matching::tests::hostile::keys_normalised matching::normalise::tests::identifiers
mutate "other versions of Unicode matched" $match/checks.rs \
    's/\(theirs\.normaliser, theirs\.unicode\) != \(own\.normaliser, own\.unicode\)/theirs.normaliser != own.normaliser/' matching::tests::hostile::other_rules
mutate "lists in the order of the file" $match/lists.rs \
    's/masked\.par_sort_unstable\(\);//' matching::tests::messages_do_not matching::tests::nothing_but
mutate "matched records in the order of the file" $match/mod.rs \
    's/self\.order\.extend\(records\);/self.order.extend(records); self.order.sort_unstable();/' matching::tests::the_matched_records
mutate "lists of a peer in any order" $match/lists.rs \
    's/last\.is_some_and\(\|last\| last >= \*value\)/last.is_some_and(|_| false)/' matching::tests::hostile::elements
mutate "the own proof taken back" $match/agreement.rs \
    's/came != self\.proof\(self\.peer, &theirs\)\?/came != self.proof(self.peer, \&theirs)? \&\& came != self.proof(self.role, \&theirs)?/' \
    matching::tests::hostile::the_own_proof
several=common/src/methods/vertical/several/matching.rs
mutate "reveal before every pair's gate" $several \
    's/released: None, common/released: Some(Hold::Counts), common/' matching::tests::several::nobody_reveals matching::tests::several::the_leader_asks
mutate "membership told before the common gate" $several \
    's/if \(places\.len\(\) as u64\) < fewest \{/if places.is_empty() \&\& fewest > 0 {/' matching::tests::several::no_follower_is_told
mutate "a follower's map credited to another" $several \
    's/self\.pairs\.iter_mut\(\)\.zip\(&linked\)/self.pairs.iter_mut().zip(linked.iter().rev())/' matching::tests::several::all_find
mutate "one scalar for all pairs" $several \
    's/&opening\.seed, peer\.name\(\)\.as_bytes\(\)\]/\&opening.seed, b"".as_slice()]/' matching::tests::several::a_follower_hears
mutate "the common order that of the leader's file" $several \
    's/places\.sort_unstable\(\);//' matching::tests::several::a_follower_hears
mutate "the last of a proof said before all have proved" $match/several.rs \
    's/&& agreement\.is_at_its_last\(\)/\&\& self.pass > 99 \&\& agreement.is_at_its_last()/' matching::tests::several::the_leader_asks
mutate "entries of two records taken for one" $match/several.rs \
    's/ \|\| known\.windows\(2\)\.any\(\|pair\| pair\[0\] == pair\[1\]\)//' matching::tests::several::entries_of
mutate "a record linked by two passes" $match/several.rs \
    's/\.filter\(\|\(_, _, first\)\| !linked\.contains\(first\)\)/.filter(|_| true)/' matching::tests::several::a_record_that matching::tests::several::all_find
mutate "shared dummies of a merge not looked for" $match/merging.rs \
    's/self\.is_complete\(\) && self\.shared != SHARED/self.is_complete() \&\& self.shared > SHARED/' matching::tests::merged::a_coordinator_that_drops
mutate "own dummies taken for matches" $match/merging.rs \
    's/\(_, NO_RECORD\) => return Err\("no dummy that the peer does not have"\),/(_, NO_RECORD) => {}/' matching::tests::merged::a_coordinator_that_invents
mutate "positions of a merge asked for before the gate" $match/merging.rs \
    's/(if !self\.gate\(merging)/self.requests.push_back(Request::Positions { pass: self.pass as u32 });\n        $1/; s/(return self\.behind_the_gate\(\);\n        \}\n)\s+self\.requests\.push_back\([^\n]*\n/$1/' \
    matching::tests::merged::a_closed_gate
mutate "positions of a merge in any order" $match/merging.rs \
    's/last\.is_some_and\(\|last\| last >= \*position\)/last.is_some_and(|_| false)/' matching::tests::merged::what_cannot_be
mutate "answers of the coordinator not kept" $match/mod.rs \
    's/self\.keep\(journal::ANSWERS \| sequence, body\)/{ let _ = (sequence, body); Ok(()) }/' matching::tests::resumed::a_party_that_is_killed
mutate "keys with one hash taken for one key" common/src/data/matching/records.rs \
    's/rows\.chunk_by\(\|a, b\| self\.compare\(pass, \*a, \*b\)\.is_eq\(\)\)/rows.chunk_by(|_, _| true)/' data::matching::records::tests::records_whose
mutate "a short end of a message hashed in the wrong block" common/src/hash.rs \
    's/if filled >= LENGTH \{/if filled > LENGTH {/' secure::merging::tests::tags_are_hmacs
mutate "lists merged in any order" common/src/secure/merging/merge.rs \
    's/if !follows \|\| part\.windows\(2\)\.any\([^\n]*\) \{/if part.is_empty() {/' secure::merging::tests::
mutate "the key of a merge from one draw" common/src/secure/merging/mod.rs \
    's/extract\.update\(bob\);/let _ = bob;/' secure::merging::tests::key_tags
functions=common/src/data/functions
mutate "a spline that does not go on straight" $functions/spline.rs \
    's/\*at \+= \(value - end\) \* slope/*at += 0.0 * slope/' data::functions::
mutate "new rows with a basis of their own" $functions/mod.rs \
    's/Some\(known\) => known\.to_vec\(\),\n(\s+)None => polynomial::learn/Some(_) if true => polynomial::learn(\&self.kept(\&values), *degree).map_err(shape)?,\n$1Some(known) => known.to_vec(),\n$1None => polynomial::learn/' \
    data::functions::
mutate "a term without a value taken as it is" $functions/mod.rs \
    's/if value\.is_finite\(\) && value\.abs\(\) <= LARGEST \{/if value.abs() <= LARGEST || !value.is_finite() {/' data::functions::
mutate "a sign that binds more than a power" $functions/expression.rs \
    's/Ok\(Expression::Minus\(Box::new\(signed\(parser, depth \+ 1\)\?\)\)\)/{ let base = Expression::Minus(Box::new(single(parser, depth)?)); Ok(if parser.take_symbol(\x27^\x27) { Expression::Operation(Operator::Power, Box::new([base, signed(parser, depth + 1)?])) } else { base }) }/' \
    data::functions::
mutate "a match of another table taken" common/src/data/matching/alignment.rs \
    's/if about\.data != data\.to_string\(\) \{/if about.data.is_empty() {/' matching::alignment::
mutate "the files of two matches mixed" common/src/data/matching/alignment.rs \
    's/if about\.alignment != Digest::of\(binary\)\.to_string\(\) \{/if about.alignment.is_empty() {/' matching::alignment::
mutate "a match of the other party taken" common/src/data/matching/alignment.rs \
    's/if self\.role != expected\.role \{/if false {/' matching::alignment::
mutate "matched rows in the order of the file" common/src/data/mod.rs \
    's/self\.arrange\(records\);/let mut records = records.to_vec();\n        records.sort_unstable();\n        self.arrange(&records);/' \
    data::tests::matched_rows
mutate "matched rows proved by their number alone" common/src/data/align.rs \
    's/        framed\.field\(order\);\n/        let _ = order;\n/' data::tests::the_proof_of_matched
mutate "pairs from elsewhere in the order of their table" common/src/data/matching/linked.rs \
    's/let Some\(order\) = align::order\(pairs\) else/let Some(order) = align::order(pairs).filter(|_| false) else/' matching::linked::
mutate "a key of a matched record made unique by its match" common/src/data/matching/records.rs \
    's/for row in 0\.\.self\.rows \{/for row in (0..self.rows).filter(|row| !matched.is_set(*row)) {/' matching::records::tests::every_record
mutate "a party that came back with nothing not begun with again" common/src/conversation.rs \
    's/self\.asked == MOST_ASKED/self.asked < MOST_ASKED/' vertical::private::tests::a_party_killed_at_any_step
mutate "a fold left out of the table" common/src/methods/vertical/sealed/session.rs \
    's/others\.iter\(\)\.fold\(first\.clone/others.iter().skip(1).fold(first.clone/' sealed::tests::folds::cross_validation
mutate "what tables of folds say of the other columns taken from all rows" common/src/methods/vertical/sealed/penalised.rs \
    's/Some\(sums\) if work\.opens_to_both\(\)/Some(sums) if work.opens_to_both() \&\& false/' sealed::tests::folds::what_the_other
mutate "the tables of folds kept from bob" common/src/methods/vertical/sealed/session/both.rs \
    's/Some\(_\) => self\.tables\.push\(opened\)/Some(_) => drop(opened)/' sealed::tests::both::what_does_not
mutate "sums over the folds with the factor of alice" common/src/methods/vertical/sealed/kept.rs \
    's/penalised::factor\(work, &\[\]\)/penalised::factor(work, \&work.moments)/' sealed::tests::refit::factors_that
mutate "a fold kept in what it is measured on" common/src/methods/vertical/sealed/folds.rs \
    's/of\(&\(&all - fold\)\)/of(\&all)/' sealed::tests::folds::cross_validation
mutate "few rows in a fold" common/src/methods/vertical/sealed/limits.rs \
    's/Some\(folds\) => limits\.folds\(/Some(folds) if folds.is_empty() => limits.folds(/; s/            None => Ok\(\(\)\),\n        \}\)\n        \.and_then\(\|\(\)\| limits\.opened/            _ => Ok(()),\n        })\n        .and_then(|()| limits.opened/' \
    sealed::tests::folds::folds_with
mutate "folds of an earlier run not compared" common/src/privacy/ledger/openings.rs \
    's/few = few\.into_iter\(\)\.chain\(piece\)\.min\(\);/let _ = piece;/' openings::tests::folds_of

mutate "measures of the noised" common/src/report/mod.rs \
    's/true => Measures::default\(\),/true => Measures::of(\&self.statistics, self.family),/' report::tests::statistics::in_private_mode
mutate "groups of single rows in a report" common/src/fit/performance.rs \
    's/LEAST_ROWS: usize = 5/LEAST_ROWS: usize = 1/' fit::tests::nothing_is_printed
mutate "tied predictors taken one by one" common/src/fit/performance.rs \
    's/TIE: f64 = 1e-12/TIE: f64 = -1.0/' fit::tests::discrimination
mutate "DeLong's variance with the other divisor" common/src/fit/performance.rs \
    's/of_events \/ \(m - 1\.0\) \/ m/of_events \/ m \/ m/' fit::tests::discrimination
mutate "a decile's upper end in the next group" common/src/fit/performance.rs \
    's/of_1 > \*\*end/of_1 >= **end/' fit::tests::discrimination
mutate "ratios whose intervals were withheld" common/src/fit.rs \
    's/        \(self\.ratio_low, self\.ratio_high\) = \(None, None\);\n//' fit::tests::ratios
mutate "an F test of as many degrees of freedom as rows" common/src/fit/measures.rs \
    's/let df = df_null - df_residual;/let df = df_null;/' report::tests

where=(-p fedreg-tests --test all)
several=common/src/methods/vertical/several
mutate "columns that several hold not compared" $several/agree.rs \
    's/agree::compare_shared\(study, &own\?, &shared, \(role, peer\)\)\?;/own?;/' several::a_party_that_holds_another_outcome
mutate "one block skipped in the sum" common/src/methods/vertical/followers.rs \
    's/filter\(\|\(place, _\)\| \*place != at\)/filter(|(place, _)| *place != at \&\& *place != 1)/' several::several_parties
mutate "a column that another than the leader holds stays in its own fits" common/src/methods/vertical/prepare.rs \
    's/Some\(values\) if leaves => for_leader/Some(values) if leaves => {\n                *kept = Some(values.clone());\n                for_leader/; s/total: 0\.0 \}\),\n\s*values => \*kept/total: 0.0 })\n            }\n            values => *kept/' \
    what_others_than_the_leader
mutate "a column for the leader that no declaration, policy and report knows" common/src/methods/vertical/terms.rs \
    's/return own\.map\(\|\(held, _, column\)\| \(held, column\)\)\.collect\(\);/return own.map(|(held, _, column)| (held, column)).take(0).collect();/' \
    what_another_than_the_leader
mutate "a policy that does not know what its party sends to the leader" common/src/methods/vertical/prepare.rs \
    's/match \(whole\.next\(\), self/match (whole.next().filter(|_| study.is_first(role)), self/' what_another_than_the_leader
mutate "a column sent whole to the leader that no report names" common/src/methods/vertical/outcome.rs \
    's/filter\(\|\(held, _\)\| !metered_too\(\*held\)\)/filter(|(held, _)| study.is_first(role) \&\& !metered_too(*held))/' what_another_than_the_leader
mutate "a held vector of several that is not looked at" common/src/methods/vertical/session/work.rs \
    's/fn absorb_for_leader(.*?)self\.check_held\(what, &held\)\?;/fn absorb_for_leader$1/s' a_column_for_the_leader
mutate "a path that begins without the offset of one party" common/src/methods/vertical/terms.rs \
    's/plain && alone && self\.needs_path\(\)/plain \&\& alone \&\& false/' a_path_with_an_offset
mutate "directions of a party credited to another" common/src/methods/vertical/subspace.rs \
    's/\|\(partner, vector\)\| self\.change\(block\.columns\(\), partner, vector\)/|(_, vector)| self.change(block.columns(), 0, vector)/' several::correlated several::several_parties
mutate "where later parties go not said to those before" common/src/methods/vertical/fits.rs \
    's/followers\.go_on_from\(later\)/followers.go_on_from_answers()/' several::correlated
mutate "a later party's place without the directions" common/src/methods/vertical/subspace.rs \
    's/kernels::add\(&minimum\.later\[place\]\.along, [^;]*;//' several::correlated
mutate "predictions of other coefficients sent" common/src/methods/vertical/block.rs \
    's/if self\.passed != \*beta \{/if self.passed.len() != beta.len() {/' several::several_parties
mutate "another block left in an error" $several/fit.rs \
    's/for \(\(line, \(factor, score\)\), robust\) in (.*?)\.zip\(gathered\.all\)/for ((line, (factor, (_, score))), robust) in $1.zip(gathered.earlier.clone().into_iter().zip(gathered.all))/' several::several_parties
mutate "errors from residuals without leverages" common/src/methods/vertical/std_err.rs \
    's/ErrorKind::Hc3 => rest\.map\(\|rest\| 1\.0 \/ \(rest \* rest\)\)/ErrorKind::Hc3 => Some(1.0)/' sandwich::
mutate "errors from residuals of the basis in place of the columns" common/src/methods/vertical/std_err.rs \
    's/&self\.transform \* factor\.transpose\(\)/factor.transpose()/' sandwich::
mutate "a follower given the errors of another" $several/fit.rs \
    's/\.zip\(gathered\.robust\)/.zip(gathered.robust.into_iter().rev())/' sandwich::
mutate "rounding of a dependent column projected out" common/src/methods/vertical/std_err.rs \
    's/beside = joined\.select_columns\(&kept\);/let _ = kept;\n            beside = joined;/' several::columns_that_depend several::several_parties
mutate "rows of a basis taken twice" $several/fit.rs \
    's/        self\.used \+= rows;/        self.used += rows.min(1);/' several::
mutate "a round told to the wrong party" $several/fit.rs \
    's/question\(at, &own\)/question(0, \&own)/' several::no_follower several::several_parties
tables=$secure/product/several.rs
mutate "a block of one of several that leaves without its mask" $tables \
    's/(        self\.own\.extend\(kept\);)/        let _ = frames;\n        let frames = blocks.clone().zip(\&kept).map(|(block, own)| Frame { block: block as u64, entries: own.clone() }).collect();\n$1/' \
    several::sealed several_sealed::lossy
mutate "one block of several skipped in the sum of the others" $several/masked.rs \
    's/let parts = shape\.partners\(but\)\.filter_map/let parts = shape.partners(but).take(shape.columns().len().max(3) - 2).filter_map/' several::sealed
mutate "the block of one party credited to another" $several/masked.rs \
    's/others\(&shape, &all, at \+ 1\)\?/others(\&shape, \&all, if at == 0 { all.len() - 1 } else { 1 })?/' several::sealed several_sealed::lossy
mutate "tables between the others left out of the solution" $secure/gaussian.rs \
    's/inner\.view_mut\(\(at\(i - 1\), at\(j - 1\)\), table\.shape\(\)\)\.copy_from\(table\);//' several::sealed
mutate "what was left of columns in no list" $sealed/session/several.rs \
    's/            several\.asked\.push\(\(to, columns as u64\)\);\n/            let _ = (\&several.asked, to, columns);\n/' several_sealed::what_opens
mutate "places of means that nobody counts" $sealed/limits.rs \
    's/=> 2 \+ self\.bob as u64,/=> 2,/' several_sealed::the_limits
mutate "columns of one other party where all are limited" $sealed/limits.rs \
    's/let peer_columns = others\.iter\(\)\.sum\(\);/let peer_columns = others.iter().copied().max().unwrap_or(0);/' several_sealed::the_limits
mutate "columns of each party that are not those of this one" $sealed/session/several.rs \
    's/\|\| columns\[place\] != own //' several_sealed::what_the_leader
mutate "a canary that names nobody" $several/masked.rs \
    's/Some\(line\) => line\.broke\(peer_fault\(fault\)\),/Some(_) => own_fault(fault),/' several_sealed::what_a_follower

mutate "tables for all that the leader does not count" $sealed/session/all.rs \
    's/self\.count\(self\.shape\.left \* self\.shape\.right \+ 1\)\?;//' several_sealed::what_opens
mutate "tables for all that the leader's limit leaves out" $sealed/limits.rs \
    's/fold\(u64::from\(self\.both\),/fold(0,/' several_sealed::the_leaders_own
mutate "tables that opened to all listed for the leader alone" $sealed/opened.rs \
    's/\(to_all \|\| \*at == 0\)/(*at == 0 || (to_all \&\& leader))/' several_sealed::what_opens
mutate "tables that no columns have" $secure/gaussian.rs \
    's/all\(\|left\| \*left >= -ROUNDED\)/all(|left| *left >= -1e9)/' several_sealed::tables_and
mutate "residuals that do not follow from the tables" $sealed/session/all.rs \
    's/\(said\.residual - answer\.residual\)\.abs\(\) <= DIGITS \* size \* square/said.residual >= 0.0/' several_sealed::tables_and
mutate "columns that stay of a third party told to nobody" $several/sealed.rs \
    's/\*at != parts\.len\(\)\)/*at > parts.len() + 99)/' several_sealed::tables_that_open several::sealed_fits_whose
mutate "the leader's columns metered party by party" $sealed/results.rs \
    's/work\.table\(\)\.and_then\(Table::orthonormal\)/work.table().cloned()/' several_sealed::where_tables

where=(-p fedreg-common --lib)
mutate "canaries of several that nobody checks" $tables \
    's/match opened == expected \{/match true || opened == expected {/' secure::tests::several
mutate "one mask for all of several parties" $tables \
    's/if party == place \{/let seed = \&Seed::new([7; 32]);\n        if party == 0 {/' secure::tests::several::what_every
mutate "the mask of one product used again for that with another partner" $tables \
    's/own\.add\(&share\.block\(0, own\.count\(\)\)\)/let first = (shape.columns[place] + 1) * (shape.columns[place + 1] + 1);\n                let once = share.block(0, first);\n                own.add(\&once.select((0..own.count()).map(|at| at % first)))/; s/share\.block\(0, \(shape\.columns\[place\] \+ 1\) \* shape\.after\(place\)\);/{\n            let first = (shape.columns[place] + 1) * (shape.columns.get(place + 1).unwrap_or(\&0) + 1);\n            let once = share.block(0, first);\n            once.select((0..(shape.columns[place] + 1) * shape.after(place)).map(|at| at % first))\n        };/' \
    secure::tests::several::what_every
mutate "an order for the place of another of several" $secure/dealing.rs \
    's/if \*of != place \|\|/if/' secure::tests::several::the_dealer
mutate "an order of blocks that nobody keeps" common/src/methods/vertical/terms.rs \
    's/if self\.method\.order\.is_empty\(\)/if true/' a_study_may_order_its_blocks study::tests::several::blocks_stand
mutate "of two parties the first by name for the leader" common/src/methods/vertical/pair.rs \
    's/let first = study\.first\(\);/let first = study.method.parties.keys().next().copied().unwrap_or(study.first());/' \
    sealed::tests::names
mutate "shares of the side that is the other party" common/src/methods/vertical/pair.rs \
    's/if self\.leads\(\) \{ product::Side::Left/if self.own < self.peer() { product::Side::Left/' sealed::tests::names
mutate "seventeen parties" common/src/study/file.rs \
    's/\(2\.\.=MOST_PARTIES\)/(2..=MOST_PARTIES + 1)/' study::tests::several
mutate "a party whose name means something else" common/src/id.rs \
    's/RESERVED\.contains\(&s\) \|\| //' id::tests
mutate "a column that another party than the leader holds alone" common/src/methods/vertical/terms.rs \
    's/\*holder != self\.first\(\)/*holder != self.first() \&\& self.leader.is_none()/' study::tests::several
crossprod=common/src/methods/vertical/plan/crossprod.rs
mutate "tables with one other party alone in the sensitivity" $crossprod \
    's/several => \(2\.0 \* \(several as f64\)\.sqrt\(\)\)\.next_up\(\)/several => 2.0 * (several as f64).min(1.0)/' \
    crossprod::tests::no_neighbour crossprod::tests::noise_among
mutate "noise on shares that were not scaled" $crossprod \
    's/        whole\.multiply\(&Elements::from_integers\(whole\.width\(\), &factors\)\)\?;\n/        let _ = (\&mut whole, factors);\n/' \
    private::tests::several::with_hardly
mutate "noised values of several before their charge" common/src/methods/vertical/private/several.rs \
    's/                self\.own\.held\.reserve\(\)\?;\n//' private::tests::several
mutate "own sums in what opened that nobody compares" common/src/methods/vertical/private/several.rs \
    's/match self\.plan\.holds\(&tables, self\.held\.place, \[table, score\]\) \{/match self.plan.holds(\&tables, self.held.place, [table, score]) || values.len() < 1_000 {/' \
    private::tests::several::what_the_leader
mutate "tables of several that leave as declared" common/src/methods/vertical/message.rs \
    's/(JointKind::Noised, \.\. \}\) => vec!\[)Declaration::Undeclarable\]/$1Declaration::Masked]/' private::tests::several::nothing_leaves
mutate "the leader noised before all others" common/src/methods/vertical/several/private.rs \
    's/(                self\.take\(lines, release, bodies\)\?;\n)/$1                if release.next().is_some() {\n                    self.own.release(release, \&shares)?;\n                }\n/' \
    private::tests::several::a_run_that_ends
mutate "a basis that the leader of several declares" common/src/methods/vertical/terms.rs \
    's/Some\(leader\) => role != leader,/Some(_) => true,/' study::tests::several
mutate "coefficients of the receiver taken from the leader" common/src/methods/vertical/names.rs \
    's/\.filter\(\|_\| parties\.contains\(&row\.party\)\)//' vertical::names

mutate "an even power that does not turn at zero" common/src/data/functions/interval.rs \
    's/if turns \{ ends\.with_zero\(\) \} else \{ ends \}/ends/' declared::tests
mutate "products by the ends of one factor alone" common/src/data/functions/interval.rs \
    's/let ends = \|a: f64\| \[a \* other\.low, a \* other\.high\];/let ends = |a: f64| [a * other.low, a * other.low];/' declared::tests
mutate "a natural spline that is taken for B-splines" common/src/data/functions/spline.rs \
    's/if !self\.natural \{\n            return Ok\(vec!\[unit/if true || !self.natural {\n            return Ok(vec![unit/' declared::tests
mutate "a number beyond its range inside of a function" common/src/data/declared.rs \
    's/value\.clamp\(\*low, \*high\)/*value/' declared::tests
mutate "a row without a value that is left as it is" common/src/data/declared.rs \
    's/rows\.into_iter\(\)\.for_each\(\|row\| mask\.set\(row\)\);/drop(rows);/' declared::tests
mutate "quantile knots in private mode" common/src/data/functions/spline.rs \
    's/Inner::Quantiles\(_\) => None,/Inner::Quantiles(_) => Some(vec![low, high]),/' declared::tests
mutate "an estimated dispersion in a sealed study" common/src/methods/vertical/terms.rs \
    's/Mode::Sealed => "its dispersion needs[^"]*",/Mode::Sealed => return Ok(()),/' study::tests::an_estimated_dispersion

where=(-p fedreg-tests --test all)
mutate "sums with the blocks of others that the meter leaves out" common/src/methods/vertical/fits.rs \
    's/        meter\.record\(&shown\);\n        Ok\(\(\)\)/        if self.followers.is_none() {\n            meter.record(\&shown);\n        }\n        Ok(())/' several::what_the_leader_of_three
mutate "a party of several that allows no basis and is not heard" common/src/methods/vertical/several/fit.rs \
    's/\.find\(\|\(_, shared\)\| !shared\.basis\)/.find(|(_, shared)| shared.columns == 0)/' several::a_basis_that_one
mutate "the leader named for whoever allows no basis" common/src/methods/vertical/session.rs \
    's/if study\.others\(role\)\.len\(\) > 1 =>/if study.others(role).is_empty() =>/' several::a_basis_that_one
mutate "an estimated dispersion that is left at one" common/src/methods/vertical/outcome.rs \
    's/\(true, Some\(learnt\)\) if df > 0 \&\& is_number/(true, Some(_)) if df > 0 \&\& work.study.method.quasi => Some(1.0),\n        (true, Some(learnt)) if df > 0 \&\& is_number/' quasi::an_estimated
mutate "tests of type II of terms alone" common/src/fit/blocks.rs \
    's/\(together - alone\)\.max\(0\.0\)/together/' anova
mutate "covariances that no study asks for" common/src/methods/vertical/terms.rs \
    's/self\.inference\.covariance == CovarianceTerms::Shared/self.penalty.is_none()/' across
mutate "covariances that nobody compares with the standard errors" common/src/methods/vertical/across.rs \
    's/if !agrees\(&block, self\.peer\.as_ref\(\)\)/if false \&\& !agrees(\&block, self.peer.as_ref())/' protocol::covariances
mutate "covariances that do not count as columns in full" common/src/methods/vertical/across.rs \
    's/            self\.meter\.record_basis\(0\);\n//' across::covariances_leave

mutate "values of folds that are left over" common/src/methods/vertical/fits/abreast.rs \
    's/if !rest\.is_empty\(\)/if false/' protocol::a_peer_that_says_less
mutate "folds of a lane in another order" common/src/methods/vertical/fits/abreast.rs \
    's/errors\[lane_of\(job, lanes\)\]\.next\(\)/errors[(lane_of(job, lanes) + 1) % lanes].next()/' vertical::
mutate "a fold that a follower ends" common/src/methods/vertical/fits/abreast.rs \
    's/if first\.fits\.role == first\.fits\.leader/if false/' protocol::a_peer_that_says_less
mutate "rising along rounding of a partner" common/src/methods/vertical/fits.rs \
    's/shown\.distrust\(\);//' vertical::columns_that_nearly
mutate "rounds without rest to the limit" common/src/methods/vertical/fits.rs \
    's/let may = self\.exchanges/let may = false \&\& self.exchanges/' vertical::columns_that_nearly
mutate "a joint step that is not taken" common/src/methods/vertical/session/work.rs \
    's/            self\.encoded\.block\.place\(beta\);\n//' vertical::columns_that_nearly
mutate "a block that does not follow its partner" common/src/methods/vertical/fits.rs \
    's/let followed = self\.tables\.is_none\(\)/let followed = false \&\& self.tables.is_none()/' vertical::columns_that_nearly
mutate "a column far from zero taken for the intercept" common/src/methods/vertical/std_err.rs \
    's/about_mean\(j\)\.max\(TOLD \* factor\.column\(j\)\.norm\(\)\)/factor.column(j).norm()/' vertical::columns_that_nearly
mutate "fits that go on time and again" common/src/methods/vertical/session/work.rs \
    's/\(ended\.again && !may\)/false/' protocol::a_leader_that_has_a_fit
mutate "errors that come first and a second time" common/src/methods/vertical/session/work.rs \
    's/learnt\.map\(Learnt::at_rest\), across\)/None, across)/' protocol::small_cases
mutate "a joint step gone twice" common/src/methods/vertical/exchange.rs \
    's/        self\.inference\.step\.fill\(0\.0\);\n//' vertical::coefficients_and
mutate "errors that come first whatever the study says" common/src/methods/vertical/terms.rs \
    's/ && self\.inference\.when == InferenceTime::First//' protocol::small_cases
mutate "a fit that ends before the errors that come first" common/src/methods/vertical/session/work.rs \
    's/match early \|\| \(ended\.again && !may\)/match ended.again \&\& !may/' protocol::a_leader_that_has_a_fit
mutate "a joint minimum in coefficients that are reported" common/src/methods/vertical/std_err.rs \
    's/if self\.steps_of_fit && self\.with_centres/if false/' protocol::small_cases
mutate "a minimum looked for by one step" common/src/methods/vertical/joint.rs \
    's/if halvings == 0 && is_last/if halvings == 0/' protocol::strongly vertical::coefficients_and
mutate "a part of a basis that was made for other rows" common/src/methods/vertical/exchange.rs \
    's/next\.take\(\)\.filter\(\|next\| next\.start == start\)/next.clone()/' protocol::a_basis_that_comes

where=(-p fedreg-proto --test edge)
mutate "a name beside the role of alice" proto/src/convert.rs \
    's/match name\.is_empty\(\) \{\n            true => Ok\(role\)/match true {\n            true => Ok(role)/' a_party_by_another_name

where=(-p fedreg-coordinator --lib)
mutate "the name of another of three parties claimed" coordinator/src/register.rs \
    's/if role != from \{/if role != from \&\& !self.parties.contains_key(\&role) {/' of_three_parties

where=(-p fedreg-examples --test coordinated)
mutate "a match through the coordinator that the private file does not allow" party/src/matching/mod.rs \
    's/ && !party\.config\.policy\.allow_coordinator_match/ \&\& party.config.policy.max_rounds == Some(0)/' it_is_refused

where=(-p fedreg-examples --test processes)
mutate "the program of a release called by the name of a party" examples/demo.rs \
    's/Role::Alice \| Role::Bob \| Role::Worker/Role::Alice | Role::Worker/; s/Ok\(Role::Party\(_\)\)/Ok(Role::Bob | Role::Party(_))/' by_the_name_of_another
where=(-p fedreg-proto --lib)
mutate "study.toml differs between folders" proto/src/wizard/folders.rs \
    's/whole\(&place\("study\.toml"\), &shared\)\?;/whole(\&place("study.toml"), \&shared.replacen("tol = ", "tol = 1", usize::from(member.name.len() == 3)))?;/' everybody_gets_the_same
mutate "a private key leaves its folder" proto/src/wizard/folders.rs \
    's/path: &to_sign, contents: &request\.pem/path: \&to_sign, contents: \&format!("{}{}", request.pem, request.key)/' everybody_gets_the_same
mutate "plain mode where nobody has named one" proto/src/wizard/questions.rs \
    's/&choices, recommended\)/\&choices, true)/; s/let recommended = choices/choices.reverse(); let recommended = choices/' a_study_from_flags_alone where_there_is_no_sealed_mode

where=(-p fedreg-common --lib)
mutate "an explanation of sealed mode that forgets the dealer" common/src/explanation/vertical.rs \
    's/VerticalGuarantee::Sealed\(_\) => vec!\[\n                of_party,\n                of_dealer,\n.*?\n            \],/VerticalGuarantee::Sealed(_) => { let _ = of_dealer; vec![of_party] }/s' explanation::tests
mutate "a kind of value that leaves and is not explained" common/src/explanation/vertical.rs \
    's/VerticalGuarantee::Sealed\(_\) => declared\.declared\(\)\.iter\(\)\.map\(one\)/VerticalGuarantee::Sealed(_) => declared.declared().iter().skip(1).map(one)/' explanation::tests
# These need a server: .ci/sources says how one is started.
if [[ -n ${FEDREG_POSTGRES:-} ]]; then
    where=(-p fedreg-party --lib --features postgres)
    mutate "a transaction that may write" party/src/read/postgres/base.rs \
        's/REPEATABLE READ READ ONLY/REPEATABLE READ/' read::postgres::tests::all_passes
    mutate "every pass over a data base with a moment of its own" party/src/read/postgres/base.rs \
        's/ SET TRANSACTION SNAPSHOT .\{\}.;//; s/, snapshot\.replace\([^)]*\)\)/)/; s/fn begin_with\(snapshot/fn begin_with(_snapshot/' read::postgres::tests::all_passes
    mutate "a snapshot that is no moment" party/src/read/postgres/base.rs \
        's/ISOLATION LEVEL REPEATABLE READ READ ONLY/ISOLATION LEVEL READ COMMITTED READ ONLY/' read::postgres::tests::all_passes
    mutate "a file of passwords that others can read" party/src/read/postgres/dsn.rs \
        's/mode\(\) \& 0o077 != 0/mode() \& 0 != 0/' read::postgres::tests::servers_that
    mutate "a server whose name is not checked" party/src/read/postgres/dsn.rs \
        's/\(None \| Some\("disable"\), true\)/(_, _)/' read::postgres::tests::tls
    mutate "a query that gives other columns than it was asked for" party/src/read/postgres/copy.rs \
        's/if before == now \{/if before == now || before.len() < now.len() {/' read::postgres::tests::a_query_that
    mutate "times in the zone of the server" party/src/read/postgres/base.rs \
        "s/SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO';//" read::postgres::tests::times
    mutate "a cursor of what is no query" party/src/read/postgres/base.rs \
        's/NO_CURSOR\.contains\(code\)/NO_CURSOR.get(3) == Some(code)/' read::postgres::tests::all_passes
fi
where=(-p fedreg-party --lib --features s3)
mutate "parts of an object that are of several versions" party/src/read/objects/store.rs \
    's/if_match: tag,/if_match: tag.filter(|_| false),/' read::objects::tests::an_object
mutate "all parts of an object at once" party/src/read/objects/store.rs \
    's/const AT_ONCE: usize = 8;/const AT_ONCE: usize = 800;/' read::objects::tests::a_store_that_is_slow
mutate "a store elsewhere without TLS" party/src/read/objects/store.rs \
    's/match plain && !here/match false \&\& plain \&\& !here/' read::objects::tests::a_store_that_is_gone
mutate "keys in the address of a store" party/src/read/objects/store.rs \
    "s/endpoint\.contains\('\@'\) \|\| holds_secret/endpoint.is_empty() \&\& holds_secret/" read::objects::tests::a_store_that_is_gone
mutate "the words of numbers that are none" common/src/data/column.rs \
    's/self\.marks\.names\(text\.as_bytes\(\)\) \|\| //' read::parquet::tests::numbers_that
where=(-p fedreg-examples --test private)
mutate "a run that goes on with the other rows of a data base" party/src/private.rs \
    's/Some\(run\) if has_changed\(&table, &run, &mut ledger\)\? =>/Some(run) if read::is_path(config.source().place()) \&\& has_changed(\&table, \&run, \&mut ledger)? =>/' a_party_whose_data_base
where=(-p fedreg-tests --test all)
refit=common/src/methods/vertical/refit
mutate "a refit at a party to whom no table opened" $refit/mod.rs \
    's/!study\.guarantee\.opens_to_both\(\) && !study\.is_first\(role\)/false \&\& !study.is_first(role)/' refit::whoever
mutate "a refit of coefficients that the study keeps apart" $refit/mod.rs \
    's/if study\.method\.fit\.coefficients == CoefficientTerms::Own \{/if study.method.fit.coefficients == CoefficientTerms::Own \&\& role == Role::Worker {/' refit::whoever
mutate "a table of another study taken for this one" $refit/mod.rs \
    's/if self\.study != study\.digest\(\)\.to_string\(\) \{/if self.study.is_empty() {/' refit::whoever
mutate "columns of a sub-model that depend and stay" $refit/exact.rs \
    's/if length \* length > self\.across \* own_length \* own_length \{/if length > 0.0 {/' refit::sub_models
mutate "the table after columns were set aside in place of the whole" $sealed/session/solving.rs \
    's/self\.whole = self\.table\.replace\(reduced\);/self.table = Some(reduced);/' refit::sub_models refit::where_the_table

where=(-p fedreg-common --lib)
mutate "factors for sub-models that nobody counts" $sealed/session/penalty.rs \
    's/(let joint = kept::of_alice\(self\)\?;\n        )self\.count\(joint\.values\.len\(\)\)\?;\n/$1/' sealed::tests::refit
mutate "noise of the whole table on a part of it" common/src/methods/vertical/plan/crossprod.rs \
    's/part\.setup\.widths = entries\.iter\(\)\.map\(Vec::len\)\.collect\(\);/part.scale = self.scale;/' crossprod::tests::a_part private::tests::refit
mutate "a refit that is charged again" $refit/noised.rs \
    's/Statement \{ charge: 0\.0, account/Statement { account/' private::tests::refit

where=(-p fedreg-examples --test refit)
mutate "a table that others may read" party/src/refit.rs \
    's/if mode & 0o077 == 0 \{/if mode \& 0o077 != 0o777 {/' refit_refuses
mutate "a table that is written for all to read" party/src/refit.rs \
    's/(    tracing::info!\("what sub-models follow from)/    #[cfg(unix)]\n    let _ = std::fs::set_permissions(\&place, std::os::unix::fs::PermissionsExt::from_mode(0o644));\n$1/' a_sealed_fit_leaves
mutate "a changed table that nobody notices" party/src/refit.rs \
    's/if Digest::of\(body\.as_bytes\(\)\)\.to_string\(\) != heading\.digest \{/if heading.digest.is_empty() {/' refit_refuses

where=(-p fedreg-party --lib)
mutate "a view that is not compared with its text" party/src/read/arrow.rs \
    's/\.filter\(\|text\| text\.starts_with\(&view\[4\.\.8\]\)\)//' read::arrow::tests::views_that_lead
mutate "a block of a footer outside of its file" party/src/read/arrow/messages.rs \
    's/ && end <= footer//' read::arrow::tests::blocks_that
mutate "further buffers of views before a column not counted" party/src/read/arrow/fields.rs \
    's/before\.iter\(\)\.try_fold\(first, add\)\?/first/' read::arrow::tests::files_and_streams
mutate "what opens counted in every ledger anew" party/src/ledger/counted.rs \
    's/let news = anchor\.add\(\&place\.ledger, self\.place\.clone\(\)\);\n            news \|\| anchor\.files\.len/anchor.files.clear();\n            anchor.files.len/' ledger::files::tests::what_opens
mutate "what opens under any name" party/src/ledger/counted.rs \
    's/match names\.is_empty\(\) \|\| /match true || names.is_empty() || /' ledger::files::tests::what_opens
mutate "a source known by its role alone" party/src/ledger/counted.rs \
    's/, format!\("\{party\}: \{known\}"\)\]/]/' ledger::files::tests::what_opens
where=(-p fedreg-memory --lib)
mutate "a block that moves without its bytes" party/memory/src/lib.rs \
    's/layout\.size\(\)\.min\(size\)\);/layout.size().min(size) \/ 2);/' tests::
mutate "memory that is taken beyond its limit" party/memory/src/lib.rs \
    's/before\.saturating_add\(more\) <= limit/before <= limit/' tests::
mutate "files of memory that keep their room" party/memory/src/lib.rs \
    's/file::unmap\(block\.sub\(PAGE\), length\);//' tests::

where=(-p fedreg-common --lib)
mutate "quantiles of t as of the normal law" common/src/laws.rs \
    's/normal \+ \(z - as_normal\(z, df\)\)\);/normal + 0.0 * z);/' laws::
mutate "a continued fraction that ends early" common/src/laws.rs \
    's/const TERMS: u32 = 100_000;/const TERMS: u32 = 20;/' laws::
mutate "only the last rows of a gram" common/src/privacy/bounds.rs \
    's/\*sum \+= table\[place\] as i128/*sum = table[place] as i128/' bounds::
mutate "the last rows of a part out of place" common/src/privacy/bounds.rs \
    's/let at = count - some \+ row;/let at = row;/' bounds::
mutate "a digest without its last bytes" common/src/data/align.rs \
    's/        self\.mac\.update\(&self\.waiting\);\n        self\.mac\.finalize/        self.mac.finalize/' data::align
mutate "products of further columns without weights" common/src/methods/vertical/separation.rs \
    's/\*value \*= weight\);/*value *= weight.powi(0));/' separation::
where=(-p fedreg-tests --test all)
mutate "a basis without weights" common/src/methods/vertical/std_err.rs \
    's/kernels::append_scaled\(out, &column\.as_slice\(\)\[part\.clone\(\)\], &roots\);/out.extend_from_slice(&column.as_slice()[part.clone()]);let _ = &roots;/' many_rows
where=(-p fedreg-common --lib)
mutate "a step bounded by a row that is not the largest" common/src/methods/vertical/block.rs \
    's/squares\.iter\(\)\.fold\(0\.0, \|most: f64, sum\| most\.max\(\*sum\)\)/squares[0]/' bounds_of_a_step
mutate "the largest row of the first rows" common/src/methods/vertical/block.rs \
    's/\(0\.\.self\.rows\(\)\)(\.step_by\(BLOCK_ROWS\)\.collect\(\);\n\s+let of_block)/(0..self.rows().min(1))$1/' bounds_of_a_step
mutate "a tail of the normal law from its other side" common/src/laws.rs 's/libm::erfc\(z \/ SQRT_2\)/libm::erfc(-z \/ SQRT_2)/' laws::
mutate "columns that are mostly one value" $secure/open.rs 's/if differ < needed \&\& /if false \&\& differ < needed \&\& /' secure::tests::limits
mutate "combinations of columns without a limit" $secure/open.rs \
    's/self\.together\(which, \&columns, weights, numbers\)/self.together(which, \&columns[..0], weights, numbers)/' secure::tests::limits
mutate "a start within its error that is kept" $secure/optimiser.rs \
    's/slope\.abs\(\) <= before \* direction\.lp_norm\(1\) \&\& after < before/slope > 0.0 \&\& before + direction[0] < after/' a_start_that_is_nearer
mutate "a direction that vanishes without a pivot" $secure/gaussian.rs \
    's/vanishes\(\&\(map\.tr_mul\(left_over\) \* \&map\), across\)\.then/false.then/' secure::tests::gaussian
mutate "columns of three values without a limit" $secure/open.rs \
    's/if !\(entropy >= needed\) \{\n(\s+)return Err\(Refusal::Levels/if false {\n$1return Err(Refusal::Levels/' secure::tests::limits
mutate "earlier runs told to others" common/src/session.rs \
    's/Abort::Spent \{ who, \.\. \} => \{/Abort::Spent { what, .. } if !what.is_empty() => what.clone(),\n            Abort::Spent { who, .. } => {/' session::tests

if ((run == 0)); then
    echo "no mutation has one of these words in its name: ${wanted[*]}"
    exit 2
fi
echo "$((run - failed)) of $run mutations were noticed"
exit $((failed > 0))
