use super::*;

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
