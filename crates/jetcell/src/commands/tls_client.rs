//! The options of a client of TLS.

use std::path::PathBuf;

use clap::Args;

/// What a client of TLS needs.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsClient {
    /// Certificates of the authorities that the server's certificate is checked with
    #[arg(long = "tls-ca", value_name = "FILE")]
    pub authorities: Option<PathBuf>,
    /// Certificate of this client, if the server demands one
    #[arg(long = "tls-client-cert", value_name = "FILE", requires = "tls_client_key")]
    tls_client_cert: Option<PathBuf>,
    /// Key of this certificate
    #[arg(long = "tls-client-key", value_name = "FILE", requires = "tls_client_cert")]
    tls_client_key: Option<PathBuf>,
}

impl TlsClient {
    /// The certificate of this client, and its key.
    pub fn certificate(&self) -> Option<(PathBuf, PathBuf)> {
        self.tls_client_cert.clone().zip(self.tls_client_key.clone())
    }
}
