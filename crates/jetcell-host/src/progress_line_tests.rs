//! Tests of progress lines.

use super::*;

#[test]
fn east_asian_titles_fit_the_width() {
    assert_eq!(line(15, "郵便箱の一覧を検査", Some(0.5), ""), "郵便箱の…  50 %");
}

#[test]
fn a_progress_line_drops_the_least_important_parts_to_fit() {
    let details = "55s left, 40 IOPS, read 2.00 ms, write 4.00 ms";
    let line_of_width = |width| line(width, "measuring", Some(0.425), details);
    assert_eq!(line_of_width(100), format!("measuring ████████░░░░░░░░░░░░  42 %  {details}"));
    assert_eq!(line_of_width(70), "measuring ████████░░░░░░░░░░░░  42 %  55s left, 40 IOPS, read 2.00 ms");
    assert_eq!(line_of_width(54), "measuring  42 %  55s left, 40 IOPS, read 2.00 ms");
    assert_eq!(line_of_width(40), "measuring  42 %  55s left, 40 IOPS");
    assert_eq!(line_of_width(26), "measuring  42 %  55s left");
    assert_eq!(line_of_width(20), "measuring  42 %");
    assert_eq!(line(20, "a very long name of a table", Some(1.0), ""), "a very long n… 100 %");
    assert_eq!(line(12, "no share", None, "1 so far"), "no share");
    for width in 15..120 {
        for title in ["t", "measuring", "a very long name of a table in a database"] {
            for share in [None, Some(0.0), Some(0.999), Some(1.0)] {
                let text = line(width, title, share, details);
                assert!(columns(&text) <= width, "{width}: {text}");
            }
        }
    }
}

#[test]
fn a_share_is_between_zero_and_one_hundred_percent() {
    assert_eq!(
        [completed_share(0, 4), completed_share(1, 4), completed_share(9, 4), completed_share(0, 0)]
            .map(Option::unwrap),
        [0.0, 0.25, 1.0, 1.0]
    );
}
