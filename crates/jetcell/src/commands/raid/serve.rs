//! `jetcell raid serve`: exports an array or its LUNs as network block devices.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use jetcell_array_service::{ServeOptions, ServedDevice};
use jetcell_host::cancelled_by_signals;
use jetcell_input::number::human_bytes;
use serde_json::json;

use super::array_operation::ArrayStartArgs;
use crate::console;
use crate::outcome::{CommandOutcome, CommandResult};
use crate::shared::array_environment::array_environment;
use crate::shared::listen_address::listen_address;

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
    start: ArrayStartArgs,
    /// Listen on TCP at this address and port instead of a Unix socket; port 0 selects any free port. The standard
    /// NBD port is 10809
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address, conflicts_with = "socket")]
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
    pub fn serve(self) -> CommandResult {
        let cancel = cancelled_by_signals()?;
        let options = ServeOptions {
            start: self.start.options(),
            listen: self.listen,
            socket: self.socket,
            read_only: self.read_only,
            forget_log: self.forget_log,
            max_connections: self.max_connections.into(),
        };
        options.serve(&array_environment()?, &cancel, &mut |devices| print_devices(devices, self.json))?;
        Ok(CommandOutcome::Good)
    }
}

fn print_devices(devices: &[ServedDevice], is_json: bool) {
    let json = |ServedDevice { uri, name, bytes }: &ServedDevice| {
        format!("{}\n", json!({ "uri": uri, "export": name, "bytes": bytes }))
    };
    let text = |ServedDevice { uri, bytes, .. }: &ServedDevice| format!("{uri} ({})\n", human_bytes(*bytes));
    console::print_result(
        is_json,
        || devices.iter().map(json).collect::<String>(),
        || devices.iter().map(text).collect::<String>(),
    );
}
