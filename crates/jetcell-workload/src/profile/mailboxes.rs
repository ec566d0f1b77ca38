//! The mailbox profile: derives a run's database sizes and target from a number of mailboxes. It corresponds to
//! Jetstress's test category "Exchange Mailbox Profile".

use serde::{Deserialize, Serialize};

use super::{ConfigurationError, Options};
use crate::units::{ByteSize, DatabaseSize};

/// Mailboxes that the storage must support.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MailboxRequirement {
    /// Number of mailboxes.
    pub count: u64,
    /// Database reads and writes per second for each mailbox.
    pub iops_each: f64,
    /// Size of each mailbox.
    pub quota: ByteSize,
}

impl MailboxRequirement {
    /// Returns the mailboxes given in the options, if any. The three mailbox options must be given together, and they
    /// replace two other options.
    pub(super) fn from_options(options: &Options) -> Result<Option<MailboxRequirement>, ConfigurationError> {
        let found = match (options.mailboxes, options.iops_per_mailbox, options.quota) {
            (None, None, None) => return Ok(None),
            (Some(count), Some(iops_each), Some(quota)) => MailboxRequirement { count, iops_each, quota },
            (count, iops, quota) => {
                let all = [
                    ("--mailboxes", count.is_some()),
                    ("--iops-per-mailbox", iops.is_some()),
                    ("--quota", quota.is_some()),
                ];
                let missing: Vec<&str> =
                    all.iter().filter(|(_, there)| !there).map(|(name, _)| *name).collect();
                let missing = missing.join(" and ");
                return Err(ConfigurationError::new("a mailbox profile needs three options")
                    .advise(format!("add {missing}")));
            }
        };
        let given = [("--size", options.size.is_some()), ("--target-iops", options.target_iops.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            return Err(ConfigurationError::new(format!("--mailboxes sets {option}"))
                .advise(format!("omit {option}")));
        }
        if found.count == 0 || found.quota.0 == 0 {
            return Err(ConfigurationError::new("--mailboxes and --quota cannot be zero")
                .advise("use values greater than 0"));
        }
        if !found.iops_each.is_finite() || found.iops_each <= 0.0 {
            return Err(ConfigurationError::new(format!(
                "--iops-per-mailbox {} is out of range",
                found.iops_each
            ))
            .advise("use a value greater than 0"));
        }
        Ok(Some(found))
    }

    /// Returns the database reads and writes per second for all mailboxes.
    pub fn target_iops(&self) -> f64 {
        self.count as f64 * self.iops_each
    }

    /// Returns the size of each database, given the number of databases. After growing by `growth_percent`, they hold
    /// all mailboxes.
    pub(super) fn database_size(&self, databases: usize, growth_percent: u32) -> DatabaseSize {
        let total =
            u128::from(self.count) * u128::from(self.quota.0) * 100 / u128::from(100 + growth_percent);
        let unit = ByteSize::mib(1).0;
        let mib = total.div_ceil(u128::from(unit) * databases.max(1) as u128);
        ByteSize(u64::try_from(mib).unwrap_or(u64::MAX).saturating_mul(unit)).into()
    }

    /// Returns how many mailboxes the given number of database reads and writes per second supports.
    pub fn supported_by(&self, iops: f64) -> u64 {
        (iops / self.iops_each) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(toml: &str) -> Options {
        toml::from_str(&format!("dirs=['d']\n{toml}")).unwrap()
    }

    #[test]
    fn the_published_case_gives_the_published_target_and_size() {
        // JS13 of the ESRP paper: 2,250 mailboxes of 1,000 MB at 0.12 IOPS, with a total database size of 1,794,836
        // MB.
        let toml = "mailboxes=2250\niops_per_mailbox=0.12\nquota='1000MiB'\ndatabases=5\ngrowth_percent=25";
        let profile = options(toml).resolve().unwrap();
        assert_eq!(profile.target_iops.map(f64::round), Some(270.0));
        assert_eq!(profile.size, ByteSize::mib(360_000).into());
        let mailboxes = profile.mailboxes.unwrap();
        assert_eq!(mailboxes.supported_by(285.979), 2383);
        // The configuration file written to repeat the run must resolve to the same profile.
        let again: Options = toml::from_str(&profile.to_toml()).unwrap();
        assert_eq!(again.resolve().unwrap(), profile);
    }

    #[test]
    fn a_search_has_no_target() {
        let profile =
            options("mailboxes=10\niops_per_mailbox=0.5\nquota='100MiB'\nfind_max=true").resolve().unwrap();
        assert_eq!((profile.target_iops, profile.size), (None, ByteSize::mib(800).into()));
    }

    #[test]
    fn incomplete_and_contradictory_options_are_refused() {
        let mistake = |toml: &str| {
            let found = options(toml).resolve().unwrap_err();
            assert_eq!(found.len(), 1, "{found:?}");
            jetcell_input::with_advice(&found[0], found[0].advice())
        };
        assert!(mistake("mailboxes=10").contains("add --iops-per-mailbox and --quota"));
        let all = "mailboxes=10\niops_per_mailbox=0.5\nquota='100MiB'\n";
        assert!(mistake(&format!("{all}size='1GiB'")).contains("omit --size"));
        assert!(mistake(&format!("{all}target_iops=5.0")).contains("omit --target-iops"));
        assert!(
            mistake("mailboxes=10\niops_per_mailbox=0.0\nquota='100MiB'")
                .contains("; use a value greater than 0")
        );
        assert!(
            mistake("mailboxes=0\niops_per_mailbox=0.1\nquota='100MiB'")
                .contains("use values greater than 0")
        );
    }
}
