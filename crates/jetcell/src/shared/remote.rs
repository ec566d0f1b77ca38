//! Access to directories on other hosts. A command accepts `tls://HOST:PORT/NAME` instead of a directory if `jetcell
//! serve` runs on that host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ese_format::log::has_log_extension;
use ese_format::recognise::has_database_or_log_extension;
use jetcell_host::Cancellation;
use jetcell_remote::{
    AccessToken, ClientLimits, ClientTlsFiles, HostAddress, RemoteError, RemoteOptions, RemoteVfs,
    ServerWelcome, is_address,
};
use jetcell_vfs::{MountedVfs, RealOptions, RealVfs, Vfs, files_at, read_secret};

use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::files;
use crate::shared::files::{refuse_inside, vfs};
use crate::shared::tls_client::TlsClientOptions;

/// Maximum size of a token file in bytes.
pub const MAX_TOKEN_FILE: u64 = 64 << 10;
/// Timeout for establishing a connection. An unreachable host must not delay a command for long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of times that an operation is attempted while instances close logs.
const MAX_ATTEMPTS: u32 = 20;

/// Options for access to other hosts
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Directories of other hosts: tls://HOST:PORT/NAME")]
pub struct RemoteAccessOptions {
    #[command(flatten)]
    tls: TlsClientOptions,
    /// File with the token for jetcell serve
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Reads the token from a file.
pub fn token_in(path: &Path) -> CommandResult<AccessToken> {
    let text = read_secret(path, MAX_TOKEN_FILE).context(path.display())?;
    AccessToken::from_text(&text).context(path.display())
}

/// File systems that a command uses: this machine's, and those of the hosts that the command names.
pub struct CommandFileSystems {
    vfs: Arc<dyn Vfs>,
    hosts: Vec<(PathBuf, RemoteVfs)>,
    cancellation: Cancellation,
}

impl RemoteAccessOptions {
    /// Creates the file system for paths on this machine and on other hosts. It does not connect to the hosts yet.
    /// `rate` limits the data received from each host.
    pub fn file_systems<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p Path>,
        rate: Option<u64>,
    ) -> CommandResult<CommandFileSystems> {
        self.build_file_systems(vfs()?, paths, rate)
    }

    /// Like [`RemoteAccessOptions::file_systems`], for a command that writes to the directories of copies on this machine.
    /// Links in these directories are not followed.
    pub fn file_systems_with_copies<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p Path>,
        rate: Option<u64>,
        copies: &[PathBuf],
    ) -> CommandResult<CommandFileSystems> {
        copies.iter().try_for_each(|copy| refuse_links(copy))?;
        self.build_file_systems(confined_vfs(copies.iter().map(PathBuf::as_path))?, paths, rate)
    }

    fn build_file_systems<'p>(
        &self,
        vfs: Arc<dyn Vfs>,
        paths: impl IntoIterator<Item = &'p Path>,
        rate: Option<u64>,
    ) -> CommandResult<CommandFileSystems> {
        let cancellation = Cancellation::default();
        let mut hosts: Vec<(PathBuf, RemoteVfs)> = Vec::new();
        for address in paths.into_iter().filter_map(HostAddress::from_path) {
            let address = address?;
            let root = address.root();
            if hosts.iter().all(|(known, _)| *known != root) {
                hosts.push((root, self.host(&address, rate, cancellation.clone())?));
            }
        }
        if hosts.is_empty() {
            return Ok(CommandFileSystems { vfs, hosts, cancellation });
        }
        let mounts = hosts.iter().map(|(root, host)| (root.clone(), Arc::new(host.clone()) as Arc<dyn Vfs>));
        let vfs = Arc::new(MountedVfs::new(vfs, mounts.collect()));
        Ok(CommandFileSystems { vfs, hosts, cancellation })
    }

    fn host(
        &self,
        address: &HostAddress,
        rate: Option<u64>,
        cancellation: Cancellation,
    ) -> CommandResult<RemoteVfs> {
        let Some(token_file) = &self.token_file else {
            return Err(CommandError::new("the token of jetcell serve on the other host is required")
                .context(address)
                .advise("use --token-file to specify the file that contains it"));
        };
        let (authorities, certificate) = (self.tls.authorities.clone(), self.tls.certificate());
        let files = ClientTlsFiles { authorities, certificate };
        let limits = ClientLimits { connect_timeout: CONNECT_TIMEOUT, ..ClientLimits::default() };
        let options =
            RemoteOptions { limits, rate, cancellation, ..RemoteOptions::new(token_in(token_file)?) };
        RemoteVfs::new(address, &files, options).context(address)
    }
}

impl CommandFileSystems {
    /// Returns the file system.
    pub fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.vfs
    }

    /// Returns the cancellation that cuts short the pauses caused by the hosts' rate limits.
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// Connects to the host of a path. Returns `None` if the path is on this machine.
    pub fn connect(&self, path: &Path) -> Option<Result<ServerWelcome, RemoteError>> {
        self.hosts.iter().find(|(root, _)| path.starts_with(root)).map(|(_, host)| host.connect())
    }

    /// Fails if the directory does not exist.
    pub fn require_directory(&self, directory: &Path) -> CommandResult<()> {
        if is_address(directory) {
            return self.list(directory).map(|_| ());
        }
        if directory.is_dir() {
            Ok(())
        } else {
            Err(CommandError::new(format_args!("{}: the directory does not exist", directory.display()))
                .advise("specify the directory that contains the logs"))
        }
    }

    /// Lists the files in a directory on another host.
    fn list(&self, directory: &Path) -> CommandResult<Vec<PathBuf>> {
        if let Some(connected) = self.connect(directory) {
            connected.map_err(|error| remote_error(directory, error))?;
        }
        self.vfs.list(directory).context(directory.display())
    }

    /// Runs `work` on the files at `paths`. Instances may close and remove logs while it runs, so an uncertain result
    /// is accepted only if the list of logs is the same afterwards. Otherwise the work is repeated with the new list,
    /// which is stored in `files`.
    pub fn with_stable_files<T>(
        &self,
        paths: &[PathBuf],
        files: &mut Vec<PathBuf>,
        mut work: impl FnMut(&[PathBuf]) -> T,
        is_in_doubt: impl Fn(&T) -> bool,
    ) -> T {
        let mut attempt = 1;
        loop {
            let result = work(files);
            if !is_in_doubt(&result) || attempt == MAX_ATTEMPTS {
                return result;
            }
            match self.files(paths) {
                Ok(listed) if logs(&listed) != logs(files) => *files = listed,
                _ => return result,
            }
            attempt += 1;
        }
    }

    /// Returns the files at the given paths. A directory is replaced by the files in it.
    pub fn files(&self, paths: &[PathBuf]) -> CommandResult<Vec<PathBuf>> {
        let mut files = Vec::new();
        for path in paths {
            if is_address(path) {
                files.extend(self.list(path)?);
            } else {
                files.extend(files_at(std::slice::from_ref(path), has_database_or_log_extension)?);
            }
        }
        files.sort();
        files.dedup();
        Ok(files)
    }
}

/// Opens the machine's file system, and refuses links in the given directories.
pub fn confined_vfs<'p>(directories: impl IntoIterator<Item = &'p Path>) -> CommandResult<Arc<dyn Vfs>> {
    let mut vfs = RealVfs::new(RealOptions::default()).context("cannot read files")?;
    for directory in directories {
        vfs = vfs.confined_to(directory).context(directory.display())?;
    }
    Ok(Arc::new(vfs))
}

/// Returns the symbolic links in a directory.
pub fn links_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|found| found.is_symlink()));
    links.map(|entry| entry.path()).collect()
}

/// Fails if a copy's directory contains links. Links are not followed, so the copy would lack the files that they
/// refer to.
fn refuse_links(directory: &Path) -> CommandResult<()> {
    match links_in(directory).first() {
        None => Ok(()),
        Some(link) => Err(CommandError::new("it is a link, and a copy is not written through links")
            .context(link.display())
            .advise("replace the link with the file")),
    }
}

/// Selects the logs from a list of files.
fn logs(files: &[PathBuf]) -> Vec<&PathBuf> {
    files.iter().filter(|path| has_log_extension(path)).collect()
}

/// Returns the error for an unusable directory on another host.
pub fn remote_error(directory: &Path, error: RemoteError) -> CommandError {
    let problem =
        if matches!(error, RemoteError::Unreachable(_)) { ": the host cannot be reached" } else { "" };
    CommandError::from(error).context(format_args!("{}{problem}", directory.display()))
}

/// Converts a path to the form in which it is stored: an absolute path, or a normalized address.
pub fn absolute(path: &Path) -> CommandResult<PathBuf> {
    match HostAddress::from_path(path) {
        Some(address) => {
            let name = path.file_name().unwrap_or_default();
            Ok(address?.root().join(name))
        }
        None => files::absolute(path),
    }
}

/// Fails if `inner` is on another host, or if it is the directory `outer` or inside it.
pub fn refuse_nested(outer: &Path, inner: &Path) -> CommandResult<()> {
    if is_address(inner) {
        return Err(CommandError::new("the directory of a copy must be on this host")
            .context(inner.display())
            .advise("run the command on the host of the copy"));
    }
    if is_address(outer) { Ok(()) } else { refuse_inside(outer, inner) }
}
