//! Tables that describe a run's machine.

use jetcell_host::Evidence;
use jetcell_host::machine::{BlockDevice, DirectoryStorage};
use jetcell_workload::profile::shell_word;
use jetcell_workload::result::RunResult;

use crate::number::bytes;
use crate::table::{ReportCell, ReportTable};

pub(super) fn machine(result: &RunResult) -> ReportTable {
    let Evidence { machine, build, command, .. } = &result.evidence;
    let features = match build.features.as_slice() {
        [] => String::new(),
        features => format!("features {}", features.join(", ")),
    };
    let parts = [&build.commit, &build.target, &build.profile, &features].map(String::as_str);
    let build: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let words: Vec<String> = command.iter().map(|word| shell_word(word)).collect();
    let or_missing = |text: String| if text.is_empty() { ReportCell::missing() } else { text.into() };
    ReportTable::facts("Machine")
        .fact("Build", or_missing(build.join(", ")))
        .fact("Command", or_missing(words.join(" ")))
        .fact("Kernel", machine.kernel.as_str())
        .fact("Processor", format!("{} × {}", machine.processors, machine.processor))
        .fact("Memory (bytes)", bytes(machine.memory_bytes))
}

pub(super) fn storage(result: &RunResult) -> ReportTable {
    let row = |storage: &DirectoryStorage| {
        let mount = storage.mount.as_ref();
        let device = storage.device.as_ref();
        let of_device =
            |value: fn(&BlockDevice) -> Option<&String>| device.and_then(value).cloned().unwrap_or_default();
        vec![
            storage.directory.display().to_string().into(),
            mount.map_or(String::new(), |mount| mount.file_system.clone()).into(),
            mount
                .map_or(String::new(), |mount| format!("{} on {}", mount.source, mount.point.display()))
                .into(),
            mount.map_or(String::new(), |mount| mount.options.clone()).into(),
            device.map_or(String::new(), describe).into(),
            of_device(|device| device.scheduler.as_ref()).into(),
            of_device(|device| device.write_cache.as_ref()).into(),
        ]
    };
    let columns =
        ["Directory", "File system", "Mount", "Mount options", "Device", "Scheduler", "Write cache"];
    ReportTable::text_columns("Storage", &columns)
        .rows(result.evidence.machine.storage.iter().map(row))
        .or_note("Unknown.")
}

fn describe(device: &BlockDevice) -> String {
    let kind = device.rotational.map(|rotational| if rotational { "rotational" } else { "not rotational" });
    let queue = device.queue_requests.map(|requests| format!("maximum of {requests} requests in the queue"));
    let parts = [Some(device.name.clone()), device.model.clone(), kind.map(str::to_string), queue];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
