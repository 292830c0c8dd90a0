//! Events between the parties and the coordinator, in both directions.

#![no_main]

use fedreg_proto::convert::{coordinator_event, party_event, status_reply};
use fedreg_proto::wire;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|data: &[u8]| {
    if let Ok(event) = wire::PartyEvent::decode(data) {
        let _ = party_event(event).map(|event| wire::PartyEvent::from(&event));
    }
    if let Ok(event) = wire::CoordinatorEvent::decode(data) {
        let _ = coordinator_event(event).map(|event| wire::CoordinatorEvent::from(&event));
    }
    if let Ok(reply) = wire::StatusReply::decode(data) {
        let _ = status_reply(reply).map(|reply| wire::StatusReply::from(&reply));
    }
});
