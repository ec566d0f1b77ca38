//! Application profiles: names and formats of the columns of real databases.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use jetcell_export::{
    AdditionalRows, ApplicationProfile, CurrencyFormat, ExportDestination, ExportError, ExportFormat,
    ExportOptions, ROW_LIMIT, RenderingOptions, Selection, export,
};
use jetcell_vfs::{RealOptions, RealVfs};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value as Json, json};
use testkit::corpus::Corpus;
use testkit::samples;

use crate::common::{JsonRows, json_lines};

fn run(
    database: &Path,
    format: ExportFormat,
    output: &Path,
    rendering: RenderingOptions,
) -> Result<(), ExportError> {
    let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
    let options = ExportOptions {
        selection: Selection::default(),
        format,
        destination: ExportDestination::Directory(output.to_owned()),
        additional: AdditionalRows::default(),
        force: false,
        row_limit: ROW_LIMIT,
        rendering,
    };
    export(&vfs, database, &options, &mut |_, _| {}).map(drop)
}

fn run_as(database: &Path, format: ExportFormat, output: &Path, rendering: RenderingOptions) {
    run(database, format, output, rendering).unwrap();
}

/// Returns the tables of a database, exported without a profile and with the matching profile.
fn without_and_with(name: &str) -> Option<[BTreeMap<String, JsonRows>; 2]> {
    let corpus = Corpus::locate()?;
    let directory = tempfile::tempdir().unwrap();
    let database = corpus.unpack(name, directory.path());
    Some([ApplicationProfile::None, ApplicationProfile::BySchema].map(|profile| {
        let output = directory.path().join(format!("{profile:?}"));
        run_as(
            &database,
            ExportFormat::JsonLines,
            &output,
            RenderingOptions { profile, ..RenderingOptions::default() },
        );
        json_lines(&output)
    }))
}

/// Returns the tables of a sample, exported with the matching profile and without nulls.
fn sample(name: &str) -> BTreeMap<String, JsonRows> {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join(name);
    std::fs::write(&database, samples::read(name)).unwrap();
    let output = directory.path().join("output");
    run_as(&database, ExportFormat::JsonLines, &output, readable());
    json_lines(&output)
}

/// Returns the options for values with the matching profile and without nulls.
fn readable() -> RenderingOptions {
    RenderingOptions {
        profile: ApplicationProfile::BySchema,
        omit_nulls: true,
        ..RenderingOptions::default()
    }
}

/// Returns the schema row of an attribute.
fn schema_row<'r>(
    rows: &'r [serde_json::Map<String, Json>],
    name: &str,
    wanted: &str,
) -> &'r serde_json::Map<String, Json> {
    let is = |value: &Json| {
        *value == wanted || value.as_array().is_some_and(|list| list.iter().any(|one| one == wanted))
    };
    rows.iter().find(|row| row.get(name).is_some_and(is)).unwrap()
}

#[test]
fn directory_exports_use_schema_names_integers_and_times() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let database = corpus.unpack("db/8k/ntds-initial.dit", directory.path());
    let rows = |name: &str, rendering| {
        let output = directory.path().join(name);
        run_as(&database, ExportFormat::JsonLines, &output, rendering);
        json_lines(&output).remove("datatable").unwrap()
    };
    let plain = rows("plain", RenderingOptions::default());
    let row = schema_row(&plain, "ATTm131532", "whenCreated");
    assert_eq!(row["ATTc131102"], json!([131_074]));
    assert_eq!(row["ATTl131074"], json!([13_013_628_276i64]), "an integer in Active Directory");
    let decimal = rows(
        "decimal",
        RenderingOptions { currency: CurrencyFormat::Decimal, ..RenderingOptions::default() },
    );
    assert_eq!(schema_row(&decimal, "ATTm131532", "whenCreated")["ATTl131074"], json!([1_301_362.827_6]));
    let named = rows(
        "named",
        RenderingOptions { profile: ApplicationProfile::BySchema, ..RenderingOptions::default() },
    );
    let row = schema_row(&named, "lDAPDisplayName", "whenCreated");
    assert_eq!((&row["attributeID"], &row["isSingleValued"]), (&131_074.into(), &1.into()));
    assert_eq!(row["whenCreated"], "2013-05-21T16:44:36Z");
    assert_eq!(row["distinguishedName"], "CN=When-Created,CN=Schema,O=Boot");
    assert_eq!(named.len(), plain.len());
    let named_columns = row.keys().filter(|name| !name.starts_with("ATT")).count();
    assert!(named_columns > 1000, "{named_columns}");

    // Exports the same columns in the other formats: Parquet keeps integers, SQLite stores the times as text.
    let rendering =
        RenderingOptions { profile: ApplicationProfile::Directory, ..RenderingOptions::default() };
    run_as(&database, ExportFormat::Parquet, &directory.path().join("parquet"), rendering);
    let file = File::open(directory.path().join("parquet/datatable.parquet")).unwrap();
    let columns = SerializedFileReader::new(file).unwrap();
    let schema = columns.metadata().file_metadata().schema().get_fields();
    let created = schema.iter().find(|field| field.name() == "whenCreated").unwrap();
    assert!(created.is_primitive(), "a single value");

    let other = corpus.unpack("db/4k/basic.edb", directory.path());
    let output = directory.path().join("other");
    let refused = run(&other, ExportFormat::Csv, &output, rendering).unwrap_err().to_string();
    assert!(refused.contains("does not have the tables of Active Directory"), "{refused}");
}

#[test]
fn directory_exports_resolve_classes_descriptors_metadata_and_links() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let database = corpus.unpack("db/8k/ntds-initial.dit", directory.path());
    let output = directory.path().join("output");
    run_as(&database, ExportFormat::JsonLines, &output, readable());
    let len = std::fs::metadata(output.join("datatable.jsonl")).unwrap().len();
    assert!(len < 12 << 20, "without nulls, the table has less than a fifth of its 61 MB: {len}");
    let tables = json_lines(&output);
    let objects = &tables["datatable"];
    let first = json!({
        "DNT_col": 1,
        "OBJ_col": 1,
        "cnt_col": 1,
        "ab_cnt_col": 0,
        "name": "$NOT_AN_OBJECT1$",
        "objectGUID": "00000001-0000-0000-0000-000000000000",
    });
    assert_eq!(Json::Object(objects[0].clone()), first);
    assert_eq!(objects[1]["nTSecurityDescriptor"], "O:WDG:WDD:(A;OICI;0xffffffff;;;WD)");
    let row = schema_row(objects, "lDAPDisplayName", "organization");
    for (column, expected) in [
        ("objectGUID", json!("39350df6-dff4-4ab6-a961-5728c5972a17")),
        ("schemaIDGUID", json!("bf967aa3-0de6-11d0-a285-00aa003049e2")),
        ("objectClass", json!(["classSchema", "top"])),
        ("systemPossSuperiors", json!(["domainDNS", "country", "locality"])),
        ("systemMustContain", json!(["o"])),
        ("governsID", json!(65540)),
        ("nTSecurityDescriptor", json!("O:BAG:BAD:AIS:AI")),
        ("Ancestors_col", json!([2, 4, 5, 6])),
    ] {
        assert_eq!(row[column], expected, "{column}");
    }
    let changes = row["replPropertyMetaData"].as_array().unwrap();
    let change = json!({
        "attribute": "objectClass",
        "version": 1,
        "time": "2013-05-21T16:44:37Z",
        "originatingDsa": "00000000-0000-0000-0000-000000000000",
        "originatingUsn": 1778,
        "localUsn": 1778,
    });
    assert_eq!((changes.len(), &changes[0]), (24, &change));
    let names: Vec<&Json> = changes.iter().map(|change| &change["attribute"]).take(4).collect();
    assert_eq!(names, ["objectClass", "cn", "instanceType", "whenCreated"]);

    let (machine, boot) = ("CN=BootMachine,O=Boot", "O=Boot");
    let link = |base: &str| json!({"link_DNT": machine, "backlink_DNT": boot, "link_base": base});
    let links: Vec<Json> = tables["link_table"].iter().cloned().map(Json::Object).collect();
    assert_eq!(links, [link("hasMasterNCs"), link("msDS-hasMasterNCs")]);
    let descriptors: Vec<&Json> = tables["sd_table"].iter().map(|row| &row["sd_value"]).collect();
    assert_eq!(descriptors, ["O:WDG:WDD:(A;OICI;0xffffffff;;;WD)", "O:BAG:BAD:S:", "O:BAG:BAD:AIS:AI"]);
}

#[test]
fn search_vectors_durations_and_local_times_are_readable() {
    let rows = &sample("search-vectors.edb")["SystemIndex_PropertyStore"];
    let first = json!({
        "WorkID": 1,
        "System.ItemPathDisplay": "C:\\a\\tool.lnk",
        "System.Kind": ["link", "program"],
        "System.ItemParticipants": ["one@example.org", "two@example.org"],
        "System.Author": ["Ann", "Bob"],
        "System.Document.TotalEditingTime": "PT1920S",
        "System.DateModified": "2022-06-18T04:26:40Z",
    });
    let second = json!({
        "WorkID": 2,
        "System.ItemPathDisplay": "C:\\a\\b.docx",
        "System.Kind": ["document"],
        "System.Author": ["Ann"],
    });
    let rows: Vec<Json> = rows.iter().cloned().map(Json::Object).collect();
    assert_eq!(rows, [first, second]);

    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let database = corpus.unpack("db/32k/Windows-search.edb", directory.path());
    let output = directory.path().join("output");
    run_as(&database, ExportFormat::JsonLines, &output, readable());
    let rows = json_lines(&output).remove("SystemIndex_PropertyStore").unwrap();
    let row = rows.iter().find(|row| row["WorkID"] == 903).unwrap();
    for (column, expected) in [
        ("System.ActivityHistory.ActiveDuration", json!("PT11S")),
        ("System.ActivityHistory.StartTime", json!("2022-02-05T19:53:29Z")),
        ("System.ActivityHistory.LocalStartTime", json!("2022-02-05T14:53:29")),
        ("System.ActivityHistory.LocalEndTime", json!("2022-02-05T14:53:40")),
        ("System.ActivityHistory.DaysActive", json!(["19028"])),
    ] {
        assert_eq!(row[column], expected, "{column}");
    }
    assert_eq!(rows[0]["InvertedOnlyPids"], "28126512", "not text, although the bytes are valid UTF-16");
    let applications = row["System.Activity.AppIdList"].as_array().unwrap();
    assert_eq!(applications[1], "1:{D65231B0-B2F1-4857-A4CE-A8E7C6EA7D27}\\notepad.exe");
}

#[test]
fn web_cache_cookies_and_https_hosts_are_readable() {
    let tables = sample("webcache-cookies.edb");
    let rows = |table: &str| -> Vec<Json> { tables[table].iter().cloned().map(Json::Object).collect() };
    let cookie = json!({
        "EntryId": 1,
        "Expires": "2022-10-11T22:13:20Z",
        "LastModified": "2022-06-18T04:26:40Z",
        "RDomain": "org.example",
        "Name": "session",
        "Value": "abc=1",
    });
    assert_eq!(rows("CookieEntryEx_2"), [cookie]);
    let host = json!({
        "EntryId": 1,
        "Expires": "2022-10-11T22:13:20Z",
        "LastTimeUsed": "2022-06-18T04:26:40Z",
        "RDomain": "org.example",
    });
    assert_eq!(rows("HstsEntryEx_3"), [host]);
    let entry = json!({"EntryId": 1, "ContainerId": "Cookies", "AccessedTime": "2022-06-18T04:26:40Z"});
    assert_eq!(rows("Container_1"), [entry]);
}

#[test]
fn usage_monitor_exports_resolve_providers_applications_and_users() {
    let Some([plain, named]) = without_and_with("logsets/srum-win11-dirty/SRUDB.dat") else { return };
    assert_eq!(plain.len(), named.len());
    let stored = &plain["{D10CA2FE-6FCF-4F6D-848E-B2E99266FA89}"];
    let usage = &named["ApplicationResourceUsage"];
    assert!(stored.len() == usage.len() && !stored.is_empty());
    let texts = |column: &str| usage.iter().filter(|row| row[column].is_string()).count();
    assert!(texts("AppId") * 10 > usage.len() * 9, "{} of {}", texts("AppId"), usage.len());
    assert!(usage.iter().any(|row| row["UserId"].as_str().is_some_and(|user| user.starts_with("S-1-5-"))));
    // Each number is replaced by the text of its row in the table of numbers.
    let ids: BTreeMap<i64, &Json> = named["SruDbIdMapTable"]
        .iter()
        .map(|row| (row["IdIndex"].as_i64().unwrap(), &row["IdBlob"]))
        .collect();
    for (before, after) in stored.iter().zip(usage) {
        for column in ["AppId", "UserId"] {
            let id = before[column].as_i64().unwrap();
            assert!(after[column] == *ids[&id] || after[column] == id, "{column} {id}: {}", after[column]);
        }
    }
    let interfaces =
        |name: &str| named["NetworkDataUsage"].iter().filter(|row| row["InterfaceLuid"] == name).count();
    // Type 6, index 32770.
    let stored = &plain["{973F5D5C-1D90-4944-BE8E-24B94231A174}"];
    let ethernet = stored.iter().filter(|row| row["InterfaceLuid"] == 1_689_399_649_632_256i64).count();
    assert_eq!(
        (interfaces("ethernetCsmacd_32770"), named["NetworkDataUsage"].len()),
        (ethernet, stored.len())
    );
    assert!(ethernet > 0);
    let times: Vec<&Json> = named["Vfuprov"].iter().map(|row| &row["StartTime"]).collect();
    let good =
        |time: &&Json| time.as_str().is_some_and(|text| text.ends_with('Z')) || time.as_i64() == Some(0);
    assert!(times.iter().all(|time| good(time) || time.is_null()), "{times:?}");
}

#[test]
fn access_log_exports_resolve_role_names_and_addresses() {
    let Some([plain, named]) = without_and_with("db/4k/ual-hyperv-yearly.mdb") else { return };
    let pairs = plain["CLIENTS"].iter().zip(&named["CLIENTS"]);
    assert_eq!((plain["CLIENTS"].len(), named["CLIENTS"].len()), (39, 39));
    for (before, after) in pairs {
        // The addresses in the table of names are stored as text.
        let hex = before["Address"].as_str().unwrap();
        let expected = match hex {
            "00000000000000000000000000000001" => "::1".to_owned(),
            _ if hex.len() == 8 => u32::from_str_radix(hex, 16)
                .map(|address| std::net::Ipv4Addr::from(address).to_string())
                .unwrap(),
            _ => std::net::Ipv6Addr::from(u128::from_str_radix(hex, 16).unwrap()).to_string(),
        };
        assert_eq!(after["Address"], expected);
        let role = match before["RoleGuid"].as_str().unwrap() {
            "ad495fc3-0eaa-413d-ba7d-8b13fa7ec598" => "Active Directory Domain Services",
            "10a9226f-50ee-49d8-a393-9a501d47ce04" => "File Server",
            "7fb09bd3-7fe6-435e-8348-7d8aefb6cea3" => "Print and Document Services",
            other => panic!("{other}"),
        };
        assert_eq!(after["RoleGuid"], role);
        for same in ["TenantId", "InsertDate", "LastAccess", "AuthenticatedUserName"] {
            assert_eq!(before[same], after[same]);
        }
    }
    let names: Vec<&str> = named["DNS"].iter().map(|row| row["Address"].as_str().unwrap()).collect();
    assert!(
        named["CLIENTS"].iter().any(|row| names.contains(&row["Address"].as_str().unwrap())),
        "{names:?}"
    );
}

#[test]
fn search_index_exports_resolve_properties_paths_times_and_sizes() {
    let Some([plain, named]) = without_and_with("db/32k/Windows-search.edb") else { return };
    let (before, after) = (&plain["SystemIndex_PropertyStore"], &named["SystemIndex_PropertyStore"]);
    assert_eq!(before.len(), after.len());
    assert_eq!(before[0]["15F-System_DateModified"], "a88ab2c9deacd501");
    assert_eq!(after[0]["System.DateModified"], "2019-12-07T09:14:54.3936168Z");
    assert_eq!(before[0].len(), after[0].len(), "no column is lost");
    let sizes = before.iter().zip(after).filter_map(|(before, after)| {
        let bytes = u64::from_str_radix(before["13F-System_Size"].as_str()?, 16).unwrap().swap_bytes();
        Some((bytes, after["System.Size"].as_u64().unwrap()))
    });
    assert_eq!(sizes.filter(|(before, after)| before == after).count(), 428);
    assert_eq!(named["CatalogStorageManager"][0]["CatalogName"], "SystemIndex");

    // The path of each document must match the path of the item. The index also stores this path as text, without the
    // GUID of the volume.
    let files = &named["SystemIndex_Gthr"];
    let paths: BTreeMap<i64, String> = files
        .iter()
        .map(|row| {
            let path = format!("{}{}", row["ScopeID"].as_str().unwrap(), row["FileName"].as_str().unwrap());
            let volume = path.find('[').zip(path.find("]/"));
            let without = volume.map(|(from, to)| format!("{}{}", &path[..from], &path[to + 2..]));
            (row["DocumentID"].as_i64().unwrap(), without.unwrap_or(path))
        })
        .collect();
    assert_eq!(after.len(), 918);
    for row in after {
        assert_eq!(row["System.ItemUrl"], paths[&row["WorkID"].as_i64().unwrap()]);
    }
    let time = files[0]["LastModified"].as_str().unwrap();
    assert!(time.starts_with("2022-02-") && time.ends_with('Z'), "{time}");
}
