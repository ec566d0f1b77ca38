//! A server of network block devices (NBD), for anything that implements [`Export`].
//!
//! It speaks the fixed newstyle handshake, structured replies and the context `base:allocation` of the
//! [protocol](https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md). What clients send is hostile: a wrong request gets an
//! error or ends its connection, and nothing of it reaches the export.
//!
//! | part | content |
//! | --- | --- |
//! | `protocol` | numbers of the protocol |
//! | `export` | what is served |
//! | `session` | one connection: the handshake, then requests |
//! | `connection` | how its thread waits for requests |
//! | `memory` | the bound of the memory of all requests |
//! | `server` | listening, the threads of the connections, the end |

#![forbid(unsafe_code)]

/// The example of the README, as a test.
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

pub use export::{Export, Extent, Read};
pub use server::{Address, Limits, Server, Stopper};
