//! What a server offers: directories by name, what clients may do in them, and the secret that clients must know.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jetcell_sync::Arc;
use jetcell_vfs::Vfs;
use subtle::ConstantTimeEq;

use crate::error::ServeError;
use crate::rights::is_name;

/// Shortest token: a shorter one could be guessed.
const SHORTEST_TOKEN: usize = 16;
/// Longest token, so that it has room in a greeting.
const LONGEST_TOKEN: usize = 1024;

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
            SHORTEST_TOKEN..=LONGEST_TOKEN => Ok(Token(bytes.to_vec())),
            len => Err(format!(
                "the token has {len} characters; it needs {SHORTEST_TOKEN} to {LONGEST_TOKEN}, for example those of `openssl rand -hex 32`"
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
    /// The host, for people.
    pub host: String,
    directories: BTreeMap<String, PathBuf>,
}

impl Exports {
    /// Nothing but reading and messages of copies is allowed in these directories.
    ///
    /// # Errors
    /// A name is none, or stands for two directories.
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
            if let Some(other) = directories.insert(name.clone(), directory.clone())
                && other != directory
            {
                return Err(ServeError::TwoDirectories { name, one: other, other: directory });
            }
        }
        Ok(Exports { vfs, token, allow_handover: false, host, directories })
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
