use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Site {
    size: u32,
    #[serde(default)]
    disk: Vec<Disk>,
    #[serde(default)]
    names: BTreeMap<String, bool>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Disk {
    watts: f64,
}

fn advised(error: &TomlError) -> String {
    crate::with_advice(error, error.advice())
}

fn mistake(text: &str) -> String {
    let line = advised(&parse::<Site>("a.toml", text).unwrap_err());
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn an_error_names_the_source_line_and_key() {
    for (text, expected) in [
        ("size = 1\nsise = 3\n", "a.toml, line 2: unknown key 'sise'; the nearest known key is 'size'"),
        ("size = 1\n\ncolour = 3", "a.toml, line 3: unknown key 'colour'; known keys: size, disk, names"),
        (
            "size = 1\n[[disk]]\nwats = 3",
            "a.toml, line 3: unknown key 'wats'; the nearest known key is 'watts'",
        ),
        ("size = 1\n[[disk]]\n[names]", "a.toml, line 2: missing key 'disk.watts'"),
        ("[names]\na = true\n", "a.toml, line 1: missing key 'size'"),
        (
            "size = 1\n[[disk]]\nwatts = true",
            "a.toml, line 3: disk.watts: invalid type: boolean `true`, expected a number in its valid range",
        ),
        (
            "size = 1\n[names]\n\"a`b\" = 1",
            "a.toml, line 3: names.a`b: invalid type: integer `1`, expected true or false",
        ),
        ("size = 1\n\"a`, expected `b\" = 1", "a.toml, line 2: unknown key 'a`, expected `b'; known keys"),
        ("\"a\\nb\" = 3", "a.toml, line 1: unknown key 'a b'; known keys"),
        ("disk = [3]", "a.toml, line 1: disk: invalid type: integer `3`, expected a table"),
    ] {
        let found = mistake(text);
        assert!(found.starts_with(expected), "{text:?}: {found}");
    }
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_line() {
    let deep = format!("size = {}", "[".repeat(200_000));
    for text in ["size", "size = ", "= 4", "size = 1\nsize = 2", "\u{1b}[2J", "\0", &deep] {
        assert!(mistake(text).starts_with("a.toml, line "), "{text:?}");
    }
    assert!(mistake("size = 1\r\n\r\nsize =").starts_with("a.toml, line 3: "));
}

#[test]
fn a_byte_order_mark_is_ignored() {
    assert_eq!(parse::<Site>("a", "\u{feff}size = 1").unwrap().size, 1);
    assert!(mistake("\u{feff}size = 1\nsise = 2").contains("line 2: unknown key 'sise'"));
}

#[test]
fn every_unknown_key_is_reported_with_the_table_of_the_nearest() {
    let example = "size = 1\n[names]\nadmin = true\n[other]\nround = 1\n";
    let text = "sise = 1\n[names]\nadmn = true\nronud = 2\nsize = 3\nx = 1\n";
    let found = parse_with_example::<Site>("a", text, example).unwrap_err();
    let found: Vec<_> = found.iter().map(advised).collect();
    assert_eq!(
        found,
        [
            "a, line 1: unknown key 'sise'; the nearest known key is 'size'",
            "a, line 3: unknown key 'admn'; the nearest known key is 'admin'",
            "a, line 4: unknown key 'ronud'; the nearest known key is 'round' in [other]",
            "a, line 5: unknown key 'size'; the nearest known key is 'size', which belongs before the first [table]",
            "a, line 6: unknown key 'x'; known keys: admin",
        ]
    );
    assert_eq!(parse_with_example::<Site>("a", "size = 1", example).unwrap().size, 1);
}

#[test]
fn the_kind_of_a_mistake_is_typed() {
    let error = parse::<Site>("a", "disk = []").unwrap_err();
    assert_eq!((error.line(), error.key(), error.mistake()), (Some(1), "size", &TomlErrorKind::MissingKey));
    assert_eq!(error.advice().as_deref(), Some("correct this line"));
}

#[derive(Debug)]
struct Skew;

impl<'de> Deserialize<'de> for Skew {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Skew, D::Error> {
        let text = String::deserialize(deserializer)?;
        let problem = format!("could not parse '{text}' as a skew");
        Err(serde::de::Error::custom(crate::with_advice(problem, Some("use uniform"))))
    }
}

#[test]
fn the_advice_of_a_value_is_what_follows_the_last_separator() {
    let error = parse::<BTreeMap<String, Skew>>("a", "skew = 'a; b'").unwrap_err();
    let TomlErrorKind::InvalidValue { reason, advice } = error.mistake() else { panic!("{error}") };
    assert_eq!(
        (reason.as_str(), advice.as_deref()),
        ("could not parse 'a; b' as a skew", Some("use uniform"))
    );
}

#[test]
fn an_empty_text_is_refused_even_if_no_key_is_required() {
    #[derive(Debug, Deserialize)]
    struct Optional {
        size: Option<u32>,
    }
    let expected = "a.toml: the file is empty; specify a file with at least one setting";
    for text in ["", "\u{feff}", " \n\t\n"] {
        assert_eq!(advised(&parse::<Optional>("a.toml", text).unwrap_err()), expected, "{text:?}");
        let errors = parse_with_example::<Optional>("a.toml", text, "size = 1").unwrap_err();
        assert_eq!(errors.iter().map(advised).collect::<Vec<_>>(), [expected], "{text:?}");
    }
    assert_eq!(parse::<Optional>("a.toml", "size = 1").unwrap().size, Some(1));
    assert_eq!(parse::<Optional>("a.toml", "# size = 1\n").unwrap().size, None);
    assert_eq!(mistake(""), "a.toml, line 1: missing key 'size'; correct this line");
}
