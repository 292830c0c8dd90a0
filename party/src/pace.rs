//! Progress to the terminal and to the coordinator, neither of them flooded.

use std::time::{Duration, Instant};

use fedreg_common::id::Role;
use fedreg_common::vertical::session;
use fedreg_proto::register::{PartyEvent, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::convene::Convener;

/// Least time between two lines of progress to the coordinator.
const INTERVAL: Duration = Duration::from_millis(250);

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
            bar.set_prefix(role.name());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Pace { bar, told: None, phase: "", role }
    }

    pub(crate) fn show(&mut self, progress: &session::Progress, bytes_sent: u64, convener: &Convener) {
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
        let due = self.told.is_none_or(|told| told.elapsed() >= INTERVAL);
        if due || self.phase != progress.phase {
            self.told = Some(Instant::now());
            self.phase = progress.phase;
            convener.say(PartyEvent::Progress(Progress {
                phase: progress.phase.to_string(),
                round: progress.round,
                certificate: progress.certificate,
                bytes_sent,
            }));
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
