//! Compares RAID types at the same usable capacity, and finds the smallest layout that meets a target.

use serde::Serialize;

use crate::units::Hours;
use crate::{ArrayShape, Error, MarkovModel, RaidType, ReliabilityAssessment, ReliabilityInputs};

/// One layout in a reliability comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedLayout {
    /// The array.
    #[serde(flatten)]
    pub array: ArrayShape,
    /// Number of drives to buy.
    pub drives: u64,
    /// Number of these drives that hold copies or parity.
    pub overhead_drives: u64,
    /// Model, which determines the state diagram.
    pub model: MarkovModel,
    /// Probability that a group loses data.
    pub group_probability_of_loss: f64,
    /// Probability that the array loses data.
    pub probability_of_loss: f64,
    /// Probability of loss, as a multiple of that of the safest listed layout.
    pub relative_risk: f64,
    /// Number of disk operations per small write.
    pub write_cost: u32,
    /// Mean restore time, including the wait for a spare.
    pub restore: Option<Hours>,
}

/// Returns a layout for each RAID type with the usable capacity of the inputs. Parity groups have as many data disks
/// as in the inputs.
///
/// The inputs' model is used for types that it fits, and the default model for all others.
pub fn compare(question: &ReliabilityInputs) -> Result<Vec<ComparedLayout>, Error> {
    let array = question.case()?.array;
    let data = if array.raid().is_mirror() { default_data(array) } else { array.data_disks() };
    rows(question, RaidType::ALL.into_iter().map(|raid| (raid, if raid.is_mirror() { 1 } else { data })))
}

/// Returns seven data disks, or all of the array's data disks if there are fewer.
fn default_data(array: ArrayShape) -> u32 {
    u32::try_from(array.usable_disks()).unwrap_or(u32::MAX).min(7)
}

/// Returns the layout with the fewest drives whose probability of loss is at most `target`. If several have equally
/// few drives, the one with the cheapest writes is chosen. All types are considered, with up to 24 data disks per
/// group and at least the usable capacity of the inputs. Returns `None` if no layout is safe enough.
pub fn layout_for(question: &ReliabilityInputs, target: f64) -> Result<Option<ComparedLayout>, Error> {
    let usable = question.case()?.array.usable_disks();
    let mut layouts = vec![(RaidType::Raid10, 1), (RaidType::Mirror3, 1)];
    for raid in [RaidType::Raid5, RaidType::Raid6, RaidType::TripleParity] {
        layouts.extend((2..=24).filter(|&data| u64::from(data) <= usable).map(|data| (raid, data)));
    }
    let rows = rows(question, layouts.into_iter())?;
    let safe = rows.into_iter().filter(|row| row.probability_of_loss <= target);
    Ok(safe.min_by(|one, other| {
        let cost = |row: &ComparedLayout| (row.drives, row.write_cost);
        cost(one).cmp(&cost(other)).then(one.probability_of_loss.total_cmp(&other.probability_of_loss))
    }))
}

fn rows(
    question: &ReliabilityInputs,
    layouts: impl Iterator<Item = (RaidType, u32)>,
) -> Result<Vec<ComparedLayout>, Error> {
    let wanted = question.case()?.array;
    let mut rows = Vec::new();
    for (raid, data) in layouts {
        let array = wanted.regrouped(raid, data)?;
        let model = question.model.and_then(|model| model.check(raid).ok());
        let question = ReliabilityInputs {
            raid: Some(raid),
            data_disks: Some(array.data_disks()),
            groups: Some(array.groups()),
            drives: None,
            model,
            ..question.clone()
        };
        let case = question.case()?;
        let answer = ReliabilityAssessment::new(&case)?;
        rows.push(ComparedLayout {
            array,
            drives: array.drives(),
            overhead_drives: array.drives() - wanted.usable_disks(),
            model: case.model,
            group_probability_of_loss: answer.group.loss,
            probability_of_loss: answer.array.loss,
            relative_risk: 1.0,
            write_cost: raid.write_cost(),
            restore: case.rates.restore.mean(),
        });
    }
    let safest = rows.iter().map(|row| row.probability_of_loss).fold(f64::INFINITY, f64::min);
    if safest > 0.0 {
        rows.iter_mut().for_each(|row| row.relative_risk = row.probability_of_loss / safest);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper() -> ReliabilityInputs {
        ReliabilityInputs { data_disks: Some(7), groups: Some(6), ..ReliabilityInputs::default() }
    }

    #[test]
    fn comparison_uses_the_same_capacity_for_every_raid_type() {
        let rows = compare(&paper()).unwrap();
        let drives = |raid| {
            rows.iter().find(|row| row.array.raid() == raid).map(|row| (row.drives, row.overhead_drives))
        };
        assert_eq!(drives(RaidType::Raid10), Some((84, 42)));
        assert_eq!(drives(RaidType::Raid5), Some((48, 6)));
        assert_eq!(drives(RaidType::Raid6), Some((54, 12)));
        assert_eq!(drives(RaidType::RaidDp), Some((54, 12)), "listed in its own right, next to RAID 6");
        assert_eq!(drives(RaidType::TripleParity), Some((60, 18)));
        assert!(
            rows.iter().any(|row| row.relative_risk == 1.0)
                && rows.iter().all(|row| row.relative_risk >= 1.0)
        );
    }

    /// Reference value: at the same usable capacity, the widest RAID-DP layout, with 46 drives, is 182 times safer
    /// than RAID 10 with 84 drives.
    #[test]
    fn the_widest_double_parity_is_182_times_safer_than_mirrors() {
        let question =
            ReliabilityInputs { data_disks: Some(21), groups: Some(2), ..ReliabilityInputs::default() };
        let rows = compare(&question).unwrap();
        let find_row = |raid| rows.iter().find(|row| row.array.raid() == raid).unwrap();
        let (mirrors, double) = (find_row(RaidType::Raid10), find_row(RaidType::Raid6));
        assert_eq!((mirrors.drives, double.drives), (84, 46));
        assert_eq!((mirrors.probability_of_loss / double.probability_of_loss).round(), 182.0);
    }

    #[test]
    fn the_layout_for_a_target_meets_it_with_few_drives() {
        let row = layout_for(&paper(), 1e-3).unwrap().unwrap();
        assert!(row.probability_of_loss <= 1e-3 && row.array.raid() == RaidType::Raid6, "{row:?}");
        assert!(row.drives < 54, "{row:?}");
        let loose = layout_for(&paper(), 0.9).unwrap().unwrap();
        assert_eq!(loose.array.raid(), RaidType::Raid5);
        assert_eq!(layout_for(&paper(), 0.0).unwrap(), None);
    }
}
