//! Destruction of arrays.

use std::path::{Path, PathBuf};

use jetcell_array::{Array, MemberLabel};

use crate::directory::ArrayDirectory;
use crate::environment::ServiceEnvironment;
use crate::error::{Error, InArray, Result};
use crate::members::is_link_to_file;

impl ArrayDirectory {
    /// Destroys the array, and returns the number of files that are no longer members. This works even if the array
    /// cannot start. Its events remain. A file at the path of a former member is only changed if it still belongs to
    /// this array.
    ///
    /// # Errors
    /// Returns an error if a member is in use or cannot be written.
    pub fn destroy(&self, environment: &ServiceEnvironment) -> Result<usize> {
        let former = self.former.iter().filter(|path| !self.members.contains(path));
        let mut present: Vec<PathBuf> =
            self.members.iter().chain(former).filter(|path| path.exists()).cloned().collect();
        // A user with write access to a member's directory could have replaced the member with a link to a copy.
        for link in present.extract_if(.., |path| is_link_to_file(path)) {
            let link = link.display();
            environment.note(format_args!("{link}: not changed, because it is a link; remove the link"));
        }
        present.retain(|path| self.members.contains(path) || self.owns_former(path, environment));
        let erased = Array::erase(&*environment.vfs, self.id, &present).in_array(self.path.display())?;
        self.remove().map_err(|source| Error::Path { path: self.path.clone(), source })?;
        Ok(erased)
    }

    /// Returns true if the file at the path of a former member belongs to this array. The path may have been reused.
    fn owns_former(&self, path: &Path, environment: &ServiceEnvironment) -> bool {
        let shown = path.display();
        match MemberLabel::read(&*environment.vfs, path) {
            Ok(Some(MemberLabel::Known { array, .. })) if array == self.id => return true,
            Ok(Some(label)) => environment.note(format_args!("{shown}: not changed, because it is {label}")),
            Ok(None) => {}
            Err(error) => environment.note(format_args!("{shown}: not changed: {error}")),
        }
        false
    }
}

#[cfg(test)]
#[path = "destroy_tests.rs"]
mod tests;
