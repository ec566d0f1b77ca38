use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use ese_format::header::DatabaseHeader;
use ese_format::{LogTime, PageSize, Signature};
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, RealOptions, RealVfs, Vfs};
use testkit::certificates::{make_authority, make_certificate};

use super::*;
use crate::address::HostAddress;
use crate::connector::ClientLimits;
use crate::error::RemoteError;
use crate::exports::AccessToken;
use crate::host::RemoteOptions;
use crate::remote_vfs::RemoteVfs;
use crate::request::{RemoteRequest, VERSION};
use crate::tls::ClientTlsFiles;

const TOKEN: &str = "0123456789abcdef";

fn token() -> AccessToken {
    AccessToken::from_text(TOKEN).unwrap()
}

/// Returns a 3 MiB database.
fn database() -> Vec<u8> {
    let signature = Signature::new(7, LogTime::NONE);
    let mut bytes = DatabaseHeader::for_new_database(PageSize::KIB_4, signature, signature).encode().to_vec();
    bytes.resize(3 << 20, 3);
    bytes
}

fn confined(directory: &Path) -> Arc<dyn Vfs> {
    Arc::new(RealVfs::new(RealOptions::default()).unwrap().confined_to(directory).unwrap())
}

struct TestServer {
    _directory: tempfile::TempDir,
    address: SocketAddr,
    stopper: RemoteServerStopper,
    thread: Option<thread::JoinHandle<()>>,
}

impl TestServer {
    fn start(tls: Option<&ServerTlsFiles>, limits: ServerLimits) -> TestServer {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("data.edb"), database()).unwrap();
        std::fs::write(directory.path().join("E00.lock"), "").unwrap();
        let vfs = confined(directory.path());
        let named = vec![("app".to_string(), directory.path().to_path_buf())];
        let mut exports = ExportedDirectories::new(vfs, token(), "db1".into(), named).unwrap();
        exports.allow_handover = true;
        let server = RemoteServer::bind(([127, 0, 0, 1], 0).into(), exports, tls, limits, |_| ()).unwrap();
        let (address, stopper) = (server.address(), server.stopper());
        TestServer {
            _directory: directory,
            address,
            stopper,
            thread: Some(thread::spawn(move || server.run())),
        }
    }

    fn host(&self, scheme: &str, name: &str) -> (HostAddress, PathBuf) {
        let path = PathBuf::from(format!("{scheme}://{name}:{}/app", self.address.port()));
        (HostAddress::from_path(&path).unwrap().unwrap(), path)
    }

    fn client(
        &self,
        scheme: &str,
        name: &str,
        files: &ClientTlsFiles,
        token: AccessToken,
    ) -> (RemoteVfs, PathBuf) {
        let (address, path) = self.host(scheme, name);
        let limits = ClientLimits { reply_timeout: Duration::from_secs(5), ..ClientLimits::default() };
        let options = RemoteOptions { limits, ..RemoteOptions::new(token) };
        (RemoteVfs::new(&address, files, options).unwrap(), path)
    }

    fn plain(&self) -> (RemoteVfs, PathBuf) {
        self.client("tcp", "127.0.0.1", &ClientTlsFiles::default(), token())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A certificate authority, with certificates for a server on `localhost` and for a client.
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn new() -> Certificates {
        let made = Certificates(tempfile::tempdir().unwrap());
        make_authority(made.0.path(), "ca");
        for name in ["server", "client"] {
            make_certificate(made.0.path(), "ca", name, "DNS:localhost");
        }
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn server(&self, demands_clients: bool) -> ServerTlsFiles {
        let client_authorities = demands_clients.then(|| self.path("ca.pem"));
        ServerTlsFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_authorities,
        }
    }

    fn client(&self, with_own: bool) -> ClientTlsFiles {
        let certificate = with_own.then(|| (self.path("client.pem"), self.path("client.key")));
        ClientTlsFiles { authorities: Some(self.path("ca.pem")), certificate }
    }
}

fn read(vfs: &RemoteVfs, path: &Path) -> io::Result<bool> {
    let file = vfs.open(path, OpenMode::Read)?;
    let mut bytes = IoBuffer::zeroed(file.len()? as usize);
    file.read_at(0, &mut bytes, IoReason::Backup)?;
    Ok(bytes[..] == database()[..])
}

/// Waits until a counter is nonzero and returns it. The server may detect the end of a connection later than its
/// client.
fn counted(server: &TestServer, of: impl Fn(&ServerCounters) -> u64) -> u64 {
    let began = Instant::now();
    while of(&server.stopper.counts()) == 0 && began.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(5));
    }
    of(&server.stopper.counts())
}

#[test]
fn files_are_served_over_tls_to_trusted_clients_only() {
    let certificates = Certificates::new();
    let server = TestServer::start(Some(&certificates.server(false)), ServerLimits::default());
    let (vfs, path) = server.client("tls", "localhost", &certificates.client(false), token());
    assert_eq!(vfs.connect().unwrap().host, "db1");
    assert!(read(&vfs, &path.join("data.edb")).unwrap());
    let refusal = |name: &str, files: &ClientTlsFiles, token: AccessToken| {
        server.client("tls", name, files, token).0.connect().unwrap_err()
    };
    let other = AccessToken::from_text("an other token of this length").unwrap();
    assert!(matches!(refusal("localhost", &certificates.client(false), other), RemoteError::Token));
    let strangers = Certificates::new();
    let unknown = refusal("localhost", &strangers.client(false), token());
    assert!(matches!(unknown, RemoteError::Certificate(_)), "{unknown:?}");
    let other_name = refusal("127.0.0.1", &certificates.client(false), token());
    assert!(matches!(other_name, RemoteError::HostName(name) if name == "127.0.0.1"));
    // Without TLS on the client, the server's handshake bytes are not a valid reply.
    let (vfs, _) = server.plain();
    let error = vfs.connect().unwrap_err();
    assert!(matches!(error, RemoteError::Protocol(_) | RemoteError::Unreachable(_)), "{error:?}");
    assert_eq!(counted(&server, |counts| counts.wrong_token), 1);
    assert!(counted(&server, |counts| counts.failed_handshakes) >= 1);
}

#[test]
fn a_server_may_require_client_certificates() {
    let certificates = Certificates::new();
    let server = TestServer::start(Some(&certificates.server(true)), ServerLimits::default());
    let (vfs, path) = server.client("tls", "localhost", &certificates.client(true), token());
    assert!(read(&vfs, &path.join("data.edb")).unwrap());
    let (vfs, _) = server.client("tls", "localhost", &certificates.client(false), token());
    assert!(matches!(vfs.connect().unwrap_err(), RemoteError::ClientCertificate));
    let strangers = Certificates::new();
    let files = ClientTlsFiles { authorities: Some(certificates.path("ca.pem")), ..strangers.client(true) };
    let (vfs, _) = server.client("tls", "localhost", &files, token());
    assert!(matches!(vfs.connect().unwrap_err(), RemoteError::ClientCertificate));
}

#[test]
fn a_reconnected_client_detects_the_lost_lock() {
    let server = TestServer::start(None, ServerLimits::default());
    let (vfs, path) = server.plain();
    let cut = || server.stopper.0.connections.lock().close_all();
    let file = vfs.open(&path.join("data.edb"), OpenMode::Read).unwrap();
    cut();
    assert_eq!(file.len().unwrap_err().kind(), ErrorKind::NotConnected);
    assert!(read(&vfs, &path.join("data.edb")).unwrap());
    assert_eq!(file.len().unwrap_err().kind(), ErrorKind::NotConnected, "a file is lost with its connection");
    let lock = vfs.lock(&path.join("E00.lock")).unwrap();
    let (other, _) = server.plain();
    assert_eq!(other.lock(&path.join("E00.lock")).err().unwrap().kind(), ErrorKind::WouldBlock);
    cut();
    for _ in 0..2 {
        let error = vfs.list(&path).unwrap_err();
        assert!(error.to_string().contains("the lock on the server was released"), "{error}");
    }
    // Another client can acquire the lock before this client has dropped it.
    let began = Instant::now();
    let taken = loop {
        match other.lock(&path.join("E00.lock")) {
            Ok(lock) => break lock,
            Err(_) if began.elapsed() < Duration::from_secs(5) => thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    };
    drop(lock);
    assert_eq!(vfs.list(&path).unwrap().len(), 2);
    drop(taken);
    assert!(vfs.lock(&path.join("E00.lock")).is_ok());
}

#[test]
fn silent_clients_lose_locks_and_keepalives_retain_locks() {
    let limits = ServerLimits { idle_timeout: Duration::from_millis(1000), ..ServerLimits::default() };
    let server = TestServer::start(None, limits);
    let (address, path) = server.host("tcp", "127.0.0.1");
    let client = |keep_alive| {
        let limits = ClientLimits { keepalive_interval: keep_alive, ..ClientLimits::default() };
        let options = RemoteOptions { limits, ..RemoteOptions::new(token()) };
        RemoteVfs::new(&address, &ClientTlsFiles::default(), options).unwrap()
    };
    let (alive, silent) = (client(Some(Duration::from_millis(100))), client(None));
    let _kept = alive.lock(&path.join("E00.lock")).unwrap();
    let _lost = silent.lock(&path.join("data.edb")).unwrap();
    // The server releases a lock if its client sends nothing.
    let began = Instant::now();
    let taken = loop {
        match alive.lock(&path.join("data.edb")) {
            Ok(lock) => break lock,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(20), "{error}"),
        }
        thread::sleep(Duration::from_millis(50));
    };
    assert!(silent.list(&path).is_err());
    drop(taken);
}

#[test]
fn a_server_that_stops_responding_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = PathBuf::from(format!("tcp://127.0.0.1:{}/app", listener.local_addr().unwrap().port()));
    let address = HostAddress::from_path(&path).unwrap().unwrap();
    let limits = ClientLimits { connect_timeout: Duration::from_millis(300), ..ClientLimits::default() };
    let options = RemoteOptions { limits, ..RemoteOptions::new(token()) };
    let vfs = RemoteVfs::new(&address, &ClientTlsFiles::default(), options).unwrap();
    let began = Instant::now();
    assert!(vfs.connect().unwrap_err().is_temporary());
    // After a failed attempt, the next one is delayed. An unreachable host therefore does not cause a connection
    // timeout for every request.
    let error = vfs.list(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn garbage_is_counted_and_the_connection_closed() {
    let server = TestServer::start(None, ServerLimits::default());
    let hello = |version, token: &[u8]| {
        let mut frame = Vec::new();
        write_frame(&mut frame, 1, &RemoteRequest::Hello { version, token: token.to_vec() }.encode())
            .unwrap();
        frame
    };
    let greeted = [hello(VERSION, TOKEN.as_bytes()), u32::MAX.to_le_bytes().to_vec()].concat();
    let pieces = [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xFF; 5000], vec![0; 100], greeted];
    for bytes in &pieces {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        // The stream ends, or is reset because the server did not read all bytes.
        assert!(stream.read_to_end(&mut answer).is_ok() || answer.len() < 100);
    }
    let began = Instant::now();
    while server.stopper.counts().malformed < pieces.len() as u64 && began.elapsed() < Duration::from_secs(5)
    {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.stopper.counts().malformed, pieces.len() as u64);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(&hello(VERSION + 1, b"x")).unwrap();
    let (_, reply) = read_frame(&mut stream, 4096).unwrap().unwrap();
    let version = RemoteReply::Failed { kind: ErrorKind::Unsupported, what: VERSION.to_string() };
    assert_eq!(RemoteReply::decode(&reply).unwrap(), version);
    let (vfs, path) = server.plain();
    assert!(read(&vfs, &path.join("data.edb")).unwrap(), "other clients are served");
}

#[test]
fn slow_clients_are_closed() {
    let limits = ServerLimits { handshake_timeout: Duration::from_millis(1500), ..ServerLimits::default() };
    let server = TestServer::start(None, limits);
    let slow = [(); 2].map(|()| TcpStream::connect(server.address).unwrap());
    // The connection is closed even if the client keeps sending one byte at a time.
    let began = Instant::now();
    while counted(&server, |counts| counts.failed_handshakes) < 2 && began.elapsed() < Duration::from_secs(15)
    {
        let _ = (&slow[0]).write_all(&[1]);
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.stopper.counts().failed_handshakes, 2);
}

#[test]
fn unauthenticated_connections_do_not_block_a_copy() {
    // The timeout is long enough that no idle connection expires during the test.
    let limits = ServerLimits {
        connections: 2,
        handshake_timeout: Duration::from_secs(600),
        ..ServerLimits::default()
    };
    let server = TestServer::start(None, limits);
    let idle: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let (vfs, path) = server.plain();
    assert!(read(&vfs, &path.join("data.edb")).unwrap());
    let more: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert!(vfs.list(&path).is_ok(), "a client with the token is not ended for others");
    // The oldest connections were closed, so reading from them returns immediately.
    for mut stream in idle {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert!(!matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock));
    }
    assert!(server.stopper.counts().rejected >= 100);
    drop(more);
}

#[test]
fn authenticated_clients_have_a_separate_limit() {
    let limits = ServerLimits { connections: 2, ..ServerLimits::default() };
    let server = TestServer::start(None, limits);
    let clients = [(); 2].map(|()| server.plain().0);
    assert!(clients.iter().all(|vfs| vfs.connect().is_ok()));
    assert!(server.plain().0.connect().unwrap_err().is_temporary());
    assert_eq!(counted(&server, |counts| counts.rejected), 1);
}

#[test]
fn client_and_server_enforce_rate_limits() {
    let limits = ServerLimits { rate: Some(12 << 20), ..ServerLimits::default() };
    let server = TestServer::start(None, limits);
    let (address, path) = server.host("tcp", "127.0.0.1");
    let time = |rate| {
        let options = RemoteOptions { rate, ..RemoteOptions::new(token()) };
        let vfs = RemoteVfs::new(&address, &ClientTlsFiles::default(), options).unwrap();
        let began = Instant::now();
        assert!(read(&vfs, &path.join("data.edb")).unwrap());
        began.elapsed()
    };
    // The rate limit does not delay the last chunk, so the server delays two of the three chunks. The client delays
    // all bytes beyond the first quarter of a second's allowance.
    let (server_only, client_too) = (time(None), time(Some(4 << 20)));
    assert!(server_only >= Duration::from_millis(160), "{server_only:?}");
    assert!(client_too >= Duration::from_millis(450), "{client_too:?}");
}

#[test]
fn a_server_without_tls_listens_on_loopback_only() {
    let exports = ExportedDirectories::new(
        confined(Path::new("/")),
        token(),
        "db1".into(),
        vec![("app".into(), "/".into())],
    );
    let exports = exports.unwrap();
    let bound = RemoteServer::bind(([0, 0, 0, 0], 0).into(), exports, None, ServerLimits::default(), |_| ());
    assert!(matches!(bound.err(), Some(ServeError::Unsecured(_))));
    let address = HostAddress::from_path(Path::new("tcp://192.0.2.1:1/app")).unwrap().unwrap();
    let vfs = RemoteVfs::new(&address, &ClientTlsFiles::default(), RemoteOptions::new(token())).unwrap();
    assert!(matches!(vfs.connect().unwrap_err(), RemoteError::Unencrypted(_)));
}

#[test]
fn garbage_from_a_server_is_a_client_error() {
    let frame = |message: &[u8]| {
        let mut frame = Vec::new();
        write_frame(&mut frame, 1, message).unwrap();
        frame
    };
    let welcome = RemoteReply::Welcome { allows_handover: false, host: "x".into() };
    for answer in [
        vec![0xFF; 5000],
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        frame(&[99]),
        frame(&RemoteReply::Handle(1).encode()),
        // The request after the greeting receives the wrong reply.
        [frame(&welcome.encode()), frame(&RemoteReply::Done.encode())].concat(),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let path = PathBuf::from(format!("tcp://127.0.0.1:{}/app", listener.local_addr().unwrap().port()));
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(&answer);
            let mut rest = [0; 4096];
            while stream.read(&mut rest).is_ok_and(|came| came > 0) {}
        });
        let address = HostAddress::from_path(&path).unwrap().unwrap();
        let limits = ClientLimits { connect_timeout: Duration::from_secs(2), ..ClientLimits::default() };
        let options = RemoteOptions { limits, ..RemoteOptions::new(token()) };
        let vfs = RemoteVfs::new(&address, &ClientTlsFiles::default(), options).unwrap();
        assert!(vfs.list(&path).is_err());
        drop(vfs);
        server.join().unwrap();
    }
}
