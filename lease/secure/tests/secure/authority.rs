//! Certificates of the test's own.

use std::path::{Path, PathBuf};

use leastlock_lease_secure::Identity;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// Who signs certificates.
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// For a server that is reached by these names.
    pub(crate) fn server(&self, names: &[&str]) -> Identity {
        self.sign(names, "server", false)
    }

    /// The same, from long ago.
    pub(crate) fn expired_server(&self, names: &[&str]) -> Identity {
        self.sign(names, "server", true)
    }

    /// For a client; the common name is who it is.
    pub(crate) fn client(&self, user: &str) -> Identity {
        self.sign(&[], user, false)
    }

    fn sign(&self, names: &[&str], common_name: &str, expired: bool) -> Identity {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // etcd is a client of itself, with its server's certificate.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        if expired {
            (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// The files that a server reads.
pub(crate) struct Files {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Files {
    pub(crate) fn write(folder: &Path, authority: &Authority, server: &Identity) -> Self {
        let write = |name: &str, content: &str| {
            let path = folder.join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        Self {
            authority: write("authority.pem", &authority.pem()),
            certificate: write("server.pem", &server.certificate),
            key: write("server.key", &server.key),
        }
    }
}
