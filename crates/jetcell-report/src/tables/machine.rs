//! Tables that describe a run's machine.

use jetcell_host::Evidence;
use jetcell_host::machine::{ArrayStorage, BlockDevice, DirectoryStorage};
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
        if let Some(array) = &storage.array {
            return array_row(storage, array);
        }
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

/// Returns the row of a directory whose files are on an array.
fn array_row(storage: &DirectoryStorage, array: &ArrayStorage) -> Vec<ReportCell> {
    let place = match &array.lun {
        Some(lun) => format!("LUN {lun} of the array {}", array.array.display()),
        None => format!("array {}", array.array.display()),
    };
    vec![
        storage.directory.display().to_string().into(),
        array.level_and_members().into(),
        place.into(),
        "".into(),
        std::iter::once(array.member_list())
            .chain(array.simulated_drive.clone())
            .collect::<Vec<_>>()
            .join("; ")
            .into(),
        "".into(),
        "".into(),
    ]
}

fn describe(device: &BlockDevice) -> String {
    let kind = device.rotational.map(|rotational| if rotational { "rotational" } else { "not rotational" });
    let queue = device.queue_requests.map(|requests| format!("maximum of {requests} requests in the queue"));
    let parts = [Some(device.name.clone()), device.model.clone(), kind.map(str::to_string), queue];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::result;

    #[test]
    fn an_array_is_shown_and_the_repeated_command_uses_it() {
        let mut run = result();
        let array = ArrayStorage {
            array: "/arr".into(),
            level: "raid6".into(),
            members: ["/m1", "/m2", "/m3", "/m4"].map(Into::into).to_vec(),
            lun: Some("mail".into()),
            simulated_drive: None,
        };
        assert!(run.repeatable_profile().to_command_line().contains("--dir /data "));
        run.evidence.machine.set_arrays(&[("/data".into(), array)]);
        let row: Vec<String> = storage(&run).rows[0].iter().map(ReportCell::text).collect();
        assert_eq!(row[1..3], ["raid6 of 4 members", "LUN mail of the array /arr"]);
        assert_eq!(row[4], "/m1, /m2, /m3, /m4");
        assert!(run.repeatable_profile().to_command_line().contains("--dir array:/data "));
        assert_eq!(run.repeatable_profile().to_toml().matches("array:/data").count(), 2);
    }
}
