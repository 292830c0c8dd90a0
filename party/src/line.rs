//! The lines to the other parties over gRPC, as the private file asks for them.

use std::path::Path;

use fedreg_proto::line::{GrpcLink, PeerName};
use fedreg_proto::tls::{Identity, Listener};

use crate::drive::Ends;
use crate::failure::Failure;
use crate::job::Job;
use crate::output::{self, OutputError};

/// A line, and who is at its ends.
pub(crate) struct Line {
    pub(crate) link: GrpcLink,
    pub(crate) ends: Ends,
}

/// Opens this side's ends of the lines to all parties that this one speaks with.
pub(crate) async fn open(job: &Job, identity: &Identity) -> Result<Vec<Line>, Failure> {
    let name = |role| Ok(PeerName { role, certificate: job.party().certificate(role)?.to_string() });
    let peers: Vec<PeerName> = job.study.peers(job.role).into_iter().map(name).collect::<Result<_, Failure>>()?;
    let ends = |peer: &PeerName, dials, listens| Ends { own: job.role, peer: peer.role, dials, listens };
    if let Some(address) = &job.config.connect {
        let dial = |peer: PeerName| Line {
            ends: ends(&peer, Some(address.clone()), None),
            link: GrpcLink::dial(address.clone(), identity, peer),
        };
        return Ok(peers.into_iter().map(dial).collect());
    }
    let Some(address) = &job.config.listen else {
        return Err(Failure::Usage("neither `listen` nor `connect` is set".to_string()));
    };
    let expected: Vec<String> = peers.iter().map(|peer| peer.certificate.clone()).collect();
    let listener = Listener::bind(address, identity, &expected).await?;
    let bound = listener.address().to_string();
    let awaited: Vec<String> = peers.iter().map(|peer| peer.role.to_string()).collect();
    tracing::info!("listening at {bound} for {}", awaited.join(", "));
    announce(job.announce.as_deref(), &bound)?;
    let ends: Vec<Ends> = peers.iter().map(|peer| ends(peer, None, Some(bound.clone()))).collect();
    Ok(GrpcLink::listen_for(listener, peers).into_iter().zip(ends).map(|(link, ends)| Line { link, ends }).collect())
}

/// Writes the address at which a process listens, for anyone who started it at port 0.
fn announce(file: Option<&Path>, address: &str) -> Result<(), OutputError> {
    match file {
        Some(file) => output::write_whole(file, address.as_bytes()),
        None => Ok(()),
    }
}
