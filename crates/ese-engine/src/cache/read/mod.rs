//! Reads pages from disk, either into frames or directly for a caller that bypasses the frames.

pub(super) mod fetch;
mod install_image;
mod preread;
pub(super) mod read_through;
pub(super) mod uncached_read;
