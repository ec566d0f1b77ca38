//! Settings of a scan: how fast it may read, and what it does with pages.

use std::time::Duration;

use ese_format::PageSize;
use jetcell_sync::{Arc, Mutex};

use crate::cache::FileId;
use crate::{Error, Result};

/// Bytes of one read of Exchange 2013.
pub const EXTENT_BYTES: usize = 256 << 10;

/// The smallest and the largest read.
const BATCH_BYTES: std::ops::RangeInclusive<usize> = (64 << 10)..=(16 << 20);

/// The longest pause. ESE: the maximum of `JET_paramDbScanThrottle`.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Settings of a scan.
#[derive(Clone)]
pub struct ScanOptions {
    /// Pause after each read, up to 60 s. ESE: `JET_paramDbScanThrottle`.
    pub pause: Duration,
    /// Bytes of one read, from 64 KiB to 16 MiB; whole pages of it are read. Exchange 2007 SP1: 320 KiB; 2013: 256 KiB.
    pub batch_bytes: usize,
    /// The most bytes to read in a second, on average.
    pub bytes_per_second: Option<u64>,
    /// While reads of sessions take longer on average, the scan doubles its pause after each read, up to 60 s.
    pub read_latency_target: Option<Duration>,
    /// Whether what deleted data leave behind is overwritten. ESE: `JET_bitDatabaseScanZeroPages`.
    #[doc(alias = "JET_bitDatabaseScanZeroPages")]
    pub zero: bool,
    /// Whether the progress is stored in the database, so that a later scan resumes the pass.
    pub keep_progress: bool,
    /// Whether the scan ends after one pass. ESE: `JET_bitDatabaseScanBatchStart`.
    pub single_pass: bool,
    /// Databases with the same turn are scanned one at a time, pass by pass: usually those of one disk. ESE:
    /// `JET_paramEnableDbScanSerialization`.
    #[doc(alias = "JET_paramEnableDbScanSerialization")]
    pub turn: Option<Arc<ScanTurn>>,
}

impl Default for ScanOptions {
    fn default() -> ScanOptions {
        ScanOptions {
            pause: Duration::from_millis(20),
            batch_bytes: EXTENT_BYTES,
            bytes_per_second: None,
            read_latency_target: None,
            zero: false,
            keep_progress: false,
            single_pass: false,
            turn: None,
        }
    }
}

impl ScanOptions {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`Error::Usage`] if one is impossible.
    pub fn check(&self) -> Result<()> {
        let refused = |what: String| Err(Error::Usage(what));
        if self.pause > LONGEST_PAUSE {
            return refused(format!("a pause of {:?} between reads: it must be from 0 to 60 s", self.pause));
        }
        if !BATCH_BYTES.contains(&self.batch_bytes) {
            return refused(format!(
                "reads of {} bytes: they must be from 65,536 (64 KiB) to 16,777,216 (16 MiB)",
                self.batch_bytes
            ));
        }
        if self.bytes_per_second == Some(0) || self.read_latency_target == Some(Duration::ZERO) {
            return refused("a rate or a latency of 0: the scan could never read".to_string());
        }
        Ok(())
    }

    pub(super) fn pages_per_batch(&self, size: PageSize) -> usize {
        (self.batch_bytes / size.bytes()).max(1)
    }
}

/// The right to scan, which one database has at a time.
#[derive(Default)]
pub struct ScanTurn(Mutex<Option<(usize, FileId)>>);

impl ScanTurn {
    /// Takes the turn if it is free. `cache` tells instances with caches of their own apart.
    pub(super) fn take(&self, cache: usize, file: FileId) -> bool {
        let mut holder = self.0.lock();
        *holder.get_or_insert((cache, file)) == (cache, file)
    }

    /// Gives it back.
    pub(super) fn release(&self, cache: usize, file: FileId) {
        let mut holder = self.0.lock();
        if *holder == Some((cache, file)) {
            *holder = None;
        }
    }
}

/// The pauses of a scan.
pub(super) struct Pace {
    /// The pause while reads of sessions are too slow.
    backed_off: Duration,
    /// Faults of the cache and the microseconds that they took, at the last step.
    faults: (u64, u64),
}

impl Pace {
    pub fn new(faults: (u64, u64)) -> Pace {
        Pace { backed_off: Duration::ZERO, faults }
    }

    /// The pause after a read of `bytes` that took `took`.
    pub fn pause(
        &mut self,
        options: &ScanOptions,
        bytes: usize,
        took: Duration,
        faults: (u64, u64),
    ) -> Duration {
        let mut pause = options.pause;
        if let Some(rate) = options.bytes_per_second {
            let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
            pause = pause.max(due.saturating_sub(took));
        }
        if let Some(target) = options.read_latency_target {
            let (count, us) = (faults.0 - self.faults.0, faults.1 - self.faults.1);
            self.faults = faults;
            let slow = count > 0 && Duration::from_micros(us / count) > target;
            self.backed_off = match slow {
                true => (self.backed_off * 2).clamp(Duration::from_millis(10), LONGEST_PAUSE),
                false if self.backed_off < Duration::from_millis(10) => Duration::ZERO,
                false => self.backed_off / 2,
            };
            pause = pause.max(self.backed_off);
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused() {
        let good = ScanOptions::default();
        good.check().unwrap();
        let bad = [
            ScanOptions { pause: Duration::from_millis(60_001), ..good.clone() },
            ScanOptions { batch_bytes: 4096, ..good.clone() },
            ScanOptions { batch_bytes: usize::MAX, ..good.clone() },
            ScanOptions { bytes_per_second: Some(0), ..good.clone() },
            ScanOptions { read_latency_target: Some(Duration::ZERO), ..good.clone() },
        ];
        for options in bad {
            assert!(matches!(options.check(), Err(Error::Usage(_))));
        }
        let sp1 = ScanOptions { batch_bytes: 320 << 10, ..good };
        assert_eq!((sp1.check().is_ok(), sp1.pages_per_batch(PageSize::KIB_8)), (true, 40));
    }

    #[test]
    fn the_pause_follows_the_rate_and_backs_off_from_slow_reads() {
        let ms = Duration::from_millis;
        let options = ScanOptions {
            pause: Duration::ZERO,
            bytes_per_second: Some(1 << 20),
            read_latency_target: Some(ms(20)),
            ..ScanOptions::default()
        };
        let mut pace = Pace::new((0, 0));
        // 256 KiB at 1 MiB/s: a quarter of a second, of which the read took a part.
        assert_eq!(pace.pause(&options, 256 << 10, ms(50), (10, 50_000)), ms(200));
        let options = ScanOptions { bytes_per_second: None, ..options };
        let mut faults = (10, 50_000);
        let mut slow = |each_ms: u64| {
            faults = (faults.0 + 10, faults.1 + 10 * each_ms * 1000);
            pace.pause(&options, 256 << 10, ms(1), faults)
        };
        assert_eq!([slow(50), slow(50), slow(50)], [ms(10), ms(20), ms(40)]);
        assert_eq!([slow(5), slow(5), slow(5), slow(5)], [ms(20), ms(10), ms(5), ms(0)]);
        for _ in 0..20 {
            assert!(slow(500) <= LONGEST_PAUSE);
        }
    }

    #[test]
    fn one_database_has_the_turn() {
        let turn = ScanTurn::default();
        assert!(turn.take(1, FileId(0)) && turn.take(1, FileId(0)));
        assert!(!turn.take(1, FileId(1)) && !turn.take(2, FileId(0)));
        turn.release(2, FileId(0));
        assert!(!turn.take(1, FileId(1)));
        turn.release(1, FileId(0));
        assert!(turn.take(1, FileId(1)));
    }
}
