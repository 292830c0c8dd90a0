//! The port of a coordinator between two parties, on which more than the register may stand.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::BoxFuture;
use crate::coordinator::{self, Caller, RunService, ServeError};
use crate::limits::EVENT_WINDOW_BYTES;
use crate::register::StatusReply;
use crate::tls::Listener;
use crate::{dealer, merge};

/// What stands on the port beside the register.
#[derive(Debug, Default)]
pub struct Beside {
    /// Gets every line on which a party orders masks.
    pub dealing: Option<mpsc::Sender<dealer::Caller>>,
    /// Gets every line on which a party sends a list.
    pub merging: Option<mpsc::Sender<merge::Caller>>,
}

/// Serves the coordinator as [`coordinator::serve`] does, with more on the same port.
///
/// # Errors
/// The server cannot go on.
pub fn serve(
    listener: Listener,
    callers: mpsc::Sender<Caller>,
    Beside { dealing, merging }: Beside,
    status: watch::Receiver<StatusReply>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), ServeError>> {
    let (closing, closed) = watch::channel(false);
    let service = Arc::new(RunService { callers, status, closed: closed.clone() });
    let mut routes = coordinator::routes(service);
    if let Some(dealing) = dealing {
        routes = routes.add_service(dealer::service(dealing, closed.clone()));
    }
    if let Some(merging) = merging {
        routes = routes.add_service(merge::service(merging, closed));
    }
    coordinator::run(listener, routes, EVENT_WINDOW_BYTES, closing, shutdown)
}
