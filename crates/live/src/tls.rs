//! Certificates, as NBD servers take them: a folder with ca-cert.pem, server-cert.pem and
//! server-key.pem (the names nbdkit and qemu use). With a ca-cert.pem clients must show a certificate
//! of it. And connections that are encrypted with them.

use crate::Error;
use crate::listen::Stream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use wordline_nbd::Session;

pub type Certificates = ServerConfig;

pub fn load(folder: &Path) -> Result<Arc<Certificates>, Error> {
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
        .map_err(|e| Error::Tls(e.to_string()))?;
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

/// An encrypted connection.
pub struct Channel(ServerConnection);

impl Channel {
    pub fn new(certificates: Arc<Certificates>) -> Option<Channel> {
        ServerConnection::new(certificates).ok().map(Channel)
    }
    pub fn wants_write(&self) -> bool {
        self.0.wants_write()
    }
    /// Hands the session what has arrived: how many bytes, and whether it was the last.
    pub fn receive(
        &mut self,
        stream: &mut Stream,
        session: &mut Session,
    ) -> io::Result<(usize, bool)> {
        let tls = &mut self.0;
        let mut over = false;
        match tls.read_tls(stream) {
            Ok(0) => over = true,
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
        if let Err(e) = tls.process_new_packets() {
            // The alert tells the client why.
            let _ = tls.write_tls(stream);
            return Err(io::Error::new(ErrorKind::InvalidData, e));
        }
        // All of it: what stayed behind would not make the socket readable.
        let mut arrived = 0;
        loop {
            match tls.reader().read(session.space()) {
                Ok(0) => return Ok((arrived, true)),
                Ok(n) => {
                    session.arrived(n);
                    arrived += n;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok((arrived, over)),
                Err(e) => return Err(e),
            }
        }
    }
    /// Sends what the client takes.
    pub fn flush(&mut self, stream: &mut Stream, session: &mut Session) -> io::Result<()> {
        let tls = &mut self.0;
        loop {
            while tls.wants_write() {
                tls.write_tls(stream)?;
            }
            // rustls takes a bounded amount at a time.
            let n = tls.writer().write(session.output())?;
            session.sent(n);
            if n == 0 && !tls.wants_write() {
                return Ok(());
            }
        }
    }
}
