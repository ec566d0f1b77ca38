//! Maps lost bytes of an array to the test files that contain them.

use std::ops::Range;
use std::path::PathBuf;

use jetcell_array::{Array, ArrayAccess, ArrayExamination, AssembleOptions};
use jetcell_luns::Volume;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use super::state_file::ArrayDirectory;

impl ArrayDirectory {
    /// Returns the files on an examined array that have lost bytes, with the lost byte ranges of each file. Nothing is
    /// written. The result is empty if no data is lost, or if the array has no files.
    ///
    /// # Errors
    /// Returns an error if the array is in use, or if the table of its files cannot be read.
    pub fn lost_files(
        &self,
        vfs: &Arc<dyn Vfs>,
        found: &ArrayExamination,
    ) -> jetcell_array::Result<Vec<(PathBuf, Range<u64>)>> {
        if found.lost_bytes.is_empty() {
            return Ok(vec![]);
        }
        let used = found.members.iter().filter(|(_, state)| state.is_used());
        let members: Vec<PathBuf> = used.map(|(path, _)| path.clone()).collect();
        let options = AssembleOptions { force: true, access: ArrayAccess::ReadOnly };
        let mut array = Array::assemble(vfs.clone(), &members, options)?;
        Volume::files_at(&mut array, &found.lost_bytes)
    }
}
