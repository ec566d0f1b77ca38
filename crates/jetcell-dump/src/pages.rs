//! Dump of pages by number, either one line per page or the complete contents of selected pages.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;

use crate::catalog::DumpedCatalog;
use crate::database::{DumpedDatabase, PageState};
use crate::output::DumpOutput;
use crate::page::{COLUMNS, PageDump};
use crate::{DumpSource, Result};

/// A run of pages that are all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "zero-pages")]
struct ZeroPages {
    first: u32,
    last: u32,
}

impl fmt::Display for ZeroPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ZeroPages { first, last } = self;
        write!(f, "{first:>10} zero")?;
        if last > first { write!(f, "       to page {last}") } else { Ok(()) }
    }
}

/// Dumps the pages in `ranges`, including all nodes. If `ranges` is empty, dumps one line per page.
pub fn dump_pages(
    source: &DumpSource,
    ranges: &[RangeInclusive<u32>],
    output: &mut DumpOutput<'_>,
) -> Result<()> {
    let database = DumpedDatabase::open(source, output)?;
    let names = DumpedCatalog::open(&database, output)?.tree_names(output)?;
    output.heading(COLUMNS)?;
    let details = !ranges.is_empty();
    let all = [1..=database.pages];
    let ranges = if details { ranges } else { &all };
    let mut zero: Option<ZeroPages> = None;
    for number in ranges.iter().flat_map(std::clone::Clone::clone) {
        let image = database.page(number);
        if image.state == PageState::BeyondFile {
            write_zero_pages(&mut zero, output)?;
            let message = format!("the file ends after page {}", database.pages);
            output.page_problem(number, message)?;
            break;
        }
        if image.state == PageState::Zero {
            match &mut zero {
                Some(run) if run.last.checked_add(1) == Some(number) => run.last = number,
                _ => {
                    write_zero_pages(&mut zero, output)?;
                    zero = Some(ZeroPages { first: number, last: number });
                }
            }
            continue;
        }
        write_zero_pages(&mut zero, output)?;
        let name = names.get(&image.page().tree()).map(String::as_str);
        let page = PageDump::new(&database, &image, name, details);
        output.item(&page)?;
        if !image.state.is_good() {
            let message = format!("the page {}; its contents cannot be trusted", image.state.reason());
            output.page_problem(number, message)?;
        }
    }
    write_zero_pages(&mut zero, output)
}

fn write_zero_pages(zero: &mut Option<ZeroPages>, output: &mut DumpOutput<'_>) -> Result<()> {
    match zero.take() {
        Some(run) => Ok(output.item(&run)?),
        None => Ok(()),
    }
}
