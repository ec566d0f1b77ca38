//! Addresses on which commands listen.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

use jetcell_input::OptionValueError;

/// Parses an address such as `9100`, `192.0.2.1:9100` or `[::1]:9100`. A port without an address means the loopback
/// interface.
pub fn listen_address(text: &str) -> Result<SocketAddr, OptionValueError> {
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(|| {
        let examples = "use PORT or ADDRESS:PORT, for example 9100 or 0.0.0.0:9100";
        OptionValueError::unparsable(text, "an address", examples)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_an_address_is_on_the_loopback_interface() {
        for (text, expected) in [
            ("9100", "127.0.0.1:9100"),
            (":9100", "127.0.0.1:9100"),
            ("192.0.2.1:7", "192.0.2.1:7"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(listen_address(text), Ok(expected.parse().unwrap()));
        }
        for nonsense in ["", "host", "70000", "1.2.3.4", "1.2.3.4:x", "::1"] {
            assert!(listen_address(nonsense).is_err(), "{nonsense}");
        }
    }
}
