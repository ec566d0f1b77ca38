//! Prints the result of an array command as text or as JSON.

use clap::Args;
use serde_json::Value;

use crate::console;

/// Output options of a command
#[derive(Args)]
pub struct OutputOptions {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl OutputOptions {
    /// Prints the value as JSON, or the text.
    pub fn print(&self, value: &Value, text: &str) {
        console::print_result(self.json, || value, || text.to_string());
    }
}
