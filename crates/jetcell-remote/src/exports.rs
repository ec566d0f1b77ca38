//! What a server offers: directories by name, what clients may do in them, and the secret that clients must know.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::Vfs;
use subtle::ConstantTimeEq;

use crate::content;
use crate::error::ServeError;
use crate::open_writes::OpenWrites;
use crate::rights::is_name;

/// Minimum length of a token: a shorter one could be guessed.
const MIN_TOKEN: usize = 16;
/// Maximum length of a token: it must have room in a greeting.
const MAX_TOKEN: usize = 1024;

/// Maximum number of files that a client may have open, unless the system allows fewer.
pub const MAX_FILES: usize = 256;

/// Maximum number of databases whose recognition is remembered.
const MAX_KNOWN: usize = 1024;

/// A secret that both sides know. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl Token {
    /// The content of a file, without white space around it.
    ///
    /// # Errors
    /// It is too short or too long; the text says so, and not what it is.
    pub fn from_text(text: &str) -> Result<Token, String> {
        let bytes = text.trim().as_bytes();
        match bytes.len() {
            MIN_TOKEN..=MAX_TOKEN => Ok(Token(bytes.to_vec())),
            len => Err(format!(
                "the token has {len} characters; it needs {MIN_TOKEN} to {MAX_TOKEN}, for example those of `openssl rand -hex 32`"
            )),
        }
    }

    /// The bytes, to be sent over a connection that is secured.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a client has sent this token. The time does not depend on how much of it is right.
    pub(crate) fn is(&self, sent: &[u8]) -> bool {
        self.0.ct_eq(sent).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What a server offers.
pub struct Exports {
    /// The file system.
    pub vfs: Arc<dyn Vfs>,
    /// The secret.
    pub token: Token,
    /// Whether clients may take the role of the active side from a stopped instance.
    pub allow_handover: bool,
    /// Maximum number of files that a client may have open. At most [`MAX_FILES`]. The same maximum is that of locks.
    pub max_files: usize,
    /// The host, for people.
    pub host: String,
    directories: BTreeMap<String, PathBuf>,
    /// Files that clients write now.
    pub(crate) writes: OpenWrites,
    /// Databases that were recognised by their content: a list of a directory must not read each of them again.
    databases: Mutex<BTreeSet<PathBuf>>,
}

impl Exports {
    /// Nothing but reading and messages of copies is allowed in these directories. The file system must confine paths in them
    /// ([`Vfs::confines`]).
    ///
    /// # Errors
    /// A name is none, or stands for two directories; the file system would follow links out of a directory.
    pub fn new(
        vfs: Arc<dyn Vfs>,
        token: Token,
        host: String,
        named: Vec<(String, PathBuf)>,
    ) -> Result<Exports, ServeError> {
        let mut directories = BTreeMap::new();
        for (name, directory) in named {
            if !is_name(&name) {
                return Err(ServeError::Name(name));
            }
            if !vfs.confines(&directory) {
                return Err(ServeError::Unconfined(directory));
            }
            if let Some(other) = directories.insert(name.clone(), directory.clone())
                && other != directory
            {
                return Err(ServeError::TwoDirectories { name, one: other, other: directory });
            }
        }
        let (writes, databases) = (OpenWrites::default(), Mutex::default());
        Ok(Exports {
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

    /// Whether a file is a database, by what was found when it was opened last, or by its content now.
    pub(crate) fn is_known_database(&self, path: &Path) -> bool {
        self.databases.lock().contains(path) || self.is_database(path)
    }

    /// Whether a file is a database now, by its content. One that cannot be read is none.
    pub(crate) fn is_database(&self, path: &Path) -> bool {
        let is = content::is_database(&*self.vfs, path).unwrap_or(false);
        let mut known = self.databases.lock();
        match is {
            true if known.len() < MAX_KNOWN => _ = known.insert(path.to_path_buf()),
            true => {}
            false => _ = known.remove(path),
        }
        is
    }

    /// The names and their directories.
    pub fn directories(&self) -> &BTreeMap<String, PathBuf> {
        &self.directories
    }

    /// The directory with this name.
    pub(crate) fn directory(&self, name: &str) -> Option<&Path> {
        self.directories.get(name).map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_shown_and_has_a_least_length() {
        let token = Token::from_text(" 0123456789abcdef\n").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        assert!(
            [&b"0123456789abcdeF"[..], b"0123456789abcde", b"0123456789abcdef0", b""]
                .iter()
                .all(|sent| !token.is(sent))
        );
        assert_eq!(format!("{token:?}"), "Token(..)");
        let what = Token::from_text("hunter2").unwrap_err();
        assert!(what.contains("7 characters") && !what.contains("hunter2"), "{what}");
    }
}
