//! Page cache.
