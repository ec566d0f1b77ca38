//! TLS placeholders for a build without the feature `tls`. These types have no values.

use std::io;

use super::{ClientTlsFiles, ServerTlsFiles};
use crate::channel::{Channel, TimedStream};
use crate::error::{RemoteError, ServeError};

/// Placeholder for the TLS server configuration. See the feature `tls`.
pub(crate) enum ServerTls {}

impl ServerTls {
    /// Always fails, because the program was built without TLS.
    ///
    /// # Errors
    ///
    /// Always returns an error.
    pub fn new(files: &ServerTlsFiles) -> Result<ServerTls, ServeError> {
        let _ = (&files.key, &files.client_authorities);
        Err(ServeError::NoTls)
    }

    pub fn accept(&self, _: TimedStream) -> io::Result<Box<dyn Channel>> {
        match *self {}
    }
}

/// Placeholder for the TLS client configuration. See the feature `tls`.
pub(crate) enum ClientTls {}

impl ClientTls {
    /// Always fails, because the program was built without TLS.
    ///
    /// # Errors
    ///
    /// Always returns an error.
    pub fn new(files: &ClientTlsFiles) -> Result<ClientTls, RemoteError> {
        let _ = files;
        Err(RemoteError::NoTls)
    }

    pub fn connect(&self, _: &str, _: TimedStream) -> Result<Box<dyn Channel>, RemoteError> {
        match *self {}
    }
}

/// Returns `None`, because there are no handshakes without TLS.
pub(crate) fn explained(_: &io::Error, _: &str) -> Option<RemoteError> {
    None
}
