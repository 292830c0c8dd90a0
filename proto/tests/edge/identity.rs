//! What is wrong with one's own files is said in one sentence that names the file and the remedy.

use crate::office::{Office, around};
use fedreg_proto::files::TlsTerms;
use fedreg_proto::tls::Identity;
use time::{Duration, OffsetDateTime};

fn files(office: &Office) -> TlsTerms {
    office.files("alice", &[], around(Duration::days(1), Duration::days(100)))
}

/// The sentence for a party whose files were changed by `change`.
#[track_caller]
fn refused(change: impl FnOnce(&Office, &mut TlsTerms), code: u8, parts: &[&str]) {
    let office = Office::open("office");
    let mut files = files(&office);
    change(&office, &mut files);
    let error = Identity::load(&files).unwrap_err();
    let sentence = error.to_string();
    for part in parts {
        assert!(sentence.contains(part), "expected {part:?} in: {sentence}");
    }
    assert_eq!(error.exit().code(), code, "{sentence}");
    assert!(!sentence.ends_with('.') && !sentence.contains('\n'), "{sentence}");
}

#[test]
fn good_files_load_without_a_warning() {
    let office = Office::open("office");
    let identity = Identity::load(&files(&office)).unwrap();
    assert_eq!(identity.warnings(), <[String; 0]>::default());
    assert_eq!(identity.facts().names, ["alice"]);
    assert_eq!(identity.authorities()[0].subject, "office");
    assert!(identity.check_own_name("Alice").is_ok());
    let wrong = identity.check_own_name("bob").unwrap_err().to_string();
    assert!(wrong.contains("is for 'alice', but the study calls this party 'bob'"), "{wrong}");
}

#[test]
fn a_missing_file_is_named() {
    refused(|office, files| files.key = office.path("lost.key"), 2, &["key file", "lost.key does not exist"]);
    refused(|office, files| files.authority = office.path(""), 2, &["authority file", "cannot be read"]);
}

#[test]
fn swapped_and_foreign_contents_are_named() {
    refused(
        |_, files| std::mem::swap(&mut files.key, &mut files.certificate),
        77,
        &["certificate file", "alice.key holds a private key, expected a certificate"],
    );
    refused(|_, files| files.key = files.certificate.clone(), 77, &["holds a certificate, expected a private key"]);
    refused(
        |office, files| {
            let subject = fedreg_proto::certs::Subject::new("alice", &[]).unwrap();
            files.certificate = office.write("alice.csr", &fedreg_proto::certs::request(&subject).unwrap().pem);
        },
        77,
        &["holds a request that still has to be signed"],
    );
    refused(
        |office, files| files.certificate = office.write("a.pem", "just text\n"),
        77,
        &["certificate file", "a.pem is not PEM", "-----BEGIN CERTIFICATE-----"],
    );
}

#[test]
fn damaged_blocks_are_named() {
    refused(
        |office, files| {
            let text = std::fs::read_to_string(&files.certificate).unwrap();
            files.certificate = office.write("cut.pem", &text[..text.len() / 2]);
        },
        77,
        &["cut.pem is damaged"],
    );
    refused(
        |office, files| {
            files.certificate = office.write("x.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        },
        77,
        &["x.pem is damaged", "not an X.509 certificate"],
    );
    refused(
        |office, files| {
            files.key = office.write("x.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        },
        77,
        &["key file", "x.key cannot be used for TLS"],
    );
}

#[test]
fn a_key_with_a_passphrase_is_refused_with_the_command_that_removes_it() {
    refused(
        |office, files| {
            let block = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
            files.key = office.write("x.key", block);
        },
        77,
        &["passphrase", "openssl pkey"],
    );
}

#[test]
fn a_key_of_another_certificate_is_refused_naming_both_files() {
    refused(
        |office, files| files.key = office.files("bob", &[], around(Duration::days(1), Duration::days(9))).key,
        77,
        &["bob.key does not belong to certificate file", "alice.pem"],
    );
}

#[test]
fn dates_are_checked_and_told() {
    let day = OffsetDateTime::now_utc() - Duration::days(2);
    let date = format!("expired on {}-{:02}-{:02}", day.year(), u8::from(day.month()), day.day());
    refused(
        |office, files| *files = office.files("alice", &[], around(Duration::days(9), Duration::days(-2))),
        77,
        &["the certificate of 'alice'", &date, "issue it again"],
    );
    refused(
        |office, files| *files = office.files("alice", &[], around(Duration::days(-2), Duration::days(9))),
        77,
        &["valid only from", "this machine's clock, which says"],
    );
}

#[test]
fn authorities_and_parties_are_not_confused() {
    refused(|_, files| files.authority = files.certificate.clone(), 77, &["'alice', which is no authority"]);
    refused(
        |office, files| files.certificate = office.path("authority.pem"),
        77,
        &["holds an authority's certificate"],
    );
}

#[cfg(unix)]
#[test]
fn a_key_that_others_can_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let office = Office::open("office");
    let files = files(&office);
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let identity = Identity::load(&files).unwrap();
    assert!(identity.warnings()[0].contains("(mode 644): run `chmod 600`"), "{:?}", identity.warnings());
}

#[test]
fn the_coming_end_of_a_certificate_is_warned_about() {
    let office = Office::open("office");
    let identity = Identity::load(&office.files("alice", &[], around(Duration::days(1), Duration::days(10)))).unwrap();
    assert!(identity.warnings()[0].contains("issue it again soon"), "{:?}", identity.warnings());
}

#[test]
fn a_certificate_of_an_authority_that_is_not_trusted_is_warned_about() {
    let [office, other, namesake] = ["office", "other", "office"].map(Office::open);
    let trusting = TlsTerms { authority: other.path("authority.pem"), ..files(&office) };
    let identity = Identity::load(&trusting).unwrap();
    assert!(identity.warnings()[0].contains("is signed by none of the authorities in"), "{:?}", identity.warnings());
    // Another authority of the same name.
    let trusting = TlsTerms { authority: namesake.path("authority.pem"), ..files(&office) };
    assert_eq!(Identity::load(&trusting).unwrap().warnings().len(), 1);
}

#[test]
fn a_key_is_not_in_the_debug_form() {
    let office = Office::open("office");
    let text = format!("{:?}", Identity::load(&files(&office)).unwrap());
    assert!(text.starts_with("Identity { facts:") && !text.to_lowercase().contains("key"), "{text}");
}
