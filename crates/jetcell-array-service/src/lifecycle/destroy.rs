//! Destruction of arrays.

use std::path::PathBuf;

use jetcell_array::Array;

use crate::directory::ArrayDirectory;
use crate::environment::ServiceEnvironment;
use crate::error::{Error, InArray, Result};
use crate::members::is_link_to_file;

impl ArrayDirectory {
    /// Destroys the array, and returns the number of files that are no longer members. The array does not need to be
    /// able to start. Its events remain.
    ///
    /// # Errors
    /// A member is in use or cannot be written.
    pub fn destroy(&self, environment: &ServiceEnvironment) -> Result<usize> {
        let former = self.former.iter().filter(|path| !self.members.contains(path));
        let mut present: Vec<PathBuf> =
            self.members.iter().chain(former).filter(|path| path.exists()).cloned().collect();
        // A user with write access to a member's directory could have replaced the member with a link to a copy.
        for link in present.extract_if(.., |path| is_link_to_file(path)) {
            let link = link.display();
            environment.note(format_args!("{link}: not changed, because it is a link; remove the link"));
        }
        let erased = Array::erase(&*environment.vfs, self.id, &present).in_array(self.path.display())?;
        self.remove().map_err(|source| Error::Path { path: self.path.clone(), source })?;
        Ok(erased)
    }
}
