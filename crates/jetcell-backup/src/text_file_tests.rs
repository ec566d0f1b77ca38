use std::collections::BTreeMap;
use std::path::Path;

use jetcell_vfs::SimVfs;

use super::*;

#[test]
fn a_value_that_is_not_json_does_not_replace_the_file() {
    let (vfs, path) = (SimVfs::new(), Path::new("/state.json"));
    write_json(&vfs, path, &["kept"]).unwrap();
    let no_text_key = BTreeMap::from([((1, 2), 3)]);
    assert!(
        write_json(&vfs, path, &no_text_key).is_err() && write_json_line(&vfs, path, &no_text_key).is_err()
    );
    assert_eq!(read(&vfs, path).unwrap().as_deref(), Some("[\n  \"kept\"\n]\n"));
    write_json_line(&vfs, path, &["kept"]).unwrap();
    assert_eq!(read(&vfs, path).unwrap().as_deref(), Some("[\"kept\"]"));
}
