//! An observation about the machine or a directory.

use serde::Serialize;

/// How much an observation matters to a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ObservationSeverity {
    /// The observed state is suitable for a measurement.
    Good,
    /// The observed state should be considered when results are read or compared.
    Note,
    /// The observed state should be changed before a measurement.
    Change,
}

impl ObservationSeverity {
    /// Returns the word for the severity.
    pub fn label(self) -> &'static str {
        match self {
            ObservationSeverity::Good => "good",
            ObservationSeverity::Note => "note",
            ObservationSeverity::Change => "change",
        }
    }
}

/// One observation, shown as one line of the output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Observation {
    /// Subject of the observation: `Machine`, or a directory.
    pub about: String,
    /// Property that was examined, such as `direct I/O`.
    pub subject: &'static str,
    /// How much the observation matters to a measurement.
    pub weight: ObservationSeverity,
    /// Value that was found, with units.
    pub state: String,
    /// Recommended action or consequence.
    pub advice: Option<String>,
}

impl Observation {
    /// Creates an observation of a suitable state.
    pub fn ok(about: &str, subject: &'static str, state: impl Into<String>) -> Observation {
        Observation {
            about: about.into(),
            subject,
            weight: ObservationSeverity::Good,
            state: state.into(),
            advice: None,
        }
    }

    /// Creates an observation to be considered.
    pub fn information(
        about: &str,
        subject: &'static str,
        state: impl Into<String>,
        advice: Option<&str>,
    ) -> Observation {
        let advice = advice.map(str::to_string);
        Observation {
            about: about.into(),
            subject,
            weight: ObservationSeverity::Note,
            state: state.into(),
            advice,
        }
    }

    /// Creates an observation of a state that should be changed.
    pub fn recommendation(
        about: &str,
        subject: &'static str,
        state: impl Into<String>,
        advice: impl Into<String>,
    ) -> Observation {
        let advice = Some(advice.into());
        Observation {
            about: about.into(),
            subject,
            weight: ObservationSeverity::Change,
            state: state.into(),
            advice,
        }
    }
}
