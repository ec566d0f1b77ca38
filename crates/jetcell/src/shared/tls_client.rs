//! TLS client options.

use std::path::PathBuf;

use clap::Args;

/// Options for the certificates of a TLS client.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsClientOptions {
    /// CA certificates that verify the server's certificate
    #[arg(long = "tls-ca", value_name = "FILE")]
    pub authorities: Option<PathBuf>,
    /// Certificate of this client, if the server requires one
    #[arg(long = "tls-client-cert", value_name = "FILE", requires = "tls_client_key")]
    tls_client_cert: Option<PathBuf>,
    /// Private key for this certificate
    #[arg(long = "tls-client-key", value_name = "FILE", requires = "tls_client_cert")]
    tls_client_key: Option<PathBuf>,
}

impl TlsClientOptions {
    /// Returns the paths of this client's certificate and private key.
    pub fn certificate(&self) -> Option<(PathBuf, PathBuf)> {
        self.tls_client_cert.clone().zip(self.tls_client_key.clone())
    }
}
