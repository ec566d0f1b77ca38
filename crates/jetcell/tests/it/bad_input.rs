//! Tests of bad input: one clear line with the problem and the remedy, exit code 2, and no change on disk.

use std::os::unix::fs::PermissionsExt;
use testkit::{TestRequirement, skip};

use crate::cell::CellDirectory;

#[test]
fn a_directory_without_its_parent_is_not_created() {
    let cell = CellDirectory::new();
    let text = cell.refused(&["--dir", "nowhere/deep"]);
    assert_eq!(
        text,
        "nowhere/deep does not exist; create it (mkdir -p nowhere/deep) or use a different directory"
    );
    let text = cell.refused(&["--log-dir", "nowhere/deep"]);
    assert!(text.starts_with("nowhere/deep does not exist"), "{text}");
}

#[test]
fn a_file_is_not_a_directory() {
    let cell = CellDirectory::new();
    cell.write("file", "x");
    assert_eq!(
        cell.refused(&["--dir", "file"]),
        "file is not a directory; specify a directory for the files"
    );
}

#[test]
fn a_directory_without_write_permission_is_refused() {
    let cell = CellDirectory::new();
    let dir = cell.make_dir("closed");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::File::create(dir.join("probe")).is_ok() {
        std::fs::remove_file(dir.join("probe")).unwrap();
        skip(TestRequirement::User, "root may write everywhere");
        return;
    }
    let text = cell.refused(&["--dir", "closed"]);
    assert!(text.starts_with("closed is not writable"), "{text}");
}

#[test]
fn a_directory_in_memory_is_refused() {
    let shm = std::path::Path::new("/dev/shm");
    if !shm.is_dir() {
        skip(TestRequirement::Kernel, "no /dev/shm");
        return;
    }
    let text = CellDirectory::new().refused(&["--dir", "/dev/shm"]);
    assert!(text.starts_with("/dev/shm is on tmpfs, which is memory, not storage"), "{text}");
}

#[test]
fn too_little_space_names_the_numbers() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    let text = cell.refused(&["--dir", "d", "--size", "60TiB", "--databases", "4"]);
    assert!(
        text.contains("the run needs 300.00 TiB but only ") && text.contains("choose a smaller --size"),
        "{text}"
    );
}

#[test]
fn impossible_figures_are_explained() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    let refused = |arguments: &[&str]| cell.refused(&[&["--dir", "d"], arguments].concat());
    assert_eq!(refused(&["--size", "0"]), "--size 0 is too small; a database needs at least 32MiB");
    for (option, value) in [("--size", "-5GiB"), ("--cache", "-1"), ("--duration", "-60s")] {
        let text = refused(&[option, value]);
        assert!(text.contains(&format!("'{value}' is negative; try a value such as")), "{text}");
    }
    assert_eq!(refused(&["--threads", "0"]), "--threads 0 is out of range; use a value from 1 to 4096");
    assert_eq!(
        refused(&["--page-size", "5KiB"]),
        "--page-size 5KiB is not supported; use 4KiB, 8KiB, 16KiB or 32KiB"
    );
    assert_eq!(
        refused(&["--target-iops", "-1"]),
        "--target-iops -1 is out of range; use a value greater than 0"
    );
    assert_eq!(refused(&["--duration", "0s"]), "--duration is zero; try a value such as 60s or 2h");
    assert_eq!(
        refused(&["--open", "--force"]),
        "--open uses existing databases, --resume continues their creation, and --force replaces them; specify only one of these options"
    );
}

#[test]
fn a_configuration_error_names_the_location() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    cell.write("mix.toml", "dirs = ['d']\nmix = { insert = 80, delete = 20, replace = 5, read = 35 }\n");
    assert_eq!(
        cell.refused(&["--config", "mix.toml"]),
        "mix: insert 80 + delete 20 + replace 5 + read 35 is 140 percent; change the shares to a sum of 100"
    );
    cell.write("typo.toml", "dirs = ['d']\n\nthraeds = 4\n");
    let text = cell.refused(&["--config", "typo.toml"]);
    assert_eq!(text, "--config typo.toml, line 3: unknown key 'thraeds'; the nearest known key is 'threads'");
    assert!(cell.refused(&["--config", "absent.toml"]).starts_with("--config absent.toml: cannot be read"));
}

/// A message quotes keys and values of a file that another user may have made. They may be as long as the file.
#[test]
fn a_long_key_or_value_does_not_make_a_long_line() {
    let cell = CellDirectory::new();
    let long = "k".repeat(500_000);
    let commands: [&[&str]; 5] = [
        &["test", "performance", "--config"],
        &["size", "--config"],
        &["fleet", "run", "--config"],
        &["compare", "--drives"],
        &["raid", "reliability", "--config"],
    ];
    for text in [format!("{long} = 1\n"), format!("\"{long}\" = \"{long}\"\n"), format!("dirs = {long}\n")] {
        cell.write("long.toml", &text);
        for words in commands {
            let output = cell.program(&[words, &["long.toml"]].concat()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{words:?}");
            assert!(said.len() < 2000, "{words:?}: {} bytes: {}", said.len(), &said[..200]);
        }
    }
    cell.write("manifest.json", format!("{{\"{long}\": 1}}"));
    cell.write("copy.json", format!("{{\"{long}\": 1}}"));
    cell.write("result.json", format!("{{\"schema_version\": \"{long}\"}}"));
    for words in [&["check", "."][..], &["restore", ".", "--to", "new"], &["copies", "."], &["report", "."]] {
        let output = cell.program(words).output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        assert!(said.len() < 2000, "{words:?}: {} bytes", said.len());
    }
}

#[test]
fn contradictions_are_explained() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    let refused = |arguments: &[&str]| cell.refused(&[&["--dir", "d"], arguments].concat());
    assert_eq!(
        refused(&["--mix", "20/30/15/35"]),
        "mix: delete 30 is more than insert 20, so the databases would become empty; lower delete or raise insert"
    );
    assert!(refused(&["--maximum-log-write-ms", "5"]).contains("average_log_write_ms 10 is above"));
    assert!(refused(&["--size", "1%", "--databases", "999"]).contains("of the volume of d/Jetstress"));
    assert!(refused(&["--size", "100%"]).contains("the run needs "));
    assert!(refused(&["--sample-interval", "2h"]).contains("; use a value from 1ms to the duration"));
    assert!(refused(&["--margin", "1.5"]).starts_with("margin 1.5 is out of range; use"));
    assert!(
        refused(&["--seed", "18446744073709551615"])
            .starts_with("--seed 18446744073709551615 is too large; use")
    );
}

#[test]
fn unknown_options_and_units_exit_with_2() {
    let cell = CellDirectory::new();
    for arguments in [["--sise", "1GiB"], ["--size", "1XB"], ["--duration", "soon"]] {
        let output = cell.jetcell(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    assert_eq!(cell.listing().len(), 1);
}

#[test]
fn existing_files_are_never_overwritten() {
    let cell = CellDirectory::new();
    cell.make_dir("d/log001");
    cell.write("d/Jetstress001001.edb", "precious");
    let text = cell.refused(&["--dir", "d"]);
    assert_eq!(
        text,
        "d/Jetstress001001.edb exists; add --open to use the databases, or --force to replace them"
    );
    std::fs::remove_file(cell.path("d/Jetstress001001.edb")).unwrap();
    cell.write("d/log001/E00.log", "precious");
    assert!(cell.refused(&["--dir", "d"]).starts_with("d/log001/E00.log exists"));
}

#[test]
fn existing_results_are_never_overwritten() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    cell.make_dir("out");
    cell.write("out/result.json", "{}");
    let text = cell.refused(&["--dir", "d", "--output", "out"]);
    assert_eq!(text, "out/result.json exists; specify a different --output, or use --force to replace it");
}

#[test]
fn open_refuses_files_that_are_not_databases() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    let text = cell.refused(&["--dir", "d", "--open"]);
    assert_eq!(text, "d/Jetstress001001.edb does not exist; to create databases, omit --open");
    cell.write("d/Jetstress001001.edb", vec![7; 100_000]);
    let text = cell.refused(&["--dir", "d", "--open"]);
    assert!(text.starts_with("d/Jetstress001001.edb is not an ESE database"), "{text}");
    cell.write("d/Jetstress001001.edb", "");
    let text = cell.refused(&["--dir", "d", "--open"]);
    assert!(text.starts_with("d/Jetstress001001.edb is not an ESE database"), "{text}");
}

#[test]
fn help_has_examples() {
    let output = CellDirectory::new().jetcell(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["--target-iops", "Examples:", "--size 1GiB --duration 60s", "Exit code: 0 pass"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_configuration_of_jetstress_is_checked_like_any_other() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../jetcell-workload/testdata/JetstressConfig.xml");
    let Ok(fixture) = std::fs::read_to_string(path) else {
        skip(TestRequirement::Repository, "the configuration is in the repository, not in the package");
        return;
    };
    cell.write("JetstressConfig.xml", fixture);
    let text = cell.refused(&["--config", "JetstressConfig.xml"]);
    assert!(
        text.starts_with("--config JetstressConfig.xml, line 67: C:\\DB\\DB1 is a Windows path"),
        "{text}"
    );
    cell.write(
        "bomb.xml",
        "<!DOCTYPE c [<!ENTITY a \"xxxx\"><!ENTITY b \"&a;&a;&a;\">]><configuration>&b;</configuration>",
    );
    let text = cell.refused(&["--config", "bomb.xml", "--dir", "d"]);
    assert!(text.starts_with("--config bomb.xml, line 1: the file is not a JetstressConfig.xml"), "{text}");
}

#[test]
fn the_example_configuration_is_valid() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    let output = cell.jetcell(&["--example-config"]);
    assert_eq!(output.status.code(), Some(0));
    cell.write("example.toml", output.stdout);
    // Only the space is refused. It is checked after the file, so the file is valid.
    let text = cell.refused(&["--config", "example.toml", "--dir", "d", "--size", "60TiB"]);
    assert!(text.contains("the run needs 75.00 TiB"), "{text}");
}

#[test]
fn invalid_options_for_views_are_refused_before_the_run() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let text = cell.refused(&["--dir", "d", "--metrics", &port]);
    assert!(text.starts_with(&format!("--metrics: cannot listen at 127.0.0.1:{port}: ")), "{text}");
    let text = cell.refused(&["--dir", "d", "--metrics", "nine thousand"]);
    assert!(text.contains("use PORT or ADDRESS:PORT"), "{text}");
    let text = cell.refused(&["--dir", "d", "--live"]);
    assert_eq!(text, "--live requires a terminal on stderr; run the command in a terminal, or omit --live");
}

/// Runs the command with its address space limited to this number of KiB.
fn under_limit(cell: &CellDirectory, kibibytes: u64, arguments: &[&str]) -> (Option<i32>, String) {
    let mut shell = std::process::Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {kibibytes} && exec \"$0\" \"$@\""));
    shell.arg(env!("CARGO_BIN_EXE_jetcell")).args(["test", "performance"]).args(arguments);
    let output = shell.current_dir(cell.path("")).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn exceeding_a_memory_limit_is_one_line_not_an_abort() {
    let cell = CellDirectory::with_limits();
    let run = |kibibytes, cache: &str, output: &str| {
        let arguments = ["--config", "wide.toml", "--dir", "d", "--force", "--duration", "1s"];
        under_limit(&cell, kibibytes, &[&arguments[..], &["--cache", cache, "--output", output]].concat())
    };
    let (exit, text) = run(700_000, "512MiB", "refused");
    assert_eq!((exit, text.lines().count()), (Some(2), 1), "{text}");
    assert!(text.contains("address space with --cache 512MiB") && text.contains("ulimit -v"), "{text}");
    assert!(!cell.path("refused").exists(), "nothing was changed");
    // The limit suffices for the run, but not for the default reservations of the allocators.
    let (exit, text) = run(700_000, "64MiB", "good");
    assert_eq!(exit, Some(0), "{text}");
}

#[test]
fn a_cache_larger_than_the_memory_is_refused() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    let text = cell.refused(&["--dir", "d", "--cache", "1000TiB"]);
    assert!(text.starts_with("--cache 1000TiB does not fit in the memory of "), "{text}");
}
