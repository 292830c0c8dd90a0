//! The dealer of a study that names one apart from the coordinator: it deals masks, and convenes nobody.

use std::future::Future;
use std::time::Duration;

use fedreg_common::exit::Exit;
use fedreg_common::study::{StudyError, Vertical};
use tokio::sync::mpsc;

use crate::dealer::DealerService;
use crate::service::{Failure, Job, beside, listen_as};

/// Deals until the run has ended, or for ever; gives the code with which the run ended here.
///
/// # Errors
/// It cannot serve, or the study names no such dealer.
pub(crate) async fn serve(job: &Job<Vertical>, shutdown: impl Future<Output = ()>) -> Result<Exit, Failure> {
    let Job { study, keep, .. } = job;
    let Some(dealer) = &study.head.dealer else {
        let problem = "names no dealer: in this study the coordinator deals (`coordinator serve`)".to_string();
        return Err(Failure::Study(StudyError::Value { key: "dealer".to_string(), problem }));
    };
    let names = study.method.parties.values().map(|terms| terms.certificate.clone()).collect();
    let listener = listen_as(job, &dealer.certificate, names, "dealing masks for").await?;
    let (callers, calls) = mpsc::channel(16);
    let dealing = DealerService::of(study).run(calls, *keep, Duration::from_secs(job.config.wait));
    let server = |closed| fedreg_proto::dealer::serve_alone(listener, callers, closed);
    beside(server, async {
        tokio::select! {
            exit = dealing => Ok(exit),
            () = shutdown => Ok(Exit::Interrupted),
        }
    })
    .await
}
