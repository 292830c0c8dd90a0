//! How many callers at once: handshakes under way, and connections of each party.
//!
//! A newcomer is never turned away for want of room, as it may be the one that is waited for, and may come from behind the
//! same router as a crowd of others. It takes the place of the caller that has shown least: one from an address without an
//! accepted party before one from an address with, one that has said nothing before one that has, the oldest first. Whoever
//! means to make a handshake speaks at once, so that silent callers keep nobody out, however many there are.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Handshakes under way at once; with as many sockets a process stays far from the usual limit of 1024 files.
const HANDSHAKES: usize = 512;
/// As many of one address, so that others find room beside it.
const HANDSHAKES_AN_ADDRESS: usize = 256;
/// Connections of one party at once: its line, one that takes over before the loss of the line is noticed, and questions.
const CONNECTIONS_A_PARTY: usize = 4;
/// Addresses of accepted parties that are remembered.
const KNOWN: usize = 256;

/// The handshakes under way at one listener.
#[derive(Debug, Clone, Default)]
pub(super) struct Handshakes(Arc<Mutex<Callers>>);

#[derive(Debug, Default)]
struct Callers {
    under_way: BTreeMap<u64, Caller>,
    next: u64,
    /// Where accepted parties came from, the latest last.
    known: VecDeque<IpAddr>,
}

#[derive(Debug)]
struct Caller {
    network: IpAddr,
    spoke: bool,
    task: AbortHandle,
}

/// The place of a handshake that is under way; free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    handshakes: Handshakes,
    number: u64,
    network: IpAddr,
}

impl Handshakes {
    /// Runs the handshake with a caller, which may be ended for a newer one.
    pub(super) fn begin<F>(&self, address: SocketAddr, handshake: impl FnOnce(Place) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let network = network(address.ip());
        // Held until the caller is entered: a handshake that ends at once must find itself here.
        let mut callers = self.callers();
        callers.make_room(network);
        let number = callers.next;
        callers.next += 1;
        let place = Place { handshakes: self.clone(), number, network };
        let task = tokio::spawn(handshake(place)).abort_handle();
        callers.under_way.insert(number, Caller { network, spoke: false, task });
    }

    /// Ends the handshake of the caller that has shown least, where the process is out of sockets.
    pub(super) fn give_one_up(&self) {
        self.callers().give_one_up(None);
    }

    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Callers {
    fn make_room(&mut self, network: IpAddr) {
        let near = self.under_way.values().filter(|caller| caller.network == network).count();
        if near >= HANDSHAKES_AN_ADDRESS {
            self.give_one_up(Some(network));
        } else if self.under_way.len() >= HANDSHAKES {
            self.give_one_up(None);
        }
    }

    fn give_one_up(&mut self, network: Option<IpAddr>) {
        let among = self.under_way.iter().filter(|(_, caller)| network.is_none_or(|network| caller.network == network));
        let least = among.min_by_key(|(number, caller)| (self.known.contains(&caller.network), caller.spoke, **number));
        if let Some(number) = least.map(|(number, _)| *number)
            && let Some(caller) = self.under_way.remove(&number)
        {
            caller.task.abort();
        }
    }
}

impl Place {
    /// The caller has begun to speak.
    pub(super) fn spoke(&self) {
        if let Some(caller) = self.handshakes.callers().under_way.get_mut(&self.number) {
            caller.spoke = true;
        }
    }

    /// The caller is a party: from now on its address is given up last.
    pub(super) fn accepted(self) {
        let known = &mut self.handshakes.callers().known;
        known.retain(|network| *network != self.network);
        if known.len() >= KNOWN {
            known.pop_front();
        }
        known.push_back(self.network);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.handshakes.callers().under_way.remove(&self.number);
    }
}

/// What counts as one address: one of IPv4, or the 64 bits that a site of IPv6 is given.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        IpAddr::V4(address) => IpAddr::V4(address),
    }
}

/// The connections of the accepted parties at one listener, those of each in order of age.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Arc<Mutex<Parties>>);

#[derive(Debug, Default)]
struct Parties {
    open: BTreeMap<String, VecDeque<(u64, oneshot::Sender<()>)>>,
    next: u64,
}

/// One connection's part in the count, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    connections: Connections,
    name: String,
    number: u64,
    /// Ends when newer connections of the same party leave no room.
    replaced: Option<oneshot::Receiver<()>>,
}

impl Connections {
    /// Counts a new connection of a party. Beyond the limit its oldest one ends: that may be dead without anybody knowing.
    pub(super) fn count(&self, name: &str) -> Counted {
        let mut parties = self.parties();
        let number = parties.next;
        parties.next += 1;
        let (keep, replaced) = oneshot::channel();
        let open = parties.open.entry(name.to_owned()).or_default();
        open.push_back((number, keep));
        if open.len() > CONNECTIONS_A_PARTY {
            tracing::debug!("{name} has more than {CONNECTIONS_A_PARTY} connections, the oldest is closed");
            open.pop_front();
        }
        Counted { connections: self.clone(), name: name.to_owned(), number, replaced: Some(replaced) }
    }

    fn parties(&self) -> MutexGuard<'_, Parties> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    /// Whether the connection has to end; wakes the task when it has.
    pub(super) fn is_replaced(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(replaced) = &mut self.replaced
            && std::pin::Pin::new(replaced).poll(context) != Poll::Pending
        {
            self.replaced = None;
        }
        self.replaced.is_none()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut parties = self.connections.parties();
        if let Some(open) = parties.open.get_mut(&self.name) {
            open.retain(|(number, _)| *number != self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    fn from(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 50_000)
    }

    /// Begins handshakes that never end; each place goes into `places`.
    fn begin(handshakes: &Handshakes, address: &str, places: &Arc<Mutex<Vec<Option<Place>>>>) {
        let places = Arc::clone(places);
        handshakes.begin(from(address), |place| {
            places.lock().unwrap().push(Some(place));
            pending()
        });
    }

    fn under_way(handshakes: &Handshakes) -> Vec<u64> {
        handshakes.callers().under_way.keys().copied().collect()
    }

    #[tokio::test]
    async fn a_newcomer_takes_the_place_of_the_oldest_that_has_said_nothing() {
        let (handshakes, places) = (Handshakes::default(), Arc::default());
        for _ in 0..HANDSHAKES_AN_ADDRESS {
            begin(&handshakes, "10.0.0.1", &places);
        }
        for place in [0, 1, 3] {
            places.lock().unwrap()[place].as_ref().unwrap().spoke();
        }
        begin(&handshakes, "10.0.0.1", &places);
        begin(&handshakes, "10.0.0.1", &places);
        assert_eq!(under_way(&handshakes)[..4], [0, 1, 3, 5]);
        assert_eq!(under_way(&handshakes).len(), HANDSHAKES_AN_ADDRESS);
        // When everybody has spoken the oldest goes, never the newcomer.
        places.lock().unwrap().iter().flatten().for_each(Place::spoke);
        begin(&handshakes, "10.0.0.1", &places);
        assert_eq!(under_way(&handshakes)[..2], [1, 3]);
        // Another address finds room beside a crowded one.
        let before = under_way(&handshakes).len();
        begin(&handshakes, "10.0.0.2", &places);
        assert_eq!(under_way(&handshakes).len(), before + 1);
        // A place is free when its handshake is over.
        places.lock().unwrap()[1].take();
        assert_eq!(under_way(&handshakes)[0], 3);
    }

    #[tokio::test]
    async fn an_address_of_an_accepted_party_is_given_up_last() {
        let (handshakes, places) = (Handshakes::default(), Arc::default());
        begin(&handshakes, "10.0.0.1", &places);
        let place = places.lock().unwrap()[0].take().unwrap();
        place.accepted();
        assert_eq!(under_way(&handshakes), [0; 0]);
        begin(&handshakes, "10.0.0.1", &places);
        for other in 0..HANDSHAKES {
            begin(&handshakes, &format!("10.1.{}.{}", other / 200, other % 200), &places);
        }
        places.lock().unwrap().iter().flatten().skip(1).for_each(Place::spoke);
        begin(&handshakes, "10.2.0.1", &places);
        let left = under_way(&handshakes);
        assert_eq!((left.len(), left[0]), (HANDSHAKES, 1), "the silent one from the known address stays");
    }

    #[test]
    fn one_site_of_ipv6_and_one_address_of_ipv4_count_as_one() {
        let same = |left: &str, right: &str| network(from(left).ip()) == network(from(right).ip());
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
    }

    #[test]
    fn the_oldest_connection_of_a_party_ends_beyond_the_limit_and_no_other_partys() {
        let connections = Connections::default();
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut alice = connections.count("alice");
        let mut bob: Vec<Counted> = (0..CONNECTIONS_A_PARTY + 2).map(|_| connections.count("bob")).collect();
        let replaced: Vec<bool> = bob.iter_mut().map(|counted| counted.is_replaced(&mut context)).collect();
        assert_eq!(replaced, [true, true, false, false, false, false]);
        assert!(!alice.is_replaced(&mut context));
        // What has ended makes room.
        drop(bob.pop());
        let _new = connections.count("bob");
        assert!(!bob[2].is_replaced(&mut context));
    }
}
