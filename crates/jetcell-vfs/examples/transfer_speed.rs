//! Measures random 32 KiB reads through `submit` at several queue depths, for comparison with other tools: `cargo run
//! --release --example transfer_speed -- <directory> [mebibytes] [seconds]`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jetcell_sync::{Arc, Mutex, mpsc};
use jetcell_vfs::{
    Backend, File, IoBuffer, IoReason, OpenMode, RealOptions, RealVfs, Transfer, TransferKind, Vfs,
};
use rand::{Rng, SeedableRng};

const LEN: usize = 32 * 1024;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().expect("a directory"));
    let number = |text: Option<String>, default| text.map_or(default, |text| text.parse().expect("a number"));
    let bytes = number(arguments.next(), 1024) << 20;
    let time = Duration::from_secs(number(arguments.next(), 2));
    let path = directory.join("transfer-speed.tmp");
    for backend in [Backend::Uring, Backend::Threads] {
        let vfs = RealVfs::new(RealOptions { backend, direct: true })?;
        let file = vfs.open(&path, OpenMode::CreateNew)?;
        let result = measure(&vfs, &file, bytes, time);
        vfs.remove(&path)?;
        result?;
    }
    Ok(())
}

fn measure(vfs: &RealVfs, file: &Arc<dyn File>, bytes: u64, time: Duration) -> std::io::Result<()> {
    let noise: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for offset in (0..bytes).step_by(noise.len()) {
        file.write_at(offset, &noise, IoReason::Other)?;
    }
    file.sync(IoReason::Other)?;
    for depth in [1, 2, 4, 8, 16, 32] {
        let (sender, receiver) = mpsc::channel();
        let rng = Mutex::new(rand_chacha::ChaCha8Rng::seed_from_u64(depth as u64));
        let transfer = |buffer| {
            let offset = rng.lock().random_range(0..bytes / LEN as u64) * LEN as u64;
            let sender = sender.clone();
            let done = Box::new(move |result: std::io::Result<()>, buffer| {
                result.expect("reads succeed");
                sender.send(buffer).expect("somebody listens");
            });
            Transfer { kind: TransferKind::Read, offset, buffer, reason: IoReason::Other, done }
        };
        let (start, cpu) = (Instant::now(), processor_time());
        file.submit((0..depth).map(|_| transfer(IoBuffer::zeroed(LEN))).collect());
        let mut count = 0u64;
        while start.elapsed() < time {
            let mut buffers = vec![receiver.recv().expect("reads are in flight")];
            buffers.extend(receiver.try_iter());
            count += buffers.len() as u64;
            file.submit(buffers.into_iter().map(transfer).collect());
        }
        (0..depth).for_each(|_| drop(receiver.recv()));
        let each = (processor_time() - cpu).as_secs_f64() * 1e6 / count as f64;
        let rate = count as f64 / start.elapsed().as_secs_f64();
        println!(
            "{:8} depth {depth:2}: {rate:7.0} reads/s, {each:5.1} us processor time each",
            vfs.backend_name()
        );
    }
    Ok(())
}

/// Returns the user and system CPU time of this process.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}
