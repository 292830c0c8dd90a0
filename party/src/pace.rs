//! Progress to the terminal and to the coordinator, neither of them flooded.

use std::time::{Duration, Instant};

use fedreg_common::id::Role;
use fedreg_common::methods::vertical::session;
use fedreg_proto::register::{PartyEvent, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Least time between two lines of progress to the coordinator.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long somebody is waited for before that is said.
const SAID_AFTER: Duration = Duration::from_secs(3);

/// Whether it was said that somebody is waited for: once, and not at all where it is soon over.
#[derive(Debug, Default)]
pub(crate) struct Notice {
    said: bool,
}

impl Notice {
    /// Whether it is to be said now, after so long of so much.
    pub(crate) fn is_due(&mut self, waited: Duration, most: Duration) -> bool {
        waited >= SAID_AFTER && waited < most && !std::mem::replace(&mut self.said, true)
    }

    /// In how long it is to be said, if it was not.
    pub(crate) fn due_in(&self, waited: Duration) -> Option<Duration> {
        (!self.said).then(|| SAID_AFTER.saturating_sub(waited))
    }
}

/// Waits so long; for ever, where nothing is due.
pub(crate) async fn due(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Whole seconds that are left of a time.
pub(crate) fn left(waited: Duration, most: Duration) -> u64 {
    most.saturating_sub(waited).as_secs()
}

/// A line of progress, and when it was last told.
pub(crate) struct Pace {
    bar: Option<ProgressBar>,
    told: Option<Instant>,
    phase: &'static str,
    role: Role,
}

impl Pace {
    pub(crate) fn new(draw: bool, role: Role) -> Pace {
        let bar = draw.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.set_prefix(role.to_string());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Pace { bar, told: None, phase: "", role }
    }

    /// Shows how far the session is, and gives what the coordinator is to be told of it.
    pub(crate) fn show(&mut self, progress: &session::Progress, bytes_sent: u64) -> Option<PartyEvent> {
        tracing::debug!(
            role = self.role.name(),
            phase = progress.phase,
            fit = progress.fit.0,
            round = progress.round,
            certificate = progress.certificate,
            bytes_sent,
        );
        if let Some(bar) = &self.bar {
            let (fit, fits) = progress.fit;
            let mut line = progress.phase.to_string();
            if fits > 1 {
                line.push_str(&format!(", fit {fit} of {fits}"));
            }
            if progress.round > 0 {
                line.push_str(&format!(", round {}", progress.round));
            }
            if let Some(certificate) = progress.certificate {
                line.push_str(&format!(", gradient {certificate:.1e}"));
            }
            line.push_str(&format!(", {:.1} MB sent", bytes_sent as f64 / 1e6));
            bar.set_message(line);
        }
        let due = self.told.is_none_or(|told| told.elapsed() >= INTERVAL) || self.phase != progress.phase;
        due.then(|| {
            (self.told, self.phase) = (Some(Instant::now()), progress.phase);
            let (phase, round) = (progress.phase.to_string(), progress.round);
            PartyEvent::Progress(Progress { phase, round, certificate: progress.certificate, bytes_sent })
        })
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
