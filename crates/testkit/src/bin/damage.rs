//! Damages a copy of a database or log: `cargo run -p testkit --bin damage -- flip FROM TO PAGE BYTE BIT`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use ese_format::PageNumber;
use testkit::damage::{EditableDatabase, corrupt_segment, segment};

const USAGE: &str = "usage: damage WHAT FROM TO NUMBER...   writes a damaged copy of FROM to TO
  flip PAGE BYTE BIT    flip one bit of a page
  zero PAGE             overwrite a page with zeros
  scribble PAGE         overwrite the inside of a page
  swap PAGE PAGE        swap two pages
  truncate PAGES        truncate the file to this number of pages
  next PAGE PAGE        change the right link of a leaf, with a correct checksum
  prev PAGE PAGE        change the left link of a leaf, with a correct checksum
  segment NUMBER        overwrite the inside of a log segment
  cut BYTES             truncate the file to this number of bytes";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match damage(&arguments) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("damage: {error}");
            ExitCode::from(2)
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn damage(arguments: &[String]) -> Option<std::io::Result<()>> {
    let [what, from, to, numbers @ ..] = arguments else { return None };
    let numbers: Vec<u32> = numbers.iter().map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let bytes = match std::fs::read(from) {
        Ok(bytes) => bytes,
        Err(error) => return Some(Err(error)),
    };
    let page = PageNumber::new;
    let patient = |change: &dyn Fn(&mut EditableDatabase) -> Option<()>| {
        let mut patient = EditableDatabase::new(bytes.clone());
        change(&mut patient).map(|()| patient.bytes)
    };
    let damaged = match (what.as_str(), numbers.as_slice()) {
        ("flip", &[at, byte, bit]) => patient(&|it| {
            it.flip_bit(page(at)?, byte as usize, bit);
            Some(())
        })?,
        ("zero", &[at]) => patient(&|it| {
            it.raw(page(at)?).fill(0);
            Some(())
        })?,
        ("scribble", &[at]) => patient(&|it| {
            corrupt_segment(it.raw(page(at)?));
            Some(())
        })?,
        ("swap", &[one, other]) => patient(&|it| {
            it.swap(page(one)?, page(other)?);
            Some(())
        })?,
        ("truncate", &[pages]) => patient(&|it| {
            it.truncate(pages);
            Some(())
        })?,
        ("next", &[at, link]) => patient(&|it| {
            it.edit(page(at)?, |mut leaf| leaf.set_next(page(link)));
            Some(())
        })?,
        ("prev", &[at, link]) => patient(&|it| {
            it.edit(page(at)?, |mut leaf| leaf.set_prev(page(link)));
            Some(())
        })?,
        ("segment", &[number]) => {
            let mut log = bytes;
            corrupt_segment(segment(&mut log, number as usize));
            log
        }
        ("cut", &[len]) => bytes.get(..len as usize)?.to_vec(),
        _ => return None,
    };
    Some(std::fs::write(to, damaged))
}
