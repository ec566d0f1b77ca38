//! Tests of commands on a terminal: colours, and lines that fit the width.

use std::process::{Command, Stdio};
use testkit::{TestRequirement, skip};

use testkit::corpus::Corpus;

use crate::cell::CellDirectory;
use crate::command_conventions::finished;
use crate::copies::grow;

/// Returns the output of a command on a terminal with this number of columns. `script` provides the terminal.
fn on_terminal(
    cell: &CellDirectory,
    columns: u16,
    words: &[&str],
    variable: Option<(&str, &str)>,
) -> Option<String> {
    if Command::new("script").arg("--version").output().is_err() {
        skip(TestRequirement::Tools, "the program script, which makes terminals, is not installed");
        return None;
    }
    let program = env!("CARGO_BIN_EXE_jetcell");
    let line = format!("stty rows 24 cols {columns}; exec '{program}' {}", words.join(" "));
    let mut command = Command::new("script");
    command.args(["--quiet", "--command", &line, "/dev/null"]).current_dir(cell.path(""));
    command.env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("NO_COLOR").envs(variable);
    let output = finished({
        command.stdin(Stdio::null());
        command
    });
    // A progress line is redrawn after each carriage return.
    Some(String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n").replace('\r', "\n"))
}

/// Returns the text without colours and cursor movements.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |all, part| all + part.split_once(char::is_alphabetic).map_or("", |(_, rest)| rest))
}

/// Creates a database with one damaged page.
fn damaged(cell: &CellDirectory, name: &str) -> Option<()> {
    let mut bytes = Corpus::locate()?.read("db/4k/basic.edb");
    bytes[32 * 4096..][300..400].fill(0x5a);
    cell.write(name, bytes);
    Some(())
}

#[test]
fn a_terminal_has_colours_unless_disabled() {
    let cell = CellDirectory::new();
    if damaged(&cell, "a.edb").is_none() {
        return;
    }
    for words in [&["check", "a.edb"][..], &["doctor", "--help"]] {
        for (more, variable, is_coloured) in [
            (&[][..], None, true),
            (&[], Some(("NO_COLOR", "1")), false),
            // An empty variable is ignored.
            (&[], Some(("NO_COLOR", "")), true),
            (&["--color", "never"], None, false),
            (&["--color=never"], None, false),
            (&["--color", "always"], Some(("NO_COLOR", "1")), true),
        ] {
            let words = [more, words].concat();
            let Some(text) = on_terminal(&cell, 100, &words, variable) else { return };
            assert_eq!(text.contains("\u{1b}["), is_coloured, "{words:?} {variable:?}: {text}");
        }
    }
    let text = on_terminal(&cell, 100, &["check", "a.edb"], None).unwrap();
    assert!(text.contains("\u{1b}[31merror\u{1b}[0m: a.edb, page "), "{text}");
    assert!(text.contains("  \u{1b}[31m1 ERROR\u{1b}[0m"), "{text}");
}

#[test]
fn a_file_name_is_not_coloured_as_a_verdict() {
    let cell = CellDirectory::new();
    if damaged(&cell, "PASS").is_none() {
        return;
    }
    let Some(text) = on_terminal(&cell, 100, &["check", "PASS"], None) else { return };
    assert!(text.contains("\nPASS  ") && text.contains("\u{1b}[31m1 ERROR"), "{text}");
    assert!(!text.contains("mPASS"), "{text}");
}

#[test]
fn east_asian_names_fit_the_terminal() {
    let cell = CellDirectory::new();
    let name = "郵便箱".repeat(12) + ".edb";
    if damaged(&cell, &name).is_none() {
        return;
    }
    let Some(text) = on_terminal(&cell, 50, &["check", &name], None) else { return };
    let widest = plain(&text).lines().map(jetcell_input::columns).max();
    assert!(widest.is_some_and(|widest| (40..=50).contains(&widest)), "{text}");
}

#[test]
fn lines_fit_the_terminal() {
    let cell = CellDirectory::new();
    let directory = "a-directory-with-a-long-name";
    cell.make_dir(directory);
    let name = |file: &str| format!("{directory}/{file}");
    if damaged(&cell, &name("a.edb")).is_none() {
        return;
    }
    let event = format!(
        r#"{{"at":"2026-01-02T03:04:05Z","event":"x","id":477,"severity":"error","text":"{}"}}"#,
        "some words of a text ".repeat(10)
    );
    cell.write(&name("events.jsonl"), event + "\n");
    grow(&cell.path(&name("application")), 0..3);
    let (file, app) = (name("a.edb"), name("application"));
    for words in [
        &["check", &file][..],
        &["check", "--structure", &file],
        &["dump", "header", &file],
        &["dump", "pages", &file],
        &["doctor", directory],
        &["events", directory],
        &["copies", &app],
        &["recover", &app, "--dry-run"],
        &["check", &name("a-file-that-is-not-there.edb")],
    ] {
        let Some(wide) = on_terminal(&cell, 1000, words, None) else { return };
        let narrow = on_terminal(&cell, 50, words, None).unwrap();
        let longest = |text: &str| plain(text).lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest(&wide) > 50, "{words:?} has no long line: {wide}");
        assert!(longest(&narrow) <= 50, "{words:?}: {narrow}");
    }
    // Output for programs is not wrapped.
    let output = cell.program(&["events", directory]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}
