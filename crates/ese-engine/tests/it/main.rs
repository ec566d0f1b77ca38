//! The engine through its public API, on a simulated disk; judged by models and by `ese-check`.

mod foreign;
mod headers;
mod recovered;
mod tables;
