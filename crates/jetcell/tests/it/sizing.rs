//! Tests of `jetcell size` as a user calls it.

use std::process::{Command, Output};

use crate::cell::CellDirectory;

fn size(cell: &CellDirectory, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetcell"));
    command.current_dir(cell.path("")).arg("size").args(arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the one line with which a command is refused.
fn refused(cell: &CellDirectory, arguments: &[&str]) -> String {
    let output = size(cell, arguments);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_start_matches("jetcell: ").trim_end().to_string()
}

#[test]
fn the_example_is_sized_and_its_test_configuration_is_valid() {
    let cell = CellDirectory::new();
    cell.write("site.toml", printed(&size(&cell, &["--example"])));
    let text = printed(&size(&cell, &["--config", "site.toml"]));
    for part in [
        "IOPS (rebuilding)",
        " capacity ",
        "Price (EUR)",
        "Data loss, 5 years (%)",
        "Risky: RAID 5 7+1 of 7.2k 8TB",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for state in ["normal: ", "one drive lost: ", "rebuilding: ", "server lost: ", "backup running: "] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(state)), "{state}: {text}");
    }
    let json = printed(&size(&cell, &["--config", "site.toml", "--json", "--test-config", "test.toml"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["comparisons", "designs", "inputs", "mailbox", "server", "test_config"]);
    assert_eq!(json["designs"][0]["database"]["disks_for_load"].as_array().unwrap().len(), 5);
    let loss = |design: &serde_json::Value| design["probability_of_loss"].as_f64().unwrap();
    let of = |array: &str| {
        loss(
            json["designs"]
                .as_array()
                .unwrap()
                .iter()
                .find(|one| one["array"].as_str().unwrap().starts_with(array))
                .unwrap(),
        )
    };
    assert!(of("RAID 5") > of("RAID 10") && of("RAID 10") > of("RAID 6"), "{text}");
    let written = std::fs::read_to_string(cell.path("test.toml")).unwrap();
    assert_eq!(json["test_config"], written);
    assert!(!cell.path("test.toml.unfinished").exists());
    // The performance test accepts the file. Only the storage is missing here.
    let text = cell.refused(&["--config", "test.toml"]);
    assert!(text.contains("does not exist") || text.contains(" is free; choose a smaller --size"), "{text}");
}

#[test]
fn the_design_table_is_available_as_csv_and_html() {
    let cell = CellDirectory::new();
    cell.write(
        "site.toml",
        printed(&size(&cell, &["--example"])).replace("currency = \"EUR\"", "currency = \"CHF\""),
    );
    let csv = printed(&size(&cell, &["--config", "site.toml", "--csv", "--html", "sizing.html"]));
    assert_eq!(csv.lines().count(), 9, "a heading and eight designs: {csv}");
    assert!(csv.starts_with("Design,Bound by,Disks,") && csv.contains("Price (CHF)"), "{csv}");
    // Numbers for programs have no thousands separators.
    assert!(
        csv.lines().skip(1).all(|line| line.rsplit(',').take(7).all(|number| number.parse::<f64>().is_ok())),
        "{csv}"
    );
    let page = std::fs::read_to_string(cell.path("sizing.html")).unwrap();
    for part in [
        "<!DOCTYPE html>",
        "Total cost: least with ",
        " CHF</text>",
        ">Data loss: least with ",
        ">Server states and their load<",
        ">Designs<",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let text = refused(&cell, &["--config", "site.toml", "--html", "nowhere/page.html"]);
    assert!(text.starts_with("--html nowhere/page.html cannot be written"), "{text}");
}

#[test]
fn every_formula_is_explained_with_its_numbers() {
    let cell = CellDirectory::new();
    cell.write("site.toml", printed(&size(&cell, &["--example"])));
    let text = printed(&size(&cell, &["--config", "site.toml", "--explain"]));
    assert!(text.contains("  database_reads = weight * reads\n      = 4800 * 0.063315 = 303.912 reads/s\n"));
}

#[test]
fn user_defined_disks_extend_the_catalogue() {
    let cell = CellDirectory::new();
    let mine = printed(&size(&cell, &["--list-disks"])).replace("7.2k 8TB", "mine");
    cell.write("disks.toml", mine);
    let example = printed(&size(&cell, &["--example"]));
    cell.write("site.toml", example.replace("\"7.2k 8TB\"", "\"mine\""));
    let text = refused(&cell, &["--config", "site.toml"]);
    assert!(
        text.starts_with("--config site.toml: unknown disk \"mine\"; disks in the catalogue: "),
        "{text}"
    );
    let text = printed(&size(&cell, &["--config", "site.toml", "--disks", "disks.toml"]));
    assert!(text.contains("RAID 10 of mine"));
    assert!(printed(&size(&cell, &["--list-platforms"])).contains("[exchange-2013]"));
}

#[test]
fn bad_input_gives_a_one_line_error() {
    let cell = CellDirectory::new();
    let example = printed(&size(&cell, &["--example"]));
    cell.write("typo.toml", example.replacen("quota =", "quotta =", 1));
    let text = refused(&cell, &["--config", "typo.toml"]);
    assert!(text.ends_with("unknown key 'quotta'; the nearest known key is 'quota'"), "{text}");
    assert!(refused(&cell, &["--config", "none.toml"]).contains("cannot be read"));
    assert!(refused(&cell, &["--config", "."]).contains("cannot be read"));
    assert!(
        refused(&cell, &["--config", "/dev/zero"])
            .starts_with("--config /dev/zero: cannot be read: this is a device")
    );
    cell.write("garbage.toml", [0xff, 0xfe, 0, 1]);
    assert!(refused(&cell, &["--config", "garbage.toml"]).contains("not UTF-8"));
    cell.write("site.toml", example);
    let text = refused(&cell, &["--config", "site.toml", "--test-config", "nowhere/test.toml"]);
    assert!(text.starts_with("--test-config nowhere/test.toml cannot be written"), "{text}");
    assert_eq!(size(&cell, &[]).status.code(), Some(2));
}
