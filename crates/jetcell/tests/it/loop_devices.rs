//! Tests with loop devices, for file systems that the command creates and devices that it overwrites. They need root
//! and are skipped with a message otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{TestRequirement, skip};

use serde_json::Value;

use crate::cell::CellDirectory;

/// A loop device on an image. It is detached when it is dropped.
pub struct LoopDevice(pub String);

impl LoopDevice {
    /// Attaches a loop device to an image. Returns `None` where loop devices are not available.
    pub fn attach(image: &Path, bytes: u64) -> Option<LoopDevice> {
        let made = fs::File::create(image).and_then(|file| file.set_len(bytes));
        made.unwrap();
        let output = Command::new("losetup").args(["-P", "--show", "-f"]).arg(image).output().ok()?;
        let name = String::from_utf8(output.stdout).ok()?.trim().to_string();
        if name.is_empty() {
            skip(
                TestRequirement::Root,
                format!("no loop device: {}", String::from_utf8_lossy(&output.stderr).trim()),
            );
        }
        (!name.is_empty()).then_some(LoopDevice(name))
    }

    /// Returns the device of a new partition that is not in a partition table. Returns `None` if the kernel cannot
    /// create it.
    pub fn partition(&self, number: u64, from_mib: u64, mib: u64) -> Option<String> {
        let sectors = |mib: u64| (mib << 11).to_string();
        let words = [&self.0, &number.to_string(), &sectors(from_mib), &sectors(mib)];
        let name = format!("{}p{number}", self.0);
        let made = run("addpart", &words.map(String::as_str)) && appears(&name);
        if !made {
            skip(TestRequirement::Root, format!("no partition of {}", self.0));
        }
        made.then_some(name)
    }
}

/// Waits for the device file of a partition, which appears a moment after the partition.
fn appears(path: &str) -> bool {
    let began = Instant::now();
    while !Path::new(path).exists() && began.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(5));
    }
    Path::new(path).exists()
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

pub fn run(program: &str, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

/// Returns true if file systems can be created and mounted.
pub fn can_create_filesystems(cell: &CellDirectory) -> bool {
    let Some(device) = LoopDevice::attach(&cell.path("probe"), 16 << 20) else { return false };
    let point = cell.make_dir("probed");
    let mounted = run("mkfs.ext4", &["-q", &device.0])
        && run("mount", &["-t", "ext4", &device.0, point.to_str().unwrap()]);
    if mounted {
        assert!(run("umount", &[point.to_str().unwrap()]));
    } else {
        skip(TestRequirement::Tools, "mkfs.ext4 is not installed, or nothing can be mounted");
    }
    mounted
}

/// Counts mount points, and images of loop devices, below a directory.
pub fn count_attached(directory: &Path) -> usize {
    let below = |path: &str| Path::new(path).starts_with(directory);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().filter(|line| line.split(' ').nth(4).is_some_and(below)).count();
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    let images =
        devices.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
    mounts + images.filter(|image| below(image.trim_end())).count()
}

const LIST: &str = r#"
[[filesystem]]
kind = "ext4"
mount_options = ["noatime"]

[[filesystem]]
kind = "ext4"
name = "small blocks, aged"
mkfs_options = ["-b", "1024"]
fill_percent = 10
aging_rounds = 1

[[filesystem]]
kind = "zfs"
name = "pool"
"#;

/// Command that tests the file systems in `list.toml` on small images.
const MAKE: [&str; 10] = [
    "test",
    "filesystems",
    "--make-list",
    "list.toml",
    "--images",
    "images",
    "--image-size",
    "512MiB",
    "--size",
    "32MiB",
];

#[test]
fn file_systems_are_created_compared_and_removed() {
    let cell = CellDirectory::new();
    if !can_create_filesystems(&cell) {
        return;
    }
    cell.write("list.toml", LIST);
    let images = cell.make_dir("images");
    let more = ["--duration", "1s", "--repeat", "1", "--output", "out", "--json", "--signs-of-change"];
    let output = cell.program(&[&MAKE[..], &more].concat()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Value = serde_json::from_slice(&output.stdout).expect(&stderr);
    let is_complete = found["skipped"].get(0).is_none();
    assert_eq!(output.status.code(), Some(i32::from(!is_complete)), "{stderr}");
    let of =
        |at: usize, pointer: &str| found["directories"][at].pointer(pointer).cloned().unwrap_or_default();
    if let Some(skipped) = found["skipped"].get(0) {
        assert_eq!(skipped["name"], "pool");
        assert!(stderr.contains("pool is skipped: "), "{stderr}");
        assert_eq!(found["directories"].as_array().unwrap().len(), 2);
    }
    assert_eq!((of(0, "/name"), of(1, "/name")), ("ext4".into(), "small blocks, aged".into()));
    assert!(of(0, "/storage/mount/options").as_str().unwrap().contains("noatime"));
    assert!(of(0, "/storage/mount/source").as_str().unwrap().starts_with("/dev/loop"));
    assert_eq!((of(1, "/made/aging_rounds"), of(1, "/remarks/0")), (1.into(), "data checksums: none".into()));
    assert!(of(1, "/allocated_bytes").as_u64().unwrap() >= 32 << 20);
    assert_eq!(found["signs"], "change");
    assert!(found["rows"][0]["means"][1].as_f64().unwrap() > 0.0);
    assert_eq!((count_attached(&images), fs::read_dir(&images).unwrap().count()), (0, 0));
    let page = fs::read_to_string(cell.path("out/report.html")).unwrap();
    assert!(page.contains("1024") && page.contains("with the sign of the change"));
}

#[test]
fn leftovers_from_a_killed_test_are_found_and_removed() {
    let cell = CellDirectory::new();
    if !can_create_filesystems(&cell) {
        return;
    }
    let images = cell.make_dir("images");
    cell.write(
        "list.toml",
        "[[filesystem]]\nkind = \"ext4\"\n[[filesystem]]\nkind = \"ext4\"\nname = \"other\"\n",
    );
    let mut child = cell
        .program(&[&MAKE[..], &["--duration", "60s", "--output", "out"]].concat())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mounted = || count_attached(&images) >= 2;
    let began = Instant::now();
    while !mounted() && began.elapsed() < Duration::from_secs(120) && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(mounted(), "the file system is mounted while it is measured");
    child.kill().unwrap();
    child.wait().unwrap();
    let again = [&MAKE[..], &["--output", "out2"]].concat();
    let output = cell.program(&again).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("was left over from a killed test; remove it with --clean-up"), "{stderr}");
    assert!(mounted() && !cell.path("out2").exists());
    // For another directory of images, the leftover is only reported, with the command that removes it.
    cell.make_dir("elsewhere");
    let output =
        cell.program(&["test", "filesystems", "--images", "elsewhere", "--clean-up"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let command = format!("jetcell test filesystems --images {} --clean-up", images.display());
    assert!(output.status.success() && stderr.contains(&command) && mounted(), "{stderr}");
    let output = cell.program(&["test", "filesystems", "--images", "images", "--clean-up"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!((count_attached(&images), fs::read_dir(&images).unwrap().count()), (0, 0), "{stderr}");
}

/// A mounted file system. It is unmounted when it is dropped.
pub struct MountPoint(PathBuf);

impl MountPoint {
    pub fn mount(kind: &str, device: &LoopDevice, point: PathBuf, options: &str) -> MountPoint {
        assert!(run("mount", &["-t", kind, "-o", options, &device.0, point.to_str().unwrap()]));
        MountPoint(point)
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        assert!(run("umount", &[self.0.to_str().unwrap()]) || thread::panicking());
    }
}

/// Makes the kernel detect an error in the file system of a device and remount it read-only. Returns false if this is
/// not possible.
fn trigger_error(device: &LoopDevice) -> bool {
    let name = device.0.trim_start_matches("/dev/");
    fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "a test").is_ok()
}

#[test]
fn a_volume_turned_read_only_loses_nothing_and_recovers() {
    let cell = CellDirectory::new();
    if !can_create_filesystems(&cell) {
        return;
    }
    let Some(device) = LoopDevice::attach(&cell.path("image"), 256 << 20) else { return };
    assert!(run("mkfs.ext4", &["-q", &device.0]));
    let point = cell.make_dir("point");
    let mounted = MountPoint::mount("ext4", &device, point.clone(), "errors=remount-ro");
    let lines = |name: &str| fs::read_to_string(cell.path(name)).map_or(0, |text| text.lines().count());
    let promise = ["test", "durability", "point/promised", "--witness", "journal", "--quiet", "--seed", "5"];
    let perform =
        ["test", "performance", "--dir", "point/run", "--size", "32MiB", "--output", "out", "--quiet"];
    let start =
        |words: &[&str]| cell.program(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut programs = [start(&promise), start(&perform)];
    let began = Instant::now();
    while lines("journal") < 300 || lines("out/samples.csv") < 2 {
        let running = programs.iter_mut().all(|program| program.try_wait().unwrap().is_none());
        assert!(running && began.elapsed() < Duration::from_secs(120));
        thread::sleep(Duration::from_millis(10));
    }
    let triggered = trigger_error(&device);
    if !triggered {
        programs.iter_mut().for_each(|program| program.kill().unwrap());
    }
    let [promised, performed] = programs.map(|program| program.wait_with_output().unwrap());
    if !triggered {
        skip(TestRequirement::Kernel, "the kernel has no trigger_fs_error for ext4");
        return;
    }
    let one_line = |text: &[u8], status: Option<i32>, expected: i32| {
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert_eq!((status, text.lines().count()), (Some(expected), 1), "{text}");
        // A call that was waiting for the journal when it was aborted fails with the other error.
        assert!(text.contains("Read-only file system") || text.contains("Input/output error"), "{text}");
        text
    };
    one_line(&promised.stderr, promised.status.code(), 1);
    assert!(one_line(&performed.stdout, performed.status.code(), 1).starts_with("FAIL: I/O errors"));
    let refused = cell.program(&[&perform[..3], &["point/more"]].concat()).output().unwrap();
    assert!(
        one_line(&refused.stderr, refused.status.code(), 2)
            .ends_with("; make the volume writable, or use another volume\n")
    );
    drop(mounted);
    // The repair clears the recorded error of the file system. The page cache is empty now.
    let _ = run("e2fsck", &["-f", "-y", &device.0]);
    let _mounted = MountPoint::mount("ext4", &device, point, "errors=remount-ro");
    let verify = ["test", "durability", "point/promised", "--verify", "journal", "--same-boot", "--json"];
    let output = cell.program(&verify).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["findings"], Value::Array(Vec::new()), "{found}");
    assert!(found["last_acknowledged"].as_u64().unwrap() >= 299, "{found}");
    for (from, into) in [(&["point/promised/engine"][..], "one"), (&["point/run", "point/run/log001"], "two")]
    {
        let words = [&["recover"], from, &["--into", into]].concat();
        for words in [&words[..], &["check", "--structure", into]] {
            let output = cell.program(words).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{words:?}: {text}");
        }
    }
}

#[test]
fn devices_in_use_are_not_erased() {
    let cell = CellDirectory::new();
    let image: PathBuf = cell.path("image");
    let Some(device) = LoopDevice::attach(&image, 32 << 20) else { return };
    let device = device.0.as_str();
    let refused = |words: &[&str]| cell.program_refused(&[&["disk", "test"], words].concat());
    let erase =
        ["--erase", "--duration", "0.02", "--repeat", "1", "--steps", "random_write_4k,seek_curve", device];
    if run("mkfs.ext4", &["-q", device]) {
        assert!(refused(&erase).contains("contains ext4; add --force"), "{}", refused(&erase));
        let point = cell.make_dir("point");
        let point = point.to_str().unwrap();
        if run("mount", &["-t", "ext4", device, point]) {
            let said = refused(&[&erase[..], &["--force"]].concat());
            assert!(run("umount", &[point]));
            assert!(said.contains("is mounted on ") && said.ends_with("unmount it first"), "{said}");
        }
    }
    cell.write("file", vec![7; 17 << 20]);
    assert!(refused(&["--erase", "file"]).contains("--erase applies only to devices"));
    assert!(refused(&[device, "--force"]).contains("--erase"));
    assert!(refused(&[device, "--steps", "jump"]).contains("there is no step with this name"));
    let output =
        cell.program(&[&["disk", "test", "--json", "--force"], &erase[..]].concat()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        found["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["seek_curve", "random_write_4k"]);
    assert_eq!(
        (&found["targets"][0]["kind"], &found["targets"][0]["written"]),
        (&"erased_device".into(), &true.into())
    );
    // Without --erase, a device is only read.
    let before = fs::read(&image).unwrap();
    let output = cell.program(&["disk", "test", "--json", "--duration", "0.02", device]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(&image).unwrap() == before);
}

#[test]
fn an_ordinary_user_sees_which_operations_need_root() {
    let cell = CellDirectory::new();
    let Some(device) = LoopDevice::attach(&cell.path("image"), 32 << 20) else { return };
    let as_user = |words: &[&str]| {
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_jetcell")];
        Command::new("setpriv").args(user).args(words).current_dir("/").output()
    };
    match as_user(&["--version"]) {
        Ok(output) if output.status.success() => {}
        skipped => {
            return skip(TestRequirement::Root, format!("no other user can run the command: {skipped:?}"));
        }
    }
    let shown = device.0.as_str();
    let make = ["test", "filesystems", "--make", "ext4", "--images", "/tmp", "--output", "/none"];
    for (words, said) in [
        (&["disk", "test", shown][..], "reading a block device requires root"),
        (&["disk", "test", "--erase", shown], "erasing a device requires root"),
        (&make[..], "creating file systems requires root"),
    ] {
        let output = as_user(words).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{words:?}: {stderr}");
        assert!(output.stdout.is_empty() && stderr.contains(said), "{words:?}: {stderr}");
    }
    let image = fs::read(cell.path("image")).unwrap();
    assert!(image.iter().all(|byte| *byte == 0), "nothing was written");
}
