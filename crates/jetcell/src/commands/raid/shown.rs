//! The result of a command on an array, as text or as JSON.

use clap::Args;
use serde_json::Value;

use crate::console;

/// How a command shows its result
#[derive(Args)]
pub struct Shown {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl Shown {
    /// Prints one of the two.
    pub fn print(&self, value: &Value, text: &str) {
        let line = if self.json { value.to_string() } else { text.to_string() };
        console::answer(self.json, &(line + "\n"));
    }
}
