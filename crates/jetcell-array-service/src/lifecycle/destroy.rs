//! Destruction of arrays.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_array::{Array, MemberLabel};

use crate::directory::ArrayDirectory;
use crate::environment::ServiceEnvironment;
use crate::error::{Error, InArray, Result};
use crate::members::is_link_to_file;

/// Result of the destruction of an array.
#[derive(Debug, PartialEq, Eq)]
pub struct DestroyedArray {
    /// Number of files that are no longer members.
    pub erased: usize,
    /// Former members that could not be read. They may still have a superblock of the array.
    pub unreadable: Vec<PathBuf>,
}

impl ArrayDirectory {
    /// Destroys the array. This works even if the array cannot start. Its events remain. A file at the path of a
    /// former member is only changed if it still belongs to this array.
    ///
    /// # Errors
    /// Returns an error if a member is in use or cannot be written.
    pub fn destroy(&self, environment: &ServiceEnvironment) -> Result<DestroyedArray> {
        let former = self.former.iter().filter(|path| !self.members.contains(path));
        // A former member whose directory cannot be read may exist.
        let former = former.filter(|path| path.try_exists().unwrap_or(true));
        let members = self.members.iter().filter(|path| path.exists());
        let mut present: Vec<PathBuf> = members.chain(former).cloned().collect();
        // A user with write access to a member's directory could have replaced the member with a link to a copy.
        for link in present.extract_if(.., |path| is_link_to_file(path)) {
            let link = link.display();
            environment.note(format_args!("{link}: not changed, because it is a link; remove the link"));
        }
        let mut unreadable = Vec::new();
        present.retain(|path| {
            self.members.contains(path)
                || self.owns_former(path, environment).unwrap_or_else(|error| {
                    let shown = path.display();
                    environment
                        .note(format_args!("{shown}: not changed, because it cannot be read: {error}"));
                    unreadable.push(path.clone());
                    false
                })
        });
        let erased = Array::erase(&*environment.vfs, self.id, &present).in_array(self.path.display())?;
        self.remove().map_err(|source| Error::Path { path: self.path.clone(), source })?;
        Ok(DestroyedArray { erased, unreadable })
    }

    /// Returns true if the file at the path of a former member belongs to this array. The path may have been reused.
    fn owns_former(&self, path: &Path, environment: &ServiceEnvironment) -> io::Result<bool> {
        let shown = path.display();
        match MemberLabel::read(&*environment.vfs, path)? {
            Some(MemberLabel::Known { array, .. }) if array == self.id => return Ok(true),
            Some(label) => environment.note(format_args!("{shown}: not changed, because it is {label}")),
            None => {}
        }
        Ok(false)
    }
}

#[cfg(test)]
#[path = "destroy_tests.rs"]
mod tests;
