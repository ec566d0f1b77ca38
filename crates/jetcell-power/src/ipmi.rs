//! Power measured by a server's board controller, read with `ipmitool`.

use std::process::Command;

use crate::error::{MeterError, PowerError};

/// The power meter in this machine's baseboard management controller, read over IPMI.
pub struct Ipmi {
    program: String,
}

impl Ipmi {
    /// Verifies that `program` can be run, and reads the sensor once.
    pub(crate) fn open(program: &str) -> Result<Ipmi, PowerError> {
        let ipmi = Ipmi { program: program.to_string() };
        ipmi.read()?;
        Ok(ipmi)
    }

    /// Returns the power in watts.
    pub(crate) fn read(&self) -> Result<f64, PowerError> {
        let meter_error = |error| PowerError::meter("ipmi", error);
        let output = Command::new(&self.program).args(["dcmi", "power", "reading"]).output();
        let output = output
            .map_err(|error| meter_error(MeterError::NotStarted { program: self.program.clone(), error }))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let message = said.lines().next().unwrap_or_default().into();
            return Err(meter_error(MeterError::ProgramFailed { status: output.status, message }));
        }
        watts(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| meter_error(MeterError::NoControllerSensor))
    }
}

/// Parses the watts from the program's output. A controller without a sensor reports 0.
fn watts(answer: &str) -> Option<f64> {
    let line = answer.lines().find(|line| line.trim_start().starts_with("Instantaneous power reading"))?;
    let value: f64 = line.split_once(':')?.1.split_whitespace().next()?.parse().ok()?;
    (value > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_reading_is_parsed_and_zero_is_ignored() {
        let answer = "\n    Instantaneous power reading:                   212 Watts\n    Minimum during sampling period:  4 Watts\n";
        assert_eq!(watts(answer), Some(212.0));
        assert_eq!(watts(&answer.replace("212", "0")), None);
        assert_eq!(watts("Average power reading over sample period: 9 Watts"), None);
    }

    #[test]
    fn a_program_that_fails_silently_is_reported_with_its_status() {
        let error = Ipmi::open("false").err().unwrap();
        assert_eq!(error.to_string(), "meter ipmi: ipmitool failed: exit status: 1");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Ipmi::open("no-such-ipmitool").err().unwrap();
        assert_eq!(error.advice().as_deref(), Some("install the package ipmitool"));
        assert!(!error.is_temporary());
    }
}
