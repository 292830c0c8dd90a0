//! Many callers at one listener, with and without certificates: the right one gets in, and nobody takes much memory.

use crate::office::Office;
use fedreg_common::id::Digest;
use fedreg_proto::coordinator;
use fedreg_proto::health::HealthService;
use fedreg_proto::register::StatusReply;
use fedreg_proto::tls::{self, Connection, Identity, Listener};
use fedreg_proto::wire::coordinator_client::CoordinatorClient;
use fedreg_proto::wire::health_client::HealthClient;
use fedreg_proto::wire::{HealthReply, HealthRequest, KeyDigest, PartyEvent};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);
/// Far below the patience with callers that say nothing.
const SOON: Duration = Duration::from_secs(5);

async fn health(office: &Office) -> SocketAddr {
    let (alice, expected) = (office.party("alice"), ["bob".to_owned()]);
    let listener = Listener::bind_patient("127.0.0.1:0", &alice, &expected, PATIENCE).await.unwrap();
    let address = listener.address();
    tokio::spawn(tls::server().add_service(HealthService::server()).serve_with_incoming(listener.incoming()));
    address
}

async fn dial(bob: &Identity, address: SocketAddr) -> Connection {
    timeout(SOON, tls::dial(bob, &address.to_string(), "alice", PATIENCE)).await.expect("kept out").unwrap()
}

async fn answers(connection: &Connection) -> bool {
    let mut client = HealthClient::new(connection.channel.clone());
    timeout(PATIENCE, client.check(HealthRequest {})).await.unwrap().is_ok()
}

/// Everybody here has the same address, as behind one router.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_say_nothing_or_little_do_not_keep_a_party_out() {
    let office = Office::open("office");
    let bob = office.party("bob");
    for first in [&b""[..], &[0x16, 3, 1]] {
        let address = health(&office).await;
        let mut crowd = Vec::new();
        for _ in 0..300 {
            let mut socket = TcpStream::connect(address).await.unwrap();
            let _ = socket.write_all(first).await;
            crowd.push(socket);
        }
        assert!(answers(&dial(&bob, address).await).await);
        drop(crowd);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_party_has_few_connections_and_the_newest_are_kept() {
    let office = Office::open("office");
    let bob = office.party("bob");
    let address = health(&office).await;
    let mut raw = Vec::new();
    for _ in 0..8 {
        raw.push(Raw::open(&office, address).await);
    }
    let mut kept = 0;
    for stream in &mut raw {
        kept += usize::from(stream.stays().await);
    }
    assert!((1..=4).contains(&kept), "{kept} of 8 connections are open");
    assert!(raw.pop().unwrap().stays().await, "the newest was closed");
    assert!(answers(&dial(&bob, address).await).await);
}

/// A connection on which nothing is said after the handshake.
struct Raw(tokio_rustls::client::TlsStream<TcpStream>);

impl Raw {
    async fn open(office: &Office, address: SocketAddr) -> Raw {
        use tokio_rustls::rustls::pki_types::pem::PemObject;
        use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
        use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring, version::TLS13};
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(office.path("authority.pem")).unwrap()).unwrap();
        let chain = vec![CertificateDer::from_pem_file(office.path("bob.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(office.path("bob.key")).unwrap();
        let mut config = ClientConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
        let tcp = TcpStream::connect(address).await.unwrap();
        let mut stream = timeout(SOON, connector.connect("alice".try_into().unwrap(), tcp)).await.unwrap().unwrap();
        // The settings of the listener's HTTP/2: it has taken the certificate.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let mut head = [0; 9];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut head).await.unwrap();
        Raw(stream)
    }

    /// Whether a ping is answered.
    async fn stays(&mut self) -> bool {
        use tokio::io::AsyncReadExt;
        let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        if self.0.write_all(&ping).await.is_err() {
            return false;
        }
        let mut rest = Vec::new();
        let answered = async {
            loop {
                match self.0.read_buf(&mut rest).await {
                    Ok(1..) if rest.windows(8).any(|bytes| bytes == &ping[9..]) => return true,
                    Ok(1..) => {}
                    Ok(0) | Err(_) => return false,
                }
            }
        };
        timeout(PATIENCE, answered).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_carries_few_calls_at_once() {
    let office = Office::open("office");
    let bob = office.party("bob");
    let listener = Listener::bind("127.0.0.1:0", &office.party("alice"), &["bob".to_owned()]).await.unwrap();
    let address = listener.address();
    let status = StatusReply {
        study: "x".to_owned(),
        digest: Digest::of(b"x"),
        run: None,
        parties: vec![],
        exit: None,
        quorum: None,
        ends: None,
    };
    let (_status, shown) = watch::channel(status);
    let (callers, mut calls) = mpsc::channel(64);
    tokio::spawn(coordinator::serve(listener, callers, shown, Box::pin(std::future::pending())));
    let connection = dial(&bob, address).await;
    let asked: Vec<_> = (0..20)
        .map(|_| {
            let mut client = CoordinatorClient::new(connection.channel.clone());
            tokio::spawn(async move {
                let answer = client.join(tokio_stream::pending::<PartyEvent>()).await;
                std::future::pending::<()>().await;
                drop(answer);
            })
        })
        .collect();
    // What was let in stays, as these are kept.
    let mut open = vec![timeout(PATIENCE, calls.recv()).await.unwrap()];
    while let Ok(caller) = timeout(Duration::from_millis(300), calls.recv()).await {
        open.push(caller);
    }
    assert!(open.len() <= 2, "{} of 20 calls are open", open.len());
    // What has ended makes room.
    asked.iter().for_each(tokio::task::JoinHandle::abort);
    drop(open);
    let _joined = coordinator::join(&address.to_string(), &bob, "alice").await.unwrap();
    assert!(timeout(PATIENCE, calls.recv()).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_question_who_one_is_takes_no_long_message() {
    let office = Office::open("office");
    let bob = office.party("bob");
    let connection = dial(&bob, health(&office).await).await;
    let mut client = tonic::client::Grpc::new(connection.channel.clone());
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/fedreg.v1.Health/Check");
    let long = KeyDigest { name: "x".repeat(100_000), digest: vec![].into() };
    let codec = ProstCodec::<KeyDigest, HealthReply>::default();
    let status = client.unary(tonic::Request::new(long), path, codec).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::OutOfRange, "{status}");
    assert!(answers(&connection).await);
}
