//! Table with a run's energy.

use jetcell_input::Unit;
use jetcell_workload::result::RunResult;

use crate::table::{Digits, ReportCell, ReportTable};

/// Returns the energy table, for runs with a meter.
pub(super) fn energy(result: &RunResult) -> Option<ReportTable> {
    let found = result.energy.as_ref()?;
    let energy = &found.energy;
    let mut table = ReportTable::facts("Energy")
        .fact("Measured", energy.scope.to_string())
        .fact("Meter", found.meter.as_str())
        .fact("Measured time (seconds)", ReportCell::number(found.seconds, Digits::Decimals(1)))
        .fact("Mean power (watts)", ReportCell::figure(Unit::Watts, energy.watts))
        .fact("Energy (joules)", ReportCell::number(found.joules, Digits::Decimals(0)));
    if let Some(joules) = found.joules_per_transactional_io {
        table = table.fact("Energy per transactional I/O (joules)", ReportCell::figure(Unit::Joules, joules));
    }
    table =
        table.fact("Energy of a year (kWh)", ReportCell::figure(Unit::KilowattHours, energy.kwh_per_year));
    if let Some(cost) = energy.cost_per_year {
        let money = found.currency.as_deref().unwrap_or("money");
        table = table.fact(&format!("Cost of a year ({money})"), ReportCell::figure(Unit::Money, cost));
    }
    if let Some(kilograms) = energy.co2_kg_per_year {
        table = table.fact("Carbon dioxide of a year (kg)", ReportCell::figure(Unit::Kilograms, kilograms));
    }
    table = table.note("A year has 365 days at the mean power of the measured time.");
    Some(if energy.scope.is_storage() {
        table
    } else {
        table.note(format!(
            "These figures were measured for {}. They say nothing about a drive alone.",
            energy.scope
        ))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use jetcell_workload::result::RunEnergy;

    use super::*;
    use crate::example::result;

    pub(crate) fn measured(scope: &str) -> RunEnergy {
        serde_json::from_value(serde_json::json!({
            "meter": "rapl", "watts": 40.0, "scope": scope, "kwh_per_day": 0.96, "kwh_per_year": 350.4, "cost_per_day": 0.1776,
            "cost_per_year": 64.824, "co2_kg_per_year": 140.16, "seconds": 60.0, "joules": 2400.0,
            "joules_per_transactional_io": 0.844, "tariff": { "price_per_kwh": 0.185, "co2_kg_per_kwh": 0.4 }, "currency": "USD",
        }))
        .unwrap()
    }

    #[test]
    fn every_figure_has_a_scope_and_unit() {
        let mut result = result();
        assert_eq!(energy(&result), None);
        result.energy = Some(measured("server"));
        let table = energy(&result).unwrap();
        let cells = table.rows.iter().flatten().map(ReportCell::line);
        let text = cells.chain(table.notes.clone()).collect::<Vec<_>>().join("\n");
        for said in [
            "the whole server",
            "rapl",
            "40.0",
            "2,400",
            "0.844",
            "350.4",
            "Cost of a year (USD)\n64.82",
            "140.2",
            "say nothing about a drive",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        result.energy = Some(measured("drive"));
        assert!(!format!("{:?}", energy(&result).unwrap()).contains("say nothing"));
    }
}
