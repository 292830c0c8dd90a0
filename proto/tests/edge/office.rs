//! An authority with a folder, which makes identities for tests.

use fedreg_proto::certs::{Authority, KeyAndPem, Subject, Validity};
use fedreg_proto::files::TlsTerms;
use fedreg_proto::tls::Identity;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};

pub(crate) struct Office {
    folder: TempDir,
    made: KeyAndPem,
}

impl Office {
    pub(crate) fn open(name: &str) -> Office {
        let made = Authority::create(name, around(Duration::days(3000), Duration::days(3000))).unwrap();
        let office = Office { folder: tempfile::tempdir().unwrap(), made };
        office.write("authority.pem", &office.made.pem);
        office
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(crate) fn write(&self, file: &str, contents: &str) -> PathBuf {
        let path = self.path(file);
        std::fs::write(&path, contents).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        path
    }

    pub(crate) fn authority(&self) -> Authority {
        let file = Path::new("authority");
        Authority::from_pem(&self.made.pem, &self.made.key, (file, file)).unwrap()
    }

    /// Files of a party whose certificate is valid around now.
    pub(crate) fn files(&self, name: &str, also: &[&str], validity: Validity) -> TlsTerms {
        let also = also.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let made = self.authority().issue(&Subject::new(name, &also).unwrap(), validity).unwrap();
        TlsTerms {
            authority: self.path("authority.pem"),
            certificate: self.write(&format!("{name}.pem"), &made.pem),
            key: self.write(&format!("{name}.key"), &made.key),
        }
    }

    pub(crate) fn party(&self, name: &str) -> Identity {
        self.party_also(name, &[])
    }

    pub(crate) fn party_also(&self, name: &str, also: &[&str]) -> Identity {
        Identity::load(&self.files(name, also, around(Duration::days(1), Duration::days(100)))).unwrap()
    }

    /// A party whose certificate is out of date now; it was loaded when it was not.
    pub(crate) fn party_at(&self, name: &str, from: Duration, until: Duration) -> Identity {
        let now = OffsetDateTime::now_utc();
        let files = self.files(name, &[], Validity { from: now + from, until: now + until });
        Identity::load_at(&files, now + from + Duration::minutes(1)).unwrap()
    }

    /// A party of this office that trusts another one's authority.
    pub(crate) fn party_trusting(&self, name: &str, other: &Office) -> Identity {
        let files = self.files(name, &[], around(Duration::days(1), Duration::days(100)));
        Identity::load(&TlsTerms { authority: other.path("authority.pem"), ..files }).unwrap()
    }
}

pub(crate) fn around(before: Duration, after: Duration) -> Validity {
    let now = OffsetDateTime::now_utc();
    Validity { from: now - before, until: now + after }
}
