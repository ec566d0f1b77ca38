//! Tests of behaviour that users and scripts expect of any command: closed pipes, full devices, special files,
//! signals, and a uniform format of errors.

use std::fs::File;
use std::io::Read;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use testkit::{TestRequirement, skip};

use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use rustix::process::{Pid, Signal, kill_process};
use testkit::certificates::make_authority;
use testkit::corpus::Corpus;

use crate::cell::CellDirectory;

/// Commands that print output without reading any file.
const PRINTERS: [&[&str]; 6] = [
    &["completions", "bash"],
    &["man"],
    &["test", "performance", "--example-config"],
    &["size", "--example"],
    &["raid", "reliability"],
    &["--help"],
];

/// Returns the output of a command, which must finish within a time that a user would wait.
pub fn finished(mut command: std::process::Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{command:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn basic(cell: &CellDirectory, name: &str) -> Option<std::path::PathBuf> {
    Some(cell.write(name, Corpus::locate()?.read("db/4k/basic.edb")))
}

#[test]
fn a_closed_pipe_ends_a_command_silently() {
    let cell = CellDirectory::new();
    let mut commands: Vec<Vec<&str>> = PRINTERS.iter().map(|words| words.to_vec()).collect();
    if basic(&cell, "a.edb").is_some() {
        commands.push(vec!["dump", "pages", "a.edb"]);
        commands.push(vec!["check", "a.edb"]);
        commands.push(vec![
            "export",
            "a.edb",
            "--format",
            "jsonl",
            "--table",
            "MSysObjects",
            "--output",
            "-",
        ]);
    }
    for words in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = cell.program(&words).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(141), ""), "{words:?}");
    }
}

#[test]
fn a_full_output_device_gives_a_one_line_error() {
    let cell = CellDirectory::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for words in PRINTERS {
        let child = cell.program(words).stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{words:?} {stderr}");
        assert!(stderr.starts_with("jetcell: could not write to standard output: No space left"), "{stderr}");
    }
    // Both outputs are full, so the error cannot be reported.
    let output = cell.program(&["check", "none"]).stderr(full()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}

const REPLICATE: [&str; 5] = ["replicate", "--from", "tls://localhost:1/a", "--to", "c"];
const SERVE: [&str; 6] = ["serve", "run", "--listen", "127.0.0.1:0", "--token-file", "token"];
const JOIN: [&str; 10] =
    ["fleet", "join", "--fleet", "f", "--rank", "0", "--size", "2", "--allow-dir", "run"];

#[test]
fn special_files_are_refused_without_waiting() {
    let cell = CellDirectory::new();
    cell.secret("token", "a token that is long enough for any server");
    cell.write("fleet.toml", "name = 'f'\nhosts = 2\noutput = 'fleet'\n[options]\ndirs = ['d']\n");
    make_authority(&cell.path(""), "ca");
    let pipe = cell.path("pipe");
    let (kind, rights) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, rights, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(cell.path("socket")).unwrap();
    cell.make_dir("run");
    rustix::fs::mknodat(rustix::fs::CWD, cell.path("run/result.json"), kind, rights, 0).unwrap();
    for words in [
        &["check", "pipe"][..],
        &["check", "socket"],
        &["check", "/dev/zero"],
        &["dump", "header", "pipe"],
        &["dump", "pages", "/dev/zero"],
        &["compare-files", "pipe", "socket"],
        &["export", "pipe", "--format", "csv", "--output", "out"],
        &["report", "run"],
        &["report", "--esrp", "pipe", "run"],
        &["events", "pipe"],
        &["size", "--config", "pipe"],
        &["size", "--config", "socket"],
        &["compare", "--drives", "pipe"],
        &["raid", "simulate", "--config", "pipe"],
        &["raid", "reliability", "--config", "pipe"],
        &["power", "energy", "pipe"],
        &["test", "performance", "--dir", "d", "--config", "pipe"],
        &["test", "durability", "d", "--verify", "pipe"],
        &["test", "filesystems", "--make-list", "/dev/zero", "--images", ".", "--output", "o"],
        &[&REPLICATE[..], &["--tls-ca", "ca", "--token-file", "pipe"]].concat(),
        &[&REPLICATE[..], &["--tls-ca", "pipe", "--token-file", "token"]].concat(),
        &[&SERVE[..], &["--tls-cert", "pipe", "--tls-key", "token"]].concat(),
        &[&SERVE[..], &["--tls-cert", "ca.pem", "--tls-key", "/dev/zero"]].concat(),
        &[&SERVE[..], &["--tls-cert", "ca.pem", "--tls-key", "ca.key", "--tls-client-ca", "socket"]].concat(),
        &[&JOIN[..], &["--token-file", "pipe"]].concat(),
        &[&JOIN[..], &["--nkey-file", "/dev/zero"]].concat(),
        &[&JOIN[..], &["--credentials", "pipe"]].concat(),
        &[&JOIN[..], &["--tls-ca", "pipe"]].concat(),
        &[&JOIN[..], &["--tls-client-cert", "ca.pem", "--tls-client-key", "pipe"]].concat(),
        &["fleet", "run", "--config", "fleet.toml", "--new", "--token-file", "pipe"],
        &["fleet", "run", "--config", "fleet.toml", "--new", "--tls-cert", "pipe", "--tls-key", "token"],
    ] {
        let output = finished(cell.program(words));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?} {stderr}");
        assert!(stderr.contains("not a file"), "{words:?} {stderr}");
        assert!(stderr.contains("; specify "), "{words:?} {stderr}");
    }
}

#[test]
fn command_line_errors_have_the_common_error_format() {
    let cell = CellDirectory::new();
    for (words, what) in [
        (&["check", "--nope", "x"][..], "unexpected argument '--nope' found"),
        (&["chek"], "unrecognized subcommand 'chek'"),
        (&["check"], "the following required arguments were not provided"),
        (&["export", "x", "--format", "xml", "--output", "-"], "unknown format xml"),
        (&["test", "performance", "--threads"], "a value is required for '--threads <N>'"),
        (&["test", "performance", "--size", "-5GiB"], "'-5GiB' is negative"),
        (&["completions", "cmd"], "invalid value 'cmd'"),
    ] {
        let text = cell.program_refused(words);
        assert!(text.contains(what), "{words:?}: {text}");
        assert!(
            text.contains("; see --help") || text.contains("try a value such as") || text.contains("one of"),
            "{text}"
        );
    }
    assert!(cell.program_refused(&["chek"]).contains("'check'"), "the nearest name is said");
}

#[test]
fn mistakes_in_values_and_names_are_explained() {
    let cell = CellDirectory::new();
    let text = cell.program_refused(&["check", "--rate", "", "x"]);
    assert!(text.contains("could not parse ''; try a value such as "), "{text}");
    let text = cell.program_refused(&["re"]);
    assert!(text.contains("similar subcommands exist: '") && text.contains("', '"), "{text}");
}

#[test]
fn a_file_that_cannot_be_read_has_the_advice_of_the_system() {
    let cell = CellDirectory::new();
    // Nobody may read this file, not even root.
    let mut buses = std::fs::read_dir("/sys/bus").into_iter().flatten().flatten();
    let Some(bus) = buses.find(|bus| bus.path().join("drivers_probe").exists()) else { return };
    let path = bus.path().join("drivers_probe").display().to_string();
    let output = cell.program(&["check", &path]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let advice = "; use a path that this user can access, or change its permissions\n";
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with(&format!("jetcell: {path}: ")) && text.ends_with(advice), "{text}");
}

#[test]
fn old_option_names_still_work() {
    let cell = CellDirectory::new();
    cell.write("text", "text");
    let filesystems = "test filesystems text x --output o";
    for (command, old, new) in [
        ("disk test none", "--seconds 0", "--duration 0"),
        ("disk test none", "--longest 0", "--time-limit 0"),
        ("disk test none", "--repetitions 0", "--repeat 0"),
        ("raid bench none", "--seconds 0", "--duration 0"),
        ("raid bench none", "--longest 0", "--time-limit 0"),
        ("raid bench none", "--repetitions 0", "--repeat 0"),
        ("disk experiment text --output o", "--turns 0", "--repeat 0"),
        (filesystems, "--turns 0", "--repeat 0"),
        (filesystems, "--fewest-turns 0", "--min-repeat 0"),
        (filesystems, "--longest x", "--time-limit x"),
        ("check none", "--throttle 5ms", "--pause 5ms"),
        ("check none", "--throttle 20MB/s", "--rate 20MB/s"),
        ("check none", "--from 0", "--start-page 0"),
        ("check none", "--new", "--unverified"),
        ("report text", "--out x", "--output x"),
        ("raid serve none", "--connections 0", "--max-connections 0"),
        ("raid serve none", "--max-clients 0", "--max-connections 0"),
        ("export none --format csv --output o", "--currency x", "--currency-format x"),
    ] {
        let refused = |option: &str| {
            let words = command.split(' ').chain(option.split(' ')).collect::<Vec<_>>();
            cell.program_refused(&words)
        };
        assert_eq!(refused(old), refused(new), "{command} {old}");
        assert!(!refused(old).contains("unexpected argument"), "{command} {old}");
        let help: Vec<&str> =
            command.split(' ').take_while(|word| !["none", "text"].contains(word)).collect();
        let help = cell.program(&[&help[..], &["--help"]].concat()).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let is_documented = |option: &str| {
            let name = option.split(' ').next();
            help.lines().any(|line| line.split([' ', ',']).any(|word| Some(word) == name))
        };
        assert!(!is_documented(old) && is_documented(new), "{command}: only the current name is documented");
    }
}

#[test]
fn every_error_states_the_problem_and_remedy() {
    let cell = CellDirectory::new();
    cell.write("text", "text");
    cell.write("bad.toml", "x =");
    cell.make_dir("empty");
    cell.make_dir("damaged");
    cell.write("damaged/result.json", "{}");
    cell.write("twice.toml", "[[filesystem]]\nkind = \"ext4\"\n".repeat(2));
    for words in [
        "check none",
        "check empty",
        "check --throttle x text",
        "check --rate x text",
        "check --pause x text",
        "check --start-page 0 text",
        "check --subset 9/2 text",
        "check --unverified text",
        "check --structure --start-page 3 text",
        "dump header none",
        "dump header text",
        "dump header empty",
        "dump checkpoint text",
        "compare-files none none",
        "compare-files text text",
        "export none --format csv --output out",
        "export none none --format csv --output out",
        "export text --timeline --format csv --output out",
        "export text --format csv --output out",
        "export empty --format csv --output out",
        "export text --format csv --output out --since soon",
        "size --config none",
        "size --config bad.toml",
        "size --config empty",
        "recover none",
        "recover empty",
        "recover text --until zz",
        "recover text --map x",
        "backup --from none --to b",
        "backup --from empty --to b",
        "backup --age none",
        "backup --from empty --to b --snapshot command",
        "restore none --to r",
        "restore empty --to r",
        "restore text --to r",
        "replicate --from none --to c",
        "replicate --from empty --to c",
        "replicate --from empty --to text",
        "copies none",
        "copies empty",
        "copies text",
        "activate empty",
        "reseed --from none --to c",
        "maintain none",
        "maintain empty",
        "maintain empty --batch 1",
        "maintain empty --pause 2h",
        "report none",
        "report damaged",
        "report --esrp none damaged",
        "report --esrp bad.toml damaged",
        "events none",
        "compare damaged damaged",
        "compare --drives none",
        "compare --drives bad.toml",
        "raid status none",
        "raid reliability --config none",
        "raid reliability --config bad.toml",
        "raid reliability --drives 1",
        "raid simulate --config none",
        "raid simulate --config bad.toml",
        "disk test none",
        "disk test /dev/zero",
        "disk test text",
        "disk fragmentation none",
        "disk fragmentation empty",
        "power energy none",
        "power energy text",
        "power record --meter foo --output p -- true",
        "power record --meter hwmon=none --output p -- true",
        "doctor none",
        "doctor text",
        "completions cmd",
        "man /proc/none",
        "test performance --dir none/deep",
        "test performance --dir text",
        "test performance --dir empty --config bad.toml",
        "test performance --dir empty --open",
        "test performance --dir empty --resume",
        "test performance --dir empty --mix 1/2",
        "test performance --dir empty --maintenance foo",
        "test performance --dir empty --output text",
        "test performance --dir empty --page-size 5KiB",
        "test performance --dir empty --databases 1000",
        "test performance --dir empty --size 1MiB",
        "test performance --dir empty --growth-percent 1001",
        "test performance --dir empty --waypoint-latency 99",
        "test performance --dir empty --threads 0",
        "test performance --dir empty --cache 1MiB",
        "test performance --dir empty --mix 80/20/5/35",
        "test performance --dir empty --mix 20/30/15/35",
        "test performance --dir empty --lazy-percent 101",
        "test performance --dir empty --batch-updates 0",
        "test performance --dir empty --short-bytes 1",
        "test performance --dir empty --long-bytes 1",
        "test performance --dir empty --long-percent 101",
        "test performance --dir empty --tables 65",
        "test performance --dir empty --average-database-read-ms 0",
        "test performance --dir empty --p99-log-write-ms 0",
        "test performance --dir empty --target-iops 0",
        "test performance --dir empty --repeat 0",
        "test performance --dir empty --rate 0",
        "test performance --dir empty --margin 1",
        "test performance --dir empty --skew zipf:11",
        "test performance --dir empty --skew 0/50",
        "test performance --dir empty --size 99999999999GiB",
        "test performance --dir empty --copies 17",
        "test performance --dir empty --duration 0s",
        "test performance --dir empty --scan-pause 61s",
        "test performance --dir empty --sample-interval 2h",
        "test performance --dir empty --seed 18446744073709551615",
        "test performance --dir empty --mailboxes 0 --iops-per-mailbox 0.1 --quota 1GiB",
        "test performance --dir empty --mailboxes 9 --iops-per-mailbox 0 --quota 1GiB",
        "test performance --dir empty --threads x",
        "test performance --dir empty --rate x",
        "test stress --dir empty --maintenance-impact",
        "test recovery --dir empty --logs 0",
        "test durability empty --verify none",
        "test durability --listen 127.0.0.1:99999 --journal j",
        "test filesystems empty empty --output o",
        "test filesystems --make-list twice.toml --images . --output o",
        "replicate --from tls://localhost:1/app --to c --token-file text",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let text = cell.program_refused(&words);
        let (what, remedy) = text.split_once("; ").unwrap_or_else(|| panic!("{words:?}: {text}"));
        assert!(!what.is_empty() && remedy.len() > 5, "{words:?}: {text}");
    }
}

#[test]
fn an_unwritable_output_is_named() {
    let cell = CellDirectory::new();
    let Some(database) = basic(&cell, "basic.edb") else { return };
    for format in ["csv", "jsonl", "parquet", "sqlite"] {
        let script = format!("ulimit -f 1; exec \"$0\" export \"$1\" --format {format} --output out");
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", &script, env!("CARGO_BIN_EXE_jetcell")])
            .arg(&database)
            .current_dir(cell.path("."));
        let output = finished(command);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{format}: {stderr}");
        let last = stderr.lines().last().unwrap();
        assert!(last.starts_with("jetcell: out/") && last.contains(".partial: "), "{format}: {last}");
        let advice = "raise the limit on the file size (ulimit -f), or use another file system";
        assert!(format == "sqlite" || last.ends_with(advice), "{format}: {last}");
    }
}

#[test]
fn colour_is_limited_to_terminals_unless_requested() {
    let cell = CellDirectory::with_limits();
    let run = |arguments: &[&str]| {
        let common = ["--config", "wide.toml", "--dir", "d", "--force", "--duration", "1s", "--quiet"];
        let output = cell.command(&[&common[..], arguments].concat()).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = run(&["--output", "runs/a"]);
    assert!(plain.starts_with("PASS: ") && plain.lines().count() == 1, "{plain}");
    assert!(run(&["--output", "runs/b", "--color", "always"]).starts_with("\u{1b}[32mPASS\u{1b}[0m: "));
    // These commands show stored runs.
    for (words, coloured) in [
        (&["report", "runs"][..], "  \u{1b}[32mPASS\u{1b}[0m"),
        (&["report", "runs/a"], "\u{1b}[32mPASS\u{1b}[0m: "),
        (&["compare", "runs/a", "runs/b"], "\u{1b}[32mPASS\u{1b}[0m"),
    ] {
        let shown = |more: &[&str]| {
            let output = cell.program(&[words, more].concat()).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(shown(&["--color", "always"]).contains(coloured), "{}", shown(&["--color", "always"]));
        assert!(!shown(&[]).contains('\u{1b}') && !shown(&["--color", "never"]).contains('\u{1b}'));
    }
    let markdown = ["compare", "runs/a", "runs/b", "--format", "markdown", "--color", "always"];
    let output = cell.program(&markdown).output().unwrap();
    assert!(!output.stdout.contains(&0x1b), "only text has colours");
    for words in [["--color", "always", "help", "check"], ["check", "--help", "--color", "always"]] {
        let output = cell.program(&words).output().unwrap();
        assert!(output.status.success() && output.stdout.contains(&0x1b), "{words:?}");
    }
}

#[test]
fn progress_without_a_terminal_prints_one_line_per_phase() {
    let cell = CellDirectory::with_limits();
    let output =
        cell.jetcell(&["--config", "wide.toml", "--dir", "d", "--output", "out", "--duration", "1s"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert!((5..9).contains(&lines.len()) && !stderr.contains(['\r', '\u{1b}']), "{stderr}");
}

#[test]
fn sigterm_ends_a_run_with_a_result() {
    let cell = CellDirectory::with_limits();
    let arguments = ["--config", "wide.toml", "--dir", "d", "--output", "out", "--duration", "1h"];
    let mut child = cell.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !std::fs::read_to_string(cell.path("out/samples.csv")).is_ok_and(|text| text.lines().count() > 1) {
        assert!(began.elapsed() < Duration::from_secs(120) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(50));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(stdout.starts_with("INCOMPLETE: stopped on request"), "{stdout}");
}

#[test]
fn a_database_in_use_is_checked_only_on_request() {
    let cell = CellDirectory::new();
    let Some(path) = basic(&cell, "used.edb") else { return };
    let lock = RealVfs::new(RealOptions::default()).unwrap().lock(&path).unwrap();
    for words in [&["check", "used.edb"][..], &["export", "used.edb", "--format", "csv", "--output", "out"]] {
        let text = cell.program_refused(words);
        assert!(
            text.starts_with("used.edb is in use by another process") && text.ends_with("--anyway"),
            "{text}"
        );
        let output = cell.program(&[words, &["--anyway"]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    drop(lock);
    assert_eq!(cell.program(&["check", "used.edb"]).status().unwrap().code(), Some(0));
}

#[test]
fn an_empty_check_is_an_error_and_coverage_is_reported() {
    let cell = CellDirectory::new();
    if basic(&cell, "a.edb").is_none() {
        return;
    }
    let output = cell.program(&["check", "--start-page", "99999999", "a.edb"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("page 99999999 is past the last page") && !text.contains("sound"), "{text}");
    let output = cell.program(&["check", "--start-page", "11", "a.edb"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" pages were checked, from page 11; pages 1 to 10 were not"), "{text}");
    let output = cell.program(&["check", "--json", "a.edb"]).output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&summary["pages"]["first"], summary["pages"]["examined"].as_u64() > Some(10)),
        (&1.into(), true)
    );
}

#[test]
fn compressed_files_are_read_directly() {
    let cell = CellDirectory::new();
    let Some(corpus) = Corpus::locate() else { return };
    let packed = std::fs::read(corpus.root().join("db/4k/basic.edb.zst")).unwrap();
    cell.write("basic.edb.zst", packed);
    for words in [
        &["check", "--structure", "basic.edb.zst"][..],
        &["dump", "schema", "basic.edb.zst"],
        &["export", "basic.edb.zst", "--format", "jsonl", "--table", "MSysObjects", "--output", "-"],
    ] {
        let output = cell.program(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?} {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty());
    }
    cell.write("dirty.zst", std::fs::read(corpus.root().join("db/4k/ual-hyperv-Current.mdb.zst")).unwrap());
    let output = cell.program(&["check", "dirty.zst"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("then: decompress the files with zstd -d, then run jetcell recover"), "{text}");
}

#[test]
fn a_file_size_limit_is_an_error_not_a_kill() {
    let cell = CellDirectory::with_limits();
    let mut shell = std::process::Command::new("sh");
    shell.arg("-c").arg("ulimit -f 20000 && exec \"$0\" \"$@\"").arg(env!("CARGO_BIN_EXE_jetcell"));
    shell.args(["test", "performance", "--config", "wide.toml", "--dir", "d", "--output", "out", "--quiet"]);
    shell.current_dir(cell.path(""));
    let output = finished(shell);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.lines().count() == 1 && stderr.contains("File too large"), "{stderr}");
}

/// The limit does not apply to the superuser, so the program runs as another user in that case.
#[test]
fn a_thread_limit_is_an_error_not_a_panic() {
    let cell = CellDirectory::new();
    cell.write("x.edb", [0; 8192]);
    let program = env!("CARGO_BIN_EXE_jetcell");
    let limited = |processes: u32, words: &[&str]| {
        let limit = format!("--nproc={processes}");
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = std::process::Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "prlimit"]);
            command
        } else {
            std::process::Command::new("prlimit")
        };
        command.arg(limit).arg(program).args(words).current_dir(cell.path(""));
        finished(command)
    };
    if !limited(1000, &["--version"]).status.success() {
        skip(
            TestRequirement::Root,
            format!("another user cannot run {program}, or setpriv and prlimit are missing"),
        );
        return;
    }
    for words in [
        &["check", "x.edb"][..],
        &["dump", "header", "x.edb"],
        &["export", "x.edb", "--format", "csv", "--output", "out"],
        &["raid", "reliability", "--monte-carlo"],
        &["test", "performance", "--dir", "d", "--size", "64MiB", "--duration", "1s"],
    ] {
        let output = limited(1, words);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(
            stderr.lines().count() == 1 && stderr.contains("raise the limit (ulimit -u"),
            "{words:?}: {stderr}"
        );
    }
    // Commands that only print text start no threads.
    assert_eq!(limited(1, &["size", "--example"]).status.code(), Some(0));
}

#[test]
fn every_level_of_help_has_examples() {
    let cell = CellDirectory::new();
    let mut left: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(command) = left.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let output = cell.program(&words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.code() == Some(0) && text.contains("Examples:\n  jetcell "),
            "{words:?} {text}"
        );
        seen += 1;
        let below = text.split("\nCommands:\n").nth(1).unwrap_or_default();
        for line in below.lines().take_while(|line| line.starts_with("  ")) {
            let name = line.split_whitespace().next().unwrap().to_string();
            // The text of the help command comes from clap.
            if name != "help" {
                left.push([&command[..], &[name]].concat());
            }
        }
    }
    assert!(seen > 40, "{seen}");
}
