//! Serves a block device in memory on a Unix socket until the process is killed: `cargo run --release -p jetcell-nbd
//! --example memory -- SOCKET BYTES`.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use jetcell_nbd::{AllocationExtent, BlockExport, ExportRead, ListenAddress, NbdServer, NbdServerLimits};

struct MemoryDevice(RwLock<Vec<u8>>, u64);

impl MemoryDevice {
    fn change(&self, offset: u64, length: u64, change: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let mut content = self.0.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut content[offset as usize..(offset + length) as usize]);
        Ok(())
    }
}

impl BlockExport for MemoryDevice {
    fn size(&self) -> u64 {
        self.1
    }

    fn description(&self) -> String {
        "memory".into()
    }

    fn preferred_block(&self) -> u32 {
        4096
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn can_trim(&self) -> bool {
        true
    }

    fn read(&self, batch: &mut [ExportRead<'_>]) -> io::Result<()> {
        let content = self.0.read().unwrap_or_else(PoisonError::into_inner);
        for read in batch {
            let end = read.offset as usize + read.buffer.len();
            read.buffer.copy_from_slice(&content[read.offset as usize..end]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(offset, data.len() as u64, |bytes| bytes.copy_from_slice(data))
    }

    fn zero(&self, offset: u64, length: u64, _may_free: bool, _only_fast: bool) -> io::Result<()> {
        self.change(offset, length, |bytes| bytes.fill(0))
    }

    fn trim(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn extents(&self, _offset: u64, length: u64) -> io::Result<Vec<AllocationExtent>> {
        Ok(vec![AllocationExtent { length, is_hole: false }])
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(socket), Some(bytes)) = (words.next(), words.next()) else {
        return Err("usage: memory SOCKET BYTES".into());
    };
    let bytes: u64 = bytes.parse()?;
    let memory = MemoryDevice(RwLock::new(vec![0; usize::try_from(bytes)?]), bytes);
    let exports: Vec<(String, Arc<dyn BlockExport>)> = vec![("memory".into(), Arc::new(memory))];
    let server =
        NbdServer::bind(&ListenAddress::Unix(socket.into()), exports, NbdServerLimits::default(), |note| {
            eprintln!("{note}");
        })?;
    println!("{}", server.address()?.uri("memory"));
    server.run();
    Ok(())
}
