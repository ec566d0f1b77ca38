//! Tests of maintenance while the array is in use, and of the time that maintenance leaves to the load.

use std::time::Duration;

use jetcell_vfs::{FaultEffect, FaultTarget, InjectedFault, Vfs};

use super::tests::{redundant, written};
use crate::test_array::TestArray;
use crate::{MemberPurpose, RaidLevel};

/// Runs a rebuild for the duration `time`, alongside a load whose reads take `latency`. Returns the number of rebuild
/// steps.
fn steps_with_concurrent_load(latency: Duration, time: Duration) -> usize {
    let mut tested = written(RaidLevel::Raid5, 4, 10, 3);
    let clock = tested.disk.clock();
    let mut throttle =
        crate::ArrayMaintenanceThrottle::new(Duration::from_millis(20), Duration::from_millis(200));
    let (mut steps, blocks) = (0, tested.model.len() as u64);
    let end = clock.monotonic() + time;
    while clock.monotonic() < end {
        if tested.array().rebuild_progress().is_complete() {
            tested.array().fail(0).unwrap();
            let file = tested.new_file();
            tested.array().replace(0, &file, false).unwrap();
        }
        let meter = tested.array().load_meter();
        meter.measure_latency(|| {
            clock.sleep(latency);
            tested.value(steps as u64 % blocks).unwrap();
        });
        let (_, pause) = throttle.step(&meter, |rows| {
            clock.sleep(Duration::from_millis(14));
            tested.array().rebuild_rows(rows).unwrap()
        });
        steps += 1;
        clock.sleep(pause);
    }
    steps
}

#[test]
fn a_rebuild_takes_fewer_steps_during_a_slow_load() {
    let time = Duration::from_secs(5);
    let (fast, slow) = (
        steps_with_concurrent_load(Duration::from_millis(25) / 2, time),
        steps_with_concurrent_load(Duration::from_millis(25), time),
    );
    // A step takes 14 ms. Pauses grow up to 200 ms.
    assert!(fast == 189 && slow < fast / 6, "{fast} {slow}");
}

/// Zones that were never written take almost no time, so a step with many rows may include any number of full zones.
#[test]
fn a_step_stops_after_one_zone_when_operations_wait() {
    let mut tested = TestArray::with_zones(RaidLevel::Raid5, 4, 14, 20);
    tested.array().fail(0).unwrap();
    let file = tested.new_file();
    tested.array().replace(0, &file, false).unwrap();
    let meter = tested.array().load_meter();
    let mut done = vec![];
    for waits in [true, true, false, true] {
        let rows = |tested: &mut TestArray| tested.array().rebuild_rows(u64::MAX).unwrap().zones_done;
        done.push(if waits { meter.count_in_progress(|| rows(&mut tested)) } else { rows(&mut tested) });
    }
    assert_eq!(done, [1, 2, 18, 19]);
    tested.rebuild();
    let mut report = crate::ScrubReport::default();
    meter.count_in_progress(|| tested.array().scrub_zones(u64::MAX, &mut report).unwrap());
    assert_eq!((report.zones, tested.array().scrub_cursor()), (1, 1));
    while !tested.array().scrub_zones(u64::MAX, &mut report).unwrap() {}
    assert_eq!((report.zones, report.is_clean()), (20, true));
}

/// Checks that examining a new member does not block the array. `admit` must not read the new member, and its
/// preparation needs only a few reads.
#[test]
fn examining_a_new_member_does_not_block_the_array() {
    let mut tested = written(RaidLevel::Raid6, 6, 15, 20);
    tested.array().fail(0).unwrap();
    let fault = |skipped| {
        InjectedFault::new(FaultTarget::Read, FaultEffect::IoError).after_operations(skipped).repeating()
    };
    for part in [MemberPurpose::Replacement(0), MemberPurpose::Spare] {
        let file = tested.new_file();
        let admission = tested.array().member_requirements(part, std::slice::from_ref(&file)).unwrap();
        tested.faults.inject(fault(20).on_path(file.to_str().unwrap()));
        let member = admission.prepare(&file, false).unwrap();
        let batch = tested.random_batch();
        tested.write(&batch).unwrap();
        tested.faults.clear();
        tested.faults.inject(fault(0).on_path(file.to_str().unwrap()));
        tested.array().admit(vec![member]).unwrap();
        tested.faults.clear();
    }
    tested.rebuild();
    tested.check();
}

/// Checks a rebuild onto a former member with old records. A replacement's old records are not cleared. Instead, the
/// records of each zone become valid once all of them have been written.
#[test]
fn a_removed_member_is_rebuilt_regardless_of_existing_records() {
    for (level, members) in redundant() {
        let mut tested = written(level, members, 16, 20);
        let old = tested.members[0].clone();
        tested.array().fail(0).unwrap();
        for _ in 0..10 {
            let batch = tested.random_batch();
            tested.write(&batch).unwrap();
        }
        // Until this call, the array keeps the file open.
        tested.refresh_members();
        tested.restart();
        tested.array().replace(0, &old, true).unwrap();
        tested.array().rebuild_rows(20).unwrap();
        let batch = tested.random_batch();
        tested.write(&batch).unwrap();
        tested.check();
        tested.refresh_members();
        tested.crash();
        tested.assemble(true).unwrap();
        tested.check();
        tested.rebuild();
        assert!(tested.array().scrub().unwrap().is_clean(), "{level}");
        tested.array().fail(1).unwrap();
        tested.check();
    }
}
