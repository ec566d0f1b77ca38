use std::path::PathBuf;

use super::*;

fn streams() -> Vec<StreamBackup> {
    let stream = |name: &str| StreamBackup { files: Vec::new(), directory: PathBuf::from(name) };
    ["a", "b", "c"].map(stream).to_vec()
}

fn paths<'a, T>(results: &StreamResults<'a, T>) -> (Vec<&'a Path>, Vec<&'a Path>) {
    (
        results.made.iter().map(|(path, ..)| *path).collect(),
        results.failures.iter().map(|(path, _)| *path).collect(),
    )
}

#[test]
fn a_stop_between_two_streams_makes_the_remaining_ones_failures() {
    let (streams, cancel) = (streams(), Cancellation::default());
    // The cancellation arrives when the data of the first backup is complete.
    let results = back_up_each(&streams, &cancel, |_| {
        cancel.cancel();
        Ok(())
    });
    assert_eq!(paths(&results), (vec![Path::new("a")], vec![Path::new("b"), Path::new("c")]));
    for (path, error) in &results.failures {
        let text = error.full_text();
        assert!(text.contains(&*path.to_string_lossy()) && text.contains("stopped"), "{text}");
    }
}

#[test]
fn a_stop_after_the_last_stream_is_no_failure() {
    let (streams, cancel) = (streams(), Cancellation::default());
    let results = back_up_each(&streams, &cancel, |stream| {
        if stream.directory == Path::new("c") {
            cancel.cancel();
        }
        Ok(())
    });
    assert_eq!(paths(&results).0.len(), 3);
    assert!(results.failures.is_empty());
}

#[test]
fn a_failed_stream_does_not_prevent_the_backups_of_the_others() {
    let streams = streams();
    let results = back_up_each(&streams, &Cancellation::default(), |stream| {
        if stream.directory == Path::new("b") { Err(CommandError::new("bad")) } else { Ok(()) }
    });
    assert_eq!(paths(&results), (vec![Path::new("a"), Path::new("c")], vec![Path::new("b")]));
}
