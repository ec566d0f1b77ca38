//! Export of an array or its LUNs as network block devices.

mod device_export;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jetcell_host::Cancellation;
use jetcell_nbd::{BlockExport, ListenAddress, NbdServer, NbdServerLimits};
use jetcell_sync::{Arc, Mutex, thread};
use serde_json::json;

use self::device_export::DeviceExport;
use crate::control::ControlSocket;
use crate::description::transfers_json;
use crate::directory::{ArrayEventSeverity, ArrayFiles, absolute};
use crate::environment::ServiceEnvironment;
use crate::error::{Error, InArray, Result};
use crate::running::{
    ArrayContent, ArrayInUse, ArrayStartOptions, ConcurrentActivity, RunningContent, SharedContent,
    start_with_content,
};

/// Maximum time before writes to an array are committed, even if no client requests a flush.
const MAX_UNCOMMITTED: Duration = Duration::from_secs(5);

/// Name of the socket in an array's directory.
const SOCKET: &str = "nbd.sock";

/// A device's name and its export.
type NamedDevice = (String, Arc<dyn BlockExport>);

/// Options for serving an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServeOptions {
    /// The array, and how it is started.
    pub start: ArrayStartOptions,
    /// Address for TCP. Otherwise, the server listens on a Unix socket.
    pub listen: Option<SocketAddr>,
    /// Path of the Unix socket, or `None` for `nbd.sock` in the directory of the array.
    pub socket: Option<PathBuf>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether LUNs are served even if their write log is lost or damaged.
    pub forget_log: bool,
    /// Maximum number of concurrent connections.
    pub max_connections: usize,
}

/// A device that is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServedDevice {
    /// Address of the device, in the form that clients accept.
    pub uri: String,
    /// Name of the device.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
}

impl ServeOptions {
    /// Serves the array until `cancel` is requested, and shuts it down. `announce` receives the devices as soon as
    /// clients can connect.
    ///
    /// # Errors
    /// Returns an error if the array or the server cannot start, or if the array failed.
    pub fn serve(
        &self,
        environment: &ServiceEnvironment,
        cancel: &Cancellation,
        announce: &mut dyn FnMut(&[ServedDevice]),
    ) -> Result<()> {
        let array = &self.start.array;
        let path = absolute(array)?;
        let name =
            path.file_name().map_or_else(|| "array".into(), |name| name.to_string_lossy().into_owned());
        let address = match (self.listen, &self.socket) {
            (Some(address), _) => ListenAddress::Tcp(address),
            (None, Some(path)) => ListenAddress::Unix(absolute(path)?),
            (None, None) => ListenAddress::Unix(path.join(SOCKET)),
        };
        let RunningContent { content, mut files } =
            start_with_content(&self.start, self.forget_log, environment)?;
        let (shared, devices) = self.devices(content, &name);
        let limits = NbdServerLimits { connections: self.max_connections, ..NbdServerLimits::default() };
        let bound = if devices.is_empty() {
            Err(Error::no_luns(array.display()))
        } else {
            let show_note = environment.show_note.clone();
            NbdServer::bind(&address, devices.clone(), limits, move |line| show_note(line))
                .and_then(|server| server.address().map(|address| (server, address)))
                .map_err(|error| listen_error(address, error))
        };
        let (server, address) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                shared.close(&mut files)?;
                return Err(error);
            }
        };
        announce(&start_serving(&mut files, &address, &devices, environment));
        let luns = devices.into_iter().map(|(name, _)| name).collect();
        let files = Arc::new(Mutex::new(files));
        let activity = ConcurrentActivity::with_luns(luns);
        let used = Arc::new(ArrayInUse::new(shared.clone(), files, environment.clone(), activity));
        let control = ControlSocket::open(array, used.clone());
        let stopper = server.stopper();
        let running = thread::spawn(move || server.run());
        let result = used.maintain_until_stopped(Some(MAX_UNCOMMITTED), cancel);
        stopper.stop();
        let ended = running.join();
        drop(control);
        let closed = shut_down(&shared, &mut used.files.lock());
        result.in_array(array.display())?;
        ended.map_err(|_| Error::ServerThread(array.clone()))?;
        closed
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
            let (shared, is_read_only) = (shared.clone(), self.read_only);
            let export = DeviceExport { shared, lun, bytes, description, is_read_only };
            (name, Arc::new(export) as Arc<dyn BlockExport>)
        };
        let devices = luns.into_iter().map(device).collect();
        (shared, devices)
    }
}

/// Records the start in the event file, and returns the devices with their addresses.
fn start_serving(
    files: &mut ArrayFiles,
    address: &ListenAddress,
    devices: &[NamedDevice],
    environment: &ServiceEnvironment,
) -> Vec<ServedDevice> {
    let served = devices.iter().map(|(name, export)| ServedDevice {
        uri: address.uri(name),
        name: name.clone(),
        bytes: export.size(),
    });
    let served: Vec<ServedDevice> = served.collect();
    let uris: Vec<&str> = served.iter().map(|device| device.uri.as_str()).collect();
    let text = format!("The array is served as {}.", uris.join(", "));
    files.event("serving_started", ArrayEventSeverity::Information, &text, json!({ "uris": uris }));
    if let ListenAddress::Tcp(address) = address
        && !address.ip().is_loopback()
    {
        environment.note(format_args!(
            "{address}: every program that can connect to this address can read and write the array"
        ));
    }
    served
}

/// Returns the reason why the server cannot listen.
fn listen_error(address: ListenAddress, source: io::Error) -> Error {
    match (address, source.kind()) {
        (ListenAddress::Unix(path), io::ErrorKind::InvalidInput) => Error::SocketPath { path, source },
        (ListenAddress::Unix(path), io::ErrorKind::AddrInUse) => Error::SocketNameInUse(path),
        (ListenAddress::Unix(path), _) => Error::Listen { address: path.display().to_string(), source },
        (ListenAddress::Tcp(address), _) => Error::Listen { address: address.to_string(), source },
    }
}

/// Shuts the array down.
fn shut_down(shared: &SharedContent, files: &mut ArrayFiles) -> Result<()> {
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
