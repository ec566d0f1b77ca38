//! Power sensors of the kernel's hardware monitor (hwmon).

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{MeterError, PowerError};
use crate::rapl::{read_number, sorted_entries};

/// A power sensor in the hardware monitor (`hwmon`).
pub struct Hwmon {
    file: PathBuf,
}

impl Hwmon {
    /// Returns the chips that have a power sensor, each with a unique name.
    pub(crate) fn chips(root: &Path) -> Vec<String> {
        let found = sensors(root);
        found.iter().map(|sensor| sensor.unique(&found)).collect()
    }

    /// Opens a sensor. If `chip` is `None`, the machine must have exactly one sensor. Otherwise `chip` is a chip
    /// name, a directory name (`hwmon2`) if several chips have the same name, or the path of the directory or sensor
    /// file.
    pub(crate) fn open(root: &Path, chip: Option<&str>) -> Result<Hwmon, PowerError> {
        if let Some(path) = chip.filter(|chip| chip.contains('/')).map(Path::new) {
            let file = if path.is_dir() { sensor_in(path) } else { Some(path.to_path_buf()) };
            let file = file.ok_or_else(|| PowerError::meter("hwmon", MeterError::NoSensorIn(path.into())))?;
            read_number(&file)?;
            return Ok(Hwmon { file });
        }
        let found = sensors(root);
        let available = || found.iter().map(|sensor| sensor.unique(&found)).collect();
        let is_named = |sensor: &&PowerSensor| {
            chip.is_none_or(|chip| {
                sensor.name == chip || sensor.directory == chip || sensor.unique(&found) == chip
            })
        };
        let fits: Vec<&PowerSensor> = found.iter().filter(is_named).collect();
        let error = match (&fits[..], chip) {
            ([one], _) => {
                read_number(&one.file)?;
                return Ok(Hwmon { file: one.file.clone() });
            }
            ([], None) => MeterError::NoSensor,
            ([], Some(chip)) => MeterError::UnknownChip { chip: chip.into(), available: available() },
            ([first, ..], _) => {
                MeterError::SeveralSensors { available: available(), first: first.unique(&found) }
            }
        };
        Err(PowerError::meter("hwmon", error))
    }

    /// Returns the power in watts.
    pub(crate) fn read(&self) -> Result<f64, PowerError> {
        Ok(read_number(&self.file)? as f64 / 1e6)
    }
}

/// A chip with a power sensor.
struct PowerSensor {
    /// Name of the chip. Chips of the same type have the same name.
    name: String,
    /// Name of the chip's directory, which is unique.
    directory: String,
    file: PathBuf,
}

impl PowerSensor {
    /// Returns a name that is unique among these chips.
    fn unique(&self, all: &[PowerSensor]) -> String {
        match all.iter().filter(|other| other.name == self.name).count() {
            0 | 1 => self.name.clone(),
            _ => self.directory.clone(),
        }
    }
}

fn sensors(root: &Path) -> Vec<PowerSensor> {
    let sensor = |chip: PathBuf| {
        let name = fs::read_to_string(chip.join("name")).unwrap_or_default().trim().to_string();
        let directory = chip.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(PowerSensor { name, directory, file: sensor_in(&chip)? })
    };
    sorted_entries(root).into_iter().filter_map(sensor).collect()
}

/// Returns the power sensor file of a chip, which contains microwatts. Prefers the sensor's average to its current
/// value.
fn sensor_in(chip: &Path) -> Option<PathBuf> {
    ["power1_average", "power1_input"].map(|file| chip.join(file)).into_iter().find(|file| file.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_sensor_is_the_default_and_several_need_names() {
        let root = tempfile::tempdir().unwrap();
        let chip = |directory: &str, name: &str, file: &str, microwatts: &str| {
            let directory = root.path().join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("name"), name).unwrap();
            fs::write(directory.join(file), microwatts).unwrap();
        };
        chip("hwmon0", "coretemp\n", "temp1_input", "40000\n");
        let said = |chip| Hwmon::open(root.path(), chip).err().unwrap().to_string();
        assert!(said(None).contains("does not have a power sensor"));
        chip("hwmon1", "power_meter\n", "power1_average", "123500000\n");
        assert_eq!(Hwmon::open(root.path(), None).unwrap().read().unwrap(), 123.5);
        chip("hwmon2", "nvme\n", "power1_input", "4000000\n");
        let advice = |chip| Hwmon::open(root.path(), chip).err().unwrap().advice().unwrap();
        assert!(advice(None).contains("choose one"));
        assert!(advice(Some("amd")).contains("power_meter, nvme"));
        assert_eq!(Hwmon::open(root.path(), Some("nvme")).unwrap().read().unwrap(), 4.0);
        fs::write(root.path().join("hwmon2/power1_input"), "?").unwrap();
        assert!(said(Some("nvme")).contains("not a number"));
    }

    #[test]
    fn chips_with_the_same_name_are_distinguished() {
        let root = tempfile::tempdir().unwrap();
        for (directory, microwatts) in [("hwmon3", "4000000\n"), ("hwmon7", "5500000\n")] {
            let directory = root.path().join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("name"), "nvme\n").unwrap();
            fs::write(directory.join("power1_input"), microwatts).unwrap();
            fs::write(directory.join("power2_input"), "1000000\n").unwrap();
        }
        let said = Hwmon::open(root.path(), Some("nvme")).err().unwrap().advice().unwrap();
        assert!(said.contains("choose one, for example hwmon=hwmon3: hwmon3, hwmon7"), "{said}");
        assert_eq!(Hwmon::chips(root.path()), ["hwmon3", "hwmon7"]);
        let watts = |chip: &str| Hwmon::open(root.path(), Some(chip)).unwrap().read().unwrap();
        assert_eq!((watts("hwmon3"), watts("hwmon7")), (4.0, 5.5));
        let path = |name: &str| root.path().join(name).display().to_string();
        assert_eq!((watts(&path("hwmon7")), watts(&path("hwmon7/power2_input"))), (5.5, 1.0));
        assert!(Hwmon::open(root.path(), Some(&path("none"))).is_err());
    }
}
