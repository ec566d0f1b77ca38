//! Tests of `jetcell test filesystems`: two directories in alternation, and input that is refused.

use serde_json::Value;

use crate::cell::CellDirectory;

#[test]
fn two_directories_are_compared_in_alternating_turns() {
    let cell = CellDirectory::new();
    let words = [
        "test",
        "filesystems",
        "a",
        "b",
        "--size",
        "64MiB",
        "--duration",
        "1s",
        "--repeat",
        "2",
        "--min-repeat",
        "2",
        "--output",
        "out",
        "--json",
    ];
    let output = cell.program(&words).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let order: Vec<&str> = stderr.lines().filter(|line| line.starts_with("turn ")).collect();
    assert_eq!(order, ["turn 1: a", "turn 1: b", "turn 2: b", "turn 2: a"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!((rows.len(), found["directories"].as_array().unwrap().len()), (14, 2));
    for row in rows {
        assert_eq!(row["turns"][0].as_array().unwrap().len(), 2, "{row}");
        assert!(row["means"][1].as_f64().unwrap() >= 0.0);
    }
    assert!(
        rows[0]["means"][0].as_f64().unwrap() > 0.0 && rows[0]["differences"][1]["half_width"].is_number()
    );
    assert!(found["directories"][0]["allocated_bytes"].as_u64().unwrap() >= 64 << 20);
    // Each run can be shown separately.
    let run = cell.program(&["report", "out/runs/2-2", "--format", "json"]).output().unwrap();
    assert!(!run.stdout.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    let page = std::fs::read_to_string(cell.path("out/report.html")).unwrap();
    assert!(page.contains("are on the same file system") && page.contains("Transactional I/O"));
}

#[test]
fn incomparable_directories_are_refused() {
    let cell = CellDirectory::new();
    cell.make_dir("used");
    cell.write("used/file", "x");
    let refused = |words: &[&str]| cell.program_refused(&[&["test", "filesystems"], words].concat());
    assert_eq!(
        refused(&["used", "b", "--output", "out"]),
        "used is not empty; use a different directory for the databases"
    );
    assert_eq!(
        refused(&["a", "./a", "--output", "out"]),
        "./a is specified twice; specify each directory only once"
    );
    assert_eq!(
        refused(&["a", "b", "--output", "used"]),
        "used is not empty; use a different directory for the result"
    );
    assert!(refused(&["a", "--output", "out"]).contains("at least two file systems"));
    let make =
        |words: &[&str]| refused(&[&["--make", "ext4,ext4-fscrypt", "--output", "out"], words].concat());
    assert!(make(&[]).contains("specify --images DIR, or --device and --erase"));
    assert!(make(&["--images", "none"]).starts_with("none cannot be used for file systems: "));
    assert!(
        make(&["--images", ".", "--image-size", "1MiB"])
            .contains("'1MiB' is out of range; use a value from 512MiB to 1024TiB")
    );
    assert!(make(&["--device", "/dev/null"]).contains("--erase"));
    assert!(
        refused(&["--make", "fat", "--images", ".", "--output", "out"])
            .contains("use ext4, ext4-fscrypt, xfs")
    );
    cell.write("list.toml", "[[filesystem]]\nkind = \"ext4\"\nsize = 3\n");
    let list = refused(&["--make-list", "list.toml", "--images", ".", "--output", "out"]);
    assert!(list.starts_with("list.toml, line 3: unknown key 'size'"), "{list}");
    assert!(refused(&["a", "b"]).contains("--output"));
    assert!(refused(&["a", "b", "--output", "out", "--precision", "0"]).contains("as a precision"));
    assert!(refused(&["a", "b", "--output", "out", "--config", "none"]).contains("cannot be read"));
}
