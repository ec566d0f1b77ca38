//! `jetcell serve`: shares directories of this host with copies on other hosts.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_host::{Cancellation, Interrupt, host_name};
use jetcell_input::quantity::ByteRate;
use jetcell_remote::{
    ExportedDirectories, HostAddress, RemoteServer, ServeError, ServerLimits, ServerTlsFiles,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::listen_address::listen_address;
use crate::shared::remote::{confined_vfs, links_in, token_in};

const EXAMPLES: &str = "\
Other hosts can read the databases, the logs and the files of copies in the directories, and store the messages of copies alongside the
logs. Other files and links are not served. With --allow-handover, they can also take the role of the active side from a stopped instance.
The instance may be running. Secrets are read only from files that only their owner can read (chmod 600); clients need the same token,
for example the output of `openssl rand -hex 32`.

Examples:
  jetcell serve /var/lib/app --listen 0.0.0.0:9440 --tls-cert db1.pem --tls-key db1.key --token-file token
      the directory of an instance, as tls://HOST:9440/app
  jetcell serve logs=/logs/app data=/data/app --listen 0.0.0.0:9440 --tls-cert db1.pem --tls-key db1.key --token-file token
      logs and databases in two directories
  jetcell serve /var/lib/app --listen 0.0.0.0:9440 --tls-cert db1.pem --tls-key db1.key --token-file token --tls-client-ca ca.pem \\
      --allow-handover --rate 100MB/s
  jetcell replicate --from tls://db1:9440/app --to /copies/app --tls-ca ca.pem --token-file token
      on another host

Exit code: 0 stopped by Ctrl-C, 2 could not run, 130 stopped by a second Ctrl-C.";

/// Share directories on this host over TLS, so that other hosts can keep copies
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Directory of an instance or of a copy; other hosts access it as NAME, or by the last part of its path
    #[arg(required = true, value_name = "[NAME=]DIR")]
    directories: Vec<String>,
    /// Address to listen on; without TLS, only a loopback address is allowed
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    listen: SocketAddr,
    /// Certificate of this host, including intermediate certificates
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// CA certificates that must have signed the clients' certificates
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// File with the token that clients must present
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Let clients take over the active role from a stopped instance
    #[arg(long)]
    allow_handover: bool,
    /// Limit the combined read rate of all clients
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
    /// Maximum number of concurrent clients that have presented the token
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_clients: u16,
    /// Print the connection counts as JSON at the end
    #[arg(long)]
    json: bool,
}

impl ServeArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let named = self.directories.iter().map(|text| named(text)).collect::<Result<Vec<_>, _>>()?;
        refuse_same_directory(&named)?;
        named.iter().for_each(|(name, directory)| report_links(name, directory));
        let vfs = confined_vfs(named.iter().map(|(_, directory)| directory.as_path()))?;
        let mut exports = ExportedDirectories::new(vfs, token_in(&self.token_file)?, host_name(), named)?;
        exports.allow_handover = self.allow_handover;
        exports.max_files = files_per_client(self.max_clients.into())?;
        let names: Vec<(String, PathBuf)> =
            exports.directories().iter().map(|(name, path)| (name.clone(), path.clone())).collect();
        let tls = self.tls_cert.clone().zip(self.tls_key.clone()).map(|(certificate, key)| ServerTlsFiles {
            certificate,
            key,
            client_authorities: self.tls_client_ca.clone(),
        });
        let limits = ServerLimits {
            connections: self.max_clients.into(),
            rate: self.rate.map(|rate| rate.0),
            ..ServerLimits::default()
        };
        let server = RemoteServer::bind(self.listen, exports, tls.as_ref(), limits, console::print_note)?;
        let stopper = server.stopper();
        let stop = server.stopper();
        Interrupt::with_first(&Cancellation::default(), move || stop.stop()).install()?;
        let scheme = if tls.is_some() { "tls" } else { "tcp" };
        for (name, path) in &names {
            console::print_note(&format!("{scheme}://{}/{name}: {}", server.address(), path.display()));
        }
        server.run();
        let counts = stopper.counts();
        if self.json {
            let counts = json!({
                "clients": counts.clients, "too_many": counts.rejected, "handshakes": counts.failed_handshakes,
                "garbage": counts.malformed, "wrong_token": counts.wrong_token, "wrong_version": counts.wrong_version,
            });
            console::print_json(&format!("{counts}\n"));
        }
        Ok(CommandOutcome::Good)
    }
}

/// Returns the maximum number of open files per client. Raises the process's open file limit to the maximum allowed
/// for the user.
fn files_per_client(clients: u64) -> Result<usize, ServeError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    jetcell_remote::files_per_client(if raised.is_ok() { maximum } else { current }, clients)
}

/// Fails if a directory is served under two names. Files that a client writes are identified by directory name and
/// file name, so each directory must have only one name.
fn refuse_same_directory(named: &[(String, PathBuf)]) -> CommandResult<()> {
    let mut known: Vec<((u64, u64), &str)> = Vec::new();
    for (name, directory) in named {
        let found = std::fs::metadata(directory).context(directory.display())?;
        let identity = (found.dev(), found.ino());
        let other = known.iter().find(|(other, known)| *other == identity && known != name);
        if let Some((_, other)) = other {
            return Err(CommandError::new(format_args!("{name} and {other} are the same directory"))
                .advise("serve it under one name"));
        }
        known.push((identity, name));
    }
    Ok(())
}

/// Reports links in a directory. Databases and logs that are links are not available to clients.
fn report_links(name: &str, directory: &Path) {
    for link in links_in(directory) {
        console::print_note(&format!(
            "{name}: {} is a link, which is not served; serve the target directory",
            link.display()
        ));
    }
}

/// Parses a directory and the name by which clients access it.
fn named(text: &str) -> CommandResult<(String, PathBuf)> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !name.contains('/') => (Some(name.to_string()), PathBuf::from(path)),
        _ => (None, PathBuf::from(text)),
    };
    if let Some(address) = HostAddress::from_path(&path) {
        return Err(CommandError::new(format_args!("{} is an address", address?))
            .advise("specify a directory on this host"));
    }
    let absolute = std::fs::canonicalize(&path).context(path.display())?;
    if !absolute.is_dir() {
        return Err(CommandError::new(format_args!("{} is not a directory", path.display()))
            .advise("specify a directory"));
    }
    let last = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_string);
    match name.or_else(|| last(&path)).or_else(|| last(&absolute)) {
        Some(name) => Ok((name, absolute)),
        None => Err(CommandError::new(format_args!("{text}: the directory has no name for clients"))
            .advise("use the form NAME=DIR")),
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
