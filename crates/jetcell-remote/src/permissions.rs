//! Files that a client may access, by name.
//!
//! | file | always | with handover, while the client holds the lock of the logs |
//! | --- | --- | --- |
//! | logs (`E00.log`, `E0000000012.log`, `.jtx`, `.lost`), `E00.chk`, `*.jfm` | read, made durable | |
//! | `copy.json`, `scan.json`, `checks.json`, messages | read, made durable | |
//! | a file whose content is a database | read, made durable, locked | |
//! | `E00.lock` | locked | created when it is locked; this requires no other lock |
//! | `streamed.log`, `part.log` in `incoming` | read, made durable | |
//! | `E00-ID.copy`, `.wants`, `.patch` | put, removed; a `.copy` only with a registration as content | |
//! | `E00.log`, `E00tmp.log` | | written within its length, renamed to a closed log, removed |
//! | `copy.json` | | put |
//!
//! All other files are hidden from clients. To put a file, a client writes a file with a temporary name and renames
//! it. A reader therefore always sees a complete file. A closed log is never changed, replaced or removed.

use jetcell_vfs::FileName;

/// Name of the only accessible subdirectory of an export. It contains files that a copy has received.
pub const INCOMING: &str = "incoming";

/// Number of letters before the generation number in a log name.
const BASE_NAME_LEN: usize = 3;

/// Suffix of logs that recovery has set aside.
const LOST_LOG_SUFFIX: &str = ".lost";

/// The kind of file in an exported directory, determined by the file's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteFileKind {
    /// A message from a copy.
    Message,
    /// A message that has not been renamed to its final name yet.
    TemporaryMessage,
    /// A page image from the active side, requested by a copy.
    PageImage,
    /// The log that is being written, or the prepared log.
    OpenLog,
    /// A closed log.
    ClosedLog,
    /// A log that recovery has set aside.
    LostLog,
    /// The part of a log that a copy has received, located in `incoming`.
    ReceivedLog,
    /// The checkpoint of a log stream, or the flush map of a database.
    CheckpointOrFlushMap,
    /// The state of a copy.
    CopyState,
    /// A state of a copy that has not been renamed to its final name yet.
    TemporaryCopyState,
    /// Scan progress of a copy, or the results of its page comparisons.
    CopyReport,
    /// The file that is locked while an instance uses the logs.
    LogLock,
    /// Any other file. Its content determines whether it is a database, because databases can have any name.
    Other,
}

impl RemoteFileKind {
    /// Returns the kind of a file by its path in an exported directory. Returns `None` if clients cannot access files
    /// at this path.
    pub fn from_path(file: &str) -> Option<RemoteFileKind> {
        match file.split_once('/') {
            None => Some(RemoteFileKind::from_name(file)),
            Some((INCOMING, "streamed.log" | "part.log")) => Some(RemoteFileKind::ReceivedLog),
            Some(_) => None,
        }
    }

    /// Returns the kind of the file with this name.
    pub fn from_name(name: &str) -> RemoteFileKind {
        match name {
            "copy.json" => return RemoteFileKind::CopyState,
            "copy.json.unfinished" => return RemoteFileKind::TemporaryCopyState,
            "scan.json" | "checks.json" => return RemoteFileKind::CopyReport,
            _ => {}
        }
        if let Some(log) = name.strip_suffix(LOST_LOG_SUFFIX) {
            return match RemoteFileKind::from_name(log) {
                RemoteFileKind::OpenLog | RemoteFileKind::ClosedLog => RemoteFileKind::LostLog,
                _ => RemoteFileKind::Other,
            };
        }
        let Some((stem, ending)) = name.rsplit_once('.') else { return RemoteFileKind::Other };
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_base = |text: &str| text.len() == BASE_NAME_LEN && is_word(text);
        // Slicing with `get` does not panic within a multi-byte character.
        let (base, rest) = (stem.get(..BASE_NAME_LEN).unwrap_or(""), stem.get(BASE_NAME_LEN..).unwrap_or(""));
        match ending {
            "copy" | "wants" | "patch" | "image" | "copy-new" | "message-new" => {
                let id = rest.strip_prefix('-').unwrap_or("");
                if !is_base(base) || !id.split('-').all(is_word) {
                    RemoteFileKind::Other
                } else if ending.ends_with("-new") {
                    RemoteFileKind::TemporaryMessage
                } else if ending == "image" {
                    RemoteFileKind::PageImage
                } else {
                    RemoteFileKind::Message
                }
            }
            "log" | "jtx" if is_base(base) => {
                let is_number = matches!(rest.len(), 5..=8) && rest.bytes().all(|b| b.is_ascii_hexdigit());
                match rest {
                    "" | "tmp" => RemoteFileKind::OpenLog,
                    _ if is_number => RemoteFileKind::ClosedLog,
                    _ => RemoteFileKind::Other,
                }
            }
            "chk" | "jcp" if is_base(stem) => RemoteFileKind::CheckpointOrFlushMap,
            "jfm" if !stem.is_empty() => RemoteFileKind::CheckpointOrFlushMap,
            "lock" if is_base(stem) => RemoteFileKind::LogLock,
            _ => RemoteFileKind::Other,
        }
    }

    /// Returns the maximum length of a file of this kind that a client creates. Returns `None` if clients cannot create
    /// such files.
    pub fn max_created(self) -> Option<u64> {
        match self {
            // A page, preceded by a header block.
            RemoteFileKind::TemporaryMessage => Some(64 << 10),
            RemoteFileKind::TemporaryCopyState => Some(1 << 20),
            _ => None,
        }
    }
}

/// A change that a client asks to make to an exported directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestedChange<'n> {
    /// Create and write a file.
    Create(&'n str),
    /// Write to an existing file.
    Write(&'n str),
    /// Remove a file.
    Remove(&'n str),
    /// Rename a file.
    Rename(&'n str, &'n str),
    /// Create a lock file.
    CreateLock(&'n str),
}

/// Returns the base name of the log stream to which a file belongs. The file must be a log or a stream's lock file.
pub fn stream_name(name: &str) -> Option<&str> {
    match RemoteFileKind::from_name(name) {
        RemoteFileKind::OpenLog | RemoteFileKind::ClosedLog | RemoteFileKind::LogLock => {
            name.get(..BASE_NAME_LEN)
        }
        _ => None,
    }
}

/// Whether a client may make a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangePermission {
    /// The change is allowed.
    Allowed,
    /// The change is allowed only while the client holds the log lock.
    WithLock,
    /// The change is not allowed.
    Denied,
}

impl RequestedChange<'_> {
    /// Returns the log stream that the change affects. `None` means all streams in the directory, for example when
    /// the state of a copy changes.
    pub fn stream(&self) -> Option<&str> {
        match self {
            RequestedChange::Create(name)
            | RequestedChange::Write(name)
            | RequestedChange::Remove(name)
            | RequestedChange::Rename(name, _)
            | RequestedChange::CreateLock(name) => stream_name(name),
        }
    }

    /// Decides whether a client may make the change, assuming that handovers are allowed.
    pub fn permission(self) -> ChangePermission {
        use RemoteFileKind::{
            ClosedLog, CopyState, LogLock, Message, OpenLog, TemporaryCopyState, TemporaryMessage,
        };
        match self {
            RequestedChange::Create(name) => match RemoteFileKind::from_name(name) {
                TemporaryMessage => ChangePermission::Allowed,
                TemporaryCopyState => ChangePermission::WithLock,
                _ => ChangePermission::Denied,
            },
            RequestedChange::Write(name) => match RemoteFileKind::from_name(name) {
                OpenLog => ChangePermission::WithLock,
                _ => ChangePermission::Denied,
            },
            RequestedChange::Remove(name) => match RemoteFileKind::from_name(name) {
                Message | TemporaryMessage => ChangePermission::Allowed,
                OpenLog | TemporaryCopyState => ChangePermission::WithLock,
                _ => ChangePermission::Denied,
            },
            RequestedChange::Rename(from, to) => {
                match (RemoteFileKind::from_name(from), RemoteFileKind::from_name(to)) {
                    (TemporaryMessage, Message) if is_final_name_of(from, to) => ChangePermission::Allowed,
                    (TemporaryCopyState, CopyState) => ChangePermission::WithLock,
                    (OpenLog, ClosedLog) if from.get(..BASE_NAME_LEN) == to.get(..BASE_NAME_LEN) => {
                        ChangePermission::WithLock
                    }
                    _ => ChangePermission::Denied,
                }
            }
            RequestedChange::CreateLock(name) => match RemoteFileKind::from_name(name) {
                // Creating the lock file requires only that handovers are allowed, not that the client already holds
                // a lock.
                LogLock => ChangePermission::WithLock,
                _ => ChangePermission::Denied,
            },
        }
    }
}

/// Returns true if a rename gives a message its own final name. A client must not turn one kind of message into
/// another.
fn is_final_name_of(from: &str, to: &str) -> bool {
    let parts =
        |name: &'_ str| name.rsplit_once('.').map(|(stem, ending)| (stem.to_string(), ending.to_string()));
    let Some(((stem, aside), (other, ending))) = parts(from).zip(parts(to)) else { return false };
    let fits = matches!((&*aside, &*ending), ("copy-new", "copy") | ("message-new", "wants" | "patch"));
    stem == other && fits
}

/// Returns the identifier of the copy if this is the name of a registration.
pub fn registered_id(name: &str) -> Option<&str> {
    let (stem, ending) = name.rsplit_once('.')?;
    let id = stem.get(BASE_NAME_LEN..)?.strip_prefix('-')?;
    (ending == "copy" && RemoteFileKind::from_name(name) == RemoteFileKind::Message).then_some(id)
}

/// Returns true if the name is a plain file name without terminal control characters.
pub fn is_name(name: &str) -> bool {
    FileName::new(name).is_ok() && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_kind_is_determined_by_name() {
        let kinds = [
            ("E00-1f3a77c2.copy", RemoteFileKind::Message),
            ("E00-1f3a77c2.wants", RemoteFileKind::Message),
            ("E00-5e3f0a11-1A.patch", RemoteFileKind::Message),
            ("E00-1f3a77c2.copy-new", RemoteFileKind::TemporaryMessage),
            ("E00-5e3f0a11-1A.message-new", RemoteFileKind::TemporaryMessage),
            ("E00-5e3f0a11-1A.image", RemoteFileKind::PageImage),
            ("E00-.image", RemoteFileKind::Other),
            ("E00-.copy", RemoteFileKind::Other),
            ("E00-a--b.copy", RemoteFileKind::Other),
            ("E00.copy", RemoteFileKind::Other),
            ("E0é-a.copy", RemoteFileKind::Other),
            ("E00.log", RemoteFileKind::OpenLog),
            ("E00tmp.log", RemoteFileKind::OpenLog),
            ("edb.jtx", RemoteFileKind::OpenLog),
            ("E00000001AB.log", RemoteFileKind::ClosedLog),
            ("SRU0005B.log", RemoteFileKind::ClosedLog),
            ("E000005B.jtx", RemoteFileKind::ClosedLog),
            ("E00x.log", RemoteFileKind::Other),
            ("E00.lock", RemoteFileKind::LogLock),
            ("copy.lock", RemoteFileKind::Other),
            ("scan.lock", RemoteFileKind::Other),
            ("copy.json", RemoteFileKind::CopyState),
            ("copy.json.unfinished", RemoteFileKind::TemporaryCopyState),
            ("data.edb", RemoteFileKind::Other),
            ("E00.chk", RemoteFileKind::CheckpointOrFlushMap),
            ("E00.jcp", RemoteFileKind::CheckpointOrFlushMap),
            ("E001.chk", RemoteFileKind::Other),
            ("data.jfm", RemoteFileKind::CheckpointOrFlushMap),
            (".jfm", RemoteFileKind::Other),
            ("scan.json", RemoteFileKind::CopyReport),
            ("checks.json", RemoteFileKind::CopyReport),
            ("reseed.json", RemoteFileKind::Other),
            ("E00000001AB.log.lost", RemoteFileKind::LostLog),
            ("data.edb.lost", RemoteFileKind::Other),
            ("id_ed25519", RemoteFileKind::Other),
            ("server.key", RemoteFileKind::Other),
            ("token", RemoteFileKind::Other),
            ("", RemoteFileKind::Other),
            (".", RemoteFileKind::Other),
        ];
        for (name, kind) in kinds {
            assert_eq!(RemoteFileKind::from_name(name), kind, "{name}");
        }
    }

    #[test]
    fn only_messages_can_change_without_a_handover() {
        let names = [
            "E00-a.copy",
            "E00-a.copy-new",
            "E00-a.wants",
            "E00-a.message-new",
            "E00.log",
            "E00tmp.log",
            "E0000000001.log",
            "E00.lock",
            "copy.json",
            "copy.json.unfinished",
            "data.edb",
            "E00.chk",
            "E00-a.image",
        ];
        let allowed = |change: RequestedChange<'_>| change.permission() == ChangePermission::Allowed;
        let possible = |change: RequestedChange<'_>| change.permission() != ChangePermission::Denied;
        let names_where =
            |is: &dyn Fn(&str) -> bool| names.into_iter().filter(|name| is(name)).collect::<Vec<_>>();
        assert_eq!(
            names_where(&|name| allowed(RequestedChange::Create(name))),
            ["E00-a.copy-new", "E00-a.message-new"]
        );
        assert_eq!(names_where(&|name| allowed(RequestedChange::Write(name))), [""; 0]);
        assert_eq!(
            names_where(&|name| allowed(RequestedChange::Remove(name))),
            ["E00-a.copy", "E00-a.copy-new", "E00-a.wants", "E00-a.message-new"]
        );
        assert_eq!(names_where(&|name| allowed(RequestedChange::CreateLock(name))), [""; 0]);
        assert_eq!(names_where(&|name| possible(RequestedChange::Write(name))), ["E00.log", "E00tmp.log"]);
        assert_eq!(names_where(&|name| possible(RequestedChange::CreateLock(name))), ["E00.lock"]);
        for (change, name) in [("remove", "E0000000001.log"), ("remove", "data.edb"), ("remove", "copy.json")]
        {
            assert!(!possible(RequestedChange::Remove(name)), "{change} {name}");
        }
        let renames: Vec<(&str, &str)> = names
            .into_iter()
            .flat_map(|from| names.into_iter().map(move |to| (from, to)))
            .filter(|(from, to)| possible(RequestedChange::Rename(from, to)))
            .collect();
        assert_eq!(
            renames,
            [
                ("E00-a.copy-new", "E00-a.copy"),
                ("E00-a.message-new", "E00-a.wants"),
                ("E00.log", "E0000000001.log"),
                ("E00tmp.log", "E0000000001.log"),
                ("copy.json.unfinished", "copy.json"),
            ]
        );
        assert!(
            !possible(RequestedChange::Rename("E00-a.copy-new", "E00-b.copy")),
            "the file of another copy"
        );
        assert!(!possible(RequestedChange::Rename("E01.log", "E0000000001.log")), "of another stream");
    }

    #[test]
    fn clients_can_access_only_received_logs_in_subdirectories() {
        assert_eq!(RemoteFileKind::from_path("E00.log"), Some(RemoteFileKind::OpenLog));
        for given in ["incoming/streamed.log", "incoming/part.log"] {
            assert_eq!(RemoteFileKind::from_path(given), Some(RemoteFileKind::ReceivedLog), "{given}");
        }
        for other in [
            "incoming/E00.log",
            "incoming/data.edb",
            "incoming/copy.json",
            "incoming/",
            "x/part.log",
            "/part.log",
        ] {
            assert_eq!(RemoteFileKind::from_path(other), None, "{other}");
        }
    }

    #[test]
    fn a_registration_name_contains_the_copy_id() {
        assert_eq!(registered_id("E00-1f3a.copy"), Some("1f3a"));
        for other in ["E00-1f3a.copy-new", "E00-1f3a.wants", "E00.copy", "x", "E0é-a.copy"] {
            assert_eq!(registered_id(other), None, "{other}");
        }
    }

    #[test]
    fn names_cannot_escape_the_directory() {
        for bad in ["", ".", "..", "/", "a/b", "../a", "/etc/passwd", "a\\b", "a\0b", "a\nb", "\u{1b}[2J"] {
            assert!(!is_name(bad), "{bad:?}");
        }
        assert!(!is_name(&"x".repeat(256)));
        assert!(["a", "...", "größe.edb", " "].into_iter().all(is_name));
    }
}
