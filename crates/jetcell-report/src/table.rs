//! A table in a report, independent of the output format: HTML, Markdown, CSV, and text show the same tables.

/// Tone of a table cell: neutral, good or bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellTone {
    /// Not judged.
    #[default]
    Neutral,
    /// The value is good.
    Good,
    /// The value is bad.
    Bad,
}

/// A cell of a report table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportCell {
    /// Text for readers.
    pub text: String,
    /// Text for programs, if it differs: a number with three decimals and no separators.
    pub exact: String,
    /// The value in another form, such as `1.00 GiB` for a number of bytes. CSV omits remarks.
    pub remark: String,
    /// Judgement of the value.
    pub(crate) tone: CellTone,
}

impl ReportCell {
    /// Creates a cell with a remark.
    pub fn with_remark(text: impl Into<String>, remark: impl Into<String>) -> ReportCell {
        ReportCell { text: text.into(), remark: remark.into(), ..ReportCell::default() }
    }

    /// Creates a cell that is judged as good or bad.
    pub fn with_judgement(text: impl Into<String>, good: bool) -> ReportCell {
        ReportCell {
            text: text.into(),
            tone: if good { CellTone::Good } else { CellTone::Bad },
            ..ReportCell::default()
        }
    }

    /// Creates a number, given its text for readers and its text for programs.
    pub fn number(text: impl Into<String>, exact: impl Into<String>) -> ReportCell {
        ReportCell { text: text.into(), exact: exact.into(), ..ReportCell::default() }
    }

    /// Returns the cell with a remark added.
    #[must_use]
    pub fn add_remark(self, remark: impl Into<String>) -> ReportCell {
        ReportCell { remark: remark.into(), ..self }
    }

    /// Returns the cell, judged as bad if `bad` is true.
    #[must_use]
    pub fn bad_if(self, bad: bool) -> ReportCell {
        ReportCell { tone: if bad { CellTone::Bad } else { self.tone }, ..self }
    }

    /// Returns the text for programs.
    pub fn machine_text(&self) -> &str {
        if self.exact.is_empty() { &self.text } else { &self.exact }
    }

    /// Returns text and remark on one line.
    pub fn line(&self) -> String {
        let line = match self.remark.as_str() {
            "" => self.text.clone(),
            remark => format!("{} ({remark})", self.text),
        };
        line.replace(['\n', '\r'], " ")
    }
}

impl<T: Into<String>> From<T> for ReportCell {
    fn from(text: T) -> ReportCell {
        ReportCell { text: text.into(), ..ReportCell::default() }
    }
}

/// A column of a report table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportColumn {
    /// Heading, including the unit.
    pub name: String,
    /// True if the column contains numbers, which are right-aligned.
    pub number: bool,
}

/// A table in a report. The first cell in each row is the row's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportTable {
    /// Heading of the table.
    pub title: String,
    /// Columns.
    pub columns: Vec<ReportColumn>,
    /// Rows, each with as many cells as there are columns.
    pub rows: Vec<Vec<ReportCell>>,
    /// Notes about the table, or the reason why it has no rows.
    pub notes: Vec<String>,
    /// True if the table lists names with their values and has no column headings.
    pub facts: bool,
}

impl ReportTable {
    /// Creates a table whose first column is text and whose other columns are numbers.
    pub fn numbers<'a>(title: &str, first: &str, others: impl IntoIterator<Item = &'a str>) -> ReportTable {
        let column = |name: &str, number| ReportColumn { name: name.into(), number };
        let columns =
            std::iter::once(column(first, false)).chain(others.into_iter().map(|name| column(name, true)));
        ReportTable { title: title.into(), columns: columns.collect(), ..ReportTable::default() }
    }

    /// Creates a table of text.
    pub fn text_columns(title: &str, columns: &[&str]) -> ReportTable {
        let columns =
            columns.iter().map(|name| ReportColumn { name: (*name).into(), number: false }).collect();
        ReportTable { title: title.into(), columns, ..ReportTable::default() }
    }

    /// Creates a table of names with their values.
    pub fn facts(title: &str) -> ReportTable {
        ReportTable { facts: true, ..ReportTable::text_columns(title, &["Name", "Value"]) }
    }

    /// Adds a row.
    pub fn row(mut self, cells: Vec<ReportCell>) -> ReportTable {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.title);
        self.rows.push(cells);
        self
    }

    /// Adds a name and its value.
    pub fn fact(self, name: &str, value: impl Into<ReportCell>) -> ReportTable {
        self.row(vec![name.into(), value.into()])
    }

    /// Adds a name and its value if there is one.
    pub fn fact_if(self, name: &str, value: Option<impl Into<ReportCell>>) -> ReportTable {
        match value {
            Some(value) => self.fact(name, value),
            None => self,
        }
    }

    /// Adds rows.
    pub fn rows(self, rows: impl IntoIterator<Item = Vec<ReportCell>>) -> ReportTable {
        rows.into_iter().fold(self, ReportTable::row)
    }

    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> ReportTable {
        self.notes.push(note.into());
        self
    }

    /// Replaces the notes with `why` if the table has no rows.
    pub fn or_note(mut self, why: &str) -> ReportTable {
        if self.rows.is_empty() {
            self.notes = vec![why.into()];
        }
        self
    }
}
