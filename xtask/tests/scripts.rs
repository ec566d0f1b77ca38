//! Tests that scripts check their requirements before they start, and name missing requirements in one line.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns a directory for PATH that contains only the programs that a shell needs.
fn bare_path() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bare-path");
    std::fs::create_dir_all(&path).unwrap();
    for name in ["dirname", "sed", "mkdir", "cat"] {
        let found = ["/usr/bin", "/bin"].iter().map(|place| Path::new(place).join(name));
        let program = found.into_iter().find(|program| program.exists()).unwrap();
        // Tests may run concurrently, so the link may already exist.
        let _ = symlink(program, path.join(name));
    }
    path
}

fn run_bare(shell: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let shell = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(shell));
    let shell = shell.iter().find(|shell| shell.exists()).unwrap();
    let bin = bare_path();
    let _ = symlink("/bin/sh", bin.join("sh"));
    let output = Command::new(shell).args(arguments).current_dir(root()).env("PATH", bin).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_script_names_the_missing_requirement_in_one_line() {
    for (shell, arguments, lacks) in [
        (
            "bash",
            &["./test.sh"][..],
            &["cc (packages gcc and libc6-dev)", "git", "python3", "openssl", "cargo"][..],
        ),
        ("bash", &["scripts/package.sh"], &["cc", "cargo", "gzip"]),
        ("bash", &["scripts/package.sh", "deb"], &["cc", "cargo-deb (cargo install cargo-deb)"]),
        ("bash", &["scripts/package.sh", "image"], &["cc", "podman"]),
        ("bash", &["scripts/package.sh", "site"], &["cc", "cargo", "git", "python3"]),
        ("bash", &["scripts/screenshots.sh", "run"], &["chromium"]),
        ("sh", &["scripts/test-python.sh"], &["cc", "python3", "cargo"]),
    ] {
        let (status, text) = run_bare(shell, arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
        assert!(text.contains("these are missing: "), "{arguments:?}: {text}");
        assert!(lacks.iter().all(|what| text.contains(what)), "{arguments:?}: {text}");
    }
}

#[test]
fn a_tool_that_the_check_does_not_know_is_an_error() {
    let (status, text) = run_bare("sh", &["scripts/check-tools.sh", "x.sh", "gold"]);
    assert_eq!((status, text.contains("'gold' is no tool")), (Some(2), true), "{text}");
}
