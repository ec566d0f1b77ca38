//! What takes the place of TLS in a build without the feature `tls`: no value of these types exists.

use std::io;

use super::{ClientFiles, ServerFiles};
use crate::channel::{Channel, TimedStream};
use crate::error::{RemoteError, ServeError};

/// See the feature `tls`.
pub(crate) enum ServerTls {}

impl ServerTls {
    /// # Errors
    /// Always.
    pub fn new(files: &ServerFiles) -> Result<ServerTls, ServeError> {
        let _ = (&files.key, &files.client_authorities);
        Err(ServeError::NoTls)
    }

    pub fn accept(&self, _: TimedStream) -> io::Result<Box<dyn Channel>> {
        match *self {}
    }
}

/// See the feature `tls`.
pub(crate) enum ClientTls {}

impl ClientTls {
    /// # Errors
    /// Always.
    pub fn new(files: &ClientFiles) -> Result<ClientTls, RemoteError> {
        let _ = files;
        Err(RemoteError::NoTls)
    }

    pub fn connect(&self, _: &str, _: TimedStream) -> Result<Box<dyn Channel>, RemoteError> {
        match *self {}
    }
}

/// Why a handshake failed. There are none.
pub(crate) fn explained(_: &io::Error, _: &str) -> Option<RemoteError> {
    None
}
