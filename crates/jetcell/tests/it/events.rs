//! Tests of `jetcell events`.

use crate::cell::CellDirectory;

const LINES: &str = concat!(
    r#"{"at":"2026-11-23T13:00:00+00:00","event":"run_started","test":"stress"}"#,
    "\n",
    r#"{"at":"2026-11-23T13:00:01+00:00","event":"page_damaged","id":474,"severity":"error","text":"A page.","page":7}"#,
    "\n",
    r#"{"at":"2026-11-23T13:00:02+00:00","event":"pass_completed","id":721,"severity":"information","text":"Done.\u001b[2J"}"#,
    "\n",
);

#[test]
fn events_are_filtered_by_number_and_severity() {
    let cell = CellDirectory::new();
    cell.make_dir("out");
    cell.write("out/events.jsonl", LINES);
    let shown = |options: &[&str], code: i32| {
        let output = cell.program(&[&["events", "out"], options].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let all = shown(&[], 0);
    assert_eq!(all.lines().count(), 3, "{all}");
    // An event of an earlier version has no text. Text from a file cannot control the terminal.
    assert!(all.contains("run started") && !all.contains('\u{1b}'), "{all}");
    assert!(shown(&["--id", "721"], 0).contains("721  Done."));
    assert_eq!(shown(&["--id", "721", "--id", "474"], 0).lines().count(), 2);
    assert!(shown(&["--severity", "warning"], 0).contains("error        474  A page."));
    assert_eq!(shown(&["--json", "--id", "474"], 0), format!("{}\n", LINES.lines().nth(1).unwrap()));
    assert_eq!(shown(&["--id", "300"], 0), "");

    // A process that was killed leaves an incomplete line.
    cell.write("out/events.jsonl", format!("{LINES}{{\"at\":\"2026"));
    assert_eq!(shown(&[], 1).lines().count(), 3);
    cell.write("out/events.jsonl", vec![b'x'; 3 << 20]);
    assert_eq!(shown(&[], 1), "");
    let refused = cell.program_refused(&["events", "nowhere"]);
    assert!(refused.contains("does not exist"), "{refused}");
    assert!(cell.program_refused(&["events", "out", "--id", "70000"]).contains("70000"));
}
