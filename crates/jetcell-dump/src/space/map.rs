//! Map of the database, with one character per fixed number of pages.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// Maximum number of cells in a map.
const CELLS: u32 = 1024;
/// Number of cells per line.
const PER_LINE: usize = 64;
const CLASSES: usize = 7;

/// How a page is used, as shown on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageClass {
    /// The page is listed as available.
    Available,
    /// The page belongs to a table's own tree.
    Table,
    /// The page belongs to an index.
    Index,
    /// The page belongs to a long-value tree.
    LongValue,
    /// The page belongs to a space tree.
    Space,
    /// The page is owned but is neither available nor part of a tree.
    Leaked,
    /// The page is part of a tree but cannot be read.
    Damaged,
}

/// The number of pages in each cell, by page class.
pub(super) struct SpaceMap {
    pages: u32,
    per_cell: u32,
    cells: Vec<[u32; CLASSES]>,
}

impl SpaceMap {
    /// Creates an empty map for pages 1 to `pages`.
    pub(super) fn new(pages: u32) -> SpaceMap {
        let per_cell = pages.div_ceil(CELLS).max(1);
        let cells = vec![[0; CLASSES]; pages.div_ceil(per_cell) as usize];
        SpaceMap { pages, per_cell, cells }
    }

    pub(super) fn add(&mut self, page: u32, class: PageClass) {
        let cell = self.cells.get_mut((page.saturating_sub(1) / self.per_cell) as usize);
        if let Some(count) = cell.and_then(|cell| cell.get_mut(class as usize)) {
            *count += 1;
        }
    }

    fn symbols(&self) -> String {
        self.cells.iter().map(symbol).collect()
    }
}

/// Returns the symbol for the most frequent class in a cell. If any page is damaged or leaked, that takes precedence.
fn symbol(cell: &[u32; CLASSES]) -> char {
    let [available, table, index, long_value, space, leaked, damaged] = *cell;
    if damaged > 0 {
        return 'X';
    }
    if leaked > 0 {
        return '?';
    }
    // If several counts are equal, `max_by_key` returns the last one. Space trees come first because they always have
    // few pages.
    let kinds = [(space, 's'), (long_value, 'l'), (index, 'i'), (table, 't'), (available, '.')];
    kinds
        .into_iter()
        .max_by_key(|(count, _)| *count)
        .filter(|(count, _)| *count > 0)
        .map_or('-', |(_, symbol)| symbol)
}

impl Serialize for SpaceMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("map", 4)?;
        map.serialize_field("type", "map")?;
        map.serialize_field("pages", &self.pages)?;
        map.serialize_field("pages_per_cell", &self.per_cell)?;
        map.serialize_field("cells", &self.symbols())?;
        map.end()
    }
}

impl fmt::Display for SpaceMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\nmap, {} page(s) per character: t table, i index, l long values, s space trees, ",
            self.per_cell
        )?;
        write!(f, ". available, ? leaked, X damaged, - not in the file")?;
        for (number, line) in self.symbols().as_bytes().chunks(PER_LINE).enumerate() {
            let first = (number * PER_LINE) as u64 * u64::from(self.per_cell) + 1;
            write!(f, "\n{first:>10}  {}", line.iter().map(|&byte| char::from(byte)).collect::<String>())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_the_most_common_class_and_any_damage() {
        let mut map = SpaceMap::new(4096);
        for page in 1..=12 {
            map.add(page, if page <= 4 || page % 3 == 0 { PageClass::Available } else { PageClass::Index });
        }
        map.add(9, PageClass::Leaked);
        assert_eq!(&map.symbols()[..5], ".i?--");
        assert_eq!((map.symbols().len(), SpaceMap::new(0).symbols().len()), (1024, 0));
    }
}
