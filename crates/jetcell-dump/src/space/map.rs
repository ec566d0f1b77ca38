//! A small map of the database: a character for so many pages.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// Most cells of a map.
const CELLS: u32 = 1024;
/// Cells in a line.
const PER_LINE: usize = 64;
const CLASSES: usize = 7;

/// What a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Listed as available.
    Available,
    /// Of a table's own tree.
    Table,
    /// Of an index.
    Index,
    /// Of long values.
    LongValue,
    /// Of a space tree.
    Space,
    /// Nothing refers to it.
    Leaked,
    /// It cannot be read, though a tree refers to it.
    Damaged,
}

/// Counts of pages by class, for each cell.
pub(super) struct SpaceMap {
    pages: u32,
    per_cell: u32,
    cells: Vec<[u32; CLASSES]>,
}

impl SpaceMap {
    /// For pages 1 to `pages`.
    pub(super) fn new(pages: u32) -> SpaceMap {
        let per_cell = pages.div_ceil(CELLS).max(1);
        let cells = vec![[0; CLASSES]; pages.div_ceil(per_cell) as usize];
        SpaceMap { pages, per_cell, cells }
    }

    pub(super) fn add(&mut self, page: u32, class: Class) {
        let cell = self.cells.get_mut((page.saturating_sub(1) / self.per_cell) as usize);
        if let Some(count) = cell.and_then(|cell| cell.get_mut(class as usize)) {
            *count += 1;
        }
    }

    fn symbols(&self) -> String {
        self.cells.iter().map(symbol).collect()
    }
}

/// What most pages of a cell are; damage and leaks show even where they are few.
fn symbol(cell: &[u32; CLASSES]) -> char {
    let [available, table, index, long_value, space, leaked, damaged] = *cell;
    if damaged > 0 {
        return 'X';
    }
    if leaked > 0 {
        return '?';
    }
    // Of equal numbers the last counts; space trees are few wherever they are.
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
            "\nmap, {} page(s) a character: t table, i index, l long values, s space trees, ",
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
    fn a_cell_shows_what_most_of_it_is_and_all_damage() {
        let mut map = SpaceMap::new(4096);
        for page in 1..=12 {
            map.add(page, if page <= 4 || page % 3 == 0 { Class::Available } else { Class::Index });
        }
        map.add(9, Class::Leaked);
        assert_eq!(&map.symbols()[..5], ".i?--");
        assert_eq!((map.symbols().len(), SpaceMap::new(0).symbols().len()), (1024, 0));
    }
}
