//! Output of items, either as text for people or as JSON lines for programs.

use std::fmt;
use std::io::{self, Write};

use jetcell_input::Printable;
use serde::Serialize;

/// Writes the items in a dump, and counts the problems found.
pub struct DumpOutput<'w> {
    out: &'w mut dyn Write,
    json: bool,
    problems: u64,
}

impl<'w> DumpOutput<'w> {
    /// Creates an output that writes text.
    pub fn text(out: &'w mut dyn Write) -> DumpOutput<'w> {
        DumpOutput { out, json: false, problems: 0 }
    }

    /// Creates an output that writes one JSON object per line. An object's `type` field is the kind of item.
    pub fn json(out: &'w mut dyn Write) -> DumpOutput<'w> {
        DumpOutput { out, json: true, problems: 0 }
    }

    /// Returns the number of problems written so far.
    pub fn problems(&self) -> u64 {
        self.problems
    }

    pub(crate) fn item<T: Serialize + fmt::Display>(&mut self, item: &T) -> io::Result<()> {
        if self.json {
            serde_json::to_writer(&mut *self.out, item).map_err(io::Error::from)?;
            self.out.write_all(b"\n")
        } else {
            writeln!(self.out, "{item}")
        }
    }

    /// Writes a line that appears only in the text form, such as column names.
    pub(crate) fn heading(&mut self, line: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { writeln!(self.out, "{line}") }
    }

    pub(crate) fn page_problem(&mut self, page: u32, message: impl Into<String>) -> io::Result<()> {
        self.problem(DumpProblem { offset: None, page: Some(page), message: message.into() })
    }

    pub(crate) fn problem(&mut self, problem: DumpProblem) -> io::Result<()> {
        self.problems += 1;
        self.item(&problem)
    }
}

/// Describes something that a dump could not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "problem")]
pub struct DumpProblem {
    /// Offset in the file, if it is known.
    pub offset: Option<u64>,
    /// Number of the page, if it is known.
    pub page: Option<u32>,
    /// Description of the problem and of its effect on the dump.
    pub message: String,
}

impl DumpProblem {
    pub(crate) fn at(offset: u64, message: impl Into<String>) -> DumpProblem {
        DumpProblem { offset: Some(offset), page: None, message: message.into() }
    }
}

impl fmt::Display for DumpProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("! ")?;
        if let Some(page) = self.page {
            write!(f, "page {page}: ")?;
        } else if let Some(offset) = self.offset {
            write!(f, "offset {offset:#x}: ")?;
        }
        write!(f, "{}", Printable(&self.message))
    }
}
