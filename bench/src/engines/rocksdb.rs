//! RocksDB through its C API, from the distribution's library: an LSM tree, direct I/O but for the log. Inserts are
//! blind; deletes and replaces look first whether the record is there, as the others must.

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;

use anyhow::{Result, anyhow, bail};

use crate::store::{Key, Operation, Session, Store, StoreOptions};

/// Bytes of a memtable; there are at most three.
const MEMTABLE: usize = 32 << 20;
const BLOCK: usize = 8 << 10;
const BLOOM_BITS: c_double = 10.0;
const BACKGROUND_JOBS: c_int = 2;

/// All objects of the C API are opaque.
type Opaque = c_void;
/// Where the C API puts an error message, to be freed by the caller.
type ErrorPlace = *mut *mut c_char;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> *mut Opaque;
    fn rocksdb_options_destroy(options: *mut Opaque);
    fn rocksdb_options_set_create_if_missing(options: *mut Opaque, on: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: *mut Opaque, bytes: usize);
    fn rocksdb_options_set_max_write_buffer_number(options: *mut Opaque, count: c_int);
    fn rocksdb_options_set_max_background_jobs(options: *mut Opaque, count: c_int);
    fn rocksdb_options_set_compression(options: *mut Opaque, kind: c_int);
    fn rocksdb_options_set_use_direct_reads(options: *mut Opaque, on: c_uchar);
    fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(options: *mut Opaque, on: c_uchar);
    fn rocksdb_options_set_block_based_table_factory(options: *mut Opaque, table: *mut Opaque);
    fn rocksdb_block_based_options_create() -> *mut Opaque;
    fn rocksdb_block_based_options_destroy(table: *mut Opaque);
    fn rocksdb_block_based_options_set_block_size(table: *mut Opaque, bytes: usize);
    fn rocksdb_block_based_options_set_filter_policy(table: *mut Opaque, policy: *mut Opaque);
    fn rocksdb_block_based_options_set_block_cache(table: *mut Opaque, cache: *mut Opaque);
    fn rocksdb_filterpolicy_create_bloom_full(bits: c_double) -> *mut Opaque;
    fn rocksdb_cache_create_lru(bytes: usize) -> *mut Opaque;
    fn rocksdb_cache_destroy(cache: *mut Opaque);
    fn rocksdb_open(options: *const Opaque, path: *const c_char, error: ErrorPlace) -> *mut Opaque;
    fn rocksdb_close(db: *mut Opaque);
    fn rocksdb_writeoptions_create() -> *mut Opaque;
    fn rocksdb_writeoptions_destroy(options: *mut Opaque);
    fn rocksdb_writeoptions_set_sync(options: *mut Opaque, on: c_uchar);
    fn rocksdb_readoptions_create() -> *mut Opaque;
    fn rocksdb_readoptions_destroy(options: *mut Opaque);
    fn rocksdb_flushoptions_create() -> *mut Opaque;
    fn rocksdb_flushoptions_destroy(options: *mut Opaque);
    fn rocksdb_flush(db: *mut Opaque, options: *const Opaque, error: ErrorPlace);
    fn rocksdb_writebatch_create() -> *mut Opaque;
    fn rocksdb_writebatch_destroy(batch: *mut Opaque);
    fn rocksdb_writebatch_clear(batch: *mut Opaque);
    fn rocksdb_writebatch_put(
        batch: *mut Opaque,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        len: usize,
    );
    fn rocksdb_writebatch_delete(batch: *mut Opaque, key: *const u8, key_len: usize);
    fn rocksdb_write(db: *mut Opaque, options: *const Opaque, batch: *mut Opaque, error: ErrorPlace);
    fn rocksdb_get_pinned(
        db: *mut Opaque,
        options: *const Opaque,
        key: *const u8,
        key_len: usize,
        error: ErrorPlace,
    ) -> *mut Opaque;
    fn rocksdb_pinnableslice_value(slice: *const Opaque, len: *mut usize) -> *const u8;
    fn rocksdb_pinnableslice_destroy(slice: *mut Opaque);
    fn rocksdb_free(memory: *mut c_void);
}

/// Calls a function of the API that reports errors through a place.
fn checked<T>(call: impl FnOnce(ErrorPlace) -> T) -> Result<T> {
    let mut error = null_mut();
    let result = call(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: the API put a message of its own there, which ends with a zero and is the caller's to free.
    let message = unsafe {
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        message
    };
    bail!("RocksDB: {message}")
}

pub struct RocksDb {
    db: *mut Opaque,
    read: *mut Opaque,
    lazy: *mut Opaque,
    durable: *mut Opaque,
}

// SAFETY: a database and options that do not change may be used by all threads at once, says the API.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    pub fn open(options: &StoreOptions) -> Result<RocksDb> {
        let path = CString::new(options.directory.as_os_str().as_bytes()).map_err(|_| anyhow!("path"))?;
        // SAFETY: every object is created by the API right here and destroyed once, after its last use; the table
        // options take over the filter, and keep the cache by a count of references.
        unsafe {
            let table = rocksdb_block_based_options_create();
            let cache = rocksdb_cache_create_lru(options.cache as usize * 5 / 8);
            rocksdb_block_based_options_set_block_size(table, BLOCK);
            rocksdb_block_based_options_set_block_cache(table, cache);
            rocksdb_block_based_options_set_filter_policy(
                table,
                rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS),
            );
            let all = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(all, 1);
            rocksdb_options_set_write_buffer_size(all, MEMTABLE.min(options.cache as usize / 4));
            rocksdb_options_set_max_write_buffer_number(all, 3);
            rocksdb_options_set_max_background_jobs(all, BACKGROUND_JOBS);
            rocksdb_options_set_compression(all, 0);
            rocksdb_options_set_use_direct_reads(all, 1);
            rocksdb_options_set_use_direct_io_for_flush_and_compaction(all, 1);
            rocksdb_options_set_block_based_table_factory(all, table);
            let db = checked(|error| rocksdb_open(all, path.as_ptr(), error));
            rocksdb_options_destroy(all);
            rocksdb_block_based_options_destroy(table);
            rocksdb_cache_destroy(cache);
            let durable = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(durable, 1);
            Ok(RocksDb {
                db: db?,
                read: rocksdb_readoptions_create(),
                lazy: rocksdb_writeoptions_create(),
                durable,
            })
        }
    }

    /// Calls `found` with the value if the record is there.
    fn get(&self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        // SAFETY: the key is as long as said; the slice is valid until it is destroyed, after its last use.
        unsafe {
            let slice =
                checked(|error| rocksdb_get_pinned(self.db, self.read, key.as_ptr(), key.len(), error))?;
            if slice.is_null() {
                return Ok(false);
            }
            let mut len = 0;
            let value = rocksdb_pinnableslice_value(slice, &mut len);
            found(if len == 0 { &[] } else { std::slice::from_raw_parts(value, len) });
            rocksdb_pinnableslice_destroy(slice);
        }
        Ok(true)
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: created by the API, destroyed only here, and no session outlives the store.
        unsafe {
            rocksdb_close(self.db);
            rocksdb_readoptions_destroy(self.read);
            rocksdb_writeoptions_destroy(self.lazy);
            rocksdb_writeoptions_destroy(self.durable);
        }
    }
}

impl Store for RocksDb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        // SAFETY: creates an empty batch.
        let batch = unsafe { rocksdb_writebatch_create() };
        Ok(Box::new(RocksSession { store: self, batch }))
    }

    fn checkpoint(&self) -> Result<()> {
        // SAFETY: the options live until after the call.
        unsafe {
            let options = rocksdb_flushoptions_create();
            let flushed = checked(|error| rocksdb_flush(self.db, options, error));
            rocksdb_flushoptions_destroy(options);
            flushed
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
}

struct RocksSession<'a> {
    store: &'a RocksDb,
    batch: *mut Opaque,
}

impl Drop for RocksSession<'_> {
    fn drop(&mut self) {
        // SAFETY: created with the session, and destroyed only here.
        unsafe { rocksdb_writebatch_destroy(self.batch) }
    }
}

impl Session for RocksSession<'_> {
    fn execute(&mut self, operations: &[Operation], durable: bool) -> Result<()> {
        // SAFETY: the batch is this session's, and copies keys and values, which are as long as said.
        unsafe { rocksdb_writebatch_clear(self.batch) };
        for operation in operations {
            let key = operation.key();
            if !matches!(operation, Operation::Insert(..)) && !self.store.get(key, |_| ())? {
                bail!("record {key:02x?} is not there");
            }
            match operation {
                Operation::Insert(_, value) | Operation::Replace(_, value) => {
                    // SAFETY: as above.
                    unsafe {
                        let (key, value, len) = (key.as_ptr(), value.as_ptr(), value.len());
                        rocksdb_writebatch_put(self.batch, key, size_of::<Key>(), value, len);
                    }
                }
                // SAFETY: as above.
                Operation::Delete(_) => unsafe {
                    rocksdb_writebatch_delete(self.batch, key.as_ptr(), key.len());
                },
                Operation::Read(_) => {}
            }
        }
        let options = if durable { self.store.durable } else { self.store.lazy };
        // SAFETY: all of them live.
        checked(|error| unsafe { rocksdb_write(self.store.db, options, self.batch, error) })
    }

    fn read(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool> {
        self.store.get(key, |found| {
            value.clear();
            value.extend_from_slice(found);
        })
    }
}
