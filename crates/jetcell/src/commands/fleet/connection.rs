//! Options for the connection to a NATS server. Secrets are read from files, because command-line arguments are
//! visible to every user of a machine.

use std::path::PathBuf;

use clap::Args;
use jetcell_fleet::bus::NatsAccess;

use crate::shared::tls_client::TlsClientOptions;

/// Options for the connection to a NATS server: address and credentials.
#[derive(Args, Clone)]
pub struct ConnectionOptions {
    /// Address of a NATS server, such as <nats://head:4222> or <tls://head:4222>; commas separate the addresses of a
    /// cluster
    #[arg(long, value_name = "URL")]
    pub nats: Option<String>,
    /// File with the token for the server
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with credentials: JWT and seed
    #[arg(long, value_name = "FILE", conflicts_with = "token_file")]
    credentials: Option<PathBuf>,
    /// File with the seed of an nkey
    #[arg(long, value_name = "FILE", conflicts_with_all = ["token_file", "credentials"])]
    nkey_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsClientOptions,
}

impl ConnectionOptions {
    /// Returns the parameters for connecting to the server at this address.
    pub fn access(&self, url: String) -> NatsAccess {
        NatsAccess {
            url,
            token_file: self.token_file.clone(),
            credentials: self.credentials.clone(),
            nkey_file: self.nkey_file.clone(),
            tls_ca: self.tls.authorities.clone(),
            tls_client: self.tls.certificate(),
        }
    }
}
