use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{ListenAddress, NbdServer, NbdServerLimits, NbdServerStopper, SharedServerState};
use crate::memory_export::MemoryExport;

struct RunningServer {
    address: ListenAddress,
    stopper: NbdServerStopper,
    thread: JoinHandle<()>,
    notes: Arc<Mutex<Vec<String>>>,
    shared: Arc<SharedServerState>,
}

fn running(address: &ListenAddress, limits: NbdServerLimits) -> RunningServer {
    running_with_size(address, limits, 8192)
}

fn running_with_size(address: &ListenAddress, limits: NbdServerLimits, bytes: usize) -> RunningServer {
    let exports: crate::session::NbdExports = vec![("disk".into(), Arc::new(MemoryExport::new(bytes)))];
    let notes = Arc::new(Mutex::new(vec![]));
    let noted = notes.clone();
    let note = move |text: &str| noted.lock().unwrap().push(text.to_string());
    let server = NbdServer::bind(address, exports, limits, note).unwrap();
    let (address, stopper) = (server.address().unwrap(), server.stopper());
    let shared = server.0.clone();
    RunningServer { address, stopper, thread: thread::spawn(move || server.run()), notes, shared }
}

impl RunningServer {
    fn connect(&self) -> TcpStream {
        let ListenAddress::Tcp(address) = &self.address else { panic!("no TCP") };
        TcpStream::connect(address).unwrap()
    }

    fn stop(self) -> Vec<String> {
        self.stopper.stop();
        self.thread.join().unwrap();
        self.notes.lock().unwrap().clone()
    }
}

fn any_port() -> ListenAddress {
    ListenAddress::Tcp(([127, 0, 0, 1], 0).into())
}

/// Performs the handshake, and a read of one byte.
fn handshake(mut stream: impl std::io::Read + std::io::Write) {
    let mut hello = [0; 18];
    stream.read_exact(&mut hello).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    read(&mut stream);
}

fn read(stream: &mut (impl std::io::Read + std::io::Write)) {
    let request = [&[0x25, 0x60, 0x95, 0x13][..], &[0; 20], &[0, 0, 0, 1]].concat();
    stream.write_all(&request).unwrap();
    let mut reply = [0; 17];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
}

#[test]
fn clients_are_served_until_the_server_stops() {
    let server = running(&any_port(), NbdServerLimits::default());
    let mut streams = [server.connect(), server.connect()];
    streams.iter_mut().for_each(handshake);
    let notes = server.stop();
    assert!(streams.iter_mut().all(|stream| stream.read(&mut [0]).unwrap() == 0));
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn idle_and_excess_clients_are_closed_and_others_stay_connected() {
    let limits = NbdServerLimits {
        connections: 2,
        handshake: Duration::from_millis(200),
        ..NbdServerLimits::default()
    };
    let server = running(&any_port(), limits);
    let mut first = server.connect();
    handshake(&mut first);
    let mut silent = server.connect();
    silent.read_exact(&mut [0; 18]).unwrap();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    let mut second = server.connect();
    handshake(&mut second);
    let mut third = server.connect();
    assert_eq!(third.read(&mut [0; 18]).unwrap_or(0), 0);
    drop(second);
    // A client that is silent between requests remains connected.
    read(&mut first);
    // The connection's place becomes free, either immediately or soon afterwards.
    let begun = std::time::Instant::now();
    while server.connect().read(&mut [0; 18]).unwrap_or(0) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    let notes = server.stop();
    assert!(notes.iter().any(|note| note.contains("did not finish its handshake")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("limit of 2 connections")), "{notes:?}");
}

#[test]
fn a_new_client_evicts_the_oldest_handshake() {
    let limits =
        NbdServerLimits { connections: 4, handshake: Duration::from_secs(600), ..NbdServerLimits::default() };
    let server = running(&any_port(), limits);
    let mut good = server.connect();
    handshake(&mut good);
    let mut silent: Vec<TcpStream> = vec![];
    for _ in 0..20 {
        let mut stream = server.connect();
        stream.read_exact(&mut [0; 18]).unwrap();
        silent.push(stream);
    }
    let mut another = server.connect();
    handshake(&mut another);
    // The newest handshakes remain, as do clients that have chosen an export.
    for stream in &mut silent[..17] {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
    read(&mut good);
    read(&mut another);
    let notes = server.stop();
    assert!(notes.iter().all(|note| note.contains("closed during its handshake")), "{notes:?}");
    assert!(notes.len() >= 17, "{notes:?}");
}

#[test]
fn a_socket_of_another_user_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    if std::os::unix::fs::lchown(&path, Some(12_345), None).is_err() {
        // Only root can change the owner of a file.
        return;
    }
    let exports = vec![("x".into(), Arc::new(MemoryExport::new(1)) as Arc<_>)];
    let refused =
        NbdServer::bind(&ListenAddress::Unix(path.clone()), exports, NbdServerLimits::default(), |_| {});
    let error = refused.err().unwrap();
    assert!(error.to_string().contains("another user") && path.exists(), "{error}");
}

#[test]
fn garbage_closes_only_the_sending_connection_and_is_logged() {
    let server = running(&any_port(), NbdServerLimits::default());
    let mut good = server.connect();
    handshake(&mut good);
    let mut bad = server.connect();
    bad.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = vec![];
    // The remaining data from the client was not read, so the connection may be reset.
    let _ = bad.read_to_end(&mut answer);
    read(&mut good);
    let notes = server.stop();
    assert!(notes.len() == 1 && notes[0].contains("unknown flags 0x47455420"), "{notes:?}");
}

#[test]
fn only_the_socket_of_a_dead_server_is_taken_over() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd socket");
    // A killed server leaves a socket file like this one.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = running(&ListenAddress::Unix(path.clone()), NbdServerLimits::default());
    assert!(server.address.uri("a b").ends_with("nbd%20socket"), "{}", server.address.uri("a b"));
    assert!(server.address.uri("a b").starts_with("nbd+unix:///a%20b?socket=/"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    handshake(UnixStream::connect(&path).unwrap());
    let note = |_: &str| {};
    let exports = || -> crate::session::NbdExports { vec![("x".into(), Arc::new(MemoryExport::new(1)))] };
    let second =
        NbdServer::bind(&ListenAddress::Unix(path.clone()), exports(), NbdServerLimits::default(), note);
    assert_eq!(second.err().unwrap().kind(), std::io::ErrorKind::AddrInUse);
    server.stop();
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    assert!(
        NbdServer::bind(&ListenAddress::Unix(path.clone()), exports(), NbdServerLimits::default(), note)
            .is_err()
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
}

/// Starts several servers at the same time on a socket left over from a dead server. Exactly one of them must listen,
/// and clients must reach it.
#[test]
fn concurrently_started_servers_do_not_steal_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd.sock");
    let exports = || -> crate::session::NbdExports { vec![("x".into(), Arc::new(MemoryExport::new(8192)))] };
    for _ in 0..30 {
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let start = || {
            NbdServer::bind(&ListenAddress::Unix(path.clone()), exports(), NbdServerLimits::default(), |_| {})
        };
        let servers: Vec<NbdServer> = thread::scope(|scope| {
            let started: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            started.into_iter().filter_map(|server| server.join().unwrap().ok()).collect()
        });
        let [server] = &servers[..] else { panic!("{} servers listen", servers.len()) };
        thread::scope(|scope| {
            scope.spawn(|| server.run());
            handshake(UnixStream::connect(&path).unwrap());
            server.stopper().stop();
        });
        assert!(!path.exists());
    }
}

/// Checks that the socket is restricted to its owner even if the process's umask removes no permissions, and that
/// links are not followed.
#[test]
fn socket_mode_and_removal_never_affect_another_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("nbd.sock"), dir.path().join("other"));
    std::fs::write(&other, "other").unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    let exports = || -> crate::session::NbdExports { vec![("x".into(), Arc::new(MemoryExport::new(1)))] };
    let refused =
        NbdServer::bind(&ListenAddress::Unix(path.clone()), exports(), NbdServerLimits::default(), |_| {});
    assert_eq!(refused.err().unwrap().kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(std::fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0o644);
    std::fs::remove_file(&path).unwrap();
    let server = running(&ListenAddress::Unix(path.clone()), NbdServerLimits::default());
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "of another program").unwrap();
    server.stop();
    assert_eq!(std::fs::read(&path).unwrap(), b"of another program");
}

const LARGE: u32 = 32 << 20;

/// Returns the header of a request for the first bytes of a device.
fn header(kind: u8, length: u32) -> Vec<u8> {
    [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, kind][..], &[0; 16], &length.to_be_bytes()].concat()
}

fn wait_until(is_met: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_met() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(1));
    }
}

/// One client stops in the middle of a large request, and another client does not read the reply to its large request.
/// Together, they hold the memory for all large requests.
#[test]
fn clients_stalled_within_requests_cannot_hold_shared_memory() {
    let limits = NbdServerLimits {
        request_bytes: 0,
        stall: Duration::from_millis(200),
        connections: 8,
        ..NbdServerLimits::default()
    };
    let server = running_with_size(&any_port(), limits, LARGE as usize);
    let memory = || &server.shared.memory;
    let all = memory().free();
    let connect = || {
        let mut stream = server.connect();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        handshake(&mut stream);
        stream
    };
    let read_large = |stream: &mut TcpStream| {
        stream.write_all(&header(0, LARGE)).unwrap();
        let mut reply = vec![0; 16 + LARGE as usize];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    };
    let (mut honest, mut sender, mut receiver) = (connect(), connect(), connect());
    for (stuck, request) in
        [(&mut sender, [header(1, LARGE), vec![7; 1 << 20]].concat()), (&mut receiver, header(0, LARGE))]
    {
        stuck.write_all(&request).unwrap();
        wait_until(|| memory().free() < all);
        // No other client needs the memory, and small requests do not use the pool.
        read(&mut honest);
        read_large(&mut honest);
        // The connection may be closed by a reset.
        let _ = stuck.read_to_end(&mut vec![]);
        wait_until(|| memory().free() == all);
    }
    // An idle connection holds no pool memory after its large requests.
    assert_eq!(memory().waiting(), 0);
    read(&mut honest);
    let notes = server.stop();
    assert_eq!(notes.iter().filter(|note| note.contains("other clients need")).count(), 2, "{notes:?}");
}

#[test]
fn many_clients_with_large_requests_share_memory() {
    let limits = NbdServerLimits { request_bytes: 80 << 20, connections: 16, ..NbdServerLimits::default() };
    let server = running_with_size(&any_port(), limits, LARGE as usize);
    let all = server.shared.memory.free();
    assert!(all <= 80 << 20);
    thread::scope(|scope| {
        for client in 0..16u8 {
            let mut stream = server.connect();
            scope.spawn(move || {
                handshake(&mut stream);
                for length in [LARGE / 2, 3 << 20, 5000] {
                    let data = vec![client; length as usize];
                    stream.write_all(&[header(1, length), data].concat()).unwrap();
                    stream.read_exact(&mut [0; 16]).unwrap();
                    stream.write_all(&header(0, length)).unwrap();
                    stream.read_exact(&mut vec![0; 16 + length as usize]).unwrap();
                }
            });
        }
    });
    wait_until(|| server.shared.memory.free() == all);
    assert!(server.stop().is_empty());
}
