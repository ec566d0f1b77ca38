//! An observation about the machine or a directory.

use jetcell_report::Tone;
use serde::Serialize;

/// How much an observation matters to a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ObservationSeverity {
    /// The observed state is suitable for a measurement.
    Good,
    /// The observed state should be considered when results are read or compared.
    Note,
    /// The observed state should be changed before a measurement.
    Change,
}

impl ObservationSeverity {
    pub(super) fn label(self) -> &'static str {
        match self {
            ObservationSeverity::Good => "good",
            ObservationSeverity::Note => "note",
            ObservationSeverity::Change => "change",
        }
    }

    pub(super) fn tone(self) -> Tone {
        match self {
            ObservationSeverity::Good => Tone::Good,
            ObservationSeverity::Note => Tone::Neutral,
            ObservationSeverity::Change => Tone::Warning,
        }
    }
}

/// One observation, shown as one line of the output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Observation {
    /// Subject of the observation: `Machine`, or a directory.
    pub(super) about: String,
    /// Property that was examined, such as `direct I/O`.
    pub(super) subject: &'static str,
    pub(super) weight: ObservationSeverity,
    /// Value that was found, with units.
    pub(super) state: String,
    /// Recommended action or consequence.
    pub(super) advice: Option<String>,
}

impl Observation {
    pub(super) fn ok(about: &str, subject: &'static str, state: impl Into<String>) -> Observation {
        Observation {
            about: about.into(),
            subject,
            weight: ObservationSeverity::Good,
            state: state.into(),
            advice: None,
        }
    }

    pub(super) fn information(
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

    pub(super) fn recommendation(
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
