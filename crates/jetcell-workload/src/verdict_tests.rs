use serde_json::json;

use super::*;

#[test]
fn each_kind_has_its_own_title() {
    for kind in RuleKind::ALL {
        assert_eq!(RuleKind::from_title(kind.title()), *kind);
    }
}

#[test]
fn the_unit_of_a_rule_agrees_with_its_title() {
    let units = [
        ("(msec)", Unit::Milliseconds),
        ("(seconds)", Unit::Seconds),
        ("(% of", Unit::Percent),
        (" per second", Unit::PerSecond),
        ("/sec)", Unit::PerSecond),
        (" over that of", Unit::Ratio),
    ];
    for kind in RuleKind::ALL {
        let named = units.iter().find(|(words, _)| kind.title().contains(words));
        assert_eq!(kind.unit(), named.map_or(Unit::None, |(_, unit)| *unit), "{}", kind.title());
    }
}

#[test]
fn the_kind_of_a_rule_does_not_depend_on_its_title() {
    let mut rule = VerdictRule::at_most(RuleKind::IoErrors, 0.0, 1.0, String::new());
    rule.name = "Failed transfers".into();
    let stored = serde_json::to_value(&rule).unwrap();
    assert_eq!(stored["kind"], "io_errors");
    assert_eq!(serde_json::from_value::<VerdictRule>(stored).unwrap().kind(), RuleKind::IoErrors);
}

#[test]
fn rules_of_earlier_results_have_a_kind() {
    let rule = |name: &str, kind: Option<&str>| {
        let mut rule =
            json!({ "name": name, "bound": "at_most", "limit": 0.0, "measured": 0.0, "passed": true });
        kind.into_iter().for_each(|kind| rule["kind"] = json!(kind));
        serde_json::from_value::<VerdictRule>(rule).unwrap().kind()
    };
    assert_eq!(rule("95th percentile of log writes (msec)", None), RuleKind::LogWriteP95);
    assert_eq!(rule("a rule of a later version", Some("of_a_later_version")), RuleKind::Other);
}
