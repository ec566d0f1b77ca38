//! Registrations of copies, which record the logs that each copy still needs. Each registration is a small file in
//! the log directory.
//!
//! A copy that another process maintains cannot retain logs with a [`LogHold`](super::LogHold), because a hold does
//! not outlive the active instance. Therefore the copy registers with a file in the log directory. All code that
//! removes logs reads these files.
//!
//! ```text
//! E00-1f3a77c2.copy, one block of 4096 bytes, text and then zeros:
//!   jetcell copy 1
//!   stream 5e3f...            signature of the log stream
//!   needs 1A                  first generation that the copy does not have, in hexadecimal
//!   contact 1767225600000     time of the copy's last contact, in milliseconds since 1970 UTC
//!   copy /backup/mail-copy    directory of the copy
//!   waits disk full           reason why the copy cannot continue; absent if it can
//!   host db2                  host of the copy; absent in earlier versions
//!   unreadable 1F             only in the replacement for an unreadable file: newest generation when replaced
//! ```
//!
//! Logs are retained for a copy until it needs a generation that is more than [`CopyOptions::lag_limit`]
//! generations older than the newest one. At that point, the copy is cut off. An unreadable file retains all logs for
//! the same number of generations, counted from the time when it was first found unreadable. It is replaced by a
//! registration that stores the newest generation at that time, so the limit does not restart with each process. At
//! its next contact, the copy replaces this registration with its own.
//!
//! [`CopyOptions::lag_limit`]: crate::CopyOptions::lag_limit

use std::path::{Path, PathBuf};

use ese_format::log::header::SEGMENT_BYTES;
use ese_format::{Generation, Signature};
use jetcell_vfs::{
    FileName, FileStem, IoBuffer, IoReason, OpenMode, Vfs, remove_durably, replace_file_through,
};

use crate::{Error, Result, UsageError};

const MAGIC: &str = "jetcell copy 1";
const EXTENSION: &str = "copy";
/// Maximum length, in characters, of the stored reason why a copy is waiting.
const MAX_WAIT_REASON_CHARS: usize = 500;

/// Waiting reason shown for a copy whose registration could not be read.
const UNREADABLE: &str = "failed to read the registration of the copy; run jetcell replicate for the copy, \
 or remove its .copy file";

/// A copy's registration, with the logs it needs and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRegistration {
    /// Id of the copy, which consists of letters and digits.
    pub id: String,
    /// Signature of the log stream.
    pub stream: Signature,
    /// First generation that the copy does not have.
    pub needs: Generation,
    /// Time of the copy's last contact, in milliseconds since 1970 UTC.
    pub contact_unix_ms: i64,
    /// Directory of the copy.
    pub copy: String,
    /// Reason why the copy cannot continue for now.
    pub waiting: Option<String>,
    /// Host of the copy; `None` if the copy did not report it.
    pub host: Option<String>,
    /// Set if this registration replaces one that could not be read. The value is the newest generation at that time.
    pub unreadable_since: Option<Generation>,
}

impl CopyRegistration {
    /// Stores the registration durably in the log directory, replacing the copy's previous registration.
    pub fn store(&self, vfs: &dyn Vfs, directory: &Path, base: FileStem) -> Result<()> {
        // Only one process maintains a copy, so no other process uses the temporary file name.
        self.put(vfs, directory, base, "copy-new")
    }

    fn put(&self, vfs: &dyn Vfs, directory: &Path, base: FileStem, aside: &str) -> Result<()> {
        let path = directory.join(copy_file_name(base, &self.id, EXTENSION)?);
        let mut block = self.to_text().into_bytes();
        block.resize(CopyRegistration::BYTES, 0);
        let replaced = replace_file_through(vfs, &path, &path.with_extension(aside), &block, IoReason::Other);
        replaced.map_err(|error| Error::io(&path, &error))
    }

    /// Creates a replacement for a registration that cannot be read. The replacement requires all logs. `newest` is the
    /// newest generation at the time of the call.
    pub fn unreadable(id: &str, stream: Signature, newest: Generation) -> CopyRegistration {
        CopyRegistration {
            id: id.to_string(),
            stream,
            needs: Generation(0),
            contact_unix_ms: 0,
            copy: format!("copy {id}"),
            waiting: Some(UNREADABLE.to_string()),
            host: None,
            unreadable_since: Some(newest),
        }
    }

    /// Length of a registration file in bytes.
    pub const BYTES: usize = SEGMENT_BYTES;

    /// Parses the content of the registration file for the copy `id`. Returns `None` if the content is not a
    /// registration.
    pub fn parse(id: &str, content: &[u8]) -> Option<CopyRegistration> {
        let block = content.get(..CopyRegistration::BYTES)?;
        let end = block.iter().position(|byte| *byte == 0).unwrap_or(block.len());
        CopyRegistration::from_text(id, str::from_utf8(&block[..end]).ok()?)
    }

    /// Returns the id of the copy whose registration file has this name.
    pub fn id_of(name: &str, base: FileStem) -> Option<&str> {
        let id = name.strip_suffix(EXTENSION)?.strip_suffix('.')?;
        let id = id.strip_prefix(base.as_str())?.strip_prefix('-')?;
        is_id(id).then_some(id)
    }

    /// Durably removes the registration of a copy, if it exists.
    pub fn remove(vfs: &dyn Vfs, directory: &Path, base: FileStem, id: &str) -> Result<()> {
        let path = directory.join(copy_file_name(base, id, EXTENSION)?);
        remove_durably(vfs, &path).map(drop).map_err(|error| Error::io(&path, &error))
    }

    /// Lists the registrations for logs with this base name, each with its file. The registration is `None` if its
    /// file cannot be read.
    pub fn list(
        vfs: &dyn Vfs,
        directory: &Path,
        base: FileStem,
    ) -> Result<Vec<(PathBuf, Option<CopyRegistration>)>> {
        let files = vfs.list(directory).map_err(|error| Error::io(directory, &error))?;
        let mut found = Vec::new();
        for path in files {
            let Some(id) = id_of(&path, base).map(str::to_string) else { continue };
            match read(vfs, &path) {
                Ok(block) => found.push((path, CopyRegistration::parse(&id, &block))),
                // The file was replaced or removed after the directory was listed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(_) => found.push((path, None)),
            }
        }
        Ok(found)
    }

    /// Returns the oldest generation that any copy of the stream needs. Ignores copies that are cut off, that is,
    /// those whose lag behind `newest` exceeds `limit` generations.
    pub fn oldest_needed(
        vfs: &dyn Vfs,
        directory: &Path,
        base: FileStem,
        stream: Signature,
        newest: Generation,
        limit: u32,
    ) -> Result<Option<Generation>> {
        let mut needs = None;
        for (path, registration) in CopyRegistration::list(vfs, directory, base)? {
            let registration = match registration.filter(|known| known.is_possible(newest)) {
                Some(registration) => registration,
                None => {
                    let Some(id) = id_of(&path, base) else { continue };
                    let stand_in = CopyRegistration::unreadable(id, stream, newest);
                    // If this fails, the limit is counted from the next call.
                    let _ = stand_in.put(vfs, directory, base, "copy-unreadable");
                    stand_in
                }
            };
            if registration.stream == stream && !registration.is_cut_off(newest, limit) {
                let least =
                    needs.map_or(registration.needs, |needs: Generation| needs.min(registration.needs));
                needs = Some(least);
            }
        }
        Ok(needs)
    }

    /// Returns whether the generation at which the registration became unreadable is not newer than `newest`. With a
    /// future generation, the limit would never be reached.
    fn is_possible(&self, newest: Generation) -> bool {
        self.unreadable_since.is_none_or(|since| since <= newest)
    }

    /// Returns whether the copy lags so far that no logs are retained for it.
    pub fn is_cut_off(&self, newest: Generation, limit: u32) -> bool {
        newest.0.saturating_sub(self.unreadable_since.unwrap_or(self.needs).0) > limit
    }

    fn to_text(&self) -> String {
        let one_line = |text: &str| text.replace('\n', " ");
        // A text that is too long for the block is truncated. The result must still be valid.
        let brief =
            |what: &str| one_line(what).chars().filter(char::is_ascii).take(MAX_WAIT_REASON_CHARS).collect();
        let waits = self.waiting.as_deref().map(brief).map(|what: String| format!("waits {what}\n"));
        let host = self.host.as_deref().map(brief).map(|name: String| format!("host {name}\n"));
        let unreadable = self.unreadable_since.map(|since| format!("unreadable {:X}\n", since.0));
        format!(
            "{MAGIC}\nstream {}\nneeds {:X}\ncontact {}\ncopy {}\n{}{}{}",
            self.stream.to_hex(),
            self.needs.0,
            self.contact_unix_ms,
            one_line(&self.copy),
            waits.unwrap_or_default(),
            host.unwrap_or_default(),
            unreadable.unwrap_or_default()
        )
    }

    fn from_text(id: &str, text: &str) -> Option<CopyRegistration> {
        let mut lines = text.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        if field("jetcell")? != MAGIC.strip_prefix("jetcell ")? {
            return None;
        }
        let stream = Signature::from_hex(field("stream")?)?;
        let needs = Generation(u32::from_str_radix(field("needs")?, 16).ok()?);
        let contact_unix_ms = field("contact")?.parse().ok()?;
        let copy = field("copy")?.to_string();
        // Unknown lines come from later versions.
        let rest: Vec<&str> = lines.collect();
        let optional = |name: &str| {
            let value = |line: &&str| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_string());
            rest.iter().find_map(value)
        };
        let (waiting, host) = (optional("waits"), optional("host"));
        let unreadable_since = match optional("unreadable") {
            Some(text) => Some(Generation(u32::from_str_radix(&text, 16).ok()?)),
            None => None,
        };
        let id = id.to_string();
        Some(CopyRegistration { id, stream, needs, contact_unix_ms, copy, waiting, host, unreadable_since })
    }
}

/// Returns the name of a file in the log directory that belongs to the copy.
///
/// Returns [`Error::Usage`] if `id` contains characters other than letters and digits.
pub fn copy_file_name(base: FileStem, id: &str, extension: &str) -> Result<FileName> {
    let name = FileName::new(format!("{base}-{id}.{extension}"));
    let valid = name.ok().filter(|_| is_id(id));
    valid.ok_or_else(|| UsageError::CopyId(id.chars().take(80).collect()).into())
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn id_of(path: &Path, base: FileStem) -> Option<&str> {
    CopyRegistration::id_of(path.file_name()?.to_str()?, base)
}

fn read(vfs: &dyn Vfs, path: &Path) -> std::io::Result<IoBuffer> {
    let file = vfs.open(path, OpenMode::Read)?;
    let mut block = IoBuffer::zeroed(CopyRegistration::BYTES);
    file.read_at(0, &mut block, IoReason::Other)?;
    Ok(block)
}

#[cfg(test)]
mod tests {
    use ese_format::LogTime;
    use jetcell_vfs::SimVfs;

    use super::*;

    const LOGS: &str = "/log";

    fn registration(id: &str, needs: u32) -> CopyRegistration {
        CopyRegistration {
            id: id.to_string(),
            stream: Signature::new(7, LogTime::NONE),
            needs: Generation(needs),
            contact_unix_ms: -5,
            copy: "/a copy/with spaces".to_string(),
            waiting: (id == "aa").then(|| "the disk is full".to_string()),
            host: (id == "bb").then(|| "db2.example".to_string()),
            unreadable_since: None,
        }
    }

    fn oldest(disk: &SimVfs, newest: u32, limit: u32) -> Option<u32> {
        let stream = Signature::new(7, LogTime::NONE);
        CopyRegistration::oldest_needed(
            disk,
            Path::new(LOGS),
            FileStem::E00,
            stream,
            Generation(newest),
            limit,
        )
        .unwrap()
        .map(|generation| generation.0)
    }

    #[test]
    fn registrations_from_earlier_and_later_versions_are_accepted() {
        let known = CopyRegistration {
            waiting: Some("the disk is full".to_string()),
            host: Some("db2".to_string()),
            ..registration("aa", 1)
        };
        let text = known.to_text();
        assert_eq!(CopyRegistration::from_text("aa", &text), Some(known.clone()));
        let later = CopyRegistration::from_text("aa", &text.replace("host", "mood good\nhost"));
        assert_eq!(later, Some(known.clone()));
        let earlier = CopyRegistration::from_text("aa", &text.replace("host db2\n", ""));
        assert_eq!(earlier, Some(CopyRegistration { host: None, ..known }));
    }

    #[test]
    fn the_slowest_copy_keeps_logs_until_it_exceeds_the_limit() {
        let disk = SimVfs::new();
        disk.create_directory(Path::new(LOGS)).unwrap();
        assert_eq!(oldest(&disk, 30, 10), None);
        let store = |registration: &CopyRegistration| {
            registration.store(&disk, Path::new(LOGS), FileStem::E00).unwrap();
        };
        [("aa", 0x1A), ("bb", 0x1C)].iter().for_each(|(id, needs)| store(&registration(id, *needs)));
        assert_eq!(oldest(&disk, 30, 10), Some(0x1A));
        let found = CopyRegistration::list(&disk, Path::new(LOGS), FileStem::E00).unwrap();
        assert_eq!(found[0].1, Some(registration("aa", 0x1A)));
        assert_eq!(found[1].1, Some(registration("bb", 0x1C)));
        assert_eq!(oldest(&disk, 0x1A + 11, 10), Some(0x1C), "cut off");
        store(&registration("aa", 0x1D));
        assert_eq!(oldest(&disk, 30, 10), Some(0x1C));
        // A registration for another stream, and one for a stream with another base name.
        store(&CopyRegistration { stream: Signature::new(8, LogTime::NONE), ..registration("cc", 1) });
        registration("dd", 1).store(&disk, Path::new(LOGS), FileStem::new("E01").unwrap()).unwrap();
        assert_eq!(oldest(&disk, 30, 100), Some(0x1C));
        CopyRegistration::remove(&disk, Path::new(LOGS), FileStem::E00, "bb").unwrap();
        CopyRegistration::remove(&disk, Path::new(LOGS), FileStem::E00, "bb").unwrap();
        assert_eq!(oldest(&disk, 30, 100), Some(0x1D));
    }

    #[test]
    fn an_unreadable_registration_keeps_all_logs_up_to_the_limit() {
        let disk = SimVfs::new();
        disk.create_directory(Path::new(LOGS)).unwrap();
        let file = Path::new("/log/E00-ee.copy");
        for garbage in [&[b'x'; 4096][..], &[0; 4096], &[0xFF; 100], &[]] {
            disk.put(file, garbage);
            assert_eq!(oldest(&disk, 30, 10), Some(0), "nothing says what this copy needs");
            // The limit does not restart in another process, or when the newest generation changes.
            assert_eq!(oldest(&disk, 40, 10), Some(0));
            assert_eq!(oldest(&disk, 41, 10), None, "cut off");
        }
        let known = CopyRegistration::list(&disk, Path::new(LOGS), FileStem::E00).unwrap();
        assert_eq!(known[0].1.as_ref().unwrap().unreadable_since, Some(Generation(30)));
        // The stored generation is in the future, so the limit would never be reached.
        let forged =
            CopyRegistration { unreadable_since: Some(Generation(u32::MAX)), ..registration("ee", 1) };
        forged.store(&disk, Path::new(LOGS), FileStem::E00).unwrap();
        assert_eq!((oldest(&disk, 50, 10), oldest(&disk, 61, 10)), (Some(0), None));
        // The copy has made contact again.
        registration("ee", 55).store(&disk, Path::new(LOGS), FileStem::E00).unwrap();
        assert_eq!(oldest(&disk, 61, 10), Some(55));
        let files = disk.list(Path::new(LOGS)).unwrap();
        assert_eq!(files, [file], "nothing is left aside");
    }
}
