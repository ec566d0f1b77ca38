//! A table of a report, independent of the format: HTML, Markdown, CSV and text show the same tables.

/// Judgement of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// No judgement.
    #[default]
    Neutral,
    /// The value is good.
    Good,
    /// The value is bad.
    Bad,
}

/// One value, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The value, for people and for programs.
    pub(crate) text: String,
    /// The value in another form, such as `1.00 GiB` for bytes; CSV omits it.
    pub(crate) remark: String,
    /// Judgement of the value.
    pub(crate) tone: Tone,
}

impl Cell {
    /// A value with a remark.
    pub(crate) fn with_remark(text: impl Into<String>, remark: impl Into<String>) -> Cell {
        Cell { text: text.into(), remark: remark.into(), tone: Tone::Neutral }
    }

    /// A value with a judgement.
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
    /// Whether the column has numbers, which are aligned right.
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
    /// Notes on the table, or the reason why it has no rows.
    pub(crate) notes: Vec<String>,
    /// Whether the table has names and values only, without headings of columns.
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

    /// Adds a row.
    pub(crate) fn row(mut self, cells: Vec<Cell>) -> Table {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.title);
        self.rows.push(cells);
        self
    }

    /// Adds a name with its value.
    pub(crate) fn fact(self, name: &str, value: impl Into<Cell>) -> Table {
        self.row(vec![name.into(), value.into()])
    }

    /// Adds a name with its value, if there is one.
    pub(crate) fn fact_if(self, name: &str, value: Option<impl Into<Cell>>) -> Table {
        match value {
            Some(value) => self.fact(name, value),
            None => self,
        }
    }

    /// Adds rows.
    pub(crate) fn rows(self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
        rows.into_iter().fold(self, Table::row)
    }

    /// Adds a note.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Table {
        self.notes.push(note.into());
        self
    }

    /// Replaces the notes by `why`, if the table has no rows.
    pub(crate) fn or_say(mut self, why: &str) -> Table {
        if self.rows.is_empty() {
            self.notes = vec![why.into()];
        }
        self
    }
}
