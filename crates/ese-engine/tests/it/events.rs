//! Tests of the events of an instance, and of their order.

use std::path::Path;
use std::sync::Mutex;

use ese_engine::{
    BackupKind, CommitMode, Error, Event, EventKind, EventSink, Freeze, Instance, PageDamageKind,
    PageReadOptions,
};
use ese_format::PageNumber;
use ese_format::record::{ColumnId, Value};
use jetcell_sync::Arc;
use jetcell_vfs::SimVfs;

use super::recovered::{DATABASES, SIZE, create_one, options, rows};

#[derive(Default)]
struct EventCollector(Mutex<Vec<Event>>);

impl EventSink for EventCollector {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl EventCollector {
    /// Returns the events since the last call.
    fn take(&self) -> Vec<EventKind> {
        let events = std::mem::take(&mut *self.0.lock().unwrap());
        assert!(events.iter().all(|event| event.instance == "/log"), "{events:?}");
        events.into_iter().map(|event| event.kind).collect()
    }

    /// Returns the numbers of these events.
    fn ids(&self) -> Vec<u16> {
        self.take().iter().filter_map(|kind| kind.describe(Default::default()).id).collect()
    }
}

fn open(disk: &SimVfs, heard: &Arc<EventCollector>) -> ese_engine::Result<Arc<Instance>> {
    let options = options(Arc::new(disk.clone()), 256).0;
    Instance::open(options.event_sink(Some(heard.clone())))
}

#[test]
fn instance_events_use_ese_event_ids_from_start_to_shutdown() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventCollector::default()));
    let instance = open(&disk, &heard).unwrap();
    let db = create_one(&instance, DATABASES[0]);
    assert_eq!(heard.ids(), [102, 105, 325]);
    let mut session = instance.session();
    session.begin().unwrap();
    let mut table = session.open_table(&db, "t").unwrap();
    table.insert(&mut session, &[(ColumnId(1), Value::Long(1)), (ColumnId(2), Value::Long(2))]).unwrap();
    session.commit(CommitMode::Durable).unwrap();
    drop((table, session));

    let whole = |kind| {
        let mut backup = instance.begin_backup(kind).unwrap();
        let mut pages = backup.read_pages(&db, PageReadOptions::default()).unwrap();
        while let Some(extent) = pages.next_extent().unwrap() {
            pages.recycle(extent);
        }
        drop(pages);
        backup.close_logs().unwrap();
        while backup.next_log().unwrap().is_some() {}
        backup.finish(std::slice::from_ref(&db)).unwrap();
    };
    whole(BackupKind::Full);
    assert!(matches!(heard.ids()[..], [210, 220, 223, 224 | 225, 213]));
    whole(BackupKind::Copy);
    assert_eq!(heard.ids(), [240, 220, 223, 243]);
    drop(instance.begin_backup(BackupKind::Copy).unwrap());
    assert_eq!(heard.ids(), [240, 245]);
    // A separate snapshot, an aborted snapshot, and a snapshot of a backup.
    instance.freeze(Freeze::DEFAULT_LIMIT).unwrap().thaw().unwrap();
    assert_eq!(heard.ids(), [2009, 2001, 2003, 2006]);
    drop(instance.freeze(Freeze::DEFAULT_LIMIT).unwrap());
    assert_eq!(heard.ids(), [2009, 2001, 2003, 2007]);
    let mut backup = instance.begin_backup(BackupKind::Full).unwrap();
    backup.freeze(Freeze::DEFAULT_LIMIT).unwrap().thaw().unwrap();
    drop(backup);
    assert_eq!(heard.ids(), [210, 2005, 2001, 2003, 215, 2007]);
    drop(instance.begin_backup(BackupKind::Incremental).unwrap());
    assert_eq!(heard.ids(), [211, 215]);

    // After this crash, the log has changes that the database may lack.
    let killed = disk.process_kill();
    drop((db, instance));
    assert_eq!(heard.ids(), [103]);
    let instance = open(&killed, &heard).unwrap();
    let events = heard.take();
    let ids: Vec<u16> = events.iter().filter_map(|kind| kind.describe(Default::default()).id).collect();
    assert_eq!(ids[..2], [102, 300], "{events:?}");
    assert_eq!(ids[ids.len() - 2..], [302, 105], "{events:?}");
    assert!(ids.len() > 4 && ids[2..ids.len() - 2].iter().all(|id| *id == 301), "{events:?}");
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    assert_eq!(rows(&instance, &db), [(1, 2)].into());
    drop(db);
    instance.shutdown().unwrap();
    assert_eq!(heard.ids(), [327, 103]);
    drop(instance);

    // A clean log has nothing to replay.
    drop(open(&killed, &heard).unwrap());
    assert_eq!(heard.ids(), [102, 105, 103]);
}

#[test]
fn a_damaged_page_is_reported_when_it_is_read() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventCollector::default()));
    let instance = open(&disk, &heard).unwrap();
    let db = create_one(&instance, DATABASES[0]);
    drop(db);
    instance.shutdown().unwrap();
    drop(instance);
    let offset = SIZE.offset_of(PageNumber::fixed(4));
    disk.flip_bit(Path::new(DATABASES[0]), (offset + 700) * 8).unwrap();
    let instance = open(&disk, &heard).unwrap();
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    heard.take();
    instance.session().open_table(&db, "t").unwrap();
    let damage = |events: Vec<EventKind>| match &events[..] {
        [EventKind::PageDamaged(damage)] => damage.clone(),
        other => panic!("{other:?}"),
    };
    let corrected = damage(heard.take());
    assert_eq!((corrected.offset, corrected.page.get()), (offset, 4));
    assert_eq!(corrected.fault, PageDamageKind::Corrected(vec![700 * 8]));
    drop(db);
    drop(instance);
    heard.take();

    disk.corrupt(Path::new(DATABASES[0]), offset + 600, &[0x5a; 300]).unwrap();
    let instance = open(&disk, &heard).unwrap();
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    heard.take();
    let refused = instance.session().open_table(&db, "t").err();
    assert!(matches!(refused, Some(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!(damage(heard.take()).fault, PageDamageKind::Checksum);
}
