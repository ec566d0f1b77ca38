//! Inode numbers for the paths that the kernel has requested.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fuser::INodeNo;

/// Each name has a separate inode number, so two links to a file have two numbers. This is sufficient for the kernel,
/// because nothing is cached.
pub(super) struct InodeTable {
    paths: BTreeMap<INodeNo, PathBuf>,
    numbers: BTreeMap<PathBuf, INodeNo>,
    last: u64,
}

impl InodeTable {
    pub(super) fn new() -> InodeTable {
        let root = (INodeNo::ROOT, PathBuf::from("/"));
        let numbers = BTreeMap::from([(root.1.clone(), root.0)]);
        InodeTable { paths: BTreeMap::from([root]), numbers, last: INodeNo::ROOT.0 }
    }

    pub(super) fn number(&mut self, path: &Path) -> INodeNo {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        self.last += 1;
        let number = INodeNo(self.last);
        self.paths.insert(number, path.to_owned());
        self.numbers.insert(path.to_owned(), number);
        number
    }

    /// Returns the path; `None` after the file has lost this name.
    pub(super) fn path(&self, number: INodeNo) -> Option<&Path> {
        self.paths.get(&number).map(PathBuf::as_path)
    }

    pub(super) fn removed(&mut self, path: &Path) {
        if let Some(number) = self.numbers.remove(path) {
            self.paths.remove(&number);
        }
    }

    pub(super) fn renamed(&mut self, from: &Path, to: &Path) {
        if from == to {
            return;
        }
        self.removed(to);
        if let Some(number) = self.numbers.remove(from) {
            self.paths.insert(number, to.to_owned());
            self.numbers.insert(to.to_owned(), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_number_follows_renames_and_is_never_reused() {
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        let mut inodes = InodeTable::new();
        assert_eq!(inodes.path(INodeNo::ROOT), Some(Path::new("/")));
        let (first, second) = (inodes.number(a), inodes.number(b));
        assert_ne!(first, second);
        inodes.renamed(a, b);
        assert_eq!((inodes.path(first), inodes.path(second)), (Some(b), None));
        assert_eq!(inodes.number(b), first);
        inodes.removed(b);
        assert_eq!(inodes.path(first), None);
        assert!(![first, second].contains(&inodes.number(a)), "numbers are not used again");
    }
}
