//! Maximum number of open files per client.

use crate::error::ServeError;
use crate::exports::MAX_FILES;

/// Number of descriptors reserved for the server itself and for clients that have not presented the token.
const OWN_DESCRIPTORS: u64 = 256;
/// Minimum number of files and locks that each client must be able to have open.
const MIN_FILES: u64 = 16;

/// Returns the maximum number of open files per client. `limit` is the process's descriptor limit; `None` means
/// unlimited. Each client needs one descriptor for its connection, and one for each file and each lock.
///
/// # Errors
/// Returns an error if the limit is too low for this number of clients.
pub fn files_per_client(limit: Option<u64>, clients: u64) -> Result<usize, ServeError> {
    let Some(limit) = limit else { return Ok(MAX_FILES) };
    let descriptors = limit.saturating_sub(OWN_DESCRIPTORS) / clients.max(1);
    let files = descriptors.saturating_sub(1) / 2;
    if files < MIN_FILES {
        let needed = OWN_DESCRIPTORS + clients * (2 * MIN_FILES + 1);
        return Err(ServeError::Descriptors { clients, needed, limit });
    }
    Ok(usize::try_from(files).unwrap_or(MAX_FILES).min(MAX_FILES))
}

#[cfg(test)]
#[path = "descriptors_tests.rs"]
mod tests;
