//! Errors of the array service.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use jetcell_array::{ArrayError, ArrayRefusal, BLOCK};
use jetcell_disk_simulation::InvalidConfig;
use jetcell_host::os_advice;
use jetcell_input::quantity::ByteSize;
use jetcell_input::toml::TomlError;
use thiserror::Error;

/// Result of a request to the array service.
pub type Result<T> = std::result::Result<T, Error>;

/// Error returned by the array service. Arrays are identified by the names that the user specified.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum Error {
    // Errors of the array and of the operating system, with the place where they occurred.
    #[error(transparent)]
    Array(#[from] ArrayError),
    #[error("{array}: {source}")]
    InArray { array: String, source: ArrayError },
    #[error("{path}: {source}")]
    Path { path: PathBuf, source: io::Error },
    #[error("{path}: cannot be created: {source}")]
    Create { path: PathBuf, source: io::Error },
    #[error("{path}: cannot be written: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("{array}: events cannot be written: {source}")]
    EventFile { array: PathBuf, source: io::Error },
    #[error("could not start the simulated drives: {0}")]
    SimulatedDrives(#[source] io::Error),
    #[error("the working directory is unknown: {0}")]
    WorkingDirectory(#[source] io::Error),

    // The directory of an array.
    #[error("{0} is the directory of an array")]
    IsArray(PathBuf),
    #[error("{0} is not a directory")]
    NotADirectory(PathBuf),
    #[error("{0} does not exist")]
    NoParentDirectory(PathBuf),
    #[error("{0}: another process is creating an array in this directory")]
    BeingCreated(PathBuf),
    #[error("{0} is not the directory of an array (array.toml does not exist)")]
    NotAnArray(PathBuf),
    #[error(transparent)]
    StateFile(#[from] TomlError),
    #[error("{path} is damaged ({fault})")]
    DamagedStateFile { path: PathBuf, fault: StateFileFault },

    // Start and use of an array.
    #[error("{array}: another process is using the array (its member {member})")]
    InUse { array: PathBuf, member: PathBuf },
    #[error("{array}: the array contains test databases (--dir array:{array})")]
    HoldsTestDatabases { array: PathBuf },
    #[error("{0}: the array was shut down before the operation")]
    ShutDown(String),
    #[error("{member} is neither a member of the array nor a slot number (0 to {})", slots - 1)]
    NoSuchMember { member: String, slots: usize },
    #[error("{array}: clients or a test are using the LUN {lun}")]
    LunInUse { array: String, lun: String },
    #[error("--size {0} must be a multiple of {BLOCK} bytes")]
    LunSize(ByteSize),
    #[error("{array}: the array already has LUNs and a write log")]
    WriteLogExists { array: String },
    #[error("{0} is a link")]
    WriteLogIsLink(PathBuf),
    #[error("{0}: a scrub of the array is already running")]
    ScrubIsRunning(String),

    // Files that are to become members.
    #[error("{0} does not exist")]
    NoMemberFile(PathBuf),
    #[error("{0}: the device does not exist, and files cannot be created in this directory")]
    NoDevice(PathBuf),
    #[error("{0} is a directory")]
    MemberIsDirectory(PathBuf),
    #[error("{0} is in use by another process")]
    MemberInUse(PathBuf),
    #[error("{0} is in use: it is mounted, or part of another array")]
    MemberMounted(PathBuf),
    #[error("--chunk {0} must be a power of two from 4KiB to 256KiB")]
    ChunkSize(ByteSize),

    // Simulated drives.
    #[error("--simulate-drive {name}: there is no drive or file with this name")]
    UnknownDrive { name: String, known: Vec<String> },
    #[error("--simulate-drive {name}: {source}")]
    DriveFile { name: String, source: io::Error },
    #[error(transparent)]
    InvalidDrive(#[from] InvalidConfig),
    #[error(transparent)]
    ImpossibleDrive(#[from] DriveFault),
    #[error("--size {size}: the simulated drive ({drive}) has {} GB", capacity / 1_000_000_000)]
    DriveTooSmall { size: ByteSize, drive: String, capacity: u64 },

    // Requests to the process that uses an array.
    #[error("{array}: could not send a path to the process that is using the array: {source}")]
    Request { array: String, source: serde_json::Error },
    #[error("{array}: the process that is using the array {fault}")]
    Connection { array: String, fault: ConnectionFault },
    /// Error of the process that uses the array.
    #[error("{problem}")]
    Remote { problem: String, advice: Option<String> },

    // Export of block devices.
    #[error("{address}: cannot listen: {source}")]
    Listen { address: String, source: io::Error },
    #[error("{0}: cannot listen: this name is already used by a file or another server")]
    SocketNameInUse(PathBuf),
    #[error("{path}: cannot listen: {source}")]
    SocketPath { path: PathBuf, source: io::Error },
    #[error("{0}: a server thread failed")]
    ServerThread(PathBuf),

    // Arrays that tests mount.
    #[error("{0}: the array contains LUNs")]
    ArrayHasLuns(PathBuf),
    #[error("{0}: the array has no LUNs")]
    ArrayWithoutLuns(PathBuf),
    #[error("{0}: files on the array are still in use, so the array was not shut down")]
    FilesInUse(PathBuf),
}

/// Reason why the state file of an array is damaged.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum StateFileFault {
    #[error("the array ID is not a valid number")]
    Id,
    #[error(transparent)]
    Drive(#[from] DriveFault),
}

/// Reason why no drive can have the parameters of a simulated drive.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum DriveFault {
    #[error("the time scale must be between {min} and {max}")]
    TimeScale { min: f64, max: f64 },
    #[error("the {0} is not possible for a drive")]
    Parameter(&'static str),
}

/// Reason why the process that uses an array did not answer a request.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum ConnectionFault {
    #[error("does not respond ({0})")]
    NoResponse(io::Error),
    #[error("exited before it responded")]
    Exited,
    #[error("is a different version of jetcell and sent an unrecognized response")]
    OtherVersion,
}

impl Error {
    /// Returns what the user can do about the error, for example `stop that process first`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Error::InArray { source: ArrayError::Refused(ArrayRefusal::DirtyDegraded { .. }), .. } => {
                "reconnect the members, or start the array once with jetcell raid serve --start-degraded"
            }
            Error::Array(error) | Error::InArray { source: error, .. } => return error.advice(),
            Error::IsArray(_) => "choose another directory, or destroy the array",
            Error::NotADirectory(_) => "specify a new or existing directory for the array",
            Error::NoParentDirectory(_) => "create it first",
            Error::BeingCreated(_) => "choose another directory",
            Error::NotAnArray(_) => "create an array with jetcell raid create",
            Error::StateFile(_) => "the file is damaged, so restore it from a copy",
            Error::DamagedStateFile { .. } => "restore it from a copy",
            Error::InUse { .. } => "stop that process first",
            Error::HoldsTestDatabases { .. } => "use another array, or destroy it",
            Error::NoSuchMember { .. } => "to list them, run jetcell raid status",
            Error::LunInUse { .. } => "stop jetcell raid serve or the test first",
            Error::LunSize(_) | Error::ChunkSize(_) | Error::ImpossibleDrive(_) => "correct this value",
            Error::WriteLogExists { .. } => "omit --log",
            Error::WriteLogIsLink(_) => "use --log to specify the actual path of the write log",
            Error::ScrubIsRunning(_) => "wait until it completes",
            Error::NoMemberFile(_) => "to create files, add --size, or specify a different path",
            Error::MemberIsDirectory(_) => "a member must be a file or a block device",
            Error::MemberInUse(_) => "end that process, or specify a different member",
            Error::UnknownDrive { known, .. } => {
                return Some(format!("available drives: {}", known.join(", ")).into());
            }
            Error::InvalidDrive(error) => return error.advice(),
            Error::DriveTooSmall { .. } => {
                "use a smaller --size; the seek times remain those of the whole drive"
            }
            Error::Connection { .. } => "try again",
            Error::Remote { advice, .. } => return advice.clone().map(Cow::Owned),
            Error::SocketNameInUse(_) => "use --socket to specify a different name",
            Error::SocketPath { .. } => "use --socket to specify a shorter path",
            Error::ArrayHasLuns(array) => {
                return Some(format!("specify one of them: --dir array:{}/LUN", array.display()).into());
            }
            Error::ArrayWithoutLuns(array) => {
                let use_of_array = "create a LUN with jetcell raid lun create, or use the whole array";
                return Some(format!("{use_of_array}: --dir array:{}", array.display()).into());
            }
            _ => return None,
        }))
    }

    /// Returns the advice or, if there is none, advice about the underlying error of the operating system. Used for
    /// errors that are displayed as text or sent to another process.
    pub fn advice_or_os_advice(&self) -> Option<Cow<'static, str>> {
        self.advice().or_else(|| os_advice(self).map(Cow::Borrowed))
    }

    /// Returns the text of the error, followed by the advice.
    pub fn full_text(&self) -> String {
        jetcell_input::with_advice(self, self.advice_or_os_advice())
    }

    pub(crate) fn no_luns(array: impl ToString) -> Error {
        Error::InArray { array: array.to_string(), source: ArrayRefusal::NoLuns.into() }
    }
}

/// Adds the name of an array to an error of the array.
pub(crate) trait InArray<T> {
    /// Adds the name of the array.
    fn in_array(self, array: impl ToString) -> Result<T>;
}

impl<T> InArray<T> for std::result::Result<T, ArrayError> {
    fn in_array(self, array: impl ToString) -> Result<T> {
        self.map_err(|source| Error::InArray { array: array.to_string(), source })
    }
}
