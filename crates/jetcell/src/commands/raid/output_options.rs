//! Prints the result of an array command as text or as JSON.

use clap::Args;
use jetcell_array::{MemberTransferCounters, TransferCounters};
use serde_json::{Value, json};

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

/// Returns the members' transfers, grouped by purpose.
pub fn transfers_json(members: &MemberTransferCounters) -> Value {
    let of_purpose = |(name, transfers): (&str, TransferCounters)| {
        let TransferCounters { reads, blocks_read, writes, blocks_written } = transfers;
        let value = json!({ "reads": reads, "blocks_read": blocks_read, "writes": writes, "blocks_written": blocks_written });
        (name.to_string(), value)
    };
    Value::Object(members.by_purpose().map(of_purpose).into_iter().collect())
}
