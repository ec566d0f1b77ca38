//! Test with eight volumes, one of which is throttled by a control group: the others must be as fast as without it.
//! It needs root and is skipped with a message otherwise.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use testkit::{TestRequirement, skip};

use serde_json::Value;

use crate::cell::CellDirectory;
use crate::loop_devices::{LoopDevice, MountPoint, can_create_filesystems, run};

const VOLUMES: usize = 8;
/// Index of the throttled volume, and its limit in reads and in writes per second.
const SLOW: usize = 3;
const LIMIT: u32 = 20;

/// A control group that limits one device. It is removed when it is dropped.
struct DeviceThrottle(PathBuf);

impl DeviceThrottle {
    /// Creates the control group. Returns `None` where control groups are not available.
    fn for_device(device: &LoopDevice) -> Option<DeviceThrottle> {
        let number = fs::metadata(&device.0).unwrap().rdev();
        let device = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let name = format!("jetcell-test-{}", std::process::id());
        let (first, second) = (Path::new("/sys/fs/cgroup/blkio"), Path::new("/sys/fs/cgroup"));
        let throttle = DeviceThrottle(if first.is_dir() { first.join(&name) } else { second.join(&name) });
        let written = |file: &str, text: String| fs::write(throttle.0.join(file), text).is_ok();
        let made = fs::create_dir(&throttle.0).is_ok()
            && (if first.is_dir() {
                ["read", "write"].iter().all(|kind| {
                    written(&format!("blkio.throttle.{kind}_iops_device"), format!("{device} {LIMIT}"))
                })
            } else {
                let _ = fs::write(second.join("cgroup.subtree_control"), "+io");
                written("io.max", format!("{device} riops={LIMIT} wiops={LIMIT}"))
            });
        if !made {
            skip(TestRequirement::Root, "no control group for block devices");
        }
        made.then_some(throttle)
    }
}

impl Drop for DeviceThrottle {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Returns the reads per second and the milliseconds per read for each database.
fn reads(result: &Value) -> Vec<(f64, f64)> {
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    let of = |row: &Value| {
        let latency = number(row, "I/O Database Reads Average Latency (msec)");
        (number(row, "I/O Database Reads/sec"), latency)
    };
    result["instances"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_throttled_volume_does_not_slow_the_seven_others() {
    let cell = CellDirectory::with_limits();
    if !can_create_filesystems(&cell) {
        return;
    }
    let mut volumes = Vec::new();
    for volume in 0..VOLUMES {
        let Some(device) = LoopDevice::attach(&cell.path(&format!("image{volume}")), 192 << 20) else {
            return;
        };
        assert!(run("mkfs.ext4", &["-q", "-O", "^has_journal", &device.0]));
        let mounted = MountPoint::mount("ext4", &device, cell.make_dir(&format!("v{volume}")), "noatime");
        volumes.push((mounted, device));
    }
    let Some(throttle) = DeviceThrottle::for_device(&volumes[SLOW].1) else { return };
    let names: Vec<String> = (0..VOLUMES).map(|volume| format!("v{volume}")).collect();
    let dirs = names.iter().flat_map(|name| ["--dir", name]);
    let fixed =
        ["--databases", "8", "--size", "32MiB", "--cache", "48MiB", "--threads", "8", "--tables", "1"];
    let words = |output: &'static str, more: &[&'static str]| -> Vec<String> {
        let always =
            ["test", "performance", "--config", "wide.toml", "--output", output, "--json", "--quiet"];
        let all = always.into_iter().chain(dirs.clone()).chain(fixed).chain(more.iter().copied());
        all.map(str::to_string).collect()
    };
    fn as_strs(words: &[String]) -> Vec<&str> {
        words.iter().map(String::as_str).collect()
    }
    let whole = cell.program(&as_strs(&words("out1", &["--duration", "3s"]))).output().unwrap();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));

    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", throttle.0.display());
    let slowed = words("out2", &["--open", "--duration", "4s"]);
    let mut command = std::process::Command::new("sh");
    command.current_dir(cell.path("")).args(["-c", &enter, env!("CARGO_BIN_EXE_jetcell")]).args(&slowed);
    let slowed = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&slowed.stderr).into_owned();
    assert!(matches!(slowed.status.code(), Some(0 | 1)), "{stderr}");
    let [fast, slow] =
        [whole.stdout, slowed.stdout].map(|text| reads(&serde_json::from_slice(&text).unwrap()));
    eprintln!("reads per second and ms: {fast:.1?}, throttled: {slow:.1?}");
    assert_eq!((fast.len(), slow.len()), (VOLUMES, VOLUMES));
    for volume in (0..VOLUMES).filter(|volume| *volume != SLOW) {
        let ((rate, latency), (rate_before, latency_before)) = (slow[volume], fast[volume]);
        assert!(
            rate > rate_before / 2.0 && latency < latency_before * 2.0 + 1.0,
            "volume {volume}: {slow:.1?}"
        );
    }
    assert!(slow[SLOW].0 < fast[SLOW].0 / 10.0 && slow[SLOW].0 < f64::from(2 * LIMIT), "{slow:.1?}");
    assert!(slow[SLOW].1 > 5.0 * fast[SLOW].1, "{slow:.1?}");
    // The report has one row for each database, and a row for the total.
    let page = fs::read_to_string(cell.path("out2/report.html")).unwrap();
    let sum: f64 = slow.iter().map(|(rate, _)| rate).sum();
    assert!((1..=VOLUMES).all(|number| page.contains(&format!("Jetstress{number:03}001"))));
    assert!(page.contains("Total") && sum > 7.0 * slow[SLOW].0);
}
