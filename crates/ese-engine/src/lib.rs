//! A transactional storage engine that writes real ESE (JET Blue) databases and logs.
//!
//! An [`Instance`] owns a log and the databases attached to it. A [`Session`] uses them in transactions, through
//! [`Table`]s. A table has rows with typed columns, indexes, and a current record that moves like a cursor.
//! Transactions have snapshot isolation. A crash never loses a durable commit: the next [`Instance::open`] recovers it.
//!
//! ```
//! use ese_engine::*;
//!
//! # fn main() -> Result<()> {
//! # let directory = std::env::temp_dir().join(format!("ese-engine-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory).unwrap();
//! let instance = Instance::open(InstanceOptions::new(&directory)?)?;
//! let database = instance.create_database(&directory.join("people.edb"), &DatabaseOptions::default())?;
//! let mut session = instance.session();
//!
//! session.begin()?;
//! let definition = TableDefinition {
//!     name: "People".into(),
//!     columns: vec![
//!         ColumnDefinition::new("Id", ColumnType::Long),
//!         ColumnDefinition::new("Name", ColumnType::Text),
//!     ],
//!     indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
//!     ..TableDefinition::default()
//! };
//! session.create_table(&database, &definition)?;
//! let mut people = session.open_table(&database, "People")?;
//! let [id, name] = ["Id", "Name"].map(|column| people.column(column).unwrap());
//! people.insert(&mut session, &[(id, Value::Long(7)), (name, Value::Text("Ada".into()))])?;
//! session.commit(CommitMode::Durable)?;
//!
//! assert!(people.seek(&mut session, &[Value::Long(7)], SeekRelation::Equal)?);
//! assert_eq!(people.get(&mut session, name)?, Value::Text("Ada".into()));
//! drop((people, session));
//! instance.shutdown()?;
//! # std::fs::remove_dir_all(&directory).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! The instance and the cache start their own threads. Each thread repeats a bounded step. The steps also run without
//! threads ([`Instance::step`]), so a simulation can run the same code. See `examples/` for bulk loads, ranges and
//! recovery, and ARCHITECTURE.md for the engine's layers.

#![forbid(unsafe_code)]

mod background_thread;
mod backup;
mod btree;
mod bulk;
mod cache;
mod catalog;
mod core;
mod database;
mod defrag;
mod error;
mod events;
mod file_error;
mod instance;
mod log;
mod maintenance;
mod options;
mod page_exchange;
mod page_misfit;
mod pages;
mod recovery;
mod scan;
#[cfg(all(test, shuttle))]
mod schedule_tests;
mod session;
mod sharded;
mod space;
mod splitmix;
mod storage;
mod table;
mod task;
mod transaction;
mod workers;

pub use ese_format::PageSize;
pub use ese_format::record::{CodePage, ColumnFlags, ColumnId, ColumnType, Value};

pub use backup::{
    Backup, BackupKind, BackupSummary, DatabasePageReader, Freeze, PageExtent, PageReadCounters,
    PageReadOptions, VerifiedLog, VerifiedLogReader, mark_copy,
};
pub use btree::SeekRelation;
pub use cache::LoadBuffers;
pub use database::Database;
pub use defrag::{DefragKind, DefragOptions, DefragProgress};
pub use error::{
    AttachmentErrorKind, BackupErrorKind, Corruption, Error, FailedOperation, InstanceFailure, InternalError,
    LogDamage, LogErrorKind, MacroError, PageDefect, PageTimeMismatch, Result, UsageError,
};
pub use events::{
    CopyEvent, DefragEvent, DefragReport, DefragTotals, DivergenceKind, Event, EventCategory,
    EventDescription, EventKind, EventProfile, EventReporter, EventSeverity, EventSink, EventValue,
    LayoutReport, PageDamage, PageDamageKind, PageDivergence, PassReport, ShrinkReport, SnapshotEvent,
    SpaceEvent, TrimReport, WindowAdvice,
};
pub use file_error::FileError;
pub use instance::Instance;
pub use log::{CopyRegistration, LogHold, LogNameFormat};
pub use options::{
    BackgroundThreads, CacheSource, CheckpointOptions, CopyOptions, DatabaseOptions, EventOptions,
    InstanceOptions, LogOptions, RecoveryOptions,
};
pub use page_exchange::{PageDirection, PageRequests};
pub use page_misfit::PageMisfit;
pub use recovery::{
    ComparisonResult, DiscoveredDatabase, ExchangedPage, IgnoredReason, LogChanges, PageComparison,
    RecoveryPlan, RecoverySet, RecoverySummary, ReplayFindings, ReplaySummary, Replayer, SET_ASIDE,
    UnreplayedPage, VerifiedLogs,
};
pub use scan::{PageFlaw, ScanOptions, ScanProgress};
pub use session::{BulkLoad, BulkLoadOptions, BulkLoadProgress, CommitId, CommitMode, Session, Table};
pub use storage::{DatabasePaths, TornPageProtection};
pub use table::{ColumnDefinition, IndexDefinition, TableDefinition};
pub use task::{MaintenanceThrottle, MaintenanceTurn, MaintenanceWindow};
pub use workers::{WorkerGroup, Workers};

/// Internal interfaces for Jetcell's own crates: shared caches, and logs without an instance. They may change at any
/// time.
pub mod internals {
    /// The page cache.
    pub mod cache {
        pub use crate::cache::{Cache, CacheOptions, EvictionPolicy};
    }
    /// Log files and the checkpoint file.
    pub mod log {
        pub use crate::log::{
            CheckpointFile, LogNames, LogReader, LogStream, LogStreamOptions, LogTail, PositionedRecord,
            RecordBatch,
        };
    }
}
