//! Traits for file systems and files that are layered on others: a layer overrides the operations that it changes,
//! and all other operations are passed to the layer below.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Clock, DirectoryLock, File, IoReason, OpenMode, Transfer, Vfs};

/// A file system layered on another file system. It implements [`Vfs`], which documents the methods.
#[expect(missing_docs, reason = "the methods of Vfs")]
pub trait VfsLayer: Send + Sync {
    /// Returns the file system below.
    fn inner(&self) -> &dyn Vfs;
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.inner().open(path, mode)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner().exists(path)
    }
    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        self.inner().is_regular_file(path)
    }
    fn is_confined(&self, directory: &Path) -> bool {
        self.inner().is_confined(directory)
    }
    fn unfinished_path(&self, path: &Path) -> PathBuf {
        self.inner().unfinished_path(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner().remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner().rename(from, to)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.inner().sync_directory(directory)
    }
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.inner().create_directory(directory)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner().list(directory)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.inner().free_space(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.inner().lock(path)
    }
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.inner().lock_directory(directory)
    }
    fn same_file(&self, one: &Path, other: &Path) -> bool {
        self.inner().same_file(one, other)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner().link(from, to)
    }
    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner().clone_file(from, to)
    }
    /// Syncs each file through this layer, because the files belong to it.
    fn sync_files(&self, files: &[&dyn File], reason: IoReason) -> Vec<io::Result<()>> {
        self.inner().sync_files(files, reason)
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.inner().clock()
    }
}

impl<L: VfsLayer> Vfs for L {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        VfsLayer::open(self, path, mode)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        VfsLayer::exists(self, path)
    }
    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        VfsLayer::is_regular_file(self, path)
    }
    fn is_confined(&self, directory: &Path) -> bool {
        VfsLayer::is_confined(self, directory)
    }
    fn unfinished_path(&self, path: &Path) -> PathBuf {
        VfsLayer::unfinished_path(self, path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        VfsLayer::remove(self, path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        VfsLayer::rename(self, from, to)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        VfsLayer::sync_directory(self, directory)
    }
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        VfsLayer::create_directory(self, directory)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        VfsLayer::list(self, directory)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        VfsLayer::free_space(self, path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        VfsLayer::lock(self, path)
    }
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        VfsLayer::lock_directory(self, directory)
    }
    fn same_file(&self, one: &Path, other: &Path) -> bool {
        VfsLayer::same_file(self, one, other)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        VfsLayer::link(self, from, to)
    }
    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        VfsLayer::clone_file(self, from, to)
    }
    fn sync_files(&self, files: &[&dyn File], reason: IoReason) -> Vec<io::Result<()>> {
        VfsLayer::sync_files(self, files, reason)
    }
    fn clock(&self) -> Arc<dyn Clock> {
        VfsLayer::clock(self)
    }
}

/// A file layered on another file. It implements [`File`], which documents the methods. By default, a durable write
/// is a write followed by a sync, both through the layer.
#[expect(missing_docs, reason = "the methods of File")]
#[expect(clippy::len_without_is_empty, reason = "asking for a length is a system call that can fail")]
pub trait FileLayer: Send + Sync {
    /// Returns the file below.
    fn inner(&self) -> &dyn File;
    fn path(&self) -> &Path {
        self.inner().path()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        self.inner().read_at(offset, buffer, reason)
    }
    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        self.inner().write_at(offset, data, reason)
    }
    fn submit(&self, batch: Vec<Transfer>) {
        self.inner().submit(batch);
    }
    fn sync(&self, reason: IoReason) -> io::Result<()> {
        self.inner().sync(reason)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner().len()
    }
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.inner().next_data(offset)
    }
    fn grow(&self, len: u64) -> io::Result<()> {
        self.inner().grow(len)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner().truncate(len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner().punch_hole(offset, len)
    }
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner().reserve(offset, len)
    }
}

impl<L: FileLayer> File for L {
    fn path(&self) -> &Path {
        FileLayer::path(self)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        FileLayer::read_at(self, offset, buffer, reason)
    }
    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        FileLayer::write_at(self, offset, data, reason)
    }
    fn submit(&self, batch: Vec<Transfer>) {
        FileLayer::submit(self, batch);
    }
    fn sync(&self, reason: IoReason) -> io::Result<()> {
        FileLayer::sync(self, reason)
    }
    fn len(&self) -> io::Result<u64> {
        FileLayer::len(self)
    }
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        FileLayer::next_data(self, offset)
    }
    fn grow(&self, len: u64) -> io::Result<()> {
        FileLayer::grow(self, len)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        FileLayer::truncate(self, len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        FileLayer::punch_hole(self, offset, len)
    }
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        FileLayer::reserve(self, offset, len)
    }
}
