//! Directories of other hosts, where a command takes a directory: `tls://HOST:PORT/NAME` of a host on which `jetcell serve` runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jetcell_remote::{
    ClientFiles, ClientLimits, HostAddress, RemoteError, RemoteOptions, RemoteVfs, Token, Welcome, is_address,
};
use jetcell_vfs::{MountedVfs, Vfs, read_input};

use crate::commands::backup::{refuse_inside, vfs};
use crate::commands::recover;
use crate::commands::tls_client::TlsClient;
use crate::outcome::Failure;

/// Longest file with a token.
const TOKEN_FILE: u64 = 64 << 10;
/// Time for a connection. A host that is gone must not hold up a command for long.
const CONNECT: Duration = Duration::from_secs(5);

/// How other hosts are entered
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Directories of other hosts: tls://HOST:PORT/NAME")]
pub struct RemoteArgs {
    #[command(flatten)]
    tls: TlsClient,
    /// File with the token of jetcell serve
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The secret in a file.
pub fn token_in(path: &Path) -> Result<Token, Failure> {
    let failed = |what: String| Failure::from(format!("{}: {what}", path.display()));
    let text = read_input(path, TOKEN_FILE).map_err(|error| failed(error.to_string()))?;
    Token::from_text(&text).map_err(failed)
}

/// The file system of a command: that of this machine, and those of hosts.
pub struct Places {
    vfs: Arc<dyn Vfs>,
    hosts: Vec<(PathBuf, RemoteVfs)>,
}

impl RemoteArgs {
    /// The file system for paths of this machine and of other hosts. Nothing is sent yet. `rate` limits what comes from each host.
    pub fn places<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p Path>,
        rate: Option<u64>,
    ) -> Result<Places, Failure> {
        let mut hosts: Vec<(PathBuf, RemoteVfs)> = Vec::new();
        for address in paths.into_iter().filter_map(HostAddress::of) {
            let address = address.map_err(|error| error.to_string())?;
            let root = address.root();
            if hosts.iter().all(|(known, _)| *known != root) {
                hosts.push((root, self.host(&address, rate)?));
            }
        }
        let vfs = vfs()?;
        if hosts.is_empty() {
            return Ok(Places { vfs, hosts });
        }
        let mounts = hosts.iter().map(|(root, host)| (root.clone(), Arc::new(host.clone()) as Arc<dyn Vfs>));
        let vfs = Arc::new(MountedVfs::new(vfs, mounts.collect()));
        Ok(Places { vfs, hosts })
    }

    fn host(&self, address: &HostAddress, rate: Option<u64>) -> Result<RemoteVfs, Failure> {
        let Some(token_file) = &self.token_file else {
            let what = "give the file with the token of jetcell serve there with --token-file";
            return Err(format!("{address}: {what}").into());
        };
        let (authorities, certificate) = (self.tls.authorities.clone(), self.tls.certificate());
        let files = ClientFiles { authorities, certificate };
        let limits = ClientLimits { connect: CONNECT, ..ClientLimits::default() };
        let options = RemoteOptions { limits, rate, ..RemoteOptions::new(token_in(token_file)?) };
        RemoteVfs::new(address, &files, options).map_err(|error| format!("{address}: {error}").into())
    }
}

impl Places {
    /// The file system.
    pub fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.vfs
    }

    /// Connects to the host of a path. `None`: the path is one of this machine.
    pub fn connect(&self, path: &Path) -> Option<Result<Welcome, RemoteError>> {
        self.hosts.iter().find(|(root, _)| path.starts_with(root)).map(|(_, host)| host.connect())
    }

    /// Fails unless there is such a directory.
    pub fn require(&self, directory: &Path) -> Result<(), Failure> {
        if is_address(directory) {
            return self.list(directory).map(|_| ());
        }
        match directory.is_dir() {
            true => Ok(()),
            false => {
                Err(format!("{}: there is no such directory; name that of the logs", directory.display())
                    .into())
            }
        }
    }

    /// The files in a directory of another host.
    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Failure> {
        if let Some(connected) = self.connect(directory) {
            connected.map_err(|error| said_of(directory, &error))?;
        }
        self.vfs.list(directory).map_err(|error| format!("{}: {error}", directory.display()).into())
    }

    /// The files of the paths: directories stand for the files in them.
    pub fn files(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
        let mut files = Vec::new();
        for path in paths {
            match is_address(path) {
                true => files.extend(self.list(path)?),
                false => files.extend(recover::files(std::slice::from_ref(path))?),
            }
        }
        files.sort();
        files.dedup();
        Ok(files)
    }
}

/// Why a directory of another host cannot be used.
pub fn said_of(directory: &Path, error: &RemoteError) -> Failure {
    match error {
        RemoteError::Unreachable(what) => {
            format!("{}: the host cannot be reached: {what}", directory.display()).into()
        }
        error => format!("{}: {error}", directory.display()).into(),
    }
}

/// The path in the form that is stored: absolute, or the address in its usual form.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    match HostAddress::of(path) {
        Some(address) => {
            let name = path.file_name().unwrap_or_default();
            address.map(|address| address.root().join(name)).map_err(|error| error.to_string().into())
        }
        None => std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()).into()),
    }
}

/// Fails if a directory of this machine is in another one, or is that one.
pub fn refuse_nested(outer: &Path, inner: &Path) -> Result<(), Failure> {
    if is_address(inner) {
        let what = "a copy is in a directory of this host; run the command on the host of the copy";
        return Err(format!("{}: {what}", inner.display()).into());
    }
    if is_address(outer) { Ok(()) } else { refuse_inside(outer, inner) }
}
