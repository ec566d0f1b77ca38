//! RocksDB through its C API, from the distribution's library: an LSM tree with direct I/O except for the log.
//! Inserts are blind. Deletes and replaces look the record up first, as the other engines must.

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::null_mut;

use anyhow::{Result, anyhow, bail};

use crate::store::{BenchStore, RecordKey, StoreOptions, StoreSession, StoreStatement};

/// Bytes of a memtable. There are at most three.
const MEMTABLE: usize = 32 << 20;
const BLOCK: usize = 8 << 10;
const BLOOM_BITS: c_double = 10.0;
const BACKGROUND_JOBS: c_int = 2;
/// Bytes of keys and values in a table file that a bulk load makes.
const INGESTED: usize = 256 << 20;

/// All objects of the C API are opaque.
type RocksOpaque = c_void;
/// Location for an error message of the C API. The caller frees the message.
type ErrorSlot = *mut *mut c_char;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> *mut RocksOpaque;
    fn rocksdb_options_destroy(options: *mut RocksOpaque);
    fn rocksdb_options_set_create_if_missing(options: *mut RocksOpaque, on: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: *mut RocksOpaque, bytes: usize);
    fn rocksdb_options_set_max_write_buffer_number(options: *mut RocksOpaque, count: c_int);
    fn rocksdb_options_set_max_background_jobs(options: *mut RocksOpaque, count: c_int);
    fn rocksdb_options_set_compression(options: *mut RocksOpaque, kind: c_int);
    fn rocksdb_options_set_use_direct_reads(options: *mut RocksOpaque, on: c_uchar);
    fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(options: *mut RocksOpaque, on: c_uchar);
    fn rocksdb_options_set_block_based_table_factory(options: *mut RocksOpaque, table: *mut RocksOpaque);
    fn rocksdb_block_based_options_create() -> *mut RocksOpaque;
    fn rocksdb_block_based_options_destroy(table: *mut RocksOpaque);
    fn rocksdb_block_based_options_set_block_size(table: *mut RocksOpaque, bytes: usize);
    fn rocksdb_block_based_options_set_filter_policy(table: *mut RocksOpaque, policy: *mut RocksOpaque);
    fn rocksdb_block_based_options_set_block_cache(table: *mut RocksOpaque, cache: *mut RocksOpaque);
    fn rocksdb_filterpolicy_create_bloom_full(bits: c_double) -> *mut RocksOpaque;
    fn rocksdb_cache_create_lru(bytes: usize) -> *mut RocksOpaque;
    fn rocksdb_cache_destroy(cache: *mut RocksOpaque);
    fn rocksdb_open_column_families(
        options: *const RocksOpaque,
        path: *const c_char,
        count: c_int,
        names: *const *const c_char,
        options_of_each: *const *const RocksOpaque,
        families: *mut *mut RocksOpaque,
        error: ErrorSlot,
    ) -> *mut RocksOpaque;
    fn rocksdb_column_family_handle_destroy(family: *mut RocksOpaque);
    fn rocksdb_close(db: *mut RocksOpaque);
    fn rocksdb_writeoptions_create() -> *mut RocksOpaque;
    fn rocksdb_writeoptions_destroy(options: *mut RocksOpaque);
    fn rocksdb_writeoptions_set_sync(options: *mut RocksOpaque, on: c_uchar);
    fn rocksdb_readoptions_create() -> *mut RocksOpaque;
    fn rocksdb_readoptions_destroy(options: *mut RocksOpaque);
    fn rocksdb_flushoptions_create() -> *mut RocksOpaque;
    fn rocksdb_flushoptions_destroy(options: *mut RocksOpaque);
    fn rocksdb_flush(db: *mut RocksOpaque, options: *const RocksOpaque, error: ErrorSlot);
    fn rocksdb_writebatch_create() -> *mut RocksOpaque;
    fn rocksdb_writebatch_destroy(batch: *mut RocksOpaque);
    fn rocksdb_writebatch_clear(batch: *mut RocksOpaque);
    fn rocksdb_writebatch_put(
        batch: *mut RocksOpaque,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        len: usize,
    );
    fn rocksdb_writebatch_delete(batch: *mut RocksOpaque, key: *const u8, key_len: usize);
    fn rocksdb_write(
        db: *mut RocksOpaque,
        options: *const RocksOpaque,
        batch: *mut RocksOpaque,
        error: ErrorSlot,
    );
    fn rocksdb_get_pinned(
        db: *mut RocksOpaque,
        options: *const RocksOpaque,
        key: *const u8,
        key_len: usize,
        error: ErrorSlot,
    ) -> *mut RocksOpaque;
    fn rocksdb_batched_multi_get_cf(
        db: *mut RocksOpaque,
        options: *const RocksOpaque,
        family: *mut RocksOpaque,
        count: usize,
        keys: *const *const c_char,
        key_lens: *const usize,
        values: *mut *mut RocksOpaque,
        errors: ErrorSlot,
        sorted: bool,
    );
    fn rocksdb_pinnableslice_value(slice: *const RocksOpaque, len: *mut usize) -> *const u8;
    fn rocksdb_pinnableslice_destroy(slice: *mut RocksOpaque);
    fn rocksdb_free(memory: *mut c_void);
    fn rocksdb_envoptions_create() -> *mut RocksOpaque;
    fn rocksdb_envoptions_destroy(options: *mut RocksOpaque);
    fn rocksdb_sstfilewriter_create(env: *const RocksOpaque, options: *const RocksOpaque)
    -> *mut RocksOpaque;
    fn rocksdb_sstfilewriter_destroy(writer: *mut RocksOpaque);
    fn rocksdb_sstfilewriter_open(writer: *mut RocksOpaque, path: *const c_char, error: ErrorSlot);
    fn rocksdb_sstfilewriter_put(
        writer: *mut RocksOpaque,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        len: usize,
        error: ErrorSlot,
    );
    fn rocksdb_sstfilewriter_finish(writer: *mut RocksOpaque, error: ErrorSlot);
    fn rocksdb_ingestexternalfileoptions_create() -> *mut RocksOpaque;
    fn rocksdb_ingestexternalfileoptions_destroy(options: *mut RocksOpaque);
    fn rocksdb_ingestexternalfileoptions_set_move_files(options: *mut RocksOpaque, on: c_uchar);
    fn rocksdb_ingest_external_file(
        db: *mut RocksOpaque,
        paths: *const *const c_char,
        count: usize,
        options: *const RocksOpaque,
        error: ErrorSlot,
    );
}

// From `rocksdb_version.cc`.
unsafe extern "C" {
    fn bench_rocksdb_version(text: *mut c_char, len: usize);
}

/// Version that the library reports.
pub fn version() -> String {
    let mut text = [0u8; 64];
    // SAFETY: the function writes at most `len` bytes, which end with a zero.
    unsafe { bench_rocksdb_version(text.as_mut_ptr().cast(), text.len()) };
    CStr::from_bytes_until_nul(&text).map_or(String::new(), |text| text.to_string_lossy().into_owned())
}

/// Calls a function of the API that reports errors through a place.
fn checked<T>(call: impl FnOnce(ErrorSlot) -> T) -> Result<T> {
    let mut error = null_mut();
    let result = call(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    bail!("RocksDB: {}", take_message(error))
}

/// Copies and frees an error message of the API.
fn take_message(error: *mut c_char) -> String {
    // SAFETY: the API allocated the message. It ends with a zero, and the caller must free it.
    unsafe {
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        message
    }
}

pub struct RocksDb {
    db: *mut RocksOpaque,
    /// The default column family, for MultiGet.
    family: *mut RocksOpaque,
    batch_reads: bool,
    read: *mut RocksOpaque,
    lazy: *mut RocksOpaque,
    durable: *mut RocksOpaque,
    /// Options for the database and for table files.
    options: *mut RocksOpaque,
    directory: PathBuf,
}

// SAFETY: the API allows all threads to use a database and unchanging options at once.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    pub fn open(options: &StoreOptions) -> Result<RocksDb> {
        let path = CString::new(options.directory.as_os_str().as_bytes()).map_err(|_| anyhow!("path"))?;
        // SAFETY: the API creates every object here, and each is destroyed once, after its last use. The table
        // options own the filter and hold a reference to the cache.
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
            let (mut family, default) = (null_mut(), c"default".as_ptr());
            let each = all.cast_const();
            let db = checked(|error| {
                rocksdb_open_column_families(all, path.as_ptr(), 1, &default, &each, &mut family, error)
            });
            rocksdb_block_based_options_destroy(table);
            rocksdb_cache_destroy(cache);
            let durable = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(durable, 1);
            Ok(RocksDb {
                db: db?,
                family,
                batch_reads: options.batch_reads,
                read: rocksdb_readoptions_create(),
                lazy: rocksdb_writeoptions_create(),
                durable,
                options: all,
                directory: options.directory.clone(),
            })
        }
    }

    /// Calls `found` with the value if the record exists. Returns whether it exists.
    fn get(&self, key: &RecordKey, found: impl FnOnce(&[u8])) -> Result<bool> {
        // SAFETY: the length of the key is correct. The slice is valid until it is destroyed, after its last use.
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

impl RocksDb {
    /// Looks up all records of a transaction that must exist, with one MultiGet.
    fn check_existing(&self, operations: &[StoreStatement]) -> Result<()> {
        let must_exist = |operation: &&StoreStatement| !matches!(operation, StoreStatement::Insert(..));
        let keys: Vec<&RecordKey> = operations.iter().filter(must_exist).map(StoreStatement::key).collect();
        let pointers: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lens = vec![size_of::<RecordKey>(); keys.len()];
        let mut values: Vec<*mut RocksOpaque> = vec![null_mut(); keys.len()];
        let mut errors: Vec<*mut c_char> = vec![null_mut(); keys.len()];
        // SAFETY: all lists have one entry for each key, and the keys live until after the call.
        unsafe {
            let (keys, lens) = (pointers.as_ptr(), lens.as_ptr());
            let (values, errors, count) = (values.as_mut_ptr(), errors.as_mut_ptr(), pointers.len());
            rocksdb_batched_multi_get_cf(
                self.db,
                self.read,
                self.family,
                count,
                keys,
                lens,
                values,
                errors,
                false,
            );
        }
        let mut failure = None;
        for ((key, value), error) in keys.iter().zip(values).zip(errors) {
            if !error.is_null() {
                failure = Some(anyhow!("RocksDB: {}", take_message(error)));
            } else if value.is_null() {
                failure = Some(anyhow!("record {key:02x?} does not exist"));
            } else {
                // SAFETY: the API allocated the slice, and nothing uses it after this.
                unsafe { rocksdb_pinnableslice_destroy(value) };
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

impl RocksDb {
    /// Writes one table file.
    fn write_table(&self, path: &CStr, next: &mut dyn Iterator<Item = (RecordKey, Vec<u8>)>) -> Result<()> {
        // SAFETY: the API creates the objects, and each is destroyed once. Keys and values have the lengths that are
        // given.
        unsafe {
            let env = rocksdb_envoptions_create();
            let writer = rocksdb_sstfilewriter_create(env, self.options);
            let mut written = checked(|error| rocksdb_sstfilewriter_open(writer, path.as_ptr(), error));
            let mut bytes = 0;
            while written.is_ok() && bytes < INGESTED {
                let Some((key, value)) = next.next() else { break };
                bytes += key.len() + value.len();
                let (key, data, len) = (key.as_ptr(), value.as_ptr(), value.len());
                written = checked(|error| {
                    rocksdb_sstfilewriter_put(writer, key, size_of::<RecordKey>(), data, len, error)
                });
            }
            let written = written.and_then(|()| checked(|error| rocksdb_sstfilewriter_finish(writer, error)));
            rocksdb_sstfilewriter_destroy(writer);
            rocksdb_envoptions_destroy(env);
            written
        }
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: created by the API, destroyed only here, and no session outlives the store.
        unsafe {
            rocksdb_column_family_handle_destroy(self.family);
            rocksdb_close(self.db);
            rocksdb_readoptions_destroy(self.read);
            rocksdb_writeoptions_destroy(self.lazy);
            rocksdb_writeoptions_destroy(self.durable);
            rocksdb_options_destroy(self.options);
        }
    }
}

impl BenchStore for RocksDb {
    fn session(&self) -> Result<Box<dyn StoreSession + '_>> {
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

    /// Writes table files next to the database and adds them to it.
    fn bulk_load(&self, next: &mut dyn FnMut() -> Option<(RecordKey, Vec<u8>)>) -> Result<()> {
        let mut next = std::iter::from_fn(next).peekable();
        let mut paths = Vec::new();
        while next.peek().is_some() {
            let path = self.directory.join(format!("ingest{}.sst", paths.len()));
            let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| anyhow!("path"))?;
            self.write_table(&path, &mut next)?;
            paths.push(path);
        }
        let pointers: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
        // SAFETY: the paths live until after the call, and the options are destroyed once.
        unsafe {
            let options = rocksdb_ingestexternalfileoptions_create();
            rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
            let (all, count) = (pointers.as_ptr(), pointers.len());
            let done = checked(|error| rocksdb_ingest_external_file(self.db, all, count, options, error));
            rocksdb_ingestexternalfileoptions_destroy(options);
            done
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
}

struct RocksSession<'a> {
    store: &'a RocksDb,
    batch: *mut RocksOpaque,
}

impl Drop for RocksSession<'_> {
    fn drop(&mut self) {
        // SAFETY: created with the session, and destroyed only here.
        unsafe { rocksdb_writebatch_destroy(self.batch) }
    }
}

impl StoreSession for RocksSession<'_> {
    fn execute(&mut self, operations: &[StoreStatement], durable: bool) -> Result<()> {
        // SAFETY: the batch belongs to this session. It copies keys and values, whose lengths are correct.
        unsafe { rocksdb_writebatch_clear(self.batch) };
        let batched = self.store.batch_reads && operations.len() > 1;
        if batched {
            self.store.check_existing(operations)?;
        }
        for operation in operations {
            let key = operation.key();
            let look_up = !batched && !matches!(operation, StoreStatement::Insert(..));
            if look_up && !self.store.get(key, |_| ())? {
                bail!("record {key:02x?} does not exist");
            }
            match operation {
                StoreStatement::Insert(_, value) | StoreStatement::Replace(_, value) => {
                    // SAFETY: as above.
                    unsafe {
                        let (key, value, len) = (key.as_ptr(), value.as_ptr(), value.len());
                        rocksdb_writebatch_put(self.batch, key, size_of::<RecordKey>(), value, len);
                    }
                }
                // SAFETY: as above.
                StoreStatement::Delete(_) => unsafe {
                    rocksdb_writebatch_delete(self.batch, key.as_ptr(), key.len());
                },
                StoreStatement::Read(_) => {}
            }
        }
        let options = if durable { self.store.durable } else { self.store.lazy };
        // SAFETY: database, options and batch exist until the session ends.
        checked(|error| unsafe { rocksdb_write(self.store.db, options, self.batch, error) })
    }

    fn read(&mut self, key: &RecordKey, value: &mut Vec<u8>) -> Result<bool> {
        self.store.get(key, |found| {
            value.clear();
            value.extend_from_slice(found);
        })
    }
}
