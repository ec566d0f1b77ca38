//! Smart plugs with a power meter, read over HTTP on the local network.

use std::time::Duration;

use serde_json::Value;

use crate::error::{MeterError, PowerError};
use crate::plug_kind::PlugKind;

/// Maximum time to wait for a response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

impl PlugKind {
    fn path(self) -> &'static str {
        match self {
            PlugKind::Tasmota => "/cm?cmnd=Status%2010",
            PlugKind::Shelly => "/rpc/Switch.GetStatus?id=0",
            PlugKind::Shelly1 => "/meter/0",
        }
    }

    /// Returns the energy counter from a response, in joules. The resolution is coarse: Tasmota counts watt-hours,
    /// and first-generation Shelly plugs count watt-minutes.
    fn joules(self, answer: &Value) -> Option<f64> {
        let (pointer, unit) = match self {
            PlugKind::Tasmota => ("/StatusSNS/ENERGY/Total", 3.6e6),
            PlugKind::Shelly => ("/aenergy/total", 3600.0),
            PlugKind::Shelly1 => ("/total", 60.0),
        };
        Some(answer.pointer(pointer)?.as_f64()? * unit).filter(|joules| joules.is_finite() && *joules >= 0.0)
    }

    /// Returns the power from a response, in watts.
    fn watts(self, answer: &Value) -> Option<f64> {
        match self {
            PlugKind::Tasmota => answer.pointer("/StatusSNS/ENERGY/Power")?.as_f64(),
            PlugKind::Shelly => answer.get("apower")?.as_f64(),
            PlugKind::Shelly1 if answer.get("is_valid") == Some(&Value::Bool(false)) => None,
            PlugKind::Shelly1 => answer.get("power")?.as_f64(),
        }
    }
}

/// A smart plug that measures the power drawn by the equipment connected to it.
pub struct SmartPlug {
    kind: PlugKind,
    url: String,
    agent: ureq::Agent,
}

impl SmartPlug {
    /// Opens the plug and reads it once. Fails if the power is 0 W, because a relay without a meter and a plug
    /// without a connected device report 0 W or no value.
    pub(crate) fn open(kind: PlugKind, address: &str) -> Result<SmartPlug, PowerError> {
        let base = address.trim_end_matches('/');
        let base = if base.contains("://") { base.to_string() } else { format!("http://{base}") };
        let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build();
        let plug = SmartPlug { kind, url: format!("{base}{}", kind.path()), agent: config.into() };
        match plug.read()?.0 {
            watts if watts > 0.0 => Ok(plug),
            _ => Err(plug.error(MeterError::NoLoad)),
        }
    }

    /// Returns the power in watts, and the counter value in joules if the plug has a counter.
    pub(crate) fn read(&self) -> Result<(f64, Option<f64>), PowerError> {
        let answer = self.agent.get(&self.url).call().map_err(|error| self.error(error.into()))?;
        let answer = answer.into_body().into_with_config().limit(MAX_RESPONSE_BYTES).read_to_vec();
        let answer = answer.map_err(|error| self.error(error.into()))?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|_| self.error(MeterError::NotJson))?;
        let watts = self.kind.watts(&answer).filter(|watts| watts.is_finite() && *watts >= 0.0);
        let watts = watts.ok_or_else(|| self.error(MeterError::NoPowerValue))?;
        Ok((watts, self.kind.joules(&answer)))
    }

    fn error(&self, error: MeterError) -> PowerError {
        PowerError::meter(format!("{} {}", self.kind.name(), self.url), error)
    }
}

impl From<ureq::Error> for MeterError {
    fn from(error: ureq::Error) -> MeterError {
        match error {
            ureq::Error::Io(error) => MeterError::Connection(error),
            ureq::Error::StatusCode(status) => MeterError::HttpStatus(status),
            other => MeterError::Request(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Starts a simulated plug that sends these responses in order.
    fn plug(answers: Vec<(u16, String)>) -> (String, thread::JoinHandle<Vec<String>>) {
        let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", server.server_addr().to_ip().unwrap());
        let serving = thread::spawn(move || {
            let mut asked = Vec::new();
            for (status, answer) in answers {
                let request = server.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
                asked.push(request.url().to_string());
                request.respond(tiny_http::Response::from_string(answer).with_status_code(status)).unwrap();
            }
            asked
        });
        (address, serving)
    }

    fn answer(kind: PlugKind, watts: f64) -> String {
        match kind {
            PlugKind::Tasmota => {
                format!("{{\"StatusSNS\":{{\"Time\":\"x\",\"ENERGY\":{{\"Total\":3.1,\"Power\":{watts}}}}}}}")
            }
            PlugKind::Shelly => {
                format!("{{\"id\":0,\"output\":true,\"apower\":{watts},\"aenergy\":{{\"total\":11.3}}}}")
            }
            PlugKind::Shelly1 => format!("{{\"power\":{watts},\"is_valid\":true,\"total\":12}}"),
        }
    }

    #[test]
    fn every_plug_kind_is_queried_for_power_and_energy() {
        // The values are 3.1 kWh, 11.3 Wh and 12 watt-minutes.
        let counters = [3.1 * 3.6e6, 11.3 * 3600.0, 12.0 * 60.0];
        for (kind, counter) in PlugKind::ALL.into_iter().zip(counters) {
            let (address, serving) = plug(vec![(200, answer(kind, 41.5)), (200, answer(kind, 0.0))]);
            let opened = SmartPlug::open(kind, &address).unwrap();
            // After a device has drawn power, 0 W is a valid reading.
            assert_eq!(opened.read().unwrap(), (0.0, Some(counter)));
            assert!(serving.join().unwrap().iter().all(|asked| asked == kind.path()));
        }
    }

    #[test]
    fn a_plug_without_a_counter_has_power_only() {
        for (kind, text) in [
            (PlugKind::Tasmota, "{\"StatusSNS\":{\"ENERGY\":{\"Power\":4,\"Total\":[1,2]}}}"),
            (PlugKind::Shelly, "{\"apower\":4,\"aenergy\":{\"total\":null}}"),
            (PlugKind::Shelly1, "{\"power\":4,\"total\":-1}"),
        ] {
            let answer = serde_json::from_str(text).unwrap();
            assert_eq!((kind.watts(&answer), kind.joules(&answer)), (Some(4.0), None), "{text}");
        }
    }

    #[test]
    fn an_invalid_plug_figure_is_an_error() {
        for (kind, status, text, said) in [
            (PlugKind::Tasmota, 200, answer(PlugKind::Tasmota, 0.0), "0 W"),
            (
                PlugKind::Shelly,
                200,
                "{\"id\":0,\"output\":true}".to_string(),
                "does not contain a power value",
            ),
            (
                PlugKind::Shelly1,
                200,
                "{\"power\":5,\"is_valid\":false}".to_string(),
                "does not contain a power value",
            ),
            (PlugKind::Shelly, 200, answer(PlugKind::Shelly, -3.0), "does not contain a power value"),
            (PlugKind::Shelly, 200, "<html>".to_string(), "not JSON"),
            (PlugKind::Shelly, 404, String::new(), "404"),
            (PlugKind::Tasmota, 200, format!("\"{}\"", "x".repeat(70 << 10)), "limit"),
        ] {
            let (address, serving) = plug(vec![(status, text)]);
            let found = SmartPlug::open(kind, &address).err().unwrap().to_string();
            assert!(found.contains(said), "{said}: {found}");
            serving.join().unwrap();
        }
    }
}
