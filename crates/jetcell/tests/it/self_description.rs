//! Tests of the command's self-description: version, completion scripts and manual pages.

use crate::cell::CellDirectory;

fn printed(words: &[&str]) -> String {
    let output = CellDirectory::new().program(words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_version_shows_formats_and_build() {
    let text = printed(&["--version"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("jetcell {}", env!("CARGO_PKG_VERSION")));
    assert!(lines[1].starts_with("database format: 0x620,20 "), "{text}");
    assert!(lines[2].starts_with("log format:      8.4000.5 "), "{text}");
    let build = lines[3].strip_prefix("build:").unwrap().trim();
    let [commit, target, profile] = build.split(", ").collect::<Vec<_>>()[..] else { panic!("{build}") };
    assert!(commit.len() == 12 || commit == "not from a checkout", "{commit}");
    assert!(target.contains("linux") && ["debug", "release"].contains(&profile), "{build}");
    assert_eq!(printed(&["-V"]).trim(), lines[0]);
}

#[test]
fn every_shell_has_a_completion_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for word in ["jetcell", "performance", "lazy-percent", "raid"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let text = CellDirectory::new().program(&["completions", "cmd"]).output().unwrap();
    assert_eq!(text.status.code(), Some(2));
}

#[test]
fn every_command_has_a_manual_page() {
    let main = printed(&["man"]);
    assert!(main.starts_with(".ie") || main.contains(".TH"), "{main}");
    assert!(main.contains(".SH SUBCOMMANDS"), "{main}");

    let cell = CellDirectory::new();
    let output = cell.program(&["man", "pages/man1"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0));
    let page = |name: &str| std::fs::read_to_string(cell.path("pages/man1").join(name)).unwrap();
    for name in ["jetcell.1", "jetcell-check.1", "jetcell-dump-log.1", "jetcell-man.1"] {
        assert!(page(name).contains(".SH SYNOPSIS"), "{name}");
    }
    let test = page("jetcell-test-performance.1");
    for part in [".SH LOAD", "lazy\\-percent", ".SH NOTES\n.nf\nExamples:", "\n  jetcell test performance"] {
        assert!(test.contains(part), "{part} is not in\n{test}");
    }
    assert!(std::fs::read_dir(cell.path("pages/man1")).unwrap().all(|page| {
        let name = page.unwrap().file_name().into_string().unwrap();
        name.ends_with(".1") && !name.contains("help")
    }));
    cell.write("file", "x");
    let text = cell.program_refused(&["man", "file"]);
    assert!(text.starts_with("file: cannot be written: "), "{text}");
}
