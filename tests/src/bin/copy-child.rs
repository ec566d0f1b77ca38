//! The child process that `tests/copies_killed.rs` and `tests/copies_remote.rs` kill while it works on a copy or
//! serves a directory: `copy-child seed|replicate|reseed FROM TO`, `copy-child activate DIRECTORY nothing|any|N
//! [SUCCESSOR]`, `copy-child serve DIRECTORY`.
//!
//! `FROM` may be an address, `tls://localhost:PORT/app`. In this case, the variable `JETCELL_TLS_FILES` contains the
//! directory of the certificates and the token. `serve` prints its address.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ese_engine::RecoverySet;
use jetcell_copies::{
    CopyState, DirectorySource, LossLimit, ReplayOptions, Replicator, Reseed, SeedOptions, StreamDirectory,
    activate_as, seed_from_files,
};
use jetcell_remote::{
    AccessToken, ClientLimits, ClientTlsFiles, ExportedDirectories, HostAddress, RemoteOptions, RemoteServer,
    RemoteVfs, ServerLimits, ServerTlsFiles, is_address,
};
use jetcell_vfs::{MountedVfs, RealOptions, RealVfs, Vfs};
use system_tests::killed::disk;
use system_tests::tls_files::TlsFiles;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["seed", from, to] => seed(from.as_ref(), to.as_ref(), false),
        ["replicate", from, to] => replicate(from.as_ref(), to.as_ref()),
        ["reseed", from, to] => reseed(from.as_ref(), to.as_ref()),
        ["activate", directory, limit] => take_over(directory.as_ref(), limit, directory),
        ["activate", directory, limit, successor] => take_over(directory.as_ref(), limit, successor),
        ["serve", directory] => serve(directory.as_ref()),
        _ => {
            eprintln!(
                "usage: copy-child seed|replicate|reseed FROM TO, activate DIRECTORY nothing|any|N, or serve DIRECTORY"
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn tls_files() -> TlsFiles {
    TlsFiles::open(std::env::var("JETCELL_TLS_FILES").unwrap_or_default().as_ref())
}

fn token(files: &TlsFiles) -> Result<AccessToken> {
    let text = std::fs::read_to_string(files.path("token")).unwrap_or_default();
    Ok(AccessToken::from_text(&text)?)
}

/// Returns the file system for a path: the local file system, combined with that of the remote host if the path is
/// remote.
fn vfs_with(path: &Path) -> Result<Arc<dyn Vfs>> {
    let Some(address) = HostAddress::from_path(path) else { return Ok(disk()?) };
    let (address, files) = (address?, tls_files());
    let limits = ClientLimits {
        connect_timeout: Duration::from_secs(3),
        reply_timeout: Duration::from_secs(3),
        ..ClientLimits::default()
    };
    let options = RemoteOptions { limits, ..RemoteOptions::new(token(&files)?) };
    let client = ClientTlsFiles { authorities: Some(files.path("ca.pem")), certificate: None };
    let host: Arc<dyn Vfs> = Arc::new(RemoteVfs::new(&address, &client, options)?);
    Ok(Arc::new(MountedVfs::new(disk()?, vec![(address.root(), host)])))
}

/// Returns the local file system, restricted to a directory.
fn confined(directory: &Path) -> Result<Arc<dyn Vfs>> {
    let confined = RealVfs::new(RealOptions::default()).and_then(|vfs| vfs.confined_to(directory));
    Ok(Arc::new(confined.map_err(|error| ese_engine::Error::io(directory, &error))?))
}

/// Serves a directory until this process is killed.
fn serve(directory: &Path) -> Result<()> {
    let files = tls_files();
    let named = vec![("app".to_string(), directory.to_path_buf())];
    let mut exports =
        ExportedDirectories::new(confined(directory)?, token(&files)?, "localhost".into(), named)?;
    exports.allow_handover = true;
    let (certificate, key) = (files.path("server.pem"), files.path("server.key"));
    let tls = ServerTlsFiles { certificate, key, client_authorities: None };
    let note = |what: &str| eprintln!("{what}");
    let server =
        RemoteServer::bind(([127, 0, 0, 1], 0).into(), exports, Some(&tls), ServerLimits::default(), note)?;
    println!("{}", server.address());
    server.run();
    Ok(())
}

fn files(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Vec<PathBuf>> {
    Ok(vfs.list(directory).map_err(|error| ese_engine::Error::io(directory, &error))?)
}

fn seed(from: &Path, to: &Path, again: bool) -> Result<()> {
    let vfs = vfs_with(from)?;
    let files = files(&vfs, from)?;
    let options = SeedOptions { replace_existing: again, ..SeedOptions::default() };
    seed_from_files(&vfs, &files, to, &options)?;
    Ok(())
}

fn source_of(vfs: &Arc<dyn Vfs>, state: &CopyState, from: &Path) -> Box<DirectorySource> {
    Box::new(DirectorySource::new(StreamDirectory::new(vfs, from, state.base_name, state.log_name_form())))
}

fn state_of(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<CopyState> {
    let state = CopyState::read(&**vfs, directory)?;
    state.ok_or_else(|| format!("{}: the directory does not contain a copy", directory.display()).into())
}

/// Returns the replay options. From a remote host, the current log is streamed, too.
fn options(from: &Path) -> ReplayOptions {
    ReplayOptions {
        stream_log: is_address(from),
        cache_bytes: 2 << 20,
        checkpoint_depth: 4 << 20,
        ..ReplayOptions::default()
    }
}

/// Follows the active side until this process is killed.
fn replicate(from: &Path, to: &Path) -> Result<()> {
    let vfs = vfs_with(from)?;
    let state = state_of(&vfs, to)?;
    let mut copy = Replicator::open(&vfs, to, source_of(&vfs, &state, from), options(from))?;
    loop {
        if copy.step()?.is_idle() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn take_over(directory: &Path, limit: &str, successor: &str) -> Result<()> {
    let limit = match limit {
        "nothing" => LossLimit::Nothing,
        "any" => LossLimit::Any,
        number => LossLimit::Generations(number.parse()?),
    };
    let state = state_of(&disk()?, directory)?;
    let from: &Path = state.source.as_ref();
    let vfs = vfs_with(from)?;
    let source = source_of(&vfs, &state, from);
    let activated = activate_as(&vfs, directory, successor, source, limit, &options(from))?;
    println!("{}", serde_json::json!(activated.lost));
    Ok(())
}

/// Reseeds a copy incrementally if possible, otherwise completely.
fn reseed(from: &Path, to: &Path) -> Result<()> {
    let vfs = vfs_with(from)?;
    let patched = Reseed::plan(&vfs, &files(&vfs, from)?, to).and_then(|reseed| reseed.run(&mut |_| ()));
    match patched {
        Ok(_) => Ok(()),
        Err(error) => {
            eprintln!("{error}");
            seed(from, to, true)
        }
    }
}
