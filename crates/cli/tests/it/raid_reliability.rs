//! `jetcell raid reliability` as a user calls it.

use std::process::{Command, Output};

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
fn the_published_case_with_every_option_of_the_contract() {
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
    assert!(text.contains("probability of loss               0.002071276 %"), "{text}");
    for rate in ["2.16895e-6 /h", "1.08e-4 /h", "mean time 12 h", "mean time 168 h"] {
        let line = text.lines().find(|line| line.contains(rate)).unwrap();
        assert!(line.ends_with("(published default)"), "{line}");
    }
    let value = json(&["--type", "raid-dp", "--model", "b2"]);
    assert!((value["probability_of_loss"].as_f64().unwrap() / 2.076379327009e-05 - 1.0).abs() < 1e-9);
}

#[test]
fn every_type_has_an_answer_and_more_redundancy_a_smaller_one() {
    let loss = |raid| json(&["--type", raid, "--data-disks", "7"])["probability_of_loss"].as_f64().unwrap();
    let losses = ["raid5", "raid10", "raid6", "mirror3", "triple-parity"].map(loss);
    assert!(losses.is_sorted_by(|more, less| more > less), "{losses:?}");
    assert_eq!(loss("raid6"), loss("raid-dp"));
}

#[test]
fn a_file_says_the_same_as_options_and_options_win() {
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
        ("afr = \"1.9\"\n", "line 1: \"1.9\" has no unit"),
        ("\nraid = 5\n", "line 2: unknown field"),
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
fn an_explanation_has_every_number() {
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
fn nonsense_is_refused_in_one_line() {
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
