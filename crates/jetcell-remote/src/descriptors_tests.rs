use super::*;

#[test]
fn clients_share_the_system_descriptor_limit() {
    assert_eq!(files_per_client(None, 64).unwrap(), MAX_FILES);
    assert_eq!(files_per_client(Some(1 << 20), 64).unwrap(), MAX_FILES);
    assert_eq!(files_per_client(Some(u64::MAX), 0).unwrap(), MAX_FILES);
    assert_eq!(files_per_client(Some(4096), 64).unwrap(), 29);
    for (limit, clients) in [(1024, 64), (0, 1), (4096, 1024)] {
        let refused = files_per_client(Some(limit), clients).unwrap_err();
        assert!(matches!(refused, ServeError::Descriptors { .. }), "{limit} {clients}");
    }
    for (limit, clients) in [(4096, 1), (65_536, 64), (20_000, 512)] {
        let files = files_per_client(Some(limit), clients).unwrap() as u64;
        assert!(OWN_DESCRIPTORS + clients * (2 * files + 1) <= limit, "{limit} {clients}: {files}");
    }
}
