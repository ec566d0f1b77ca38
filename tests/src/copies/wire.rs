//! The connections between hosts: the real client and the real server of `jetcell-remote`, over a way that is cut at any byte.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jetcell_remote::{Exports, InProcess, RemoteOptions, RemoteVfs, Token, Wire};
use jetcell_vfs::{MountedVfs, Vfs};

use super::hosts::{HOSTS, Hosts};
use super::network::SharedNetwork;

/// How hosts reach each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// One calls the other.
    Calls,
    /// Over connections.
    Connections,
}

/// The name of the directory of each host.
const NAME: &str = "store";

fn root(host: usize) -> PathBuf {
    PathBuf::from(format!("tcp://host{host}:1"))
}

/// The directory of the store on another host, as a host sees it.
pub fn remote_store(host: usize) -> PathBuf {
    root(host).join(NAME)
}

/// The file system of all hosts in which each one is also behind a connection. `cuts` counts connections that were cut.
pub fn connected(hosts: &Hosts, network: &SharedNetwork, cuts: &Arc<AtomicU64>) -> Arc<dyn Vfs> {
    let token = Token::from_text("a token of this test").expect("it is long enough");
    let mount = |host: usize| {
        let named = vec![(NAME.to_string(), Hosts::store(host))];
        let disks: Arc<dyn Vfs> = Arc::new(hosts.clone());
        let mut exports =
            Exports::new(disks, token.clone(), format!("host{host}"), named).expect("one directory");
        exports.allow_handover = true;
        let wire = HostWire {
            hosts: hosts.clone(),
            network: network.clone(),
            host,
            boot: AtomicU64::new(0),
            cuts: cuts.clone(),
        };
        let way = Box::new(InProcess::new(&Arc::new(exports), Arc::new(wire)));
        // Without threads and pauses, so that a seed can be repeated.
        let options =
            RemoteOptions { retry: Duration::ZERO, threads: false, ..RemoteOptions::new(token.clone()) };
        let vfs: Arc<dyn Vfs> = Arc::new(RemoteVfs::over(root(host), way, options));
        (root(host), vfs)
    };
    Arc::new(MountedVfs::new(Arc::new(hosts.clone()), (0..HOSTS).map(mount).collect()))
}

struct HostWire {
    hosts: Hosts,
    network: SharedNetwork,
    host: usize,
    /// How often the host had been started when the connection was made: a server ends with its host.
    boot: AtomicU64,
    cuts: Arc<AtomicU64>,
}

impl Wire for HostWire {
    fn connects(&self) -> bool {
        self.boot.store(self.hosts.boots(self.host), Ordering::Relaxed);
        !self.network.lock().expect("no panic").is_cut(self.host)
    }

    fn carries(&self, bytes: usize) -> usize {
        let is_gone = self.boot.load(Ordering::Relaxed) != self.hosts.boots(self.host);
        let through = match is_gone {
            true => 0,
            false => self.network.lock().expect("no panic").lets_through(self.host, bytes),
        };
        self.cuts.fetch_add(u64::from(through < bytes), Ordering::Relaxed);
        through
    }
}
