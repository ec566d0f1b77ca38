//! Addresses of directories on other hosts: `tls://HOST:PORT/NAME`.
//!
//! An address is also a path whose first components identify the host. A function that takes a path therefore also
//! accepts an address, if its file system is a [`MountedVfs`](jetcell_vfs::MountedVfs) with the host as a mount.

use std::path::{Component, Path, PathBuf};

use crate::error::{AddressError, RemoteError};

/// The scheme in a host address, which determines whether TLS is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// TLS connection.
    Tls,
    /// Unencrypted connection. Only allowed within this host.
    Tcp,
}

impl Scheme {
    /// Returns the text before the host.
    pub const fn prefix(self) -> &'static str {
        match self {
            Scheme::Tls => "tls://",
            Scheme::Tcp => "tcp://",
        }
    }
}

/// A remote host's address: scheme, host and port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostAddress {
    /// Scheme, which determines whether the connection is encrypted.
    pub scheme: Scheme,
    /// Name or IP address of the host, without brackets.
    pub host: String,
    /// Port of the server.
    pub port: u16,
}

impl HostAddress {
    /// Parses the host from an address. Returns `None` if the path refers to this host.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is an address without a host, a port or a name.
    pub fn from_path(path: &Path) -> Option<Result<HostAddress, RemoteError>> {
        // An address is always valid UTF-8, so any other path refers to this host.
        let text = path.to_str()?;
        let scheme =
            [Scheme::Tls, Scheme::Tcp].into_iter().find(|scheme| text.starts_with(scheme.prefix()))?;
        Some(HostAddress::read(text, scheme))
    }

    fn read(text: &str, scheme: Scheme) -> Result<HostAddress, RemoteError> {
        let refuse = |address, error| Err(RemoteError::Address { address, prefix: scheme.prefix(), error });
        let wrong = |error| refuse(text.to_string(), error);
        let rest = &text[scheme.prefix().len()..];
        if let Some((_, host)) = rest.rsplit_once('@') {
            // The password must not be printed.
            return refuse(format!("{}{host}", scheme.prefix()), AddressError::Password);
        }
        let Some((host, name)) = rest.split_once('/') else {
            return wrong(AddressError::NoName);
        };
        let name = name.trim_end_matches('/');
        if name.is_empty() || name.contains('/') {
            return wrong(AddressError::SeveralNames);
        }
        let Some((host, port)) = host.rsplit_once(':') else {
            return wrong(AddressError::NoPort);
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match port.parse() {
            Ok(port) if port > 0 && !host.is_empty() => {
                Ok(HostAddress { scheme, host: host.to_string(), port })
            }
            _ => wrong(AddressError::HostOrPort),
        }
    }

    /// Returns the host with its port.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns the common prefix of all paths on the host.
    pub fn root(&self) -> PathBuf {
        PathBuf::from(format!("{}{}", self.scheme.prefix(), self.authority()))
    }
}

impl std::fmt::Display for HostAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.scheme.prefix(), self.authority())
    }
}

/// Returns true if a path is an address, even if the address is malformed.
pub fn is_address(path: &Path) -> bool {
    HostAddress::from_path(path).is_some()
}

/// Returns the path components below the root of a host. Returns `None` if the path is not below the root, or
/// contains components other than plain names.
pub(crate) fn relative_components<'p>(root: &Path, path: &'p Path) -> Option<Vec<&'p str>> {
    let below = path.strip_prefix(root).ok()?;
    below
        .components()
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<HostAddress, RemoteError> {
        HostAddress::from_path(Path::new(text)).unwrap()
    }

    #[test]
    fn addresses_name_a_host_a_port_and_a_directory() {
        let address = read("tls://db1.example:9440/app").unwrap();
        assert_eq!((address.scheme, &*address.host, address.port), (Scheme::Tls, "db1.example", 9440));
        assert_eq!(address.root(), Path::new("tls://db1.example:9440"));
        let address = read("tcp://[::1]:7/x/").unwrap();
        assert_eq!((&*address.host, address.to_string()), ("::1", "tcp://[::1]:7".to_string()));
        for (wrong, shown, expected) in [
            ("tls://", "tls://", AddressError::NoName),
            ("tls://db1", "tls://db1", AddressError::NoName),
            ("tls://db1/app", "tls://db1/app", AddressError::NoPort),
            ("tls://db1:0/app", "tls://db1:0/app", AddressError::HostOrPort),
            ("tls://db1:x/app", "tls://db1:x/app", AddressError::HostOrPort),
            ("tls://:1/app", "tls://:1/app", AddressError::HostOrPort),
            ("tls://db1:1/", "tls://db1:1/", AddressError::SeveralNames),
            ("tls://db1:1/a/b", "tls://db1:1/a/b", AddressError::SeveralNames),
            ("tls://user:secret@db1:1/app", "tls://db1:1/app", AddressError::Password),
        ] {
            let refused = read(wrong).unwrap_err();
            let RemoteError::Address { address, error, .. } = &refused else { panic!("{refused:?}") };
            assert_eq!((address.as_str(), *error), (shown, expected), "{wrong}");
            assert!(refused.advice().unwrap().starts_with("use tls://HOST:PORT/NAME"), "{refused}");
        }
        let path = Path::new("tls://db1:9440/app").join("E00.log");
        let root = PathBuf::from("tls://db1:9440");
        assert_eq!(relative_components(&root, &path), Some(vec!["app", "E00.log"]));
        assert_eq!(path.parent(), Some(Path::new("tls://db1:9440/app")));
        assert_eq!(path.display().to_string(), "tls://db1:9440/app/E00.log");
        assert_eq!(relative_components(&root, Path::new("tls://db1:9440/app/../x")), None);
        assert_eq!(relative_components(&root, Path::new("tls://db2:9440/app")), None);
        assert!(["/a", "a", "tls:/x", "nats://a:1/b"].into_iter().all(|path| !is_address(Path::new(path))));
    }
}
