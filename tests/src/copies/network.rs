//! The network from a copy to its active side. It loses, delays, repeats, reorders, and damages answers, and is
//! interrupted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ese_engine::{CopyRegistration, PageImage, PageWishes};
use ese_format::{Generation, PageNumber, Signature};
use jetcell_copies::{
    CopyError, DirectorySource, Handover, LogEnd, Offer, Phase, Result, Source, StreamDirectory,
};
use jetcell_vfs::{FileStem, IoBuffer, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::hosts::Hosts;

/// State of the simulated network, shared by all connections.
pub struct Network {
    rng: ChaCha8Rng,
    /// True if answers may be lost, outdated, or damaged.
    pub bad: bool,
    /// Hosts that do not answer.
    pub cut: [bool; super::hosts::HOSTS],
    /// Previous offers, by host.
    offers: Vec<(usize, Offer)>,
    logs: Vec<Vec<u8>>,
    open_logs: Vec<Vec<u8>>,
    registrations: Vec<CopyRegistration>,
}

/// A handle to the network.
pub type SharedNetwork = Arc<Mutex<Network>>;

impl Network {
    /// Creates a network without faults.
    pub fn new(seed: u64) -> SharedNetwork {
        Arc::new(Mutex::new(Network {
            rng: ChaCha8Rng::seed_from_u64(seed),
            bad: false,
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
        (self.bad, self.cut) = (false, Default::default());
    }

    /// Returns true if a host does not answer.
    pub fn is_cut(&self, host: usize) -> bool {
        self.cut[host]
    }

    /// Returns the number of bytes to or from a host that are transferred before its connection is cut.
    pub fn lets_through(&mut self, host: usize, bytes: usize) -> usize {
        if self.cut[host] {
            0
        } else if self.happens(0.01) {
            self.rng.random_range(0..bytes.max(1))
        } else {
            bytes
        }
    }

    fn happens(&mut self, chance: f64) -> bool {
        self.bad && self.rng.random_bool(chance)
    }

    /// Transfers bytes of a log. They may be damaged, truncated, or replaced with those of an earlier answer.
    fn carry(
        &mut self,
        mut bytes: IoBuffer,
        earlier: impl Fn(&mut Network) -> &mut Vec<Vec<u8>>,
    ) -> IoBuffer {
        let old = earlier(self);
        if old.len() < 8 {
            old.push(bytes.to_vec());
        }
        let old = old.clone();
        if self.happens(0.06) {
            if let Some(old) = Network::any(&mut self.rng, &old) {
                bytes = buffer(&old);
            }
        } else if self.happens(0.06) && !bytes.is_empty() {
            let at = self.rng.random_range(0..bytes.len());
            bytes[at] ^= 0x5a;
        } else if self.happens(0.03) && bytes.len() >= 4096 {
            let keep = self.rng.random_range(0..bytes.len() / 4096) * 4096;
            bytes = buffer(&bytes[..keep]);
        }
        bytes
    }

    fn any<T: Clone>(rng: &mut ChaCha8Rng, old: &[T]) -> Option<T> {
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

fn lost(host: usize) -> CopyError {
    CopyError::Unreachable { active: format!("/{host}"), what: "no answer".to_string() }
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
    fn asks(&self) -> Result<()> {
        let mut network = self.network.lock().expect("no panic");
        if network.cut[self.host] || network.happens(0.1) { Err(lost(self.host)) } else { Ok(()) }
    }

    /// Returns the answer, or an error if it is lost.
    fn answers<T>(&self, answer: Result<T>) -> Result<T> {
        let is_lost = self.network.lock().expect("no panic").happens(0.1);
        if is_lost { Err(lost(self.host)) } else { answer }
    }
}

impl Source for RemoteSource {
    fn place(&self) -> String {
        Hosts::store(self.host).display().to_string()
    }

    fn offer(&self) -> Result<Offer> {
        self.asks()?;
        let offer = self.directory().offer()?;
        let mut network = self.network.lock().expect("no panic");
        network.offers.push((self.host, offer));
        let again = network.happens(0.15);
        let Network { rng, offers, .. } = &mut *network;
        let old = again.then(|| Network::any(rng, offers)).flatten();
        // An old answer must come from the same host.
        let old = old.filter(|(host, _)| *host == self.host);
        drop(network);
        self.answers(Ok(old.map_or(offer, |(_, old)| old)))
    }

    fn log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>> {
        self.asks()?;
        let bytes = self.directory().log(generation, from)?;
        let bytes = bytes
            .map(|bytes| self.network.lock().expect("no panic").carry(bytes, |network| &mut network.logs));
        self.answers(Ok(bytes))
    }

    fn open_log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>> {
        self.asks()?;
        let bytes = self.directory().open_log(generation, from)?;
        let bytes = bytes.map(|bytes| {
            self.network.lock().expect("no panic").carry(bytes, |network| &mut network.open_logs)
        });
        self.answers(Ok(bytes))
    }

    fn register(&self, registration: &CopyRegistration) -> Result<()> {
        self.asks()?;
        let old = {
            let mut network = self.network.lock().expect("no panic");
            network.registrations.push(registration.clone());
            let again = network.happens(0.1);
            let Network { rng, registrations, .. } = &mut *network;
            again.then(|| Network::any(rng, registrations)).flatten()
        };
        // An earlier message arrives late.
        if let Some(old) = old.filter(|old| old.id == registration.id && old.stream == registration.stream) {
            self.directory().register(&old)?;
        }
        let done = self.directory().register(registration);
        self.answers(done)
    }

    fn unregister(&self, id: &str) -> Result<()> {
        self.asks()?;
        let done = self.directory().unregister(id);
        self.answers(done)
    }

    fn ask_pages(&self, id: &str, wishes: &PageWishes) -> Result<()> {
        self.asks()?;
        let done = self.directory().ask_pages(id, wishes);
        self.answers(done)
    }

    fn page_image(&self, database: Signature, page: PageNumber) -> Result<Option<PageImage>> {
        self.asks()?;
        let mut image = self.directory().page_image(database, page)?;
        if let Some(image) = &mut image {
            let mut network = self.network.lock().expect("no panic");
            if network.happens(0.1) {
                let at = network.rng.random_range(0..image.bytes.len());
                image.bytes[at] ^= 0x5a;
            }
        }
        self.answers(Ok(image))
    }

    fn give_page(&self, image: &PageImage) -> Result<()> {
        self.asks()?;
        let done = self.directory().give_page(image);
        self.answers(done)
    }

    fn hand_over(&self, successor: &str) -> Result<Box<dyn Handover>> {
        self.asks()?;
        let inner = self.directory().hand_over(successor)?;
        let (network, host) = (self.network.clone(), self.host);
        self.answers(Ok(Box::new(RemoteHandover { inner, network, host })))
    }
}

struct RemoteHandover {
    inner: Box<dyn Handover>,
    network: SharedNetwork,
    host: usize,
}

impl RemoteHandover {
    fn passes(&self) -> Result<()> {
        let mut network = self.network.lock().expect("no panic");
        if network.cut[self.host] || network.happens(0.1) { Err(lost(self.host)) } else { Ok(()) }
    }
}

impl Handover for RemoteHandover {
    fn logs(&self) -> &BTreeMap<Generation, PathBuf> {
        self.inner.logs()
    }

    fn log(&self, generation: Generation) -> Result<IoBuffer> {
        self.passes()?;
        self.inner.log(generation)
    }

    fn copies(&self) -> Result<Vec<CopyRegistration>> {
        self.passes()?;
        self.inner.copies()
    }

    fn step_down(&self, successor: &str, end: Option<LogEnd>, phase: Phase) -> Result<()> {
        self.passes()?;
        self.inner.step_down(successor, end, phase)?;
        self.passes()
    }
}
