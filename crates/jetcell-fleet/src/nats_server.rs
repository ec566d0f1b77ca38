//! A NATS server that the coordinator starts if none is available.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jetcell_vfs::{check_input, check_secret, open_or_create, read_input, read_secret, replace_output};
use thiserror::Error;

use crate::bus::{MAX_PEM_BYTES, MAX_SECRET_BYTES};

/// Time-out for the server to start listening.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of bytes to read from the log of a server that failed to start.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Program directories that may be missing from an ordinary user's `PATH`.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

/// Reason why a NATS server was not started.
#[derive(Debug, Error)]
pub enum NatsServerError {
    /// The program is not installed.
    #[error("nats-server is not installed")]
    Missing,
    /// Other hosts could reach the server without a secret.
    #[error("{0} is reachable from other machines")]
    Unsecured(SocketAddr),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        error: io::Error,
    },
    /// Another process is already listening on the address.
    #[error("{0} is in use")]
    InUse(SocketAddr),
    /// The program could not be run.
    #[error("failed to start nats-server: {0}")]
    NotStarted(#[source] io::Error),
    /// The server does not accept connections. Contains the last line of its log.
    #[error("failed to start nats-server: {0}")]
    NotListening(String),
}

impl NatsServerError {
    /// Returns what the user can do about the error, for example `specify another address with --listen`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            NatsServerError::Missing => {
                "install it (Debian: apt-get install nats-server), or specify the address of a server with \
                 --nats"
            }
            NatsServerError::Unsecured(_) => {
                "add --token-file FILE, --tls-cert FILE and --tls-key FILE, or listen on 127.0.0.1"
            }
            NatsServerError::InUse(_) => {
                "specify the address of the running server with --nats, or another address with --listen"
            }
            _ => return None,
        }))
    }

    fn file(path: &Path, error: io::Error) -> NatsServerError {
        NatsServerError::File { path: path.into(), error }
    }
}

/// Security settings for a NATS server.
#[derive(Clone, Debug, Default)]
pub struct NatsServerSecurity {
    /// File with the token that clients must send.
    pub token_file: Option<PathBuf>,
    /// The server's certificate and private key.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// A running NATS server, which is stopped when this value is dropped.
#[derive(Debug)]
pub struct NatsServer {
    child: Child,
    address: SocketAddr,
    is_tls: bool,
    configuration: PathBuf,
}

impl NatsServer {
    /// Starts a server on an address. The server's configuration, which contains the token, is written to a file in
    /// `directory` that only the current user can read.
    pub fn start(
        address: SocketAddr,
        security: &NatsServerSecurity,
        directory: &Path,
    ) -> Result<NatsServer, NatsServerError> {
        if !address.ip().is_loopback() && (security.token_file.is_none() || security.tls.is_none()) {
            return Err(NatsServerError::Unsecured(address));
        }
        // If one of these files were a pipe, the server would block until its other end is opened, so the files are
        // checked first.
        if let Some((certificate, key)) = &security.tls {
            check_input(certificate, MAX_PEM_BYTES)
                .map_err(|error| NatsServerError::file(certificate, error))?;
            check_secret(key, MAX_PEM_BYTES).map_err(|error| NatsServerError::file(key, error))?;
        }
        let text = configuration_text(address, security)?;
        let program = program().ok_or(NatsServerError::Missing)?;
        if TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok() {
            return Err(NatsServerError::InUse(address));
        }
        let configuration = directory.join("nats-server.conf");
        replace_output(&configuration, &text)
            .map_err(|error| NatsServerError::file(&configuration, error))?;
        let log = directory.join("nats-server.log");
        let output = open_or_create(&log).map_err(|error| NatsServerError::file(&log, error))?;
        let mut command = killed_with_parent(&program);
        command.arg("-c").arg(&configuration).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        // Ctrl-C in the terminal must reach only the coordinator, which needs the server until all hosts have
        // reported.
        command.process_group(0);
        let child = command.spawn().map_err(NatsServerError::NotStarted)?;
        let is_tls = security.tls.is_some();
        let mut server = NatsServer { child, address, is_tls, configuration };
        server.wait_until_listening(&log)?;
        Ok(server)
    }

    fn wait_until_listening(&mut self, log: &Path) -> Result<(), NatsServerError> {
        let began = Instant::now();
        loop {
            if TcpStream::connect_timeout(&self.address, Duration::from_millis(200)).is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            if ended || began.elapsed() > START_TIMEOUT {
                let text = read_input(log, MAX_LOG_BYTES).unwrap_or_default();
                let last = text.lines().last().unwrap_or("it is not listening").to_string();
                return Err(NatsServerError::NotListening(last));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the server address for clients.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.is_tls { "tls" } else { "nats" }, self.address)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.configuration);
    }
}

/// Returns the path of the `nats-server` program, if it is installed.
fn program() -> Option<PathBuf> {
    find("nats-server")
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// Returns a command that starts a program. The kernel kills the program when this process exits, even if this process
/// is itself killed. This requires the tool `setpriv`; without it, the program is started directly.
fn killed_with_parent(program: &Path) -> Command {
    match find("setpriv") {
        Some(tool) => {
            let mut command = Command::new(tool);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

fn configuration_text(address: SocketAddr, security: &NatsServerSecurity) -> Result<String, NatsServerError> {
    let mut text = format!("listen: \"{address}\"\nmax_payload: 1MB\n");
    if let Some(path) = &security.token_file {
        let token =
            read_secret(path, MAX_SECRET_BYTES).map_err(|error| NatsServerError::file(path, error))?;
        text += &format!("authorization {{ token: {} }}\n", quoted(token.trim()));
    }
    if let Some((certificate, key)) = &security.tls {
        let shown = |path: &PathBuf| quoted(&path.display().to_string());
        text += &format!("tls {{ cert_file: {}, key_file: {} }}\n", shown(certificate), shown(key));
    }
    Ok(text)
}

/// Quotes a text for the server's configuration file, in which strings use JSON syntax.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
