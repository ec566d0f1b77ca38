use ese_engine::LogNameFormat;
use ese_format::{LogTime, Signature};
use jetcell_vfs::{FileStem, SimVfs};

use super::*;
use crate::copy_state::ActiveSideStatus;

const NOW: i64 = 1_767_225_600_000;

/// Returns the state of a copy that had replayed all ten logs of its active side, five minutes ago.
fn current_state() -> CopyState {
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new());
    let logs = StreamDirectory::new(&vfs, Path::new("/copy"), FileStem::E00, LogNameFormat::default());
    let stream = Signature::new(7, LogTime::NONE);
    let mut state = CopyState::new_seeding("a1".into(), "tls://db1:9440/app".into(), &logs, stream);
    state.phase = CopyPhase::Following;
    (state.next, state.replayed, state.log_bytes) = (11, 10, 1 << 20);
    state.replayed_unix_ms = Some(NOW - 400_000);
    state.active = Some(ActiveSideStatus { oldest: 1, closed: 10, at_unix_ms: NOW - 300_000 });
    state
}

#[test]
fn the_queues_and_the_lag_of_hostile_state_do_not_overflow() {
    let extremes = [0, 1, 0x7FFF_FFFF, u32::MAX];
    for (next, replayed) in extremes.into_iter().flat_map(|next| extremes.map(|replayed| (next, replayed))) {
        for closed in extremes {
            for at_unix_ms in [i64::MIN, 0, i64::MAX] {
                let mut state = current_state();
                (state.next, state.replayed, state.log_bytes) = (next, replayed, u64::MAX);
                state.replayed_unix_ms = Some(at_unix_ms);
                state.active = Some(ActiveSideStatus { oldest: closed, closed, at_unix_ms });
                for now in [i64::MIN, NOW, i64::MAX] {
                    let status = CopyStatus::new(&state, now);
                    let expected = closed.saturating_add(1).saturating_sub(next);
                    assert_eq!(status.copy_queue, expected, "{next} {closed}");
                    let replay = u64::from(next).saturating_sub(1).saturating_sub(replayed.into());
                    assert_eq!(u64::from(status.replay_queue), replay, "{next} {replayed}");
                    assert_eq!(status.lag.bytes == 0, status.lag.generations == 0);
                }
            }
        }
    }
}

#[test]
fn a_copy_without_contact_lags_since_the_last_contact() {
    let mut state = current_state();
    let status = CopyStatus::new(&state, NOW);
    assert_eq!((status.health(&state), status.lag.seconds), ("no_contact", Some(300)));
    assert!(!status.is_in_contact && status.lag.generations == 0);
    assert!(status.is_within(Duration::from_secs(300)) && !status.is_within(Duration::from_secs(299)));
    // A recent contact without new logs means that the copy is current.
    let status = CopyStatus::new(&state, NOW - 299_000);
    assert_eq!((status.health(&state), status.lag.seconds), ("healthy", Some(0)));
    // A copy that lags is as old as its newest replayed log, and never zero seconds old.
    state.active = Some(ActiveSideStatus { oldest: 1, closed: 14, at_unix_ms: NOW });
    let status = CopyStatus::new(&state, NOW);
    assert_eq!((status.health(&state), status.copy_queue), ("catching up", 4));
    assert_eq!((status.lag.seconds, status.lag.bytes), (Some(400), 4 << 20));
    state.replayed_unix_ms = Some(NOW - 1);
    assert_eq!(CopyStatus::new(&state, NOW).lag.seconds, Some(1));
    // An unknown lag does not meet any limit.
    state.replayed_unix_ms = None;
    let status = CopyStatus::new(&state, NOW);
    assert!(status.lag.seconds.is_none() && !status.is_within(Duration::MAX));
    // Seeding counts as a contact, so a copy without one was seeded by an earlier version.
    state.active = None;
    let status = CopyStatus::new(&state, NOW);
    assert!(status.health(&state) == "no_contact" && !status.is_fit(&state, None));
    assert!(!status.is_fit(&state, Some(Duration::MAX)), "the lag is unknown");
}
