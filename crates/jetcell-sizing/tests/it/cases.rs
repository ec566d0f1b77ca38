//! Tests for every case in `sizing-cases.json`. If a published figure is not reproduced, the test states the
//! deviation and the reason.

use jetcell_sizing::catalogue::{CatalogueDisk, DiskCatalogue};
use jetcell_sizing::config::{Config, StorageConfig};
use jetcell_sizing::demand::{largest_on_disk_gib, transport_gib};
use jetcell_sizing::disk_count::{ArrayLoad, SizedArray};
use jetcell_sizing::platform::Platform;
use jetcell_sizing::raid::{GroupLayout, RaidKind, costs_with_two_lost, partial_stripe};
use jetcell_sizing::sheet::floor;
use jetcell_sizing::states::SystemState;
use jetcell_sizing::{CalculationSheet, EXAMPLE, size};
use serde_json::Value;

use crate::{fixture, near, number};

/// Returns a configuration with one server on this platform and these changes to `[mailboxes]`.
fn config(platform: &str, mailboxes: &str, rest: &str) -> Config {
    let text = format!(
        "platform = '{platform}'\n{rest}\n[mailboxes]\n{mailboxes}\n\
         [storage]\ndisks = ['10k 300GB']\nlayouts = [{{ raid = 'raid10' }}]\n"
    );
    Config::read("test", &text).unwrap()
}

fn sized(config: &Config) -> jetcell_sizing::SizingResult {
    size(config, &DiskCatalogue::built_in()).unwrap()
}

#[test]
fn the_profiles_of_2007_are_reproduced() {
    for row in fixture("sizing-cases")["ex2007_profiles"]["rows"].as_array().unwrap() {
        let messages = number(&row["messages_per_day"]);
        let mailboxes = format!("count = 100\nmessages_per_day = {messages:?}\nquota = '250MiB'");
        let mailbox = sized(&config("exchange-2007", &mailboxes, "")).mailbox;
        near(mailbox.cache_mib, number(&row["cache_mb"]), 1e-12);
        near(mailbox.reads, number(&row["reads"]), 5e-5);
        near(mailbox.writes, number(&row["writes"]), 1e-9);
        near(mailbox.iops(), number(&row["total"]), 5e-5);
        near(mailbox.writes / mailbox.iops(), number(&row["write_fraction"]), 5e-4);
        // The published profiles are rounded, so they deviate by up to half a step.
        assert!((mailbox.iops() - number(&row["published"])).abs() < 0.005);
    }
}

#[test]
fn rates_per_message_of_2010_and_2013_are_reproduced() {
    let rows = fixture("sizing-cases")["profile_rates"].clone();
    for row in rows.as_array().unwrap() {
        let messages = number(&row["M"]);
        let mailboxes = format!("count = 100\nmessages_per_day = {messages:?}\nquota = '1GiB'");
        for (platform, key) in [
            ("exchange-2010-standalone", "iops_2010_standalone"),
            ("exchange-2010", "iops_2010_resilient"),
            ("exchange-2013", "iops_2013"),
        ] {
            let mailbox = sized(&config(platform, &mailboxes, "")).mailbox;
            near(mailbox.iops(), number(&row[key]), 1e-9);
            near(mailbox.writes / mailbox.iops(), 0.4, 1e-9);
            near(mailbox.cache_mib, number(&row["cache_mb"]), 1e-9);
            near(mailbox.logs_per_day, number(&row["logs_day"]), 1e-9);
        }
    }
}

#[test]
fn the_consistent_figures_of_the_design_example_of_2010_are_reproduced() {
    let case = &fixture("sizing-cases")["ex2010_design_example"];
    let (input, expected, published) = (&case["inputs"], &case["expected"], &case["published"]);
    let mailboxes = "count = 24000\nmessages_per_day = 100\nquota = '2048MiB'\nretention = '14d'";
    let mailbox = sized(&config("exchange-2010", mailboxes, "")).mailbox;
    near(mailbox.whitespace_mib, number(&expected["whitespace_mb"]), 1e-5);
    near(mailbox.dumpster_mib, number(&expected["dumpster_mb"]), 1e-6);
    near(mailbox.on_disk_mib, number(&expected["mailbox_on_disk_mb"]), 1e-7);
    let overhead = mailbox.on_disk_mib / 2048.0 - 1.0;
    near(overhead, number(&expected["overhead_over_quota"]), 1e-3);
    near(mailbox.on_disk_mib / 1024.0, number(&published["mailbox_gb"]), 1e-3);
    // Not reproduced: the page states +12 %, but its own numbers give 9.6 %. It also states 2.25 GB two lines after
    // 2.19 GB (a difference of 2.7 %). Both are errors in the page.
    assert!((0.12 - overhead - 0.024).abs() < 1e-3);
    near(number(&published["later_in_text_gb"]) / (mailbox.on_disk_mib / 1024.0), 1.0268, 1e-3);

    let formatted = number(&input["formatted_disk_gb"]);
    let largest =
        largest_on_disk_gib(formatted, number(&input["free_fraction"]), number(&input["content_index"]));
    near(largest, number(&expected["max_db_gb"]), 1e-6);
    near(largest.floor(), number(&published["max_db_gb"]), 1e-9);
    let each = number(&input["mailboxes"]) / number(&input["active_databases"]);
    near(each, number(&expected["mailboxes_per_db"]), 1e-5);
    near(floor(each), number(&published["mailboxes_per_db"]), 1e-9);
}

#[test]
fn the_example_of_2013_is_reproduced() {
    let case = &fixture("sizing-cases")["ex2013_example"];
    let expected = &case["expected"];
    let mailboxes = "count = 1000\nmessages_per_day = 200\nquota = '10240MiB'";
    let mailbox = sized(&config("exchange-2013", mailboxes, "")).mailbox;
    near(mailbox.whitespace_mib, number(&expected["whitespace_mb"]), 1e-4);
    near(mailbox.dumpster_mib, number(&expected["dumpster_mb"]), 1e-4);
    near(mailbox.on_disk_mib, number(&expected["mailbox_on_disk_mb"]), 1e-6);
    near(mailbox.iops(), number(&expected["iops"]), 1e-9);
    near(mailbox.cache_mib, number(&expected["cache_mb"]), 1e-9);
    near(mailbox.logs_per_day, number(&expected["logs_per_day"]), 1e-9);
    let t = &case["transport_db"];
    let transport = transport_gib(
        number(&t["mailboxes"]),
        number(&t["msgs"]),
        number(&t["kb"]),
        number(&t["queued_fraction"]),
        number(&t["max_queue_days"]),
        number(&t["safety_net_days"]),
        number(&t["copies"]),
    );
    near(transport, number(&t["expected_gb"]), 1e-5);
}

#[test]
fn the_published_test_of_2013_is_sized_and_judged() {
    let case = &fixture("sizing-cases")["esrp_seed002"];
    let text = "count = 2250\nmessages_per_day = 100\niops = 0.1\nwrite_share = '35.93%'\nquota = '1GiB'";
    let servers =
        "servers = { count = 2, copies = 2, lost = 1, headroom = '20%' }\ndatabases = { count = 4 }";
    let sizing = sized(&config("exchange-2013", text, servers));
    let lost = sizing.server.load(SystemState::ServerLost);
    let target = lost.database_reads + lost.database_writes;
    near(target, number(&case["target_per_server"]), 1e-9);
    near(2.0 * target, number(&case["target_total"]), 1e-9);
    assert_eq!(sizing.server.load(SystemState::Normal).active_mailboxes, 1125.0);
    assert_eq!(lost.active_mailboxes, number(&case["mailboxes_per_server"]));
    assert!(sizing.test_config.contains("databases = 4\n"), "{}", sizing.test_config);
    assert!(sizing.test_config.contains("target_iops = 270.000\n"));
    // The measured ratio of log writes to database writes is within one percent of the platform's ratio.
    let sum = |key: &str| -> f64 { case["js13"][key].as_array().unwrap().iter().map(number).sum() };
    let (reads, writes) = (sum("read"), sum("write"));
    let sums = &case["js13_sums"];
    near(reads + writes, number(&sums["transactional"]), 1e-6);
    near(reads + sum("bdm"), number(&sums["reads_incl_bdm"]), 1e-5);
    near(sum("logw") / writes, number(&sums["log_to_db_write"]), 1e-3);
    near(sum("logr") / sum("logw"), number(&sums["log_read_to_write"]), 1e-3);
    near(lost.log_writes / lost.database_writes, number(&sums["log_to_db_write"]), 1e-2);
    near(lost.log_reads / lost.log_writes, number(&sums["log_read_to_write"]), 4e-2);
    // Both servers are marked as passed. The first server met its target, and the second missed it by 3.75 %.
    assert!(reads + writes >= target);
    let second = number(&case["js14"]["transactional"]);
    near(jetcell_sizing::economy::deficit(second, target), number(&case["js14"]["shortfall"]), 1e-3);
    near(reads + writes + second, number(&case["total_achieved"]), 1e-6);
    // The figures count operations on the disks, where each write is performed two or three times. The difference
    // between the two figures is one copy of all database and log writes. The remainder is the reads of both servers.
    let disks = 23.0;
    let two = disks * number(&case["backend_iops_per_disk_wp2"]);
    let three = disks * number(&case["backend_iops_per_disk_wp3"]);
    near(three - two, writes + number(&case["js14"]["writes"]) + 48.6, 1e-3);
    near(3.0 * two - 2.0 * three, reads + number(&case["js14"]["reads"]), 2e-3);
    // 23 disks of 931.51 GB are 21.42 TB. The page prints 21.43.
    near(23.0 * 931.51 / 1000.0, number(&case["raw_tb"]), 5e-4);
    near(number(&case["db_mib"]) / 1024.0 / 562.5, number(&case["gib_per_mailbox_tested"]), 1e-3);
    for run in ["js13_s_per_log", "js14_s_per_log"] {
        let platform_default = Config::read("example", EXAMPLE).unwrap().backup.replay.0;
        assert!((platform_default / number(&case["replay"][run]) - 1.0).abs() < 0.05);
    }
}

/// Returns the disk of published table 9: 300 GB, with 90 random operations per second.
fn table_9_disk() -> CatalogueDisk {
    let mut disk = DiskCatalogue::built_in().find("10k 300GB").unwrap().clone();
    disk.random_iops = 90.0;
    disk
}

fn storage() -> StorageConfig {
    config("exchange-2007", "count = 1\nmessages_per_day = 1\nquota = '1MiB'", "").storage
}

fn table_9(layout: &GroupLayout, headroom: f64, iops: f64, data_disks: f64) -> (f64, f64) {
    let mut disk = table_9_disk();
    disk.random_iops = iops;
    let half = 4000.0 * 0.33 * headroom / 2.0;
    let work = ArrayLoad { state: SystemState::Normal, reads: half, writes: half, sequential_mb_s: 0.0 };
    let mut sheet = CalculationSheet::default();
    let capacity_gib = data_disks * disk.capacity.gib();
    let array = SizedArray::new(layout, &disk, &storage(), &[work], capacity_gib, &mut sheet).unwrap();
    (array.disks, array.disks_for_load[0].disk_iops)
}

fn parity(raid: RaidKind, data_disks: u32, write_ratio: Option<f64>) -> GroupLayout {
    GroupLayout { data_disks: Some(data_disks), write_ratio, parity_serves: false, ..GroupLayout::new(raid) }
}

#[test]
fn six_cells_of_table_9_are_reproduced_and_two_are_not() {
    let case = &fixture("sizing-cases")["table9_fit"];
    let (expected, published) = (&case["expected"], &case["published"]);
    let raid6 = parity(RaidKind::Raid6, 6, None);
    let raid6_no_penalty = parity(RaidKind::Raid6, 6, Some(1.0));
    let raid5 = parity(RaidKind::Raid5, 3, None);
    let (small, large) =
        (number(&case["inputs"]["log_disks_250"]), number(&case["inputs"]["log_disks_1024"]));
    let capacity = number(&case["inputs"]["capacity_data_disks_1024"]);
    for (headroom, iops) in [(1.2, 90.0), (1.0, 75.0)] {
        let cell = |layout: &GroupLayout, data: f64, log: f64| table_9(layout, headroom, iops, data).0 + log;
        let found = [
            ("r10_250", cell(&GroupLayout::raid10(), 1.0, small)),
            ("r6_250", cell(&raid6, 1.0, small)),
            ("r6np_250", cell(&raid6_no_penalty, 1.0, small)),
            ("r5_1024", cell(&raid5, capacity, large)),
            ("r6_1024", cell(&raid6, capacity, large)),
            ("r6np_1024", cell(&raid6_no_penalty, capacity, large)),
        ];
        for (key, disks) in found {
            assert_eq!(disks, number(&expected[key]), "{key}");
            assert_eq!(disks, number(&published[key]), "{key}");
        }
        let hidden = &case["hidden_cells_predicted"];
        assert_eq!(cell(&raid5, 1.0, small), number(&hidden["r5_250"]));
        assert_eq!(cell(&GroupLayout::raid10(), capacity, large), number(&hidden["r10_1024"]));
    }
    let host = &case["host_iops"];
    near(table_9(&GroupLayout::raid10(), 1.2, 90.0, 1.0).1, number(&host["r10"]), 1e-12);
    near(table_9(&raid5, 1.2, 90.0, 1.0).1, number(&host["r5"]), 1e-12);
    near(table_9(&raid6, 1.2, 90.0, 1.0).1, number(&host["r6"]), 1e-12);
    near(table_9(&raid6_no_penalty, 1.2, 90.0, 1.0).1, number(&host["r6np"]), 1e-12);
    // RAID-DP with 24 and 70 disks is not reproduced: the inputs of the vendor's calculation are unpublished. Even
    // without a write penalty, this calculation needs 36 and 80 disks, which is 50 % and 14 % more.
    near(36.0 / number(&published["raiddp_250"]) - 1.0, 0.5, 1e-9);
    near(80.0 / number(&published["raiddp_1024"]) - 1.0, 0.142857, 1e-4);
}

#[test]
fn the_text_of_table_9_does_not_explain_its_45_disks() {
    // Mailboxes of 1024 MB, with everything that the text mentions, fill 24.2 disks of 300 GB. The cells of the table
    // require 45. The remaining factor of 1.86 (a second copy or a disk backup?) is not in any published input.
    let needed = 4000.0 * (1024.0 + 4.9 + 68.0) * 1.2 * 1.05 / 0.8 / 1024.0 / table_9_disk().capacity.gib();
    near(needed, 24.2, 5e-3);
    near(45.0 / needed, 1.86, 5e-3);
}

#[test]
fn degraded_arrays_have_the_published_costs() {
    let case = &fixture("sizing-cases")["raid_io"];
    for (raid, key) in [(RaidKind::Raid10, "raid10"), (RaidKind::Raid5, "raid5"), (RaidKind::Raid6, "raid6")]
    {
        assert_eq!(raid.write_penalty(), number(&case["small_write"][key]));
    }
    for (disks, expected) in case["expected_ios"].as_object().unwrap() {
        let disks: u32 = disks.parse().unwrap();
        let degraded = |raid: RaidKind| GroupLayout {
            data_disks: Some(disks - raid.redundant_disks()),
            ..GroupLayout::new(raid)
        };
        let raid5 = degraded(RaidKind::Raid5).costs_degraded();
        near(raid5.read, number(&expected["raid5_degraded_read"]), 1e-9);
        near(raid5.write, number(&expected["raid5_degraded_write"]), 1e-9);
        let raid6 = degraded(RaidKind::Raid6).costs_degraded();
        near(raid6.read, number(&expected["raid6_degraded1_read"]), 1e-9);
        near(raid6.write, number(&expected["raid6_degraded1_write"]), 1e-9);
        let (read, write) = costs_with_two_lost(f64::from(disks));
        near(read, number(&expected["raid6_degraded2_read"]), 1e-9);
        near(write, number(&expected["raid6_degraded2_write"]), 1e-6);
    }
    let count = |row: &Value, key: &str| number(&row[key]) as u32;
    for row in case["partial_stripe"].as_array().unwrap() {
        let (n, m, w) = (count(row, "n"), count(row, "m"), count(row, "w"));
        assert_eq!(partial_stripe(n, m, w), count(row, "best"));
        near(f64::from(partial_stripe(n, m, w)) / f64::from(w), number(&row["per_host_write"]), 1e-4);
    }
}

#[test]
fn the_published_rebuild_used_a_tenth_of_the_array() {
    let case = &fixture("sizing-cases")["rebuild_fig8"];
    let (gb, seconds) = (number(&case["capacity_gb"]), number(&case["seconds"]));
    let rate = gb * 1000.0 / seconds;
    near(rate, number(&case["mb_s"]), 1e-3);
    let all = rate * (number(&case["survivors"]) + 1.0);
    near(all, number(&case["read_plus_write_mb_s"]), 1e-3);
    assert_eq!((all / number(&case["single_2gb_loop_mb_s"])).ceil(), number(&case["min_loops"]));
    // If a rebuild may use that share of its time, the same disk takes the same rebuild time in this calculation.
    let mut disk = table_9_disk();
    disk.capacity = "144GB".parse().unwrap();
    let storage = StorageConfig {
        rebuild_share: jetcell_sizing::units::Share(rate / disk.sequential.mb_s()),
        ..storage()
    };
    let layout = GroupLayout { data_disks: Some(14), ..GroupLayout::new(RaidKind::RaidDp) };
    let array =
        SizedArray::new(&layout, &disk, &storage, &[], 1.0, &mut CalculationSheet::default()).unwrap();
    near(array.rebuild_hours * 3600.0, seconds, 1e-9);
}

#[test]
fn a_measured_write_ratio_gives_the_load_per_disk_of_the_published_array() {
    // The array has 10,000 users at 0.5 IOPS and reached 5,320 on 63 disks.
    let case = &fixture("raid-dp-exchange");
    let (jetstress, derived) = (&case["jetstress"], &case["derived"]);
    let target = number(&jetstress["users"]) * number(&jetstress["iops_per_user"]);
    near(target, number(&jetstress["target_iops"]), 1e-12);
    let (reached, disks) = (number(&jetstress["achieved_iops"]), number(&jetstress["database_disks"]));
    near(
        100.0 * jetcell_sizing::economy::gain(reached, target),
        number(&derived["achieved_over_target_pct"]),
        1e-9,
    );
    near(reached / disks, number(&derived["iops_per_database_disk"]), 1e-5);
    // The text states 9 % and 30 %. The correct values are 8.6 % and 32.7 % on the base of each statement. On the
    // base that the text uses elsewhere, the first value is 7.9 %.
    near(jetcell_sizing::economy::gain(76.0, 70.0), 0.0857, 1e-3);
    near(jetcell_sizing::economy::deficit(70.0, 76.0), 0.0789, 1e-3);
    near(jetcell_sizing::economy::deficit(70.0, 104.0), 0.327, 1e-3);
}

#[test]
fn changed_coefficients_come_from_the_platform_file() {
    assert_eq!(Platform::named("exchange-2013").unwrap().maintenance_mb_s, 1.0);
    let example = Config::read("example", EXAMPLE).unwrap();
    assert_eq!(example.platform().unwrap().maintenance_mb_s, 2.28);
}
