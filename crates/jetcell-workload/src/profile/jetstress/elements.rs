//! Elements that contain only text, and the table of their meanings.

use std::ffi::OsStr;
use std::path::PathBuf;

use roxmltree::Node;

use super::duration::iso_duration;
use super::is_windows_path;
use super::reader::Fate::{Honoured, Ignored};
use super::reader::{Fate, Reader};
use crate::profile::TestKind;
use crate::profile::options::Options;
use crate::units::TimeSpan;

/// Maximum number of unknown elements that are listed individually.
pub(super) const LISTED_UNKNOWN: usize = 20;

/// Meaning of an element.
enum Meaning {
    /// A number that sets a configuration key. The fields are the key, the unit and a remark.
    Number(&'static str, &'static str, &'static str),
    /// A boolean that sets this configuration key.
    Switch(&'static str),
    /// A boolean that must have this value, because every run behaves this way.
    Always(bool, &'static str),
    /// A number that must have this value, because every run behaves this way.
    Only(f64, &'static str),
    /// An element without effect. The field contains the reason.
    No(&'static str),
    /// An element with rules of its own. The function returns `None` after a mistake, or if the number is explained
    /// together with others.
    Own(fn(&mut Reader<'_>, Node<'_, '_>, &str) -> Option<Fate>),
}

use Meaning::{Always, No, Number, Only, Own, Switch};

#[rustfmt::skip]
const ELEMENTS: &[(&str, Meaning)] = &[
    // Settings of the test.
    ("Type", Own(test_type)),
    ("Description", Own(description)),
    ("Duration", Own(duration)),
    ("OutputPath", Own(output_path)),
    ("LogInterval", Number("sample_interval", "ms", "")),
    ("BatchUpdates", Number("batch_updates", "", "")),
    ("Bulky1Percentage", Number("records.long_percent", "", "")),
    // Behavior common to all runs.
    ("MultiHostBreak", Always(false, "the run does not wait for other hosts")),
    ("VerifyChecksum", Always(true, "every page and log is verified after the load")),
    ("ContinueOnErrors", Always(false, "an I/O error ends the load")),
    ("SuppressTuning", Always(true, "the threads and the mix are used as given")),
    ("UseEseCounters", Always(true, "the engine measures latencies")),
    ("UpdateLV", Always(true, "updates write the long column")),
    ("RetrieveLVOnRead", Always(true, "reads fetch and verify the long column")),
    ("PrereadOnRead", Always(false, "reads fetch single records, without preread")),
    ("PreloadJetCache", Only(0.9, "the cache is warmed to 90 %")),
    ("ScanPercentage", Only(0.0, "reads fetch single records")),
    ("BatchRecords", Only(1.0, "every operation changes one record")),
    ("TransPerSec", Only(0.0, "the rate is not limited")),
    ("ThroughputPercentage", Only(100.0, "the load runs at full speed")),
    ("SluggishSessions", Only(0.0, "threads do not pause between operations")),
    ("LogFileSize", Only(1024.0, "log files are 1 MiB")),
    // Settings of the databases and the load.
    ("LogFilesToReplay", Number("logs", "", ", in the recovery test")),
    ("DatabaseCopyCount", Number("copies", "", ": log reads of the additional copies are simulated")),
    ("ThreadCount", Number("threads", "", ", shared by all databases")),
    ("MarginIops", Number("margin", "", "")),
    ("LongPadLength", Number("records.long_bytes", "", "")),
    ("ShortPadLength", Number("records.short_bytes", "", "")),
    ("DatabaseSpaceReserved", Number("growth_percent", "", "")),
    ("DatabasePageSize", Number("page_size", "", "")),
    ("RunDatabaseMaintenancePerformance", Switch("scan")),
    ("DBMThrottling", Number("scan_pause", "ms", "")),
    ("CircularLog", Switch("circular_log")),
    ("DatabaseSource", Own(database_source)),
    ("DatabaseSizing", Own(database_sizing)),
    ("CapacityPercentage", Own(|reader, node, text| sized(reader.number(node, text), &mut reader.sizing.capacity_percent))),
    ("MailboxCount", Own(|reader, node, text| sized(reader.number(node, text), &mut reader.sizing.mailboxes))),
    ("MailboxQuota", Own(|reader, node, text| sized(reader.number(node, text), &mut reader.sizing.quota_mib))),
    ("MailboxIops", Own(|reader, node, text| sized(reader.number(node, text), &mut reader.sizing.iops_per_mailbox))),
    // Elements without an equivalent.
    ("BinaryPerfLog", No("samples are written to samples.csv")),
    ("RunDatabaseMaintenanceSoftRecovery", No("scans do not run during log replay")),
    ("BackupToDisk", No("--to sets the directory of a backup")),
    ("RestoreBackupPath", No("databases are created or opened, not restored")),
    ("LogFilesToChecksum", No("all logs are verified")),
    ("RetrieveLVOnScan", No("the load does not scan")),
    ("PrereadOnScan", No("the load does not scan")),
    ("MaximumChecksumBuffers", No("verification chooses its own memory and threads")),
    ("MaximumChecksumThreads", No("verification chooses its own memory and threads")),
    ("MaximumLatencyErrors", No("one sample above a maximum fails the run")),
    ("LogInterval2", No("its meaning was never published")),
    ("MaxVerPages", No("the version store has its own limit")),
];

/// Applies an element and returns its effect. Returns `None` after a mistake, or if the element is explained
/// elsewhere.
pub(super) fn fate(reader: &mut Reader<'_>, node: Node<'_, '_>, name: &str, text: &str) -> Option<Fate> {
    let Some((_, meaning)) = ELEMENTS.iter().find(|(known, _)| *known == name) else {
        reader.unknown += 1;
        return (reader.unknown <= LISTED_UNKNOWN).then(|| Ignored("not known".into()));
    };
    let as_always = |same: bool, what: &str| {
        Some(if same { Honoured(what.into()) } else { Ignored(format!("always: {what}")) })
    };
    match *meaning {
        Number(key, unit, remark) => {
            reader.number::<f64>(node, text)?;
            let value = set(&mut reader.options, key, &format!("{text}{unit}"));
            if value.is_none() {
                reader.mistake(node, format!("{name} '{text}' is not a number in its valid range"));
            }
            Some(Honoured(format!("{key} = {}{remark}", value?)))
        }
        Switch(key) => {
            let value = reader.switch(node, text)?.to_string();
            set(&mut reader.options, key, &value).map(|value| Honoured(format!("{key} = {value}")))
        }
        Always(is, what) => as_always(reader.switch(node, text)? == is, what),
        Only(is, what) => as_always((reader.number::<f64>(node, text)? - is).abs() < 1e-9, what),
        No(why) => Some(Ignored(why.into())),
        Own(apply) => apply(reader, node, text),
    }
}

/// Sets the option with this key and returns its value in display form.
fn set(options: &mut Options, key: &str, text: &str) -> Option<String> {
    let name = key.rsplit('.').next()?.replace('_', "-");
    let option = Options::table().find(|option| option.name == name)?;
    option.set(options, OsStr::new(text)).ok()?;
    option.get(options).pop()
}

/// Stores a number that is explained together with others.
fn sized<T>(number: Option<T>, kept: &mut Option<T>) -> Option<Fate> {
    *kept = Some(number?);
    None
}

fn test_type(reader: &mut Reader<'_>, node: Node<'_, '_>, text: &str) -> Option<Fate> {
    match text {
        "Performance" if reader.test == TestKind::Performance => Some(Honoured("a performance test".into())),
        "Stress" if reader.test == TestKind::Stress => Some(Honoured("a stress test".into())),
        "Stress" if reader.test == TestKind::Performance => {
            reader.stress = true;
            Some(Honoured("a performance test with the lenient thresholds".into()))
        }
        "DatabaseBackup" if reader.test == TestKind::Backup => Some(Honoured("a backup test".into())),
        "SoftRecovery" if reader.test == TestKind::Recovery => Some(Honoured("a recovery test".into())),
        "DatabaseBackup" | "SoftRecovery" if reader.test == TestKind::Performance => {
            let what = format!("Type {text} is not a performance test; this command runs only performance tests");
            reader.mistake(node, what);
            None
        }
        "Performance" | "Stress" | "DatabaseBackup" | "SoftRecovery" => {
            Some(Ignored(format!("this command runs a {} test", reader.test.name())))
        }
        _ => {
            reader.mistake(node, format!("unknown Type '{text}'; use Performance or Stress"));
            None
        }
    }
}

fn description(reader: &mut Reader<'_>, _: Node<'_, '_>, text: &str) -> Option<Fate> {
    reader.options.description = Some(text.to_string());
    Some(Honoured("description of the run".into()))
}

fn duration(reader: &mut Reader<'_>, node: Node<'_, '_>, text: &str) -> Option<Fate> {
    let Some(duration) = iso_duration(text) else {
        reader.mistake(node, format!("Duration '{text}' is not understood; write for example PT2H0M0S"));
        return None;
    };
    let span = TimeSpan(duration);
    reader.options.duration = Some(span);
    Some(Honoured(format!("duration = {span}")))
}

fn output_path(reader: &mut Reader<'_>, _: Node<'_, '_>, text: &str) -> Option<Fate> {
    if is_windows_path(text) || text == "." {
        let why = "not a directory of this system: results are written to Performance_<time>, or to --output";
        return Some(Ignored(why.into()));
    }
    reader.options.output = Some(PathBuf::from(text));
    Some(Honoured("directory for the results".into()))
}

fn database_source(reader: &mut Reader<'_>, node: Node<'_, '_>, text: &str) -> Option<Fate> {
    let open = text == "Open";
    if !open && text != "New" {
        reader.mistake(node, format!("unknown DatabaseSource '{text}'; use New or Open"));
        return None;
    }
    reader.options.open = Some(open);
    Some(Honoured(format!("open = {open}")))
}

fn database_sizing(reader: &mut Reader<'_>, _: Node<'_, '_>, text: &str) -> Option<Fate> {
    reader.sizing.by_capacity = text != "Profile";
    Some(Honoured(match reader.sizing.by_capacity {
        true => "for any value except Profile, CapacityPercentage determines the size of the databases".into(),
        false => "the mailboxes determine the size of the databases".into(),
    }))
}
