//! Limits on the process: control group limits and resource limits.

use std::path::{Path, PathBuf};

use jetcell_input::number::human_bytes;
use rustix::process::{Resource, getrlimit};

use super::machine::MACHINE;
use super::observation::Observation;
use super::system_files::SystemFiles;

/// Recommended minimum for the limit on open files. A test with many databases opens about ten files per database.
const MIN_OPEN_FILES: u64 = 1024;

/// Examines the limits.
pub(super) fn observe(files: &SystemFiles) -> Vec<Observation> {
    let mut all = control_groups(files);
    if all.is_empty() {
        all.push(Observation::ok(MACHINE, "control groups", "no limits"));
    }
    all.extend(resource_limits());
    all
}

/// Examines this process's control group and its parents (cgroup version 2). The lowest limit applies, so all limits
/// are shown.
fn control_groups(files: &SystemFiles) -> Vec<Observation> {
    let own = files.text("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").trim().to_string();
    let mut all = Vec::new();
    for group in Path::new(&own).ancestors() {
        let directory = Path::new("/sys/fs/cgroup").join(group.strip_prefix("/").unwrap_or(group));
        all.extend(limits_of(files, &directory, group));
    }
    all
}

fn limits_of(files: &SystemFiles, directory: &Path, group: &Path) -> Vec<Observation> {
    let name = group.display();
    let value =
        |file: &str| files.line(PathBuf::from(directory).join(file)).filter(|text| !text.starts_with("max"));
    let mut all = Vec::new();
    if let Some((quota, period)) = value("cpu.max").as_deref().and_then(|text| text.split_once(' '))
        && let (Ok(quota), Ok(period)) = (quota.parse::<f64>(), period.parse::<f64>())
        && period > 0.0
    {
        let state = format!("control group {name}: {:.2} processors", quota / period);
        let advice = "raise cpu.max; a test that reaches the limit stalls for milliseconds";
        all.push(Observation::recommendation(MACHINE, "processor limit", state, advice));
    }
    if let Some(bytes) = value("memory.max").and_then(|text| text.parse().ok()) {
        let state = format!("control group {name}: {}", human_bytes(bytes));
        let advice = "the cache of a test plus 64 MiB must fit; pages of buffered files are also counted";
        all.push(Observation::information(MACHINE, "memory limit", state, Some(advice)));
    }
    if let Some(text) = value("io.max") {
        let state = format!("control group {name}: {}", text.replace('\n', "; "));
        let advice = "remove io.max; otherwise a test measures this limit instead of the storage";
        all.push(Observation::recommendation(MACHINE, "I/O limit", state, advice));
    }
    all
}

fn resource_limits() -> Vec<Observation> {
    let mut all = Vec::new();
    let open_files = getrlimit(Resource::Nofile);
    match open_files.current {
        Some(limit) if limit < MIN_OPEN_FILES => {
            let state = format!("limit of {limit}");
            all.push(Observation::recommendation(
                MACHINE,
                "open files",
                state,
                format!("ulimit -n {MIN_OPEN_FILES}"),
            ));
        }
        Some(limit) => all.push(Observation::ok(MACHINE, "open files", format!("limit of {limit}"))),
        None => all.push(Observation::ok(MACHINE, "open files", "no limit")),
    }
    for (resource, subject, command) in [
        (Resource::Fsize, "file size", "ulimit -f unlimited"),
        (Resource::As, "address space", "ulimit -v unlimited"),
    ] {
        if let Some(limit) = getrlimit(resource).current {
            let state = format!("limit of {}", human_bytes(limit));
            all.push(Observation::recommendation(MACHINE, subject, state, command));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::observation::ObservationSeverity;
    use super::*;

    #[test]
    fn limits_from_all_ancestor_control_groups_are_shown() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", "1:name=systemd:/\n0::/user.slice/test.scope\n");
        write("sys/fs/cgroup/user.slice/test.scope/cpu.max", "150000 100000\n");
        write("sys/fs/cgroup/user.slice/test.scope/memory.max", "max\n");
        write("sys/fs/cgroup/user.slice/memory.max", "1073741824\n");
        write("sys/fs/cgroup/io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=max\n");
        let all = control_groups(&SystemFiles::from_root(root.path()));
        let shown: Vec<_> = all.iter().map(|each| (each.weight, each.state.as_str())).collect();
        let expected = [
            (ObservationSeverity::Change, "control group /user.slice/test.scope: 1.50 processors"),
            (ObservationSeverity::Note, "control group /user.slice: 1.00 GiB"),
            (ObservationSeverity::Change, "control group /: 8:0 rbps=1048576 wbps=max riops=max wiops=max"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn no_control_groups_give_no_limits() {
        let root = tempfile::tempdir().unwrap();
        assert!(control_groups(&SystemFiles::from_root(root.path())).is_empty());
    }
}
