//! A server's connections, and the order in which they are closed to make room for new ones.
//!
//! Invariant: connections without a valid token use only the slots reserved for them, and never prevent a client with
//! the token from connecting. A new connection of this kind preferably replaces one from the same network.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};

/// Maximum numbers of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// Maximum number of connections with a valid token.
    pub known: usize,
    /// Maximum number of connections that have not yet sent the token.
    pub unknown: usize,
    /// Maximum number of connections from one network that have not yet sent the token.
    pub unknown_per_network: usize,
}

/// A connection that another thread can close.
pub(crate) trait Handle {
    /// Closes the connection. The thread that serves it detects this immediately.
    fn end(&self);
}

impl Handle for TcpStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

struct Connection<H> {
    handle: H,
    network: IpAddr,
    is_known: bool,
}

/// Open connections by number. Newer connections have higher numbers.
pub(crate) struct Connections<H> {
    room: Room,
    last: u64,
    open: BTreeMap<u64, Connection<H>>,
}

impl<H: Handle> Connections<H> {
    pub fn new(room: Room) -> Connections<H> {
        Connections { room, last: 0, open: BTreeMap::new() }
    }

    /// Adds a connection that has not yet sent the token. Returns its number, and whether another such connection was
    /// closed to make room for it.
    ///
    /// If the new connection's network has reached its limit, the oldest connection from that network is closed.
    /// Otherwise, if all slots are in use, the oldest connection from the network with the most connections is
    /// closed.
    pub fn add(&mut self, handle: H, peer: IpAddr) -> (u64, bool) {
        let network = network_of(peer);
        let numbers = self.unknown_by_network();
        let total: usize = numbers.values().sum();
        let of_network = numbers.get(&network).copied().unwrap_or(0);
        let gives_way = if of_network >= self.room.unknown_per_network {
            Some(network)
        } else if total >= self.room.unknown {
            numbers.into_iter().max_by_key(|(_, number)| *number).map(|(network, _)| network)
        } else {
            None
        };
        let ended = gives_way.is_some_and(|network| self.end_oldest(network));
        self.last += 1;
        self.open.insert(self.last, Connection { handle, network, is_known: false });
        (self.last, ended)
    }

    fn unknown_by_network(&self) -> BTreeMap<IpAddr, usize> {
        let mut numbers = BTreeMap::new();
        for connection in self.open.values().filter(|connection| !connection.is_known) {
            *numbers.entry(connection.network).or_default() += 1;
        }
        numbers
    }

    fn end_oldest(&mut self, network: IpAddr) -> bool {
        let mut unknown = self.open.iter().filter(|(_, connection)| !connection.is_known);
        let oldest = unknown.find(|(_, connection)| connection.network == network).map(|(id, _)| *id);
        let ended = oldest.and_then(|id| self.open.remove(&id));
        ended.is_some_and(|connection| {
            connection.handle.end();
            true
        })
    }

    /// Marks a connection whose client has sent a valid token. Returns false if there are too many such connections.
    pub fn admit(&mut self, id: u64) -> bool {
        let known = self.open.values().filter(|connection| connection.is_known).count();
        match self.open.get_mut(&id) {
            Some(connection) if known < self.room.known => {
                connection.is_known = true;
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
    pub fn end_all(&self) {
        self.open.values().for_each(|connection| connection.handle.end());
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
    struct Noted(&'static str, Rc<RefCell<Vec<&'static str>>>);

    impl Handle for Noted {
        fn end(&self) {
            self.1.borrow_mut().push(self.0);
        }
    }

    #[test]
    fn connections_without_the_token_give_way_and_those_with_it_stay() {
        let ended = Rc::new(RefCell::new(Vec::new()));
        let noted = |name| Noted(name, ended.clone());
        let room = Room { known: 2, unknown: 4, unknown_per_network: 3 };
        let mut connections = Connections::new(room);
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
    fn the_addresses_of_one_network_count_as_one() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2:ffff::1"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
