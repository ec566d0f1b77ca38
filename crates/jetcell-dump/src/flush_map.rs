//! Dump of a flush map: its header and the flush type of every database page.

use std::fmt;

use ese_format::checksum::BlockIntegrity;
use ese_format::flush_map::{
    FLUSH_MAP_PAGE_LEN, PAGES_PER_MAP_PAGE, flush_types, map_page_header, verify_map_page,
};
use serde::Serialize;

use crate::format::read_start;
use crate::header::{read_header, report_damage};
use crate::output::{DumpOutput, DumpProblem};
use crate::{DumpSource, EseFileKind, Result};

/// Number of flush types per line of text.
const PER_LINE: usize = 64;

/// Contents of one flush map page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "map-page")]
pub struct FlushMapPage {
    /// Number of the map page.
    pub number: u32,
    /// Whether the checksum matches, possibly after correcting one bit.
    pub checksum_good: bool,
    /// Highest dbtime among the database pages that the map page describes.
    pub db_time: u64,
    /// Database page to which the first digit of `flush_types` belongs. Page 0 does not exist.
    pub first_page: u32,
    /// Number of pages with each flush type from 0 (unknown) to 3.
    pub counts: [u32; 4],
    /// Flush types, one digit per page, up to the last page whose flush type is not 0.
    pub flush_types: String,
}

impl fmt::Display for FlushMapPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [unknown, one, two, three] = self.counts;
        let checksum = if self.checksum_good { "good" } else { "BAD" };
        write!(f, "\nmap page {}: checksum {checksum}, highest dbtime {}", self.number, self.db_time)?;
        write!(f, "\n  flush types: {one} of 1, {two} of 2, {three} of 3, {unknown} unknown")?;
        for (line, digits) in self.flush_types.as_bytes().chunks(PER_LINE).enumerate() {
            let text: String =
                digits.iter().map(|&digit| if digit == b'0' { '.' } else { char::from(digit) }).collect();
            write!(f, "\n  {:>10}  {text}", u64::from(self.first_page) + (line * PER_LINE) as u64)?;
        }
        Ok(())
    }
}

/// Dumps a flush map: its header, and every map page that is not empty.
pub fn dump_flush_map(source: &DumpSource, output: &mut DumpOutput<'_>) -> Result<()> {
    read_start(source, EseFileKind::FlushMap)?;
    let header = read_header(source)?;
    output.item(&header)?;
    report_damage(&header, output)?;
    let pages = (source.size() / FLUSH_MAP_PAGE_LEN as u64).saturating_sub(1);
    for number in 0..u32::try_from(pages).unwrap_or(u32::MAX) {
        let offset = (u64::from(number) + 1) * FLUSH_MAP_PAGE_LEN as u64;
        match source.read(offset, FLUSH_MAP_PAGE_LEN) {
            Ok(bytes) => map_page(number, offset, bytes, output)?,
            Err(error) => output
                .problem(DumpProblem::at(offset, format!("map page {number} cannot be read: {error}")))?,
        }
    }
    let tail = source.size() % FLUSH_MAP_PAGE_LEN as u64;
    if tail != 0 {
        let message = format!("{tail} bytes follow the last complete map page; the file may be truncated");
        output.problem(DumpProblem::at(source.size() - tail, message))?;
    }
    Ok(())
}

fn map_page(number: u32, offset: u64, mut bytes: Vec<u8>, output: &mut DumpOutput<'_>) -> Result<()> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    let verdict = verify_map_page(&mut bytes, number);
    let header = map_page_header(&bytes);
    let mut counts = [0; 4];
    let mut types = String::with_capacity(PAGES_PER_MAP_PAGE as usize);
    for flush_type in flush_types(&bytes) {
        types.push(char::from(b'0' + flush_type));
        if let Some(count) = counts.get_mut(usize::from(flush_type)) {
            *count += 1;
        }
    }
    types.truncate(types.trim_end_matches('0').len());
    output.item(&FlushMapPage {
        number,
        checksum_good: verdict != BlockIntegrity::Bad,
        db_time: header.map_or(0, |header| header.db_time.0),
        first_page: number.saturating_mul(PAGES_PER_MAP_PAGE),
        counts,
        flush_types: types,
    })?;
    if verdict == BlockIntegrity::Bad {
        let message = format!("map page {number} has a bad checksum; its flush types are not valid");
        output.problem(DumpProblem::at(offset, message))?;
    }
    Ok(())
}
