//! Tests of private sockets.

use super::*;

#[test]
fn a_socket_of_another_user_is_refused() {
    assert!(refuse_other_owner(7, 7).is_ok());
    // This applies to root too.
    for (owner, user) in [(7, 8), (7, 0), (0, 7)] {
        let error = refuse_other_owner(owner, user).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}

#[test]
fn only_its_owner_can_use_the_socket_of_a_dead_server() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a socket");
    drop(UnixListener::bind(&path).unwrap());
    let socket = PrivateSocket::bind(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(PrivateSocket::bind(&path).err().unwrap().kind(), io::ErrorKind::AddrInUse);
    let _client = UnixStream::connect(&path).unwrap();
    assert!(socket.listener().next(|_| ()).is_some());
    fs::remove_file(&path).unwrap();
    fs::write(&path, "of another program").unwrap();
    drop(socket);
    assert_eq!(fs::read(&path).unwrap(), b"of another program");
    let long = dir.path().join("x".repeat(200));
    assert_eq!(PrivateSocket::bind(&long).err().unwrap().kind(), io::ErrorKind::InvalidInput);
}
