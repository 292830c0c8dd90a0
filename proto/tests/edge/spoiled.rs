//! Handshakes that somebody on the way spoils, without a certificate: whatever they make of it, trying again helps.

use crate::office::Office;
use fedreg_common::id::Role;
use fedreg_proto::health::HealthService;
use fedreg_proto::line::{GrpcLink, PeerName};
use fedreg_proto::link::{Link, OpenError};
use fedreg_proto::tls::{self, Identity, LinkError, Listener};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::rustls;

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(20);
/// For a record whose length was changed: the other side waits for the rest of it.
const SHORT: Duration = Duration::from_millis(150);

/// What happens to the next connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Spoil {
    /// A bit of this byte is turned over on its way to the listener.
    ToListener(usize),
    /// As much on its way back.
    ToDialler(usize),
    /// A fatal alert in plain text stands in for the listener's answer.
    Alert(u8),
}

/// Stands between a party that dials and a listener.
struct Middleman {
    address: SocketAddr,
    next: Arc<Mutex<Option<Spoil>>>,
}

impl Middleman {
    async fn before(listener: SocketAddr) -> Middleman {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let next = Arc::new(Mutex::new(None));
        let spoils = Arc::clone(&next);
        tokio::spawn(async move {
            while let Ok((dialler, _)) = socket.accept().await {
                let spoil = spoils.lock().unwrap().take();
                tokio::spawn(relay(dialler, listener, spoil));
            }
        });
        Middleman { address, next }
    }

    fn spoil(&self, spoil: Spoil) {
        *self.next.lock().unwrap() = Some(spoil);
    }
}

async fn relay(mut dialler: TcpStream, listener: SocketAddr, spoil: Option<Spoil>) {
    if let Some(Spoil::Alert(description)) = spoil {
        let _ = dialler.read(&mut [0; 4096]).await;
        let _ = dialler.write_all(&[0x15, 3, 3, 0, 2, 2, description]).await;
        let _ = dialler.read(&mut [0; 4096]).await;
        return;
    }
    let listener = TcpStream::connect(listener).await.unwrap();
    let (to_listener, to_dialler) = match spoil {
        Some(Spoil::ToListener(at)) => (Some(at), None),
        Some(Spoil::ToDialler(at)) => (None, Some(at)),
        _ => (None, None),
    };
    let (dialler_read, dialler_write) = dialler.into_split();
    let (listener_read, listener_write) = listener.into_split();
    tokio::select! {
        () = pass(dialler_read, listener_write, to_listener) => {}
        () = pass(listener_read, dialler_write, to_dialler) => {}
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    changed: Option<usize>,
) {
    let mut seen = 0;
    let mut bytes = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if let Some(byte) = changed.and_then(|at| at.checked_sub(seen)).and_then(|at| bytes[..count].get_mut(at)) {
            *byte ^= 0x10;
        }
        seen += count;
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

struct Server {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

async fn serve(identity: &Identity, patience: Duration) -> Server {
    let listener = Listener::bind_patient("127.0.0.1:0", identity, &["bob".to_owned()], patience).await.unwrap();
    let address = listener.address();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let router = tls::server().add_service(HealthService::server());
        router.serve_with_incoming_shutdown(listener.incoming(), async { drop(stopped.await) }).await.unwrap();
    });
    Server { address, _stop: stop }
}

async fn dial(identity: &Identity, address: SocketAddr, patience: Duration) -> Result<(), LinkError> {
    tls::dial(identity, &address.to_string(), "alice", patience).await.map(drop)
}

#[tokio::test]
async fn no_changed_byte_of_a_handshake_is_final() {
    let office = Office::open("office");
    let (alice, bob) = (office.party("alice"), office.party("bob"));
    let server = serve(&alice, SHORT).await;
    let middleman = Middleman::before(server.address).await;
    let (mut failed, mut final_ones) = (0, Vec::new());
    // Both flights of the dialling side, and the listener's, with every part of a record's head.
    let places = || (0..12).chain((12..1500).step_by(61));
    for spoil in places().map(Spoil::ToListener).chain(places().map(Spoil::ToDialler)) {
        middleman.spoil(spoil);
        if let Err(error) = dial(&bob, middleman.address, SHORT).await {
            failed += 1;
            if !error.passing() {
                final_ones.push((spoil, error.to_string()));
            }
        }
    }
    assert!(failed > 30, "only {failed} handshakes were spoiled");
    assert!(final_ones.is_empty(), "{} of {failed} were final: {final_ones:?}", final_ones.len());
    dial(&bob, middleman.address, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn no_forged_alert_is_final() {
    let office = Office::open("office");
    let (alice, bob) = (office.party("alice"), office.party("bob"));
    let server = serve(&alice, PATIENCE).await;
    let middleman = Middleman::before(server.address).await;
    // Close notify, handshake failure, bad, unsupported, revoked, expired and unknown certificate, unknown authority, access
    // denied, protocol version, certificate required, no application protocol, and one that nobody knows.
    for alert in [0, 40, 42, 43, 44, 45, 46, 48, 49, 70, 116, 120, 200] {
        middleman.spoil(Spoil::Alert(alert));
        let error = dial(&bob, middleman.address, PATIENCE).await.unwrap_err();
        assert!(error.passing(), "alert {alert} is final: {error}");
    }
    dial(&bob, middleman.address, PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_whose_handshake_was_spoiled_opens_at_the_next_attempt() {
    let office = Office::open("office");
    let name = |role: Role| PeerName { role, certificate: role.name().to_owned() };
    let listener = Listener::bind("127.0.0.1:0", &office.party("alice"), &["bob".to_owned()]).await.unwrap();
    let middleman = Middleman::before(listener.address()).await;
    let mut alice = GrpcLink::listen(listener, name(Role::Bob));
    let mut bob = GrpcLink::dial(middleman.address.to_string(), &office.party("bob"), name(Role::Alice));
    for spoil in [Spoil::ToDialler(200), Spoil::ToListener(600), Spoil::Alert(48)] {
        middleman.spoil(spoil);
        let error = timeout(PATIENCE, bob.open()).await.unwrap().unwrap_err();
        assert!(!matches!(error, OpenError::Refused(_)), "{spoil:?}: {error}");
    }
    let (opened, dialled) = timeout(PATIENCE, async { tokio::join!(alice.open(), bob.open()) }).await.unwrap();
    opened.unwrap();
    dialled.unwrap();
}

/// A TLS listener that shows `chain` and signs with `key`, whatever these are.
async fn impostor(chain: &std::path::Path, key: &std::path::Path) -> SocketAddr {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_file_iter(chain).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let key = provider.key_provider.load_private_key(PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
    let resolver = rustls::sign::SingleCertAndKey::from(rustls::sign::CertifiedKey::new(chain, key));
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = socket.accept().await {
            let _ = acceptor.accept(tcp).await;
        }
    });
    address
}

#[tokio::test]
async fn a_wrong_name_is_final_only_from_whoever_holds_the_certificate() {
    let office = Office::open("office");
    let bob = office.party("bob");
    office.party("mallory");
    office.party("alice");
    // Certificates are public: anyone who saw one can show it, but not sign with its key.
    let stolen = impostor(&office.path("mallory.pem"), &office.path("alice.key")).await;
    let error = dial(&bob, stolen, PATIENCE).await.unwrap_err();
    assert!(error.passing() && !error.to_string().contains("mallory"), "{error}");
    let error = dial(&bob, impostor(&office.path("alice.pem"), &office.path("mallory.key")).await, PATIENCE).await;
    assert!(error.unwrap_err().passing());
    let own = impostor(&office.path("mallory.pem"), &office.path("mallory.key")).await;
    let error = dial(&bob, own, PATIENCE).await.unwrap_err();
    assert!(!error.passing() && error.to_string().contains("shows a certificate for 'mallory'"), "{error}");
}
