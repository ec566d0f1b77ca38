use super::*;

#[test]
fn control_characters_are_escaped_and_other_text_is_unchanged() {
    assert!(matches!(printable("Größe ± 3 %, 日本"), Cow::Borrowed(_)));
    assert_eq!(
        printable("a\x1b[31mred\x07\r\nPASS\u{9b}2J\u{7f}"),
        "a\\u{1b}[31mred\\u{7}\\r\\nPASS\\u{9b}2J\\u{7f}"
    );
    assert_eq!(printable("exe\u{202e}txt"), "exe\\u{202e}txt");
    assert_eq!(printable_lines("one\n\ttwo\x1b]0;x\x07"), "one\n\ttwo\\u{1b}]0;x\\u{7}");
}

#[test]
fn escaping_already_escaped_text_changes_nothing() {
    let text = printable("a\x1b\u{202e}\n").into_owned();
    assert!(
        matches!(printable(&text), Cow::Borrowed(_)) && matches!(printable_lines(&text), Cow::Borrowed(_))
    );
}

#[test]
fn a_value_cannot_break_the_line_or_column_layout() {
    assert_eq!(format!("{:<6}|{}", Printable("a\nb"), Printable(7)), "a\\nb  |7");
    assert_eq!(printable_rows(["a\nFORGED", "\u{9b}"]), "a\\nFORGED\n\\u{9b}");
}

#[test]
fn json_keeps_values_while_escaping_hidden_characters() {
    let value = ["a\u{9b}\u{202e}\n\u{7f}"];
    for text in [json_line(&value).unwrap(), json_pretty(&value).unwrap()] {
        assert!(!text.contains(['\u{9b}', '\u{202e}', '\u{7f}']), "{text:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&text).unwrap(), value);
    }
}

#[test]
fn hidden_characters_of_json_become_json_escapes() {
    assert_eq!(
        printable_json("{\n\t\"a\u{9b}\": \"\u{7f}\u{202e}\\u001b\"\n}"),
        "{\n\t\"a\\u009b\": \"\\u007f\\u202e\\u001b\"\n}"
    );
    assert!(matches!(printable_json("{\"a\": \"Größe\"}\n"), Cow::Borrowed(_)));
}
