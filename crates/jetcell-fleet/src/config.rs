//! `FLEET.toml`: the hosts in a fleet, and the test that each host runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_input::toml;
use jetcell_vfs::read_input;
use jetcell_workload::profile::Options;
use jetcell_workload::units::TimeSpan;
use jetcell_workload::{ConfigurationError, TestKind};
use serde::Deserialize;
use twox_hash::XxHash3_64;

use crate::message::Assignment;

/// A complete configuration file with comments.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Maximum size of a configuration file in bytes, well above any real configuration.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Maximum number of hosts. No test so far has had this many.
pub const MAX_HOSTS: u32 = 10_000;

/// Configuration for a test run by a fleet of hosts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetConfig {
    /// Name of the fleet: letters, digits, `-` and `_`. It is part of the message subjects.
    pub name: String,
    /// Kind of test that every host runs.
    #[serde(default)]
    pub test: TestKind,
    /// Number of hosts. Defaults to the number of `[[host]]` tables.
    #[serde(default)]
    hosts: Option<u32>,
    /// Directory for the results.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// Maximum time that the coordinator waits for all hosts to join.
    #[serde(default = "join_timeout")]
    pub join_timeout: TimeSpan,
    /// Time without a message after which a host is declared lost, if other hosts would have to wait for it.
    #[serde(default = "lost_after")]
    pub lost_after: TimeSpan,
    /// Time without a message from the coordinator after which a host ends its test.
    #[serde(default = "lease")]
    pub lease: TimeSpan,
    /// Time between all caches being warm and the start of the measurement.
    #[serde(default = "lead")]
    pub lead: TimeSpan,
    /// Heartbeat interval.
    #[serde(default = "beat")]
    pub beat: TimeSpan,
    /// Time for which each host measures its load alone, one host after another, before all hosts measure together.
    /// `None` means that no host measures alone.
    #[serde(default)]
    pub alone_first: Option<TimeSpan>,
    /// Test options for all hosts, with the same keys as a test configuration file.
    #[serde(default)]
    options: Options,
    /// Test options for individual hosts. They override the options for all hosts.
    #[serde(default)]
    host: Vec<HostSettings>,
    /// XXH3 checksum of the file's text.
    #[serde(skip)]
    pub digest: String,
}

/// Settings for one host.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostSettings {
    /// Rank of the host. Defaults to the position of the table in the file, starting at 0.
    #[serde(default)]
    rank: Option<u32>,
    /// Options for the host's test.
    #[serde(default)]
    options: Options,
}

fn join_timeout() -> TimeSpan {
    TimeSpan(Duration::from_secs(60))
}

fn lost_after() -> TimeSpan {
    TimeSpan(Duration::from_secs(15))
}

/// Returns the default lease. A server may be unreachable for one minute, so the lease is longer than that.
fn lease() -> TimeSpan {
    TimeSpan(Duration::from_secs(120))
}

fn lead() -> TimeSpan {
    TimeSpan(Duration::from_secs(2))
}

fn beat() -> TimeSpan {
    TimeSpan(Duration::from_millis(500))
}

impl FleetConfig {
    /// Reads and parses the file. Errors contain its path.
    pub fn read(path: &Path) -> Result<FleetConfig, ConfigurationError> {
        let source = format!("--config {}", path.display());
        let text = read_input(path, MAX_FILE_BYTES)
            .map_err(|error| ConfigurationError::for_io(format_args!("{source}: cannot be read"), error))?;
        FleetConfig::parse(&source, &text)
    }

    /// Parses the text of the file. Errors contain `source`.
    pub fn parse(source: &str, text: &str) -> Result<FleetConfig, ConfigurationError> {
        let mut config: FleetConfig = toml::parse(source, text)?;
        config.digest = format!("{:016x}", XxHash3_64::oneshot(text.as_bytes()));
        config.check().map_err(|error| error.at(format_args!("{source}: ")))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigurationError> {
        let wrong = |problem: String, advice: String| Err(ConfigurationError::new(problem).advise(advice));
        if !is_valid_name(&self.name) {
            return Err(ConfigurationError::new("name: write 1 to 64 letters, digits, - and _"));
        }
        let hosts = self.size();
        if hosts == 0 {
            return wrong(
                "the fleet does not have any hosts".into(),
                "set hosts = N, or add a [[host]] section for each host".into(),
            );
        }
        if hosts == 1 {
            return wrong(
                "a fleet needs at least two hosts".into(),
                format!("set hosts to 2 or more, or use jetcell test {}", self.test),
            );
        }
        if hosts > MAX_HOSTS {
            return wrong(
                format!("{hosts} hosts are too many"),
                format!("a fleet can have at most {MAX_HOSTS}"),
            );
        }
        let mut ranks = self.ranks();
        ranks.sort_unstable();
        if let Some(two) = ranks.windows(2).find(|two| two[0] == two[1]) {
            return wrong(
                format!("two [[host]] sections have rank {}", two[0]),
                "give each section a unique rank".into(),
            );
        }
        if let Some(rank) = ranks.iter().find(|rank| **rank >= hosts) {
            return wrong(
                format!("rank {rank} is out of range for {hosts} hosts"),
                format!("use a rank from 0 to {}", hosts - 1),
            );
        }
        for (name, span, shortest) in [
            ("beat", self.beat, 50),
            ("lead", self.lead, 500),
            ("lost_after", self.lost_after, 4 * self.beat.0.as_millis() as u64),
            ("lease", self.lease, 2 * self.lost_after.0.as_millis() as u64),
        ] {
            if span.0 < Duration::from_millis(shortest) {
                let least = TimeSpan(Duration::from_millis(shortest));
                return wrong(format!("{name}: {span} is too short"), format!("use at least {least}"));
            }
        }
        self.check_alone_first()?;
        // The test directories are on other hosts. This check only finds mistakes in the hosts' options before any host
        // is contacted.
        for rank in 0..hosts {
            let order = self.assignment(rank);
            if order.options.dirs.is_empty() {
                return wrong(
                    format!("the host with rank {rank} does not have a directory"),
                    "set options.dirs = [\"DIR\"]".into(),
                );
            }
            if let Err(mistakes) = order.options.resolve_for(self.test)
                && let Some(first) = mistakes.into_iter().next()
            {
                return Err(first.at(format_args!("the host with rank {rank}: ")));
            }
        }
        Ok(())
    }

    /// Checks that this kind of test supports measuring each host alone, if such measurements are requested.
    fn check_alone_first(&self) -> Result<(), ConfigurationError> {
        let Some(span) = self.alone_first else { return Ok(()) };
        let wrong = |problem: String, advice: &'static str| {
            Err(ConfigurationError::new(format!("alone_first: {problem}")).advise(advice))
        };
        if !matches!(self.test, TestKind::Performance | TestKind::Stress) {
            return wrong(
                format!("test {} does not have a load that can be measured alone", self.test),
                "omit it",
            );
        }
        if span.0 < Duration::from_secs(1) {
            return wrong(format!("{span} is too short"), "use at least 1s");
        }
        for rank in 0..self.size() {
            // Invalid option values are reported elsewhere, together with the option names.
            let profile = self.assignment(rank).options.resolve_for(self.test);
            if profile.is_ok_and(|profile| profile.find_max || profile.maintenance_impact) {
                return wrong(
                    format!(
                        "the host with rank {rank} alternates between measurements (find_max or \
                         maintenance_impact), which do not produce a single figure to compare"
                    ),
                    "omit one of the options",
                );
            }
        }
        Ok(())
    }

    /// Makes each host measure its load alone for `span` before the common measurement. `span` defaults to the duration
    /// of the longest test. Fails if this kind of test does not support measuring a load alone.
    pub fn measure_alone_first(&mut self, span: Option<TimeSpan>) -> Result<(), ConfigurationError> {
        let durations = (0..self.size())
            .filter_map(|rank| Some(self.assignment(rank).options.resolve_for(self.test).ok()?.duration));
        self.alone_first = span.or(durations.max_by_key(|span| span.0));
        self.check_alone_first()
    }

    fn ranks(&self) -> Vec<u32> {
        let numbered = self.host.iter().zip(0..);
        numbered.map(|(host, place)| host.rank.unwrap_or(place)).collect()
    }

    /// Returns the number of hosts.
    pub fn size(&self) -> u32 {
        self.hosts.unwrap_or(u32::try_from(self.host.len()).unwrap_or(u32::MAX))
    }

    /// Returns the assignment for a host.
    pub fn assignment(&self, rank: u32) -> Assignment {
        let own = self.ranks().iter().position(|one| *one == rank).map(|place| &self.host[place].options);
        let options = match own {
            Some(own) => own.clone().over(self.options.clone()),
            None => self.options.clone(),
        };
        Assignment { test: self.test, options: Box::new(options), alone: self.alone_first }
    }

    /// Returns true if all hosts have the same options, except for their directories.
    pub fn has_equal_options(&self) -> bool {
        let without_places = |rank| {
            let mut options = *self.assignment(rank).options;
            (options.dirs, options.log_dirs, options.output) = (Vec::new(), Vec::new(), None);
            options
        };
        let first = without_places(0);
        (1..self.size()).all(|rank| without_places(rank) == first)
    }
}

/// Returns true if the text is a valid fleet name. The name becomes part of message subjects and file names.
pub fn is_valid_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        let error = FleetConfig::parse("f.toml", text).unwrap_err();
        jetcell_input::with_advice(&error, error.advice())
    }

    #[test]
    fn host_options_override_global_options() {
        let config = FleetConfig::parse("f.toml", EXAMPLE).unwrap();
        assert_eq!(config.size(), 3);
        assert_eq!(config.assignment(0).options.dirs, ["/srv/jetcell".into()] as [PathBuf; 1]);
        assert_eq!(config.assignment(2).options.dirs, ["/mnt/fast".into()] as [PathBuf; 1]);
        assert_eq!(config.assignment(2).options.threads, Some(8));
        assert_eq!(config.assignment(2).options.duration, config.assignment(0).options.duration);
        assert!(!config.has_equal_options());
        let equal = "name='f'\nhosts=2\noptions.dirs=['/d']\n[[host]]\noptions.dirs=['/e']";
        assert!(FleetConfig::parse("f.toml", equal).unwrap().has_equal_options());
    }

    #[test]
    fn configuration_errors_name_the_problem() {
        let two = "hosts=2\noptions.dirs=['/d']\n";
        for (text, expected) in [
            ("hosts=2", "f.toml, line 1: missing key 'name'"),
            ("name='a.b'\nhosts=2\noptions.dirs=['/d']", "letters, digits"),
            ("name='f'\noptions.dirs=['/d']", "the fleet does not have any hosts"),
            ("name='f'\nhosts=1\noptions.dirs=['/d']", "a fleet needs at least two hosts"),
            ("name='f'\nhosts=10001\noptions.dirs=['/d']", "at most 10000"),
            ("name='f'\nhosts=2", "rank 0 does not have a directory"),
            (
                &format!("name='f'\n{two}nmae='g'"),
                "f.toml, line 4: unknown key 'nmae'; the nearest known key is 'name'",
            ),
            (&format!("name='f'\n{two}lease='1s'"), "lease: 1s is too short"),
            (&format!("name='f'\n{two}options.threads=0"), "rank 0: "),
            (&format!("name='f'\nalone_first='1ms'\n{two}"), "1ms is too short"),
            (
                &format!("name='f'\ntest='backup'\nalone_first='1m'\n{two}"),
                "does not have a load that can be measured alone",
            ),
            (&format!("name='f'\nalone_first='1m'\n{two}options.find_max=true"), "alternates"),
            (&format!("name='f'\n{two}[[host]]\nrank=1\n[[host]]"), "two [[host]] sections have rank 1"),
            (&format!("name='f'\n{two}[[host]]\nrank=2"), "rank 2 is out of range for 2 hosts"),
        ] {
            let found = mistake(text);
            assert!(found.contains(expected), "{text}: {found}");
        }
        assert!(FleetConfig::read(Path::new("/dev/zero")).is_err());
    }
}
