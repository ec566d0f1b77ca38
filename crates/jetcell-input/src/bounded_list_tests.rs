use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
struct File {
    #[serde(deserialize_with = "bounded_list::<_, _, 3>")]
    names: Vec<String>,
}

#[test]
fn a_list_has_at_most_the_maximum_number_of_items() {
    let read = |text: &str| serde_json::from_str::<File>(text);
    assert_eq!(read(r#"{"names": ["a", "b", "c"]}"#).unwrap().names, ["a", "b", "c"]);
    assert_eq!(read(r#"{"names": []}"#).unwrap().names.len(), 0);
    let error = read(r#"{"names": ["a", "b", "c", "d"]}"#).unwrap_err().to_string();
    assert!(error.contains("more than 3 items"), "{error}");
    let error = read(r#"{"names": 7}"#).unwrap_err().to_string();
    assert!(error.contains("a list of at most 3 items"), "{error}");
}
