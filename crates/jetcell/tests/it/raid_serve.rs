//! Tests of `jetcell raid serve` with clients of other projects: libnbd, QEMU, fio, and a file system on the device.
//!
//! If the tools are not installed, the tests print a message and pass. With `JETCELL_REQUIRE_NBD=1` they fail
//! instead.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{TestRequirement, skip};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cell::CellDirectory;

const MEBIBYTE: usize = 1 << 20;

/// Returns true if the tools are installed.
pub fn has(tools: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |tool: &&str| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    let Some(missing) = tools.iter().find(|tool| !is_there(tool)) else { return true };
    skip(TestRequirement::Nbd, format!("{missing} is not installed (scripts/setup-nbd.sh)"));
    false
}

/// Returns bytes that are not compressible and differ from shifted copies of themselves.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|word| (word.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes()).collect()
}

/// A running server.
pub struct RaidServeProcess {
    child: Child,
    /// URI of the first device.
    pub uri: String,
}

impl RaidServeProcess {
    pub fn start(cell: &CellDirectory, words: &[&str]) -> RaidServeProcess {
        let words = [&["raid", "serve", "a", "--json"], words].concat();
        let mut child = cell.program(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let begun: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            panic!("{line:?}, {}", errors(&mut child));
        });
        RaidServeProcess { child, uri: begun["uri"].as_str().unwrap().into() }
    }

    /// Ends the server with a signal. Returns its output on stderr.
    pub fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        errors(&mut self.child)
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the URI of another device of the same server.
    pub fn uri_of(&self, name: &str) -> String {
        format!("{}/{name}", self.uri.rsplit_once('/').unwrap().0)
    }

    fn port(&self) -> u16 {
        self.uri.rsplit_once('/').unwrap().0.rsplit_once(':').unwrap().1.parse().unwrap()
    }
}

fn errors(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Creates an array of `members` files.
pub fn created(cell: &CellDirectory, level: &str, members: usize) {
    let names: Vec<String> = (0..members).map(|member| format!("m{member}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    ended(cell, &[&["create", "a", "--level", level, "--size", "24MiB", "--members"], &names[..]].concat());
}

#[track_caller]
pub fn ended(cell: &CellDirectory, words: &[&str]) -> String {
    let output = cell.program(&[&["raid"], words].concat()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a tool that must succeed. Returns its output.
#[track_caller]
pub fn tool(name: &str, words: &[impl AsRef<OsStr>]) -> String {
    // nbdsh runs the first Python in the PATH. The module is installed for the Python of the distribution.
    let mut path = OsString::from("/usr/bin:");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new(name).args(words).env("PATH", path).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {stdout}{stderr}");
    stdout.into_owned()
}

#[test]
fn libnbd_reads_and_maps_healthy_and_degraded_arrays() {
    if !has(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let cell = CellDirectory::new();
    created(&cell, "raid-dp", 6);
    let socket = cell.path("n.sock");
    let served = RaidServeProcess::start(&cell, &["--socket", socket.to_str().unwrap()]);
    let info: Value = serde_json::from_str(&tool("nbdinfo", &["--json", &served.uri])).unwrap();
    let export = &info["exports"][0];
    assert_eq!((&info["protocol"], &info["structured"]), (&"newstyle-fixed".into(), &true.into()));
    for can in ["can_df", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_zero"] {
        assert_eq!(export[can], true, "{can}");
    }
    assert_eq!((&export["is_read_only"], &export["can_trim"]), (&false.into(), &false.into()));
    let bytes = export["export-size"].as_u64().unwrap() as usize;
    assert_eq!(export["contexts"][0], "base:allocation");
    let list = tool("nbdinfo", &["--list", &served.uri]);
    assert!(list.contains("export=\"a\"") && list.contains("raid-dp array, 6 members"), "{list}");
    assert!(tool("nbdinfo", &["--map", "--totals", &served.uri]).contains("100.0%"));

    let image = content(bytes);
    cell.write("image", &image[..20 * MEBIBYTE]);
    tool("nbdcopy", &["--flush", "--connections=4", cell.path("image").to_str().unwrap(), &served.uri]);
    let map: Value = serde_json::from_str(&tool("nbdinfo", &["--map", "--json", &served.uri])).unwrap();
    let map = map.as_array().unwrap();
    assert_eq!((&map[0]["length"], &map[0]["type"]), (&(20 * MEBIBYTE).into(), &0.into()));
    assert_eq!((&map[1]["type"], map.len()), (&3.into(), 2));
    assert_eq!(served.stop(), "");
    assert!(!socket.exists());

    // The content survives the loss of two members, and a rebuild while a client is connected.
    ended(&cell, &["fail", "a", "m0"]);
    ended(&cell, &["fail", "a", "m3"]);
    ended(&cell, &["spare", "a", "m6", "--size", "24MiB"]);
    let served = RaidServeProcess::start(&cell, &["--socket", socket.to_str().unwrap()]);
    tool("nbdcopy", &[&served.uri, cell.path("copy").to_str().unwrap()]);
    let copy = std::fs::read(cell.path("copy")).unwrap();
    assert!(copy.len() == bytes && copy[..20 * MEBIBYTE] == image[..20 * MEBIBYTE]);
    assert!(copy[20 * MEBIBYTE..].iter().all(|byte| *byte == 0));
    let begun = Instant::now();
    let events = || String::from_utf8(cell.program(&["events", "a"]).output().unwrap().stdout).unwrap();
    while !events().contains("The rebuild is complete") {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", events());
        std::thread::sleep(Duration::from_millis(100));
    }
    served.stop();
    assert!(events().contains("The array is no longer served"));
    assert!(ended(&cell, &["scrub", "a"]).contains("rows verified"));
}

#[test]
fn qemu_writes_zeroes_discards_flushes_and_converts() {
    if !has(&["qemu-io", "qemu-img"]) {
        return;
    }
    let cell = CellDirectory::new();
    created(&cell, "raid6", 5);
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    let commands = [
        "write -P 7 1M 64k",
        "write -P 9 1000 3000",
        "read -P 7 1M 64k",
        "read -P 9 1000 3000",
        "write -z 1028k 10k",
        "read -P 0 1028k 10k",
        "read -P 7 1038k 26k",
        "discard 0 2M",
        "write -f -P 5 3M 4k",
        "flush",
        "aio_write -P 1 8M 64k",
        "aio_write -P 2 9M 64k",
        "aio_flush",
        "read -P 1 8M 64k",
        "read -P 5 3M 4k",
    ];
    let mut words = vec!["-f", "raw"];
    words.extend(commands.iter().flat_map(|command| ["-c", command]));
    words.push(&served.uri);
    let said = tool("qemu-io", &words);
    assert!(!said.contains("failed") && !said.contains("error"), "{said}");

    cell.write("image", content(12 * MEBIBYTE));
    let (image, disk) = (cell.path("image"), cell.path("disk.qcow2"));
    let (image, disk) = (image.to_str().unwrap(), disk.to_str().unwrap());
    tool("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", image, disk]);
    tool("qemu-img", &["convert", "-n", "-f", "qcow2", "-O", "raw", disk, &served.uri]);
    let compared = tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", image, &served.uri]);
    assert!(compared.contains("identical") || compared.contains("zero"), "{compared}");
    served.stop();
}

#[test]
fn fua_writes_survive_a_kill_and_bad_clients_are_harmless() {
    if !has(&["nbdsh"]) {
        return;
    }
    let cell = CellDirectory::new();
    created(&cell, "raid5", 4);
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    let script = "
h.pwrite(b'durable' * 1000, 5000, nbd.CMD_FLAG_FUA)
h.pwrite(b'flushed' * 1000, 50000)
h.flush()
assert h.pread(7, 5000) == b'durable'
h.set_strict_mode(0)
for call in (lambda: h.pread(10, h.get_size() - 5), lambda: h.pread(10, 1 << 62),
             lambda: h.pwrite(b'x' * 10, h.get_size() - 5), lambda: h.zero(10, h.get_size())):
    try:
        call()
        raise SystemExit('no error')
    except nbd.Error as error:
        assert error.errno in ('EINVAL', 'ENOSPC'), error
assert h.pread(7, 50000) == b'flushed'
";
    tool("nbdsh", &["-u", &served.uri, "-c", script]);
    // Send garbage, and disconnect in the middle of a write.
    let port = served.port();
    TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(&[0xA5; 5000]).unwrap();
    let mut half = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let write = b"\x25\x60\x95\x13\0\0\0\x01cookiesX\0\0\0\0\0\0\0\0\0\x01\0\0";
    half.write_all(&[&b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0"[..], write, &[0xEE; 4096]].concat()).unwrap();
    drop(half);
    tool("nbdsh", &["-u", &served.uri, "-c", "assert h.pread(4096, 0) == bytes(4096)"]);
    served.kill();

    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0", "--read-only"]);
    let script = "
assert h.is_read_only()
assert h.pread(7000, 5000) == b'durable' * 1000
assert h.pread(7000, 50000) == b'flushed' * 1000
h.set_strict_mode(0)
try:
    h.pwrite(b'x', 0)
    raise SystemExit('no error')
except nbd.Error as error:
    assert error.errno == 'EPERM', error
";
    tool("nbdsh", &["-u", &served.uri, "-c", script]);
    served.stop();
}

#[test]
fn fio_verifies_written_data() {
    if !has(&["fio"]) || !tool("fio", &["--enghelp"]).contains("nbd") {
        return;
    }
    let cell = CellDirectory::new();
    created(&cell, "raid6", 6);
    let socket = cell.path("n.sock");
    let served = RaidServeProcess::start(&cell, &["--socket", socket.to_str().unwrap()]);
    let uri = format!("--uri={}", served.uri);
    let words = [
        "--name=verified",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bssplit=512/20:4k/40:20k/40",
        "--size=16m",
        "--iodepth=16",
        "--fsync=64",
        "--verify=crc32c",
        "--verify_state_save=0",
        "--randseed=1",
        "--io_size=8m",
        "--blockalign=512",
    ];
    tool("fio", &words);
    served.stop();
}

/// Waits until a condition is true.
#[track_caller]
fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_file_system_on_a_served_array_passes_fsck() {
    if !has(&["nbdfuse", "mkfs.ext4", "e2fsck", "debugfs", "fusermount3"]) {
        return;
    }
    let cell = CellDirectory::new();
    created(&cell, "raid-dp", 5);
    let socket = cell.path("n.sock");
    let served = RaidServeProcess::start(&cell, &["--socket", socket.to_str().unwrap()]);
    let mount = cell.make_dir("mount");
    let mut fuse =
        Command::new("nbdfuse").arg(&mount).arg(&served.uri).stderr(Stdio::piped()).spawn().unwrap();
    let device = mount.join("nbd");
    let begun = Instant::now();
    while !device.exists() && fuse.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    if !device.exists() {
        let _ = fuse.kill();
        let _ = fuse.wait();
        skip(TestRequirement::Nbd, format!("nbdfuse cannot mount here: {}", errors(&mut fuse).trim()));
        served.stop();
        return;
    }
    let device = device.to_str().unwrap();
    tool("mkfs.ext4", &["-q", "-F", "-b", "1024", device]);
    let file = cell.write("file", content(3 * MEBIBYTE));
    let write = format!("write {} file", file.display());
    tool("debugfs", &["-w", "-R", &write, device]);
    tool("e2fsck", &["-f", "-n", device]);
    tool("fusermount3", &["-u", mount.to_str().unwrap()]);
    fuse.wait().unwrap();
    served.stop();

    // Repeat the test with two members missing.
    ended(&cell, &["fail", "a", "m1"]);
    ended(&cell, &["fail", "a", "m4"]);
    let served = RaidServeProcess::start(&cell, &["--socket", socket.to_str().unwrap(), "--read-only"]);
    let mut fuse = Command::new("nbdfuse").arg("-r").arg(&mount).arg(&served.uri).spawn().unwrap();
    wait_for("the mount", || std::path::Path::new(device).exists());
    tool("e2fsck", &["-f", "-n", device]);
    let dump = format!("dump file {}", cell.path("read").display());
    tool("debugfs", &["-R", &dump, device]);
    assert!(std::fs::read(cell.path("read")).unwrap() == content(3 * MEBIBYTE));
    tool("fusermount3", &["-u", mount.to_str().unwrap()]);
    fuse.wait().unwrap();
    served.stop();
}

#[test]
fn an_array_is_served_on_a_private_socket_by_default() {
    let cell = CellDirectory::new();
    created(&cell, "raid5", 3);
    let served = RaidServeProcess::start(&cell, &[]);
    let socket = cell.path("a/nbd.sock");
    assert_eq!(served.uri, format!("nbd+unix:///a?socket={}", socket.display()));
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut hello = [0; 8];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"NBDMAGIC");
    served.kill();
    // The socket of a killed server is replaced.
    let again = RaidServeProcess::start(&cell, &[]);
    UnixStream::connect(&socket).unwrap();
    again.stop();
    assert!(!socket.exists());
}

#[test]
fn an_unservable_array_is_refused_in_one_line() {
    let cell = CellDirectory::new();
    assert!(
        cell.program_refused(&["raid", "serve", "a"]).contains("create an array with jetcell raid create")
    );
    created(&cell, "raid5", 3);
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    let port = format!("127.0.0.1:{}", served.port());
    let in_use = cell.program(&["raid", "serve", "a", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(in_use.status.code(), Some(2));
    assert!(String::from_utf8(in_use.stderr).unwrap().contains("another process is using the array"));
    assert!(ended(&cell, &["status", "a", "--json"]).contains("\"in_use\":true"));

    ended(&cell, &["create", "b", "--level", "mirror", "--size", "16MiB", "--members", "m7", "m8"]);
    let taken = cell.program(&["raid", "serve", "b", "--listen", &port]).output().unwrap();
    let stderr = String::from_utf8(taken.stderr).unwrap();
    assert_eq!(taken.status.code(), Some(2));
    assert!(stderr.lines().count() == 1 && stderr.contains("cannot listen"), "{stderr}");
    // The array was shut down, so it can be used immediately.
    assert!(ended(&cell, &["scrub", "b"]).contains("0 rows verified"));
    served.stop();
}
