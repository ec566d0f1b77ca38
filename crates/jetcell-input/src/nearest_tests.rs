use super::*;

#[test]
fn the_nearest_word_requires_few_changes() {
    assert_eq!(nearest("thraeds", ["size", "threads", "thresholds"]), Some("threads"));
    assert_eq!(nearest("colour", ["size", "threads"]), None);
    assert_eq!(nearest("ab", ["aa", "bb"]), Some("aa"), "the first of equally similar words");
    assert_eq!(nearest("a", []), None);
}
