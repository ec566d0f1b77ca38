//! The verdict on a fleet, which checks that all hosts measured at the same time and that each host meets its own
//! rules.

use jetcell_workload::{RuleKind, Verdict, VerdictRule};

use super::rows::HostOutcome;
use super::{FleetVerdict, HostRow};
use crate::coordinator::Coordinator;

/// Maximum start skew and maximum clock movement, as a percentage of the shortest measurement.
const MAX_SKEW_PERCENT: f64 = 1.0;

/// Minimum time during which all hosts measured, as a percentage of the shortest measurement.
const MIN_OVERLAP_PERCENT: f64 = 99.0;

/// The time window in which all hosts with a result were measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CommonMeasurementWindow {
    /// Length of the window in seconds.
    pub(super) overlap_seconds: f64,
    /// Length of the shortest measurement in seconds.
    shortest_seconds: f64,
}

impl CommonMeasurementWindow {
    pub(super) fn from_hosts(hosts: &[HostRow]) -> CommonMeasurementWindow {
        let completed = hosts.iter().filter(|host| host.outcome == HostOutcome::Completed);
        let windows: Vec<(f64, f64)> = completed.filter_map(|host| host.window).collect();
        if windows.is_empty() {
            return CommonMeasurementWindow::default();
        }
        let begin = windows.iter().map(|window| window.0).fold(f64::NEG_INFINITY, f64::max);
        let end = windows.iter().map(|window| window.1).fold(f64::INFINITY, f64::min);
        let shortest = windows.iter().map(|window| window.1 - window.0).fold(f64::INFINITY, f64::min);
        CommonMeasurementWindow {
            overlap_seconds: (end - begin).max(0.0),
            shortest_seconds: shortest.max(0.0),
        }
    }

    fn percent(&self, seconds: f64) -> f64 {
        if self.shortest_seconds > 0.0 { seconds * 100.0 / self.shortest_seconds } else { 0.0 }
    }
}

fn display_name(host: &HostRow) -> String {
    match host.host.as_str() {
        "" => format!("rank {}", host.rank),
        name => format!("{name} (rank {})", host.rank),
    }
}

/// Returns the highest value among all hosts, and the host that has it.
fn highest(hosts: &[HostRow], value: impl Fn(&HostRow) -> Option<f64>) -> Option<(f64, String)> {
    let all = hosts.iter().filter_map(|host| Some((value(host)?, format!("worst: {}", display_name(host)))));
    all.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Creates a rule that is met if no host satisfies the condition. The rule names the hosts that do.
fn rule_for_no_host(kind: RuleKind, hosts: &[HostRow], is: impl Fn(&HostRow) -> bool) -> VerdictRule {
    let names: Vec<String> = hosts.iter().filter(|host| is(host)).map(display_name).collect();
    VerdictRule::at_most(kind, 0.0, names.len() as f64, names.join(", "))
}

/// Returns the verdict, its reason, and all rules.
pub(super) fn judge(
    fleet: &Coordinator,
    hosts: &[HostRow],
    window: &CommonMeasurementWindow,
) -> (FleetVerdict, String, Vec<VerdictRule>) {
    let lost = rule_for_no_host(RuleKind::HostsLost, hosts, |host| host.lost.is_some());
    let failed = rule_for_no_host(RuleKind::HostsWithoutResult, hosts, |host| {
        host.lost.is_none() && host.outcome != HostOutcome::Completed
    });
    // A host's clock offset is accurate to within half of the round-trip time.
    let skew_seconds = |host: &HostRow| {
        let unknown = host.clock.map_or(0.0, |clock| clock.round_trip_ms / 2.0);
        Some((host.start_skew_ms?.abs() + unknown) / 1e3)
    };
    let moved_seconds = |host: &HostRow| Some(host.clock?.moved_ms / 1e3);
    let mut together = Vec::new();
    if window.shortest_seconds > 0.0 {
        let at_most = |kind: RuleKind, value: Option<(f64, String)>| {
            value.map(|(seconds, note)| {
                VerdictRule::at_most(kind, MAX_SKEW_PERCENT, window.percent(seconds), note)
            })
        };
        together.extend(at_most(RuleKind::StartSkew, highest(hosts, skew_seconds)));
        together.extend(at_most(RuleKind::ClockMovement, highest(hosts, moved_seconds)));
        together.push(VerdictRule::at_least(
            RuleKind::CommonTime,
            MIN_OVERLAP_PERCENT,
            window.percent(window.overlap_seconds),
            String::new(),
        ));
    }
    let broken = rule_for_no_host(RuleKind::HostVerdicts, hosts, |host| {
        host.verdict.is_some_and(|verdict| verdict != Verdict::Pass)
    });
    let (verdict, reason) = match fleet.stop_reason() {
        Some(stop) => (FleetVerdict::Incomplete, stop.to_string()),
        None => verdict(hosts, &lost, &failed, &together, &broken),
    };
    let rules = [lost, failed].into_iter().chain(together).chain([broken]).collect();
    (verdict, reason, rules)
}

fn verdict(
    hosts: &[HostRow],
    lost: &VerdictRule,
    failed: &VerdictRule,
    together: &[VerdictRule],
    broken: &VerdictRule,
) -> (FleetVerdict, String) {
    let first = |is: &dyn Fn(&HostRow) -> bool| hosts.iter().find(|host| is(host));
    let because = |host: &HostRow| format!("{}: {}", display_name(host), host.reason);
    if !lost.passed {
        let host = first(&|host| host.lost.is_some());
        let when = host.and_then(|host| host.lost.as_ref());
        let reason = host.zip(when).map(|(host, lost)| {
            format!(
                "host {} timed out while {}, and was declared lost {}",
                display_name(host),
                lost.did,
                lost.given_up
            )
        });
        return (FleetVerdict::Invalid, reason.unwrap_or_default());
    }
    if !failed.passed {
        let reason = first(&|host| host.outcome != HostOutcome::Completed).map(because).unwrap_or_default();
        return (FleetVerdict::Invalid, reason);
    }
    if let Some(rule) = together.iter().find(|rule| !rule.passed) {
        let VerdictRule { name, measured, limit, note, .. } = rule;
        return (
            FleetVerdict::Invalid,
            format!("{name}: {measured:.2}, limit {limit} {note}").trim_end().into(),
        );
    }
    if !broken.passed {
        let is_broken = |host: &HostRow| host.verdict.is_some_and(|verdict| verdict != Verdict::Pass);
        let reason = first(&is_broken).map(because).unwrap_or_default();
        return (FleetVerdict::Fail, reason);
    }
    (FleetVerdict::Pass, format!("all rules of {} hosts hold", hosts.len()))
}
