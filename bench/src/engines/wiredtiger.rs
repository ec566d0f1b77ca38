//! WiredTiger, the closest relative of ESE: a B-tree with pages of 32 KiB and checksums, a log with group commit,
//! buffered I/O. A checkpoint every 30 s or 512 MB of log, unless a restart may have to read more.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};

use anyhow::{Result, anyhow, bail};

use crate::store::{BenchStore, RecordKey, StoreOptions, StoreSession, StoreStatement};

const TABLE: &CStr = c"table:records";
const TABLE_CONFIG: &CStr = c"key_format=u,value_format=u,leaf_page_max=32KB,leaf_value_max=8KB,checksum=on";

type WtConnection = c_void;
type WtSession = c_void;
type WtCursor = c_void;

unsafe extern "C" {
    fn wiredtiger_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int) -> *const c_char;
    fn wiredtiger_strerror(error: c_int) -> *const c_char;
    fn bench_wt_open(home: *const c_char, config: *const c_char, connection: *mut *mut WtConnection)
    -> c_int;
    fn bench_wt_close(connection: *mut WtConnection) -> c_int;
    fn bench_wt_create(connection: *mut WtConnection, table: *const c_char, config: *const c_char) -> c_int;
    fn bench_wt_checkpoint(connection: *mut WtConnection) -> c_int;
    fn bench_wt_session(
        connection: *mut WtConnection,
        table: *const c_char,
        session: *mut *mut WtSession,
        cursor: *mut *mut WtCursor,
    ) -> c_int;
    fn bench_wt_bulk(
        connection: *mut WtConnection,
        table: *const c_char,
        session: *mut *mut WtSession,
        cursor: *mut *mut WtCursor,
    ) -> c_int;
    fn bench_wt_end(session: *mut WtSession);
    fn bench_wt_begin(session: *mut WtSession) -> c_int;
    fn bench_wt_commit(session: *mut WtSession, durable: bool) -> c_int;
    fn bench_wt_rollback(session: *mut WtSession) -> c_int;
    fn bench_wt_insert(
        cursor: *mut WtCursor,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        len: usize,
    ) -> c_int;
    fn bench_wt_update(
        cursor: *mut WtCursor,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        len: usize,
    ) -> c_int;
    fn bench_wt_remove(cursor: *mut WtCursor, key: *const u8, key_len: usize) -> c_int;
    fn bench_wt_search(
        cursor: *mut WtCursor,
        key: *const u8,
        key_len: usize,
        value: *mut *const u8,
        len: *mut usize,
    ) -> c_int;
    fn bench_wt_reset(cursor: *mut WtCursor) -> c_int;
    fn bench_wt_not_found() -> c_int;
    fn bench_wt_conflict() -> c_int;
}

fn check(error: c_int) -> Result<()> {
    if error == 0 {
        return Ok(());
    }
    // SAFETY: the function takes any number. Its message stays valid until the thread's next call.
    let message = unsafe { CStr::from_ptr(wiredtiger_strerror(error)) };
    bail!("WiredTiger: {}", message.to_string_lossy())
}

/// Version that the library reports.
pub fn version() -> String {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: the function writes three numbers to places that are ours.
    unsafe { wiredtiger_version(&mut major, &mut minor, &mut patch) };
    format!("{major}.{minor}.{patch}")
}

pub struct WiredTiger(*mut WtConnection);

// SAFETY: the API allows threads to share a connection. Sessions are not shared.
unsafe impl Send for WiredTiger {}
// SAFETY: as above.
unsafe impl Sync for WiredTiger {}

impl WiredTiger {
    pub fn open(options: &StoreOptions) -> Result<WiredTiger> {
        let home = CString::new(options.directory.as_os_str().as_bytes()).map_err(|_| anyhow!("path"))?;
        let checkpoints =
            if options.checkpoint_depth > 512 << 20 { "" } else { "checkpoint=(wait=30,log_size=512MB)," };
        let config = CString::new(format!(
            "create,cache_size={},{checkpoints}log=(enabled=true),transaction_sync=(enabled=true,method=fsync)",
            options.cache
        ))?;
        let mut connection = null_mut();
        // SAFETY: the strings end with zeros, and the place for the result is ours.
        unsafe {
            check(bench_wt_open(home.as_ptr(), config.as_ptr(), &mut connection))?;
            check(bench_wt_create(connection, TABLE.as_ptr(), TABLE_CONFIG.as_ptr()))?;
        }
        Ok(WiredTiger(connection))
    }
}

impl BenchStore for WiredTiger {
    fn session(&self) -> Result<Box<dyn StoreSession + '_>> {
        let (mut session, mut cursor) = (null_mut(), null_mut());
        // SAFETY: the connection is open.
        unsafe { check(bench_wt_session(self.0, TABLE.as_ptr(), &mut session, &mut cursor))? };
        Ok(Box::new(WiredTigerSession { session, cursor, _store: self }))
    }

    fn checkpoint(&self) -> Result<()> {
        // SAFETY: the connection is open.
        check(unsafe { bench_wt_checkpoint(self.0) })
    }

    fn bulk_load(&self, next: &mut dyn FnMut() -> Option<(RecordKey, Vec<u8>)>) -> Result<()> {
        let (mut session, mut cursor) = (null_mut(), null_mut());
        // SAFETY: the connection is open.
        unsafe { check(bench_wt_bulk(self.0, TABLE.as_ptr(), &mut session, &mut cursor))? };
        let load = WiredTigerSession { session, cursor, _store: self };
        while let Some((key, value)) = next() {
            // SAFETY: the cursor is of this session; key and value are as long as said and outlive the call.
            check(unsafe {
                bench_wt_insert(load.cursor, key.as_ptr(), key.len(), value.as_ptr(), value.len())
            })?;
        }
        drop(load);
        // The rows are not logged.
        self.checkpoint()
    }

    fn close(self: Box<Self>) -> Result<()> {
        // SAFETY: sessions borrow the store, so all of them have ended, and nothing uses the connection after this.
        check(unsafe { bench_wt_close(self.0) })
    }
}

struct WiredTigerSession<'a> {
    session: *mut WtSession,
    cursor: *mut WtCursor,
    _store: &'a WiredTiger,
}

impl Drop for WiredTigerSession<'_> {
    fn drop(&mut self) {
        // SAFETY: opened with this session; closes the cursor too.
        unsafe { bench_wt_end(self.session) }
    }
}

impl WiredTigerSession<'_> {
    /// Runs one operation. Returns the error code of the API.
    fn run(&mut self, operation: &StoreStatement) -> c_int {
        let (cursor, key) = (self.cursor, operation.key());
        // SAFETY: the cursor is this session's; keys and values are as long as said and outlive the call.
        unsafe {
            match operation {
                StoreStatement::Insert(_, value) => {
                    bench_wt_insert(cursor, key.as_ptr(), key.len(), value.as_ptr(), value.len())
                }
                StoreStatement::Replace(_, value) => {
                    bench_wt_update(cursor, key.as_ptr(), key.len(), value.as_ptr(), value.len())
                }
                StoreStatement::Delete(_) => bench_wt_remove(cursor, key.as_ptr(), key.len()),
                StoreStatement::Read(_) => {
                    let (mut value, mut len) = (null(), 0);
                    bench_wt_search(cursor, key.as_ptr(), key.len(), &mut value, &mut len)
                }
            }
        }
    }

    fn attempt(&mut self, operations: &[StoreStatement], durable: bool) -> c_int {
        // SAFETY: the session is open, and every path ends the transaction.
        unsafe {
            let error = bench_wt_begin(self.session);
            if error != 0 {
                return error;
            }
            for operation in operations {
                let error = self.run(operation);
                if error != 0 {
                    bench_wt_rollback(self.session);
                    return error;
                }
            }
            bench_wt_commit(self.session, durable)
        }
    }
}

impl StoreSession for WiredTigerSession<'_> {
    fn execute(&mut self, operations: &[StoreStatement], durable: bool) -> Result<()> {
        loop {
            let error = self.attempt(operations, durable);
            // WiredTiger rolls transactions back when its cache is full. The application must try again.
            // SAFETY: returns a constant.
            if error != unsafe { bench_wt_conflict() } {
                return check(error);
            }
        }
    }

    fn read(&mut self, key: &RecordKey, value: &mut Vec<u8>) -> Result<bool> {
        let (mut found, mut len) = (null(), 0);
        // SAFETY: the value stays valid until the cursor is reset, which is after the copy.
        unsafe {
            let error = bench_wt_search(self.cursor, key.as_ptr(), key.len(), &mut found, &mut len);
            if error == bench_wt_not_found() {
                return Ok(false);
            }
            check(error)?;
            value.clear();
            value.extend_from_slice(std::slice::from_raw_parts(found, len));
            check(bench_wt_reset(self.cursor))?;
        }
        Ok(true)
    }
}
