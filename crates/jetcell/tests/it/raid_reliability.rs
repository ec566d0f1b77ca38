//! Tests of `jetcell raid reliability` as a user calls it.

use std::process::{Command, Output};
use testkit::{TestRequirement, skip};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let command = ["raid", "reliability"];
    Command::new(env!("CARGO_BIN_EXE_jetcell")).args(command).args(arguments).output().unwrap()
}

fn text(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&[arguments, &["--json"]].concat())).unwrap()
}

#[test]
fn the_published_case_accepts_every_documented_option() {
    let value = json(&[
        "--type",
        "raid5",
        "--data-disks",
        "7",
        "--groups",
        "6",
        "--years",
        "5",
        "--afr",
        "1.9%",
        "--latent-rate",
        "1.08e-4/h",
        "--restore",
        "12h",
        "--scrub",
        "168h",
        "--model",
        "a",
    ]);
    let close = |key: &str, expected: f64| {
        assert!((value[key].as_f64().unwrap() / expected - 1.0).abs() < 1e-9, "{key} {}", value[key]);
    };
    close("group_probability_of_loss", 0.08052445233594);
    close("probability_of_loss", 0.3957159863071);
    assert_eq!((value["model"].as_str(), &value["interval"]), (Some("a"), &Value::Null));
    assert_eq!(value["inputs"]["defaults"], serde_json::json!([]));
}

#[test]
fn without_rates_the_published_ones_are_used_and_printed() {
    let text = text(&["--type", "raid-dp"]);
    assert!(text.contains("probability of loss               0.002071 %"), "{text}");
    for rate in [["2.169e-6", "461,100"], ["1.08e-4", "9,259"], ["0.08333", "12"], ["0.005952", "168"]] {
        let is = |line: &&str| rate.iter().all(|figure| line.split_whitespace().any(|word| word == *figure));
        let line = text.lines().find(is).unwrap_or_else(|| panic!("{rate:?} is missing in {text}"));
        assert!(line.ends_with("published default"), "{line}");
    }
    let value = json(&["--type", "raid-dp", "--model", "b2"]);
    assert!((value["probability_of_loss"].as_f64().unwrap() / 2.076379327009e-05 - 1.0).abs() < 1e-9);
}

#[test]
fn every_raid_type_has_a_risk_and_redundancy_lowers_it() {
    let loss = |raid| json(&["--type", raid, "--data-disks", "7"])["probability_of_loss"].as_f64().unwrap();
    let losses = ["raid5", "raid10", "raid6", "mirror3", "triple-parity"].map(loss);
    assert!(losses.is_sorted_by(|more, less| more > less), "{losses:?}");
    assert_eq!(loss("raid6"), loss("raid-dp"));
}

#[test]
fn a_file_is_equivalent_to_options_and_options_take_precedence() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = directory.path().join("array.toml");
    std::fs::write(
        &file,
        "type = \"raid5\"\ndata-disks = 7\ngroups = 6\nyears = 5\nafr = \"1.9%\"\nscrub = \"168h\"\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(
        text(&["--config", file]),
        text(&[
            "--type",
            "raid5",
            "--groups",
            "6",
            "--data-disks",
            "7",
            "--years",
            "5",
            "--afr",
            "1.9%",
            "--scrub",
            "168h"
        ])
    );
    assert_eq!(json(&["--config", file, "--groups", "2"])["inputs"]["groups"], 2);
    for (content, part) in [
        ("afr = \"1.9\"\n", "line 1: afr: '1.9' has no unit; try a value such as 1.9%"),
        ("\nraid = 5\n", "line 2: unknown key 'raid'"),
        ("[", "line 1"),
    ] {
        std::fs::write(file, content).unwrap();
        let output = run(&["--config", file]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(complaint.contains(part) && complaint.lines().count() == 1, "{complaint}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn an_explanation_contains_every_number() {
    let text = text(&["--type", "raid5", "--explain"]);
    for line in [
        "= 8 x 1.08e-4",
        "= 8.64e-4 /h",
        "= 0.019 / 8760",
        "= 0.08052445",
        "= 0.08333333^1 / (2.16895e-6^2 x 8 x 7)",
    ] {
        assert!(text.contains(line), "{line}");
    }
}

#[test]
fn invalid_values_are_refused_with_one_line() {
    for (arguments, part) in [
        (vec!["--afr", "-1%"], "negative"),
        (vec!["--latent-rate", "-1e-4/h"], "negative"),
        (vec!["--restore", "-12h"], "negative"),
        (vec!["--data-disks", "0"], "between 1 and 98"),
        (vec!["--data-disks", "-7"], "-7"),
        (vec!["--drives", "8"], "larger than the array of 8"),
        (vec!["--type", "raid7"], "triple-parity"),
        (vec!["--scrub", "168"], "12h"),
        (vec!["--error-rate", "1e-14"], "1e-14/bit"),
        (vec!["--type", "raid5", "--model", "b1"], "a or general"),
        (vec!["--years", "nan"], "years"),
    ] {
        let output = run(&arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {complaint}");
        assert!(complaint.starts_with("jetcell: ") && complaint.lines().count() == 1, "{complaint}");
        assert!(complaint.contains(part), "{complaint}");
    }
}

/// Checks that the command prints the example in `docs/internals/models.md`.
#[test]
fn the_documented_worked_example_matches_the_output() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/models.md");
    let Ok(page) = std::fs::read_to_string(path) else {
        skip(
            TestRequirement::Repository,
            "docs/internals/models.md is in the repository, not in the package",
        );
        return;
    };
    let prompt = "$ jetcell raid reliability ";
    let (arguments, rest) = page.split_once(prompt).unwrap().1.split_once('\n').unwrap();
    let (printed, _) = rest.split_once("```").unwrap();
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    assert_eq!(text(&arguments), printed);
}

#[test]
fn a_simulation_matches_the_general_chain_and_is_reproducible() {
    let arguments =
        ["--type", "raid6", "--monte-carlo", "--laws", "exponential", "--seed", "7", "--precision", "10%"];
    let value = json(&arguments);
    let (low, high) = (value["interval"][0].as_f64().unwrap(), value["interval"][1].as_f64().unwrap());
    let loss = value["probability_of_loss"].as_f64().unwrap();
    assert!(low < loss && loss < high && (high - low) / loss <= 0.2, "{value}");
    // Three times the 95 % interval: one run in a billion would fail, and the seed is fixed.
    let exact = value["general_group_probability_of_loss"].as_f64().unwrap();
    assert!((loss - exact).abs() < 1.5 * (high - low), "{loss} {exact}");
    assert_eq!(value["model"], "monte-carlo");
    assert_eq!(value, json(&arguments));
    assert_ne!(
        value["probability_of_loss"],
        json(&[&arguments[..5], &["--seed", "8"]].concat())["probability_of_loss"]
    );
}

#[test]
fn the_published_laws_are_the_default_of_a_simulation() {
    let value = json(&["--type", "raid-dp", "--monte-carlo"]);
    let loss = value["probability_of_loss"].as_f64().unwrap();
    assert!((loss / 1.5506e-5 - 1.0).abs() < 0.05, "{loss}");
    assert_eq!(value["simulation"]["weibull_hours"]["failure"]["scale"], 461_386.0);
    assert_eq!(value["markov"]["model"], "b1");
}

#[test]
fn the_governing_parameter_is_named() {
    assert!(text(&["--type", "raid5"]).contains("The scrub interval governs the loss"));
    assert!(text(&["--type", "raid6"]).contains("Scrub interval and restore time both govern the loss"));
}

#[test]
fn types_are_compared_and_a_layout_is_found() {
    let arguments = ["--data-disks", "7", "--groups", "6", "--compare", "--target", "0.1%"];
    let value = json(&arguments);
    assert_eq!(value["comparison"].as_array().unwrap().len(), 6, "RAID-DP is one of them");
    assert_eq!(value["layout"]["found"]["type"], "raid6");
    let text = text(&arguments);
    let line = text.lines().find(|line| line.trim_start().starts_with("raid10")).unwrap();
    assert!(line.contains("42 x 1+1") || line.contains("42 x 1 x"), "{line}");
}

#[test]
fn a_chart_is_complete() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (name, arguments) in
        [("types.svg", vec!["--compare"]), ("scrub.svg", vec!["--type", "raid5", "--curve", "scrub"])]
    {
        let file = directory.path().join(name);
        text(&[&arguments[..], &["--chart", file.to_str().unwrap()]].concat());
        let svg = std::fs::read_to_string(&file).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
        assert!(svg.contains("raid5"), "{name}");
        assert!(svg.contains("prefers-color-scheme: dark"), "{name}");
        // The array's own value is marked, or its bar is highlighted.
        assert!(svg.contains("this array, 168 with") || svg.contains("your choice"), "{name}: {svg}");
    }
    let page = directory.path().join("page.html");
    text(&["--compare", "--curve", "restore", "--html", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(&page).unwrap();
    for part in [
        "raid-dp 7+2, 9 drives",
        "raid6 7+2, 9 drives",
        "your choice",
        "this array, 12 with",
        ">Rates<",
        "class=\"readout\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3, "nothing unfinished is left");
}

#[test]
fn options_without_required_partners_are_refused() {
    for (arguments, part) in [
        (vec!["--seed", "1"], "--monte-carlo"),
        (vec!["--chart", "x.svg"], "--compare or --curve"),
        (vec!["--compare", "--chart", "/nowhere/x.svg"], "cannot write /nowhere/x.svg"),
        (vec!["--monte-carlo", "--lives", "0"], "simulated lives"),
        (vec!["--monte-carlo", "--precision", "0%"], "precision"),
        (vec!["--curve", "disk-size"], "--capacity"),
        (vec!["--curve", "age"], "group-size"),
    ] {
        let output = run(&arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), complaint.lines().count()),
            (Some(2), 1),
            "{arguments:?}: {complaint}"
        );
        assert!(complaint.contains(part), "{complaint}");
    }
}
