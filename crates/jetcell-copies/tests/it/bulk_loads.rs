//! Bulk loads on the active side. The logs do not contain their pages, so a copy stops at a bulk load and must be
//! seeded again.

use std::path::Path;

use ese_engine::{BulkLoad, BulkLoadOptions, Session};
use ese_format::record::{ColumnId, Value};
use jetcell_copies::{CopyPhase, CopyState, UnfitReason};
use jetcell_vfs::SimVfs;

use super::active_instance::{ACTIVE, ActiveInstance, COPY, catch_up, follow, pages, seed, seeded, table};

/// Starts a load with rows that fill many pages.
fn filled<'s>(session: &'s mut Session, site: &ActiveInstance, name: &str) -> BulkLoad<'s> {
    let mut load = session.bulk_load(&site.database, &table(name), BulkLoadOptions::default()).unwrap();
    for key in 0..300 {
        let body = Value::Binary(vec![key as u8; 1000]);
        load.push(&[(ColumnId(1), Value::Long(key)), (ColumnId(256), body)]).unwrap();
    }
    assert!(load.progress().pages > 50);
    load
}

fn load(site: &ActiveInstance, name: &str) {
    let mut session = site.instance.session();
    filled(&mut session, site, name).finish().unwrap();
    drop(session);
    site.roll();
}

/// Steps the copy while the active side runs and responds to its page requests. Returns the error with which the copy
/// gives up.
fn given_up(disk: &SimVfs, site: &ActiveInstance) -> String {
    let mut copy = follow(disk).unwrap();
    for _ in 0..40 {
        if let Err(error) = copy.step() {
            return error.to_string();
        }
        for _ in 0..5 {
            site.instance.step().unwrap();
        }
        site.roll();
    }
    panic!("the copy went on: {:?}", copy.state());
}

fn state(disk: &SimVfs) -> CopyState {
    CopyState::read(disk, Path::new(COPY)).unwrap().unwrap()
}

#[test]
fn a_copy_stops_at_a_bulk_load_until_reseeded() {
    // Loads into pages that are zero on the copy, and into pages that previously had other content.
    for used_before in [false, true] {
        let disk = seeded(20);
        if used_before {
            let site = ActiveInstance::open(&disk, ACTIVE, 1000);
            let mut session = site.instance.session();
            drop(filled(&mut session, &site, "earlier"));
            drop(session);
            site.close();
            seed(&disk, true).unwrap();
        }
        let site = ActiveInstance::open(&disk, ACTIVE, 1000);
        site.insert(20..60);
        load(&site, "loaded");
        site.insert(60..100);
        site.roll();
        // No page is repaired individually, because the image of one page would hide that the others are missing.
        let what = given_up(&disk, &site);
        assert!(what.contains("loaded in bulk") && what.ends_with("reseed the copy"), "{what}");
        let phase = state(&disk).phase;
        assert!(matches!(&phase, CopyPhase::Unfit { reason: UnfitReason::BadDatabase, .. }), "{phase:?}");
        assert!(catch_up(&disk).is_err(), "it stays unfit");
        site.close();

        seed(&disk, true).unwrap();
        let site = ActiveInstance::open(&disk, ACTIVE, 1000);
        site.insert(100..120);
        site.roll();
        site.close();
        catch_up(&disk).unwrap();
        assert!(!matches!(state(&disk).phase, CopyPhase::Unfit { .. }), "{:?}", state(&disk));
        // The copy lacks at most the changes in the open log.
        let (active, copy) = (pages(&disk, "/active/data.edb"), pages(&disk, "/copy/data.edb"));
        assert_eq!(active.len(), copy.len());
        let other = active.iter().zip(&copy).filter(|(active, copy)| active != copy).count();
        assert!(other < 5, "{other} pages differ");
    }
}
