//! Block mode: the log that is being written is copied, too, and a failover keeps the received part of it.

use std::collections::BTreeSet;
use std::path::Path;

use jetcell_copies::{LossLimit, ReplayOptions, Replicator, activate};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};

use super::active_instance::{
    ACTIVE, ActiveInstance, COPY, KEEP, ReceivedEvents, logs, pages, replay_options, seeded, source, vfs,
};

fn follow(disk: &SimVfs, stream_log: bool) -> Replicator {
    let options = ReplayOptions { stream_log, ..replay_options() };
    Replicator::open(&vfs(disk), Path::new(COPY), Box::new(source(disk)), options).unwrap()
}

/// Steps until no more logs or parts of logs arrive. Returns the number of bytes received from open logs.
fn step_all(copy: &mut Replicator) -> u64 {
    let mut streamed = 0;
    loop {
        let step = copy.step().unwrap();
        assert!(step.waiting.is_none(), "{:?}", step.waiting);
        streamed += step.streamed_bytes;
        if step.is_idle() && step.streamed_bytes == 0 {
            return streamed;
        }
    }
}

#[test]
fn a_failover_keeps_and_reports_streamed_data() {
    for stream_log in [false, true] {
        let disk = seeded(20);
        let site = ActiveInstance::open(&disk, ACTIVE, KEEP);
        let mut copy = follow(&disk, stream_log);
        step_all(&mut copy);
        let mut streamed = 0;
        let mut next = 20;
        // The generation is closed several times during the loop.
        for _ in 0..30 {
            site.insert(next..next + 7);
            next += 7;
            streamed += step_all(&mut copy);
        }
        site.roll();
        site.insert(next..next + 5);
        streamed += step_all(&mut copy);
        copy.stop().unwrap();
        assert_eq!(streamed > 0, stream_log);
        drop(site);
        let disk = disk.process_kill();
        // The active side becomes unreachable.
        for path in disk.list(Path::new(ACTIVE)).unwrap() {
            disk.remove(&path).unwrap();
        }
        let source = Box::new(source(&disk));
        let result =
            activate(&vfs(&disk), Path::new(COPY), source, LossLimit::Generations(0), &replay_options())
                .unwrap();
        let lost = result.lost.unwrap();
        assert_eq!((lost.first_in_part, lost.first), (stream_log, lost.last_known), "{lost:?}");
        let site = ActiveInstance::open(&disk, COPY, KEEP);
        let kept: BTreeSet<i32> = (0..if stream_log { next + 5 } else { next }).collect();
        assert_eq!(site.keys(), kept, "streamed: {stream_log}");
        site.close();
    }
}

#[test]
fn a_streamed_log_equals_the_closed_log() {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, KEEP);
    let mut copy = follow(&disk, true);
    for start in (20..220).step_by(4) {
        site.insert(start..start + 4);
        step_all(&mut copy);
    }
    site.close();
    let site = ActiveInstance::open(&disk, ACTIVE, KEEP);
    site.roll();
    site.close();
    step_all(&mut copy);
    copy.stop().unwrap();
    let (theirs, ours) = (logs(&disk, ACTIVE).closed().unwrap(), logs(&disk, COPY).closed().unwrap());
    assert!(ours.len() > 4, "{ours:?}");
    for (generation, path) in &ours {
        assert!(disk.contents(path) == disk.contents(&theirs[generation]), "{}", path.display());
    }
    assert!(pages(&disk, "/active/data.edb") == pages(&disk, "/copy/data.edb"));
}

#[test]
fn block_mode_begins_and_ends_with_an_event() {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, KEEP);
    let heard = Arc::new(ReceivedEvents::default());
    let options = ReplayOptions { stream_log: true, events: Some(heard.clone()), ..replay_options() };
    let mut copy = Replicator::open(&vfs(&disk), Path::new(COPY), Box::new(source(&disk)), options).unwrap();
    // Several generations are closed during the loop. This does not end block mode.
    for start in (20..220).step_by(4) {
        site.insert(start..start + 4);
        step_all(&mut copy);
    }
    assert!(copy.is_in_block_mode() && copy.received_bytes() > 0);
    assert_eq!(heard.take_copy_events(), [("block_mode_began", None)]);
    // One step cannot copy all these logs, so the copy is in file mode until it has them.
    site.insert(220..1500);
    copy.step().unwrap();
    assert!(!copy.is_in_block_mode() && copy.received_bytes() == 0);
    step_all(&mut copy);
    assert_eq!(heard.take_copy_events(), [("block_mode_ended", None), ("block_mode_began", None)]);
    site.close();
    let logs: Vec<_> = disk.list(Path::new(ACTIVE)).unwrap();
    logs.iter().for_each(|path| disk.remove(path).unwrap());
    assert!(copy.step().unwrap().waiting.is_some());
    assert_eq!(heard.take_copy_events(), [("block_mode_ended", None), ("copy_waiting", None)]);
}
