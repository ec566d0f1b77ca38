//! LMDB: a copy-on-write tree without a log. The kernel's page cache is its cache, within the memory limit of the
//! process. A lazy commit syncs nothing; a durable commit syncs the environment afterwards.

use anyhow::{Result, ensure};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, PutFlags, WithoutTls};

use crate::store::{BenchStore, LOAD_BATCH, RecordKey, StoreOptions, StoreSession, StoreStatement};

/// Address space for the map.
const MAP: usize = 64 << 30;

pub struct Lmdb {
    environment: Env<WithoutTls>,
    records: Database<Bytes, Bytes>,
}

impl Lmdb {
    pub fn open(options: &StoreOptions) -> Result<Lmdb> {
        let mut open = EnvOpenOptions::new().read_txn_without_tls();
        open.map_size(MAP).max_readers(64);
        // SAFETY: the directory belongs to this process, so no other process changes the mapped file. NO_SYNC only
        // weakens what survives a crash.
        let environment = unsafe {
            open.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD);
            open.open(&options.directory)?
        };
        let mut transaction = environment.write_txn()?;
        let records = environment.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Lmdb { environment, records })
    }
}

impl BenchStore for Lmdb {
    fn session(&self) -> Result<Box<dyn StoreSession + '_>> {
        Ok(Box::new(LmdbSession(self)))
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(self.environment.force_sync()?)
    }

    /// Appends without a search for the place, and splits no page.
    fn bulk_load(&self, next: &mut dyn FnMut() -> Option<(RecordKey, Vec<u8>)>) -> Result<()> {
        let mut transaction = self.environment.write_txn()?;
        let mut count = 0;
        while let Some((key, value)) = next() {
            self.records.put_with_flags(&mut transaction, PutFlags::APPEND, &key, &value)?;
            count += 1;
            // The dirty pages of a transaction stay in memory.
            if count % LOAD_BATCH == 0 {
                transaction.commit()?;
                transaction = self.environment.write_txn()?;
            }
        }
        transaction.commit()?;
        self.checkpoint()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
}

struct LmdbSession<'a>(&'a Lmdb);

impl StoreSession for LmdbSession<'_> {
    fn execute(&mut self, operations: &[StoreStatement], durable: bool) -> Result<()> {
        let Lmdb { environment, records } = self.0;
        let mut transaction = environment.write_txn()?;
        for operation in operations {
            let key = operation.key().as_slice();
            let there = match operation {
                StoreStatement::Insert(_, value) => {
                    records.put_with_flags(&mut transaction, PutFlags::NO_OVERWRITE, key, value)?;
                    true
                }
                StoreStatement::Delete(_) => records.delete(&mut transaction, key)?,
                StoreStatement::Replace(_, value) => {
                    let there = records.get(&transaction, key)?.is_some();
                    records.put(&mut transaction, key, value)?;
                    there
                }
                StoreStatement::Read(_) => records.get(&transaction, key)?.is_some(),
            };
            ensure!(there, "record {key:02x?} does not exist");
        }
        transaction.commit()?;
        if durable {
            environment.force_sync()?;
        }
        Ok(())
    }

    fn read(&mut self, key: &RecordKey, value: &mut Vec<u8>) -> Result<bool> {
        let transaction = self.0.environment.read_txn()?;
        let found = self.0.records.get(&transaction, key)?;
        if let Some(found) = found {
            value.clear();
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }
}
