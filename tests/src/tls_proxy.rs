//! A TCP proxy between two processes that can cut connections. It forwards bytes unchanged.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

#[derive(Default)]
struct ProxyConnections {
    target: Mutex<Option<SocketAddr>>,
    streams: Mutex<Vec<TcpStream>>,
    /// Number of bytes after which the next connection is cut.
    remaining_bytes: AtomicU64,
    is_stopped: AtomicBool,
    cuts: AtomicU64,
}

/// Proxy that listens on a fixed address, and forwards connections to a target address that can change.
pub struct TlsProxy {
    connections: Arc<ProxyConnections>,
    port: u16,
}

impl TlsProxy {
    /// Listens on the loopback address.
    pub fn start() -> TlsProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let port = listener.local_addr().expect("it listens").port();
        let ends =
            Arc::new(ProxyConnections { remaining_bytes: u64::MAX.into(), ..ProxyConnections::default() });
        let shared = ends.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                shared.forward(client);
            }
        });
        TlsProxy { connections: ends, port }
    }

    /// Returns the port of the listener.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the target of new connections. `None` refuses them.
    pub fn set_target(&self, target: Option<SocketAddr>) {
        *self.connections.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Cuts the connection that transfers the next byte after `bytes` further bytes.
    pub fn cut_after(&self, bytes: u64) {
        self.connections.remaining_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.connections.cut();
    }

    /// Returns the number of connections that [`TlsProxy::cut_after`] has cut.
    pub fn cuts(&self) -> u64 {
        self.connections.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.connections.is_stopped.store(true, Ordering::Relaxed);
        self.connections.cut();
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl ProxyConnections {
    fn cut(&self) {
        for stream in self.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn forward(self: &Arc<ProxyConnections>, client: TcpStream) {
        let target = *self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(server) = target.and_then(|target| TcpStream::connect(target).ok()) else { return };
        let handles = [&client, &server, &client, &server].map(TcpStream::try_clone);
        let [Ok(from_client), Ok(from_server), Ok(one), Ok(other)] = handles else { return };
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).extend([one, other]);
        for (from, to) in [(from_client, server), (from_server, client)] {
            let ends = self.clone();
            thread::spawn(move || ends.carry(from, to));
        }
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(came @ 1..) = from.read(&mut buffer) {
            let left = self.remaining_bytes.load(Ordering::Relaxed);
            let through = usize::try_from(left).unwrap_or(usize::MAX).min(came);
            if to.write_all(&buffer[..through]).is_err() {
                break;
            }
            if through < came {
                self.remaining_bytes.store(u64::MAX, Ordering::Relaxed);
                self.cuts.fetch_add(1, Ordering::Relaxed);
                self.cut();
                break;
            }
            if left != u64::MAX {
                self.remaining_bytes.fetch_sub(came as u64, Ordering::Relaxed);
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}
