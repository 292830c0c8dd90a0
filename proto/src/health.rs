//! The service that tells a peer who it is to us.

use crate::limits::QUESTION_BYTES;
use crate::tls;
use crate::wire::health_server::{Health, HealthServer};
use crate::wire::{HealthReply, HealthRequest};
use tonic::{Request, Response, Status};

/// Answers every caller with its own certificate name, so that a connection can be tried before a study runs over it.
#[derive(Debug, Default, Clone, Copy)]
pub struct HealthService;

impl HealthService {
    /// The service, ready to be added to a server.
    pub fn server() -> HealthServer<HealthService> {
        HealthServer::new(HealthService).max_decoding_message_size(QUESTION_BYTES)
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(&self, request: Request<HealthRequest>) -> Result<Response<HealthReply>, Status> {
        let peer = tls::peer(&request)?;
        Ok(Response::new(HealthReply {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            caller: peer.name.clone(),
            caller_fingerprint: peer.fingerprint.clone(),
        }))
    }
}
