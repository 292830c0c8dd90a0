//! A runtime for a run, which the user's interrupts end in good order.

use std::time::Duration;

use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::session::Abort;
use fedreg_proto::shell;
use tokio::sync::mpsc;

use crate::failure::Failure;

/// Runs something on a runtime of its own, with the user's interrupts as reasons to stop.
pub(crate) fn with_interrupts<T, F>(
    role: Role,
    leash: bool,
    work: impl FnOnce(mpsc::Sender<Abort>, mpsc::Receiver<Abort>) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let runtime = shell::runtime(2).map_err(|error| Abort::Bug(format!("no runtime: {error}")))?;
    let (stop, stopped) = mpsc::channel(8);
    let result = runtime.block_on(async {
        let interrupts = stop.clone();
        tokio::spawn(async move {
            let mut before = false;
            while shell::interrupted().await {
                if before {
                    // Twice means now, whatever is still to be said.
                    std::process::exit(i32::from(Exit::Interrupted.code()));
                }
                before = true;
                let _ = interrupts.send(Abort::Interrupted(role)).await;
            }
        });
        let started_by_another = stop.clone();
        tokio::spawn(async move {
            shell::leashed(leash).await;
            let _ = started_by_another.send(Abort::Interrupted(role)).await;
        });
        work(stop, stopped).await
    });
    // A step that is still being computed must not hold the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}
