use super::*;

fn written(form: TextFormat, parts: &[&[u8]]) -> String {
    let mut out = Vec::new();
    let mut writer = PrintableWriter::new(&mut out, form);
    for part in parts {
        writer.write_all(part).unwrap();
    }
    writer.flush().unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn text_is_escaped_regardless_of_write_boundaries() {
    let text = "Größe\x1b[2J\u{9b}\n日本\u{202e}x".as_bytes();
    for at in 0..text.len() {
        let (first, second) = text.split_at(at);
        assert_eq!(written(TextFormat::Lines, &[first, second]), "Größe\\u{1b}[2J\\u{9b}\n日本\\u{202e}x");
    }
    assert_eq!(written(TextFormat::Lines, &[b"a\xffb\n"]), "a\u{fffd}b\n");
    assert_eq!(written(TextFormat::Json, &["\"\u{9b}\"\n".as_bytes()]), "\"\\u009b\"\n");
}

#[test]
fn a_long_line_is_split_between_characters() {
    let character = "日".as_bytes();
    let mut out = Vec::new();
    let mut writer = PrintableWriter::new(&mut out, TextFormat::Lines);
    for byte in character.repeat(MAX_PENDING) {
        writer.write_all(&[byte]).unwrap();
        assert!(writer.pending.len() <= MAX_PENDING + 1);
    }
    writer.flush().unwrap();
    assert!(out == character.repeat(MAX_PENDING));
}
