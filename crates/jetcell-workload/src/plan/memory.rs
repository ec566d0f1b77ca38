//! Checks whether the process can get the memory and threads that a run needs, before the run allocates any of them.

use jetcell_host::{MemoryLimit, memory_limit, try_threads};
use jetcell_vfs::try_reserve;

use crate::memory_budget::MemoryBudget;
use crate::profile::{Profile, default_cache};
use crate::start_error::StartError;
use crate::units::ByteSize;

/// Memory needed in addition to the cache: log buffers, version store, transfers, and the program itself.
const BASE_BYTES: u64 = 256 << 20;
/// Address space needed by a thread: its stack and its share of the allocator.
const THREAD_BYTES: u64 = 16 << 20;

/// Returns the cache size for a run on `databases` databases with a total size of `total` bytes. Returns an error if
/// the requested cache is too small for the databases and threads.
pub(super) fn cache(profile: &Profile, databases: usize, total: u64) -> Result<u64, StartError> {
    let threads = profile.threads;
    let least = MemoryBudget { cache: 0, databases, threads }.min_cache();
    let Some(cache) = profile.cache else { return Ok(default_cache(databases, total).0.max(least)) };
    if cache.0 >= least {
        return Ok(cache.0);
    }
    let min = ByteSize::mib(least.div_ceil(1 << 20));
    Err(StartError::SmallCache { cache, databases, threads, min })
}

/// Returns an error if the machine, a control group or a process limit does not allow the cache size.
pub(super) fn check_memory(profile: &Profile, cache_bytes: u64) -> Result<(), StartError> {
    check_cache_fits(cache_bytes, memory_limit().as_ref())?;
    let needed = BASE_BYTES.saturating_add(THREAD_BYTES.saturating_mul(profile.threads as u64));
    let needed = needed.saturating_add(cache_bytes);
    try_reserve(usize::try_from(needed).unwrap_or(usize::MAX)).map_err(|error| {
        let cache = ByteSize(cache_bytes);
        StartError::AddressSpace { needed, cache, threads: profile.threads, error }
    })
}

/// Number of threads other than load threads in a run: those of the engine, the I/O backend and the views.
const OTHER_THREADS: usize = 32;
/// Number of engine threads for each additional volume, and the maximum number of volumes that get such threads.
const THREADS_PER_VOLUME: usize = 2;
const MAX_VOLUMES: usize = 32;

/// Returns an error if the process cannot start all threads of the run.
pub(super) fn check_threads(profile: &Profile) -> Result<(), StartError> {
    let of_volumes = THREADS_PER_VOLUME * (profile.dirs.len().clamp(1, MAX_VOLUMES) - 1);
    let wanted = profile.threads + profile.records.tables as usize + OTHER_THREADS + of_volumes;
    try_threads(wanted).map_err(|(started, error)| StartError::Threads { wanted, started, error })
}

/// Returns an error if the cache leaves too little memory for the rest of the process. With a cache larger than
/// memory, the run would measure the kernel's paging, or the process would be killed.
fn check_cache_fits(cache_bytes: u64, limit: Option<&MemoryLimit>) -> Result<(), StartError> {
    let Some(limit) = limit else { return Ok(()) };
    let most = limit.bytes.saturating_sub(BASE_BYTES);
    if cache_bytes <= most {
        return Ok(());
    }
    Err(StartError::LargeCache {
        cache: ByteSize(cache_bytes),
        limit: limit.clone(),
        other_bytes: BASE_BYTES,
        max: ByteSize::mib(most >> 20),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_must_leave_room_in_the_memory() {
        let limit = MemoryLimit { bytes: 1 << 30, source: "/sys/fs/cgroup/memory.max".into() };
        check_cache_fits(768 << 20, Some(&limit)).unwrap();
        check_cache_fits(u64::MAX, None).unwrap();
        let error = check_cache_fits(769 << 20, Some(&limit)).unwrap_err();
        let text = jetcell_input::with_advice(&error, error.advice());
        assert_eq!(
            text,
            "--cache 769MiB does not fit in the memory of 1.00 GiB (/sys/fs/cgroup/memory.max), of which \
             the run needs 256.00 MiB for other purposes; use at most --cache 768MiB"
        );
    }
}
