//! redb: a copy-on-write tree without a log. Lazy commits use `Durability::None`.

use anyhow::{Result, ensure};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use crate::store::{BenchStore, RecordKey, StoreOptions, StoreSession, StoreStatement};

const RECORDS: TableDefinition<&[u8; 8], &[u8]> = TableDefinition::new("records");

pub struct Redb(Database);

impl Redb {
    pub fn open(options: &StoreOptions) -> Result<Redb> {
        let path = options.directory.join("records.redb");
        let database = Database::builder().set_cache_size(usize::try_from(options.cache)?).create(path)?;
        let transaction = database.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.commit()?;
        Ok(Redb(database))
    }
}

impl BenchStore for Redb {
    fn session(&self) -> Result<Box<dyn StoreSession + '_>> {
        Ok(Box::new(RedbSession(&self.0)))
    }

    fn checkpoint(&self) -> Result<()> {
        // A durable commit makes all earlier lazy commits durable.
        Ok(self.0.begin_write()?.commit()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
}

struct RedbSession<'a>(&'a Database);

impl StoreSession for RedbSession<'_> {
    fn execute(&mut self, operations: &[StoreStatement], durable: bool) -> Result<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(if durable { Durability::Immediate } else { Durability::None })?;
        {
            let mut table = transaction.open_table(RECORDS)?;
            for operation in operations {
                let there = match operation {
                    StoreStatement::Insert(key, value) => table.insert(key, value.as_slice())?.is_none(),
                    StoreStatement::Delete(key) => table.remove(key)?.is_some(),
                    StoreStatement::Replace(key, value) => table.insert(key, value.as_slice())?.is_some(),
                    StoreStatement::Read(key) => table.get(key)?.is_some(),
                };
                ensure!(there, "record {:02x?} differs from the expected record", operation.key());
            }
        }
        Ok(transaction.commit()?)
    }

    fn read(&mut self, key: &RecordKey, value: &mut Vec<u8>) -> Result<bool> {
        let transaction = self.0.begin_read()?;
        let table = transaction.open_table(RECORDS)?;
        let Some(found) = table.get(key)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(found.value());
        Ok(true)
    }
}
