//! Checks that `docs/findings.md` describes every kind of finding with its meaning.

use ese_check::FindingKind;
use testkit::{TestRequirement, skip};

#[test]
fn every_kind_is_documented_with_its_meaning() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
    let Ok(documentation) = std::fs::read_to_string(page) else {
        skip(TestRequirement::Repository, "docs/findings.md is in the repository, not in the package");
        return;
    };
    for kind in FindingKind::ALL {
        let (start, end) = (format!("| `{kind}` | "), format!(" | {} |", kind.meaning(None)));
        let mut rows = documentation.lines().filter(|line| line.starts_with(&start));
        assert!(rows.any(|row| row.ends_with(&end)), "docs/findings.md lacks {kind}, or its meaning{end}");
    }
}
