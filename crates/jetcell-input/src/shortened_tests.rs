use super::*;

#[test]
fn a_long_text_is_cut_between_characters() {
    assert!(matches!(shortened("日本", 2), Cow::Borrowed("日本")));
    assert_eq!(shortened("日本語", 2), "日…");
    assert_eq!(shortened("abc", 0), "…");
    assert_eq!(shortened(&"é".repeat(1000), 200).chars().count(), 200);
}
