//! Checks of the processors, the memory, the clock, and the engine for asynchronous transfers.

use jetcell_input::number::human_bytes;
use jetcell_vfs::{Backend, RealOptions, RealVfs};

use super::observation::Observation;
use super::system_files::SystemFiles;
use crate::process::{field, kibibytes_field};

/// Heading for observations that do not belong to a directory.
pub(super) const MACHINE: &str = "Machine";

/// Maximum acceptable share of time, in percent, during which tasks of other programs wait for processors.
const MAX_PRESSURE: f64 = 10.0;

/// Clock sources that a process can read without a system call.
const FAST_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase"];

/// Examines processors, memory and clock.
pub(super) fn observe(files: &SystemFiles) -> Vec<Observation> {
    let mut all = vec![processors(files), frequency(files)];
    all.extend(other_load(files));
    all.extend(clock(files));
    all.extend(virtual_machine(files));
    all.extend(memory(files));
    all.extend(huge_pages(files));
    all
}

fn processors(files: &SystemFiles) -> Observation {
    let text = files.text("/proc/cpuinfo").unwrap_or_default();
    let model = field(&text, "model name").unwrap_or("processor of unknown model");
    let count = text.lines().filter(|line| line.starts_with("processor")).count();
    Observation::ok(MACHINE, "processors", format!("{} × {model}", count.max(1)))
}

fn frequency(files: &SystemFiles) -> Observation {
    const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
    let mut governors: Vec<String> = files
        .names(POLICIES)
        .iter()
        .filter_map(|policy| files.line(format!("{POLICIES}/{policy}/scaling_governor")))
        .collect();
    governors.sort();
    governors.dedup();
    match governors.as_slice() {
        [] => {
            Observation::information(MACHINE, "frequency", "not visible, as in most virtual machines", None)
        }
        [one] if one == "performance" => Observation::ok(MACHINE, "frequency", "governor performance"),
        _ => Observation::recommendation(
            MACHINE,
            "frequency",
            format!("governor {}: latencies include the time to raise the frequency", governors.join(", ")),
            "cpupower frequency-set -g performance",
        ),
    }
}

fn other_load(files: &SystemFiles) -> Option<Observation> {
    let share = files.pressure("cpu")?;
    let state = format!("tasks waited for a processor during {share:.1} % of the last 10 s");
    Some(if share > MAX_PRESSURE {
        let advice = "find other programs with top, and stop them; their load would distort the results of \
         a test";
        Observation::recommendation(MACHINE, "other programs", state, advice)
    } else {
        Observation::ok(MACHINE, "other programs", state)
    })
}

fn clock(files: &SystemFiles) -> Option<Observation> {
    let source = files.line("/sys/devices/system/clocksource/clocksource0/current_clocksource")?;
    Some(if FAST_CLOCKS.contains(&source.as_str()) {
        Observation::ok(MACHINE, "clock", source)
    } else {
        let state = format!("{source}: each reading of the clock is a system call and slows the load");
        Observation::recommendation(
            MACHINE,
            "clock",
            state,
            "boot with clocksource=tsc if the processor's counter is stable",
        )
    })
}

fn virtual_machine(files: &SystemFiles) -> Option<Observation> {
    let text = files.text("/proc/cpuinfo")?;
    let flags = field(&text, "flags")?;
    flags.split(' ').any(|flag| flag == "hypervisor").then(|| {
        let advice = "compare only runs on the same host, and repeat them";
        let state = "yes: the host can cache writes and share its devices with others";
        Observation::information(MACHINE, "virtual machine", state, Some(advice))
    })
}

fn memory(files: &SystemFiles) -> Vec<Observation> {
    let text = files.text("/proc/meminfo").unwrap_or_default();
    let bytes = |key| kibibytes_field(&text, key);
    let mut all = Vec::new();
    if let (Some(total), Some(available)) = (bytes("MemTotal"), bytes("MemAvailable")) {
        let state = format!("{} of {} available", human_bytes(available), human_bytes(total));
        all.push(Observation::ok(MACHINE, "memory", state));
    }
    if let (Some(total), Some(free)) = (bytes("SwapTotal"), bytes("SwapFree"))
        && total > 0
    {
        let used = total.saturating_sub(free);
        let state = format!("{} of {} in use", human_bytes(used), human_bytes(total));
        let advice = "the kernel can move the cache of a test to swap space; swapoff -a prevents that";
        all.push(Observation::information(MACHINE, "swap space", state, Some(advice)));
    }
    all
}

fn huge_pages(files: &SystemFiles) -> Option<Observation> {
    let setting = files.active_value("/sys/kernel/mm/transparent_hugepage/enabled")?;
    Some(if setting == "never" {
        let advice =
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled lets the cache use large pages";
        Observation::information(MACHINE, "huge pages", "never", Some(advice))
    } else {
        Observation::ok(MACHINE, "huge pages", setting)
    })
}

/// Examines whether transfers run on `io_uring`.
pub(super) fn observe_transfers(files: &SystemFiles) -> Option<Observation> {
    let options = RealOptions { backend: Backend::Uring, direct: true };
    Some(match RealVfs::new(options) {
        Ok(vfs) => Observation::ok(MACHINE, "transfers", vfs.backend_name()),
        Err(error) => {
            let state = format!("threads, because the kernel refuses io_uring: {error}");
            let disabled = files.line("/proc/sys/kernel/io_uring_disabled").filter(|value| value != "0");
            let advice = match disabled {
                Some(_) => "sysctl kernel.io_uring_disabled=0 allows io_uring",
                None => {
                    "a container's seccomp profile or an old kernel can be the reason; threads use more processor time"
                }
            };
            Observation::information(MACHINE, "transfers", state, Some(advice))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::observation::ObservationSeverity;
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn weight(all: &[Observation], subject: &str) -> Option<ObservationSeverity> {
        all.iter().find(|each| each.subject == subject).map(|each| each.weight)
    }

    #[test]
    fn settings_that_distort_measurements_get_advice() {
        let root = tempfile::tempdir().unwrap();
        let files = SystemFiles::from_root(root.path());
        write(root.path(), "sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n");
        write(root.path(), "sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
        write(root.path(), "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
        write(root.path(), "proc/pressure/cpu", "some avg10=40.00 avg60=1.00 total=5\n");
        write(root.path(), "proc/cpuinfo", "processor : 0\nmodel name : Test\nflags : fpu hypervisor\n");
        write(
            root.path(),
            "proc/meminfo",
            "MemTotal: 2048 kB\nMemAvailable: 1024 kB\nSwapTotal: 8 kB\nSwapFree: 4 kB\n",
        );
        let all = observe(&files);
        assert_eq!(weight(&all, "frequency"), Some(ObservationSeverity::Change));
        assert_eq!(weight(&all, "clock"), Some(ObservationSeverity::Change));
        assert_eq!(weight(&all, "other programs"), Some(ObservationSeverity::Change));
        assert_eq!(weight(&all, "huge pages"), Some(ObservationSeverity::Note));
        assert_eq!(weight(&all, "swap space"), Some(ObservationSeverity::Note));
        assert_eq!(weight(&all, "virtual machine"), Some(ObservationSeverity::Note));
        assert!(all.iter().any(|each| each.state == "1 × Test"));
    }

    #[test]
    fn good_settings_pass_and_missing_files_are_skipped() {
        let root = tempfile::tempdir().unwrap();
        let files = SystemFiles::from_root(root.path());
        write(root.path(), "sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n");
        write(root.path(), "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        let all = observe(&files);
        assert_eq!(weight(&all, "frequency"), Some(ObservationSeverity::Good));
        assert_eq!(weight(&all, "huge pages"), Some(ObservationSeverity::Good));
        assert_eq!(weight(&all, "clock"), None);
        assert_eq!(weight(&all, "swap space"), None);
    }
}
