//! Dump of any file's header, field by field, whether or not it is damaged.

use std::fmt;
use std::path::PathBuf;

use ese_format::checkpoint::{CHECKPOINT_LEN, Checkpoint};
use ese_format::checksum::{header_checksum, u32_at};
use ese_format::fields::Fields;
use ese_format::flush_map::{FLUSH_MAP_PAGE_LEN, FlushMapHeader};
use ese_format::header::{DatabaseHeader, NEWEST_DATABASE_UPDATE};
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use jetcell_input::Printable;
use serde::Serialize;

use crate::output::{DumpOutput, DumpProblem};
use crate::values::NamedValues;
use crate::{DumpSource, DumpedValue, EseFileKind, FileContent, Result, UnusableReason};

/// File type of a temporary database, at byte 667 of its header.
pub(crate) const FILE_TYPE_TEMPORARY: u64 = 5;
/// State of a database that was just created. A temporary database keeps this state.
pub(crate) const STATE_JUST_CREATED: u64 = 1;
const PAGE_SIZE_OFFSET: usize = 236;
const PAGE_SIZES: [usize; 5] = [2048, 4096, 8192, 16384, 32768];

/// A dumped file header, with its checksums and a summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "header")]
pub struct HeaderDump {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Format of the file.
    #[serde(serialize_with = "format_name")]
    pub format: EseFileKind,
    /// Size of the file in bytes.
    pub size: u64,
    /// Checksum state of the copy that is shown.
    pub checksum: ChecksumState,
    /// State of the second header copy, for formats that have one.
    pub shadow: Option<ShadowState>,
    /// Human-readable summary of the fields.
    pub notes: Vec<String>,
    /// All fields of the header.
    pub fields: NamedValues,
}

fn format_name<S: serde::Serializer>(
    format: &EseFileKind,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(format.name())
}

/// The stored and computed checksums of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChecksumState {
    /// Checksum that is stored in the header.
    pub stored: u32,
    /// Checksum that was computed from the contents.
    pub computed: u32,
    /// Whether the two checksums are equal.
    pub good: bool,
}

/// State of a header's second copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShadowState {
    /// Whether the checksum of the copy matches.
    pub good: bool,
    /// Whether the fields shown are from this copy, because the first copy is damaged.
    pub shown: bool,
    /// Names of the fields that differ between the two copies.
    pub differs: Vec<String>,
}

/// Layout of one format's headers.
struct HeaderLayout {
    len: usize,
    fields: fn(&[u8]) -> Option<Fields>,
    has_shadow: bool,
}

fn header_layout(format: EseFileKind, start: &[u8]) -> Option<HeaderLayout> {
    Some(match format {
        EseFileKind::Database => {
            HeaderLayout { len: page_size(start), fields: DatabaseHeader::fields, has_shadow: true }
        }
        EseFileKind::Log => HeaderLayout { len: SEGMENT_BYTES, fields: LogHeader::fields, has_shadow: false },
        EseFileKind::Checkpoint => {
            HeaderLayout { len: CHECKPOINT_LEN, fields: Checkpoint::fields, has_shadow: true }
        }
        EseFileKind::FlushMap => {
            HeaderLayout { len: FLUSH_MAP_PAGE_LEN, fields: FlushMapHeader::fields, has_shadow: false }
        }
        EseFileKind::Unknown => return None,
    })
}

/// Returns the page size with which the checksum of one of the copies matches. If neither copy matches with any size,
/// returns the size stored in the first copy. That size defaults to 4 KiB if it is invalid, as in very old files.
fn page_size(start: &[u8]) -> usize {
    let good =
        |at: usize, size: usize| at.checked_add(size).is_some_and(|end| checksum_at(start, at, end).good);
    let stored = u32_at(start, PAGE_SIZE_OFFSET).and_then(|size| usize::try_from(size).ok());
    let stored = stored.filter(|size| PAGE_SIZES.contains(size)).unwrap_or(4096);
    let matches = |size: &usize| good(0, *size) || good(*size, *size);
    if matches(&stored) { stored } else { PAGE_SIZES.into_iter().find(matches).unwrap_or(stored) }
}

fn checksum_at(bytes: &[u8], from: usize, to: usize) -> ChecksumState {
    match bytes.get(from..to) {
        Some(page) => {
            let (stored, computed) = (u32_at(page, 0).unwrap_or(0), header_checksum(page));
            ChecksumState { stored, computed, good: stored == computed && page.iter().any(|&byte| byte != 0) }
        }
        None => ChecksumState { stored: 0, computed: 0, good: false },
    }
}

/// Reads the header of a file of any format.
pub fn read_header(source: &DumpSource) -> Result<HeaderDump> {
    let start = source.start()?;
    let format = EseFileKind::detect(&start);
    let Some(HeaderLayout { len, fields, has_shadow }) = header_layout(format, &start) else {
        return Err(source.unusable_error(UnusableReason::UnknownFormat(FileContent::detect(&start))));
    };
    let copy = |at: usize| {
        let page = start.get(at..at + len).or_else(|| start.get(at..)).unwrap_or_default();
        (checksum_at(&start, at, at + len), fields(page).map(NamedValues::from_fields))
    };
    let (first_checksum, first) = copy(0);
    let (shadow_checksum, shadow) = if has_shadow { copy(len) } else { (first_checksum, None) };
    let use_shadow = has_shadow && !first_checksum.good && shadow_checksum.good;
    let shadow_state = has_shadow.then(|| ShadowState {
        good: shadow_checksum.good,
        shown: use_shadow,
        differs: match (&first, &shadow) {
            (Some(first), Some(shadow)) => first.differences(shadow),
            _ => Vec::new(),
        },
    });
    let (checksum, fields) = if use_shadow { (shadow_checksum, shadow) } else { (first_checksum, first) };
    let Some(fields) = fields else {
        return Err(source.unusable_error(UnusableReason::Truncated(source.size())));
    };
    let notes = notes(format, &fields);
    Ok(HeaderDump {
        path: source.path().to_owned(),
        format,
        size: source.size(),
        checksum,
        shadow: shadow_state,
        notes,
        fields,
    })
}

/// Dumps the header of a file of any format.
pub fn dump_header(source: &DumpSource, output: &mut DumpOutput<'_>) -> Result<()> {
    let header = read_header(source)?;
    output.item(&header)?;
    report_damage(&header, output)
}

/// Reports damage to the copies of a header.
pub(crate) fn report_damage(header: &HeaderDump, output: &mut DumpOutput<'_>) -> Result<()> {
    let first = header.shadow.as_ref().is_some_and(|shadow| shadow.shown);
    if first {
        output
            .problem(DumpProblem::at(0, "the header is damaged; its second copy is intact and is shown"))?;
    } else if !header.checksum.good {
        let ChecksumState { stored, computed, .. } = header.checksum;
        let message = format!(
            "the header is damaged (checksum {stored:08x}, expected {computed:08x}); none of its fields can \
             be trusted"
        );
        output.problem(DumpProblem::at(0, message))?;
    }
    if header.shadow.as_ref().is_some_and(|shadow| !shadow.good) {
        output.problem(DumpProblem {
            offset: None,
            page: None,
            message: "the second copy of the header is damaged".into(),
        })?;
    }
    Ok(())
}

pub(crate) fn number(fields: &NamedValues, name: &str) -> u64 {
    match fields.get(name) {
        Some(
            DumpedValue::Number(number) | DumpedValue::Generation(number) | DumpedValue::Choice(number, _),
        ) => *number,
        _ => 0,
    }
}

fn notes(format: EseFileKind, fields: &NamedValues) -> Vec<String> {
    let mut notes = Vec::new();
    let get = |name| number(fields, name);
    match format {
        EseFileKind::Database => {
            notes.push(state_note(&get));
            if get("file_type") == FILE_TYPE_TEMPORARY {
                notes.push("this is a temporary database; its pages do not have checksums".to_owned());
            }
            let version = (get("version"), get("update"), get("update_minor"));
            notes.push(format!("format {:#x}, update {}.{}", version.0, version.1, version.2));
            if version.1 > u64::from(NEWEST_DATABASE_UPDATE) {
                notes.push(format!(
                    "the update is newer than {NEWEST_DATABASE_UPDATE}, the newest known one, so the contents may \
                     be misread"
                ));
            }
        }
        EseFileKind::Log => {
            let version =
                ["version_major", "version_minor", "version_update", "version_update_minor"].map(get);
            let [major, minor, update, update_minor] = version;
            notes.push(format!(
                "format {major}.{minor}.{update}.{update_minor}, generation {:#X}",
                get("generation")
            ));
            if (major, minor) != (8, 4000) {
                notes.push(
                    "the format is older than this program supports, so the records cannot be shown"
                        .to_owned(),
                );
            }
            let circular = if get("flags") & 2 != 0 { "circular logging" } else { "all logs are retained" };
            notes.push(circular.to_owned());
        }
        EseFileKind::Checkpoint => {
            if let Some(DumpedValue::Text(position)) = fields.get("position") {
                notes.push(format!("redo begins at {position}"));
            }
        }
        EseFileKind::FlushMap => notes.push(match get("flags") & u64::from(FlushMapHeader::CLEAN) {
            0 => format!("in use: recovery needs the logs from generation {:#X} on", get("gen_min_required")),
            _ => "clean".to_owned(),
        }),
        EseFileKind::Unknown => {}
    }
    notes
}

fn state_note(get: &impl Fn(&'static str) -> u64) -> String {
    let (low, high, committed) = (get("gen_min_required"), get("gen_max_required"), get("gen_max_committed"));
    match get("state") {
        3 => "clean: no logs are needed".to_owned(),
        2 | 7 if low == 0 => "dirty, but the header does not name the required logs".to_owned(),
        2 | 7 if committed > high => format!(
            "dirty: recovery needs the logs of generations {low:#X} to {high:#X}, and the logs up to \
             {committed:#X} for all commits"
        ),
        2 | 7 => format!("dirty: recovery needs the logs of generations {low:#X} to {high:#X}"),
        STATE_JUST_CREATED if get("file_type") == FILE_TYPE_TEMPORARY => {
            "just created, and complete: a temporary database retains this state".to_owned()
        }
        STATE_JUST_CREATED => {
            "just created: either its creation did not complete, or it is a complete temporary database"
                .to_owned()
        }
        _ => "the database is in an intermediate state; see the field state".to_owned(),
    }
}

impl fmt::Display for HeaderDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}, {} bytes", Printable(self.path.display()), self.format, self.size)?;
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        let ChecksumState { stored, computed, good } = self.checksum;
        let verdict = if good { "good".to_owned() } else { format!("BAD, should be {computed:08x}") };
        writeln!(f, "  checksum {stored:08x} {verdict}")?;
        if let Some(shadow) = &self.shadow {
            let differs = match shadow.differs.as_slice() {
                [] => String::new(),
                names => format!(", differs in {}", names.join(", ")),
            };
            writeln!(f, "  second copy {}{differs}", if shadow.good { "good" } else { "BAD" })?;
        }
        writeln!(f)?;
        let mut table = String::new();
        self.fields.write_table(&mut table, 0)?;
        f.write_str(table.trim_end_matches('\n'))
    }
}
