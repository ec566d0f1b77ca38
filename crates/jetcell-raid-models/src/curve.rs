//! Curves that show the probability of loss as a function of one input.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::units::{Bytes, Hours};
use crate::{Assessment, Case, Error, Question, Scrub};

/// The input that varies along a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Number of data disks per group, at constant usable capacity.
    GroupSize,
    /// Mean time until a defect is discovered, in hours.
    Scrub,
    /// Mean restore time, in hours.
    Restore,
    /// Drive capacity in terabytes, at constant bandwidth and load.
    DiskSize,
}

impl Axis {
    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Axis::GroupSize => "group-size",
            Axis::Scrub => "scrub",
            Axis::Restore => "restore",
            Axis::DiskSize => "disk-size",
        }
    }

    /// Returns the label for a chart's axis.
    pub fn title(self) -> &'static str {
        match self {
            Axis::GroupSize => "data disks of a group, same usable capacity",
            Axis::Scrub => "mean time to discovery of a defect, hours",
            Axis::Restore => "mean time to restore, hours",
            Axis::DiskSize => "capacity of a drive, TB",
        }
    }

    /// Returns the default positions on the axis.
    fn values(self) -> &'static [f64] {
        match self {
            Axis::GroupSize => {
                &[1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 21.0, 24.0]
            }
            Axis::Scrub => &[6.0, 12.0, 24.0, 48.0, 96.0, 168.0, 336.0, 720.0, 1440.0, 4380.0, 8760.0],
            Axis::Restore => &[0.5, 1.0, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 168.0],
            Axis::DiskSize => &[0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 30.0],
        }
    }

    /// Returns this input's value in the question, if it has one.
    pub fn own(self, question: &Question, case: &Case) -> Option<f64> {
        match self {
            Axis::GroupSize => Some(f64::from(case.array.data_disks())),
            Axis::Scrub => case.rates.scrub.mean().map(Hours::get),
            Axis::Restore => case.rates.restore.mean().map(Hours::get),
            Axis::DiskSize => question.capacity.map(|capacity| capacity.get() / 1e12),
        }
    }

    /// Returns the question with this input set to another value.
    fn at(self, question: &Question, value: f64) -> Result<Question, Error> {
        let mut question = question.clone();
        match self {
            Axis::GroupSize => {
                let array = question.case()?.array.regrouped(question.case()?.array.raid(), value as u32)?;
                question.data_disks = Some(array.data_disks());
                (question.groups, question.drives) = (Some(array.groups()), None);
            }
            Axis::Scrub => {
                (question.scrub, question.scrub_pass) = (Some(Scrub::Mean(Hours::new(value)?)), None)
            }
            Axis::Restore => (question.restore, question.rebuild_rate) = (Some(Hours::new(value)?), None),
            Axis::DiskSize => {
                let derived = question.restore.is_none()
                    && (question.bandwidth.is_some() || question.rebuild_rate.is_some());
                if !derived || question.capacity.is_none() {
                    return Err(Error::Combination(
                        "a curve over disk size must derive the times from the size; give --capacity, \
                         --bandwidth and --load instead of --restore"
                            .into(),
                    ));
                }
                question.capacity = Some(Bytes::new(value * 1e12)?);
            }
        }
        Ok(question)
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Axis {
    type Err = Error;
    fn from_str(name: &str) -> Result<Axis, Error> {
        let all = [Axis::GroupSize, Axis::Scrub, Axis::Restore, Axis::DiskSize];
        let choices = "group-size, scrub, restore, disk-size";
        let found = all.into_iter().find(|axis| axis.name() == name);
        found.ok_or_else(|| Error::Unknown { what: "curve", name: name.into(), choices })
    }
}

crate::text::in_serde!(Axis);

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Position on the axis.
    pub at: f64,
    /// Number of drives in the array at this point.
    pub drives: u64,
    /// Probability that a group loses data.
    pub group_probability_of_loss: f64,
    /// Probability that the array loses data.
    pub probability_of_loss: f64,
}

/// Computes a question's curve along an axis.
pub fn curve(question: &Question, axis: Axis) -> Result<Vec<Point>, Error> {
    let largest = match axis {
        Axis::GroupSize => question.case()?.array.usable_disks() as f64,
        _ => f64::INFINITY,
    };
    let mut points = Vec::new();
    for &at in axis.values().iter().filter(|&&value| value <= largest) {
        let case = axis.at(question, at)?.case()?;
        let answer = Assessment::new(&case)?;
        points.push(Point {
            at,
            drives: case.array.drives(),
            group_probability_of_loss: answer.group.loss,
            probability_of_loss: answer.array.loss,
        });
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RaidType;

    fn points(raid: RaidType, axis: Axis) -> Vec<Point> {
        let question = Question {
            raid: Some(raid),
            data_disks: Some(7),
            groups: Some(6),
            capacity: (axis == Axis::DiskSize).then(|| "1TB".parse().unwrap()),
            bandwidth: (axis == Axis::DiskSize).then(|| "100MB/s".parse().unwrap()),
            ..Question::default()
        };
        curve(&question, axis).unwrap()
    }

    #[test]
    fn longer_scrubs_and_restores_and_larger_disks_and_groups_raise_the_loss() {
        for raid in [RaidType::Raid5, RaidType::Raid6, RaidType::TripleParity] {
            for axis in [Axis::Scrub, Axis::Restore, Axis::DiskSize, Axis::GroupSize] {
                let points = points(raid, axis);
                assert!(points.len() >= 8);
                let rises = points
                    .windows(2)
                    .all(|pair| pair[1].group_probability_of_loss > pair[0].group_probability_of_loss);
                assert!(rises, "{raid} {axis}");
            }
        }
    }

    #[test]
    fn a_curve_over_group_size_is_table_2_of_the_paper() {
        let points = points(RaidType::Raid5, Axis::GroupSize);
        for (at, drives, loss) in
            [(1.0, 84, 0.130075), (7.0, 48, 0.395716), (14.0, 45, 0.572296), (21.0, 44, 0.677593)]
        {
            let point = points.iter().find(|point| point.at == at).unwrap();
            assert_eq!(point.drives, drives);
            assert!((point.probability_of_loss / loss - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn a_curve_over_disk_size_needs_a_drive() {
        assert!(curve(&Question::default(), Axis::DiskSize).is_err());
    }
}
