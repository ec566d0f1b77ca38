//! Coefficients of the mailbox platforms. They are stored in `platforms.toml` together with their evidence. A
//! configuration selects a platform and can override any value.

use std::collections::BTreeMap;

use jetcell_input::{nearest, toml};
use serde::{Deserialize, Serialize};

use crate::error::SizingError;

/// Built-in platforms, with the evidence for every coefficient.
pub const PLATFORMS: &str = include_str!("platforms.toml");

macro_rules! coefficients {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Coefficients of a platform: the cost of one message or one mailbox.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Platform {
            $($(#[$doc])* pub $name: f64,)+
        }

        /// Coefficients of a platform that a configuration overrides.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct PlatformChanges {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<f64>,)+
        }

        impl Platform {
            /// Returns the coefficients with these overrides applied.
            #[must_use]
            pub fn with(mut self, changes: &PlatformChanges) -> Platform {
                $(self.$name = changes.$name.unwrap_or(self.$name);)+
                self
            }

            fn values(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

coefficients!(
    /// Database reads per second, per message per day.
    reads_per_message,
    /// Exponent of the cache size (MiB per mailbox) in the number of reads. It is negative or zero, so a larger cache
    /// reduces the reads.
    read_cache_exponent,
    /// Database writes per second, per message per day.
    writes_per_message,
    /// Cache per mailbox at zero messages per day, MiB.
    cache_base_mib,
    /// Cache per message per day, MiB.
    cache_per_message_mib,
    /// Maximum cache per mailbox, MiB.
    cache_most_mib,
    /// Log files of 1 MiB per message.
    logs_per_message,
    /// Log writes per database write.
    log_writes_per_write,
    /// Log reads per log write if databases have copies.
    log_reads_per_log_write,
    /// I/O of a passive copy, as a fraction of the I/O of the active copy.
    passive_io,
    /// Background maintenance I/O of one database copy, MB/s.
    maintenance_mb_s,
    /// Share of the quota that is reserved for single item recovery.
    item_recovery,
    /// Share of the quota that is reserved for calendar logging.
    calendar_logging,
    /// Size of the content index, as a fraction of the database.
    content_index,
    /// Maximum size of a database without copies, GiB.
    largest_database_gib,
    /// Maximum size of a database with copies, GiB.
    largest_replicated_gib,
    /// Memory in addition to the cache, GiB.
    memory_base_gib,
    /// Share of the memory above the base that the cache may use.
    cache_share_of_memory,
    /// Minimum memory, GiB.
    least_memory_gib,
    /// Database page size, KiB.
    page_kib,
);

impl Platform {
    /// Returns the built-in platform with this name.
    pub fn named(name: &str) -> Result<Platform, SizingError> {
        let platforms = all();
        platforms.get(name).cloned().ok_or_else(|| SizingError::UnknownPlatform {
            name: name.into(),
            nearest: nearest(name, platforms.keys().map(String::as_str)).map(str::to_owned),
            known: platforms.keys().cloned().collect(),
        })
    }

    /// Returns an error if a value is not valid for any platform.
    pub fn check(&self) -> Result<(), SizingError> {
        for (name, value) in self.values() {
            let good = match name {
                "read_cache_exponent" => (-2.0..=0.0).contains(&value),
                "cache_share_of_memory" => value > 0.0 && value <= 1.0,
                "largest_database_gib" | "largest_replicated_gib" | "page_kib" => {
                    (1.0..=1e9).contains(&value)
                }
                _ => (0.0..=1e9).contains(&value),
            };
            if !good {
                return Err(SizingError::Platform { name, value });
            }
        }
        Ok(())
    }
}

/// Returns all built-in platforms.
pub fn all() -> BTreeMap<String, Platform> {
    toml::parse("built-in platforms", PLATFORMS).expect("the built-in platforms are tested")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_platform_is_valid() {
        let platforms = all();
        assert_eq!(platforms.len(), 4);
        platforms.values().for_each(|platform| platform.check().unwrap());
    }

    #[test]
    fn a_changed_value_replaces_only_itself() {
        let base = Platform::named("exchange-2013").unwrap();
        let changes = PlatformChanges { maintenance_mb_s: Some(2.28), ..Default::default() };
        let changed = base.clone().with(&changes);
        assert_eq!(changed, Platform { maintenance_mb_s: 2.28, ..base });
        let negative = changed.with(&PlatformChanges { passive_io: Some(-1.0), ..Default::default() });
        assert!(negative.check().unwrap_err().to_string().contains("passive_io = -1"));
    }

    #[test]
    fn an_unknown_platform_name_suggests_the_most_similar_one() {
        let mistake = Platform::named("exchange-2031").unwrap_err().advice().unwrap();
        assert!(mistake.contains("did you mean \"exchange-2013\""), "{mistake}");
    }
}
