//! Tests that the values in dumps equal the values in the manifest, for all files of the corpus.

use serde_json::Value;

use crate::common::{corpus_file, dump, items, manifest};

/// Converts `2022-08-19T11:46:32.636Z` to `2022-08-19 11:46:32`, which is the form of the manifest. An absent time
/// becomes an empty string.
fn seconds(value: &Value) -> String {
    value.as_str().map_or_else(String::new, |text| text[..19].replace('T', " "))
}

/// Converts `00000001,0016,0000` to `1:16:0`, which is the form of the manifest.
fn position(value: &Value) -> String {
    let parts = value.as_str().unwrap().split(',');
    let parts: Vec<String> =
        parts.map(|part| format!("{:X}", u64::from_str_radix(part, 16).unwrap())).collect();
    parts.join(":")
}

/// Returns true if the random part and the time of a signature equal those in the manifest, which has signatures in
/// hexadecimal.
fn same_signature(found: &Value, manifest: &str) -> bool {
    let bytes: Vec<u8> =
        (0..28).map(|at| u8::from_str_radix(&manifest[2 * at..2 * at + 2], 16).unwrap()).collect();
    if bytes.iter().all(|&byte| byte == 0) {
        return found.is_null();
    }
    let random = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let [s, m, h, day, month, year] = bytes[4..10].try_into().unwrap();
    let year = 1900 + u32::from(year);
    let time = format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}");
    found["random"] == random && seconds(&found["created"]) == time
}

fn header_of(name: &str) -> Option<Value> {
    let file = corpus_file(name)?;
    let (output, problems) = dump(&file, jetcell_dump::dump_header);
    assert_eq!(problems, 0, "{name}: {output}");
    Some(items(&output).remove(0))
}

#[test]
fn database_headers_equal_the_manifest() {
    let mut seen = 0;
    for file in manifest().iter().filter(|file| file["kind"] == "db") {
        let name = file["name"].as_str().unwrap();
        let header = header_of(name).unwrap();
        let fields = &header["fields"];
        let text = |name: &str| file[name].as_str().unwrap();
        let check = |what: &str, good: bool| assert!(good, "{name}: {what}: {fields:#}");
        check("format", header["format"] == "database" && header["size"] == file["size"]);
        check("checksum", header["checksum"]["good"] == true && header["shadow"]["good"] == true);
        let differs = header["shadow"]["differs"].as_array().unwrap();
        check("shadow", differs.is_empty() == file["shadow_same"].as_bool().unwrap());
        for (ours, theirs) in [("page_size", "page_size"), ("file_type", "filetype"), ("db_time", "dbtime")] {
            check(ours, fields[ours] == file[theirs]);
        }
        check("state", fields["state"] == file["state_name"]);
        check("repairs", fields["repair_count"] == file["repairs"]);
        check("old repairs", fields["old_repair_count"] == file["repairsOld"]);
        let hex = |name: &str| format!("{:#x}", fields[name].as_u64().unwrap());
        check("version", hex("version") == text("format") && hex("update") == text("revision"));
        check("minor", hex("update_minor") == text("minor"));
        check(
            "created",
            format!("{},{}", hex("created_version"), hex("created_update")) == text("created_format"),
        );
        for (ours, theirs) in [
            ("signature", "signDb"),
            ("log_signature", "signLog"),
            ("flush_signature", "signDbHdrFlush"),
            ("flush_map_signature", "signFMHdrFlush"),
        ] {
            check(ours, same_signature(&fields[ours], text(theirs)));
        }
        check("creation", seconds(&fields["signature"]["created"]) == text("created"));
        for (ours, theirs) in [("consistent", "Consistent"), ("attach", "Attach"), ("detach", "Detach")] {
            let (found, wanted) = (&fields[format!("{ours}_position")], text(&format!("lgpos{theirs}")));
            check(ours, position(found) == wanted);
            let wanted = file[format!("time{theirs}")].as_str().unwrap_or_default();
            check("time", seconds(&fields[format!("{ours}_time")]) == wanted);
        }
        let number = |name: &str| fields[name].as_u64().unwrap();
        let os = ["os_major", "os_minor", "os_build", "os_service_pack"].map(number);
        check("os", format!("{}.{}.{} SP{}", os[0], os[1], os[2], os[3]) == text("os"));
        let generation = |name: &str| format!("{:X}", number(name));
        let required = format!("{}-{}", generation("gen_min_required"), generation("gen_max_required"));
        check("required", required == text("genRequired"));
        check("committed", generation("gen_max_committed") == text("genCommitted"));
        check("consistent", generation("gen_min_consistent") == text("genMinConsistent"));
        seen += 1;
    }
    assert!(seen == 21 || manifest().is_empty(), "{seen} databases");
}

#[test]
fn logs_equal_the_manifest() {
    for file in manifest().iter().filter(|file| file["kind"] == "log") {
        let name = file["name"].as_str().unwrap();
        let header = header_of(name).unwrap();
        let fields = &header["fields"];
        let text = |name: &str| file[name].as_str().unwrap();
        let check = |what: &str, good: bool| assert!(good, "{name}: {what}: {fields:#}");
        let number = |name: &str| fields[name].as_u64().unwrap();
        check("generation", format!("{:X}", number("generation")) == text("gen"));
        for (ours, theirs) in [
            ("segment_bytes", "cbSec"),
            ("header_segments", "csecHeader"),
            ("file_segments", "csecFile"),
            ("database_page_size", "page_size"),
            ("flags", "flags"),
        ] {
            check(ours, fields[ours] == file[theirs]);
        }
        check("created", seconds(&fields["created"]) == text("create"));
        check("previous", seconds(&fields["previous_created"]) == file["prev"].as_str().unwrap_or_default());
        let version =
            ["version_major", "version_minor", "version_update", "version_update_minor"].map(number);
        let version = format!("{}.{}.{}.{}", version[0], version[1], version[2], version[3]);
        check("version", version == text("ver"));
        check("signature", same_signature(&fields["signature"], text("signLog")));
        check("checkpoint", position(&fields["checkpoint"]) == text("lgposCheckpoint"));
        let (databases, wanted) =
            (fields["attachment_list"].as_array().unwrap(), file["attach"].as_array().unwrap());
        check("databases", databases.len() == wanted.len());
        for (found, wanted) in databases.iter().zip(wanted) {
            check("path", found["path"] == wanted["name"] && found["database"] == wanted["dbid"]);
            check("attach", position(&found["attach_position"]) == wanted["lgposAttach"].as_str().unwrap());
            check("database", same_signature(&found["signature"], wanted["signDb"].as_str().unwrap()));
        }
        let (records, problems) = dump(&corpus_file(name).unwrap(), |source, output| {
            jetcell_dump::dump_log(source, &jetcell_dump::LogDumpOptions::default(), output)
        });
        assert_eq!(problems, 0, "{name}");
        let records = items(&records);
        let end = records.last().unwrap();
        assert_eq!(end["type"], "end");
        for kind in ["good", "shadow", "zero", "bad"] {
            assert_eq!(end[kind], file["segments"][kind], "{name}: {kind}");
        }
        let shown = records.iter().filter(|item| item["type"] == "record").count();
        assert_eq!(end["records"], shown, "{name}");
        assert!(shown > 0, "{name}");
    }
}

/// Checks that the checksum that `dump log` computes for a log equals the checksum that the next header stores.
#[test]
fn a_log_checksum_matches_the_value_in_the_next_header() {
    let chain = ["a/SRU00001.log", "b/SRUtmp.log", "b/SRU00003.log", "b/SRU00004.log", "b/SRU.log"];
    for pair in chain.windows(2) {
        let Some(before) = corpus_file(&format!("logsets/srum-server2022/{}", pair[0])) else { return };
        let stats = jetcell_dump::LogDumpOptions { stats: true, ..Default::default() };
        let (output, _) = dump(&before, |source, output| jetcell_dump::dump_log(source, &stats, output));
        let end = items(&output).pop().unwrap();
        let next = header_of(&format!("logsets/srum-server2022/{}", pair[1])).unwrap();
        assert_eq!(end["accumulated_checksum"], next["fields"]["previous_checksum"], "{pair:?}");
    }
}

#[test]
fn checkpoints_and_flush_maps_equal_the_manifest() {
    for file in manifest().iter().filter(|file| file["kind"] == "chk" || file["kind"] == "jfm") {
        let name = file["name"].as_str().unwrap();
        let header = header_of(name).unwrap();
        let fields = &header["fields"];
        let text = |name: &str| file[name].as_str().unwrap();
        let check = |what: &str, good: bool| assert!(good, "{name}: {what}: {fields:#}");
        if file["kind"] == "chk" {
            check("position", position(&fields["position"]) == text("lgposCheckpoint"));
            check("consistency", position(&fields["consistency_position"]) == text("lgposDbConsistency"));
            check("full", position(&fields["full_backup_checkpoint"]) == text("lgposLastFull"));
            check("signature", same_signature(&fields["log_signature"], text("signLog")));
            check("flags", fields["flags"] == file["fVersion"]);
            check("copies", header["shadow"]["good"] == true);
            continue;
        }
        for (ours, theirs) in [("created", "create"), ("attached", "attach"), ("detached", "detach")] {
            check(ours, seconds(&fields[ours]) == text(theirs));
        }
        let number = |name: &str| fields[name].as_u64().unwrap();
        check("generation", format!("{:X}", number("gen_min_required")) == text("genMinReq"));
        check("flags", format!("{:#x}", number("flags")) == text("flags"));
        check("database", same_signature(&fields["database_flush_signature"], text("signDbHdrFlush")));
        check("itself", same_signature(&fields["flush_signature"], text("signFMHdrFlush")));
        let (output, problems) = dump(&corpus_file(name).unwrap(), jetcell_dump::dump_flush_map);
        assert_eq!(problems, 0, "{name}: {output}");
        let pages = &items(&output)[1..];
        let wanted = file["datapages"].as_array().unwrap();
        assert_eq!(pages.len(), wanted.len(), "{name}");
        for (page, wanted) in pages.iter().zip(wanted) {
            assert_eq!(format!("dbtimeMax={}", page["db_time"]), wanted[1].as_str().unwrap(), "{name}");
            assert_eq!(page["checksum_good"], true, "{name}");
        }
    }
}
