//! The catalogue of disks, a TOML file. Users can add entries, or replace entries by name.

use jetcell_input::toml;
use serde::{Deserialize, Serialize};

use crate::error::SizingError;
use crate::units::{DataRate, DataSize, Share};

/// Built-in catalogue. Its comments document the format.
pub const DEFAULT_DISKS: &str = include_str!("disks.toml");

/// A kind of disk in the disk catalogue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueDisk {
    /// Name used in configurations.
    pub name: String,
    /// Storage technology: rotating disk or flash.
    pub kind: DiskTechnology,
    /// Nominal capacity.
    pub capacity: DataSize,
    /// Small random reads and writes per second at an average latency of 20 ms.
    pub random_iops: f64,
    /// Rate of long transfers.
    pub sequential: DataRate,
    /// Power of the drive alone under load, W.
    pub watts: f64,
    /// Price, in the same currency for all disks.
    pub price: f64,
    /// Failures per drive and year.
    pub failure_rate: Share,
    /// Source of the numbers.
    #[serde(default)]
    pub source: String,
}

/// A disk's storage technology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskTechnology {
    /// Rotating disk.
    Hdd,
    /// Flash drive.
    Ssd,
}

/// A catalogue of disks, keyed by name.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskCatalogue {
    disks: Vec<CatalogueDisk>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskCatalogueFile {
    #[serde(default)]
    disk: Vec<CatalogueDisk>,
}

impl DiskCatalogue {
    /// Returns the built-in catalogue.
    pub fn built_in() -> DiskCatalogue {
        let mut catalogue = DiskCatalogue { disks: Vec::new() };
        catalogue.add_file("built-in catalogue", DEFAULT_DISKS).expect("the built-in catalogue is tested");
        catalogue
    }

    /// Adds the disks in a file. A disk with an existing name replaces that entry.
    pub fn add_file(&mut self, file: &str, text: &str) -> Result<(), SizingError> {
        let DiskCatalogueFile { disk } = toml::parse(file, text)?;
        if disk.is_empty() {
            let mistake = SizingError::Empty { key: "disk", content: "at least one [[disk]] section" };
            return Err(SizingError::File { file: file.into(), mistake: Box::new(mistake) });
        }
        self.add(disk)
    }

    /// Adds disks. A disk with an existing name replaces that entry.
    pub fn add(&mut self, disks: Vec<CatalogueDisk>) -> Result<(), SizingError> {
        for disk in disks {
            disk.check()?;
            self.disks.retain(|known| known.name != disk.name);
            self.disks.push(disk);
        }
        Ok(())
    }

    /// Returns the disk with this name.
    pub fn find(&self, name: &str) -> Result<&CatalogueDisk, SizingError> {
        self.disks.iter().find(|disk| disk.name == name).ok_or_else(|| SizingError::UnknownDisk {
            name: name.into(),
            known: self.disks.iter().map(|disk| disk.name.clone()).collect(),
        })
    }

    /// Returns all disks.
    pub fn disks(&self) -> &[CatalogueDisk] {
        &self.disks
    }
}

impl CatalogueDisk {
    fn check(&self) -> Result<(), SizingError> {
        let wrong = |key, value, rule| Err(SizingError::Disk { disk: self.name.clone(), key, value, rule });
        for (key, value) in [
            ("capacity", self.capacity.0),
            ("random_iops", self.random_iops),
            ("sequential", self.sequential.0),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return wrong(key, value, "more than 0");
            }
        }
        for (key, value) in [("watts", self.watts), ("price", self.price)] {
            if !(value >= 0.0 && value.is_finite()) {
                return wrong(key, value, "0 or more");
            }
        }
        Ok(())
    }

    /// Returns the random I/O per second at a different average latency. In a single-server queue with random
    /// arrivals, the mean response time is `1 / (1/service - rate)`. The rate for a response time of `latency` is
    /// therefore `1/service - 1/latency`. The result is negative if the disk cannot reach the latency at any rate.
    pub fn iops_at(&self, latency_s: f64) -> f64 {
        self.random_iops + 1.0 / 0.020 - 1.0 / latency_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_disk_adds_to_the_catalogue_or_replaces() {
        let mut catalogue = DiskCatalogue::built_in();
        let before = catalogue.disks().len();
        let text = DEFAULT_DISKS.replace("7.2k 8TB", "mine").replace("price = 90", "price = 91");
        catalogue.add_file("mine.toml", &text).unwrap();
        assert_eq!(catalogue.disks().len(), before + 1);
        assert_eq!(catalogue.find("7.2k 2TB").unwrap().price, 91.0);
        assert!(catalogue.find("none").unwrap_err().advice().unwrap().contains("\"SSD 3.84TB\""));
    }

    #[test]
    fn invalid_disks_give_a_one_line_error() {
        for (from, to, why) in [
            ("random_iops = 57", "random_iops = 0", "random_iops = 0 must be more than 0"),
            ("random_iops = 57", "random_iops = nan", "random_iops = NaN must be more than 0"),
            ("price = 210", "price = -1", "price = -1 must be 0 or more"),
            ("capacity = \"8TB\"", "capacity = 8", "'8' has no unit"),
            ("watts = 8.0", "wats = 8.0", "unknown key 'wats'; the nearest known key is 'watts'"),
        ] {
            let text = DEFAULT_DISKS.replacen(from, to, 1);
            let error = DiskCatalogue::built_in().add_file("mine.toml", &text).unwrap_err();
            let mistake = format!("{error}; {}", error.advice().unwrap_or_default());
            assert!(mistake.contains(why), "{mistake}");
            assert!(!mistake.contains('\n'), "{mistake}");
        }
    }

    #[test]
    fn a_lower_latency_allows_fewer_operations() {
        let disk = DiskCatalogue::built_in().find("15k 600GB").unwrap().clone();
        assert_eq!(disk.iops_at(0.020), disk.random_iops);
        assert!((disk.iops_at(0.010) - (disk.random_iops - 50.0)).abs() < 1e-9);
        assert!(disk.iops_at(0.001) < 0.0);
    }
}
