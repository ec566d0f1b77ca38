//! A server's exports: named directories, the clients' permissions, and the token that clients must send.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::Vfs;
use subtle::ConstantTimeEq;

use crate::content;
use crate::error::ServeError;
use crate::open_writes::OpenWrites;
use crate::permissions::is_name;

/// Minimum length of a token. A shorter one could be guessed.
pub(crate) const MIN_TOKEN_LEN: usize = 16;
/// Maximum length of a token. It must fit into a greeting.
pub(crate) const MAX_TOKEN_LEN: usize = 1024;

/// Maximum number of open files per client, unless the system allows fewer.
pub const MAX_FILES: usize = 256;

/// Maximum number of cached database paths.
const MAX_CACHED_DATABASES: usize = 1024;

/// A secret shared by server and client. Its `Debug` output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(Vec<u8>);

/// Error for a token with an invalid length. Contains the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the token is {0} characters long; it must have between {MIN_TOKEN_LEN} and {MAX_TOKEN_LEN} characters"
)]
pub struct TokenError(pub usize);

impl TokenError {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed("create a token, for example, with `openssl rand -hex 32`"))
    }
}

impl AccessToken {
    /// Creates a token from a file's content, without surrounding white space.
    ///
    /// # Errors
    ///
    /// Returns an error if the token is too short or too long. The message does not contain the token.
    pub fn from_text(text: &str) -> Result<AccessToken, TokenError> {
        let bytes = text.trim().as_bytes();
        match bytes.len() {
            MIN_TOKEN_LEN..=MAX_TOKEN_LEN => Ok(AccessToken(bytes.to_vec())),
            len => Err(TokenError(len)),
        }
    }

    /// Returns the bytes of the token. They may only be sent over a secured connection.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the token that a client sent is this token. The comparison runs in constant time.
    pub(crate) fn matches(&self, sent: &[u8]) -> bool {
        self.0.ct_eq(sent).into()
    }
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The directories that a server exports, and their permissions.
pub struct ExportedDirectories {
    /// File system that contains the directories.
    pub vfs: Arc<dyn Vfs>,
    /// Token that clients must send.
    pub token: AccessToken,
    /// Whether clients may take over the role of the active side from a stopped instance.
    pub allow_handover: bool,
    /// Maximum number of open files per client, and also its maximum number of locks. At most 256.
    pub max_files: usize,
    /// Host name for messages.
    pub host: String,
    directories: BTreeMap<String, PathBuf>,
    /// Files that clients are currently writing.
    pub(crate) writes: OpenWrites,
    /// Databases that have been recognized by their content. This cache avoids reading each of them again for every
    /// directory listing.
    databases: Mutex<BTreeSet<PathBuf>>,
}

impl ExportedDirectories {
    /// Exports directories by name. Clients may only read files and exchange copy messages. The file system must
    /// confine paths to the directories ([`Vfs::is_confined`]).
    ///
    /// # Errors
    ///
    /// Returns an error if a name is invalid or is used for two directories, or if the file system would follow links
    /// out of a directory.
    pub fn new(
        vfs: Arc<dyn Vfs>,
        token: AccessToken,
        host: String,
        named: Vec<(String, PathBuf)>,
    ) -> Result<ExportedDirectories, ServeError> {
        let mut directories = BTreeMap::new();
        for (name, directory) in named {
            if !is_name(&name) {
                return Err(ServeError::Name(name));
            }
            if !vfs.is_confined(&directory) {
                return Err(ServeError::Unconfined(directory));
            }
            if let Some(other) = directories.insert(name.clone(), directory.clone())
                && other != directory
            {
                return Err(ServeError::TwoDirectories { name, one: other, other: directory });
            }
        }
        let (writes, databases) = (OpenWrites::default(), Mutex::default());
        Ok(ExportedDirectories {
            vfs,
            token,
            allow_handover: false,
            max_files: MAX_FILES,
            host,
            directories,
            writes,
            databases,
        })
    }

    /// Returns true if the file was recognized as a database earlier, or if its current content is a database.
    pub(crate) fn is_known_database(&self, path: &Path) -> bool {
        self.databases.lock().contains(path) || self.is_database(path)
    }

    /// Returns true if the file's current content is a database. Returns false if the file cannot be read.
    pub(crate) fn is_database(&self, path: &Path) -> bool {
        let is = content::is_database(&*self.vfs, path).unwrap_or(false);
        let mut known = self.databases.lock();
        match is {
            true if known.len() < MAX_CACHED_DATABASES => _ = known.insert(path.to_path_buf()),
            true => {}
            false => _ = known.remove(path),
        }
        is
    }

    /// Returns the exported directories by name.
    pub fn directories(&self) -> &BTreeMap<String, PathBuf> {
        &self.directories
    }

    /// Returns the directory with this name.
    pub(crate) fn directory(&self, name: &str) -> Option<&Path> {
        self.directories.get(name).map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_redacted_and_has_a_minimum_length() {
        let token = AccessToken::from_text(" 0123456789abcdef\n").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        assert!(
            [&b"0123456789abcdeF"[..], b"0123456789abcde", b"0123456789abcdef0", b""]
                .iter()
                .all(|sent| !token.matches(sent))
        );
        assert_eq!(format!("{token:?}"), "Token(..)");
        let what = AccessToken::from_text("hunter2").unwrap_err().to_string();
        assert!(what.contains("7 characters") && !what.contains("hunter2"), "{what}");
    }
}
