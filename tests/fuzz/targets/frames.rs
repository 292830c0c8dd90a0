//! Frames of the direct line between the parties: whatever a peer sends is a message, or a fault with its reason.

#![no_main]

use fedreg_proto::convert::Decoder;
use fedreg_proto::limits::Limits;
use fedreg_proto::wire::Frame;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new(Limits::for_rows(64));
    // Each frame after its length in two bytes.
    let mut rest = data;
    while let [low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (frame, after) = after.split_at(length);
        rest = after;
        match Frame::decode(frame).map(|frame| decoder.push(frame)) {
            Ok(Ok(Some(message))) => drop(format!("{message:?}")),
            Ok(Ok(None)) => {}
            Ok(Err(fault)) => return drop(fault.to_string()),
            Err(_) => return,
        }
    }
});
