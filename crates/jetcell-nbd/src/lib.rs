//! A server for network block devices (NBD). It exports anything that implements [`BlockExport`].
//!
//! It supports the fixed newstyle handshake, structured replies and the context `base:allocation` of the
//! [protocol](https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md). Clients are not trusted: an
//! invalid request gets an error or closes its connection, and no part of it reaches the export.
//!
//! | part | content |
//! | --- | --- |
//! | `protocol` | constants of the protocol |
//! | `export` | interface of the exported block devices |
//! | `session` | one connection: the handshake, then requests |
//! | `connection` | waiting for requests |
//! | `memory` | limit for the memory of all requests |
//! | `server` | listening, threads of the connections, shutdown |

#![forbid(unsafe_code)]

/// Compiles and runs the example in the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod connection;
mod export;
mod memory;
#[cfg(test)]
#[path = "tests/memory_export.rs"]
mod memory_export;
mod protocol;
mod server;
mod session;

pub use export::{AllocationExtent, BlockExport, ExportRead};
pub use server::{ListenAddress, NbdServer, NbdServerLimits, NbdServerStopper};
