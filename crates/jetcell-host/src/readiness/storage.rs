//! The storage that contains a directory: space, file system, device, and sync latency.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jetcell_input::number::human_bytes;
use jetcell_sync::thread;
use jetcell_vfs::direct_io_available;

use super::ReadinessError;
use super::observation::Observation;
use super::system_files::SystemFiles;
use crate::machine::{BlockDevice, DirectoryStorage, Mount};

/// Number of syncs that are timed.
const SYNC_SAMPLES: usize = 20;

/// Maximum acceptable share of time, in percent, during which other programs use a device. Higher use distorts a
/// measurement.
const MAX_BUSY_PERCENT: f64 = 5.0;

/// Shortest plausible duration of a sync on a spinning disk. A disk needs several milliseconds to reach a sector, so
/// a faster sync did not reach the disk.
const MIN_HARD_DISK_SYNC: Duration = Duration::from_millis(1);

/// File systems that store their files on another machine or in another program.
const REMOTE_FILE_SYSTEMS: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs"];

/// A directory that exists and is writable.
pub(super) struct WritableDirectory {
    path: PathBuf,
    /// Durations of the syncs of 4 KiB writes, sorted.
    syncs: Vec<Duration>,
    free: u64,
    total: u64,
}

impl WritableDirectory {
    /// Opens a directory and times syncs of an unnamed file, which is removed when it is closed.
    pub(super) fn open(path: &Path) -> Result<WritableDirectory, ReadinessError> {
        let at = || path.to_path_buf();
        let metadata = fs::metadata(path).map_err(|error| ReadinessError::Missing(at(), error))?;
        if !metadata.is_dir() {
            return Err(ReadinessError::NotADirectory(at()));
        }
        let file = tempfile::tempfile_in(path).map_err(|error| ReadinessError::NotWritable(at(), error))?;
        let syncs = time_syncs(&file).map_err(|error| ReadinessError::Write(at(), error))?;
        let space = rustix::fs::statvfs(path).map_err(|error| ReadinessError::Space(at(), error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
        Ok(WritableDirectory {
            path: path.to_path_buf(),
            syncs,
            free: bytes(space.f_bavail),
            total: bytes(space.f_blocks),
        })
    }

    fn median_sync(&self) -> Duration {
        self.syncs[self.syncs.len() / 2]
    }
}

fn time_syncs(file: &File) -> std::io::Result<Vec<Duration>> {
    let block = [0x5a; 4096];
    let mut syncs = Vec::with_capacity(SYNC_SAMPLES);
    for number in 0..SYNC_SAMPLES {
        file.write_all_at(&block, (number * block.len()) as u64)?;
        let begun = Instant::now();
        file.sync_data()?;
        syncs.push(begun.elapsed());
    }
    syncs.sort();
    Ok(syncs)
}

/// Returns the share of time, in percent, during which each directory's device was busy while this program was idle.
pub(super) fn busy_shares(
    files: &SystemFiles,
    directories: &[WritableDirectory],
    watched: Duration,
) -> Vec<Option<f64>> {
    let busy = |directory: &WritableDirectory| {
        let device = DirectoryStorage::examine(&directory.path).device?;
        let text = files.line(format!("/sys/block/{}/stat", device.name))?;
        // The tenth field is the time in milliseconds during which requests were in flight.
        text.split_whitespace().nth(9)?.parse::<u64>().ok()
    };
    let before: Vec<_> = directories.iter().map(busy).collect();
    thread::sleep(watched);
    let shares = directories.iter().map(busy).zip(before).map(|(after, before)| {
        let milliseconds = after?.saturating_sub(before?);
        Some((100.0 * milliseconds as f64 / watched.as_millis() as f64).min(100.0))
    });
    shares.collect()
}

/// Examines the storage that contains a directory.
pub(super) fn observe(
    files: &SystemFiles,
    directory: &WritableDirectory,
    busy: Option<f64>,
) -> Vec<Observation> {
    let about = directory.path.display().to_string();
    let storage = DirectoryStorage::examine(&directory.path);
    let state = format!("{} of {} free", human_bytes(directory.free), human_bytes(directory.total));
    let mut all = vec![Observation::ok(&about, "space", state)];
    if let Some(mount) = &storage.mount {
        all.extend(file_system(&about, mount));
    }
    all.push(if direct_io_available(&directory.path) {
        Observation::ok(&about, "direct I/O", "yes")
    } else {
        let state = "no: a test would measure the kernel's cache instead of the storage";
        let advice = "use a directory on another file system, or disable the feature that prevents direct \
         I/O";
        Observation::recommendation(&about, "direct I/O", state, advice)
    });
    if let Some(device) = &storage.device {
        all.push(block_device(&about, device));
        all.extend(scheduler(&about, device));
        all.extend(layers(files, &about, device));
    }
    if let Some(busy) = busy {
        let state = format!("device busy for {busy:.0} % of one second");
        all.push(if busy > MAX_BUSY_PERCENT {
            let advice =
                "find other programs with iotop, and stop them; their load would distort the results of a \
                 test";
            Observation::recommendation(&about, "other programs", state, advice)
        } else {
            Observation::ok(&about, "other programs", state)
        });
    }
    let rotational = storage.device.as_ref().and_then(|device| device.rotational).unwrap_or(false);
    all.push(sync_latency(&about, directory.median_sync(), directory.syncs[SYNC_SAMPLES - 1], rotational));
    all
}

fn file_system(about: &str, mount: &Mount) -> Vec<Observation> {
    let kind = mount.file_system.as_str();
    let state = format!("{kind}, {} on {}", mount.source, mount.point.display());
    let mut all = vec![match kind {
        "tmpfs" | "ramfs" => {
            let advice = "use a directory on a disk; tests cannot use this directory";
            Observation::recommendation(about, "file system", format!("{state}: memory, not storage"), advice)
        }
        "overlay" => {
            let advice = "use a volume of the container; on this file system, the first write to a file \
             copies the whole file";
            Observation::recommendation(about, "file system", state, advice)
        }
        "btrfs" | "zfs" | "bcachefs" => {
            let advice = "it writes to new locations, so files fragment with age; also run the test on an \
             aged file system";
            Observation::information(about, "file system", state, Some(advice))
        }
        _ if REMOTE_FILE_SYSTEMS.contains(&kind) || kind.starts_with("fuse") => {
            let advice = "an intermediate cache can acknowledge writes that are not on the storage";
            Observation::information(about, "file system", state, Some(advice))
        }
        _ => Observation::ok(about, "file system", state),
    }];
    let options: Vec<&str> = mount.options.split(',').collect();
    all.extend(mount_options(about, &options));
    all
}

fn mount_options(about: &str, options: &[&str]) -> Vec<Observation> {
    let mut all = Vec::new();
    let mut change = |option: &str, advice: &str| {
        all.push(Observation::recommendation(about, "mount option", option, advice));
    };
    for &option in options {
        match option {
            "nobarrier" | "barrier=0" => {
                change(option, "mount without it; a power cut can lose acknowledged writes");
            }
            "sync" | "dirsync" => change(option, "mount without it; it makes each write synchronous"),
            "data=journal" => {
                change(
                    option,
                    "mount with data=ordered; otherwise data is written twice and without direct I/O",
                );
            }
            "ro" => change(option, "mount it read-write"),
            "strictatime" => {
                change(option, "mount with relatime; with strictatime, each read updates the access time");
            }
            _ if option.starts_with("compress") => {
                change(option, "mount without it, or note that the records of a test are not compressible");
            }
            _ => {}
        }
    }
    if options.contains(&"discard") {
        let advice =
            "deleting files sends discard commands immediately; a periodic fstrim sends them at other times";
        all.push(Observation::information(about, "mount option", "discard", Some(advice)));
    }
    all
}

fn block_device(about: &str, device: &BlockDevice) -> Observation {
    let kind = match device.rotational {
        Some(true) => "spinning disk",
        Some(false) => "not a spinning disk",
        None => "unknown kind",
    };
    let model = device.model.as_deref().map(|model| format!(" {model}")).unwrap_or_default();
    let cache = device.write_cache.as_deref().map(|cache| format!(", cache {cache}")).unwrap_or_default();
    Observation::ok(about, "device", format!("{}{model}, {kind}{cache}", device.name))
}

fn scheduler(about: &str, device: &BlockDevice) -> Option<Observation> {
    let scheduler = device.scheduler.as_deref()?;
    let name = &device.name;
    let requests = device.queue_requests.map(|requests| format!(", queue of {requests}")).unwrap_or_default();
    let state = format!("{scheduler}{requests}");
    let set = |to: &str| format!("echo {to} > /sys/block/{name}/queue/scheduler");
    Some(match (device.rotational, scheduler) {
        (Some(false), "bfq") => Observation::recommendation(about, "scheduler", state, set("none")),
        (Some(true), "none") => {
            let advice = format!("{}, unless the device sorts requests itself", set("mq-deadline"));
            Observation::information(about, "scheduler", state, Some(&advice))
        }
        _ => Observation::ok(about, "scheduler", state),
    })
}

/// Returns the layers between the file system and the disks: loop devices, device mapper, Linux RAID.
fn layers(files: &SystemFiles, about: &str, device: &BlockDevice) -> Vec<Observation> {
    let read_attribute = |file: &str| files.line(format!("/sys/block/{}/{file}", device.name));
    let mut all = Vec::new();
    if let Some(file) = read_attribute("loop/backing_file") {
        let advice = "the measurement includes the underlying file system";
        all.push(Observation::information(about, "loop device", format!("backed by {file}"), Some(advice)));
    }
    let slaves = files.names(format!("/sys/block/{}/slaves", device.name)).join(", ");
    if let Some(name) = read_attribute("dm/name") {
        let encrypted = read_attribute("dm/uuid").is_some_and(|id| id.starts_with("CRYPT-"));
        let kind = if encrypted { "encrypted volume" } else { "volume" };
        let advice = encrypted.then_some(
            "the processor encrypts the data; compare only with other \
         encrypted volumes",
        );
        all.push(Observation::information(
            about,
            "device mapper",
            format!("{kind} {name} on {slaves}"),
            advice,
        ));
    }
    if let Some(level) = read_attribute("md/level") {
        let action = read_attribute("md/sync_action").unwrap_or_else(|| "idle".into());
        let missing = read_attribute("md/degraded").filter(|count| count != "0");
        let state = format!("{level} on {slaves}, {action}");
        all.push(match missing {
            Some(count) => {
                let state = format!("{state}, {count} members are missing");
                Observation::recommendation(
                    about,
                    "Linux RAID",
                    state,
                    "replace the members, and wait for the rebuild",
                )
            }
            None if action != "idle" => Observation::recommendation(
                about,
                "Linux RAID",
                state,
                "wait until it is idle; see /proc/mdstat",
            ),
            None => Observation::ok(about, "Linux RAID", state),
        });
    }
    all
}

fn sync_latency(about: &str, median: Duration, longest: Duration, rotational: bool) -> Observation {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let state = format!(
        "median {:.3} ms, maximum {:.3} ms, for {SYNC_SAMPLES} writes of 4 KiB",
        milliseconds(median),
        milliseconds(longest)
    );
    if rotational && median < MIN_HARD_DISK_SYNC {
        let advice = "too fast for a spinning disk: a cache acknowledges writes; make sure that it has a \
         battery or flash memory";
        return Observation::information(about, "sync", state, Some(advice));
    }
    Observation::ok(about, "sync", state)
}

#[cfg(test)]
mod tests {
    use super::super::observation::ObservationSeverity;
    use super::*;

    fn mount(kind: &str, options: &str) -> Mount {
        Mount {
            point: PathBuf::from("/mnt/a"),
            file_system: kind.into(),
            source: "/dev/sda1".into(),
            options: options.into(),
        }
    }

    fn weights(all: &[Observation]) -> Vec<ObservationSeverity> {
        all.iter().map(|each| each.weight).collect()
    }

    #[test]
    fn file_systems_and_options_are_judged() {
        assert_eq!(weights(&file_system("a", &mount("ext4", "rw,relatime"))), [ObservationSeverity::Good]);
        assert_eq!(weights(&file_system("a", &mount("tmpfs", "rw"))), [ObservationSeverity::Change]);
        assert_eq!(weights(&file_system("a", &mount("fuse.sshfs", "rw"))), [ObservationSeverity::Note]);
        let all = file_system("a", &mount("ext4", "rw,nobarrier,discard,data=journal"));
        assert_eq!(
            weights(&all),
            [
                ObservationSeverity::Good,
                ObservationSeverity::Change,
                ObservationSeverity::Change,
                ObservationSeverity::Note
            ]
        );
        let all = file_system("a", &mount("btrfs", "rw,compress=zstd:3"));
        assert_eq!(weights(&all), [ObservationSeverity::Note, ObservationSeverity::Change]);
    }

    fn device(rotational: bool, scheduler: &str) -> BlockDevice {
        BlockDevice {
            name: "md0".into(),
            model: None,
            rotational: Some(rotational),
            scheduler: Some(scheduler.into()),
            queue_requests: Some(256),
            write_cache: None,
        }
    }

    #[test]
    fn schedulers_are_judged_by_the_kind_of_device() {
        let weight = |rotational, name| scheduler("a", &device(rotational, name)).unwrap().weight;
        assert_eq!(weight(false, "none"), ObservationSeverity::Good);
        assert_eq!(weight(false, "bfq"), ObservationSeverity::Change);
        assert_eq!(weight(true, "none"), ObservationSeverity::Note);
        assert_eq!(weight(true, "mq-deadline"), ObservationSeverity::Good);
    }

    #[test]
    fn a_degraded_or_rebuilding_array_must_be_repaired_first() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("sys/block/md0/md");
        fs::create_dir_all(&directory).unwrap();
        fs::create_dir_all(root.path().join("sys/block/md0/slaves/sda")).unwrap();
        let files = SystemFiles::from_root(root.path());
        let state = |degraded: &str, action: &str| {
            fs::write(directory.join("level"), "raid6\n").unwrap();
            fs::write(directory.join("degraded"), degraded).unwrap();
            fs::write(directory.join("sync_action"), action).unwrap();
            layers(&files, "a", &device(true, "none")).pop().unwrap()
        };
        assert_eq!(state("0\n", "idle\n"), Observation::ok("a", "Linux RAID", "raid6 on sda, idle"));
        assert_eq!(state("0\n", "resync\n").weight, ObservationSeverity::Change);
        assert_eq!(state("1\n", "idle\n").weight, ObservationSeverity::Change);
    }

    #[test]
    fn a_sync_too_fast_for_a_spinning_disk_is_reported() {
        let short = Duration::from_micros(80);
        assert_eq!(sync_latency("a", short, short, true).weight, ObservationSeverity::Note);
        assert_eq!(sync_latency("a", short, short, false).weight, ObservationSeverity::Good);
        let long = Duration::from_millis(8);
        assert_eq!(sync_latency("a", long, long, true).weight, ObservationSeverity::Good);
    }

    #[test]
    fn examining_a_directory_leaves_no_files() {
        let directory = tempfile::tempdir().unwrap();
        let ready = WritableDirectory::open(directory.path()).unwrap();
        let all = observe(&SystemFiles::for_this_machine(), &ready, Some(50.0));
        assert!(all.iter().any(|each| each.subject == "sync" && each.state.contains("median")));
        assert!(
            all.iter()
                .any(|each| each.subject == "other programs" && each.weight == ObservationSeverity::Change)
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(WritableDirectory::open(&directory.path().join("missing")).is_err());
    }
}
