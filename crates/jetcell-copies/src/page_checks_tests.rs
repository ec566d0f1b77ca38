use ese_engine::DivergenceKind;

use super::ListedDifference;

#[test]
fn kinds_of_differences_are_stored_by_name() {
    let mut kinds: Vec<_> = DivergenceKind::ALL.into_iter().map(ListedDifference::Differs).collect();
    kinds.push(ListedDifference::CopyUnreadable);
    let text = serde_json::to_string(&kinds).unwrap();
    assert_eq!(
        text,
        r#"["active_behind","copy_behind","content_differs","copy_page_empty","active_page_empty","copy_too_short","copy_unreadable"]"#
    );
    assert_eq!(serde_json::from_str::<Vec<ListedDifference>>(&text).unwrap(), kinds);
    assert!(serde_json::from_str::<ListedDifference>("\"equal\"").is_err());
}
