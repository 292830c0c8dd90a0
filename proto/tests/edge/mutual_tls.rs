//! Who is let in, who is not, and what both sides are told.

use crate::office::Office;
use fedreg_proto::health::HealthService;
use fedreg_proto::tls::{self, Cause, Connection, Identity, LinkError, Listener, Refusals, RefusedOurs, Stage};
use fedreg_proto::wire::HealthRequest;
use fedreg_proto::wire::health_client::HealthClient;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio_rustls::rustls;

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(20);
/// For the tests in which somebody stays silent.
const SHORT: Duration = Duration::from_millis(150);

struct Server {
    address: SocketAddr,
    refusals: watch::Receiver<Refusals>,
    stop: oneshot::Sender<()>,
    done: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(identity: &Identity, expected: &[&str]) -> Server {
        Server::start_at("127.0.0.1:0", identity, expected, PATIENCE).await
    }

    async fn start_at(address: &str, identity: &Identity, expected: &[&str], patience: Duration) -> Server {
        let expected = expected.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let listener = Listener::bind_patient(address, identity, &expected, patience).await.unwrap();
        let (address, refusals) = (listener.address(), listener.refusals());
        let (stop, stopped) = oneshot::channel::<()>();
        let done = tokio::spawn(async move {
            let router = tls::server().add_service(HealthService::server());
            let stopped = async { drop(stopped.await) };
            router.serve_with_incoming_shutdown(listener.incoming(), stopped).await.unwrap();
        });
        Server { address, refusals, stop, done }
    }

    /// Why the next caller is turned away.
    async fn refusal(&mut self) -> Cause {
        let refusals = self.refusals.wait_for(|refusals| refusals.count > 0).await.unwrap();
        let error = refusals.last.clone().unwrap();
        assert!(error.who.starts_with("the peer at 127.0.0.1:"), "{error}");
        error.cause
    }

    async fn close(self) {
        let _ = self.stop.send(());
        self.done.await.unwrap();
    }
}

async fn dial(identity: &Identity, address: SocketAddr, expected: &str) -> Result<Connection, LinkError> {
    tls::dial(identity, &address.to_string(), expected, PATIENCE).await
}

/// Bob dials Alice; returns why it failed at Bob's and at Alice's.
async fn refused_both_ways(alice: &Identity, bob: &Identity) -> (LinkError, Cause) {
    let mut server = Server::start(alice, &["bob", "coordinator"]).await;
    let error = dial(bob, server.address, "alice").await.unwrap_err();
    (error, server.refusal().await)
}

#[track_caller]
fn says(error: &impl ToString, parts: &[&str]) {
    let sentence = error.to_string();
    for part in parts {
        assert!(sentence.contains(part), "expected {part:?} in: {sentence}");
    }
    assert!(!sentence.ends_with('.') && !sentence.contains('\n'), "{sentence}");
}

#[tokio::test]
async fn parties_of_one_authority_accept_each_other_and_know_who_speaks() {
    let office = Office::open("office");
    let (alice, bob) = (office.party("alice"), office.party_also("bob", &["bob.example"]));
    let server = Server::start(&alice, &["bob", "coordinator"]).await;
    let connection = dial(&bob, server.address, "alice").await.unwrap();
    assert_eq!(connection.peer.name, "alice");
    assert_eq!(connection.peer.fingerprint, alice.facts().fingerprint);
    assert_eq!(connection.peer.protocol, "TLS 1.3");
    assert!(connection.peer.cipher.starts_with("TLS13_"), "{:?}", connection.peer);
    let reply = HealthClient::new(connection.channel).check(HealthRequest {}).await.unwrap().into_inner();
    assert_eq!((reply.caller.as_str(), reply.caller_fingerprint), ("bob", bob.facts().fingerprint.clone()));
    assert_eq!(server.refusals.borrow().count, 0);
    server.close().await;
}

#[tokio::test]
async fn institutions_with_an_authority_each_trust_both_files() {
    let (north, south) = (Office::open("north"), Office::open("south"));
    let bundle = |office: &Office| {
        let texts = [&north, &south].map(|office| std::fs::read_to_string(office.path("authority.pem")).unwrap());
        office.write("both.pem", &texts.concat())
    };
    let party = |office: &Office, name| {
        let validity = crate::office::around(time::Duration::days(1), time::Duration::days(99));
        let files = office.files(name, &[], validity);
        Identity::load(&fedreg_proto::files::TlsTerms { authority: bundle(office), ..files }).unwrap()
    };
    let server = Server::start(&party(&north, "alice"), &["bob"]).await;
    assert_eq!(dial(&party(&south, "bob"), server.address, "alice").await.unwrap().peer.name, "alice");
    server.close().await;
}

#[tokio::test]
async fn the_dialled_address_need_not_be_in_the_certificate() {
    let office = Office::open("office");
    let server = Server::start(&office.party("alice.hospital.example"), &["bob"]).await;
    for host in ["127.0.0.1", "localhost"] {
        let address = format!("{host}:{}", server.address.port());
        let connection = tls::dial(&office.party("bob"), &address, "alice.hospital.example", PATIENCE).await.unwrap();
        assert_eq!(connection.peer.name, "alice.hospital.example");
    }
    server.close().await;
}

#[tokio::test]
async fn a_caller_without_a_certificate_is_refused_and_told() {
    let office = Office::open("office");
    let mut server = Server::start(&office.party("alice"), &["bob"]).await;
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(office.path("authority.pem")).unwrap();
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(&pem).unwrap()).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = TcpStream::connect(server.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect("alice".try_into().unwrap(), socket).await.unwrap();
    let error = stream.read_u8().await.unwrap_err();
    says(&tls::explain(&error), &["the peer refused our certificate: it saw none"]);
    let cause = server.refusal().await;
    assert_eq!(cause, Cause::NoCertificate);
    says(&cause, &["showed no certificate", "certs issue"]);
    server.close().await;
}

#[tokio::test]
async fn a_caller_from_a_foreign_authority_is_refused_and_told() {
    let (office, foreign) = (Office::open("office"), Office::open("foreign"));
    let (bob, alice) = refused_both_ways(&office.party("alice"), &foreign.party_trusting("bob", &office)).await;
    assert_eq!(bob.cause, Cause::RefusedOurs(RefusedOurs::UnknownAuthority));
    says(&bob, &["alice at 127.0.0.1:", "refused our certificate: it does not know the authority that issued it"]);
    assert_eq!((bob.exit().code(), bob.passing()), (77, false));
    says(&alice, &["a certificate from 'foreign', which is none of our authorities ('office')"]);
}

#[tokio::test]
async fn a_listener_from_a_foreign_authority_is_refused_and_told() {
    let (office, foreign) = (Office::open("office"), Office::open("foreign"));
    let (bob, alice) = refused_both_ways(&foreign.party_trusting("alice", &office), &office.party("bob")).await;
    says(&bob, &["a certificate from 'foreign', which is none of our authorities ('office')"]);
    // Anybody on the way can show one.
    assert_eq!((bob.exit().code(), bob.passing()), (77, true));
    assert_eq!(alice, Cause::RefusedOurs(RefusedOurs::UnknownAuthority));
}

#[tokio::test]
async fn an_authority_made_anew_under_its_old_name_is_recognised_as_such() {
    let (old, new) = (Office::open("office"), Office::open("office"));
    let (bob, alice) = refused_both_ways(&new.party("alice"), &old.party_trusting("bob", &new)).await;
    says(&alice, &["in the name of 'office', but our authority of that name did not sign it", "made anew"]);
    says(&bob, &["refused our certificate"]);
}

#[tokio::test]
async fn an_expired_certificate_is_refused_on_either_side_with_its_date() {
    let office = Office::open("office");
    let (long_ago, lately) = (time::Duration::days(-20), time::Duration::days(-2));
    let day = time::OffsetDateTime::now_utc() + lately;
    let date = format!("expired on {}-{:02}-{:02}", day.year(), u8::from(day.month()), day.day());

    let (bob, alice) = refused_both_ways(&office.party("alice"), &office.party_at("bob", long_ago, lately)).await;
    says(&alice, &["shows a certificate that", &date, "issued again"]);
    says(&bob, &["refused our certificate: it finds it expired or not yet valid"]);

    let (bob, alice) = refused_both_ways(&office.party_at("alice", long_ago, lately), &office.party("bob")).await;
    says(&bob, &["alice at 127.0.0.1:", "shows a certificate that", &date]);
    assert_eq!(bob.exit().code(), 77);
    assert_eq!(alice, Cause::RefusedOurs(RefusedOurs::OutOfDate));
}

#[tokio::test]
async fn a_certificate_from_the_future_is_refused() {
    let office = Office::open("office");
    let early = office.party_at("bob", time::Duration::days(2), time::Duration::days(20));
    let (_, alice) = refused_both_ways(&office.party("alice"), &early).await;
    says(&alice, &["valid only from", "clocks is wrong"]);
}

#[tokio::test]
async fn a_wrong_name_is_refused_on_either_side_naming_both() {
    let office = Office::open("office");
    let (bob, alice) =
        refused_both_ways(&office.party("alice"), &office.party_also("mallory", &["mallory.example"])).await;
    says(&alice, &["a certificate for 'mallory', 'mallory.example', expected 'bob', 'coordinator' as the study says"]);
    assert_eq!(bob.cause, Cause::RefusedOurs(RefusedOurs::WrongName));
    says(&bob, &["its study expects another name here", "certs show"]);

    let (bob, alice) = refused_both_ways(&office.party("mallory"), &office.party("bob")).await;
    says(&bob, &["shows a certificate for 'mallory', expected 'alice' as the study says"]);
    assert_eq!((bob.exit().code(), bob.passing()), (77, false));
    assert_eq!(alice, Cause::RefusedOurs(RefusedOurs::WrongName));
}

#[tokio::test]
async fn one_certificate_cannot_stand_for_two_parties() {
    let office = Office::open("office");
    let (_, alice) = refused_both_ways(&office.party("alice"), &office.party_also("bob", &["coordinator"])).await;
    says(&alice, &["stands for 'bob', 'coordinator' at once"]);
}

#[tokio::test]
async fn a_plaintext_caller_is_refused() {
    let office = Office::open("office");
    let mut server = Server::start(&office.party("alice"), &["bob"]).await;
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let failed = match endpoint.connect().await {
        Ok(channel) => HealthClient::new(channel).check(HealthRequest {}).await.is_err(),
        Err(_) => true,
    };
    assert!(failed);
    let cause = server.refusal().await;
    assert_eq!(cause, Cause::Plaintext);
    says(&cause, &["speaks without TLS", "no plaintext mode"]);
    server.close().await;
}

#[tokio::test]
async fn a_caller_with_tls_1_2_is_refused_with_the_alert_for_it() {
    // The first message of `openssl s_client -tls1_2`, OpenSSL 3.0.19.
    const HELLO: &str = "16030100b7010000b3030336765b28730e5e8de836d575ead16ba2363d55afe62a38b556f12d37485c5efa000038c02c\
        c030009fcca9cca8ccaac02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f00ff01\
        000052000b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d002a002804030503060308070808\
        0809080a080b080408050806040105010601030303010302040205020602";
    let office = Office::open("office");
    let mut server = Server::start(&office.party("alice"), &["bob"]).await;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(&bytes(HELLO)).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, bytes("15030300020246"), "fatal alert protocol_version");
    let cause = server.refusal().await;
    assert_eq!(cause, Cause::OldTls);
    says(&cause, &["does not speak TLS 1.3"]);
    server.close().await;
}

#[tokio::test]
async fn garbage_is_refused_and_others_are_served_meanwhile() {
    let office = Office::open("office");
    let mut server = Server::start(&office.party("alice"), &["bob"]).await;
    // One says nothing at all and stays; it must not block anybody.
    let silent = TcpStream::connect(server.address).await.unwrap();
    for garbage in [&b"\x00\x01\x02\x03"[..], &[0xff; 4096]] {
        let seen = server.refusals.borrow_and_update().count;
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(garbage).await.unwrap();
        let refusals = server.refusals.wait_for(|refusals| refusals.count > seen).await.unwrap();
        assert_eq!(refusals.last.as_ref().unwrap().cause, Cause::NotTls);
    }
    // Begins like TLS, and is none.
    let seen = server.refusals.borrow_and_update().count;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(&[[0x16, 0x03, 0x01, 0x00, 0x40].as_slice(), &[0x41; 64]].concat()).await.unwrap();
    let refusal = server.refusals.wait_for(|refusals| refusals.count > seen).await.unwrap().last.clone().unwrap();
    assert_eq!(refusal.exit().code(), 76, "{refusal}");
    assert!(dial(&office.party("bob"), server.address, "alice").await.is_ok());
    drop(silent);
    server.close().await;
}

#[tokio::test]
async fn a_caller_that_falls_silent_is_given_up() {
    let office = Office::open("office");
    let mut server = Server::start_at("127.0.0.1:0", &office.party("alice"), &["bob"], SHORT).await;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(&[0x16, 0x03]).await.unwrap();
    assert_eq!(server.refusal().await, Cause::TimedOut { seconds: 1, stage: Stage::Handshake });
    server.close().await;
}

#[tokio::test]
async fn a_port_where_nobody_listens_says_so_and_may_be_tried_again() {
    let office = Office::open("office");
    // Bound, so that nobody else gets the port, but not listening.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = held.local_addr().unwrap();
    let error = dial(&office.party("bob"), free, "alice").await.unwrap_err();
    assert_eq!(error.cause, Cause::NobodyListens);
    says(&error, &[&format!("alice at {free} refuses connections: nobody listens there yet")]);
    assert_eq!((error.exit().code(), error.passing()), (69, true));
}

#[tokio::test]
async fn an_address_without_a_port_says_what_is_expected() {
    let office = Office::open("office");
    let error = tls::dial(&office.party("bob"), "alice.example", "alice", PATIENCE).await.unwrap_err();
    says(&error, &["alice at alice.example cannot be found", "expected host:port"]);
    let error = tls::dial(&office.party("bob"), "127.0.0.1:1", "al ice", PATIENCE).await.unwrap_err();
    says(&error, &["cannot be a certificate name"]);
}

#[tokio::test]
async fn a_port_in_use_says_so() {
    let office = Office::open("office");
    let holder = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = holder.local_addr().unwrap();
    let error = Listener::bind(&taken.to_string(), &office.party("alice"), &["bob".to_owned()]).await.unwrap_err();
    says(&error, &[&format!("address {taken} is in use by another process")]);
    assert_eq!((error.exit().code(), error.passing()), (69, false));
    let error = Listener::bind("192.0.2.1:0", &office.party("alice"), &[]).await.unwrap_err();
    says(&error, &["cannot be listened at", "expected an address of this machine"]);
}

/// A foreign service that answers the first bytes of a caller with `answer`, then waits for the caller to leave.
async fn foreign_service(answer: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await;
        let _ = socket.write_all(&answer).await;
        let _ = socket.read(&mut [0; 4096]).await;
    });
    address
}

#[tokio::test]
async fn foreign_services_are_told_apart() {
    let office = Office::open("office");
    let bob = office.party("bob");
    let plain = foreign_service(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await;
    let error = dial(&bob, plain, "alice").await.unwrap_err();
    says(&error, &["sent bytes that are not TLS", "address and port"]);

    // A ServerHello of TLS 1.2 with ECDHE-ECDSA-AES128-GCM-SHA256.
    let hello = format!("160303002c020000280303{}00c02b000000", "5a".repeat(32));
    let old = foreign_service(bytes(&hello)).await;
    assert_eq!(dial(&bob, old, "alice").await.unwrap_err().cause, Cause::OldTls);
    let alert = foreign_service(bytes("15030300020246")).await;
    assert_eq!(dial(&bob, alert, "alice").await.unwrap_err().cause, Cause::OldTls);

    let hangs_up = foreign_service(Vec::new()).await;
    let error = tls::dial(&bob, &hangs_up.to_string(), "alice", SHORT).await.unwrap_err();
    assert_eq!(error.cause, Cause::TimedOut { seconds: 1, stage: Stage::Handshake });
    says(&error, &["did not answer within 1 s while making the TLS handshake"]);
}

#[tokio::test]
async fn after_a_break_the_channel_dials_again_and_checks_again() {
    let office = Office::open("office");
    let bob = office.party("bob");
    let first = Server::start(&office.party("alice"), &["bob"]).await;
    let address = first.address.to_string();
    let mut client = HealthClient::new(dial(&bob, first.address, "alice").await.unwrap().channel);
    client.check(HealthRequest {}).await.unwrap();
    first.close().await;

    let second = Server::start_at(&address, &office.party("alice"), &["bob"], PATIENCE).await;
    // The first call may still find the old connection.
    let answered = client.check(HealthRequest {}).await.is_ok() || client.check(HealthRequest {}).await.is_ok();
    assert!(answered);
    second.close().await;

    let _impostor = Server::start_at(&address, &office.party("mallory"), &["bob"], PATIENCE).await;
    let _ = client.check(HealthRequest {}).await;
    let status = client.check(HealthRequest {}).await.unwrap_err();
    says(&tls::explain(&status), &["shows a certificate for 'mallory', expected 'alice'"]);
    assert!(!tls::link_error(&status).unwrap().passing());
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    (0..hexadecimal.len()).step_by(2).map(|at| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap()).collect()
}
