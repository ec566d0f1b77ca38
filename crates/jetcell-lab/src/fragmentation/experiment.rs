//! What fragmentation costs on a drive: the same database contiguous and scattered, read as a scan and as a backup, and under the
//! mail load.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Instant;

use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, RealOptions, RealVfs, Vfs};
use jetcell_workload::measurement::Better;

use crate::filesystems::{ROWS, Row, row};

/// Bytes of a read of scan and backup.
const READ: u64 = 256 << 10;
/// Reads that a backup has in flight.
const BACKUP_DEPTH: u64 = 8;
const MIB: f64 = 1_048_576.0;

/// The rows of the mail load, and behind them those of [`read_rates`].
pub const EXPERIMENT_ROWS: [Row; ROWS.len() + 2] = {
    let mut rows = [row("scan_mib_per_sec", "Scan", "MiB/s", Better::Higher); ROWS.len() + 2];
    let mut at = 0;
    while at < ROWS.len() {
        rows[at] = ROWS[at];
        at += 1;
    }
    rows[ROWS.len() + 1] = row("backup_mib_per_sec", "Backup", "MiB/s", Better::Higher);
    rows
};

/// Rates of reading a file from its begin to its end past the kernel's cache, in MiB/s: as the checksum scan, one read of 256 KiB
/// after the other, and as a backup, eight in flight.
///
/// # Errors
/// The file cannot be read.
pub fn read_rates(path: &Path) -> io::Result<[f64; 2]> {
    let files = RealVfs::new(RealOptions::default())?;
    let file = files.open(path, OpenMode::Read)?;
    let len = file.len()?;
    let rate = |depth: u64| {
        let began = Instant::now();
        thread::scope(|scope| {
            let readers: Vec<_> = (0..depth)
                .map(|first| {
                    scope.spawn({
                        let file = &*file;
                        move || read_every(file, len, first, depth)
                    })
                })
                .collect();
            readers.into_iter().try_for_each(|reader| {
                reader.join().unwrap_or_else(|_| Err(io::Error::other("a reader panicked")))
            })
        })?;
        Ok::<_, io::Error>(len as f64 / MIB / began.elapsed().as_secs_f64())
    };
    Ok([rate(1)?, rate(BACKUP_DEPTH)?])
}

/// Reads each `step`th block, from the block `first` on.
fn read_every(file: &dyn File, len: u64, first: u64, step: u64) -> io::Result<()> {
    let mut buffer = IoBuffer::zeroed(READ as usize);
    for offset in (first * READ..len).step_by((step * READ) as usize) {
        buffer.resize((len - offset).min(READ) as usize);
        file.read_at(offset, &mut buffer, IoReason::Other)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_those_of_the_load_and_two_more() {
        let names: Vec<&str> = EXPERIMENT_ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names[..ROWS.len()], ROWS.map(|row| row.name));
        assert_eq!(names[ROWS.len()..], ["scan_mib_per_sec", "backup_mib_per_sec"]);
    }

    #[test]
    fn a_file_is_read_to_its_end() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("a.edb");
        std::fs::write(&path, vec![7; (3 << 20) + 8192]).unwrap();
        let rates = read_rates(&path).unwrap();
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{rates:?}");
        assert!(read_rates(&directory.path().join("none")).is_err());
    }
}
