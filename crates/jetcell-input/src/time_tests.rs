use super::*;

#[test]
fn each_purpose_has_its_form() {
    assert_eq!((duration_text(59.94), duration_text(3_725.2)), ("59.9 s".into(), "1:02:05".into()));
    assert_eq!((clock(59.94), clock(3_725.9)), ("00:00:59".into(), "01:02:05".into()));
    for (seconds, text) in [(59, "59s"), (185, "3m05s"), (7620, "2h07m"), (97_200, "1d03h")] {
        assert_eq!(format_duration(Duration::from_secs(seconds)), text);
    }
    for (seconds, text) in [(5, "5 s"), (65, "1 min 5 s"), (3720, "1 h 2 min"), (90_000, "1 d 1 h")] {
        assert_eq!(format_in_two_units(Duration::from_secs(seconds)), text);
    }
}
