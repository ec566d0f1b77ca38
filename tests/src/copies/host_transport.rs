//! Connections between hosts: the real client and server of `jetcell-remote`, over a transport that is cut at
//! arbitrary bytes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jetcell_remote::{
    AccessToken, ExportedDirectories, InProcessConnector, RemoteOptions, RemoteVfs, SimulatedLink,
};
use jetcell_vfs::{MountedVfs, Vfs};

use super::hosts::{HOSTS, HostDisks};
use super::network::SharedNetwork;

/// Transport between hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostTransport {
    /// Direct function calls.
    Calls,
    /// Connections through the remote protocol.
    Connections,
}

/// Name of the exported directory on each host.
const NAME: &str = "store";

fn host_root(host: usize) -> PathBuf {
    PathBuf::from(format!("tcp://host{host}:1"))
}

/// Returns the directory of the store on another host, as seen by a host.
pub fn remote_store(host: usize) -> PathBuf {
    host_root(host).join(NAME)
}

/// Returns the file system of all hosts, in which each host is also accessible through a connection. `cuts` counts
/// the connections that were cut.
pub fn connected_vfs(hosts: &HostDisks, network: &SharedNetwork, cuts: &Arc<AtomicU64>) -> Arc<dyn Vfs> {
    let token = AccessToken::from_text("a token of this test").expect("it is long enough");
    let mount = |host: usize| {
        let named = vec![(NAME.to_string(), HostDisks::store(host))];
        let disks: Arc<dyn Vfs> = Arc::new(hosts.clone());
        let mut exports = ExportedDirectories::new(disks, token.clone(), format!("host{host}"), named)
            .expect("one directory");
        exports.allow_handover = true;
        let wire = HostWire {
            hosts: hosts.clone(),
            network: network.clone(),
            host,
            boot: AtomicU64::new(0),
            cuts: cuts.clone(),
        };
        let way = Box::new(InProcessConnector::new(&Arc::new(exports), Arc::new(wire)));
        // Without threads and pauses, a seed is reproducible.
        let options =
            RemoteOptions { retry: Duration::ZERO, threads: false, ..RemoteOptions::new(token.clone()) };
        let vfs: Arc<dyn Vfs> = Arc::new(RemoteVfs::with_connector(host_root(host), way, options));
        (host_root(host), vfs)
    };
    Arc::new(MountedVfs::new(Arc::new(hosts.clone()), (0..HOSTS).map(mount).collect()))
}

struct HostWire {
    hosts: HostDisks,
    network: SharedNetwork,
    host: usize,
    /// Boot count of the host when the connection was made. A server ends with its host.
    boot: AtomicU64,
    cuts: Arc<AtomicU64>,
}

impl SimulatedLink for HostWire {
    fn can_connect(&self) -> bool {
        self.boot.store(self.hosts.boots(self.host), Ordering::Relaxed);
        !self.network.lock().expect("no panic").is_cut(self.host)
    }

    fn delivered_bytes(&self, bytes: usize) -> usize {
        let is_gone = self.boot.load(Ordering::Relaxed) != self.hosts.boots(self.host);
        let through = if is_gone {
            0
        } else {
            self.network.lock().expect("no panic").deliverable_bytes(self.host, bytes)
        };
        self.cuts.fetch_add(u64::from(through < bytes), Ordering::Relaxed);
        through
    }
}
