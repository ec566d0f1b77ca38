//! Energy counters of processors (RAPL), from the kernel's `powercap` interface. Only root can read them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{MeterError, PowerError};

/// A RAPL domain and its counter, which wraps around.
struct RaplDomain {
    directory: PathBuf,
    /// Value at which the counter wraps around, in microjoules.
    range: u64,
    last: u64,
}

/// RAPL energy counters for all processor packages, and for their memory if it has a separate counter.
pub struct Rapl {
    domains: Vec<RaplDomain>,
    microjoules: u128,
}

impl Rapl {
    /// Opens the domains in a `powercap` directory.
    pub(crate) fn open(root: &Path) -> Result<Rapl, PowerError> {
        let mut domains = Vec::new();
        let mut refused = None;
        for directory in sorted_entries(root) {
            let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // `intel-rapl:0` is a package, and `intel-rapl:0:1` is a subdomain of it. The package includes cores and
            // graphics but not memory. `intel-rapl-mmio` repeats the same counters. `psys` includes all other
            // domains.
            let kind = fs::read_to_string(directory.join("name")).unwrap_or_default();
            let counted = kind.trim().starts_with("package") || kind.trim() == "dram";
            if !name.starts_with("intel-rapl:") || !counted {
                continue;
            }
            match read_number(&directory.join("energy_uj")) {
                Ok(last) => {
                    let range = read_number(&directory.join("max_energy_range_uj"))?;
                    domains.push(RaplDomain { directory, range, last });
                }
                Err(error) => refused = Some(error),
            }
        }
        match (domains.is_empty(), refused) {
            (_, Some(error)) => Err(PowerError::meter("rapl", MeterError::CounterNotRead(error.into()))),
            (true, None) => Err(PowerError::meter("rapl", MeterError::NoCounters)),
            (false, None) => Ok(Rapl { domains, microjoules: 0 }),
        }
    }

    /// Returns the energy used since the counters were opened, in joules. The counters must be read at least once per
    /// wraparound, which takes at least a minute. [`crate::PowerLog`] returns no energy for a log with a longer gap.
    pub(crate) fn read(&mut self) -> Result<f64, PowerError> {
        for domain in &mut self.domains {
            let now = read_number(&domain.directory.join("energy_uj"))?;
            let wrapped = if now < domain.last { domain.range } else { 0 };
            self.microjoules += u128::from((now + wrapped).saturating_sub(domain.last));
            domain.last = now;
        }
        Ok(self.microjoules as f64 / 1e6)
    }
}

/// Returns a directory's entries, sorted by name. The result is empty if the directory cannot be read.
pub(crate) fn sorted_entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Parses the number in a kernel file.
pub(crate) fn read_number(path: &Path) -> Result<u64, PowerError> {
    let text = fs::read_to_string(path).map_err(|error| PowerError::Io { path: path.into(), error })?;
    text.trim().parse().map_err(|_| PowerError::NotANumber(path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(root: &Path, name: &str, kind: &str, microjoules: u64) {
        let directory = root.join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("name"), format!("{kind}\n")).unwrap();
        fs::write(directory.join("max_energy_range_uj"), "1000000000\n").unwrap();
        fs::write(directory.join("energy_uj"), format!("{microjoules}\n")).unwrap();
    }

    #[test]
    fn packages_and_memory_are_counted_once_and_wraps_handled() {
        let root = tempfile::tempdir().unwrap();
        let set = |package: u64, memory: u64| {
            domain(root.path(), "intel-rapl:0", "package-0", package);
            domain(root.path(), "intel-rapl:0:0", "core", package / 2);
            domain(root.path(), "intel-rapl:0:1", "dram", memory);
            domain(root.path(), "intel-rapl:1", "psys", package * 3);
            domain(root.path(), "intel-rapl-mmio:0", "package-0", package);
        };
        set(900_000_000, 5_000_000);
        let mut rapl = Rapl::open(root.path()).unwrap();
        assert_eq!(rapl.read().unwrap(), 0.0);
        set(950_000_000, 6_000_000);
        assert_eq!(rapl.read().unwrap(), 51.0);
        // The package counter wraps around.
        set(20_000_000, 7_000_000);
        assert_eq!(rapl.read().unwrap(), 51.0 + 70.0 + 1.0);
    }

    #[test]
    fn a_machine_without_counters_gives_no_figure() {
        let root = tempfile::tempdir().unwrap();
        let said = Rapl::open(root.path()).err().unwrap().to_string();
        assert!(said.contains("does not expose RAPL counters"), "{said}");
        domain(root.path(), "intel-rapl:0", "package-0", 1);
        fs::remove_file(root.path().join("intel-rapl:0/energy_uj")).unwrap();
        assert!(Rapl::open(root.path()).err().unwrap().advice().unwrap().contains("requires root"));
    }
}
