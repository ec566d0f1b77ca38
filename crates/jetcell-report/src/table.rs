//! A table in a report, independent of the output format: HTML, Markdown, CSV, and text show the same tables.

use std::ops::RangeBounds;

use jetcell_input::number::{
    decimal, four_digits, grouped, human_bytes, plain, signed, significant, with_three_decimals,
};
use jetcell_input::{Align, Unit};
use jetcell_workload::RuleBound;

/// Judgement of a value, or of part of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Not judged.
    #[default]
    Neutral,
    /// The value is good.
    Good,
    /// The value deserves attention.
    Warning,
    /// The value is bad.
    Bad,
}

impl Tone {
    /// Returns the tone for a condition.
    pub fn good_if(good: bool) -> Tone {
        if good { Tone::Good } else { Tone::Bad }
    }
}

/// Precision of a computed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// Fixed number of decimals.
    Decimals(u8),
    /// Three significant digits.
    Three,
    /// Four significant digits, for figures of any magnitude such as probabilities.
    Four,
    /// One decimal, with the sign of the number.
    Signed,
}

/// Value of a table cell.
#[derive(Clone, Debug, PartialEq)]
pub enum CellValue {
    /// Text.
    Text(String),
    /// Judged word, followed by text that is not judged: `sound, 5 tables`.
    Verdict(String, String),
    /// Measured figure. Programs get three decimals.
    Figure {
        /// The figure, in its unit.
        value: f64,
        /// Unit, which determines how many decimals are shown to readers.
        unit: Unit,
        /// Half width of the confidence interval.
        half_width: Option<f64>,
    },
    /// Computed number. Programs get all digits.
    Number(f64, Digits),
    /// Number of items.
    Count(u64),
    /// Number of bytes, shown with a rounded size.
    Bytes(u64),
    /// Limit of a rule: `≤ 20`.
    Limit(RuleBound, f64, Unit),
    /// No value: `–` for readers, and empty for programs.
    Missing,
    /// Statement that the author of a document did not make: `not stated`.
    NotStated,
}

/// A cell of a report table.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportCell {
    /// Value of the cell.
    pub value: CellValue,
    /// Additional text: the value in another form, or another fact about it. CSV omits remarks.
    remark: String,
    /// Judgement of the value.
    pub tone: Tone,
}

impl ReportCell {
    /// Creates a cell with this value.
    pub fn new(value: CellValue) -> ReportCell {
        ReportCell { value, remark: String::new(), tone: Tone::Neutral }
    }

    /// Creates a cell that is judged as good or bad.
    pub fn with_judgement(text: impl Into<String>, good: bool) -> ReportCell {
        ReportCell::from(text).with_tone(Tone::good_if(good))
    }

    /// Creates a cell with a judged word, followed by text that is not judged.
    pub fn verdict(word: impl Into<String>, tone: Tone, rest: impl Into<String>) -> ReportCell {
        ReportCell::new(CellValue::Verdict(word.into(), rest.into())).with_tone(tone)
    }

    /// Creates a measured figure.
    pub fn figure(unit: Unit, value: f64) -> ReportCell {
        ReportCell::new(CellValue::Figure { value, unit, half_width: None })
    }

    /// Creates a computed number.
    pub fn number(value: f64, digits: Digits) -> ReportCell {
        ReportCell::new(CellValue::Number(value, digits))
    }

    /// Creates a number of items.
    pub fn count(count: impl Into<u64>) -> ReportCell {
        ReportCell::new(CellValue::Count(count.into()))
    }

    /// Creates a cell without a value.
    pub fn missing() -> ReportCell {
        ReportCell::new(CellValue::Missing)
    }

    /// Creates a measured figure, or a cell without a value.
    pub fn figure_or_missing(unit: Unit, value: Option<f64>) -> ReportCell {
        value.map_or_else(ReportCell::missing, |value| ReportCell::figure(unit, value))
    }

    /// Returns the cell with this remark.
    #[must_use]
    pub fn with_remark(self, remark: impl Into<String>) -> ReportCell {
        ReportCell { remark: remark.into(), ..self }
    }

    /// Returns the figure with the half width of its confidence interval, if it has one.
    #[must_use]
    pub fn within(mut self, interval: Option<f64>) -> ReportCell {
        if let CellValue::Figure { half_width, .. } = &mut self.value {
            *half_width = interval;
        }
        self
    }

    /// Returns the cell with this tone.
    #[must_use]
    pub fn with_tone(self, tone: Tone) -> ReportCell {
        ReportCell { tone, ..self }
    }

    /// Returns the cell, judged as bad if `bad` is true.
    #[must_use]
    pub fn bad_if(self, bad: bool) -> ReportCell {
        ReportCell { tone: if bad { Tone::Bad } else { self.tone }, ..self }
    }

    /// Returns the text for readers.
    pub fn text(&self) -> String {
        match &self.value {
            CellValue::Text(text) => text.clone(),
            CellValue::Verdict(word, rest) => format!("{word}{rest}"),
            CellValue::Figure { value, unit, .. } => unit.format(*value),
            CellValue::Number(value, Digits::Decimals(decimals)) => decimal(*value, usize::from(*decimals)),
            CellValue::Number(value, Digits::Three) => significant(*value),
            CellValue::Number(value, Digits::Four) => four_digits(*value),
            CellValue::Number(value, Digits::Signed) => signed(*value),
            CellValue::Count(count) | CellValue::Bytes(count) => grouped(*count as f64),
            CellValue::Limit(bound, limit, unit) => format!("{} {}", bound.sign(), unit.format(*limit)),
            CellValue::Missing => "–".into(),
            CellValue::NotStated => "not stated".into(),
        }
    }

    /// Returns the half width of the figure's interval as text, if it has one.
    pub(crate) fn interval(&self) -> Option<String> {
        match self.value {
            CellValue::Figure { unit, half_width: Some(half_width), .. } => Some(unit.half_width(half_width)),
            _ => None,
        }
    }

    /// Returns the interval, the rounded size, and the remark.
    pub fn remark(&self) -> String {
        let size = match self.value {
            CellValue::Bytes(bytes) if bytes >= 1024 => Some(human_bytes(bytes)),
            _ => None,
        };
        let remark = Some(self.remark.clone()).filter(|remark| !remark.is_empty());
        [self.interval(), size, remark].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// Returns the text for programs: a number has no separators, and a missing value is empty.
    pub fn machine_text(&self) -> String {
        match &self.value {
            CellValue::Figure { value, .. } => with_three_decimals(*value),
            CellValue::Number(value, Digits::Decimals(_) | Digits::Signed) => with_three_decimals(*value),
            CellValue::Number(value, _) => value.to_string(),
            CellValue::Count(count) | CellValue::Bytes(count) => count.to_string(),
            CellValue::Limit(bound, limit, _) => format!("{} {}", bound.sign(), plain(*limit)),
            CellValue::Missing => String::new(),
            _ => self.text(),
        }
    }

    /// Returns text and remark on one line.
    pub fn line(&self) -> String {
        let line = match self.remark().as_str() {
            "" => self.text(),
            remark => format!("{} ({remark})", self.text()),
        };
        line.replace(['\n', '\r'], " ")
    }
}

impl Default for ReportCell {
    fn default() -> ReportCell {
        ReportCell::from("")
    }
}

impl<T: Into<String>> From<T> for ReportCell {
    fn from(text: T) -> ReportCell {
        ReportCell::new(CellValue::Text(text.into()))
    }
}

/// A column of a report table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportColumn {
    /// Heading, including the unit.
    pub name: String,
    /// Alignment of the cells. Numbers are right-aligned.
    pub align: Align,
}

impl ReportColumn {
    /// Creates a column of text.
    pub fn text(name: impl Into<String>) -> ReportColumn {
        ReportColumn { name: name.into(), align: Align::Left }
    }

    /// Creates a column of numbers.
    pub fn numbers(name: impl Into<String>) -> ReportColumn {
        ReportColumn { name: name.into(), align: Align::Right }
    }

    pub(crate) fn is_number(&self) -> bool {
        self.align == Align::Right
    }
}

/// A table in a report. The first cell in each row is the row's name.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Creates a table with these columns.
    pub fn new(title: &str, columns: impl IntoIterator<Item = ReportColumn>) -> ReportTable {
        let columns = columns.into_iter().collect();
        ReportTable { title: title.into(), columns, ..ReportTable::default() }
    }

    /// Creates a table whose first column is text and whose other columns are numbers.
    pub fn numbers<'a>(title: &str, first: &str, others: impl IntoIterator<Item = &'a str>) -> ReportTable {
        let others = others.into_iter().map(ReportColumn::numbers);
        ReportTable::new(title, std::iter::once(ReportColumn::text(first)).chain(others))
    }

    /// Creates a table of text.
    pub fn text_columns(title: &str, columns: &[&str]) -> ReportTable {
        ReportTable::new(title, columns.iter().map(|name| ReportColumn::text(*name)))
    }

    /// Creates a table of names with their values.
    pub fn facts(title: &str) -> ReportTable {
        ReportTable { facts: true, ..ReportTable::text_columns(title, &["Name", "Value"]) }
    }

    /// Changes the alignment of some columns.
    #[must_use]
    pub fn aligned(mut self, columns: impl RangeBounds<usize>, align: Align) -> ReportTable {
        let columns = self.columns.iter_mut().enumerate().filter(|(at, _)| columns.contains(at));
        columns.for_each(|(_, column)| column.align = align);
        self
    }

    /// Adds a row.
    #[must_use]
    pub fn row(mut self, cells: Vec<ReportCell>) -> ReportTable {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.title);
        self.rows.push(cells);
        self
    }

    /// Adds a name and its value.
    #[must_use]
    pub fn fact(self, name: &str, value: impl Into<ReportCell>) -> ReportTable {
        self.row(vec![name.into(), value.into()])
    }

    /// Adds a name and its value if there is one.
    #[must_use]
    pub fn fact_if(self, name: &str, value: Option<impl Into<ReportCell>>) -> ReportTable {
        match value {
            Some(value) => self.fact(name, value),
            None => self,
        }
    }

    /// Adds rows.
    #[must_use]
    pub fn rows(self, rows: impl IntoIterator<Item = Vec<ReportCell>>) -> ReportTable {
        rows.into_iter().fold(self, ReportTable::row)
    }

    /// Adds rows of text.
    #[must_use]
    pub fn text_rows(self, rows: impl IntoIterator<Item = Vec<String>>) -> ReportTable {
        self.rows(rows.into_iter().map(|row| row.into_iter().map(ReportCell::from).collect()))
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> ReportTable {
        self.notes.push(note.into());
        self
    }

    /// Replaces the notes with `why` if the table has no rows.
    #[must_use]
    pub fn or_note(mut self, why: &str) -> ReportTable {
        if self.rows.is_empty() {
            self.notes = vec![why.into()];
        }
        self
    }
}
