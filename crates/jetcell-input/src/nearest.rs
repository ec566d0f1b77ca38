//! Nearest known word, for errors about unknown names.

/// Returns the known word with the smallest edit distance, or `None` if more than half of the word would have to
/// change. Of equally similar words, the first is returned.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_entry(word, known.into_iter().map(|name| (name, ()))).map(|(name, ())| name)
}

/// Like [`nearest`], but each known word has a value.
pub(crate) fn nearest_entry<'a, T>(
    word: &str,
    known: impl Iterator<Item = (&'a str, T)>,
) -> Option<(&'a str, T)> {
    let (distance, entry) = known
        .map(|entry| (strsim::osa_distance(word, entry.0), entry))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= entry.0.chars().count().div_ceil(2)).then_some(entry)
}

#[cfg(test)]
#[path = "nearest_tests.rs"]
mod tests;
