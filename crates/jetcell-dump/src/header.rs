//! The header of any file, field by field, whatever state it is in.

use std::fmt;
use std::path::PathBuf;

use ese_format::checkpoint::{CHECKPOINT_LEN, Checkpoint};
use ese_format::checksum::header_checksum;
use ese_format::fields::Fields;
use ese_format::flush_map::{FLUSH_MAP_PAGE_LEN, FlushMapHeader};
use ese_format::header::DatabaseHeader;
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use serde::Serialize;

use crate::database::FILE_TYPE_TEMPORARY;
use crate::facts::Facts;
use crate::format::word;
use crate::output::{Output, Problem};
use crate::{Fact, Format, Result, Source};

const PAGE_SIZE_AT: usize = 236;
const PAGE_SIZES: [usize; 5] = [2048, 4096, 8192, 16384, 32768];

/// A header and what can be said about it as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "header")]
pub struct HeaderDump {
    /// The file.
    pub path: PathBuf,
    /// What kind it is.
    #[serde(serialize_with = "format_name")]
    pub format: Format,
    /// Its size in bytes.
    pub size: u64,
    /// Checksum of the copy that is shown.
    pub checksum: ChecksumFacts,
    /// State of the second copy, for files that have one.
    pub shadow: Option<ShadowFacts>,
    /// What the fields mean together, for people.
    pub notes: Vec<String>,
    /// Every field.
    pub fields: Facts,
}

fn format_name<S: serde::Serializer>(format: &Format, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(format.name())
}

/// A checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChecksumFacts {
    /// As stored.
    pub stored: u32,
    /// As it should be.
    pub computed: u32,
    /// Are they the same?
    pub good: bool,
}

/// The second copy of a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShadowFacts {
    /// Its checksum is right.
    pub good: bool,
    /// The fields shown are those of this copy, since the first is damaged.
    pub shown: bool,
    /// Fields that differ between the two.
    pub differs: Vec<String>,
}

/// How headers of a format are read.
struct Shape {
    len: usize,
    fields: fn(&[u8]) -> Option<Fields>,
    has_shadow: bool,
}

fn shape(format: Format, start: &[u8]) -> Option<Shape> {
    Some(match format {
        Format::Database => Shape { len: page_size(start), fields: DatabaseHeader::fields, has_shadow: true },
        Format::Log => Shape { len: SEGMENT_BYTES, fields: LogHeader::fields, has_shadow: false },
        Format::Checkpoint => Shape { len: CHECKPOINT_LEN, fields: Checkpoint::fields, has_shadow: true },
        Format::FlushMap => {
            Shape { len: FLUSH_MAP_PAGE_LEN, fields: FlushMapHeader::fields, has_shadow: false }
        }
        Format::Unknown => return None,
    })
}

/// The page size that makes one of the copies right; else what the first says; else 4 KiB, as very old files have.
fn page_size(start: &[u8]) -> usize {
    let good =
        |at: usize, size: usize| at.checked_add(size).is_some_and(|end| checksum_at(start, at, end).good);
    let said = word(start, PAGE_SIZE_AT).and_then(|size| usize::try_from(size).ok());
    let said = said.filter(|size| PAGE_SIZES.contains(size)).unwrap_or(4096);
    let whole = |size: &usize| good(0, *size) || good(*size, *size);
    if whole(&said) { said } else { PAGE_SIZES.into_iter().find(whole).unwrap_or(said) }
}

fn checksum_at(bytes: &[u8], from: usize, to: usize) -> ChecksumFacts {
    match bytes.get(from..to) {
        Some(page) => {
            let (stored, computed) = (word(page, 0).unwrap_or(0), header_checksum(page));
            ChecksumFacts { stored, computed, good: stored == computed && page.iter().any(|&byte| byte != 0) }
        }
        None => ChecksumFacts { stored: 0, computed: 0, good: false },
    }
}

/// The header of a file of any format.
pub fn read_header(source: &Source) -> Result<HeaderDump> {
    let start = source.start()?;
    let format = Format::of(&start);
    let Some(Shape { len, fields, has_shadow }) = shape(format, &start) else {
        return Err(source.unusable("this is no ESE file: neither database, log, checkpoint nor flush map"));
    };
    let copy = |at: usize| {
        let page = start.get(at..at + len).or_else(|| start.get(at..)).unwrap_or_default();
        (checksum_at(&start, at, at + len), fields(page).map(Facts::of))
    };
    let (first_checksum, first) = copy(0);
    let (shadow_checksum, shadow) = if has_shadow { copy(len) } else { (first_checksum, None) };
    let use_shadow = has_shadow && !first_checksum.good && shadow_checksum.good;
    let shadow_facts = has_shadow.then(|| ShadowFacts {
        good: shadow_checksum.good,
        shown: use_shadow,
        differs: match (&first, &shadow) {
            (Some(first), Some(shadow)) => first.differences(shadow),
            _ => Vec::new(),
        },
    });
    let (checksum, fields) = if use_shadow { (shadow_checksum, shadow) } else { (first_checksum, first) };
    let Some(fields) = fields else {
        return Err(source.unusable(format!("cut off inside the header: {} bytes are left", source.size())));
    };
    let notes = notes(format, &fields);
    Ok(HeaderDump {
        path: source.path().to_owned(),
        format,
        size: source.size(),
        checksum,
        shadow: shadow_facts,
        notes,
        fields,
    })
}

/// `jetcell dump header`.
pub fn dump_header(source: &Source, output: &mut Output<'_>) -> Result<()> {
    let header = read_header(source)?;
    output.item(&header)?;
    report(&header, output)
}

/// What is wrong with the copies of a header.
pub(crate) fn report(header: &HeaderDump, output: &mut Output<'_>) -> Result<()> {
    let first = header.shadow.as_ref().is_some_and(|shadow| shadow.shown);
    if first {
        output.problem(Problem::at(0, "the header is damaged; its second copy is good and is shown"))?;
    } else if !header.checksum.good {
        let ChecksumFacts { stored, computed, .. } = header.checksum;
        let message = format!(
            "the header is damaged (checksum {stored:08x}, should be {computed:08x}); no field can be trusted"
        );
        output.problem(Problem::at(0, message))?;
    }
    if header.shadow.as_ref().is_some_and(|shadow| !shadow.good) {
        output.problem(Problem {
            offset: None,
            page: None,
            message: "the second copy of the header is damaged".into(),
        })?;
    }
    Ok(())
}

fn number(fields: &Facts, name: &str) -> u64 {
    match fields.get(name) {
        Some(Fact::Number(number) | Fact::Generation(number) | Fact::Choice(number, _)) => *number,
        _ => 0,
    }
}

fn notes(format: Format, fields: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    let get = |name| number(fields, name);
    match format {
        Format::Database => {
            notes.push(state_note(&get));
            if get("file_type") == FILE_TYPE_TEMPORARY {
                notes.push("a temporary database: its pages carry no checksums".to_owned());
            }
            let version = (get("version"), get("update"), get("update_minor"));
            notes.push(format!("format {:#x}, update {}.{}", version.0, version.1, version.2));
        }
        Format::Log => {
            let version =
                ["version_major", "version_minor", "version_update", "version_update_minor"].map(get);
            let [major, minor, update, update_minor] = version;
            notes.push(format!(
                "format {major}.{minor}.{update}.{update_minor}, generation {:#X}",
                get("generation")
            ));
            if (major, minor) != (8, 4000) {
                notes.push("an older format: its records cannot be shown".to_owned());
            }
            let circular = if get("flags") & 2 != 0 { "circular logging" } else { "all logs are kept" };
            notes.push(circular.to_owned());
        }
        Format::Checkpoint => {
            if let Some(Fact::Text(position)) = fields.get("position") {
                notes.push(format!("redo begins at {position}"));
            }
        }
        Format::FlushMap => notes.push(match get("flags") & u64::from(FlushMapHeader::CLEAN) {
            0 => format!("in use: needs logs from generation {:#X} on", get("gen_min_required")),
            _ => "clean".to_owned(),
        }),
        Format::Unknown => {}
    }
    notes
}

fn state_note(get: &impl Fn(&'static str) -> u64) -> String {
    let (low, high, committed) = (get("gen_min_required"), get("gen_max_required"), get("gen_max_committed"));
    match get("state") {
        3 => "clean: no log is needed".to_owned(),
        2 | 7 if low == 0 => "dirty, and it does not say which logs it needs".to_owned(),
        2 | 7 if committed > high => format!(
            "dirty: recovery needs the logs of generations {low:#X} to {high:#X}, and for all commits those up to {committed:#X}"
        ),
        2 | 7 => format!("dirty: recovery needs the logs of generations {low:#X} to {high:#X}"),
        1 => "its creation was not finished".to_owned(),
        _ => "in a state between others; see the field state".to_owned(),
    }
}

impl fmt::Display for HeaderDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}, {} bytes", self.path.display(), self.format, self.size)?;
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        let ChecksumFacts { stored, computed, good } = self.checksum;
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
        self.fields.table(&mut table, 0)?;
        f.write_str(table.trim_end_matches('\n'))
    }
}
