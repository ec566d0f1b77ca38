//! The network from a copy to its active side. It loses, delays, repeats, reorders, and damages answers, and is
//! interrupted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ese_engine::{CopyRegistration, ExchangedPage, PageRequests};
use ese_format::{Generation, PageNumber, Signature};
use jetcell_copies::{
    AvailableLogs, ClosedLogId, ContactError, CopyError, CopyPhase, DirectorySource, Handover, LogSource,
    Result, StreamDirectory,
};
use jetcell_vfs::{FileStem, IoBuffer, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::hosts::HostDisks;

/// State of the simulated network, shared by all connections.
pub struct SimulatedNetwork {
    rng: ChaCha8Rng,
    /// True if answers may be lost, outdated, or damaged.
    pub is_unreliable: bool,
    /// Hosts that do not answer.
    pub cut: [bool; super::hosts::HOSTS],
    /// Previous offers, by host.
    offers: Vec<(usize, AvailableLogs)>,
    logs: Vec<Vec<u8>>,
    open_logs: Vec<Vec<u8>>,
    registrations: Vec<CopyRegistration>,
}

/// A handle to the network.
pub type SharedNetwork = Arc<Mutex<SimulatedNetwork>>;

impl SimulatedNetwork {
    /// Creates a network without faults.
    pub fn new(seed: u64) -> SharedNetwork {
        Arc::new(Mutex::new(SimulatedNetwork {
            rng: ChaCha8Rng::seed_from_u64(seed),
            is_unreliable: false,
            cut: Default::default(),
            offers: Vec::new(),
            logs: Vec::new(),
            open_logs: Vec::new(),
            registrations: Vec::new(),
        }))
    }

    /// Discards recorded open logs after a change of the active host, because they belong to the previous active
    /// side.
    pub fn forget_open_logs(&mut self) {
        self.open_logs.clear();
    }

    /// Removes all faults.
    pub fn heal(&mut self) {
        (self.is_unreliable, self.cut) = (false, Default::default());
    }

    /// Returns true if a host does not answer.
    pub fn is_cut(&self, host: usize) -> bool {
        self.cut[host]
    }

    /// Returns the number of bytes to or from a host that are transferred before its connection is cut.
    pub fn deliverable_bytes(&mut self, host: usize, bytes: usize) -> usize {
        if self.cut[host] {
            0
        } else if self.draw_chance(0.01) {
            self.rng.random_range(0..bytes.max(1))
        } else {
            bytes
        }
    }

    fn draw_chance(&mut self, chance: f64) -> bool {
        self.is_unreliable && self.rng.random_bool(chance)
    }

    /// Transfers bytes of a log. They may be damaged, truncated, or replaced with those of an earlier answer.
    fn transfer_log(
        &mut self,
        mut bytes: IoBuffer,
        earlier: impl Fn(&mut SimulatedNetwork) -> &mut Vec<Vec<u8>>,
    ) -> IoBuffer {
        let old = earlier(self);
        if old.len() < 8 {
            old.push(bytes.to_vec());
        }
        let count = old.len();
        if self.draw_chance(0.06) {
            let at = self.rng.random_range(0..count);
            bytes = buffer(&earlier(self)[at]);
        } else if self.draw_chance(0.06) && !bytes.is_empty() {
            let at = self.rng.random_range(0..bytes.len());
            bytes[at] ^= 0x5a;
        } else if self.draw_chance(0.03) && bytes.len() >= 4096 {
            let keep = self.rng.random_range(0..bytes.len() / 4096) * 4096;
            bytes = buffer(&bytes[..keep]);
        }
        bytes
    }

    fn random_element<T: Clone>(rng: &mut ChaCha8Rng, old: &[T]) -> Option<T> {
        (!old.is_empty()).then(|| old[rng.random_range(0..old.len())].clone())
    }
}

/// The active side on a host, accessed over the network.
pub struct RemoteSource {
    vfs: Arc<dyn Vfs>,
    logs: PathBuf,
    network: SharedNetwork,
    host: usize,
}

fn buffer(bytes: &[u8]) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.copy_from_slice(bytes);
    buffer
}

fn unreachable_error(host: usize) -> CopyError {
    let error = ContactError::Io(Arc::new(std::io::Error::other("no answer")));
    CopyError::Unreachable { active: format!("/{host}"), error }
}

impl RemoteSource {
    /// Creates a source for the active side on a host, with its logs in this directory.
    pub fn new(vfs: &Arc<dyn Vfs>, logs: PathBuf, network: &SharedNetwork, host: usize) -> RemoteSource {
        RemoteSource { vfs: vfs.clone(), logs, network: network.clone(), host }
    }

    fn directory(&self) -> DirectorySource {
        DirectorySource::new(StreamDirectory::new(&self.vfs, &self.logs, FileStem::E00, Default::default()))
    }

    /// Returns an error if the request does not reach the host.
    fn check_request(&self) -> Result<()> {
        let mut network = self.network.lock().expect("no panic");
        if network.cut[self.host] || network.draw_chance(0.1) {
            Err(unreachable_error(self.host))
        } else {
            Ok(())
        }
    }

    /// Returns the answer, or an error if it is lost.
    fn check_answer<T>(&self, answer: Result<T>) -> Result<T> {
        let is_lost = self.network.lock().expect("no panic").draw_chance(0.1);
        if is_lost { Err(unreachable_error(self.host)) } else { answer }
    }
}

impl LogSource for RemoteSource {
    fn address(&self) -> String {
        HostDisks::store(self.host).display().to_string()
    }

    fn available_logs(&self) -> Result<AvailableLogs> {
        self.check_request()?;
        let offer = self.directory().available_logs()?;
        let mut network = self.network.lock().expect("no panic");
        network.offers.push((self.host, offer));
        let again = network.draw_chance(0.15);
        let SimulatedNetwork { rng, offers, .. } = &mut *network;
        let old = again.then(|| SimulatedNetwork::random_element(rng, offers)).flatten();
        // An old answer must come from the same host.
        let old = old.filter(|(host, _)| *host == self.host);
        drop(network);
        self.check_answer(Ok(old.map_or(offer, |(_, old)| old)))
    }

    fn read_log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>> {
        self.check_request()?;
        let bytes = self.directory().read_log(generation, from)?;
        let bytes = bytes.map(|bytes| {
            self.network.lock().expect("no panic").transfer_log(bytes, |network| &mut network.logs)
        });
        self.check_answer(Ok(bytes))
    }

    fn read_open_log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>> {
        self.check_request()?;
        let bytes = self.directory().read_open_log(generation, from)?;
        let bytes = bytes.map(|bytes| {
            self.network.lock().expect("no panic").transfer_log(bytes, |network| &mut network.open_logs)
        });
        self.check_answer(Ok(bytes))
    }

    fn register(&self, registration: &CopyRegistration) -> Result<()> {
        self.check_request()?;
        let old = {
            let mut network = self.network.lock().expect("no panic");
            network.registrations.push(registration.clone());
            let again = network.draw_chance(0.1);
            let SimulatedNetwork { rng, registrations, .. } = &mut *network;
            again.then(|| SimulatedNetwork::random_element(rng, registrations)).flatten()
        };
        // An earlier message arrives late.
        if let Some(old) = old.filter(|old| old.id == registration.id && old.stream == registration.stream) {
            self.directory().register(&old)?;
        }
        let done = self.directory().register(registration);
        self.check_answer(done)
    }

    fn unregister(&self, id: &str) -> Result<()> {
        self.check_request()?;
        let done = self.directory().unregister(id);
        self.check_answer(done)
    }

    fn request_pages(&self, id: &str, wishes: &PageRequests) -> Result<()> {
        self.check_request()?;
        let done = self.directory().request_pages(id, wishes);
        self.check_answer(done)
    }

    fn page_image(&self, database: Signature, page: PageNumber) -> Result<Option<ExchangedPage>> {
        self.check_request()?;
        let mut image = self.directory().page_image(database, page)?;
        if let Some(image) = &mut image {
            let mut network = self.network.lock().expect("no panic");
            if network.draw_chance(0.1) {
                let at = network.rng.random_range(0..image.bytes.len());
                image.bytes[at] ^= 0x5a;
            }
        }
        self.check_answer(Ok(image))
    }

    fn send_page(&self, image: &ExchangedPage) -> Result<()> {
        self.check_request()?;
        let done = self.directory().send_page(image);
        self.check_answer(done)
    }

    fn hand_over(&self, successor: &str) -> Result<Box<dyn Handover>> {
        self.check_request()?;
        let inner = self.directory().hand_over(successor)?;
        let (network, host) = (self.network.clone(), self.host);
        self.check_answer(Ok(Box::new(NetworkHandover { inner, network, host })))
    }
}

struct NetworkHandover {
    inner: Box<dyn Handover>,
    network: SharedNetwork,
    host: usize,
}

impl NetworkHandover {
    fn check_connection(&self) -> Result<()> {
        let mut network = self.network.lock().expect("no panic");
        if network.cut[self.host] || network.draw_chance(0.1) {
            Err(unreachable_error(self.host))
        } else {
            Ok(())
        }
    }
}

impl Handover for NetworkHandover {
    fn logs(&self) -> &BTreeMap<Generation, PathBuf> {
        self.inner.logs()
    }

    fn log(&self, generation: Generation) -> Result<IoBuffer> {
        self.check_connection()?;
        self.inner.log(generation)
    }

    fn copies(&self) -> Result<Vec<CopyRegistration>> {
        self.check_connection()?;
        self.inner.copies()
    }

    fn step_down(&self, successor: &str, end: Option<ClosedLogId>, phase: CopyPhase) -> Result<()> {
        self.check_connection()?;
        self.inner.step_down(successor, end, phase)?;
        self.check_connection()
    }
}
