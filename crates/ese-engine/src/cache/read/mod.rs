//! Reads pages from disk into frames, or past the frames to a reader.

pub(super) mod fetch;
mod install_image;
mod preread;
pub(super) mod read_through;
pub(super) mod uncached_read;
