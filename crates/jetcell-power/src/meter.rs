//! Power meters that can be read while a test runs.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

#[cfg(not(feature = "plugs"))]
use crate::error::MeterError;
use crate::error::PowerError;
use crate::hwmon::Hwmon;
use crate::ipmi::Ipmi;
#[cfg(feature = "plugs")]
use crate::plug::SmartPlug;
use crate::plug_kind::PlugKind;
use crate::rapl::Rapl;
use crate::scope::MeterScope;

/// A power meter's reading at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MeterReading {
    /// Power in watts.
    Watts(f64),
    /// Value of an energy counter in joules.
    Joules(f64),
    /// Power in watts and counter in joules. The counter is more accurate over long periods, the power over short
    /// ones.
    WattsAndJoules(f64, f64),
}

/// The kind and location of a power meter. The text form is `rapl`, `hwmon`, `hwmon=NAME`, `ipmi`, `tasmota=URL`,
/// `shelly=URL` or `shelly1=URL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeterKind {
    /// Energy counters of the processor packages and memory.
    Rapl,
    /// Power sensor of the hardware monitor, given by the name, directory or path of its chip. `None` selects the
    /// only sensor.
    Hwmon(Option<String>),
    /// Board controller of the machine, read with `ipmitool`.
    Ipmi,
    /// Smart plug at the given address.
    Plug(PlugKind, String),
}

impl MeterKind {
    /// Returns the meter's scope. Returns `None` for a plug or hardware monitor, because the devices it supplies are
    /// not known.
    pub fn scope(&self) -> Option<MeterScope> {
        match self {
            MeterKind::Rapl => Some(MeterScope::Processor),
            MeterKind::Ipmi => Some(MeterScope::Server),
            MeterKind::Hwmon(_) | MeterKind::Plug(..) => None,
        }
    }

    /// Opens the meter and reads it once to verify that it provides readings.
    pub fn open(&self) -> Result<PowerMeter, PowerError> {
        let meter = match self {
            MeterKind::Rapl => PowerMeter::Rapl(Rapl::open("/sys/class/powercap".as_ref())?),
            MeterKind::Hwmon(name) => {
                PowerMeter::Hwmon(Hwmon::open("/sys/class/hwmon".as_ref(), name.as_deref())?)
            }
            MeterKind::Ipmi => PowerMeter::Ipmi(Ipmi::open("ipmitool")?),
            #[cfg(feature = "plugs")]
            MeterKind::Plug(kind, address) => PowerMeter::Plug(SmartPlug::open(*kind, address)?),
            #[cfg(not(feature = "plugs"))]
            MeterKind::Plug(..) => {
                return Err(PowerError::meter(self.to_string(), MeterError::PlugsNotSupported));
            }
        };
        Ok(meter)
    }
}

impl fmt::Display for MeterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeterKind::Rapl => f.write_str("rapl"),
            MeterKind::Hwmon(None) => f.write_str("hwmon"),
            MeterKind::Hwmon(Some(name)) => write!(f, "hwmon={name}"),
            MeterKind::Ipmi => f.write_str("ipmi"),
            MeterKind::Plug(kind, address) => write!(f, "{}={address}", kind.name()),
        }
    }
}

/// Error for text that does not describe a meter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MeterKindError {
    /// A smart plug without an address.
    #[error("{} requires an address", .0.name())]
    NoAddress(PlugKind),
    /// The text is not the name of a meter.
    #[error("\"{0}\" is not a valid meter")]
    Unknown(String),
}

impl MeterKindError {
    /// Returns what the user can do about the error, for example `use tasmota=http://192.168.1.20`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            MeterKindError::NoAddress(plug) => {
                format!("use an address such as {}=http://192.168.1.20", plug.name()).into()
            }
            MeterKindError::Unknown(_) => {
                "use rapl, hwmon, hwmon=NAME, ipmi, tasmota=URL, shelly=URL or shelly1=URL".into()
            }
        })
    }
}

impl FromStr for MeterKind {
    type Err = MeterKindError;

    fn from_str(text: &str) -> Result<MeterKind, MeterKindError> {
        let (kind, place) = match text.split_once('=') {
            Some((kind, place)) => (kind, Some(place.trim()).filter(|place| !place.is_empty())),
            None => (text, None),
        };
        match (kind, PlugKind::ALL.into_iter().find(|plug| plug.name() == kind), place) {
            ("rapl", _, None) => Ok(MeterKind::Rapl),
            ("ipmi", _, None) => Ok(MeterKind::Ipmi),
            ("hwmon", _, name) => Ok(MeterKind::Hwmon(name.map(str::to_string))),
            (_, Some(plug), Some(address)) => Ok(MeterKind::Plug(plug, address.to_string())),
            (_, Some(plug), None) => Err(MeterKindError::NoAddress(plug)),
            _ => Err(MeterKindError::Unknown(text.into())),
        }
    }
}

/// An open power meter, which provided a reading when it was opened.
pub enum PowerMeter {
    /// See [`MeterKind::Rapl`].
    Rapl(Rapl),
    /// See [`MeterKind::Hwmon`].
    Hwmon(Hwmon),
    /// See [`MeterKind::Ipmi`].
    Ipmi(Ipmi),
    /// See [`MeterKind::Plug`].
    #[cfg(feature = "plugs")]
    Plug(SmartPlug),
}

impl PowerMeter {
    /// Reads the meter.
    pub fn read(&mut self) -> Result<MeterReading, PowerError> {
        match self {
            PowerMeter::Rapl(rapl) => rapl.read().map(MeterReading::Joules),
            PowerMeter::Hwmon(hwmon) => hwmon.read().map(MeterReading::Watts),
            PowerMeter::Ipmi(ipmi) => ipmi.read().map(MeterReading::Watts),
            #[cfg(feature = "plugs")]
            PowerMeter::Plug(plug) => plug.read().map(|(watts, counter)| match counter {
                Some(joules) => MeterReading::WattsAndJoules(watts, joules),
                None => MeterReading::Watts(watts),
            }),
        }
    }
}

/// Tries to open each kind of meter on this machine. The result contains an error for each meter that provides no
/// readings. Plugs are not searched for.
pub fn detect_meters() -> Vec<(MeterKind, Result<(), PowerError>)> {
    let chips = Hwmon::chips("/sys/class/hwmon".as_ref());
    let monitors = if chips.is_empty() {
        vec![MeterKind::Hwmon(None)]
    } else {
        chips.into_iter().map(|name| MeterKind::Hwmon(Some(name))).collect()
    };
    let kinds = [MeterKind::Rapl].into_iter().chain(monitors).chain([MeterKind::Ipmi]);
    kinds
        .map(|kind| {
            let opened = kind.open().map(|_| ());
            (kind, opened)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meter_names_round_trip() {
        for name in [
            "rapl",
            "ipmi",
            "hwmon",
            "hwmon=acpi",
            "hwmon=/sys/class/hwmon/hwmon2",
            "tasmota=http://plug",
            "shelly=http://a",
            "shelly1=http://b",
        ] {
            assert_eq!(name.parse::<MeterKind>().unwrap().to_string(), name);
        }
        for (name, said) in [
            ("rapl=x", "is not a valid meter"),
            ("volt", "is not a valid meter"),
            ("tasmota", "requires an address"),
            ("shelly=", "requires an address"),
        ] {
            assert!(name.parse::<MeterKind>().unwrap_err().to_string().contains(said), "{name}");
        }
    }
}
