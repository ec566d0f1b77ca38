//! Elements that contain only text, and the table of their meanings.

use std::ffi::OsStr;
use std::path::PathBuf;

use roxmltree::Node;

use super::duration::iso_duration;
use super::is_windows_path;
use super::reader::ElementEffect::{Honoured, Ignored};
use super::reader::{ElementEffect, JetstressReader};
use crate::profile::TestKind;
use crate::profile::options::Options;
use crate::units::TimeSpan;

/// Maximum number of unknown elements that are listed individually.
pub(super) const LISTED_UNKNOWN: usize = 20;

/// Meaning of an element.
enum ElementMeaning {
    /// A number that sets a configuration key. The fields are the key, the unit and a remark.
    Number(&'static str, &'static str, &'static str),
    /// A boolean that sets this configuration key.
    Switch(&'static str),
    /// A boolean that must have this value, because every run behaves this way.
    FixedSwitch(bool, &'static str),
    /// A number that must have this value, because every run behaves this way.
    FixedNumber(f64, &'static str),
    /// An element without effect. The field contains the reason.
    NoEffect(&'static str),
    /// An element with rules of its own. The function returns `None` after a mistake, or if the number is explained
    /// together with others.
    Custom(fn(&mut JetstressReader<'_>, Node<'_, '_>, &str) -> Option<ElementEffect>),
}

use ElementMeaning::{Custom, FixedNumber, FixedSwitch, NoEffect, Number, Switch};

#[rustfmt::skip]
const ELEMENTS: &[(&str, ElementMeaning)] = &[
    // Settings of the test.
    ("Type", Custom(test_type)),
    ("Description", Custom(description)),
    ("Duration", Custom(duration)),
    ("OutputPath", Custom(output_path)),
    ("LogInterval", Number("sample_interval", "ms", "")),
    ("BatchUpdates", Number("batch_updates", "", "")),
    ("Bulky1Percentage", Number("records.long_percent", "", "")),
    // Behavior common to all runs.
    ("MultiHostBreak", FixedSwitch(false, "the run does not wait for other hosts")),
    ("VerifyChecksum", FixedSwitch(true, "every page and log is verified after the load")),
    ("ContinueOnErrors", FixedSwitch(false, "an I/O error ends the load")),
    ("SuppressTuning", FixedSwitch(true, "the threads and the mix are used as given")),
    ("UseEseCounters", FixedSwitch(true, "the engine measures latencies")),
    ("UpdateLV", FixedSwitch(true, "updates write the long column")),
    ("RetrieveLVOnRead", FixedSwitch(true, "reads fetch and verify the long column")),
    ("PrereadOnRead", FixedSwitch(false, "reads fetch single records, without preread")),
    ("PreloadJetCache", FixedNumber(0.9, "the cache is warmed to 90 %")),
    ("ScanPercentage", FixedNumber(0.0, "reads fetch single records")),
    ("BatchRecords", FixedNumber(1.0, "every operation accesses one record")),
    ("TransPerSec", FixedNumber(0.0, "the rate is not limited")),
    ("ThroughputPercentage", FixedNumber(100.0, "the load runs at full speed")),
    ("SluggishSessions", FixedNumber(0.0, "threads do not pause between operations")),
    ("LogFileSize", FixedNumber(1024.0, "log files are 1 MiB")),
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
    ("DatabaseSource", Custom(database_source)),
    ("DatabaseSizing", Custom(database_sizing)),
    ("CapacityPercentage", Custom(|reader, node, text| sized(reader.number(node, text), &mut reader.sizing.capacity_percent))),
    ("MailboxCount", Custom(|reader, node, text| sized(reader.number(node, text), &mut reader.sizing.mailboxes))),
    ("MailboxQuota", Custom(|reader, node, text| sized(reader.number(node, text), &mut reader.sizing.quota_mib))),
    ("MailboxIops", Custom(|reader, node, text| sized(reader.number(node, text), &mut reader.sizing.iops_per_mailbox))),
    // Elements without an equivalent.
    ("BinaryPerfLog", NoEffect("samples are written to samples.csv")),
    ("RunDatabaseMaintenanceSoftRecovery", NoEffect("scans do not run during log replay")),
    ("BackupToDisk", NoEffect("--to sets the directory of a backup")),
    ("RestoreBackupPath", NoEffect("databases are created or opened, not restored")),
    ("LogFilesToChecksum", NoEffect("all logs are verified")),
    ("RetrieveLVOnScan", NoEffect("the load does not scan")),
    ("PrereadOnScan", NoEffect("the load does not scan")),
    ("MaximumChecksumBuffers", NoEffect("verification chooses its own memory and threads")),
    ("MaximumChecksumThreads", NoEffect("verification chooses its own memory and threads")),
    ("MaximumLatencyErrors", NoEffect("one sample above a maximum fails the run")),
    ("LogInterval2", NoEffect("its meaning was never published")),
    ("MaxVerPages", NoEffect("the version store has its own limit")),
];

/// Applies an element and returns its effect. Returns `None` after a mistake, or if the element is explained
/// elsewhere.
pub(super) fn apply_element(
    reader: &mut JetstressReader<'_>,
    node: Node<'_, '_>,
    name: &str,
    text: &str,
) -> Option<ElementEffect> {
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
        FixedSwitch(is, what) => as_always(reader.switch(node, text)? == is, what),
        FixedNumber(is, what) => as_always((reader.number::<f64>(node, text)? - is).abs() < 1e-9, what),
        NoEffect(why) => Some(Ignored(why.into())),
        Custom(apply) => apply(reader, node, text),
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
fn sized<T>(number: Option<T>, kept: &mut Option<T>) -> Option<ElementEffect> {
    *kept = Some(number?);
    None
}

fn test_type(reader: &mut JetstressReader<'_>, node: Node<'_, '_>, text: &str) -> Option<ElementEffect> {
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
            let what = format!("Type {text} is not a performance test");
            reader.advised_mistake(node, &what, "this command runs only performance tests");
            None
        }
        "Performance" | "Stress" | "DatabaseBackup" | "SoftRecovery" => {
            Some(Ignored(format!("this command runs a {} test", reader.test.name())))
        }
        _ => {
            reader.advised_mistake(node, &format!("unknown Type '{text}'"), "use Performance or Stress");
            None
        }
    }
}

fn description(reader: &mut JetstressReader<'_>, _: Node<'_, '_>, text: &str) -> Option<ElementEffect> {
    reader.options.description = Some(text.to_string());
    Some(Honoured("description of the run".into()))
}

fn duration(reader: &mut JetstressReader<'_>, node: Node<'_, '_>, text: &str) -> Option<ElementEffect> {
    let Some(duration) = iso_duration(text) else {
        let what = format!("could not parse Duration '{text}'");
        reader.advised_mistake(node, &what, "try a value such as PT2H0M0S");
        return None;
    };
    let span = TimeSpan(duration);
    reader.options.duration = Some(span);
    Some(Honoured(format!("duration = {span}")))
}

fn output_path(reader: &mut JetstressReader<'_>, _: Node<'_, '_>, text: &str) -> Option<ElementEffect> {
    if is_windows_path(text) || text == "." {
        let why = "not a directory of this system: results are written to Performance_<time>, or to --output";
        return Some(Ignored(why.into()));
    }
    reader.options.output = Some(PathBuf::from(text));
    Some(Honoured("directory for the results".into()))
}

fn database_source(
    reader: &mut JetstressReader<'_>,
    node: Node<'_, '_>,
    text: &str,
) -> Option<ElementEffect> {
    let open = text == "Open";
    if !open && text != "New" {
        reader.advised_mistake(node, &format!("unknown DatabaseSource '{text}'"), "use New or Open");
        return None;
    }
    reader.options.open = Some(open);
    Some(Honoured(format!("open = {open}")))
}

fn database_sizing(reader: &mut JetstressReader<'_>, _: Node<'_, '_>, text: &str) -> Option<ElementEffect> {
    reader.sizing.by_capacity = text != "Profile";
    Some(Honoured(if reader.sizing.by_capacity {
        "for any value except Profile, CapacityPercentage determines the size of the databases".into()
    } else {
        "the mailboxes determine the size of the databases".into()
    }))
}
