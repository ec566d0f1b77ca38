//! fjall: an LSM tree, configured like RocksDB where that is possible. Lazy commits stay in the kernel's buffers.

use anyhow::{Result, bail};
use fjall::config::BlockSizePolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::store::{BenchStore, RecordKey, StoreOptions, StoreSession, StoreStatement};

const MEMTABLE: u64 = 32 << 20;
const BLOCK: u32 = 8 << 10;

pub struct Fjall {
    database: Database,
    records: Keyspace,
}

impl Fjall {
    pub fn open(options: &StoreOptions) -> Result<Fjall> {
        let database = Database::builder(&options.directory)
            .cache_size(options.cache * 5 / 8)
            .worker_threads(2)
            .open()?;
        let records = database.keyspace("records", || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE.min(options.cache / 4))
                .data_block_size_policy(BlockSizePolicy::all(BLOCK))
        })?;
        Ok(Fjall { database, records })
    }
}

impl BenchStore for Fjall {
    fn session(&self) -> Result<Box<dyn StoreSession + '_>> {
        Ok(Box::new(FjallSession(self)))
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
}

struct FjallSession<'a>(&'a Fjall);

impl StoreSession for FjallSession<'_> {
    fn execute(&mut self, operations: &[StoreStatement], durable: bool) -> Result<()> {
        let Fjall { database, records } = self.0;
        let mode = if durable { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = database.batch().durability(Some(mode));
        for operation in operations {
            let key = operation.key();
            if !matches!(operation, StoreStatement::Insert(..)) && records.get(key)?.is_none() {
                bail!("record {key:02x?} does not exist");
            }
            match operation {
                StoreStatement::Insert(_, value) | StoreStatement::Replace(_, value) => {
                    batch.insert(records, key.as_slice(), value.as_slice());
                }
                StoreStatement::Delete(_) => batch.remove(records, key.as_slice()),
                StoreStatement::Read(_) => {}
            }
        }
        Ok(batch.commit()?)
    }

    fn read(&mut self, key: &RecordKey, value: &mut Vec<u8>) -> Result<bool> {
        let found = self.0.records.get(key)?;
        if let Some(found) = &found {
            value.clear();
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }
}
