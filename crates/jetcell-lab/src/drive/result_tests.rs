use super::*;
use crate::drive::step::steps;

#[test]
fn a_turn_without_a_figure_is_left_out_on_both_sides() {
    let step = steps(4096).into_iter().find(|step| step.name == "random_read_4k").unwrap();
    let turn = |operations| StepMeasurement { seconds: 1.0, operations, ..StepMeasurement::default() };
    // The machine slows down by half. In the second turn, the first target transferred nothing.
    let measured = [[1000, 0, 600, 500], [1100, 880, 660, 550]].map(|turns| turns.map(turn).to_vec());
    let found = StepResult::from_repetitions(step, measured.to_vec());
    let difference = found.figures[1].as_ref().unwrap().difference.unwrap();
    assert!((difference.percent - 10.0).abs() < 1e-9 && difference.significant, "{difference:?}");
    assert_eq!((found.winner, found.change(0, 1)), (Some(1), Some(difference)));
    let (mean, repeated) = found.figure(0).unwrap();
    assert_eq!((mean, repeated.unwrap().repetitions), (700.0, 3));
}
