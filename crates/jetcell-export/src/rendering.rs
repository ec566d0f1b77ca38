//! Choices about the form of values in the output.

/// Form of the values in the output. The default changes nothing that is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rendering {
    /// Write an apostrophe before CSV fields that a spreadsheet would take for a formula.
    pub csv_safe: bool,
}
