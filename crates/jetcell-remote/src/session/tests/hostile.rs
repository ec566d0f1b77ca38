//! Clients that request more than a copy needs, and links in a served directory. Neither must give access to other
//! files.

use std::os::unix::fs::symlink;

use super::*;

/// Names of all kinds that a client may request.
const NAMES: [&str; 20] = [
    "data.edb",
    "E00.log",
    "E00tmp.log",
    "E0000000001.log",
    "E0000000001.log.lost",
    "E00.chk",
    "data.jfm",
    "E00.lock",
    "copy.json",
    "copy.json.unfinished",
    "scan.json",
    "checks.json",
    "E00-a.copy",
    "E00-a.copy-new",
    "E00-a.wants",
    "E00-a.patch",
    "E00-a.image",
    "E00-a.message-new",
    "incoming/streamed.log",
    "incoming/part.log",
];

/// Returns all requests that contain the name of a file.
fn requests(file: &str) -> Vec<RemoteRequest> {
    let file_place = || place(file);
    let open = |mode| RemoteRequest::Open { place: file_place(), mode };
    let mut requests = vec![
        open(OpenMode::Read),
        open(OpenMode::Write),
        open(OpenMode::CreateNew),
        RemoteRequest::Exists { place: file_place() },
        RemoteRequest::Remove { place: file_place() },
        RemoteRequest::List { directory: file_place(), after: String::new() },
        RemoteRequest::Lock { place: file_place() },
    ];
    for to in ["E00-a.copy", "E0000000009.log", "copy.json"] {
        requests.push(RemoteRequest::Rename { from: file_place(), to: to.into() });
        requests.push(RemoteRequest::Rename { from: place(to), to: file.into() });
    }
    requests
}

/// An instance directory in which any name can be a link to a file outside the directory.
struct LinkedDirectory {
    base: tempfile::TempDir,
}

impl LinkedDirectory {
    fn new() -> LinkedDirectory {
        let base = tempfile::tempdir().unwrap();
        for directory in ["app", "outside"] {
            std::fs::create_dir(base.path().join(directory)).unwrap();
        }
        for name in ["secret", "passwd", "streamed.log", "part.log", "E00.log"] {
            std::fs::write(base.path().join("outside").join(name), database()).unwrap();
        }
        std::fs::write(base.path().join("app/E01.lock"), "").unwrap();
        LinkedDirectory { base }
    }

    fn app(&self) -> PathBuf {
        self.base.path().join("app")
    }

    /// Returns a client that has the token, handover permission and the lock for some logs.
    fn client(&self) -> ServerSession {
        let vfs = RealVfs::new(RealOptions::default()).unwrap().confined_to(&self.app()).unwrap();
        let mut session = greeted(&exports(Arc::new(vfs), &self.app(), true));
        lock(&mut session, "E01.lock").unwrap();
        session
    }

    #[track_caller]
    fn is_untouched(&self) {
        let mut names: Vec<String> = std::fs::read_dir(self.base.path().join("outside"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["E00.log", "part.log", "passwd", "secret", "streamed.log"]);
        for name in names {
            assert_eq!(
                std::fs::read(self.base.path().join("outside").join(&name)).unwrap(),
                database(),
                "{name}"
            );
        }
    }
}

fn is_harmless(reply: &Result<RemoteReply, ErrorKind>) -> bool {
    matches!(reply, Err(_) | Ok(RemoteReply::Flag(false)))
}

#[test]
fn no_request_follows_a_link_in_place_of_a_file() {
    for target in ["outside/secret", "outside/none", "outside", "app/E01.lock"] {
        let cell = LinkedDirectory::new();
        std::fs::create_dir(cell.app().join("incoming")).unwrap();
        for name in NAMES {
            symlink(cell.base.path().join(target), cell.app().join(name)).unwrap();
        }
        let session = &mut cell.client();
        for name in NAMES {
            for request in requests(name) {
                let reply = ask(session, &request);
                assert!(is_harmless(&reply), "{target}: {request:?}: {reply:?}");
            }
        }
        for directory in ["", "incoming"] {
            let list = RemoteRequest::List { directory: place(directory), after: String::new() };
            let Ok(RemoteReply::Names { names, .. }) = ask(session, &list) else { panic!("{directory}") };
            assert!(names.iter().all(|name| name == "E01.lock"), "{names:?}");
        }
        cell.is_untouched();
    }
}

#[test]
fn no_request_follows_a_link_in_place_of_incoming() {
    for target in ["outside", "/etc", "."] {
        let cell = LinkedDirectory::new();
        let target = if target == "outside" { cell.base.path().join(target) } else { PathBuf::from(target) };
        symlink(&target, cell.app().join("incoming")).unwrap();
        let session = &mut cell.client();
        for name in ["secret", "passwd", "streamed.log", "part.log", "E00.log", "E01.lock", "E00-a.copy-new"]
        {
            for request in requests(&format!("incoming/{name}")) {
                let reply = ask(session, &request);
                assert!(is_harmless(&reply), "{}: {request:?}: {reply:?}", target.display());
            }
        }
        let list = RemoteRequest::List { directory: place("incoming"), after: String::new() };
        assert_eq!(ask(session, &list), Err(ErrorKind::PermissionDenied), "{}", target.display());
        cell.is_untouched();
    }
}

#[test]
fn a_link_in_place_of_the_served_directory_is_refused() {
    let cell = LinkedDirectory::new();
    let session = &mut cell.client();
    std::fs::rename(cell.app(), cell.base.path().join("moved")).unwrap();
    symlink(cell.base.path().join("outside"), cell.app()).unwrap();
    for request in [
        RemoteRequest::List { directory: place(""), after: String::new() },
        RemoteRequest::Open { place: place("E00.log"), mode: OpenMode::Read },
        RemoteRequest::Open { place: place("E00-a.copy-new"), mode: OpenMode::CreateNew },
        RemoteRequest::SyncDirectory { directory: "app".into() },
        RemoteRequest::Lock { place: place("E00.lock") },
    ] {
        assert_eq!(ask(session, &request), Err(ErrorKind::PermissionDenied), "{request:?}");
    }
    cell.is_untouched();
}

#[test]
fn files_that_no_copy_needs_are_hidden_from_clients() {
    let disk = disk();
    for name in [
        "id_ed25519",
        "server.key",
        "notes.log.txt",
        "E00.edb",
        "mail.conf",
        "reseed.json",
        "E00.jrs",
        "copy.lock",
    ] {
        disk.put(&Path::new("/app").join(name), &[5; 8192]);
    }
    let session = &mut greeted(&exports(Arc::new(disk.clone()), Path::new("/app"), true));
    lock(session, "E00.lock").unwrap();
    let list = RemoteRequest::List { directory: place(""), after: String::new() };
    let Ok(RemoteReply::Names { names, more: false }) = ask(session, &list) else { panic!() };
    assert_eq!(names, ["E00.lock", "E00.log", "E0000000001.log", "data.edb"].map(String::from).to_vec());
    let list = RemoteRequest::List { directory: place("incoming"), after: String::new() };
    assert_eq!(
        ask(session, &list),
        Ok(RemoteReply::Names { names: vec!["streamed.log".into()], more: false })
    );
    for name in [
        "token",
        "id_ed25519",
        "server.key",
        "E00.edb",
        "reseed.json",
        "E00.jrs",
        "copy.lock",
        "incoming/key",
    ] {
        for request in requests(name) {
            let reply = ask(session, &request);
            assert!(is_harmless(&reply), "{request:?}: {reply:?}");
        }
        assert!(disk.contents(&Path::new("/app").join(name)).is_some(), "{name}");
    }
}

#[test]
fn a_replaced_file_is_checked_again() {
    let disk = disk();
    let session = &mut greeted(&exports(Arc::new(disk.clone()), Path::new("/app"), false));
    open(session, "data.edb", OpenMode::Read).unwrap();
    disk.put(Path::new("/app/data.edb"), &[9; 8192]);
    assert_eq!(open(session, "data.edb", OpenMode::Read), Err(ErrorKind::PermissionDenied));
    disk.put(Path::new("/app/data.edb"), &database());
    open(session, "data.edb", OpenMode::Read).unwrap();
}

#[test]
fn only_valid_registrations_get_registration_names_and_stay_immutable() {
    let disk = disk();
    let exports = exports(Arc::new(disk.clone()), Path::new("/app"), false);
    let (session, other) = (&mut greeted(&exports), &mut greeted(&exports));
    let (aside, name) = ("E00-a1.copy-new", "E00-a1.copy");
    let rename = RemoteRequest::Rename { from: place(aside), to: name.into() };
    for garbage in [&[][..], &[b'x'; 4096], &[0; 4096], &registration("a1")[..2048]] {
        let file = open(session, aside, OpenMode::CreateNew).unwrap();
        write(session, file, 0, garbage).unwrap();
        assert_eq!(ask(session, &rename), Err(ErrorKind::PermissionDenied));
        assert!(disk.contents(&Path::new("/app").join(name)).is_none());
        ask(session, &RemoteRequest::Close { file }).unwrap();
        ask(session, &RemoteRequest::Remove { place: place(aside) }).unwrap();
    }
    let file = open(session, aside, OpenMode::CreateNew).unwrap();
    write(session, file, 0, &registration("a1")).unwrap();
    // Another client renames the file while the first client still has it open.
    ask(other, &rename).unwrap();
    assert_eq!(write(session, file, 0, &[b'x'; 4096]), Err(ErrorKind::PermissionDenied));
    assert_eq!(disk.contents(&Path::new("/app").join(name)).unwrap(), registration("a1"));
    // When another client creates a file with the same name, that file has a different writer.
    let theirs = open(other, aside, OpenMode::CreateNew).unwrap();
    assert_eq!(write(session, file, 0, &[b'x'; 4096]), Err(ErrorKind::PermissionDenied));
    assert_eq!(write(other, theirs, 0, &registration("a1")), Ok(RemoteReply::Done));
}

#[test]
fn a_client_can_lock_only_databases_and_logs() {
    let disk = disk();
    for name in ["copy.lock", "scan.lock", "copy.pause", "copy.json", "E00.chk"] {
        disk.put(&Path::new("/app").join(name), &[0; 4096]);
    }
    let session = &mut greeted(&exports(Arc::new(disk), Path::new("/app"), true));
    for name in
        ["copy.lock", "scan.lock", "copy.pause", "copy.json", "E00.chk", "E00.log", "incoming/streamed.log"]
    {
        assert_eq!(lock(session, name), Err(ErrorKind::PermissionDenied), "{name}");
    }
    lock(session, "data.edb").unwrap();
    lock(session, "E00.lock").unwrap();
}

/// A file system that would follow links.
struct UnconfinedVfs(SimVfs);

impl jetcell_vfs::VfsLayer for UnconfinedVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.0
    }
    fn is_confined(&self, _directory: &Path) -> bool {
        false
    }
}

#[test]
fn a_directory_on_a_link_following_file_system_is_refused() {
    let named = vec![("app".to_string(), PathBuf::from("/app"))];
    let vfs = Arc::new(UnconfinedVfs(disk()));
    let made = ExportedDirectories::new(vfs, AccessToken::from_text(TOKEN).unwrap(), "db1".into(), named);
    assert!(matches!(made.err(), Some(crate::ServeError::Unconfined(_))));
}

/// Returns the error message with which the server refuses to create a file.
fn refusal(session: &mut ServerSession, name: &str) -> String {
    let request = RemoteRequest::Open { place: place(name), mode: OpenMode::CreateNew };
    match session.process(&request.encode()).reply {
        RemoteReply::Failed { kind: ErrorKind::PermissionDenied, what } => what,
        reply => panic!("{name}: {reply:?}"),
    }
}

/// Registers a copy. Returns false if the maximum number of registrations is reached.
fn register(session: &mut ServerSession, id: &str) -> bool {
    let aside = format!("E00-{id}.copy-new");
    let Ok(file) = open(session, &aside, OpenMode::CreateNew) else { return false };
    write(session, file, 0, &registration(id)).unwrap();
    ask(session, &RemoteRequest::Close { file }).unwrap();
    ask(session, &RemoteRequest::Rename { from: place(&aside), to: format!("E00-{id}.copy") }).unwrap();
    true
}

#[test]
fn messages_about_pages_leave_room_for_registrations() {
    let disk = disk();
    for number in 0..MAX_PAGE_MESSAGES {
        let ending = ["wants", "patch", "message-new"][number % 3];
        disk.put(&Path::new("/app").join(format!("E00-{number:x}.{ending}")), &[]);
    }
    let session = &mut greeted(&exports(Arc::new(disk), Path::new("/app"), false));
    let what = refusal(session, "E00-x.message-new");
    assert!(what.contains(&format!("{MAX_PAGE_MESSAGES} messages about pages")), "{what}");
    assert!(register(session, "x"));
}

#[test]
fn a_registered_copy_can_register_again_at_the_registration_limit() {
    let disk = disk();
    for number in 0..MAX_REGISTRATIONS {
        let ending = ["copy", "copy-new"][number % 2];
        disk.put(&Path::new("/app").join(format!("E00-{number:x}.{ending}")), &registration("a"));
    }
    let session = &mut greeted(&exports(Arc::new(disk), Path::new("/app"), false));
    let what = refusal(session, "E00-x.copy-new");
    assert!(what.contains(&format!("{MAX_REGISTRATIONS} registrations of copies")), "{what}");
    assert!(register(session, "0") && register(session, "0"));
}

#[test]
fn a_connection_registers_a_limited_number_of_new_copies() {
    let exports = exports(Arc::new(disk()), Path::new("/app"), false);
    let session = &mut greeted(&exports);
    let registered = (0..MAX_REGISTRATIONS).take_while(|id| register(session, &id.to_string())).count();
    assert_eq!(registered, MAX_NEW_COPIES);
    let what = refusal(session, "E00-x.copy-new");
    assert!(what.contains("this connection"), "{what}");
    assert!(register(session, "0"), "it is registered");
    assert!(register(&mut greeted(&exports), "x"), "another client");
}
