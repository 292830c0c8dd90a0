//! Taking turns: what every conversation of Alice and Bob does with headers, repeats and releases.

use crate::id::{Digest, Role, RunId};
use crate::privacy::release::{Disclosures, Released};
use crate::session::{Abort, Header, PeerFault};
use crate::study::Study;

use super::message::{self, Body, Hello, Message, Purpose};

/// One side's place in a strictly alternating conversation.
pub(super) struct Turns {
    role: Role,
    purpose: Purpose,
    study: Digest,
    run: RunId,
    disclosures: Disclosures,
    sequence: u64,
    last_sent: Option<Released<Message>>,
    last_received: Option<Message>,
}

/// What a message that came in turned out to be.
pub(super) enum Came {
    /// The next message of the conversation.
    Next(Body),
    /// One that was answered before: the answer again, byte for byte.
    Answered(Released<Message>),
    /// An older one, to which nobody waits for an answer.
    Old,
}

impl Turns {
    pub(super) fn new(role: Role, purpose: Purpose, study: &Study, run: RunId) -> Turns {
        Turns {
            role,
            purpose,
            study: study.digest(),
            run,
            disclosures: study.disclosures(role),
            sequence: 0,
            last_sent: None,
            last_received: None,
        }
    }

    /// Puts a body on its way, if the study declares what it discloses.
    pub(super) fn send(&mut self, body: Body) -> Result<Released<Message>, Abort> {
        let released = self
            .disclosures
            .release(Message { header: self.header(), body })
            .map_err(|undeclared| Abort::Bug(undeclared.to_string()))?;
        Ok(self.sent(released))
    }

    /// Puts a body on its way that may leave: with noise, and charged.
    pub(super) fn send_released(&mut self, body: Released<Body>) -> Released<Message> {
        let released = body.under(self.header(), |header, body| Message { header, body });
        self.sent(released)
    }

    fn header(&self) -> Header {
        Header { study: self.study, run: self.run, sender: self.role, sequence: self.sequence }
    }

    fn sent(&mut self, released: Released<Message>) -> Released<Message> {
        self.sequence += 1;
        self.last_sent = Some(released.clone());
        released
    }

    /// The greeting.
    pub(super) fn hello(&self, study: &Study) -> Body {
        Body::Hello(Hello { version: message::VERSION, purpose: self.purpose, keys: study.key_digests() })
    }

    /// Takes a message in. Once the conversation is `over` only repeats are answered.
    pub(super) fn receive(&mut self, message: Message, study: &Study, over: bool) -> Result<Came, Abort> {
        self.check(&message, study)?;
        let came = message.header.sequence;
        if came < self.sequence {
            // Only the newest message can still lack its answer.
            return match (&self.last_received, &self.last_sent) {
                (Some(last), Some(sent)) if last.header.sequence == came => {
                    if *last == message {
                        Ok(Came::Answered(sent.clone()))
                    } else {
                        Err(self.fault(PeerFault::Changed { sequence: came }))
                    }
                }
                _ => Ok(Came::Old),
            };
        }
        if came > self.sequence || over {
            return Err(self.fault(PeerFault::Ahead { came, expected: self.sequence }));
        }
        self.sequence += 1;
        let body = message.body.clone();
        self.last_received = Some(message);
        Ok(Came::Next(body))
    }

    /// The number of the next message, whoever sends it.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The last message sent.
    pub(super) fn resend(&self) -> Option<Released<Message>> {
        self.last_sent.clone()
    }

    /// What the study lets this side disclose.
    pub(super) fn disclosures(&self) -> &Disclosures {
        &self.disclosures
    }

    /// An abort for a peer that broke the protocol.
    pub(super) fn fault(&self, fault: PeerFault) -> Abort {
        Abort::Peer { peer: self.role.partner(), fault }
    }

    fn check(&self, message: &Message, study: &Study) -> Result<(), Abort> {
        let header = &message.header;
        if header.sender != self.role.partner() {
            return Err(self.fault(PeerFault::Foreign { what: "sender" }));
        }
        // A greeting with another study is answered by naming the keys, not as a foreign message.
        if let Body::Hello(hello) = &message.body {
            if hello.version != message::VERSION {
                return Err(self.fault(PeerFault::Value { what: "the protocol version", expected: "1", round: 0 }));
            }
            if header.study != self.study {
                return Err(Abort::Study { keys: Study::differing_keys(&study.key_digests(), &hello.keys) });
            }
            if hello.purpose != self.purpose {
                let (own, peer) = (self.role, self.role.partner());
                return Err(Abort::Refused(format!(
                    "{own} runs `{}` and {peer} runs `{}`: start the same command on both sides",
                    self.purpose.command(),
                    hello.purpose.command()
                )));
            }
        }
        if header.study != self.study {
            return Err(self.fault(PeerFault::Foreign { what: "study" }));
        }
        if header.run != self.run {
            return Err(self.fault(PeerFault::Foreign { what: "run" }));
        }
        Ok(())
    }
}
