//! Power sensors of the kernel's hardware monitor.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::PowerError;
use crate::rapl::{entries, number};

/// A sensor.
pub struct Hwmon {
    file: PathBuf,
}

impl Hwmon {
    /// The names of the chips that have a sensor of power.
    pub(crate) fn chips(root: &Path) -> Vec<String> {
        sensors(root).into_iter().map(|(name, _)| name).collect()
    }

    /// Opens the sensor of a chip, or the only one.
    pub(crate) fn open(root: &Path, chip: Option<&str>) -> Result<Hwmon, PowerError> {
        let mut found = sensors(root);
        let names = found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        found.retain(|(name, _)| chip.is_none_or(|chip| chip == name));
        let what = match (found.len(), chip) {
            (1, _) => {
                let (_, file) = found.remove(0);
                number(&file)?;
                return Ok(Hwmon { file });
            }
            (0, None) => "this machine has no sensor of power".to_string(),
            (0, Some(chip)) => format!("there is no chip {chip} with a sensor of power; there are: {names}"),
            _ => format!("there are several, name one, for example hwmon={}: {names}", found[0].0),
        };
        Err(PowerError::meter("hwmon", what))
    }

    /// Watts.
    pub(crate) fn read(&self) -> Result<f64, PowerError> {
        Ok(number(&self.file)? as f64 / 1e6)
    }
}

/// Chips and their sensors of power in microwatts. The average of the sensor is preferred to its value of the moment.
fn sensors(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for chip in entries(root) {
        let name = fs::read_to_string(chip.join("name")).unwrap_or_default().trim().to_string();
        let files = ["power1_average", "power1_input"].map(|file| chip.join(file));
        found.extend(files.into_iter().find(|file| file.exists()).map(|file| (name, file)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sensor_is_taken_and_of_several_one_must_be_named() {
        let root = tempfile::tempdir().unwrap();
        let chip = |directory: &str, name: &str, file: &str, microwatts: &str| {
            let directory = root.path().join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("name"), name).unwrap();
            fs::write(directory.join(file), microwatts).unwrap();
        };
        chip("hwmon0", "coretemp\n", "temp1_input", "40000\n");
        let said = |chip| Hwmon::open(root.path(), chip).err().unwrap().to_string();
        assert!(said(None).contains("no sensor of power"));
        chip("hwmon1", "power_meter\n", "power1_average", "123500000\n");
        assert_eq!(Hwmon::open(root.path(), None).unwrap().read().unwrap(), 123.5);
        chip("hwmon2", "nvme\n", "power1_input", "4000000\n");
        assert!(said(None).contains("name one"));
        assert!(said(Some("amd")).contains("power_meter, nvme"));
        assert_eq!(Hwmon::open(root.path(), Some("nvme")).unwrap().read().unwrap(), 4.0);
        fs::write(root.path().join("hwmon2/power1_input"), "?").unwrap();
        assert!(said(Some("nvme")).contains("not a number"));
    }
}
