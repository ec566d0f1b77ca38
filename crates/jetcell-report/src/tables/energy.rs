//! Table with a run's energy.

use jetcell_input::number::decimal;
use jetcell_workload::result::RunResult;

use crate::table::ReportTable;

/// Returns the energy table, for runs with a meter.
pub(super) fn energy(result: &RunResult) -> Option<ReportTable> {
    let found = result.energy.as_ref()?;
    let energy = &found.energy;
    let mut table = ReportTable::facts("Energy")
        .fact("Measured", energy.scope.to_string())
        .fact("Meter", found.meter.as_str())
        .fact("Measured time (seconds)", decimal(found.seconds, 1))
        .fact("Mean power (watts)", decimal(energy.watts, 1))
        .fact("Energy (joules)", decimal(found.joules, 0));
    if let Some(joules) = found.joules_per_transactional_io {
        table = table.fact("Energy per transactional I/O (joules)", decimal(joules, 3));
    }
    table = table.fact("Energy of a year (kWh)", decimal(energy.kwh_per_year, 1));
    if let Some(cost) = energy.cost_per_year {
        let money = found.currency.as_deref().unwrap_or("money");
        table = table.fact("Cost of a year", format!("{} {money}", decimal(cost, 2)));
    }
    if let Some(kilograms) = energy.co2_kg_per_year {
        table = table.fact("Carbon dioxide of a year (kg)", decimal(kilograms, 1));
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
        let text = format!("{:?}", energy(&result).unwrap());
        for said in [
            "the whole server",
            "rapl",
            "40.0",
            "2,400",
            "0.844",
            "350.4",
            "64.82 USD",
            "140.2",
            "say nothing about a drive",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        result.energy = Some(measured("drive"));
        assert!(!format!("{:?}", energy(&result).unwrap()).contains("say nothing"));
    }
}
