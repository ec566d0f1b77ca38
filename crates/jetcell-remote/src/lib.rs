//! Provides directories on another host as a file system. Database copies use it to follow an active side on that
//! host.
//!
//! ```text
//!  host of the copy                                        host of the active side
//!  DirectorySource ──> RemoteVfs ──> requests over TLS ──> RemoteServer ──> exported directories
//!                                <── replies, in pieces
//! ```
//!
//! A [`RemoteServer`] exports named directories. A [`RemoteVfs`] provides them below `tls://HOST:PORT`. The client
//! requests each chunk separately, so a slow client is never flooded, and an interrupted transfer continues with the
//! next request. `docs/remote-copies.md` describes the clients' permissions.
//!
//! Invariants:
//! - Bytes from the network never cause a panic, and never cause memory to be allocated for bytes that have not
//!   arrived.
//! - A client can access only regular files of the kinds listed in `permissions`, and never through a link.
//! - A lock is released when its connection ends.
#![forbid(unsafe_code)]

mod address;
mod channel;
mod connection;
mod connector;
mod content;
mod descriptors;
mod error;
mod exports;
mod fields;
mod frame;
mod host;
mod in_process;
mod open_writes;
mod permissions;
mod remote_vfs;
mod reply;
mod request;
mod server;
mod session;
mod tls;

pub use crate::address::{HostAddress, Scheme, is_address};
pub use crate::channel::Channel;
pub use crate::connection::ServerWelcome;
pub use crate::connector::{ClientLimits, ClientStream, Connector, NetworkConnector};
pub use crate::descriptors::files_per_client;
pub use crate::error::{
    AddressError, ProtocolError, RemoteError, ServeError, TlsFileError, UnreachableReason, UntrustedReason,
};
pub use crate::exports::{AccessToken, ExportedDirectories, TokenError};
pub use crate::host::RemoteOptions;
pub use crate::in_process::{InProcessConnector, SimulatedLink};
pub use crate::remote_vfs::RemoteVfs;
pub use crate::server::{RemoteServer, RemoteServerStopper, ServerCounters, ServerLimits};
pub use crate::tls::{ClientTlsFiles, ServerTlsFiles};
