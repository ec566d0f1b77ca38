//! Examines an existing database file without changing it: whether it is a database, whether this program supports
//! it, and whether the logs it needs exist.

use std::io;
use std::path::Path;

use ese_format::foreign::FileContent;
use ese_format::header::{DatabaseHeader, DatabaseState, HeaderError};
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Vfs};

use crate::engine::ExistingDatabase;
use crate::layout::{InstancePlan, LOG_BASE_NAME};
use crate::start_error::StartError;

/// Number of bytes to read from the start of the file. They contain both header copies for every page size.
const HEADER_READ_BYTES: u64 = 65536;

/// Maximum length, in bytes, of a database file whose header has not been written yet.
const MAX_HEADERLESS_BYTES: u64 = 16 << 20;

/// Reads the header. If the file cannot be used, returns a one-line error that states the reason and what to do.
pub(crate) fn inspect(files: &dyn Vfs, instance: &InstancePlan) -> Result<ExistingDatabase, StartError> {
    let path = || instance.database.clone();
    let (start, file_bytes) =
        read_start(files, &instance.database).map_err(StartError::io("read", &instance.database))?;
    let (header, _) = DatabaseHeader::read_from_start(&start).map_err(|error| match error {
        HeaderError::NotADatabase { .. } | HeaderError::Truncated { .. } => {
            StartError::NotADatabase { path: path(), content: FileContent::detect(&start) }
        }
        HeaderError::UnknownVersion { .. } => StartError::UnsupportedFormat { path: path(), error },
        error => StartError::DamagedHeader { path: path(), error },
    })?;
    match header.state {
        DatabaseState::CleanShutdown => {}
        DatabaseState::DirtyShutdown => {
            let (first, last) = (header.gen_min_required.0, header.gen_max_required.0);
            if let Some(generation) = missing_log(files, &instance.log_dir, first, last) {
                let log_dir = instance.log_dir.clone();
                return Err(StartError::LogMissing { database: path(), generation, log_dir });
            }
        }
        state => return Err(StartError::UnsupportedState { database: path(), state }),
    }
    Ok(ExistingDatabase { page_bytes: header.page_size.get(), file_bytes })
}

/// Returns the first bytes of a file and its length.
fn read_start(files: &dyn Vfs, path: &Path) -> io::Result<(Vec<u8>, u64)> {
    let file = files.open(path, OpenMode::Read)?;
    let length = file.len()?;
    let mut start = IoBuffer::zeroed(length.min(HEADER_READ_BYTES) as usize);
    file.read_at(0, &mut start, IoReason::Verify)?;
    Ok((start.to_vec(), length))
}

/// Returns true if an interrupted creation can recreate this database without losing anything. This is the case if
/// the file is missing, or if the creation was interrupted before the header was written.
pub(crate) fn is_recreatable(files: &dyn Vfs, database: &Path) -> bool {
    let Ok((start, file_bytes)) = read_start(files, database) else {
        return !files.exists(database).unwrap_or(true);
    };
    match DatabaseHeader::read_from_start(&start) {
        Ok((header, _)) => header.state == DatabaseState::JustCreated,
        Err(_) => file_bytes <= MAX_HEADERLESS_BYTES,
    }
}

/// Returns the first generation in the range whose log is missing from the directory. The last
/// generation may be the current log, whose name contains no number.
fn missing_log(files: &dyn Vfs, dir: &Path, first: u32, last: u32) -> Option<u32> {
    let is_there = |name: String| files.exists(&dir.join(name)).unwrap_or(false);
    let current = is_there(format!("{LOG_BASE_NAME}.log"));
    let archived = |generation: &u32| is_there(format!("{LOG_BASE_NAME}{generation:08X}.log"));
    (first..=last).find(|generation| !(archived(generation) || current && *generation == last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ese_format::{Generation, LogTime, PageSize, Signature};

    fn files() -> jetcell_vfs::RealVfs {
        jetcell_vfs::RealVfs::new(jetcell_vfs::RealOptions::default()).unwrap()
    }

    fn clean() -> DatabaseHeader {
        let signature = Signature::new(7, LogTime::from_unix_ms(1_700_000_000_000));
        let mut header = DatabaseHeader::for_new_database(PageSize::KIB_8, signature, signature);
        header.state = DatabaseState::CleanShutdown;
        header
    }

    /// Inspects a file that starts with two copies of `header` and was then modified by `damage`.
    fn look(
        header: &DatabaseHeader,
        damage: impl Fn(&mut Vec<u8>),
        logs: &[&str],
    ) -> Result<ExistingDatabase, StartError> {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = header.encode().repeat(2);
        bytes.resize(80_000, 0);
        damage(&mut bytes);
        let instance = InstancePlan {
            number: 1,
            database: dir.path().join("Jetstress001001.edb"),
            log_dir: dir.path().to_path_buf(),
            initial_bytes: 0,
        };
        std::fs::write(&instance.database, bytes).unwrap();
        for log in logs {
            std::fs::write(dir.path().join(log), "").unwrap();
        }
        inspect(&files(), &instance)
    }

    #[test]
    fn a_clean_database_is_recognised_by_either_header_copy() {
        let expected = ExistingDatabase { page_bytes: 8192, file_bytes: 80_000 };
        assert_eq!(look(&clean(), |_| (), &[]).unwrap(), expected);
        assert_eq!(look(&clean(), |bytes| bytes[100] ^= 1, &[]).unwrap(), expected);
    }

    #[test]
    fn an_unusable_file_is_refused_with_the_reason() {
        let wrong = |damage: fn(&mut Vec<u8>)| look(&clean(), damage, &[]).unwrap_err().to_string();
        assert!(wrong(|bytes| bytes.fill(0)).contains("is not an ESE database"));
        assert!(wrong(|bytes| bytes.truncate(100)).contains("is not an ESE database"));
        assert!(wrong(|bytes| (bytes[100], bytes[8192 + 100]) = (1, 1)).contains("has a damaged header"));
        let future = DatabaseHeader { version: 0x999, ..clean() };
        assert!(
            look(&future, |_| (), &[]).unwrap_err().to_string().contains("unknown database format 0x999")
        );
        let unfinished = DatabaseHeader { state: DatabaseState::JustCreated, ..clean() };
        assert!(look(&unfinished, |_| (), &[]).unwrap_err().to_string().contains("is in state JustCreated"));
    }

    #[test]
    fn only_a_database_without_a_header_is_created_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Jetstress001001.edb");
        assert!(is_recreatable(&files(), &path));
        let with = |header: &DatabaseHeader, bytes: u64| {
            std::fs::write(&path, header.encode().repeat(2)).unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
            is_recreatable(&files(), &path)
        };
        let just = DatabaseHeader { state: DatabaseState::JustCreated, ..clean() };
        assert!(with(&just, 8 << 20) && !with(&clean(), 8 << 20));
        let (garbage, full) = (vec![0; 8 << 20], vec![0; 17 << 20]);
        std::fs::write(&path, garbage).unwrap();
        assert!(is_recreatable(&files(), &path));
        // A large file without a header must have been filled earlier, so its header is damaged.
        std::fs::write(&path, full).unwrap();
        assert!(!is_recreatable(&files(), &path));
    }

    #[test]
    fn a_dirty_database_needs_its_logs() {
        let mut dirty = clean();
        dirty.state = DatabaseState::DirtyShutdown;
        (dirty.gen_min_required, dirty.gen_max_required) = (Generation(9), Generation(11));
        let all = ["E0000000009.log", "E000000000A.log", "E00.log"];
        assert!(look(&dirty, |_| (), &all).is_ok());
        assert!(look(&dirty, |_| (), &["E0000000009.log", "E000000000A.log", "E000000000B.log"]).is_ok());
        let text = look(&dirty, |_| (), &all[..1]).unwrap_err().to_string();
        assert!(text.contains("was not shut down cleanly and needs log A (hexadecimal)"), "{text}");
        assert!(look(&dirty, |_| (), &all[..2]).unwrap_err().to_string().contains("needs log B"));
        assert!(look(&dirty, |_| (), &all[1..]).unwrap_err().to_string().contains("needs log 9"));
    }
}
