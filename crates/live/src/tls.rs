//! Certificates, as NBD servers take them: a folder with ca-cert.pem, server-cert.pem and
//! server-key.pem (the names nbdkit and qemu use). With a ca-cert.pem clients must show a certificate
//! of it.

use crate::Error;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

pub fn load(folder: &Path) -> Result<Arc<ServerConfig>, Error> {
    let bad = |name: &str, why: String| Error::Certificate { file: folder.join(name), why };
    let certificates = |name: &str| -> Result<Vec<CertificateDer<'static>>, Error> {
        let found = CertificateDer::pem_file_iter(folder.join(name))
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|e| bad(name, e.to_string()))?;
        if found.is_empty() { Err(bad(name, "no certificate in it".into())) } else { Ok(found) }
    };
    let chain = certificates("server-cert.pem")?;
    let key = PrivateKeyDer::from_pem_file(folder.join("server-key.pem"))
        .map_err(|e| bad("server-key.pem", e.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?;
    let builder = if folder.join("ca-cert.pem").exists() {
        let mut roots = RootCertStore::empty();
        for certificate in certificates("ca-cert.pem")? {
            roots.add(certificate).map_err(|e| bad("ca-cert.pem", e.to_string()))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| bad("ca-cert.pem", e.to_string()))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let config =
        builder.with_single_cert(chain, key).map_err(|e| bad("server-key.pem", e.to_string()))?;
    Ok(Arc::new(config))
}
