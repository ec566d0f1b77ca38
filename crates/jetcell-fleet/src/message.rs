//! The messages between the coordinator and the hosts.
//!
//! Core NATS delivers a message at most once, so no message is needed to arrive: hosts and coordinator repeat their whole state in every
//! beat, and each side acts on the newest state that it has. A lost beat, a broken connection and a coordinator that was started again
//! are repaired by the next beat.

use jetcell_input::printable;
use jetcell_workload::profile::Options;
use jetcell_workload::units::TimeSpan;
use jetcell_workload::{Phase, TestKind};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Version of the messages. Hosts and coordinator must have the same.
pub const PROTOCOL: u32 = 2;

/// Longest message in bytes, a piece of a result included. Longer ones are ignored. A NATS server takes up to 1 MiB by default.
pub const LONGEST_MESSAGE: usize = 512 << 10;

/// Bytes of a result in one message.
pub const PIECE: usize = 256 << 10;

/// Longest text in a message, such as a host name or a reason, in bytes.
const LONGEST_TEXT: usize = 4 << 10;

/// The subjects of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjects {
    name: String,
}

impl Subjects {
    /// The subjects of the fleet with this name, which must be a valid one.
    pub fn of(name: &str) -> Subjects {
        Subjects { name: name.to_string() }
    }

    /// What hosts send.
    pub fn to_coordinator(&self) -> String {
        format!("jetcell.fleet.{}.coordinator", self.name)
    }

    /// What the coordinator sends to all hosts. The coordinator hears it, too: so it knows that the server works.
    pub fn to_all(&self) -> String {
        format!("jetcell.fleet.{}.hosts", self.name)
    }

    /// What the coordinator sends to one host.
    pub fn to_host(&self, rank: u32) -> String {
        format!("jetcell.fleet.{}.host.{rank}", self.name)
    }

    /// What the coordinator sends to each host.
    pub fn to_every_host(&self) -> String {
        format!("jetcell.fleet.{}.host.*", self.name)
    }
}

/// A point that no host passes before all have reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Every host has accepted its options and marked its directories. Behind it each host looks for marks of others.
    Confirm,
    /// Behind it databases are created or examined.
    Create,
    /// Behind it each host measures its load alone when it is its turn, if the fleet does that.
    Alone,
    /// Behind it the load warms the cache.
    WarmUp,
    /// Behind it lies the measured time. It opens at a point of time.
    Measure,
    /// The measured time of every host is over. Behind it the load ends and databases are verified.
    Verify,
}

impl Gate {
    /// All gates in order.
    pub const ALL: [Gate; 6] =
        [Gate::Confirm, Gate::Create, Gate::Alone, Gate::WarmUp, Gate::Measure, Gate::Verify];

    /// The phase behind it, in words.
    pub const fn title(self) -> &'static str {
        match self {
            Gate::Confirm => "Checking directories",
            Gate::Create => "Creating databases",
            Gate::Alone => "Measuring one host after the other",
            Gate::WarmUp => "Warming caches",
            Gate::Measure => "Measuring",
            Gate::Verify => "Verifying",
        }
    }
}

/// What a host does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Condition {
    /// The host asks for its part of the test.
    Joining,
    /// The host does not take part, for this reason.
    Refused {
        /// Why, in a sentence.
        reason: String,
    },
    /// The host prepares or runs its test.
    Running,
    /// The test of the host has ended.
    Ended {
        /// Why it has no result, if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    },
}

/// Figures of the last second of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveFigures {
    /// Database reads and writes per second.
    pub iops: f64,
    /// Bytes of these per second.
    pub bytes_per_second: f64,
    /// Mean latency of database reads in milliseconds.
    pub read_ms: f64,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: f64,
}

/// The clock of a host beside that of the coordinator, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReport {
    /// Wall clock of the host less that of the coordinator.
    pub offset_ns: i64,
    /// Shortest round trip of a message; the offset is known to half of it.
    pub round_trip_ns: u64,
    /// How far the wall clock of the host moved against its monotonic clock since it joined, at most.
    pub moved_ns: u64,
}

/// The measured time of a host, in nanoseconds of the coordinator's clock since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its begin.
    pub began_ns: u64,
    /// Its end; `None` while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
}

/// A result that a host holds ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its bytes.
    pub bytes: u64,
    /// XXH3 of them.
    pub sum: u64,
}

/// The state of a host, about twice per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostBeat {
    /// Number of the host in the fleet, from 0.
    pub rank: u32,
    /// Hosts in the fleet, as far as the launcher of this host knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Random number of the process: another one with the same rank has another.
    pub token: String,
    /// Name of the machine.
    pub name: String,
    /// Digest of the configuration of the fleet, if the host was given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// What the host does.
    pub condition: Condition,
    /// The last gate that the host has reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Gate>,
    /// The phase of its test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Part of the phase that is done, from 0 to 1.
    #[serde(default)]
    pub fraction: f64,
    /// Figures of the last second, while databases are open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveFigures>,
    /// The clock, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockReport>,
    /// The measured time, once it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// The result, once the test has ended with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    /// Messages that the host ignored.
    #[serde(default)]
    pub ignored: u64,
}

/// What a host sends.
// Few of them are in memory at a time.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHost {
    /// Its state.
    Beat(HostBeat),
    /// A question for the time.
    Ping {
        /// Rank of the host that asks.
        rank: u32,
        /// Random number of the process.
        token: String,
        /// Monotonic clock of the host.
        sent_ns: u64,
    },
    /// A piece of the result, which follows the line of this message.
    Piece {
        /// Whose result.
        rank: u32,
        /// Random number of the process.
        token: String,
        /// Number of the piece, from 0.
        number: u64,
    },
}

/// A host's part of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The kind of test.
    pub test: TestKind,
    /// Its options. The host checks them against the limits of its administrator.
    pub options: Box<Options>,
    /// How long the host measures its load alone before the test proper, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<TimeSpan>,
}

/// The state of the coordinator, about twice per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoordinatorBeat {
    /// Random number of the process of the coordinator.
    pub epoch: String,
    /// The last gate that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Gate>,
    /// The host that may measure its load alone now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// Begin of the measured time, in nanoseconds of the coordinator's clock since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<u64>,
    /// Why every host has to end its test now, if it has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// A host that hears nothing for this long ends its test.
    pub lease_ms: u64,
}

/// What the coordinator sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromCoordinator {
    /// Its state, to all hosts.
    Beat(CoordinatorBeat),
    /// The answer to a ping.
    Pong {
        /// Process that asked.
        token: String,
        /// Monotonic clock of the host when it asked.
        sent_ns: u64,
        /// Clock of the coordinator when the question came and when the answer went.
        received_ns: u64,
        /// See `received_ns`.
        answered_ns: u64,
    },
    /// The part of a host.
    Order {
        /// The process that it is for.
        token: String,
        /// The part.
        order: Order,
    },
    /// The process cannot take part.
    Rejected {
        /// The process that it is for.
        token: String,
        /// Why.
        reason: String,
    },
    /// The host is to send pieces of its result.
    Send {
        /// The process that it is for.
        token: String,
        /// Number of the first piece.
        first: u64,
        /// How many.
        count: u64,
    },
    /// The result of the host is stored, or nothing more is wanted of it. The process can end.
    Dismissed {
        /// The process that it is for.
        token: String,
    },
}

/// A message with what every message has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Envelope<T> {
    /// [`PROTOCOL`].
    protocol: u32,
    /// Version of the program.
    program: String,
    /// Random number of the run; empty in messages of a host that knows none yet.
    #[serde(default)]
    run: String,
    message: T,
}

/// A message that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Received<T> {
    /// The run that it belongs to; empty if the sender knew none.
    pub run: String,
    /// The message.
    pub message: T,
    /// The bytes behind its line.
    pub attached: Vec<u8>,
}

/// Why a message is not used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unusable {
    /// It is no message of a fleet.
    #[error("a message that is none of a fleet")]
    Garbled,
    /// Another version of the program sent it.
    #[error("jetcell {program} with messages of version {protocol}")]
    OtherVersion {
        /// Version of the program.
        program: String,
        /// Version of its messages.
        protocol: u32,
        /// Rank of the sender, if the message tells.
        rank: Option<u32>,
    },
}

/// Writes a message as a line of JSON; `attached` follows it.
pub fn write<T: Serialize>(program: &str, run: &str, message: &T, attached: &[u8]) -> Vec<u8> {
    let envelope = Envelope { protocol: PROTOCOL, program: program.into(), run: run.into(), message };
    let mut bytes = serde_json::to_vec(&envelope).expect("messages have only string keys");
    if !attached.is_empty() {
        bytes.push(b'\n');
        bytes.extend_from_slice(attached);
    }
    bytes
}

/// Reads a message of the same program.
pub fn read<T: for<'a> Deserialize<'a>>(program: &str, bytes: &[u8]) -> Result<Received<T>, Unusable> {
    if bytes.len() > LONGEST_MESSAGE {
        return Err(Unusable::Garbled);
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, attached) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    // The fields that messages of all versions have.
    let any: Envelope<serde_json::Value> = serde_json::from_slice(line).map_err(|_| Unusable::Garbled)?;
    if any.protocol != PROTOCOL || any.program != program {
        let rank = any.message.as_object().and_then(|kinds| kinds.values().next()?.get("rank")?.as_u64());
        let program = printable_start(&any.program, 40);
        let rank = rank.and_then(|rank| u32::try_from(rank).ok());
        return Err(Unusable::OtherVersion { program, protocol: any.protocol, rank });
    }
    let message = T::deserialize(any.message).map_err(|_| Unusable::Garbled)?;
    Ok(Received { run: any.run, message, attached: attached.to_vec() })
}

/// Text of a message that is short enough to be shown, with control characters as escapes.
pub fn shown(text: &str) -> String {
    printable_start(text, LONGEST_TEXT / 4)
}

/// The first characters of a text from another host, prepared for people.
pub fn printable_start(text: &str, max_characters: usize) -> String {
    printable(text).chars().take(max_characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping() -> FromHost {
        FromHost::Ping { rank: 3, token: "t".into(), sent_ns: 7 }
    }

    #[test]
    fn a_message_reads_back_with_what_is_attached() {
        let bytes = write("1.0", "r", &ping(), b"a\nb");
        let read: Received<FromHost> = read("1.0", &bytes).unwrap();
        assert_eq!(read, Received { run: "r".into(), message: ping(), attached: b"a\nb".to_vec() });
    }

    #[test]
    fn other_versions_are_named_and_anything_else_is_garbled() {
        let bytes = write("0.9", "", &ping(), &[]);
        let other = Unusable::OtherVersion { program: "0.9".into(), protocol: PROTOCOL, rank: Some(3) };
        assert_eq!(read::<FromHost>("1.0", &bytes), Err(other));
        let mut random = Vec::new();
        for (at, byte) in write("1.0", "r", &ping(), &[]).into_iter().enumerate() {
            random.push(byte);
            assert!(at + 1 == random.len() && (read::<FromHost>("1.0", &random[..at]).is_err()));
        }
        for foreign in
            [&b""[..], b"\n", b"{}", b"\xff\xfe", b"[1,2]", &vec![b'['; 100_000], &vec![b' '; 600 << 10]]
        {
            assert_eq!(read::<FromHost>("1.0", foreign), Err(Unusable::Garbled));
        }
        assert_eq!(read::<FromCoordinator>("1.0", &random), Err(Unusable::Garbled));
    }

    #[test]
    fn gates_are_in_order() {
        assert!(Gate::ALL.windows(2).all(|two| two[0] < two[1]));
    }
}
