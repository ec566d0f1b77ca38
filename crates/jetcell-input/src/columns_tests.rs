use super::*;

#[test]
fn east_asian_characters_have_two_columns_and_accents_none() {
    assert_eq!(["", "abc", "郵便箱", "e\u{301}", "…"].map(columns), [0, 3, 6, 1, 1]);
}

#[test]
fn text_is_padded_to_columns() {
    assert_eq!(pad("郵便", 6, Align::Left), "郵便  ");
    assert_eq!(pad("郵便", 6, Align::Right), "  郵便");
    assert_eq!(pad("abc", 2, Align::Left), "abc");
}

#[test]
fn text_is_cut_between_characters() {
    assert_eq!(cut("abc", 2), ("ab", "c"));
    assert_eq!(cut("郵便箱", 5), ("郵便", "箱"));
    assert_eq!(cut("ae\u{301}b", 2), ("ae\u{301}", "b"));
    assert_eq!(cut("郵便", 1), ("郵", "便"));
    assert_eq!((cut("ab", 9), cut("", 3)), (("ab", ""), ("", "")));
    // An accent stays with its letter, even in a column that is too narrow.
    assert_eq!(cut("e\u{301}\u{302}b", 1), ("e\u{301}\u{302}", "b"));
    assert_eq!(cut("郵\u{301}便", 1), ("郵\u{301}", "便"));
    // A sequence of emoji is narrower than its characters.
    let scientist = "👩\u{200d}🔬";
    assert_eq!(cut(&format!("{scientist}b"), columns(scientist)), (scientist, "b"));
}
