//! The line to the other party over gRPC, as the driver takes it.

use std::path::Path;

use fedreg_common::methods::vertical::message::Message;
use fedreg_common::privacy::release::Released;
use fedreg_proto::limits::Limits;
use fedreg_proto::line::{GrpcLink, PeerName};
use fedreg_proto::link::{Event, Notice, OpenError};
use fedreg_proto::tls::{Identity, Listener};

use crate::drive::Link;
use crate::failure::Failure;
use crate::job::{Job, certificate};
use crate::output::{self, OutputError};

/// The line to the other party over gRPC.
pub(crate) struct Line {
    link: GrpcLink,
    /// The address that was bound, with the port that was given.
    listens: Option<String>,
}

impl Line {
    pub(crate) async fn open(job: &Job, identity: &Identity) -> Result<Line, Failure> {
        let peer = PeerName {
            role: job.role.partner(),
            certificate: certificate(&job.study, job.role.partner())?.to_string(),
        };
        if let Some(address) = &job.config.connect {
            return Ok(Line { link: GrpcLink::dial(address.clone(), identity, peer), listens: None });
        }
        let Some(address) = &job.config.listen else {
            return Err(Failure::Usage("neither `listen` nor `connect` is set".to_string()));
        };
        let expected = [peer.certificate.clone()];
        let listener = Listener::bind(address, identity, &expected).await?;
        let bound = listener.address().to_string();
        tracing::info!("listening at {bound} for {}", peer.role);
        announce(job.announce.as_deref(), &bound)?;
        Ok(Line { link: GrpcLink::listen(listener, peer), listens: Some(bound) })
    }

    /// The address that was bound, if this side listens.
    pub(crate) fn listens(&self) -> Option<String> {
        self.listens.clone()
    }

    /// Bounds what the peer may send, from the rows of the own table.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.link.set_limits(limits);
    }
}

/// Writes the address at which a process listens, for whoever started it at port 0.
fn announce(file: Option<&Path>, address: &str) -> Result<(), OutputError> {
    match file {
        Some(file) => output::write_whole(file, address.as_bytes()),
        None => Ok(()),
    }
}

impl Link for Line {
    type Outbound = Released<Message>;
    type Inbound = Message;

    async fn open(&mut self) -> Result<(), OpenError> {
        self.link.open().await
    }

    fn send(&mut self, message: Released<Message>) {
        self.link.send(message);
    }

    async fn recv(&mut self) -> Event<Message> {
        self.link.recv().await
    }

    fn abort(&mut self, notice: Notice) {
        self.link.abort(notice);
    }

    fn bye(&mut self) {
        self.link.bye();
    }

    async fn close(&mut self) {
        self.link.close().await;
    }

    fn bytes_sent(&self) -> u64 {
        self.link.bytes_sent()
    }
}
