//! Tests of errors with paths.

use super::*;

#[test]
fn the_path_is_added_and_the_system_error_remains() {
    let error = with_path(Path::new("a.edb"), io::Error::from_raw_os_error(28));
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(error.to_string(), format!("a.edb: {}", io::Error::from_raw_os_error(28)));
    assert_eq!(system_error_number(&error), Some(28));
    let outer = with_path(Path::new("outer"), error);
    assert_eq!(system_error_number(&outer), Some(28));
}

#[test]
fn a_cloned_error_has_the_same_text_and_system_error() {
    let system = || io::Error::from_raw_os_error(28);
    for error in [system(), with_path(Path::new("a.edb"), system()), io::ErrorKind::StorageFull.into()] {
        let clone = clone_io_error(&error);
        assert_eq!((clone.kind(), clone.to_string()), (error.kind(), error.to_string()));
        assert_eq!(system_error_number(&clone), system_error_number(&error));
    }
}

#[test]
fn the_number_of_wrapped_and_shared_errors_is_found() {
    let system = || io::Error::from_raw_os_error(5);
    assert_eq!(system_error_number(&io::Error::other(system())), Some(5));
    assert_eq!(system_error_number(&Arc::new(system())), Some(5));
    assert_eq!(system_error_number(&io::Error::other(Arc::new(system()))), Some(5));
    assert_eq!(system_error_number(&io::Error::other("(os error 5)")), None);
}
