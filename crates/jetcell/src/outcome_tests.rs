//! Tests of command errors.

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
            let (problem, remedy) = text.split_once("; ").unwrap();
            assert!(problem.starts_with("a.edb: ") && remedy.contains(expected), "{text}");
            let advice = error.advice().unwrap_or_else(|| panic!("{text}"));
            assert_eq!(format!("{error}; {advice}"), text);
        }
    }
    let code = CommandError::from(ese_engine::Error::io("a.edb", &system_error(5))).to_string();
    assert!(code.ends_with("(os error 5) (JET_errDiskIO -1022)"), "{code}");
}

#[test]
fn nested_and_shared_system_errors_have_advice() {
    let path = std::path::Path::new("a.edb");
    let nested = jetcell_vfs::with_path(path, system_error(30));
    for error in [
        CommandError::from(Arc::new(system_error(30))),
        CommandError::from(ese_engine::Error::io("b.edb", &nested)),
        CommandError::from(jetcell_vfs::with_path(path, nested)),
        CommandError::from(Box::<dyn Error + Send + Sync>::from(system_error(30))),
    ] {
        assert!(error.full_text().ends_with("; make the volume writable, or use another volume"), "{error}");
    }
}

#[derive(Debug)]
struct AdvisedError(io::Error);

impl fmt::Display for AdvisedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("could not write")
    }
}

impl Error for AdvisedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

impl Advise for AdvisedError {
    fn advice(&self) -> Option<Cow<'static, str>> {
        Some("use --into".into())
    }

    fn jet_code(&self) -> Option<(i32, &'static str)> {
        Some((-1022, "JET_errDiskIO"))
    }
}

#[test]
fn the_advice_of_the_error_precedes_that_of_the_system() {
    let error = CommandError::from(AdvisedError(system_error(28))).context("a.edb");
    assert_eq!(error.full_text(), "a.edb: could not write (JET_errDiskIO -1022); use --into");
    let error = error.add_advice("repeat the command");
    assert_eq!(
        error.full_text(),
        "a.edb: could not write (JET_errDiskIO -1022); use --into; repeat the command"
    );
    assert_eq!(CommandError::new("stopped").add_advice("repeat it").full_text(), "stopped; repeat it");
}

#[test]
fn stopped_seeding_says_how_to_continue() {
    let error = jetcell_copies::CopyError::from(jetcell_backup::BackupError::Stopped);
    let text = CommandError::from(error).full_text();
    let advice = "the copied data is retained, and the same command continues the seeding";
    assert!(text.ends_with(&format!("; {advice}")), "{text}");
}

#[test]
fn mistakes_have_no_code_of_ese() {
    let mistake = ese_engine::Error::Usage(ese_engine::UsageError::ZeroThrottle);
    let text = "the rate and the latency target must be greater than 0";
    assert_eq!(CommandError::from(mistake).full_text(), text);
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
