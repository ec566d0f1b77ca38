use super::*;
use crate::description::ArrayHealth;

fn rebuild(is_complete: bool, rows_lost: u64) -> OperationResult {
    let (bytes, seconds, health) = (1 << 40, 0.1 + 0.2, ArrayHealth::Degraded);
    OperationResult::Rebuilt(RebuildResult { bytes, seconds, rows_lost, is_complete, health })
}

fn scrub(is_complete: bool, unrecoverable_rows: Vec<u64>) -> ScrubResult {
    ScrubResult {
        is_complete,
        seconds: 1e-3,
        zones: 7,
        rows: 8,
        repaired: 9,
        damaged: vec![],
        unrecoverable_rows,
        disagreements: vec![],
    }
}

#[test]
fn results_are_equal_after_they_were_sent() {
    let name = || "mail \"1\"".to_string();
    let damaged = vec![DamagedSlot { slot: 3, member: "/m 3".into(), blocks: 2 }];
    let disagreements = vec![
        ParityDisagreement { row: 5, suspect: Some(1), repaired: true },
        ParityDisagreement { row: 6, suspect: None, repaired: false },
    ];
    let luns = vec![LunSummary { name: name(), bytes: u64::MAX, used_bytes: 0, snapshots: 2 }];
    for result in [
        OperationResult::MemberRemoved {
            slot: 1,
            health: ArrayHealth::Optimal,
            replacement: Some("/s".into()),
        },
        OperationResult::MemberRemoved { slot: 1, health: ArrayHealth::Stopped, replacement: None },
        OperationResult::SparesAdded(vec!["/a".into(), "b".into()]),
        rebuild(true, 3),
        OperationResult::Scrubbed(ScrubResult { damaged, disagreements, ..scrub(true, vec![u64::MAX]) }),
        OperationResult::Grown { slots: 7, bytes: 1, is_lun_volume: true },
        OperationResult::LunCreated { lun: name(), bytes: 4096 },
        OperationResult::Luns { free_bytes: 5, luns },
        OperationResult::LunsCleaned { blocks_moved: 1, free_rows: 2, free_rows_before: 3 },
        OperationResult::LunDeleted { lun: name() },
        OperationResult::SnapshotChanged {
            lun: name(),
            snapshot: name(),
            change: SnapshotChange::Clone(name()),
        },
        OperationResult::Snapshots(vec![SnapshotSummary { lun: name(), snapshot: name(), created: 1 }]),
    ] {
        let sent = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<OperationResult>(&sent).unwrap(), result, "{sent}");
    }
}

#[test]
fn interruptions_losses_and_damage_are_not_good() {
    assert!(rebuild(true, 0).is_good() && !rebuild(true, 1).is_good() && !rebuild(false, 0).is_good());
    let good = |scrub| OperationResult::Scrubbed(scrub).is_good();
    assert!(good(scrub(true, vec![])) && !good(scrub(false, vec![])) && !good(scrub(true, vec![4])));
    let damaged = vec![DamagedSlot { slot: 0, member: "m".into(), blocks: 1 }];
    assert!(!good(ScrubResult { damaged, ..scrub(true, vec![]) }));
    let disagreements = vec![ParityDisagreement { row: 0, suspect: None, repaired: true }];
    assert!(!good(ScrubResult { disagreements, ..scrub(true, vec![]) }));
}
