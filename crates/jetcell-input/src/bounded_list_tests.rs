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

#[derive(Debug, Deserialize)]
struct Table {
    #[serde(deserialize_with = "bounded_map::<_, _, _, 2>")]
    values: BTreeMap<String, u32>,
}

#[test]
fn a_map_has_at_most_the_maximum_number_of_items() {
    let read = |text: &str| serde_json::from_str::<Table>(text);
    assert_eq!(read(r#"{"values": {"a": 1, "b": 2}}"#).unwrap().values.len(), 2);
    for text in [r#"{"values": {"a": 1, "b": 2, "c": 3}}"#, r#"{"values": {"a": 1, "a": 2, "a": 3}}"#] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains("more than 2 items"), "{error}");
    }
    let error = read(r#"{"values": []}"#).unwrap_err().to_string();
    assert!(error.contains("a map of at most 2 items"), "{error}");
}
