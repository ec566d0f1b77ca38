//! Connection to a NATS server. Only core NATS is used, because this client's JetStream support does not work with
//! servers of version 2.9.
//!
//! The client is asynchronous. It runs on its own thread and exchanges messages with the other threads through
//! queues.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt;
use futures_util::stream::select_all;
use jetcell_vfs::{check_input, check_secret, read_secret};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::{Bus, BusError, MAX_PEM_BYTES, MAX_SECRET_BYTES};

/// Maximum number of received messages in the queue. Any more are dropped.
const RECEIVE_QUEUE_CAPACITY: usize = 8192;

/// Maximum number of messages in the send queue. Any more are dropped.
const SEND_QUEUE_CAPACITY: usize = 1024;

/// Time-out for connecting and subscribing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum delay before reconnecting after a connection is lost.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Interval at which the client checks that the server still responds.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Time-out for adding a message to the connection's queue. The queue fills up while the network is interrupted.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Time-out for sending the queued messages at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// NATS server address and credentials. Secrets are read only from files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsAccess {
    /// Server addresses, such as `nats://127.0.0.1:4222` or `tls://nats.example.org:4222`, separated by commas.
    pub url: String,
    /// File with a token.
    pub token_file: Option<PathBuf>,
    /// Credentials file, which contains a JWT and its nkey seed.
    pub credentials: Option<PathBuf>,
    /// File with an nkey seed.
    pub nkey_file: Option<PathBuf>,
    /// Certificates of the authorities that may have signed the server's certificate.
    pub tls_ca: Option<PathBuf>,
    /// The client's certificate and key.
    pub tls_client: Option<(PathBuf, PathBuf)>,
}

impl NatsAccess {
    /// Returns the addresses. Fails if an address contains a password.
    fn addresses(&self) -> Result<Vec<String>, BusError> {
        let addresses: Vec<String> = self.url.split(',').map(|url| url.trim().to_string()).collect();
        // Command-line arguments are visible to every user of the host.
        if addresses.iter().any(|url| url.contains('@')) {
            Err(BusError::PasswordInAddress)
        } else {
            Ok(addresses)
        }
    }

    fn options(&self) -> Result<ConnectOptions, BusError> {
        let unreadable = |path: &PathBuf, error: std::io::Error| BusError::File { path: path.clone(), error };
        let text =
            |path: &PathBuf| read_secret(path, MAX_SECRET_BYTES).map_err(|error| unreadable(path, error));
        let secret = |path: &PathBuf| text(path).map(|text| text.trim().to_string());
        // The client library opens these files by path.
        let pem = |path: &PathBuf| match check_input(path, MAX_PEM_BYTES) {
            Ok(()) => Ok(path.clone()),
            Err(error) => Err(unreadable(path, error)),
        };
        let mut options = ConnectOptions::new()
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .reconnect_delay_callback(|attempts| {
                MAX_RECONNECT_DELAY.min(Duration::from_millis(50 * attempts as u64))
            })
            .event_callback(|_| async {});
        if let Some(path) = &self.token_file {
            options = options.token(secret(path)?);
        }
        if let Some(path) = &self.nkey_file {
            options = options.nkey(secret(path)?);
        }
        if let Some(path) = &self.credentials {
            options = options.credentials(&text(path)?).map_err(|error| unreadable(path, error))?;
        }
        if let Some(path) = &self.tls_ca {
            options = options.add_root_certificates(pem(path)?).require_tls(true);
        }
        if let Some((certificate, key)) = &self.tls_client {
            check_secret(key, MAX_PEM_BYTES).map_err(|error| unreadable(key, error))?;
            options = options.add_client_certificate(pem(certificate)?, key.clone()).require_tls(true);
        }
        Ok(options)
    }
}

/// A request to the client thread.
enum NatsRequest {
    Publish(String, Vec<u8>),
    Flush(SyncSender<()>),
}

/// A connection to a NATS server, which is reopened whenever it is lost.
pub struct NatsBus {
    jobs: Option<mpsc::Sender<NatsRequest>>,
    received: Mutex<Receiver<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl NatsBus {
    /// Connects and subscribes to these subjects.
    pub fn connect(access: &NatsAccess, subjects: &[String]) -> Result<NatsBus, BusError> {
        let (jobs, wanted) = mpsc::channel(SEND_QUEUE_CAPACITY);
        let (sender, received) = sync_channel(RECEIVE_QUEUE_CAPACITY);
        let (ready, is_ready) = oneshot::channel();
        let (access, subjects) = (access.clone(), subjects.to_vec());
        let addresses = access.addresses()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(BusError::NotStarted)?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(serve(access, addresses, subjects, ready, sender, wanted));
        });
        match is_ready.blocking_recv() {
            Ok(Ok(())) => {
                Ok(NatsBus { jobs: Some(jobs), received: Mutex::new(received), thread: Some(thread) })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(BusError::Stopped),
        }
    }
}

impl Bus for NatsBus {
    fn publish(&self, subject: &str, payload: Vec<u8>) {
        if let Some(jobs) = &self.jobs {
            // A dropped message does no harm, because the next heartbeat repeats its content.
            let _ = jobs.try_send(NatsRequest::Publish(subject.into(), payload));
        }
    }

    fn receive(&self, wait: Duration) -> Option<Vec<u8>> {
        self.received.lock().recv_timeout(wait).ok()
    }

    fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        if self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(NatsRequest::Flush(done)).is_ok()) {
            let _ = is_done.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl Drop for NatsBus {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn open_connection(access: &NatsAccess, addresses: Vec<String>) -> Result<Client, BusError> {
    let options = access.options()?;
    let url = access.url.clone();
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT * 2, options.connect(addresses));
    match connecting.await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(BusError::Connect { url, error }),
        Err(_) => Err(BusError::NoResponse { url }),
    }
}

/// Connects and reports the result, then forwards messages until the sender is dropped.
async fn serve(
    access: NatsAccess,
    addresses: Vec<String>,
    subjects: Vec<String>,
    ready: oneshot::Sender<Result<(), BusError>>,
    received: SyncSender<Vec<u8>>,
    mut jobs: mpsc::Receiver<NatsRequest>,
) {
    let client = match open_connection(&access, addresses).await {
        Ok(client) => client,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let mut subscriptions = Vec::new();
    for subject in subjects {
        match client.subscribe(subject).await {
            Ok(subscription) => subscriptions.push(subscription),
            Err(error) => return drop(ready.send(Err(BusError::Subscribe(error)))),
        }
    }
    // When the flush completes, the server has processed the subscriptions.
    let _ = tokio::time::timeout(CONNECT_TIMEOUT, client.flush()).await;
    let _ = ready.send(Ok(()));
    let mut messages = select_all(subscriptions);
    loop {
        tokio::select! {
            // Polling is biased toward received messages, so they are forwarded even while many messages are being
            // sent.
            biased;
            Some(message) = messages.next() => {
                let _ = received.try_send(message.payload.to_vec());
            }
            job = jobs.recv() => match job {
                Some(NatsRequest::Publish(subject, payload)) => {
                    // Messages are dropped while the server is disconnected, because they would be outdated on
                    // arrival.
                    if client.connection_state() == State::Connected {
                        let _ = tokio::time::timeout(PUBLISH_TIMEOUT, client.publish(subject, payload.into())).await;
                    }
                }
                Some(NatsRequest::Flush(done)) => {
                    let _ = tokio::time::timeout(FLUSH_TIMEOUT, client.flush()).await;
                    let _ = done.try_send(());
                }
                None => break,
            },
        }
    }
    let _ = tokio::time::timeout(FLUSH_TIMEOUT, client.flush()).await;
}
