//! Runs that begin from equal states: `--reset` keeps prepared databases and puts them back.

use std::fs;

use serde_json::Value;

use crate::cell::Cell;

/// The phases of a run.
fn phases(result: &Value) -> Vec<&str> {
    result["phases"].as_array().unwrap().iter().map(|phase| phase["phase"].as_str().unwrap()).collect()
}

#[test]
fn runs_begin_from_the_state_that_was_kept() {
    let cell = Cell::with_limits();
    let databases = ["--dir", "d", "--databases", "2", "--size", "32MiB"];
    let run = |output: &str, more: &[&str]| cell.run(output, 0, &[&databases[..], more].concat());
    let database = |dir: &str| fs::read(cell.path(&format!("{dir}/Jetstress002001.edb"))).unwrap();
    let created = run("out1", &["--reset", "copy"]);
    assert_eq!(phases(&created)[..3], ["create", "keep", "attach"]);
    let kept = database("d/prepared");
    assert!(kept != database("d"), "the load has changed the database");

    for output in ["out2", "out3"] {
        let result = run(output, &["--open", "--reset", "copy"]);
        assert_eq!(phases(&result)[..2], ["put_back", "attach"]);
        assert_eq!(result["initial_database_bytes"], created["initial_database_bytes"]);
        assert_eq!(result["plan"]["reset"], "put_back");
        assert!(database("d/prepared") == kept, "the kept state does not change");
    }

    // A crash while databases were put back.
    let state = cell.path("d/jetcell-prepared.json");
    let text =
        fs::read_to_string(&state).unwrap().replace("\"putting_back\": false", "\"putting_back\": true");
    fs::write(&state, text).unwrap();
    fs::write(cell.path("d/Jetstress001001.edb"), b"half").unwrap();
    let refused =
        cell.refused(&[&databases[..], &["--config", "wide.toml", "--open", "--output", "out4"]].concat());
    assert!(refused.contains("which was interrupted; add --reset"), "{refused}");
    run("out5", &["--open", "--reset", "copy"]);
    assert!(fs::read_to_string(&state).unwrap().contains("\"putting_back\": false"));

    let other = ["--config", "wide.toml", "--dir", "d", "--databases", "1", "--open", "--reset", "copy"];
    let refused = cell.refused(&[&other[..], &["--output", "out6"]].concat());
    assert!(refused.contains("the prepared state is of 2 databases"), "{refused}");
    // New databases have no earlier state.
    run("out7", &["--force"]);
    assert!(!state.exists() && !cell.path("d/prepared/Jetstress001001.edb").exists());
}
