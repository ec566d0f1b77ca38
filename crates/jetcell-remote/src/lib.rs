//! Directories of another host as a file system, so that copies of databases can follow an active side there.
//!
//! ```text
//!  host of the copy                                        host of the active side
//!  DirectorySource ──> RemoteVfs ──> requests over TLS ──> Server ──> exported directories
//!                                <── replies, in pieces
//! ```
//!
//! A [`Server`] offers named directories. A [`RemoteVfs`] has them below `tls://HOST:PORT`. The client asks for each piece, so a slow one
//! is never flooded, and what was interrupted goes on with the next question. See `docs/copies.md` for what clients may do.
//!
//! Invariants: bytes from the network never make either side panic or take memory that did not arrive; a client touches only
//! regular files of the kinds in `rights`, and never through a link; locks end with their connection.
#![forbid(unsafe_code)]

mod address;
mod channel;
mod connection;
mod connector;
mod content;
mod error;
mod exports;
mod fields;
mod frame;
mod host;
mod in_process;
mod open_writes;
mod remote_vfs;
mod reply;
mod request;
mod rights;
mod server;
mod session;
mod tls;

pub use crate::address::{HostAddress, Scheme, is_address};
pub use crate::channel::Channel;
pub use crate::connection::Welcome;
pub use crate::connector::{ClientLimits, Connector, NetworkConnector, Stream};
pub use crate::error::{RemoteError, ServeError};
pub use crate::exports::{Exports, MAX_FILES, Token};
pub use crate::host::RemoteOptions;
pub use crate::in_process::{InProcess, Wire};
pub use crate::remote_vfs::RemoteVfs;
pub use crate::server::{Counts, Server, ServerLimits, Stopper};
pub use crate::tls::{ClientFiles, ServerFiles};
