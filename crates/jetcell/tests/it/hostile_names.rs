//! Tests with names from files of other users: no command sends their control characters to a terminal, a page or
//! another program.

use std::collections::BTreeSet;
use std::process::Output;
use testkit::samples;

use serde_json::Value;

use crate::cell::CellDirectory;

/// Text that clears the screen and changes the colour with ESC and C1 controls, reverses the text direction, and
/// contains a DEL and a line end.
const HOSTILE: &str = "x\u{1b}[2J\u{9b}31m\u{202e}\u{7f}\r\nFORGED";

/// Returns true for characters that must not occur in output.
fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    let found = text.chars().position(is_hostile);
    let shown = |at: usize| text.chars().skip(at.saturating_sub(60)).take(120).collect::<String>();
    assert_eq!(found, None, "{what}: {:?}", found.map(shown));
}

/// Runs a command and checks that its output has no hostile character. If `names` is true, the output must contain
/// the escaped name.
#[track_caller]
fn ran(cell: &CellDirectory, words: &[&str], names: bool) -> Output {
    let output = cell.program(words).output().unwrap();
    let streams = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    for text in &streams {
        assert_harmless(&format!("{words:?}"), text);
        // A line end in HTML is equivalent to a space, and in a quoted CSV field it is part of the value.
        let is_exempt = text.starts_with("<!DOCTYPE html>") || words.contains(&"csv");
        let forged = text.lines().find(|line| line.trim_start().starts_with("FORGED"));
        assert!(is_exempt || forged.is_none(), "{words:?}: a name has a line of its own: {text}");
    }
    let has_name = streams.iter().any(|text| {
        // Markdown escapes the backslash and the bracket.
        let text = text.split_whitespace().collect::<String>().replace("\\\\", "\\").replace("\\[", "[");
        ["\\u{9b}31m", "\\u009b31m"].iter().any(|name| text.contains(name))
    });
    assert!(has_name || !names, "{words:?} does not show the name: {streams:?}");
    output
}

/// Collects the commands that have no subcommands, each as a list of words.
pub fn leaves(cell: &CellDirectory, words: &[&str], found: &mut Vec<Vec<String>>) {
    let output = cell.program(&[words, &["--help"]].concat()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let section = |line: &str| ["Commands:", "Kinds:"].contains(&line);
    let names: Vec<String> = text
        .lines()
        .skip_while(|line| !section(line))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_string)
        .collect();
    // A command with subcommands may also work without them.
    let is_command = |line: &str| {
        line.starts_with("Usage:") && !["<COMMAND>", "<KIND>"].iter().any(|name| line.contains(name))
    };
    if names.is_empty() || text.lines().any(is_command) {
        found.push(words.iter().map(|word| (*word).to_string()).collect());
    }
    for name in names {
        leaves(cell, &[words, &[&name]].concat(), found);
    }
}

/// Commands in which a hostile name replaces the file names. `@` stands for the name.
pub const MISSING: &[&str] = &[
    "check @",
    "check @ --json",
    "dump header @",
    "dump pages @",
    "dump tree @ --table @",
    "dump schema @",
    "dump space @",
    "dump log @",
    "dump checkpoint @",
    "dump flushmap @",
    "compare-files @ @",
    "size --config @",
    "recover @",
    "backup --from @ --to out",
    "backup prove @",
    "replicate --from @ --to out --once",
    "serve @ --listen 127.0.0.1:0 --token-file @",
    "copies @",
    "activate @",
    "reseed --from @ --to out",
    "maintain @",
    "restore @ --to out",
    "export @ --format csv --output out",
    "test performance --config @",
    "test stress --config @",
    "test backup --config @",
    "test recovery --config @",
    "test replication --config @ --copies 1",
    "test durability @ --verify @",
    "test filesystems --make-list @ --output out",
    "fleet run --config @",
    "fleet join --fleet f --rank 0 --size 2 --allow-dir @",
    "report @",
    "events @",
    "compare @ @",
    "compare --drives @",
    "raid create @ --level @",
    "raid status @",
    "raid status @ --json",
    "raid fail @ @",
    "raid replace @ @ @",
    "raid spare @ @",
    "raid rebuild @",
    "raid scrub @",
    "raid serve @",
    "raid lun create @ l --size 1MiB",
    "raid lun list @",
    "raid lun clean @",
    "raid lun delete @ l",
    "raid snapshot create @ l s",
    "raid snapshot list @",
    "raid snapshot delete @ l s",
    "raid snapshot clone @ l s t",
    "raid snapshot rollback @ l s",
    "raid grow @ @",
    "raid destroy @",
    "raid bench @",
    "raid simulate --config @",
    "raid reliability --config @",
    "disk test @",
    "disk fragmentation @",
    "disk experiment @/none --size 32MiB --output out",
    "power meters @",
    "power record --meter @ -- true",
    "power energy @",
    "doctor @",
    "completions @",
    "man /dev/null/@",
];

#[test]
fn every_command_escapes_a_missing_file_name() {
    let cell = CellDirectory::new();
    for row in MISSING {
        let words: Vec<String> = row.split(' ').map(|word| word.replace('@', HOSTILE)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        ran(&cell, &words, true);
    }
    let mut all = Vec::new();
    leaves(&cell, &[], &mut all);
    let tested = |leaf: &Vec<String>| {
        MISSING.iter().any(|row| row.split(' ').take(leaf.len()).eq(leaf.iter().map(String::as_str)))
    };
    let untested: BTreeSet<String> =
        all.iter().filter(|leaf| !tested(leaf)).map(|leaf| leaf.join(" ")).collect();
    assert!(all.len() > 50 && untested.is_empty(), "add rows for {untested:?} of {}", all.len());
    for leaf in &all {
        let words: Vec<&str> = leaf.iter().map(String::as_str).collect();
        ran(&cell, &[&words[..], &[&format!("--{HOSTILE}")]].concat(), false);
    }
}

/// Reads a database whose table, column and index names contain control characters.

#[test]
fn names_in_a_database_are_escaped() {
    let cell = CellDirectory::new();
    cell.make_dir(HOSTILE);
    let path = format!("{HOSTILE}/a.edb");
    cell.write(&path, samples::read("control-characters.edb"));
    let mut damaged = samples::read("control-characters.edb");
    damaged.iter_mut().skip(40_000).step_by(3000).for_each(|byte| *byte ^= 0x55);
    let damaged_path = format!("{HOSTILE}/damaged.edb");
    cell.write(&damaged_path, &damaged);
    for form in [&[][..], &["--json"]] {
        ran(&cell, &[&["check", "--structure", &damaged_path], form].concat(), true);
        ran(&cell, &[&["check", "--structure", HOSTILE], form].concat(), true);
        ran(&cell, &[&["dump", "schema", &damaged_path], form].concat(), false);
        ran(&cell, &[&["compare-files", &path, &damaged_path], form].concat(), false);
    }
    for kind in ["header", "pages", "schema", "space"] {
        for form in [&[][..], &["--json"]] {
            ran(&cell, &[&["dump", kind, &path], form].concat(), false);
        }
    }
    let schema = ran(&cell, &["dump", "schema", &path], false);
    assert!(String::from_utf8(schema.stdout).unwrap().contains("\\u{1b}"));
    for form in [&[][..], &["--json"]] {
        ran(&cell, &[&["check", "--structure", &path], form].concat(), false);
    }
    for format in ["csv", "jsonl"] {
        let output = ["export", &path, "--format", format, "--output", "-", "--table", "*"];
        ran(&cell, &output, false);
    }
    ran(&cell, &["export", &path, "--format", "csv", "--output", "out"], false);
    for entry in std::fs::read_dir(cell.path("out")).unwrap() {
        let path = entry.unwrap().path();
        assert_harmless("a file name", path.file_name().unwrap().to_str().unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        assert_harmless("column names", text.lines().next().unwrap_or_default());
    }
}

/// Runs backup, copies and maintenance for an instance in a directory with a hostile name.
#[test]
fn directory_names_are_escaped() {
    let cell = CellDirectory::with_limits();
    let from = format!("{HOSTILE}/d");
    cell.make_dir(HOSTILE);
    let output = format!("{HOSTILE}/out");
    let run = [
        "test",
        "performance",
        "--config",
        "wide.toml",
        "--dir",
        &from,
        "--output",
        &output,
        "--duration",
        "1s",
    ];
    ran(&cell, &run, true);
    let to = |name: &str| format!("{HOSTILE}/{name}");
    let mut files = std::fs::read_dir(cell.path(&from)).unwrap().map(|entry| entry.unwrap().path());
    let database = files.find(|path| path.extension().is_some_and(|ending| ending == "edb")).unwrap();
    let instance = to("instance");
    cell.make_dir(&instance);
    let logs = cell.path(&from).join("log001");
    for file in std::fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path()).chain([database]) {
        std::fs::copy(&file, cell.path(&instance).join(file.file_name().unwrap())).unwrap();
    }
    let (backup, restored, copy) = (to("backup"), to("restored"), to("copy"));
    for words in [
        &["backup", "--from", &instance, "--to", &backup][..],
        &["backup", "--age", &backup],
        &["backup", "prove", &backup],
        &["check", &backup],
        &["restore", &backup, "--to", &restored],
        &["maintain", &restored],
        &["recover", &restored],
        &["replicate", "--from", &instance, "--to", &copy, "--once"],
        &["copies", &copy],
        &["copies", &instance],
        &["copies", &copy, "--with", &instance],
        &["reseed", "--from", &instance, "--to", &copy],
        &["activate", &copy],
        &["doctor", &instance],
        &["disk", "fragmentation", &instance],
    ] {
        ran(&cell, words, true);
        ran(&cell, &[words, &["--json"]].concat(), false);
    }
}

#[test]
fn names_in_stored_results_are_escaped() {
    let cell = CellDirectory::with_limits();
    let mut result = cell.run("out", 0, &["--dir", "d", "--duration", "1s"]);
    hostile_text(&mut result, &["host", "kernel", "model", "file_system", "device", "note", "name"]);
    for name in ["a", "b"] {
        // Comparisons show the differences.
        result["machine"]["kernel"] = format!("{HOSTILE}{name}").into();
        let text = serde_json::to_string_pretty(&result).unwrap();
        assert!(text.contains("[2J"), "a text was replaced");
        cell.make_dir(name);
        cell.write(&format!("{name}/result.json"), &text);
        std::fs::copy(cell.path("out/samples.csv"), cell.path(&format!("{name}/samples.csv"))).unwrap();
    }
    for format in ["text", "html", "markdown", "csv", "json"] {
        ran(&cell, &["report", "a", "--format", format], true);
        ran(&cell, &["compare", "a", "b", "--format", format], false);
    }
    for (format, name) in [("json", "c.json"), ("csv", "c.csv"), ("markdown", "c.md"), ("html", "c.html")] {
        ran(&cell, &["compare", "a", "b", "--format", format, "--output", name], false);
        assert_harmless(name, &std::fs::read_to_string(cell.path(name)).unwrap());
    }
    let compared: Value = serde_json::from_slice(&std::fs::read(cell.path("c.json")).unwrap()).unwrap();
    assert!(compared.to_string().contains('\u{9b}'), "values stay exact");
    ran(&cell, &["power", "energy", "a"], false);
    cell.write(
        "events.jsonl",
        format!("{}\n", serde_json::json!({ "at": HOSTILE, "event": HOSTILE, "text": HOSTILE })),
    );
    for form in [&[][..], &["--json"]] {
        ran(&cell, &[&["events", "events.jsonl"], form].concat(), true);
    }
}

/// Appends the hostile text to every text in a result under one of these names.
fn hostile_text(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| match field {
            Value::String(text) if names.contains(&name.as_str()) => text.push_str(HOSTILE),
            other => hostile_text(other, names),
        }),
        Value::Array(values) => values.iter_mut().for_each(|value| hostile_text(value, names)),
        _ => {}
    }
}

#[test]
fn array_names_are_escaped() {
    let cell = CellDirectory::new();
    cell.make_dir(HOSTILE);
    let array = format!("{HOSTILE}/array");
    let members: Vec<String> = (0..4).map(|at| format!("{HOSTILE}/m{at}")).collect();
    for member in &members {
        std::fs::File::create(cell.path(member)).unwrap().set_len(48 << 20).unwrap();
    }
    let spare = format!("{HOSTILE}/spare");
    std::fs::File::create(cell.path(&spare)).unwrap().set_len(48 << 20).unwrap();
    let create = [
        "raid",
        "create",
        &array,
        "--level",
        "raid5",
        "--members",
        &members[0],
        &members[1],
        &members[2],
        &members[3],
    ];
    ran(&cell, &create, true);
    for words in [
        &["raid", "status", &array][..],
        &["raid", "scrub", &array],
        &["raid", "lun", "create", &array, HOSTILE, "--size", "1MiB"],
        &["raid", "lun", "list", &array],
        &["raid", "fail", &array, &members[0]],
        &["raid", "replace", &array, &members[0], &spare],
        &["raid", "destroy", &array],
    ] {
        ran(&cell, &[words, &["--json"]].concat(), false);
        ran(&cell, words, false);
    }
}

/// Creates a document of runs in a directory with a hostile name, from a configuration with hostile texts.
#[test]
fn names_in_an_esrp_document_are_escaped() {
    let cell = CellDirectory::with_limits();
    cell.make_dir(HOSTILE);
    let run = format!("{HOSTILE}/run");
    let made =
        ["test", "performance", "--config", "wide.toml", "--dir", "d", "--output", &run, "--duration", "1s"];
    ran(&cell, &made, true);
    let example = cell.program(&["report", "--example-esrp"]).output().unwrap();
    let example = String::from_utf8(example.stdout).unwrap();
    let escaped: String = HOSTILE.chars().map(|c| format!("\\U{:08X}", u32::from(c))).collect();
    let hostile: Vec<String> = example
        .lines()
        .map(|line| match line.strip_suffix('"') {
            Some(start) if line.contains(" = \"") && !line.starts_with('#') => format!("{start}{escaped}\""),
            _ => line.to_string(),
        })
        .collect();
    for (name, text) in [("plain.toml", &example), ("hostile.toml", &hostile.join("\n"))] {
        cell.write(name, text);
        for document in ["document.md", "document.html"] {
            ran(&cell, &["report", "--esrp", name, &run, "--output", document], false);
            if let Ok(text) = std::fs::read_to_string(cell.path(document)) {
                assert_harmless(document, &text);
            }
        }
    }
}
