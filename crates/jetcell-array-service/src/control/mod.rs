//! Control of an array that a process is using. Other commands send operations to that process through a socket in the
//! array's directory.
//!
//! A client sends one line, the [request](crate::operations::ControlRequest). The server sends lines back: progress and
//! notes, and finally the answer or an error. The client keeps its sending side of the connection open. Closing it
//! interrupts the operation, as Ctrl-C would.

mod bounded_lines;
mod client;
mod protocol;
mod server;

pub(crate) use self::client::{connect, send_operation};
pub(crate) use self::server::ControlSocket;
