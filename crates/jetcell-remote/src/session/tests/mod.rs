//! Tests of session requests: files, names, permissions, and locks.

use std::collections::BTreeSet;

use ese_engine::CopyRegistration;
use ese_format::header::DatabaseHeader;
use ese_format::{Generation, LogTime, PageSize, Signature};
use jetcell_vfs::{FileStem, RealOptions, RealVfs, SimVfs, Vfs};
use proptest::prelude::*;

use super::*;
use crate::exports::AccessToken;

mod hostile;

const TOKEN: &str = "0123456789abcdef";

fn exports(vfs: Arc<dyn Vfs>, directory: &Path, allow_handover: bool) -> Arc<ExportedDirectories> {
    let named = vec![("app".to_string(), directory.to_path_buf())];
    let mut exports =
        ExportedDirectories::new(vfs, AccessToken::from_text(TOKEN).unwrap(), "db1".into(), named).unwrap();
    exports.allow_handover = allow_handover;
    Arc::new(exports)
}

/// Returns the start of a database, followed by more bytes.
fn database() -> Vec<u8> {
    let signature = Signature::new(7, LogTime::NONE);
    let header = DatabaseHeader::for_new_database(PageSize::KIB_4, signature, signature);
    let mut bytes = header.encode().to_vec();
    bytes.resize(8192, 3);
    bytes
}

/// Returns a registration in the format that a copy stores.
fn registration(id: &str) -> Vec<u8> {
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/log")).unwrap();
    let stored = CopyRegistration {
        id: id.to_string(),
        stream: Signature::new(7, LogTime::NONE),
        needs: Generation(5),
        contact_unix_ms: 1,
        copy: "/copy".to_string(),
        waiting: None,
        host: None,
        unreadable_since: None,
    };
    stored.store(&disk, Path::new("/log"), FileStem::E00).unwrap();
    disk.contents(&Path::new("/log").join(format!("E00-{id}.copy"))).unwrap()
}

/// Returns a disk with the files of an instance and another directory.
fn disk() -> SimVfs {
    let disk = SimVfs::new();
    for directory in ["/app", "/app/incoming", "/app/diverged", "/other"] {
        disk.create_directory(Path::new(directory)).unwrap();
    }
    for (path, byte) in [
        ("/app/E00.log", 1),
        ("/app/E0000000001.log", 2),
        ("/app/E00.lock", 4),
        ("/app/incoming/streamed.log", 5),
        ("/app/diverged/E0000000001.log", 6),
        ("/other/secret", 7),
    ] {
        disk.put(Path::new(path), &[byte; 8192]);
    }
    disk.put(Path::new("/app/data.edb"), &database());
    disk.put(Path::new("/app/token"), b"0123456789abcdef");
    disk.put(Path::new("/app/incoming/key"), &[8; 4096]);
    disk
}

fn greeted(exports: &Arc<ExportedDirectories>) -> ServerSession {
    let mut session = ServerSession::new(exports);
    let hello = RemoteRequest::Hello { version: VERSION, token: TOKEN.into() };
    assert!(matches!(session.process(&hello.encode()).reply, RemoteReply::Welcome { .. }));
    session
}

fn ask(session: &mut ServerSession, request: &RemoteRequest) -> Result<RemoteReply, ErrorKind> {
    let answer = session.process(&request.encode());
    assert!(answer.disconnect_reason.is_none());
    match answer.reply {
        RemoteReply::Failed { kind, .. } => Err(kind),
        reply => Ok(reply),
    }
}

fn place(file: &str) -> RemotePath {
    RemotePath { directory: "app".into(), file: file.into() }
}

fn open(session: &mut ServerSession, file: &str, mode: OpenMode) -> Result<u32, ErrorKind> {
    match ask(session, &RemoteRequest::Open { place: place(file), mode })? {
        RemoteReply::Handle(handle) => Ok(handle),
        reply => panic!("{reply:?}"),
    }
}

fn write(session: &mut ServerSession, file: u32, offset: u64, data: &[u8]) -> Result<RemoteReply, ErrorKind> {
    ask(session, &RemoteRequest::Write { file, offset, data: data.to_vec() })
}

fn lock(session: &mut ServerSession, file: &str) -> Result<u32, ErrorKind> {
    match ask(session, &RemoteRequest::Lock { place: place(file) })? {
        RemoteReply::Handle(handle) => Ok(handle),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn requests_without_the_token_get_no_reply() {
    let exports = exports(Arc::new(disk()), Path::new("/app"), true);
    let mut session = ServerSession::new(&exports);
    assert_eq!(session.max_frame_len(), MAX_GREETING);
    let list = RemoteRequest::List { directory: place(""), after: String::new() };
    assert_eq!(session.process(&list.encode()).disconnect_reason, Some(DisconnectReason::Malformed));
    for token in ["", "0123456789abcdeX", "0123456789abcdef0"] {
        let mut session = ServerSession::new(&exports);
        let answer =
            session.process(&RemoteRequest::Hello { version: VERSION, token: token.into() }.encode());
        assert_eq!(answer.disconnect_reason, Some(DisconnectReason::WrongToken), "{token}");
        assert!(!session.is_authenticated());
    }
    // The version is checked first, because other versions may use another greeting.
    let mut session = ServerSession::new(&exports);
    let answer = session.process(&RemoteRequest::Hello { version: VERSION + 1, token: Vec::new() }.encode());
    assert_eq!(answer.disconnect_reason, Some(DisconnectReason::WrongVersion));
    assert_eq!(
        ServerSession::new(&exports).process(b"GET / HTTP/1.1\r\n").disconnect_reason,
        Some(DisconnectReason::Malformed)
    );
}

#[test]
fn files_are_read_and_listed() {
    let exports = exports(Arc::new(disk()), Path::new("/app"), false);
    let session = &mut greeted(&exports);
    let file = open(session, "E00.log", OpenMode::Read).unwrap();
    assert_eq!(ask(session, &RemoteRequest::Length { file }), Ok(RemoteReply::Number(8192)));
    let read = |offset, len| RemoteRequest::Read { file, offset, len };
    assert_eq!(ask(session, &read(4096, 4096)), Ok(RemoteReply::Bytes(vec![1; 4096])));
    assert_eq!(ask(session, &read(8192, 4096)), Err(ErrorKind::UnexpectedEof));
    assert_eq!(ask(session, &read(0, MAX_CHUNK as u32 + 1)), Err(ErrorKind::InvalidInput));
    assert_eq!(ask(session, &read(u64::MAX, 4096)), Err(ErrorKind::InvalidInput));
    assert_eq!(ask(session, &RemoteRequest::Sync { file }), Ok(RemoteReply::Done));
    assert_eq!(ask(session, &RemoteRequest::Close { file }), Ok(RemoteReply::Done));
    assert_eq!(ask(session, &read(0, 4096)), Err(ErrorKind::InvalidInput));
    let incoming = open(session, "incoming/streamed.log", OpenMode::Read).unwrap();
    assert_ne!(incoming, file);
    let Ok(RemoteReply::Names { names, more: false }) =
        ask(session, &RemoteRequest::List { directory: place(""), after: "E00.lock".into() })
    else {
        panic!()
    };
    assert_eq!(
        names,
        ["E00.log", "E0000000001.log", "data.edb"]
            .into_iter()
            .filter(|name| *name > "E00.lock")
            .collect::<Vec<_>>()
    );
    let exists = |file: &str| RemoteRequest::Exists { place: place(file) };
    assert_eq!(ask(session, &exists("data.edb")), Ok(RemoteReply::Flag(true)));
    assert_eq!(ask(session, &exists("none")), Ok(RemoteReply::Flag(false)));
    assert_eq!(ask(session, &exists("")), Ok(RemoteReply::Flag(true)));
}

#[test]
fn no_requested_name_escapes_the_directory() {
    let exports = exports(Arc::new(disk()), Path::new("/app"), true);
    let session = &mut greeted(&exports);
    for file in [
        "../other/secret",
        "..",
        "/other/secret",
        "incoming/../../other/secret",
        "incoming/incoming/x",
        "diverged/E0000000001.log",
        "incoming",
        "./E00.log",
        "E00.log/",
        "E00.log\0",
        "",
    ] {
        let place = place(file);
        let requests = [
            RemoteRequest::Open { place: place.clone(), mode: OpenMode::Read },
            RemoteRequest::Remove { place: place.clone() },
            RemoteRequest::Rename { from: place.clone(), to: "E00-a.copy".into() },
            RemoteRequest::Rename { from: self::place("E00.log"), to: file.into() },
            RemoteRequest::Lock { place: place.clone() },
        ];
        for request in requests {
            assert!(ask(session, &request).is_err(), "{request:?}");
        }
    }
    for directory in ["", "other", "..", "/app", "app/incoming"] {
        let place = RemotePath { directory: directory.into(), file: "data.edb".into() };
        assert_eq!(ask(session, &RemoteRequest::Open { place, mode: OpenMode::Read }), Err(ErrorKind::Other));
    }
    for directory in ["..", "diverged", "E00.log"] {
        let request = RemoteRequest::List { directory: place(directory), after: String::new() };
        assert_eq!(ask(session, &request), Err(ErrorKind::PermissionDenied), "{directory}");
    }
}

#[test]
fn clients_can_write_messages_only() {
    let disk = disk();
    let exports = exports(Arc::new(disk.clone()), Path::new("/app"), false);
    let session = &mut greeted(&exports);
    let file = open(session, "E00-a1.copy-new", OpenMode::CreateNew).unwrap();
    assert_eq!(write(session, file, 0, &registration("a1")), Ok(RemoteReply::Done));
    assert_eq!(write(session, file, 64 << 10, &[9; 4096]), Err(ErrorKind::PermissionDenied), "too long");
    assert_eq!(write(session, file, u64::MAX, &[9; 4096]), Err(ErrorKind::PermissionDenied));
    let rename = RemoteRequest::Rename { from: place("E00-a1.copy-new"), to: "E00-a1.copy".into() };
    assert_eq!(ask(session, &rename), Ok(RemoteReply::Done));
    assert_eq!(disk.contents(Path::new("/app/E00-a1.copy")).unwrap(), registration("a1"));
    assert_eq!(ask(session, &RemoteRequest::Remove { place: place("E00-a1.copy") }), Ok(RemoteReply::Done));
    for name in ["x.edb", "E00.log", "copy.json", "copy.json.unfinished", "E00-a1.copy", "E0000000009.log"] {
        assert_eq!(open(session, name, OpenMode::CreateNew), Err(ErrorKind::PermissionDenied), "{name}");
    }
    for name in ["data.edb", "E00.log", "E0000000001.log"] {
        assert_eq!(open(session, name, OpenMode::Write), Err(ErrorKind::PermissionDenied), "{name}");
        let remove = RemoteRequest::Remove { place: place(name) };
        assert_eq!(ask(session, &remove), Err(ErrorKind::PermissionDenied), "{name}");
    }
    let read = open(session, "data.edb", OpenMode::Read).unwrap();
    assert_eq!(write(session, read, 0, &[0; 4096]), Err(ErrorKind::PermissionDenied));
    let log = RemoteRequest::Rename { from: place("E00.log"), to: "E0000000002.log".into() };
    // Even with the lock, a server that does not allow handovers refuses the change.
    for _ in 0..2 {
        assert_eq!(ask(session, &log), Err(ErrorKind::PermissionDenied));
        let _ = lock(session, "E00.lock");
    }
    assert_eq!(lock(session, "E01.lock"), Err(ErrorKind::PermissionDenied), "a lock creates nothing");
}

#[test]
fn a_handover_requires_the_log_lock() {
    let disk = disk();
    let exports = exports(Arc::new(disk.clone()), Path::new("/app"), true);
    let session = &mut greeted(&exports);
    let changes = [
        RemoteRequest::Open { place: place("copy.json.unfinished"), mode: OpenMode::CreateNew },
        RemoteRequest::Open { place: place("E00.log"), mode: OpenMode::Write },
        RemoteRequest::Rename { from: place("E00.log"), to: "E0000000002.log".into() },
        RemoteRequest::Remove { place: place("E00.log") },
    ];
    for change in &changes {
        assert_eq!(ask(session, change), Err(ErrorKind::PermissionDenied), "{change:?}");
    }
    lock(session, "data.edb").unwrap();
    assert_eq!(ask(session, &changes[2]), Err(ErrorKind::PermissionDenied), "another lock");
    let log_name = Path::new("/app/E0000000002.log");
    let held = lock(session, "E00.lock").unwrap();
    let log = open(session, "E00.log", OpenMode::Write).unwrap();
    assert_eq!(write(session, log, 4096, &[8; 4096]), Ok(RemoteReply::Done));
    assert_eq!(write(session, log, 8192, &[8; 4096]), Err(ErrorKind::PermissionDenied), "it does not grow");
    let onto = RemoteRequest::Rename { from: place("E00.log"), to: "E0000000001.log".into() };
    assert_eq!(ask(session, &onto), Err(ErrorKind::AlreadyExists), "a closed log is not replaced");
    let closed = RemoteRequest::Remove { place: place("E0000000001.log") };
    assert_eq!(ask(session, &closed), Err(ErrorKind::PermissionDenied));
    assert_eq!(ask(session, &changes[2]), Ok(RemoteReply::Done));
    let closed = disk.contents(log_name).unwrap();
    assert_eq!(write(session, log, 0, &[6; 4096]), Err(ErrorKind::PermissionDenied), "it is closed now");
    assert_eq!(disk.contents(log_name).unwrap(), closed);
    let state = open(session, "copy.json.unfinished", OpenMode::CreateNew).unwrap();
    assert_eq!(write(session, state, 0, b"{}"), Ok(RemoteReply::Done));
    ask(session, &RemoteRequest::Unlock { lock: held }).unwrap();
    // Files that were opened under the lock cannot be written without it.
    assert_eq!(write(session, log, 0, &[8; 4096]), Err(ErrorKind::PermissionDenied));
    assert_eq!(write(session, state, 0, b"[]"), Err(ErrorKind::PermissionDenied));
    let rename = RemoteRequest::Rename { from: place("copy.json.unfinished"), to: "copy.json".into() };
    assert_eq!(ask(session, &rename), Err(ErrorKind::PermissionDenied));
}

/// A running instance holds the lock of its logs.
#[test]
fn a_lock_on_another_log_stream_permits_no_handover() {
    let disk = disk();
    disk.put(Path::new("/app/E01.lock"), &[]);
    let exports = exports(Arc::new(disk.clone()), Path::new("/app"), true);
    let instance = &mut greeted(&exports);
    lock(instance, "E00.lock").unwrap();
    let session = &mut greeted(&exports);
    assert_eq!(lock(session, "ZZZ.lock"), Err(ErrorKind::PermissionDenied), "there are no such logs");
    assert!(!disk.exists(Path::new("/app/ZZZ.lock")).unwrap());
    lock(session, "E01.lock").unwrap();
    for change in [
        RemoteRequest::Open { place: place("copy.json.unfinished"), mode: OpenMode::CreateNew },
        RemoteRequest::Open { place: place("E00.log"), mode: OpenMode::Write },
        RemoteRequest::Rename { from: place("E00.log"), to: "E0000000002.log".into() },
        RemoteRequest::Remove { place: place("E00.log") },
    ] {
        assert_eq!(ask(session, &change), Err(ErrorKind::PermissionDenied), "{change:?}");
    }
}

#[test]
fn locks_are_released_when_the_session_ends() {
    let exports = exports(Arc::new(disk()), Path::new("/app"), true);
    let (mut one, mut two) = (greeted(&exports), greeted(&exports));
    lock(&mut one, "E00.lock").unwrap();
    assert_eq!(lock(&mut two, "E00.lock"), Err(ErrorKind::WouldBlock));
    drop(one);
    lock(&mut two, "E00.lock").unwrap();
}

#[test]
fn a_long_list_is_sent_in_parts() {
    let disk = disk();
    let name = |number: usize| format!("E00-{}{number:06}.wants", "x".repeat(200));
    (0..2000).for_each(|number| disk.put(&Path::new("/app").join(name(number)), &[]));
    let session = &mut greeted(&exports(Arc::new(disk), Path::new("/app"), false));
    let (mut after, mut found, mut parts) = ("E00-".to_string(), BTreeSet::new(), 0);
    loop {
        let reply =
            ask(session, &RemoteRequest::List { directory: place(""), after: after.clone() }).unwrap();
        let RemoteReply::Names { names, more } = reply else { panic!() };
        after = names.last().unwrap().clone();
        found.extend(names.into_iter().filter(|name| name.ends_with(".wants")));
        parts += 1;
        if !more {
            break;
        }
    }
    assert_eq!((found.len(), parts), (2000, 2));
}

fn request() -> impl Strategy<Value = RemoteRequest> {
    let names = proptest::sample::select(vec![
        "E00.log",
        "E00tmp.log",
        "E0000000001.log",
        "E0000000007.log",
        "data.edb",
        "copy.json",
        "E00.lock",
        "copy.json.unfinished",
        "E00-a.copy",
        "E00-a.copy-new",
        "E00-a.wants",
        "E00-a.message-new",
        "../other/secret",
        "incoming/streamed.log",
        "",
        "x",
    ]);
    let place = names.prop_map(place);
    let (handle, offset) = (0_u32..8, prop_oneof![0_u64..20_000, any::<u64>()]);
    let mode = prop_oneof![Just(OpenMode::Read), Just(OpenMode::Write), Just(OpenMode::CreateNew)];
    prop_oneof![
        (place.clone(), mode).prop_map(|(place, mode)| RemoteRequest::Open { place, mode }),
        handle.clone().prop_map(|file| RemoteRequest::Close { file }),
        handle.clone().prop_map(|file| RemoteRequest::Length { file }),
        (handle.clone(), offset.clone(), any::<u32>()).prop_map(|(file, offset, len)| RemoteRequest::Read {
            file,
            offset,
            len
        }),
        (handle.clone(), offset, 0_usize..9000).prop_map(|(file, offset, len)| RemoteRequest::Write {
            file,
            offset,
            data: vec![9; len]
        }),
        handle.clone().prop_map(|file| RemoteRequest::Sync { file }),
        place.clone().prop_map(|place| RemoteRequest::Remove { place }),
        (place.clone(), place.clone()).prop_map(|(from, to)| RemoteRequest::Rename { from, to: to.file }),
        place.clone().prop_map(|place| RemoteRequest::Lock { place }),
        handle.prop_map(|lock| RemoteRequest::Unlock { lock }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_client_request_changes_databases_or_closed_logs(
        requests in proptest::collection::vec(request(), 1..40),
        handover: bool,
    ) {
        let disk = disk();
        let session = &mut greeted(&exports(Arc::new(disk.clone()), Path::new("/app"), handover));
        for request in requests {
            session.process(&request.encode());
        }
        let is_filled_with = |path: &str, byte: u8| {
            disk.contents(Path::new(path)).is_some_and(|found| found == vec![byte; 8192])
        };
        prop_assert_eq!(disk.contents(Path::new("/app/data.edb")), Some(database()));
        prop_assert!(is_filled_with("/other/secret", 7) && is_filled_with("/app/incoming/streamed.log", 5));
        prop_assert!(is_filled_with("/app/E0000000001.log", 2));
        prop_assert!(handover || is_filled_with("/app/E00.log", 1));
    }

    #[test]
    fn arbitrary_bytes_get_a_reply(messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..20)) {
        let session = &mut greeted(&exports(Arc::new(disk()), Path::new("/app"), true));
        for message in messages {
            let answer = session.process(&message);
            prop_assert!(answer.disconnect_reason.is_none_or(|end| end == DisconnectReason::Malformed || end == DisconnectReason::WrongToken || end == DisconnectReason::WrongVersion));
        }
    }
}
