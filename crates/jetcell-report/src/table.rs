//! A table of the report, independent of how it is shown: HTML, Markdown, CSV and text all come from this.

/// Whether a cell says that something is as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It does not say.
    #[default]
    Neutral,
    /// It is.
    Good,
    /// It is not.
    Bad,
}

/// One value, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The value, for people and for programs.
    pub(crate) text: String,
    /// The same for reading, such as `1.00 GiB` for bytes; left out of CSV.
    pub(crate) remark: String,
    /// How it is to be taken.
    pub(crate) tone: Tone,
}

impl Cell {
    /// A value with the same for reading.
    pub(crate) fn with_remark(text: impl Into<String>, remark: impl Into<String>) -> Cell {
        Cell { text: text.into(), remark: remark.into(), tone: Tone::Neutral }
    }

    /// A value that says whether something is as it should be.
    pub(crate) fn judged(text: impl Into<String>, good: bool) -> Cell {
        Cell { text: text.into(), tone: if good { Tone::Good } else { Tone::Bad }, ..Cell::default() }
    }

    /// Value and remark on one line.
    pub(crate) fn line(&self) -> String {
        let line = match self.remark.as_str() {
            "" => self.text.clone(),
            remark => format!("{} ({remark})", self.text),
        };
        line.replace(['\n', '\r'], " ")
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its heading, with the unit.
    pub(crate) name: String,
    /// Numbers stand at the right.
    pub(crate) number: bool,
}

/// A table. The first cell of a row names the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// Heading.
    pub(crate) title: String,
    /// Columns.
    pub(crate) columns: Vec<Column>,
    /// Rows, each with as many cells as there are columns.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// What to know about it, or why it has no rows.
    pub(crate) notes: Vec<String>,
    /// Names and values; headings of columns would say nothing.
    pub(crate) facts: bool,
}

impl Table {
    /// A table whose first column is text and whose other columns are numbers.
    pub(crate) fn numbers<'a>(title: &str, first: &str, others: impl IntoIterator<Item = &'a str>) -> Table {
        let column = |name: &str, number| Column { name: name.into(), number };
        let columns =
            std::iter::once(column(first, false)).chain(others.into_iter().map(|name| column(name, true)));
        Table { title: title.into(), columns: columns.collect(), ..Table::default() }
    }

    /// A table of text.
    pub(crate) fn words(title: &str, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|name| Column { name: (*name).into(), number: false }).collect();
        Table { title: title.into(), columns, ..Table::default() }
    }

    /// Names and values.
    pub(crate) fn facts(title: &str) -> Table {
        Table { facts: true, ..Table::words(title, &["Name", "Value"]) }
    }

    /// The table with a row more.
    pub(crate) fn row(mut self, cells: Vec<Cell>) -> Table {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.title);
        self.rows.push(cells);
        self
    }

    /// The table with a name and its value more.
    pub(crate) fn fact(self, name: &str, value: impl Into<Cell>) -> Table {
        self.row(vec![name.into(), value.into()])
    }

    /// The same if there is a value.
    pub(crate) fn fact_if(self, name: &str, value: Option<impl Into<Cell>>) -> Table {
        match value {
            Some(value) => self.fact(name, value),
            None => self,
        }
    }

    /// The table with rows more.
    pub(crate) fn rows(self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
        rows.into_iter().fold(self, Table::row)
    }

    /// The table with something more to know about it.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Table {
        self.notes.push(note.into());
        self
    }

    /// The table with one line in place of rows, if it has none.
    pub(crate) fn or_say(mut self, why: &str) -> Table {
        if self.rows.is_empty() {
            self.notes = vec![why.into()];
        }
        self
    }
}
