//! Which logs the copies of a stream still need: one small file for each copy, beside the logs.
//!
//! A copy that another process keeps cannot hold logs by a [`LogHold`](super::LogHold), and holds nothing while its active
//! instance is stopped. So it registers with a file in the directory of the logs. Whatever removes logs reads these files.
//!
//! ```text
//! E00-1f3a77c2.copy, one block of 4096 bytes, text and then zeros:
//!   jetcell copy 1
//!   stream 5e3f...            signature of the log stream
//!   needs 1A                  the first generation that the copy does not have, in hexadecimal
//!   contact 1767225600000     when the copy said so last, in milliseconds since 1970 UTC
//!   copy /backup/mail-copy    where it is
//!   waits disk full           why it cannot go on now; left out if it can
//!   host db2                  the host where it is; earlier versions left it out
//! ```
//!
//! Logs are kept for a copy until it needs a generation more than [`InstanceOptions::copy_lag_limit`] behind the newest
//! one: then the copy is cut off. A file that cannot be read keeps all logs.
//!
//! [`InstanceOptions::copy_lag_limit`]: crate::InstanceOptions::copy_lag_limit

use std::path::{Path, PathBuf};

use ese_format::log::header::SEGMENT_BYTES;
use ese_format::{Generation, Signature};
use jetcell_vfs::{FileName, FileStem, IoBuffer, IoReason, OpenMode, Vfs, replace_file_through};

use crate::{Error, Result};

const MAGIC: &str = "jetcell copy 1";
const EXTENSION: &str = "copy";
/// Characters that say why a copy waits.
const LONGEST_WAITS: usize = 500;

/// What one copy needs of a log stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRegistration {
    /// Identity of the copy: letters and digits.
    pub id: String,
    /// The log stream.
    pub stream: Signature,
    /// The first generation that the copy does not have.
    pub needs: Generation,
    /// When the copy said so last, in milliseconds since 1970 UTC.
    pub contact_unix_ms: i64,
    /// Where the copy is.
    pub copy: String,
    /// Why it cannot go on now.
    pub waiting: Option<String>,
    /// The host where it is; `None`: it did not say so.
    pub host: Option<String>,
}

impl CopyRegistration {
    /// Stores the registration beside the logs, durably. It replaces the earlier one of the copy.
    pub fn store(&self, vfs: &dyn Vfs, directory: &Path, base: FileStem) -> Result<()> {
        let path = directory.join(copy_file_name(base, &self.id, EXTENSION)?);
        let aside = path.with_extension("copy-new");
        let text = self.to_text();
        let mut block = text.into_bytes();
        block.resize(SEGMENT_BYTES, 0);
        // Only one process keeps a copy, so no other process uses the second name.
        let replaced = replace_file_through(vfs, &path, &aside, &block, IoReason::Other);
        replaced.map_err(|error| Error::io(&path, &error))
    }

    /// Removes the registration of a copy, durably, if there is one.
    pub fn remove(vfs: &dyn Vfs, directory: &Path, base: FileStem, id: &str) -> Result<()> {
        let path = directory.join(copy_file_name(base, id, EXTENSION)?);
        let removed = match vfs.remove(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            removed => removed.and_then(|()| vfs.sync_directory(directory)),
        };
        removed.map_err(|error| Error::io(&path, &error))
    }

    /// The registrations beside the logs with this base name, each with its file. `None`: it cannot be read.
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
                Ok(text) => found.push((path, CopyRegistration::from_text(&id, &text))),
                // It was replaced or removed since the directory was read.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(_) => found.push((path, None)),
            }
        }
        Ok(found)
    }

    /// The oldest generation that a copy of the stream needs, among copies that are not cut off: those that are at most
    /// `limit` generations behind `newest`.
    pub fn oldest_needed(
        vfs: &dyn Vfs,
        directory: &Path,
        base: FileStem,
        stream: Signature,
        newest: Generation,
        limit: u32,
    ) -> Result<Option<Generation>> {
        let registered = CopyRegistration::list(vfs, directory, base)?.into_iter();
        let needs = registered.filter_map(|(_, registration)| match registration {
            None => Some(Generation(0)),
            Some(registration) if registration.stream != stream => None,
            Some(registration) => (!registration.is_cut_off(newest, limit)).then_some(registration.needs),
        });
        Ok(needs.min())
    }

    /// Whether the copy is so far behind that it keeps no log.
    pub fn is_cut_off(&self, newest: Generation, limit: u32) -> bool {
        newest.0.saturating_sub(self.needs.0) > limit
    }

    fn to_text(&self) -> String {
        let one_line = |text: &str| text.replace('\n', " ");
        // A block that is full is cut off here, and must be text still.
        let brief = |what: &str| one_line(what).chars().filter(char::is_ascii).take(LONGEST_WAITS).collect();
        let waits = self.waiting.as_deref().map(brief).map(|what: String| format!("waits {what}\n"));
        let host = self.host.as_deref().map(brief).map(|name: String| format!("host {name}\n"));
        format!(
            "{MAGIC}\nstream {}\nneeds {:X}\ncontact {}\ncopy {}\n{}{}",
            self.stream.to_hex(),
            self.needs.0,
            self.contact_unix_ms,
            one_line(&self.copy),
            waits.unwrap_or_default(),
            host.unwrap_or_default()
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
        // Lines that are not known are those of a later version.
        let rest: Vec<&str> = lines.collect();
        let optional = |name: &str| {
            let value = |line: &&str| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_string());
            rest.iter().find_map(value)
        };
        let (waiting, host) = (optional("waits"), optional("host"));
        Some(CopyRegistration { id: id.to_string(), stream, needs, contact_unix_ms, copy, waiting, host })
    }
}

/// Name of the file of a copy in the directory of the logs.
///
/// Errors: the identity of the copy is not letters and digits ([`Error::Usage`]).
pub fn copy_file_name(base: FileStem, id: &str, extension: &str) -> Result<FileName> {
    let name = FileName::new(format!("{base}-{id}.{extension}"));
    name.ok().filter(|_| is_id(id)).ok_or_else(|| {
        let id: String = id.chars().take(80).collect();
        Error::Usage(format!("{id:?} is not the identity of a copy; use letters and digits"))
    })
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The copy to which a file belongs, by its name.
fn id_of(path: &Path, base: FileStem) -> Option<&str> {
    let id = path.file_name()?.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    let id = id.strip_prefix(base.as_str())?.strip_prefix('-')?;
    is_id(id).then_some(id)
}

fn read(vfs: &dyn Vfs, path: &Path) -> std::io::Result<String> {
    let file = vfs.open(path, OpenMode::Read)?;
    let mut block = IoBuffer::zeroed(SEGMENT_BYTES);
    file.read_at(0, &mut block, IoReason::Other)?;
    let end = block.iter().position(|byte| *byte == 0).unwrap_or(block.len());
    String::from_utf8(block[..end].to_vec()).map_err(std::io::Error::other)
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
    fn a_registration_of_an_earlier_version_has_no_host_and_one_of_a_later_version_may_have_more() {
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
    fn the_slowest_copy_counts_until_it_is_too_far_behind() {
        let disk = SimVfs::new();
        disk.create_directory(Path::new(LOGS)).unwrap();
        assert_eq!(oldest(&disk, 30, 10), None);
        let store = |registration: &CopyRegistration| {
            registration.store(&disk, Path::new(LOGS), FileStem::E00).unwrap()
        };
        [("aa", 0x1A), ("bb", 0x1C)].iter().for_each(|(id, needs)| store(&registration(id, *needs)));
        assert_eq!(oldest(&disk, 30, 10), Some(0x1A));
        let found = CopyRegistration::list(&disk, Path::new(LOGS), FileStem::E00).unwrap();
        assert_eq!(found[0].1, Some(registration("aa", 0x1A)));
        assert_eq!(found[1].1, Some(registration("bb", 0x1C)));
        assert_eq!(oldest(&disk, 0x1A + 11, 10), Some(0x1C), "cut off");
        store(&registration("aa", 0x1D));
        assert_eq!(oldest(&disk, 30, 10), Some(0x1C));
        // Of another stream, or of a stream with another name.
        store(&CopyRegistration { stream: Signature::new(8, LogTime::NONE), ..registration("cc", 1) });
        registration("dd", 1).store(&disk, Path::new(LOGS), FileStem::new("E01").unwrap()).unwrap();
        assert_eq!(oldest(&disk, 30, 100), Some(0x1C));
        CopyRegistration::remove(&disk, Path::new(LOGS), FileStem::E00, "bb").unwrap();
        CopyRegistration::remove(&disk, Path::new(LOGS), FileStem::E00, "bb").unwrap();
        assert_eq!(oldest(&disk, 30, 100), Some(0x1D));
        disk.put(Path::new("/log/E00-ee.copy"), &[b'x'; 4096]);
        assert_eq!(oldest(&disk, 30, 100), Some(0), "nothing says what this copy needs");
    }
}
