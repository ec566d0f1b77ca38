//! Checks that `docs/findings.md` lists every kind of finding.

use ese_check::FindingKind;
use testkit::{TestRequirement, skip};

#[test]
fn every_kind_is_documented() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
    let Ok(documentation) = std::fs::read_to_string(page) else {
        skip(TestRequirement::Repository, "docs/findings.md is in the repository, not in the package");
        return;
    };
    for kind in FindingKind::ALL {
        assert!(documentation.contains(&format!("`{kind}`")), "{kind} is not in docs/findings.md");
    }
}
