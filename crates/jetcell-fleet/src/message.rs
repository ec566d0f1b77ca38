//! Messages between the coordinator and the hosts.
//!
//! Core NATS delivers a message at most once, so the protocol does not depend on any single message. Hosts and
//! coordinator repeat their complete state in every heartbeat, and each side acts on the newest state that it has
//! received. The next heartbeat makes up for a lost heartbeat, a lost connection or a coordinator restart.

use jetcell_input::printable;
use jetcell_workload::profile::Options;
use jetcell_workload::units::TimeSpan;
use jetcell_workload::{RunPhase, TestKind};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Message format version. Hosts and coordinator must have the same version.
pub const PROTOCOL: u32 = 2;

/// Maximum length of a message in bytes, including any result chunk. Longer messages are ignored. By default, a NATS
/// server accepts up to 1 MiB.
pub const MAX_MESSAGE: usize = 512 << 10;

/// Number of bytes of a result that are sent in one message.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Maximum length of a string in a message, such as a host name or a reason, in bytes.
const MAX_TEXT: usize = 4 << 10;

/// A fleet's message subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSubjects {
    name: String,
}

impl FleetSubjects {
    /// Returns the subjects for a fleet. The name must be valid.
    pub fn new(name: &str) -> FleetSubjects {
        FleetSubjects { name: name.to_string() }
    }

    /// Returns the subject for messages from hosts.
    pub fn to_coordinator(&self) -> String {
        format!("jetcell.fleet.{}.coordinator", self.name)
    }

    /// Returns the subject for messages from the coordinator to all hosts. The coordinator also subscribes to it, to
    /// check that the broker works.
    pub fn to_all(&self) -> String {
        format!("jetcell.fleet.{}.hosts", self.name)
    }

    /// Returns the subject for messages from the coordinator to one host.
    pub fn to_host(&self, rank: u32) -> String {
        format!("jetcell.fleet.{}.host.{rank}", self.name)
    }

    /// Returns the wildcard subject for messages from the coordinator to any single host.
    pub fn to_every_host(&self) -> String {
        format!("jetcell.fleet.{}.host.*", self.name)
    }
}

/// A barrier between two phases of a fleet test. No host passes it before all hosts have reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Barrier {
    /// Start of the check for shared directories. Before this barrier, every host has accepted its options and marked
    /// its directories.
    Confirm,
    /// Start of the creation or examination of databases.
    Create,
    /// Start of the measurements of each host alone. If the fleet is configured for them, the hosts measure their
    /// loads one after another.
    Alone,
    /// Start of the load that warms the cache.
    WarmUp,
    /// Start of the common measurement, at a given point in time.
    Measure,
    /// End of the measurement on every host. After this barrier, the load ends and the databases are verified.
    Verify,
}

impl Barrier {
    /// All barriers in order.
    pub const ALL: [Barrier; 6] = [
        Barrier::Confirm,
        Barrier::Create,
        Barrier::Alone,
        Barrier::WarmUp,
        Barrier::Measure,
        Barrier::Verify,
    ];

    /// Returns the title of the phase that follows the barrier.
    pub const fn title(self) -> &'static str {
        match self {
            Barrier::Confirm => "Checking directories",
            Barrier::Create => "Creating databases",
            Barrier::Alone => "Measuring each host alone",
            Barrier::WarmUp => "Warming caches",
            Barrier::Measure => "Measuring",
            Barrier::Verify => "Verifying",
        }
    }
}

/// A fleet host's current condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum HostCondition {
    /// The host requests its assignment.
    Joining,
    /// The host cannot take part in the test.
    Refused {
        /// The reason, as a sentence.
        reason: String,
    },
    /// The host prepares or runs its test.
    Running,
    /// The test of the host has ended.
    Ended {
        /// Reason why the host has no result; `None` if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    },
}

/// A fleet host's measurements over the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveMetrics {
    /// Database reads and writes per second.
    pub iops: f64,
    /// Bytes read and written per second by these operations.
    pub bytes_per_second: f64,
    /// Mean latency of database reads in milliseconds.
    pub read_ms: f64,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: f64,
}

/// Compares a host's clock with the coordinator's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReport {
    /// The host's wall clock minus the coordinator's clock.
    pub offset_ns: i64,
    /// Shortest round-trip time of a message. The offset is accurate to within half of this time.
    pub round_trip_ns: u64,
    /// Maximum movement of the host's wall clock relative to its monotonic clock since it joined.
    pub moved_ns: u64,
}

/// A fleet host's measurement window, in nanoseconds since 1970 on the coordinator's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasurementWindow {
    /// Start of the measurement.
    pub began_ns: u64,
    /// End of the measurement; `None` while it is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
}

/// A fleet host's offer to send its result, with the result's size and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultOffer {
    /// Size of the result in bytes.
    pub bytes: u64,
    /// XXH3 checksum of the result.
    pub sum: u64,
}

/// A message about a fleet host's state, sent about twice per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostHeartbeat {
    /// Rank of the host in the fleet, starting at 0.
    pub rank: u32,
    /// Number of hosts in the fleet, if this host's launcher provides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Random identifier of the process. It distinguishes processes that have the same rank.
    pub token: String,
    /// Host name.
    pub name: String,
    /// Digest of the fleet configuration, if it was given to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// Condition of the host.
    pub condition: HostCondition,
    /// The last barrier that the host has reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Barrier>,
    /// Current phase of the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RunPhase>,
    /// Completed fraction of the phase, from 0 to 1.
    #[serde(default)]
    pub fraction: f64,
    /// Figures for the last second, while databases are open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveMetrics>,
    /// Clock report, if the clock offset is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockReport>,
    /// Measurement window, once the measurement has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<MeasurementWindow>,
    /// The offered result, once the test has ended with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<ResultOffer>,
    /// Number of messages that the host has ignored.
    #[serde(default)]
    pub ignored: u64,
}

/// A message from a fleet host to the coordinator.
// The size does not matter, because only a few values of this type exist at a time.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostMessage {
    /// The host's state.
    Beat(HostHeartbeat),
    /// A time request.
    Ping {
        /// Rank of the host that sent the request.
        rank: u32,
        /// Random identifier of the process.
        token: String,
        /// Monotonic clock of the host at the time of sending.
        sent_ns: u64,
    },
    /// A result chunk, whose bytes follow the message line.
    Piece {
        /// Rank of the host.
        rank: u32,
        /// Random identifier of the process.
        token: String,
        /// Number of the chunk, starting at 0.
        number: u64,
    },
}

/// The work assigned to a fleet host: its part of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Kind of test.
    pub test: TestKind,
    /// Test options. The host checks them against the limits set by its administrator.
    pub options: Box<Options>,
    /// Time for which the host measures its load alone before the test; `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<TimeSpan>,
}

/// A message about the coordinator's state, sent about twice per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoordinatorHeartbeat {
    /// The coordinator process's random identifier.
    pub epoch: String,
    /// The last barrier that was released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Barrier>,
    /// The host whose turn it is to measure its load alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// Start of the measurement, in nanoseconds since 1970 on the coordinator's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<u64>,
    /// Reason why every host must stop its test now; `None` if the tests may continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// A host ends its test if it receives no message for this many milliseconds.
    pub lease_ms: u64,
}

/// A message from the coordinator to fleet hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorMessage {
    /// The coordinator's state, sent to all hosts.
    Beat(CoordinatorHeartbeat),
    /// The response to a ping.
    Pong {
        /// Identifier of the process that sent the ping.
        token: String,
        /// Monotonic clock of the host when it sent the ping.
        sent_ns: u64,
        /// Coordinator clock when the ping was received. `answered_ns` is the time when the response was sent.
        received_ns: u64,
        /// See `received_ns`.
        answered_ns: u64,
    },
    /// A host's assignment.
    Order {
        /// Process to which the message is addressed.
        token: String,
        /// The assignment.
        order: Assignment,
    },
    /// A rejection: the process cannot take part.
    Rejected {
        /// Process to which the message is addressed.
        token: String,
        /// Reason for the rejection.
        reason: String,
    },
    /// A request for result chunks.
    Send {
        /// Process to which the message is addressed.
        token: String,
        /// Number of the first chunk.
        first: u64,
        /// Number of chunks.
        count: u64,
    },
    /// A dismissal: the host's result has been stored, or the host has nothing left to do. The process can exit.
    Dismissed {
        /// Process to which the message is addressed.
        token: String,
    },
}

/// A message together with the fields that are common to all messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct MessageEnvelope<T> {
    /// Version of the message format, [`PROTOCOL`].
    protocol: u32,
    /// Version of the program.
    program: String,
    /// Random run identifier. Empty in messages from a host that does not yet know the run.
    #[serde(default)]
    run: String,
    message: T,
}

/// A decoded fleet message.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedMessage<T> {
    /// The run to which the message belongs. Empty if the sender did not know it yet.
    pub run: String,
    /// The message.
    pub message: T,
    /// Bytes that follow the message line.
    pub attached: Vec<u8>,
}

/// Reason why a fleet message cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The bytes are not a fleet message.
    #[error("the message is not a fleet message")]
    Malformed,
    /// The message was sent by a different version of the program.
    #[error("the message is from jetcell {program} with message version {protocol}")]
    OtherVersion {
        /// Version of the sender's program.
        program: String,
        /// Version of the sender's message format.
        protocol: u32,
        /// Rank of the sender, if the message contains it.
        rank: Option<u32>,
    },
}

/// Encodes a message as one line of JSON, followed by `attached`.
pub fn encode<T: Serialize>(program: &str, run: &str, message: &T, attached: &[u8]) -> Vec<u8> {
    let envelope = MessageEnvelope { protocol: PROTOCOL, program: program.into(), run: run.into(), message };
    let mut bytes = serde_json::to_vec(&envelope).expect("messages have only string keys");
    if !attached.is_empty() {
        bytes.push(b'\n');
        bytes.extend_from_slice(attached);
    }
    bytes
}

/// Decodes a message that was sent by the same version of the program.
pub fn decode<T: for<'a> Deserialize<'a>>(
    program: &str,
    bytes: &[u8],
) -> Result<DecodedMessage<T>, MessageError> {
    if bytes.len() > MAX_MESSAGE {
        return Err(MessageError::Malformed);
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, attached) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    // These fields are present in messages from all versions.
    let any: MessageEnvelope<serde_json::Value> =
        serde_json::from_slice(line).map_err(|_| MessageError::Malformed)?;
    if any.protocol != PROTOCOL || any.program != program {
        let rank = any.message.as_object().and_then(|kinds| kinds.values().next()?.get("rank")?.as_u64());
        let program = printable_start(&any.program, 40);
        let rank = rank.and_then(|rank| u32::try_from(rank).ok());
        return Err(MessageError::OtherVersion { program, protocol: any.protocol, rank });
    }
    let message = T::deserialize(any.message).map_err(|_| MessageError::Malformed)?;
    Ok(DecodedMessage { run: any.run, message, attached: attached.to_vec() })
}

/// Shortens a string from a message for display and escapes its control characters.
pub fn display_text(text: &str) -> String {
    printable_start(text, MAX_TEXT / 4)
}

/// Returns the first characters of a string from another host, escaped for display.
pub fn printable_start(text: &str, max_characters: usize) -> String {
    printable(text).chars().take(max_characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping() -> HostMessage {
        HostMessage::Ping { rank: 3, token: "t".into(), sent_ns: 7 }
    }

    #[test]
    fn a_message_round_trips_with_attachments() {
        let bytes = encode("1.0", "r", &ping(), b"a\nb");
        let read: DecodedMessage<HostMessage> = decode("1.0", &bytes).unwrap();
        assert_eq!(read, DecodedMessage { run: "r".into(), message: ping(), attached: b"a\nb".to_vec() });
    }

    #[test]
    fn other_versions_are_reported_and_other_input_is_malformed() {
        let bytes = encode("0.9", "", &ping(), &[]);
        let other = MessageError::OtherVersion { program: "0.9".into(), protocol: PROTOCOL, rank: Some(3) };
        assert_eq!(decode::<HostMessage>("1.0", &bytes), Err(other));
        let mut random = Vec::new();
        for (at, byte) in encode("1.0", "r", &ping(), &[]).into_iter().enumerate() {
            random.push(byte);
            assert!(at + 1 == random.len() && (decode::<HostMessage>("1.0", &random[..at]).is_err()));
        }
        for foreign in
            [&b""[..], b"\n", b"{}", b"\xff\xfe", b"[1,2]", &vec![b'['; 100_000], &vec![b' '; 600 << 10]]
        {
            assert_eq!(decode::<HostMessage>("1.0", foreign), Err(MessageError::Malformed));
        }
        assert_eq!(decode::<CoordinatorMessage>("1.0", &random), Err(MessageError::Malformed));
    }

    #[test]
    fn barriers_are_in_order() {
        assert!(Barrier::ALL.windows(2).all(|two| two[0] < two[1]));
    }
}
