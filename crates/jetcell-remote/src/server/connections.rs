//! A server's connections, and the order in which they are closed to make room for new ones.
//!
//! Invariant: connections without a valid token use only the slots reserved for them, and never prevent a client with
//! the token from connecting. A new connection of this kind preferably replaces one from the same network.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};

/// Limits on the number of open connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionLimits {
    /// Maximum number of connections with a valid token.
    pub authenticated: usize,
    /// Maximum number of connections that have not yet sent the token.
    pub unauthenticated: usize,
    /// Maximum number of connections from one network that have not yet sent the token.
    pub unauthenticated_per_network: usize,
}

/// A connection that another thread can close.
pub(crate) trait ClosableConnection {
    /// Closes the connection. The thread that serves it detects this immediately.
    fn close(&self);
}

impl ClosableConnection for TcpStream {
    fn close(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

struct OpenConnection<H> {
    handle: H,
    network: IpAddr,
    is_authenticated: bool,
}

/// Open connections, keyed by number. Newer connections have higher numbers.
pub(crate) struct OpenConnections<H> {
    limits: ConnectionLimits,
    last: u64,
    open: BTreeMap<u64, OpenConnection<H>>,
}

impl<H: ClosableConnection> OpenConnections<H> {
    pub fn new(room: ConnectionLimits) -> OpenConnections<H> {
        OpenConnections { limits: room, last: 0, open: BTreeMap::new() }
    }

    /// Adds a connection that has not yet sent the token. Returns its number, and whether another such connection was
    /// closed to make room for it.
    ///
    /// If the new connection's network has reached its limit, the oldest connection from that network is closed.
    /// Otherwise, if all slots are in use, the oldest connection from the network with the most connections is
    /// closed.
    pub fn add(&mut self, handle: H, peer: IpAddr) -> (u64, bool) {
        let network = network_of(peer);
        let numbers = self.unauthenticated_by_network();
        let total: usize = numbers.values().sum();
        let of_network = numbers.get(&network).copied().unwrap_or(0);
        let gives_way = if of_network >= self.limits.unauthenticated_per_network {
            Some(network)
        } else if total >= self.limits.unauthenticated {
            numbers.into_iter().max_by_key(|(_, number)| *number).map(|(network, _)| network)
        } else {
            None
        };
        let ended = gives_way.is_some_and(|network| self.close_oldest(network));
        self.last += 1;
        self.open.insert(self.last, OpenConnection { handle, network, is_authenticated: false });
        (self.last, ended)
    }

    fn unauthenticated_by_network(&self) -> BTreeMap<IpAddr, usize> {
        let mut numbers = BTreeMap::new();
        for connection in self.open.values().filter(|connection| !connection.is_authenticated) {
            *numbers.entry(connection.network).or_default() += 1;
        }
        numbers
    }

    fn close_oldest(&mut self, network: IpAddr) -> bool {
        let mut unknown = self.open.iter().filter(|(_, connection)| !connection.is_authenticated);
        let oldest = unknown.find(|(_, connection)| connection.network == network).map(|(id, _)| *id);
        let ended = oldest.and_then(|id| self.open.remove(&id));
        ended.is_some_and(|connection| {
            connection.handle.close();
            true
        })
    }

    /// Marks a connection whose client has sent a valid token. Returns false if there are too many such connections.
    pub fn admit(&mut self, id: u64) -> bool {
        let known = self.open.values().filter(|connection| connection.is_authenticated).count();
        match self.open.get_mut(&id) {
            Some(connection) if known < self.limits.authenticated => {
                connection.is_authenticated = true;
                true
            }
            _ => false,
        }
    }

    /// Removes a connection that has ended.
    pub fn remove(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// Closes all connections. Each connection is removed when its thread exits.
    pub fn close_all(&self) {
        self.open.values().for_each(|connection| connection.handle.close());
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Maps an address to its network. Addresses among which a single host can choose freely belong to the same network.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(bits).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Records the names of the connections that were closed.
    struct RecordedConnection(&'static str, Rc<RefCell<Vec<&'static str>>>);

    impl ClosableConnection for RecordedConnection {
        fn close(&self) {
            self.1.borrow_mut().push(self.0);
        }
    }

    #[test]
    fn unauthenticated_connections_are_evicted_and_authenticated_connections_stay() {
        let ended = Rc::new(RefCell::new(Vec::new()));
        let noted = |name| RecordedConnection(name, ended.clone());
        let room = ConnectionLimits { authenticated: 2, unauthenticated: 4, unauthenticated_per_network: 3 };
        let mut connections = OpenConnections::new(room);
        let [copy, attacker, third] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|text| text.parse().unwrap());
        let (first, _) = connections.add(noted("copy"), copy);
        assert!(connections.admit(first));
        for name in ["a1", "a2", "a3"] {
            assert!(!connections.add(noted(name), attacker).1, "{name}");
        }
        // The oldest connection of the same network is closed.
        assert!(connections.add(noted("a4"), attacker).1);
        assert_eq!(*ended.borrow(), ["a1"]);
        // All slots are in use. A connection from the network with the most connections is closed, not the new one.
        assert!(!connections.add(noted("copy again"), copy).1);
        let (newest, was_ended) = connections.add(noted("third"), third);
        assert!(was_ended && connections.admit(newest));
        assert_eq!(*ended.borrow(), ["a1", "a2"]);
        // The maximum number of clients with the token is reached.
        let (more, _) = connections.add(noted("more"), third);
        assert!(!connections.admit(more));
        connections.remove(first);
        assert!(connections.admit(more));
        // A connection that has been closed is not admitted.
        assert!(!connections.admit(2));
    }

    #[test]
    fn addresses_in_one_network_share_a_limit() {
        let parsed_network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(parsed_network("2001:db8:1:2:3:4:5:6"), parsed_network("2001:db8:1:2:ffff::1"));
        assert_ne!(parsed_network("2001:db8:1:2::1"), parsed_network("2001:db8:1:3::1"));
        assert_eq!(parsed_network("::ffff:10.0.0.1"), parsed_network("10.0.0.1"));
        assert_ne!(parsed_network("10.0.0.1"), parsed_network("10.0.0.2"));
    }
}
