use std::os::unix::fs::symlink;

use super::*;
use crate::{Backend, DirectoryLock, File, IoReason, OpenMode, RealOptions, RealVfs, Vfs};

/// A directory with links that lead out of it, and a file outside it that no operation may reach.
struct ConfinementFixture {
    base: tempfile::TempDir,
}

impl ConfinementFixture {
    fn new() -> ConfinementFixture {
        let base = tempfile::tempdir().unwrap();
        for directory in ["app", "app/incoming", "outside"] {
            std::fs::create_dir(base.path().join(directory)).unwrap();
        }
        std::fs::write(base.path().join("outside/secret"), [7; 4096]).unwrap();
        std::fs::write(base.path().join("app/data.edb"), [1; 4096]).unwrap();
        std::fs::write(base.path().join("app/incoming/streamed.log"), [2; 4096]).unwrap();
        symlink(base.path().join("outside"), base.path().join("app/directory-link")).unwrap();
        symlink(base.path().join("outside/secret"), base.path().join("app/file-link")).unwrap();
        symlink(base.path().join("outside/new"), base.path().join("app/dangling")).unwrap();
        symlink("data.edb", base.path().join("app/inner-link")).unwrap();
        symlink(base.path().join("app"), base.path().join("named")).unwrap();
        ConfinementFixture { base }
    }

    fn app(&self, name: &str) -> PathBuf {
        self.base.path().join("app").join(name)
    }

    /// Runs `check` once for each method of path resolution.
    fn each(&self, check: impl Fn(&RealVfs, &str)) {
        for only_components in [false, true] {
            let options = RealOptions { backend: Backend::Threads, direct: false };
            let mut vfs = RealVfs::new(options).unwrap().confined_to(&self.app("")).unwrap();
            if only_components {
                vfs.confinement_mut().resolve_components_only();
            }
            check(&vfs, if only_components { "component by component" } else { "by the kernel" });
        }
    }

    fn is_untouched(&self) -> bool {
        let outside = self.base.path().join("outside");
        let names: Vec<_> =
            std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names == ["secret"] && std::fs::read(outside.join("secret")).unwrap() == [7; 4096]
    }
}

type FileAction = fn(&RealVfs, &Path) -> io::Result<()>;

fn opened(file: io::Result<jetcell_sync::Arc<dyn File>>) -> io::Result<()> {
    file.map(drop)
}

fn locked(lock: io::Result<Box<dyn DirectoryLock>>) -> io::Result<()> {
    lock.map(drop)
}

/// All operations that accept a file path.
const OPERATIONS: [(&str, FileAction); 9] = [
    ("read", |vfs, path| opened(vfs.open(path, OpenMode::Read))),
    ("write", |vfs, path| opened(vfs.open(path, OpenMode::Write))),
    ("create", |vfs, path| opened(vfs.open(path, OpenMode::CreateNew))),
    ("length", |vfs, path| vfs.file_len(path).map(drop)),
    ("lock", |vfs, path| locked(vfs.lock(path))),
    ("clone from", |vfs, path| vfs.clone_file(path, &path.with_file_name("clone"))),
    ("list", |vfs, path| vfs.list(path).map(drop)),
    ("sync", |vfs, path| vfs.sync_directory(path)),
    ("create directory", |vfs, path| vfs.create_directory(path)),
];

#[test]
fn no_operation_follows_a_link_in_place_of_an_entry() {
    let cell = ConfinementFixture::new();
    cell.each(|vfs, how| {
        for name in ["directory-link", "file-link", "dangling", "inner-link"] {
            for (operation, attempt) in OPERATIONS {
                let error = attempt(vfs, &cell.app(name)).expect_err(&format!("{operation} {name} {how}"));
                let is_expected = match operation {
                    // The entry exists.
                    "create" => error.kind() == io::ErrorKind::AlreadyExists,
                    _ => error.kind() == io::ErrorKind::PermissionDenied,
                };
                assert!(is_expected, "{operation} {name} {how}: {error}");
            }
            assert!(!vfs.is_regular_file(&cell.app(name)).unwrap(), "{name} {how}");
        }
        assert!(cell.is_untouched(), "{how}");
    });
}

#[test]
fn no_operation_passes_through_a_link_to_a_directory() {
    let cell = ConfinementFixture::new();
    cell.each(|vfs, how| {
        for below in
            ["directory-link/secret", "directory-link/new", "../outside/secret", "incoming/../data.edb"]
        {
            let path = cell.base.path().join("app").join(below);
            for (operation, attempt) in OPERATIONS {
                let error = attempt(vfs, &path).expect_err(&format!("{operation} {below} {how}"));
                assert_eq!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied,
                    "{operation} {below} {how}: {error}"
                );
            }
            let inside = cell.app("data.edb");
            for error in [
                vfs.remove(&path).unwrap_err(),
                vfs.rename(&path, &cell.app("stolen")).unwrap_err(),
                vfs.rename(&inside, &path).unwrap_err(),
                vfs.link(&inside, &path).unwrap_err(),
                vfs.link(&path, &cell.app("stolen")).unwrap_err(),
                vfs.clone_file(&inside, &path).unwrap_err(),
                vfs.exists(&path).unwrap_err(),
                vfs.is_regular_file(&path).unwrap_err(),
            ] {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{below} {how}: {error}");
            }
        }
        assert!(cell.is_untouched(), "{how}");
    });
}

#[test]
fn a_removed_or_renamed_link_leaves_its_target() {
    let cell = ConfinementFixture::new();
    cell.each(|vfs, how| {
        let (link, other) = (cell.app("link"), cell.app("other"));
        symlink(cell.base.path().join("outside/secret"), &link).unwrap();
        vfs.rename(&link, &other).unwrap();
        // Renaming a file onto a link replaces the link, not its target.
        std::fs::write(cell.app("new"), "new").unwrap();
        vfs.rename(&cell.app("new"), &other).unwrap();
        assert!(vfs.is_regular_file(&other).unwrap(), "{how}");
        vfs.remove(&other).unwrap();
        assert!(cell.is_untouched(), "{how}");
    });
}

#[test]
fn a_directory_that_is_replaced_by_a_link_is_refused() {
    let cell = ConfinementFixture::new();
    cell.each(|vfs, how| {
        let streamed = cell.app("incoming/streamed.log");
        assert!(vfs.open(&streamed, OpenMode::Read).is_ok(), "{how}");
        std::fs::rename(cell.app("incoming"), cell.app("moved")).unwrap();
        symlink(cell.app("moved"), cell.app("incoming")).unwrap();
        assert_eq!(
            vfs.open(&streamed, OpenMode::Read).err().unwrap().kind(),
            io::ErrorKind::PermissionDenied
        );
        std::fs::remove_file(cell.app("incoming")).unwrap();
        std::fs::rename(cell.app("moved"), cell.app("incoming")).unwrap();
        // The confined directory itself must not be replaceable by a link either.
        let (app, moved) = (cell.base.path().join("app"), cell.base.path().join("moved"));
        std::fs::rename(&app, &moved).unwrap();
        symlink(&moved, &app).unwrap();
        assert_eq!(vfs.list(&app).unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{how}");
        std::fs::remove_file(&app).unwrap();
        std::fs::rename(&moved, &app).unwrap();
    });
}

#[test]
fn only_regular_files_are_listed_and_opened() {
    let cell = ConfinementFixture::new();
    rustix::fs::mknodat(CWD, cell.app("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(cell.app("socket")).unwrap();
    cell.each(|vfs, how| {
        assert_eq!(vfs.list(&cell.app("")).unwrap(), [cell.app("data.edb")], "{how}");
        for name in ["pipe", "socket", "incoming"] {
            assert!(vfs.open(&cell.app(name), OpenMode::Read).is_err(), "{name} {how}");
            assert!(name == "incoming" || vfs.lock(&cell.app(name)).is_err(), "{name} {how}");
        }
    });
}

#[test]
fn a_confined_directory_behaves_like_an_ordinary_directory() {
    let cell = ConfinementFixture::new();
    cell.each(|vfs, how| {
        let sub = cell.app("one/two");
        vfs.create_directory(&sub).unwrap();
        let file = vfs.open(&sub.join("a"), OpenMode::CreateNew).unwrap();
        file.write_at(0, &[5; 4096], IoReason::Other).unwrap();
        file.sync(IoReason::Other).unwrap();
        vfs.rename(&sub.join("a"), &cell.app("b")).unwrap();
        vfs.sync_directory(&sub).unwrap();
        assert_eq!(
            (vfs.exists(&sub.join("a")).unwrap(), vfs.file_len(&cell.app("b")).unwrap()),
            (false, 4096)
        );
        assert!(!vfs.exists(&cell.app("none/none")).unwrap() && !vfs.exists(&cell.app("b/none")).unwrap());
        let held = vfs.lock(&cell.app("lock")).unwrap();
        assert_eq!(vfs.lock(&cell.app("lock")).err().unwrap().kind(), io::ErrorKind::WouldBlock, "{how}");
        drop(held);
        for name in ["b", "lock"] {
            vfs.remove(&cell.app(name)).unwrap();
        }
        std::fs::remove_dir_all(cell.app("one")).unwrap();
        assert!(vfs.is_confined(&cell.app("")) && !vfs.is_confined(cell.base.path()), "{how}");
        // Outside the directory, links are followed.
        assert!(vfs.open(&cell.base.path().join("named/data.edb"), OpenMode::Read).is_ok(), "{how}");
    });
}

#[test]
fn a_relative_path_is_confined_like_an_absolute_path() {
    let relative = Path::new("a-directory-of-no-test");
    let mut confinement = Confinement::default();
    confinement.add(relative).unwrap();
    let absolute = std::path::absolute(relative).unwrap();
    for path in [relative.join("x"), absolute.join("x")] {
        assert_eq!(
            confinement.root_of(&path).and_then(Path::file_name),
            relative.file_name(),
            "{}",
            path.display()
        );
    }
    assert_eq!(confinement.root_of(Path::new("another")), None);
}

#[test]
fn a_missing_directory_is_confined_on_creation() {
    let cell = ConfinementFixture::new();
    let new = cell.base.path().join("named/deep/new");
    let options = RealOptions { backend: Backend::Threads, direct: false };
    let vfs = RealVfs::new(options).unwrap().confined_to(&new).unwrap();
    assert!(!vfs.exists(&new).unwrap() && !vfs.exists(&new.join("x")).unwrap());
    assert_eq!(vfs.list(&new).unwrap_err().kind(), io::ErrorKind::NotFound);
    vfs.create_directory(&new.join("incoming")).unwrap();
    assert!(cell.app("deep/new/incoming").is_dir());
    symlink(cell.base.path().join("outside"), new.join("link")).unwrap();
    assert!(vfs.open(&new.join("link/new"), OpenMode::CreateNew).is_err() && cell.is_untouched());
}
