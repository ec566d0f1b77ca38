//! Tests of errors of commands.

use super::*;

fn system_error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

#[test]
fn system_errors_have_advice_wherever_they_are_in_the_chain() {
    for (number, expected) in
        [(2, "existing path"), (13, "permissions"), (28, "free some space"), (30, "writable"), (5, "dmesg")]
    {
        let engine = ese_engine::Error::io("a.edb", &system_error(number));
        let copy = jetcell_copies::CopyError::from(engine.clone());
        for error in [
            CommandError::from(system_error(number)).context("a.edb"),
            CommandError::from(engine),
            CommandError::from(copy),
        ] {
            let text = error.full_text();
            assert!(text.starts_with("a.edb: ") && error.advice().unwrap().contains(expected), "{text}");
            assert!(text.ends_with(&format!("{error}; {}", error.advice().unwrap())), "{text}");
        }
    }
    let code = CommandError::from(ese_engine::Error::io("a.edb", &system_error(5))).to_string();
    assert!(code.ends_with("(os error 5) (JET_errDiskIO -1022)"), "{code}");
}

#[test]
fn errors_without_advice_are_printed_without_a_semicolon() {
    for error in [CommandError::from(system_error(4000)), CommandError::new("(os error 28)")] {
        assert_eq!(error.full_text(), error.to_string());
    }
}

#[test]
fn given_advice_replaces_that_of_the_system() {
    let result: Result<(), io::Error> = Err(system_error(28));
    let error = result.context("a.edb").context("outer").advise("use --into").unwrap_err();
    assert_eq!(error.full_text(), format!("outer: a.edb: {}; use --into", system_error(28)));
}
