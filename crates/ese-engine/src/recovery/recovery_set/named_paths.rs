//! Paths that a command names as its input.

use std::path::PathBuf;

use ese_format::foreign::ForeignFormat;
use ese_format::recognise::EseFileKind;
use jetcell_sync::Arc;
use jetcell_vfs::{Vfs, is_unfinished, parent_directory};

use super::{RecoverySet, recognise};
use crate::{Result, UsageError};

impl RecoverySet {
    /// Fails if one of the named paths is a directory without ESE files. `files` are the files that were listed at the
    /// paths. A path that is itself one of the files is accepted, because [`RecoverySet::find`] examines it.
    ///
    /// # Errors
    /// Returns [`UsageError::NothingFoundAt`] or [`UsageError::OtherFormat`], or an error if a file cannot be read.
    pub fn require_ese_files(vfs: &Arc<dyn Vfs>, paths: &[PathBuf], files: &[PathBuf]) -> Result<()> {
        for path in paths.iter().filter(|path| !files.contains(path)) {
            let (mut is_found, mut other) = (false, None);
            let here = files.iter().filter(|file| parent_directory(file) == path && !is_unfinished(file));
            for file in here {
                match recognise(&**vfs, file)? {
                    Some((EseFileKind::Unknown, start)) if other.is_none() => {
                        other = ForeignFormat::detect(&start).map(|format| (file.clone(), format));
                    }
                    Some((EseFileKind::Unknown, _)) | None => {}
                    Some(_) => {
                        is_found = true;
                        break;
                    }
                }
            }
            match other {
                _ if is_found => {}
                Some((path, format)) => return Err(UsageError::OtherFormat { path, format }.into()),
                None => return Err(UsageError::NothingFoundAt(path.clone()).into()),
            }
        }
        Ok(())
    }
}
