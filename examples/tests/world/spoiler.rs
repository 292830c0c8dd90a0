//! A line on which things go wrong, between a process and the one that it dials.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What goes wrong on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A fatal alert in plain text, "unknown authority", stands in for the listener's first answer.
    Alert,
    /// A bit is turned over.
    Flip,
    /// Both directions end.
    Cut,
    /// This direction ends, the other goes on.
    HalfClose,
    /// Nothing more comes in this direction, and nobody is told.
    Stall,
}

/// A fault, and where it strikes: after so many bytes towards the listener, or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spoil {
    pub(crate) fault: Fault,
    pub(crate) back: bool,
    pub(crate) at: usize,
}

/// Stands before `listener` and spoils the first connections, one with each of `spoils`; where to dial instead.
pub(crate) fn before(listener: String, spoils: &[Spoil]) -> String {
    counted(listener, spoils).0
}

/// The same, with the number of faults that have struck so far, alerts left out.
pub(crate) fn counted(listener: String, spoils: &[Spoil]) -> (String, Arc<AtomicUsize>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = socket.local_addr().unwrap().to_string();
    let spoils: Vec<Spoil> = spoils.to_vec();
    let struck = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&struck);
    std::thread::spawn(move || {
        let mut spoils = spoils.into_iter();
        for mut dialler in socket.incoming().flatten() {
            let spoil = spoils.next();
            if spoil.is_some_and(|spoil| spoil.fault == Fault::Alert) {
                let _ = dialler.read(&mut [0; 4096]);
                let _ = dialler.write_all(&[0x15, 3, 3, 0, 2, 2, 48]);
                let _ = dialler.read(&mut [0; 4096]);
                continue;
            }
            let Ok(target) = TcpStream::connect(&listener) else { continue };
            let (Ok(to_target), Ok(to_dialler)) = (target.try_clone(), dialler.try_clone()) else { continue };
            let both = [(dialler, to_target, false), (target, to_dialler, true)];
            for (from, to, back) in both {
                let (spoil, seen) = (spoil.filter(|spoil| spoil.back == back), Arc::clone(&seen));
                std::thread::spawn(move || pass(from, to, spoil, &seen));
            }
        }
    });
    (place, struck)
}

fn pass(mut from: TcpStream, mut to: TcpStream, spoil: Option<Spoil>, struck: &AtomicUsize) {
    let mut bytes = [0; 16 << 10];
    let mut seen = 0;
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let due = spoil.and_then(|spoil| Some((spoil.fault, spoil.at.checked_sub(seen)?)));
        seen += count;
        let mut left = &mut bytes[..count];
        let mut ended = false;
        if let Some((fault, at)) = due.filter(|(_, at)| *at < count) {
            match fault {
                // In the length of a record this makes it too long, rather than one whose rest is waited for.
                Fault::Flip => left[at] ^= 0x80,
                _ => (left, ended) = (&mut left[..at], true),
            }
            if to.write_all(left).is_err() {
                break;
            }
            struck.fetch_add(1, Ordering::SeqCst);
            match fault {
                Fault::Cut => {
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = to.shutdown(Shutdown::Both);
                }
                Fault::HalfClose => drop(to.shutdown(Shutdown::Write)),
                _ => {}
            }
        } else if to.write_all(left).is_err() {
            break;
        }
        if ended {
            while let Ok(1..) = from.read(&mut bytes) {}
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
