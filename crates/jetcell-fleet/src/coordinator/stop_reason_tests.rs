use crate::config::FleetConfig;
use crate::coordinator::Coordinator;
use crate::fleet_directory::FleetDirectory;

/// State of a refused run as earlier versions stored it. `STOP` is a placeholder for the stop reason.
const EARLIER_STATE: &str = r#"{
  "directory": "fleet-f/Fleet_2026-11-30_12-00-00",
  "saved": {
    "version": 1, "run": "4f1d", "configuration": "00c0ffee00c0ffee", "began_ns": 1700000000000000000,
    "open": null, "start_ns": null, "alone_first": null, "stop": STOP,
    "members": [{"beat": {
      "rank": 0, "token": "t0", "name": "db0", "fraction": 0.0, "ignored": 0,
      "condition": {"is": "refused", "reason": "/d: the disk is full"}
    }}]
  }
}"#;

#[test]
fn states_of_earlier_versions_are_loaded() {
    let output = tempfile::tempdir().unwrap();
    let mut config = FleetConfig::parse("f.toml", "name='f'\nhosts=2\noptions.dirs=['/d']").unwrap();
    config.digest = "00c0ffee00c0ffee".into();
    config.output = Some(output.path().to_path_buf());
    for (stop, expected) in [
        (
            r#"{"refused": "host db0 (rank 0): /d: the disk is full"}"#,
            "host db0 (rank 0): /d: the disk is full",
        ),
        (r#"{"requested": "stopped on request"}"#, "stopped on request"),
        (r#""requested""#, "stopped on request"),
        (r#"{"refused": {"timed_out": "host db0"}}"#, "host db0 timed out before the test started"),
    ] {
        std::fs::write(output.path().join("fleet-state.json"), EARLIER_STATE.replace("STOP", stop)).unwrap();
        let (directory, saved) = FleetDirectory::open(&config, false).unwrap();
        assert!(directory.path().ends_with("Fleet_2026-11-30_12-00-00"), "{stop}");
        let saved = saved.unwrap();
        directory.save_state(&saved).unwrap();
        assert_eq!(FleetDirectory::open(&config, false).unwrap().1.as_ref(), Some(&saved), "{stop}");
        let resumed = Coordinator::resume(config.clone(), "1", saved, "second".into(), 0).unwrap();
        assert_eq!(resumed.stop_reason().unwrap().to_string(), expected);
        assert_eq!(resumed.members().next().unwrap().failure(), Some("/d: the disk is full"));
    }
    std::fs::write(output.path().join("fleet-state.json"), EARLIER_STATE.replace("STOP", "7")).unwrap();
    assert!(FleetDirectory::open(&config, false).is_err());
}
