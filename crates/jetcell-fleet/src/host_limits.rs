//! Limits set by a host's administrator. Messages can only choose test options within these limits.

use std::io;
use std::path::{Component, Path, PathBuf};

use jetcell_workload::profile::{DatabaseSource, Options};
use jetcell_workload::units::{ByteSize, DatabaseSize};
use jetcell_workload::{Profile, TestKind};

use crate::host_error::HostRefusal;
use crate::message::Assignment;

/// Limits that a host's administrator sets for tests started by a coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLimits {
    /// Permitted directories. Every path to which a test writes must be below one of them.
    pub directories: Vec<PathBuf>,
    /// Maximum total size of all databases in bytes, including their growth and any copies.
    pub max_bytes: Option<u64>,
    /// Whether existing databases and results may be replaced.
    pub allow_replacing: bool,
}

impl HostLimits {
    /// Returns the profile for an assignment, or the reason why the assignment exceeds the limits.
    pub fn profile(&self, order: &Assignment) -> Result<Profile, HostRefusal> {
        let options: Options = (*order.options).clone();
        let profile = options.resolve_for(order.test).map_err(HostRefusal::Options)?;
        for path in output_directories(&profile) {
            self.check_directory(path)?;
        }
        if profile.source == DatabaseSource::Replace && !self.allow_replacing {
            return Err(HostRefusal::Force);
        }
        self.check_size(&profile)?;
        Ok(profile)
    }

    fn check_directory(&self, path: &Path) -> Result<(), HostRefusal> {
        if !path.is_absolute() {
            return Err(HostRefusal::RelativePath(path.into()));
        }
        let real = real_path(path).map_err(|error| HostRefusal::Io { path: path.into(), error })?;
        let below = self
            .directories
            .iter()
            .filter_map(|one| one.canonicalize().ok())
            .any(|one| real.starts_with(one));
        if below { Ok(()) } else { Err(HostRefusal::Directory(path.into())) }
    }

    fn check_size(&self, profile: &Profile) -> Result<(), HostRefusal> {
        let Some(most) = self.max_bytes else { return Ok(()) };
        let each = match profile.size {
            // The size of existing databases is not limited.
            _ if profile.source == DatabaseSource::Open => return Ok(()),
            DatabaseSize::Absolute(ByteSize(bytes)) => bytes,
            DatabaseSize::VolumePercent(_) => return Err(HostRefusal::PercentageSize),
        };
        let copies = match (profile.test, profile.reset) {
            (TestKind::Replication, _) => u64::from(profile.copies) + 2,
            (TestKind::Recovery, _) | (_, Some(_)) => 2,
            (TestKind::Backup, _) if profile.to.is_some() => 2,
            _ => 1,
        };
        let databases = profile.databases.unwrap_or(profile.dirs.len()) as u64;
        let grown = each.saturating_add((u128::from(each) * u128::from(profile.growth_percent) / 100) as u64);
        let wanted = grown.saturating_mul(databases).saturating_mul(copies);
        if wanted <= most {
            Ok(())
        } else {
            Err(HostRefusal::Size { needed: ByteSize(wanted), max: ByteSize(most) })
        }
    }
}

/// Returns every directory to which a test writes, omitting subdirectories of returned directories.
fn output_directories(profile: &Profile) -> impl Iterator<Item = &Path> {
    let own = profile.dirs.iter().chain(&profile.log_dirs).chain(&profile.copy_dirs);
    own.chain(&profile.to).chain(&profile.output).map(PathBuf::as_path)
}

/// Resolves symbolic links in the path to a directory that may not exist yet.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(io::Error::other("the path contains '..'"));
    }
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        match there.canonicalize() {
            Ok(real) => return Ok(missing.iter().rev().fold(real, |path, part| path.join(part))),
            // The target of a dangling link could later be created outside the permitted directories, so such a link is
            // rejected.
            Err(error) if there.symlink_metadata().is_ok() => return Err(error),
            Err(error) => {
                let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else {
                    return Err(error);
                };
                missing.push(name);
                there = parent;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn order(toml: &str) -> Assignment {
        Assignment {
            test: TestKind::Performance,
            options: Box::new(jetcell_input::toml::parse("a", toml).unwrap()),
            alone: None,
        }
    }

    #[test]
    fn a_test_stays_within_the_permitted_directories() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        symlink("/etc", inside.join("link")).unwrap();
        symlink("/nowhere", inside.join("dangling")).unwrap();
        let limits = HostLimits { directories: vec![inside.clone()], ..HostLimits::default() };
        let shown = inside.display();
        assert!(limits.profile(&order(&format!("dirs=['{shown}/new/deep']"))).is_ok());
        for outside in [
            format!("dirs=['{}']", dir.path().display()),
            format!("dirs=['{shown}/../other']"),
            format!("dirs=['{shown}/link/x']"),
            format!("dirs=['{shown}/dangling/x']"),
            format!("dirs=['{shown}-2']"),
            "dirs=['relative']".into(),
            "dirs=['array:a']".into(),
            format!("dirs=['{shown}']\nlog_dirs=['/var/lib']"),
            format!("dirs=['{shown}']\noutput='/etc/x'"),
            format!("dirs=['{shown}']\nforce=true"),
        ] {
            assert!(limits.profile(&order(&outside)).is_err(), "{outside}");
        }
        let nothing =
            HostLimits::default().profile(&order(&format!("dirs=['{shown}']"))).unwrap_err().reason();
        assert!(nothing.contains("--allow-dir"), "{nothing}");
        let replacing = HostLimits { allow_replacing: true, ..limits };
        assert!(replacing.profile(&order(&format!("dirs=['{shown}']\nforce=true"))).is_ok());
    }

    #[test]
    fn a_test_stays_within_the_permitted_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let most = |bytes| HostLimits {
            directories: vec![dir.path().into()],
            max_bytes: Some(bytes),
            allow_replacing: false,
        };
        let two = order(&format!(
            "dirs=['{}']\ndatabases=2\nsize='64MiB'\ngrowth_percent=25",
            dir.path().display()
        ));
        assert!(most(160 << 20).profile(&two).is_ok());
        let refused = most((160 << 20) - 1).profile(&two).unwrap_err().reason();
        assert!(refused.contains("160MiB") && refused.contains("--max-size"), "{refused}");
        let share = order(&format!("dirs=['{}']\nsize='80%'", dir.path().display()));
        assert!(most(u64::MAX).profile(&share).unwrap_err().to_string().contains("percentage of the volume"));
    }
}
