//! `jetcell raid serve`: exports an array or its LUNs as network block devices.

mod export;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Args;
use jetcell_array::{ArrayError, ArrayRefusal};
use jetcell_backup::Cancellation;
use jetcell_host::cancel_on_signals;
use jetcell_input::number::human_bytes;
use jetcell_nbd::{BlockExport, ListenAddress, NbdServer, NbdServerLimits};
use serde_json::json;

use self::export::DeviceExport;
use super::content::{ArrayContent, RunningContent, SharedContent, start_with_content};
use super::control::ControlSocket;
use super::maintainer::ArrayInUse;
use super::operation_context::ConcurrentActivity;
use super::output_options::transfers_json;
use super::running_array::{ArrayEventSeverity, ArrayFiles, ArrayStartOptions};
use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::files::absolute;

/// Maximum time until writes to an array are committed if no client requests it.
const MAX_UNCOMMITTED: Duration = Duration::from_secs(5);

/// Name of the socket in an array's directory.
const SOCKET: &str = "nbd.sock";

/// A device's name and its export.
type NamedDevice = (String, Arc<dyn BlockExport>);

/// Serve an array, or the LUNs on it, as network block devices (NBD), until interrupted
#[derive(Args)]
#[command(after_help = "\
The device has the name of the array's directory, or of the LUN; clients that specify no name get the first device. Writes are
durable after a flush on any connection. On Ctrl-C or SIGTERM, the server answers pending requests, shuts the array down and
exits. Failed members are removed, spares take their place, and the rebuild runs while clients are served.

Without --listen, the server listens on a Unix socket that only its owner can use: nbd.sock in the directory of the array, or --socket.

The server has no encryption and no authentication: every program that can connect to a TCP address can read and write everything,
including programs of other users on this machine. Use a tunnel, for example ssh -L, for other machines.

Examples:
  jetcell raid serve arr1
      prints nbd+unix:///arr1?socket=/srv/arr1/nbd.sock
  nbdinfo 'nbd+unix:///arr1?socket=/srv/arr1/nbd.sock'
  nbd-client -unix /srv/arr1/nbd.sock -N arr1 /dev/nbd0 && mkfs.ext4 /dev/nbd0
  qemu-img convert -n -O raw disk.qcow2 'nbd+unix:///arr1?socket=/srv/arr1/nbd.sock'
  jetcell raid serve arr1 --listen 127.0.0.1:10809
      prints nbd://127.0.0.1:10809/arr1

Exit code: 0 stopped by a signal, 2 could not run, or the array stopped because too many members failed.")]
pub struct RaidServeArgs {
    #[command(flatten)]
    start: ArrayStartOptions,
    /// Listen on TCP at this address and port instead of a Unix socket; port 0 selects any free port. The standard
    /// NBD port is 10809
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "socket")]
    listen: Option<SocketAddr>,
    /// Listen on this Unix socket instead of nbd.sock in the array's directory
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Serve LUNs even if their write log is lost or damaged; writes since the last consistency point are lost
    #[arg(long)]
    forget_log: bool,
    /// Maximum number of concurrent connections
    #[arg(long, aliases = ["connections", "max-clients"], value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    max_connections: u16,
    /// Print the address as JSON
    #[arg(long)]
    json: bool,
}

impl RaidServeArgs {
    pub fn serve(&self) -> CommandResult {
        let shown = self.start.array.display();
        let name = absolute(&self.start.array)?;
        let name =
            name.file_name().map_or_else(|| "array".into(), |name| name.to_string_lossy().into_owned());
        let address = match (self.listen, &self.socket) {
            (Some(address), _) => ListenAddress::Tcp(address),
            (None, Some(path)) => ListenAddress::Unix(absolute(path)?),
            (None, None) => ListenAddress::Unix(absolute(&self.start.array)?.join(SOCKET)),
        };
        let cancel = Cancellation::default();
        cancel_on_signals(&cancel)?;
        let RunningContent { content, vfs, mut files } = start_with_content(&self.start, self.forget_log)?;
        let (shared, devices) = self.devices(content, &name);
        let limits =
            NbdServerLimits { connections: self.max_connections.into(), ..NbdServerLimits::default() };
        let bound = if devices.is_empty() {
            Err(CommandError::from(ArrayError::from(ArrayRefusal::NoLuns)).context(&shown))
        } else {
            NbdServer::bind(&address, devices.clone(), limits, console::print_note)
                .and_then(|server| server.address().map(|address| (server, address)))
                .map_err(|error| listen_error(&address, error))
        };
        let (server, address) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                shared.close(&mut files)?;
                return Err(error);
            }
        };
        self.announce_devices(&mut files, &address, &devices);
        let luns = devices.iter().map(|(name, _)| name.clone()).collect();
        let files = Arc::new(Mutex::new(files));
        let used = Arc::new(ArrayInUse::new(shared.clone(), files, vfs, ConcurrentActivity::with_luns(luns)));
        let control = ControlSocket::open(&self.start.array, used.clone());
        let stopper = server.stopper();
        let running = thread::spawn(move || server.run());
        let result = used.maintain_until_stopped(Some(MAX_UNCOMMITTED), &cancel);
        stopper.stop();
        let ended = running.join();
        drop(control);
        let mut files = used.files.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = shut_down(&shared, &mut files);
        result.context(&shown)?;
        ended.map_err(|_| CommandError::new(format_args!("{shown}: a server thread failed")))?;
        closed.map(|()| CommandOutcome::Good)
    }

    /// Returns the devices that export the array's content.
    fn devices(&self, mut content: ArrayContent, name: &str) -> (Arc<SharedContent>, Vec<NamedDevice>) {
        let layout = *content.array().layout();
        let on = format!("{} array, {} members", layout.level, layout.slots);
        let luns = match &content {
            ArrayContent::Array(_) => vec![(None, name.to_string(), layout.bytes())],
            ArrayContent::Luns(volume) => {
                volume.lun_sizes().into_iter().map(|(lun, bytes)| (Some(lun.clone()), lun, bytes)).collect()
            }
        };
        let shared = SharedContent::new(content);
        let device = |(lun, name, bytes): (Option<String>, String, u64)| {
            let description = if lun.is_some() { format!("LUN on a {on}") } else { on.clone() };
            let export = DeviceExport::new(shared.clone(), lun, bytes, description, self.read_only);
            (name, Arc::new(export) as Arc<dyn BlockExport>)
        };
        let devices = luns.into_iter().map(device).collect();
        (shared, devices)
    }

    /// Prints the device addresses, and records the start in the event file.
    fn announce_devices(&self, files: &mut ArrayFiles, address: &ListenAddress, devices: &[NamedDevice]) {
        let uris: Vec<String> = devices.iter().map(|(name, _)| address.uri(name)).collect();
        let text = format!("The array is served as {}.", uris.join(", "));
        files.event("serving_started", ArrayEventSeverity::Information, &text, json!({ "uris": uris }));
        if let ListenAddress::Tcp(address) = address
            && !address.ip().is_loopback()
        {
            console::print_note(&format!(
                "{address}: every program that can connect to this address can read and write the array"
            ));
        }
        let devices = || devices.iter().zip(&uris).map(|((name, export), uri)| (name, export.size(), uri));
        let json = || {
            let line =
                |(name, bytes, uri)| format!("{}\n", json!({ "uri": uri, "export": name, "bytes": bytes }));
            devices().map(line).collect::<String>()
        };
        let text = || {
            devices().map(|(_, bytes, uri)| format!("{uri} ({})\n", human_bytes(bytes))).collect::<String>()
        };
        console::print_result(self.json, json, text);
    }
}

/// Returns the reason why the server cannot listen, and a possible remedy.
fn listen_error(address: &ListenAddress, error: io::Error) -> CommandError {
    let shown = match address {
        ListenAddress::Tcp(address) => address.to_string(),
        ListenAddress::Unix(path) => path.display().to_string(),
    };
    let error = match (address, error.kind()) {
        (ListenAddress::Unix(_), io::ErrorKind::InvalidInput) => {
            CommandError::from(error).advise("use --socket to specify a shorter path")
        }
        (ListenAddress::Unix(_), io::ErrorKind::AddrInUse) => {
            CommandError::new("this name is already used by a file or another server")
                .advise("use --socket to specify a different name")
        }
        _ => error.into(),
    };
    error.context(format_args!("{shown}: cannot listen"))
}

/// Shuts the array down.
fn shut_down(shared: &SharedContent, files: &mut ArrayFiles) -> CommandResult<()> {
    if let Some(counters) = shared.with(|content| content.array().counters()) {
        let text = format!(
            "The array is no longer served: {} blocks read, {} written in {} commits, {} rows recovered, {} \
             blocks repaired, {} defects found.",
            counters.blocks_read,
            counters.blocks_written,
            counters.commits,
            counters.rows_recovered,
            counters.blocks_repaired,
            counters.defects
        );
        let figures = json!({ "blocks_read": counters.blocks_read, "blocks_written": counters.blocks_written,
            "commits": counters.commits, "defects": counters.defects, "members": transfers_json(&counters.members) });
        files.event("serving_ended", ArrayEventSeverity::Information, &text, figures);
    }
    shared.close(files)
}
