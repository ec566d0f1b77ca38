//! Output of `--version`: the program, the file formats that it reads and writes, and its build.

use std::sync::LazyLock;

use ese_format::header::{DATABASE_UPDATE, DATABASE_VERSION};
use ese_format::log::header::LOG_VERSION;
use jetcell_host::BuildInfo;

/// Returns the text that follows the program name. Clap requires a static lifetime.
pub fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    &TEXT
}

/// Returns information about this build, for the evidence in results.
pub fn build() -> BuildInfo {
    BuildInfo {
        commit: env!("JETCELL_COMMIT").into(),
        target: env!("JETCELL_TARGET").into(),
        profile: env!("JETCELL_PROFILE").into(),
        features: features(),
    }
}

fn text() -> String {
    let (major, minor, update, _) = LOG_VERSION;
    let commit = match env!("JETCELL_COMMIT") {
        "" => "not from a checkout",
        commit => commit,
    };
    format!(
        "{}\n\
         database format: {DATABASE_VERSION:#x},{DATABASE_UPDATE} (reads and writes)\n\
         log format:      {major}.{minor}.{update} (reads and writes)\n\
         build:           {commit}, {}, {}\n\
         features:        {}",
        env!("CARGO_PKG_VERSION"),
        env!("JETCELL_TARGET"),
        env!("JETCELL_PROFILE"),
        if features().is_empty() { "none".to_string() } else { features().join(", ") },
    )
}

/// Lists the Cargo features of this build.
fn features() -> Vec<String> {
    let all = [
        ("arrays", cfg!(feature = "arrays")),
        ("fleet", cfg!(feature = "fleet")),
        ("lab", cfg!(feature = "lab")),
        ("live", cfg!(feature = "live")),
        ("parquet", cfg!(feature = "parquet")),
        ("sizing", cfg!(feature = "sizing")),
        ("sqlite", cfg!(feature = "sqlite")),
        ("tls", cfg!(feature = "tls")),
        ("zst", cfg!(feature = "zst")),
    ];
    all.iter().filter(|(_, built)| *built).map(|(name, _)| (*name).to_string()).collect()
}
