//! `JetstressConfig.xml` of Microsoft's Jetstress: to options, with a note on every element.
//!
//! Nothing in a file is passed over in silence: what has an effect is honoured, what has none is ignored with the
//! reason, and what would make it another test is a mistake. Elements whose meaning was never published are
//! ignored. What only confirms how every run works (such as `VerifyChecksum` true) counts as honoured.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use roxmltree::{Document, Node, ParsingOptions};

use super::{Configuration, Mistake, Mix, Options, STRESS_FROM, ThresholdOptions};
use crate::units::{ByteSize, DatabaseSize, TimeSpan};

/// A file of Jetstress has about a hundred elements, and six for each further database.
const MOST_NODES: u32 = 50_000;

/// A tag of Jetstress has about a hundred bytes. Attributes are compared with each other, so there may not be many.
const LONGEST_TAG: usize = 4096;

/// Characters of an element and its value in a note.
const LONGEST_ELEMENT: usize = 44;

/// Unknown elements that are listed one by one.
const MOST_STRANGERS: usize = 20;

/// Whether a text is XML rather than TOML, in which nothing begins like this.
pub(super) fn is_xml(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

/// Reads a configuration; `given` are the options that win over it.
pub(super) fn parse(text: &str, given: &Options) -> Result<Configuration, Vec<Mistake>> {
    let tag_length = |after: &str| after.find('>').unwrap_or(after.len());
    if text.split('<').any(|after| tag_length(after) > LONGEST_TAG) {
        return Err(vec![Mistake::new(
            "line 1: is not a JetstressConfig.xml: it has a tag of more than 4096 bytes",
        )]);
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let line = error.pos().row;
        vec![Mistake::new(format!("line {line}: is not a JetstressConfig.xml: {error}"))]
    })?;
    let root = document.root_element();
    let sections = ["TestDesignInfo", "ExchangeProfile", "JetSystemParams"];
    let has_section = |name: &&str| root.children().any(|node| node.has_tag_name(*name));
    if root.tag_name().name() != "configuration" || !sections.iter().any(has_section) {
        let name = root.tag_name().name();
        return Err(vec![Mistake::new(format!(
            "line 1: <{name}> is not the beginning of a JetstressConfig.xml"
        ))]);
    }
    let mut reader = Reader::new(&document, given);
    for node in root.children().filter(Node::is_element) {
        match node.tag_name().name() {
            "TestDesignInfo" | "ExchangeProfile" | "JetSystemParams" => {
                node.children().filter(Node::is_element).for_each(|node| reader.element(node));
            }
            "JetstressVersionGenerated" => reader.version = shown(node),
            "EseVersionGenerated" => {}
            _ => reader.strangers += 1,
        }
    }
    reader.finish()
}

/// Text of an element, fit for one line.
fn shown(node: Node<'_, '_>) -> String {
    Mistake::new(node.text().unwrap_or("").trim()).to_string()
}

/// What becomes of an element.
enum Fate {
    /// It has this effect.
    Honoured(String),
    /// It has none, for this reason.
    Ignored(String),
}

use Fate::{Honoured, Ignored};

struct Note {
    element: String,
    fate: Fate,
}

/// Figures that only together make sizes and a target.
#[derive(Default)]
struct Sizing {
    by_capacity: bool,
    capacity_percent: Option<u8>,
    mailboxes: Option<u64>,
    quota_mib: Option<u64>,
    iops_per_mailbox: Option<f64>,
}

/// One set of limits; Jetstress has a strict and a lenient one.
#[derive(Default)]
struct ThresholdSet {
    name: String,
    for_stress: bool,
    limits: ThresholdOptions,
}

struct Reader<'a> {
    document: &'a Document<'a>,
    given: &'a Options,
    options: Options,
    notes: Vec<Note>,
    mistakes: Vec<Mistake>,
    seen: BTreeSet<String>,
    strangers: usize,
    version: String,
    stress: bool,
    sizing: Sizing,
    thresholds: Vec<ThresholdSet>,
    database_paths: Vec<String>,
    log_paths: Vec<String>,
    instances_line: u32,
}

impl<'a> Reader<'a> {
    fn new(document: &'a Document<'a>, given: &'a Options) -> Reader<'a> {
        Reader {
            document,
            given,
            options: Options::default(),
            notes: Vec::new(),
            mistakes: Vec::new(),
            seen: BTreeSet::new(),
            strangers: 0,
            version: String::new(),
            stress: false,
            sizing: Sizing::default(),
            thresholds: Vec::new(),
            database_paths: Vec::new(),
            log_paths: Vec::new(),
            instances_line: 1,
        }
    }

    fn line(&self, node: Node<'_, '_>) -> u32 {
        self.document.text_pos_at(node.range().start).row
    }

    fn mistake(&mut self, node: Node<'_, '_>, what: impl AsRef<str>) {
        let line = self.line(node);
        self.mistakes.push(Mistake::new(format!("line {line}: {}", what.as_ref())));
    }

    fn note(&mut self, element: impl Into<String>, fate: Fate) {
        self.notes.push(Note { element: element.into(), fate });
    }

    /// A number, or a mistake.
    fn number<T: FromStr>(&mut self, node: Node<'_, '_>, name: &str, text: &str) -> Option<T> {
        let parsed = text.trim().parse().ok();
        if parsed.is_none() {
            self.mistake(node, format!("{name} '{}' is not a number in its range", text.trim()));
        }
        parsed
    }

    /// `true` or `false`, or a mistake.
    fn switch(&mut self, node: Node<'_, '_>, name: &str, text: &str) -> Option<bool> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => {
                self.mistake(node, format!("{name} '{}' is neither true nor false", text.trim()));
                None
            }
        }
    }

    fn element(&mut self, node: Node<'_, '_>) {
        let name = node.tag_name().name();
        match name {
            "Thresholds" => return self.threshold_set(node),
            "OperationMix" => return self.operation_mix(node),
            "EseInstances" => return self.instances(node),
            _ => {}
        }
        if !self.seen.insert(name.to_string()) {
            return self.mistake(node, format!("{name} is given twice"));
        }
        let text = shown(node);
        if text.is_empty() {
            return;
        }
        // Without a fate it is either a mistake, or a figure that is told together with others.
        if let Some(fate) = self.leaf(node, name, &text) {
            self.note(format!("{name} {text}"), fate);
        }
    }

    /// An element with nothing but a text in it.
    fn leaf(&mut self, node: Node<'_, '_>, name: &str, text: &str) -> Option<Fate> {
        let honoured = |what: &str| Some(Honoured(what.into()));
        let ignored = |why: &str| Some(Ignored(why.into()));
        match name {
            // The test.
            "Type" => match text {
                "Performance" => honoured("a performance test"),
                "Stress" => {
                    self.stress = true;
                    honoured("a performance test with the lenient thresholds")
                }
                "DatabaseBackup" | "SoftRecovery" => {
                    self.mistake(
                        node,
                        format!("Type {text} is not a performance test, which this command runs"),
                    );
                    None
                }
                _ => {
                    self.mistake(node, format!("Type '{text}' is not known: use Performance or Stress"));
                    None
                }
            },
            "Description" => {
                self.options.description = Some(text.to_string());
                honoured("description of the run")
            }
            "Duration" => match iso_duration(text) {
                Some(duration) => {
                    let span = TimeSpan(duration);
                    self.options.duration = Some(span);
                    Some(Honoured(format!("duration = {span}")))
                }
                None => {
                    self.mistake(
                        node,
                        format!("Duration '{text}' is not understood: write for example PT2H0M0S"),
                    );
                    None
                }
            },
            "LogInterval" => {
                let span = TimeSpan(Duration::from_millis(self.number(node, name, text)?));
                self.options.sample_interval = Some(span);
                Some(Honoured(format!("sample_interval = {span}")))
            }
            "BatchUpdates" => {
                let updates: u32 = self.number(node, name, text)?;
                self.options.batch_updates = Some(updates);
                Some(Honoured(format!("batch_updates = {updates}")))
            }
            "Bulky1Percentage" => {
                let percent: u8 = self.number(node, name, text)?;
                self.options.records.long_percent = Some(percent);
                Some(Honoured(format!("records.long_percent = {percent}")))
            }
            "OutputPath" => match is_windows_path(text) || text == "." {
                true => {
                    ignored("not a directory of this system: results go to Performance_<time>, or --output")
                }
                false => {
                    self.options.output = Some(PathBuf::from(text));
                    honoured("directory for the results")
                }
            },

            // What is so in every run.
            "MultiHostBreak" => self.always(node, name, text, false, "the run waits for no other host"),
            "VerifyChecksum" => {
                self.always(node, name, text, true, "every page and log is verified after the load")
            }
            "ContinueOnErrors" => self.always(node, name, text, false, "an I/O error ends the load"),
            "SuppressTuning" => self.always(node, name, text, true, "threads and mix are used as given"),
            "UseEseCounters" => self.always(node, name, text, true, "latencies are those of the engine"),
            "UpdateLV" => self.always(node, name, text, true, "updates write the long column"),
            "RetrieveLVOnRead" => {
                self.always(node, name, text, true, "reads fetch and verify the long column")
            }
            "PrereadOnRead" => {
                self.always(node, name, text, false, "reads are of single records, without preread")
            }
            "PreloadJetCache" => match self.number::<f64>(node, name, text)? {
                share if (share - 0.9).abs() < 1e-9 => honoured("the cache is warmed to 90 %"),
                _ => ignored("the cache is always warmed to 90 %"),
            },
            "ScanPercentage" => self.only(node, name, text, 0, "reads are of single records"),
            "BatchRecords" => self.only(node, name, text, 1, "every operation is on one record"),
            "TransPerSec" => self.only(node, name, text, 0, "no rate limit"),
            "ThroughputPercentage" => self.only(node, name, text, 100, "the load runs at full speed"),
            "SluggishSessions" => self.only(node, name, text, 0, "threads do not pause between operations"),
            "DatabaseCopyCount" => {
                self.only(node, name, text, 1, "log reads for further copies are not simulated")
            }
            "LogFileSize" => self.only(node, name, text, 1024, "log files are 1 MiB"),

            // Databases and load.
            "ThreadCount" => {
                let threads: usize = self.number(node, name, text)?;
                self.options.threads = Some(threads);
                Some(Honoured(format!("threads = {threads}, for all databases together")))
            }
            "DatabaseSource" => match text {
                "New" | "Open" => {
                    self.options.open = Some(text == "Open");
                    Some(Honoured(format!("open = {}", text == "Open")))
                }
                _ => {
                    self.mistake(node, format!("DatabaseSource '{text}' is not known: use New or Open"));
                    None
                }
            },
            "DatabaseSizing" => {
                self.sizing.by_capacity = text != "Profile";
                match self.sizing.by_capacity {
                    true => honoured("anything but Profile: databases are sized by CapacityPercentage"),
                    false => honoured("databases are sized by mailboxes"),
                }
            }
            "CapacityPercentage" => {
                self.sizing.capacity_percent = Some(self.number(node, name, text)?);
                None
            }
            "MailboxCount" => {
                self.sizing.mailboxes = Some(self.number(node, name, text)?);
                None
            }
            "MailboxQuota" => {
                self.sizing.quota_mib = Some(self.number(node, name, text)?);
                None
            }
            "MailboxIops" => {
                self.sizing.iops_per_mailbox = Some(self.number(node, name, text)?);
                None
            }
            "MarginIops" => {
                let margin: f64 = self.number(node, name, text)?;
                self.options.margin = Some(margin);
                Some(Honoured(format!("margin = {margin}")))
            }
            "LongPadLength" => {
                let bytes: u32 = self.number(node, name, text)?;
                self.options.records.long_bytes = Some(bytes);
                Some(Honoured(format!("records.long_bytes = {bytes}")))
            }
            "ShortPadLength" => {
                let bytes: u32 = self.number(node, name, text)?;
                self.options.records.short_bytes = Some(bytes);
                Some(Honoured(format!("records.short_bytes = {bytes}")))
            }
            "DatabaseSpaceReserved" => {
                let percent: u32 = self.number(node, name, text)?;
                self.options.growth_percent = Some(percent);
                Some(Honoured(format!("growth_percent = {percent}")))
            }
            "DatabasePageSize" => {
                let size = ByteSize(self.number(node, name, text)?);
                self.options.page_size = Some(size);
                Some(Honoured(format!("page_size = {size}")))
            }
            "RunDatabaseMaintenancePerformance" => {
                let scan = self.switch(node, name, text)?;
                self.options.scan = Some(scan);
                Some(Honoured(format!("scan = {scan}")))
            }
            "DBMThrottling" => {
                let pause = TimeSpan(Duration::from_millis(self.number(node, name, text)?));
                self.options.scan_pause = Some(pause);
                Some(Honoured(format!("scan_pause = {pause}")))
            }
            "CircularLog" => {
                let circular = self.switch(node, name, text)?;
                self.options.circular_log = Some(circular);
                Some(Honoured(format!("circular_log = {circular}")))
            }

            // What has no counterpart.
            "BinaryPerfLog" => ignored("samples are written to samples.csv"),
            "RunDatabaseMaintenanceSoftRecovery" | "LogFilesToReplay" => {
                ignored("belongs to the recovery test")
            }
            "BackupToDisk" => ignored("belongs to the backup test"),
            "RestoreBackupPath" => ignored("databases are created or opened, not restored"),
            "LogFilesToChecksum" => ignored("all logs are verified"),
            "RetrieveLVOnScan" | "PrereadOnScan" => ignored("there are no scans"),
            "MaximumChecksumBuffers" | "MaximumChecksumThreads" => {
                ignored("verification chooses its own memory and threads")
            }
            "MaximumLatencyErrors" => ignored("one sample above a maximum fails the run"),
            "LogInterval2" => ignored("what it controls was never published"),
            "MaxVerPages" => ignored("the version store has a limit of its own"),
            _ => {
                self.strangers += 1;
                match self.strangers <= MOST_STRANGERS {
                    true => ignored("not known"),
                    false => None,
                }
            }
        }
    }

    /// A switch that only has one position here.
    fn always(&mut self, node: Node<'_, '_>, name: &str, text: &str, is: bool, what: &str) -> Option<Fate> {
        let same = self.switch(node, name, text)? == is;
        Some(if same { Honoured(what.into()) } else { Ignored(format!("always: {what}")) })
    }

    /// A figure that only has one value here.
    fn only(&mut self, node: Node<'_, '_>, name: &str, text: &str, is: u64, what: &str) -> Option<Fate> {
        let same = self.number::<f64>(node, name, text)? == is as f64;
        Some(if same { Honoured(what.into()) } else { Ignored(format!("always: {what}")) })
    }

    fn operation_mix(&mut self, node: Node<'_, '_>) {
        if !self.seen.insert("OperationMix".into()) {
            return self.mistake(node, "OperationMix is given twice");
        }
        let mut share = |name: &str| match node.attribute(name) {
            Some(text) => self.number::<u8>(node, name, text),
            None => {
                self.mistake(node, format!("OperationMix has no {name}"));
                None
            }
        };
        let shares = (share("InsertOps"), share("DeleteOps"), share("ReplaceOps"), share("LazyCommits"));
        let (Some(insert), Some(delete), Some(replace), Some(lazy)) = shares else { return };
        let changes = u32::from(insert) + u32::from(delete) + u32::from(replace);
        if changes > 100 {
            return self
                .mistake(node, format!("OperationMix: the shares are {changes} percent: at most 100 go"));
        }
        let read = 100 - changes as u8;
        self.options.mix = Some(Mix { insert, delete, replace, read });
        self.options.lazy_percent = Some(lazy);
        let what = format!(
            "mix = {insert}/{delete}/{replace}/{read}, lazy_percent = {lazy}; tuning never alters it"
        );
        self.note("OperationMix", Honoured(what));
    }

    fn threshold_set(&mut self, node: Node<'_, '_>) {
        let name = node.attribute("Name").unwrap_or("without a name").to_string();
        let for_stress = node
            .attribute("TestRunTypes")
            .is_some_and(|types| types.split([',', ' ']).any(|kind| kind == "Stress"));
        let mut set = ThresholdSet { name, for_stress, limits: ThresholdOptions::default() };
        for child in node.children().filter(Node::is_element) {
            let (name, text) = (child.tag_name().name(), shown(child));
            let limit = match name {
                "AverageDatabaseReadLatency" => &mut set.limits.average_database_read_ms,
                "MaximumDatabaseReadLatency" => &mut set.limits.maximum_database_read_ms,
                "AverageLogWriteLatency" => &mut set.limits.average_log_write_ms,
                "MaximumLogWriteLatency" => &mut set.limits.maximum_log_write_ms,
                _ => {
                    self.strangers += 1;
                    continue;
                }
            };
            *limit = self.number(child, name, &text);
        }
        self.thresholds.push(set);
    }

    fn instances(&mut self, node: Node<'_, '_>) {
        if !self.seen.insert("EseInstances".into()) {
            return self.mistake(node, "EseInstances is given twice");
        }
        self.instances_line = self.line(node);
        let mut biased = false;
        for instance in node.children().filter(|child| child.has_tag_name("EseInstance")) {
            biased |= instance.attribute("IopsBias").is_some_and(|bias| bias.trim().parse() != Ok(1.0));
            let text_of =
                |name: &str| instance.descendants().find(|inner| inner.has_tag_name(name)).map(shown);
            let paths: Vec<String> = instance
                .descendants()
                .filter(|inner| inner.has_tag_name("Path"))
                .map(shown)
                .filter(|path| !path.is_empty())
                .collect();
            let log = text_of("LogPath").filter(|path| !path.is_empty());
            for path in paths {
                self.log_paths.push(log.clone().unwrap_or_else(|| path.clone()));
                self.database_paths.push(path);
            }
        }
        if biased {
            self.note("IopsBias", Ignored("the load is spread evenly over the databases".into()));
        }
    }

    fn finish(mut self) -> Result<Configuration, Vec<Mistake>> {
        self.place_databases();
        self.size_databases();
        self.choose_thresholds();
        if self.strangers > MOST_STRANGERS {
            let more = self.strangers - MOST_STRANGERS;
            self.note(format!("{more} more"), Ignored("not known".into()));
        }
        if !self.mistakes.is_empty() {
            return Err(self.mistakes);
        }
        let mut notes =
            vec![format!("Configuration of Jetstress {}; the command line wins over it", self.version)];
        // A description may be long; the first words of it are enough here.
        for note in &mut self.notes {
            if note.element.chars().count() > LONGEST_ELEMENT {
                note.element = note.element.chars().take(LONGEST_ELEMENT - 1).chain(['…']).collect();
            }
        }
        let width = self.notes.iter().map(|note| note.element.chars().count()).max().unwrap_or(0);
        for Note { element, fate } in &self.notes {
            notes.push(match fate {
                Honoured(what) => format!("  honoured  {element:width$}  {what}"),
                Ignored(why) => format!("  ignored   {element:width$}  {why}"),
            });
        }
        Ok(Configuration { options: self.options, notes })
    }

    fn place_databases(&mut self) {
        let count = self.database_paths.len();
        if count == 0 {
            return;
        }
        self.options.databases = Some(count);
        let databases = Honoured(format!("databases = {count}"));
        self.note("EseInstances", databases);
        let (databases, logs) =
            (std::mem::take(&mut self.database_paths), std::mem::take(&mut self.log_paths));
        let foreign = |paths: &[String]| paths.iter().find(|path| is_windows_path(path)).cloned();
        if !self.given.dirs.is_empty() {
            self.note("DatabasePaths", Ignored("--dir is given".into()));
        } else if let Some(path) = foreign(&databases) {
            let line = self.instances_line;
            self.mistakes.push(Mistake::new(format!(
                "line {line}: {path} is a directory of Windows: say with --dir (and --log-dir) where the {count} databases go"
            )));
        } else {
            self.note("DatabasePaths", Honoured("dirs".into()));
            self.options.dirs = databases.iter().map(PathBuf::from).collect();
        }
        if !self.given.log_dirs.is_empty() {
            self.note("LogPath", Ignored("--log-dir is given".into()));
        } else if logs == databases {
            self.note("LogPath", Honoured("logs go where the databases are".into()));
        } else if foreign(&logs).is_some() {
            self.note(
                "LogPath",
                Ignored("directories of Windows: logs go where the databases are, or --log-dir".into()),
            );
        } else {
            self.note("LogPath", Honoured("log_dirs".into()));
            self.options.log_dirs = logs.iter().map(PathBuf::from).collect();
        }
    }

    /// Jetstress's rules: a share of the volume, or mailboxes times quota, of which the growth is taken off.
    fn size_databases(&mut self) {
        let Sizing { by_capacity, capacity_percent, mailboxes, quota_mib, iops_per_mailbox } =
            std::mem::take(&mut self.sizing);
        if by_capacity {
            if let Some(percent) = capacity_percent {
                self.options.size = Some(DatabaseSize::VolumePercent(percent.clamp(1, 100)));
                self.note(format!("CapacityPercentage {percent}"), Honoured(format!("size = {percent}%")));
            }
            if mailboxes.or(quota_mib).is_some() || iops_per_mailbox.is_some() {
                let why = "databases are not sized by mailboxes, so there is no target".to_string();
                self.note("MailboxCount, MailboxQuota, MailboxIops", Ignored(why));
            }
            return;
        }
        if let Some(percent) = capacity_percent {
            let why = "databases are sized by mailboxes".to_string();
            self.note(format!("CapacityPercentage {percent}"), Ignored(why));
        }
        if let (Some(mailboxes), Some(quota)) = (mailboxes, quota_mib) {
            let databases = self.given.databases.or(self.options.databases).unwrap_or(1).max(1) as u128;
            let growth = u128::from(self.options.growth_percent.unwrap_or(0)) + 100;
            let mib = u128::from(mailboxes) * u128::from(quota) * 100 / growth / databases;
            // Out of range is out of range: resolving refuses it with a line.
            let size = ByteSize(u64::try_from(mib << 20).unwrap_or(u64::MAX));
            self.options.size = Some(size.into());
            let what = format!(
                "size = {size}: mailboxes x quota / {}, over {databases} databases",
                growth as f64 / 100.0
            );
            self.note(format!("MailboxCount {mailboxes}, MailboxQuota {quota}"), Honoured(what));
        }
        if let (Some(mailboxes), Some(iops)) = (mailboxes, iops_per_mailbox) {
            let target = mailboxes as f64 * iops;
            if target > 0.0 {
                self.options.target_iops = Some(target);
                self.note(format!("MailboxIops {iops}"), Honoured(format!("target_iops = {target}")));
            }
        }
    }

    /// The lenient set is for runs that are stress tests by their type or their length.
    fn choose_thresholds(&mut self) {
        let duration = self.given.duration.or(self.options.duration);
        let stress = self.stress || duration.is_some_and(|duration| duration.0 > STRESS_FROM);
        let sets = std::mem::take(&mut self.thresholds);
        let chosen = sets.iter().position(|set| set.for_stress == stress).or((!sets.is_empty()).then_some(0));
        for (number, set) in sets.into_iter().enumerate() {
            let element = format!("Thresholds {}", Mistake::new(set.name));
            if Some(number) == chosen {
                let l = &set.limits;
                let limit = |limit: Option<f64>| limit.map_or("default".into(), |ms| ms.to_string());
                let what = format!(
                    "ms: database read average {}, maximum {}; log write average {}, maximum {}",
                    limit(l.average_database_read_ms),
                    limit(l.maximum_database_read_ms),
                    limit(l.average_log_write_ms),
                    limit(l.maximum_log_write_ms)
                );
                self.options.thresholds = set.limits;
                self.note(element, Honoured(what));
            } else {
                let kind = if stress {
                    "beyond 6 h or of type Stress"
                } else {
                    "neither beyond 6 h nor of type Stress"
                };
                self.note(element, Ignored(format!("the run is {kind}")));
            }
        }
    }
}

fn is_windows_path(path: &str) -> bool {
    path.contains('\\') || path.as_bytes().get(1) == Some(&b':')
}

/// `P0Y0M0DT2H0M0S` as Jetstress writes it, or with parts left out. Years and months have no fixed length.
fn iso_duration(text: &str) -> Option<Duration> {
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((days, time)) => (days, time),
        None => (text.strip_prefix('P')?, ""),
    };
    let mut seconds = 0.0;
    for (part, units) in [
        (days, [('Y', f64::NAN), ('M', f64::NAN), ('D', 86_400.0)]),
        (time, [('H', 3600.0), ('M', 60.0), ('S', 1.0)]),
    ] {
        let mut rest = part;
        while !rest.is_empty() {
            let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let value: f64 = rest[..end].parse().ok()?;
            let unit = rest[end..].chars().next()?;
            let factor = units.iter().find(|(name, _)| *name == unit)?.1;
            if value != 0.0 {
                seconds += value * factor;
            }
            rest = &rest[end + 1..];
        }
    }
    (text.len() > 2 && seconds.is_finite() && (0.0..1e9).contains(&seconds))
        .then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests;
