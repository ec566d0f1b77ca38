//! Curves that show the probability of loss as a function of one input.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::units::{Bytes, Hours};
use crate::{Error, ReliabilityAssessment, ReliabilityCase, ReliabilityInputs, ScrubPolicy};

/// The input that varies along a reliability curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurveAxis {
    /// Number of data disks per group, at constant usable capacity.
    GroupSize,
    /// Mean time until a defect is discovered, in hours.
    Scrub,
    /// Mean restore time, in hours.
    Restore,
    /// Drive capacity in terabytes, at constant bandwidth and load.
    DiskSize,
}

impl CurveAxis {
    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            CurveAxis::GroupSize => "group-size",
            CurveAxis::Scrub => "scrub",
            CurveAxis::Restore => "restore",
            CurveAxis::DiskSize => "disk-size",
        }
    }

    /// Returns the label for a chart's axis.
    pub fn title(self) -> &'static str {
        match self {
            CurveAxis::GroupSize => "data disks of a group, same usable capacity",
            CurveAxis::Scrub => "mean time to discovery of a defect, hours",
            CurveAxis::Restore => "mean time to restore, hours",
            CurveAxis::DiskSize => "capacity of a drive, TB",
        }
    }

    /// Returns the default positions on the axis.
    fn values(self) -> &'static [f64] {
        match self {
            CurveAxis::GroupSize => {
                &[1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 21.0, 24.0]
            }
            CurveAxis::Scrub => &[6.0, 12.0, 24.0, 48.0, 96.0, 168.0, 336.0, 720.0, 1440.0, 4380.0, 8760.0],
            CurveAxis::Restore => &[0.5, 1.0, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 168.0],
            CurveAxis::DiskSize => &[0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 30.0],
        }
    }

    /// Returns the value of this axis, if the inputs determine it.
    pub fn value_in(self, question: &ReliabilityInputs, case: &ReliabilityCase) -> Option<f64> {
        match self {
            CurveAxis::GroupSize => Some(f64::from(case.array.data_disks())),
            CurveAxis::Scrub => case.rates.scrub.mean().map(Hours::get),
            CurveAxis::Restore => case.rates.restore.mean().map(Hours::get),
            CurveAxis::DiskSize => question.capacity.map(|capacity| capacity.get() / 1e12),
        }
    }

    /// Returns a copy of the inputs in which the input on this axis is `value`.
    fn apply_to(self, question: &ReliabilityInputs, value: f64) -> Result<ReliabilityInputs, Error> {
        let mut question = question.clone();
        match self {
            CurveAxis::GroupSize => {
                let array = question.case()?.array.regrouped(question.case()?.array.raid(), value as u32)?;
                question.data_disks = Some(array.data_disks());
                (question.groups, question.drives) = (Some(array.groups()), None);
            }
            CurveAxis::Scrub => {
                (question.scrub, question.scrub_pass) = (Some(ScrubPolicy::Mean(Hours::new(value)?)), None);
            }
            CurveAxis::Restore => {
                (question.restore, question.rebuild_rate) = (Some(Hours::new(value)?), None);
            }
            CurveAxis::DiskSize => {
                let derived = question.restore.is_none()
                    && (question.bandwidth.is_some() || question.rebuild_rate.is_some());
                if !derived || question.capacity.is_none() {
                    return Err(Error::SizeHasNoEffect);
                }
                question.capacity = Some(Bytes::new(value * 1e12)?);
            }
        }
        Ok(question)
    }
}

impl fmt::Display for CurveAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CurveAxis {
    type Err = Error;
    fn from_str(name: &str) -> Result<CurveAxis, Error> {
        let all = [CurveAxis::GroupSize, CurveAxis::Scrub, CurveAxis::Restore, CurveAxis::DiskSize];
        let choices = "group-size, scrub, restore, disk-size";
        let found = all.into_iter().find(|axis| axis.name() == name);
        found.ok_or_else(|| Error::Unknown { what: "curve", name: name.into(), choices })
    }
}

jetcell_input::text_in_serde!(CurveAxis);

/// A point on a reliability curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Position on the axis.
    pub at: f64,
    /// Number of drives in the array at this point.
    pub drives: u64,
    /// Probability that a group loses data.
    pub group_probability_of_loss: f64,
    /// Probability that the array loses data.
    pub probability_of_loss: f64,
}

/// Computes the curve for these inputs along an axis.
pub fn curve(question: &ReliabilityInputs, axis: CurveAxis) -> Result<Vec<CurvePoint>, Error> {
    let largest = match axis {
        CurveAxis::GroupSize => question.case()?.array.usable_disks() as f64,
        _ => f64::INFINITY,
    };
    let mut points = Vec::new();
    for &at in axis.values().iter().filter(|&&value| value <= largest) {
        let case = axis.apply_to(question, at)?.case()?;
        let answer = ReliabilityAssessment::new(&case)?;
        points.push(CurvePoint {
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

    fn points(raid: RaidType, axis: CurveAxis) -> Vec<CurvePoint> {
        let question = ReliabilityInputs {
            raid: Some(raid),
            data_disks: Some(7),
            groups: Some(6),
            capacity: (axis == CurveAxis::DiskSize).then(|| "1TB".parse().unwrap()),
            bandwidth: (axis == CurveAxis::DiskSize).then(|| "100MB/s".parse().unwrap()),
            ..ReliabilityInputs::default()
        };
        curve(&question, axis).unwrap()
    }

    #[test]
    fn longer_scrubs_and_restores_and_larger_disks_and_groups_raise_the_loss() {
        for raid in [RaidType::Raid5, RaidType::Raid6, RaidType::TripleParity] {
            for axis in [CurveAxis::Scrub, CurveAxis::Restore, CurveAxis::DiskSize, CurveAxis::GroupSize] {
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
    fn the_group_size_curve_matches_table_2_of_the_paper() {
        let points = points(RaidType::Raid5, CurveAxis::GroupSize);
        for (at, drives, loss) in
            [(1.0, 84, 0.130075), (7.0, 48, 0.395716), (14.0, 45, 0.572296), (21.0, 44, 0.677593)]
        {
            let point = points.iter().find(|point| point.at == at).unwrap();
            assert_eq!(point.drives, drives);
            assert!((point.probability_of_loss / loss - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn a_disk_size_curve_needs_a_drive() {
        assert!(curve(&ReliabilityInputs::default(), CurveAxis::DiskSize).is_err());
    }
}
