//! The lines of a match through the coordinator, at both ends: whatever comes is a message, or a fault with its reason.

#![no_main]

use fedreg_proto::merge::{answered, asked};
use fedreg_proto::wire::{MergeFrame, MergeRequest};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|data: &[u8]| {
    if let Ok(request) = MergeRequest::decode(data) {
        drop(asked(request).map(|asked| format!("{asked:?}")));
    }
    if let Ok(frame) = MergeFrame::decode(data) {
        drop(answered(frame).map(|answer| format!("{answer:?}")));
    }
});
