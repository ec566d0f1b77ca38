use super::*;

#[test]
fn a_long_text_is_cut_between_characters() {
    assert!(matches!(shortened("日本", 2), Cow::Borrowed("日本")));
    assert_eq!(shortened("日本語", 2), "日…");
    assert_eq!(shortened("abc", 0), "…");
    assert_eq!(shortened(&"é".repeat(1000), 200).chars().count(), 200);
}

#[test]
fn an_error_line_is_shortened_but_keeps_the_position() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {}
    let text = format!("{{\n\"{}\": 1}}", "é\n".repeat(100_000).replace('\n', "\\n"));
    let error = serde_json::from_str::<File>(&text).unwrap_err();
    let line = error_line(&error);
    assert_eq!(line.chars().count(), 300);
    assert!(line.starts_with("unknown field `é") && line.contains('…'), "{line}");
    assert!(line.contains(" at line 2 column ") && !line.contains('\n'), "{line}");
    assert_eq!(error_line(&"one\ntwo"), "one two");
    assert_eq!(shortened_name(&"k".repeat(1_000_000)).chars().count(), 60);
}
