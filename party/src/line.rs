//! The line to the other party over gRPC, as the private file asks for it.

use std::path::Path;

use fedreg_proto::line::{GrpcLink, PeerName};
use fedreg_proto::tls::{Identity, Listener};

use crate::failure::Failure;
use crate::job::Job;
use crate::output::{self, OutputError};

/// Opens this side's end of the line to the other party over gRPC. Where this side listens, gives the address that was bound too, with
/// the port that was given.
pub(crate) async fn open(job: &Job, identity: &Identity) -> Result<(GrpcLink, Option<String>), Failure> {
    let role = job.role.partner();
    let peer = PeerName { role, certificate: job.party().certificate(role)?.to_string() };
    if let Some(address) = &job.config.connect {
        return Ok((GrpcLink::dial(address.clone(), identity, peer), None));
    }
    let Some(address) = &job.config.listen else {
        return Err(Failure::Usage("neither `listen` nor `connect` is set".to_string()));
    };
    let expected = [peer.certificate.clone()];
    let listener = Listener::bind(address, identity, &expected).await?;
    let bound = listener.address().to_string();
    tracing::info!("listening at {bound} for {role}");
    announce(job.announce.as_deref(), &bound)?;
    Ok((GrpcLink::listen(listener, peer), Some(bound)))
}

/// Writes the address at which a process listens, for anyone who started it at port 0.
fn announce(file: Option<&Path>, address: &str) -> Result<(), OutputError> {
    match file {
        Some(file) => output::write_whole(file, address.as_bytes()),
        None => Ok(()),
    }
}
