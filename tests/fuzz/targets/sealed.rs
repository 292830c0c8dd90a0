//! Messages of a sealed fit, between the parties and with the dealer: whatever comes is a fault with its reason, or a message that is
//! encoded to the same message again.

#![no_main]

use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::privacy::release::{Declaration, Disclosures};
use fedreg_common::session::Order;
use fedreg_proto::convert::{Decoder, frames};
use fedreg_proto::dealer::{Answer, AnswerDecoder, Ordered, answer_frames, ordered};
use fedreg_proto::limits::{CHUNK_BYTES, Limits};
use fedreg_proto::wire::frame::Kind;
use fedreg_proto::wire::{DealerFrame, DealerOrder, Frame, Start, start};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;

/// The bodies of a sealed fit, each from its form.
const HEADS: [fn(&[u8]) -> Option<start::Body>; 4] = [
    |form| Some(start::Body::Masked(prost::Message::decode(form).ok()?)),
    |form| Some(start::Body::Share(prost::Message::decode(form).ok()?)),
    |form| Some(start::Body::Product(prost::Message::decode(form).ok()?)),
    |form| Some(start::Body::Joint(prost::Message::decode(form).ok()?)),
];

fn decoder() -> Decoder {
    Decoder::new(Limits::for_rows(64))
}

/// Splits what follows a length of one byte.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first()?;
    Some(rest.split_at(usize::from(*length).min(rest.len())))
}

/// That a message of a sealed fit survives being said again.
fn say_again(message: Message) {
    if !matches!(message.body, Body::Masked(_) | Body::Share(_) | Body::Product(_) | Body::Joint(_)) {
        return drop(format!("{message:?}"));
    }
    let everything = Disclosures::new([Declaration::Masked, Declaration::CrossProducts]);
    let released = everything.release(message.clone()).expect("a sealed study declares it");
    let (mut decoder, mut again) = (decoder(), None);
    for frame in frames(released) {
        let frame = Frame::decode(frame.encode_to_vec().as_slice()).expect("a frame that was encoded");
        assert!(again.is_none());
        again = decoder.push(frame).expect("a message that was taken before");
    }
    assert!(again == Some(message) && decoder.is_idle());
}

/// A message whose form and payload are given: what a peer needs no luck for.
fn one_message(which: u8, data: &[u8]) -> Option<()> {
    let (form, payload) = split(data)?;
    let header = Header { study: Digest([1; 32]), run: RunId([2; 16]), sender: Role::Alice, sequence: 7 };
    let body = HEADS[usize::from(which) % HEADS.len()](form)?;
    // The header of a message that is well formed, before the body that came.
    let go = Disclosures::new([]).release(Message { header, body: Body::Go }).ok()?;
    let Some(Kind::Start(Start { header, .. })) = frames(go).next()?.kind else { return None };
    let start = Start { header, payload: payload.len() as u64, entries: 0, body: Some(body) };
    let mut decoder = decoder();
    let chunks = payload.chunks(CHUNK_BYTES).map(|chunk| Kind::Chunk(chunk.to_vec().into()));
    for kind in std::iter::once(Kind::Start(start)).chain(chunks) {
        match decoder.push(Frame { kind: Some(kind) }) {
            Ok(Some(message)) => say_again(message),
            Ok(None) => {}
            Err(fault) => return Some(drop(fault.to_string())),
        }
    }
    Some(())
}

/// Frames as they come, each after its length.
fn any_frames(mut data: &[u8]) {
    let mut decoder = decoder();
    while let Some((frame, rest)) = split(data) {
        data = rest;
        match Frame::decode(frame).map(|frame| decoder.push(frame)) {
            Ok(Ok(Some(message))) => say_again(message),
            Ok(Ok(None)) => {}
            Ok(Err(fault)) => return drop(fault.to_string()),
            Err(_) => return,
        }
    }
}

/// An order, and what a dealer answers to it.
fn dealer(data: &[u8]) -> Option<()> {
    let (form, mut data) = split(data)?;
    let call = ordered(DealerOrder::decode(form).ok()?).map_err(|fault| fault.to_string()).ok()?;
    let form = DealerOrder::from(&Ordered { ..call });
    assert_eq!(
        ordered(DealerOrder::decode(form.encode_to_vec().as_slice()).expect("an order that was encoded")),
        Ok(call)
    );
    let mut party = Party::new(call.order);
    while let Some((frame, rest)) = split(data) {
        data = rest;
        party.hear(DealerFrame::decode(frame).ok()?)?;
    }
    Some(())
}

/// A party that has ordered, and a second one that is told again what the first has taken.
struct Party {
    first: AnswerDecoder,
    second: AnswerDecoder,
}

impl Party {
    fn new(order: Order) -> Party {
        let (mut first, mut second) = (AnswerDecoder::default(), AnswerDecoder::default());
        [&mut first, &mut second].into_iter().for_each(|decoder| decoder.order(order));
        Party { first, second }
    }

    fn hear(&mut self, frame: DealerFrame) -> Option<()> {
        let answer = self.first.push(frame).map_err(|fault| fault.to_string()).ok()?;
        let Some(answer) = answer else { return Some(()) };
        let kept = match &answer {
            Answer::Dealt(dealt) => Answer::Dealt(dealt.clone()),
            Answer::Computed => Answer::Computed,
            Answer::Notice(notice) => Answer::Notice(notice.clone()),
        };
        let mut again = None;
        for frame in answer_frames(kept) {
            assert!(again.is_none());
            again = self.second.push(frame).expect("an answer that was taken before");
        }
        let same = match (&answer, &again) {
            (Answer::Dealt(one), Some(Answer::Dealt(other))) => one == other,
            (Answer::Computed, Some(Answer::Computed)) => true,
            (Answer::Notice(one), Some(Answer::Notice(other))) => one == other,
            _ => false,
        };
        assert!(same && self.first.is_complete() == self.second.is_complete());
        Some(())
    }
}

fuzz_target!(|data: &[u8]| {
    match data {
        [0..=3, rest @ ..] => drop(one_message(data[0], rest)),
        [4, rest @ ..] => drop(dealer(rest)),
        [_, rest @ ..] => any_frames(rest),
        [] => {}
    }
});
