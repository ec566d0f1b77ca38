use proptest::prelude::*;

use super::*;
use crate::table::{ReportCell, ReportTable};
use crate::text_table::table_text;

#[test]
fn folded_text_keeps_its_tones() {
    let text = StyledText::from("a.edb: some words, ").with("BAD", Tone::Bad).with(" PASS\n", Tone::Neutral);
    let spans = |text: &StyledText| -> Vec<(String, Tone)> {
        text.spans().map(|(text, tone)| (text.to_string(), tone)).collect()
    };
    let rest = (" PASS\n".to_string(), Tone::Neutral);
    assert_eq!(
        spans(&text),
        [("a.edb: some words, ".into(), Tone::Neutral), ("BAD".into(), Tone::Bad), rest.clone()]
    );
    let folded = text.fold(20);
    assert_eq!(folded.as_str(), "a.edb: some\n    words, BAD PASS\n");
    assert_eq!(spans(&folded)[1..], [("BAD".into(), Tone::Bad), rest]);
}

#[test]
fn added_text_cannot_control_the_terminal() {
    let text = StyledText::new().with("\u{1b}[2J", Tone::Good).with("\n", Tone::Neutral);
    assert_eq!(text.to_string(), "\\u{1b}[2J\n");
}

/// Returns the visible characters with their tones.
fn visible(text: &StyledText) -> Vec<(char, Tone)> {
    let all = text.spans().flat_map(|(text, tone)| text.chars().map(move |c| (c, tone)));
    all.filter(|(c, _)| !c.is_whitespace()).collect()
}

proptest! {
    #[test]
    fn wrapping_keeps_the_tone_of_every_character(
        spans in prop::collection::vec(("[ab郵e\u{301} \u{1b}]{0,12}", 0..4_usize), 0..8),
        width in 1..30_usize,
    ) {
        let tones = [Tone::Neutral, Tone::Good, Tone::Warning, Tone::Bad];
        let add = |text: StyledText, (span, tone): &(String, usize)| text.with(span, tones[*tone]);
        let text = spans.iter().fold(StyledText::new(), add);
        let before = visible(&text);
        prop_assert_eq!(&visible(&text.clone().fold(width)), &before);
        let lines = text.lines(width).iter().flat_map(visible).collect::<Vec<_>>();
        prop_assert_eq!(lines, before);
    }
}

#[test]
fn wrapped_cells_of_several_columns_keep_their_tones() {
    let table = ReportTable::text_columns("t", &["Name", "State", "Note"]).row(vec![
        "a name of several words".into(),
        ReportCell::with_judgement("wrong in several ways", false),
        ReportCell::with_judgement("good in several ways", true),
    ]);
    let text = table_text(&table, 50);
    assert!(text.as_str().lines().count() > 2, "{text}");
    let toned = |wanted: Tone| -> String {
        visible(&text).into_iter().filter(|(_, tone)| *tone == wanted).map(|(c, _)| c).collect()
    };
    assert_eq!(
        (toned(Tone::Bad).as_str(), toned(Tone::Good).as_str()),
        ("WRONGINSEVERALWAYS", "goodinseveralways")
    );
}
