use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;

use super::{NbdExports, NbdSessionEnd, serve};
use crate::memory::{ConnectionMemory, ServerMemory};
use crate::memory_export::MemoryExport;
use crate::protocol::{
    ALLOCATION, OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
    chunk, command, command_flag, error, option, option_reply, transmission,
};

const SIZE: usize = 64 << 10;

/// Returns memory for a single connection.
fn memory() -> ConnectionMemory<'static> {
    static ALL: LazyLock<ServerMemory> = LazyLock::new(|| ServerMemory::new(1 << 30, 1));
    ConnectionMemory::new(&ALL, Duration::from_secs(60))
}

fn exports(first: MemoryExport) -> (Arc<MemoryExport>, NbdExports) {
    let first = Arc::new(first);
    (first.clone(), vec![("disk".into(), first), ("other".into(), Arc::new(MemoryExport::new(4096)))])
}

/// Data sent by a client.
#[derive(Clone, Default)]
struct ClientMessages(Vec<u8>);

impl ClientMessages {
    /// Begins the handshake with the client's flags.
    fn new() -> ClientMessages {
        ClientMessages(3u32.to_be_bytes().to_vec())
    }

    fn option(mut self, number: u32, content: &[u8]) -> ClientMessages {
        self.0.extend(OPTION_MAGIC.to_be_bytes());
        self.0.extend(number.to_be_bytes());
        self.0.extend((content.len() as u32).to_be_bytes());
        self.0.extend(content);
        self
    }

    /// Chooses an export, with structured replies and the allocation context.
    fn chosen() -> ClientMessages {
        let context = [named("disk"), 1u32.to_be_bytes().to_vec(), named(ALLOCATION)].concat();
        ClientMessages::new()
            .option(option::STRUCTURED_REPLY, &[])
            .option(option::SET_META_CONTEXT, &context)
            .go("disk")
    }

    fn go(self, export: &str) -> ClientMessages {
        self.option(option::GO, &[&named(export)[..], &[0, 0]].concat())
    }

    fn request(mut self, flags: u16, kind: u16, offset: u64, length: u32, data: &[u8]) -> ClientMessages {
        let cookie = self.0.len() as u64;
        self.0.extend(REQUEST_MAGIC.to_be_bytes());
        self.0.extend(flags.to_be_bytes());
        self.0.extend(kind.to_be_bytes());
        self.0.extend(cookie.to_be_bytes());
        self.0.extend(offset.to_be_bytes());
        self.0.extend(length.to_be_bytes());
        self.0.extend(data);
        self
    }

    fn write(self, flags: u16, offset: u64, data: &[u8]) -> ClientMessages {
        self.request(flags, command::WRITE, offset, data.len() as u32, data)
    }

    fn read(self, offset: u64, length: u32) -> ClientMessages {
        self.request(0, command::READ, offset, length, &[])
    }

    /// Returns the data that the server sends after its greeting.
    fn answers(&self, exports: &NbdExports) -> (Vec<u8>, NbdSessionEnd) {
        let mut output = vec![];
        let end = serve(&self.0[..], &mut output, exports, &memory(), || Ok(()), &|_| {});
        (output.split_off(18.min(output.len())), end)
    }
}

fn named(name: &str) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat()
}

/// Option, kind and content of a reply.
type OptionReply = (u32, u32, Vec<u8>);

/// Returns the replies to options, and the remaining bytes.
fn option_replies(mut bytes: &[u8]) -> (Vec<OptionReply>, &[u8]) {
    let mut replies = vec![];
    while let Some(rest) = bytes.strip_prefix(&OPTION_REPLY_MAGIC.to_be_bytes()) {
        let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
        let length = number(8) as usize;
        replies.push((number(0), number(4), rest[12..12 + length].to_vec()));
        bytes = &rest[12 + length..];
    }
    (replies, bytes)
}

/// A reply to a request: the error of a simple reply, or kind and content of a structured one.
#[derive(Debug, PartialEq)]
enum RequestReply {
    Simple(u32),
    Chunk(u16, Vec<u8>),
}

/// Returns all replies of a session in which simple replies have no data.
fn replies(bytes: &[u8]) -> Vec<RequestReply> {
    let (_, mut bytes) = option_replies(bytes);
    let mut replies = vec![];
    while !bytes.is_empty() {
        let u32_at = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        if u32_at(0) == SIMPLE_REPLY_MAGIC {
            replies.push(RequestReply::Simple(u32_at(4)));
            bytes = &bytes[16..];
            continue;
        }
        assert_eq!((u32_at(0), u32_at(4) >> 16), (STRUCTURED_REPLY_MAGIC, u32::from(chunk::DONE)));
        let (kind, length) = (u32_at(4) as u16, u32_at(16) as usize);
        replies.push(RequestReply::Chunk(kind, bytes[20..20 + length].to_vec()));
        bytes = &bytes[20 + length..];
    }
    replies
}

fn data_of(offset: u64, data: &[u8]) -> RequestReply {
    RequestReply::Chunk(chunk::OFFSET_DATA, [&offset.to_be_bytes()[..], data].concat())
}

fn error_of(number: u32) -> RequestReply {
    RequestReply::Chunk(chunk::ERROR, [&number.to_be_bytes()[..], &[0, 0]].concat())
}

#[test]
fn a_client_lists_describes_and_chooses_exports() {
    let (_, exports) = exports(MemoryExport::new(SIZE));
    let all_facts = [&named("")[..], &[0, 3, 0, 1, 0, 2, 0, 3]].concat();
    let talk = ClientMessages::new()
        .option(option::LIST, &[])
        .option(77, b"?")
        .option(option::INFO, &all_facts)
        .option(option::INFO, &[&named("nothing")[..], &[0, 0]].concat())
        .option(option::INFO, &[0, 0, 0, 9, b'x'])
        .option(option::LIST_META_CONTEXT, &[&named("disk")[..], &[0; 4]].concat())
        .option(option::STRUCTURED_REPLY, &[])
        .option(option::LIST_META_CONTEXT, &[&named("disk")[..], &[0; 4]].concat())
        .option(option::ABORT, &[]);
    let (output, end) = talk.answers(&exports);
    let (found, rest) = option_replies(&output);
    assert!(matches!(end, NbdSessionEnd::Closed) && rest.is_empty());
    let kinds: Vec<(u32, u32)> = found.iter().map(|(number, kind, _)| (*number, *kind)).collect();
    use option_reply::{ACK, INFO, INVALID, META_CONTEXT, SERVER, UNKNOWN, UNSUPPORTED};
    let expected = [
        (option::LIST, SERVER),
        (option::LIST, SERVER),
        (option::LIST, ACK),
        (77, UNSUPPORTED),
        (option::INFO, INFO),
        (option::INFO, INFO),
        (option::INFO, INFO),
        (option::INFO, INFO),
        (option::INFO, ACK),
        (option::INFO, UNKNOWN),
        (option::INFO, INVALID),
        (option::LIST_META_CONTEXT, INVALID),
        (option::STRUCTURED_REPLY, ACK),
        (option::LIST_META_CONTEXT, META_CONTEXT),
        (option::LIST_META_CONTEXT, ACK),
        (option::ABORT, ACK),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(found[0].2, [named("disk"), b"bytes in memory".to_vec()].concat());
    let flags = u16::from_be_bytes(found[4].2[10..12].try_into().unwrap());
    assert_eq!(found[4].2[2..10], (SIZE as u64).to_be_bytes());
    assert_eq!(flags & transmission::CAN_MULTI_CONN, transmission::CAN_MULTI_CONN);
    assert_eq!(flags & (transmission::READ_ONLY | transmission::SEND_DF), 0);
    assert_eq!(found[5].2, b"\0\x01disk");
    assert_eq!(found[7].2, [&[0, 3][..], &[0, 0, 0, 1], &[0, 0, 16, 0], &[2, 0, 0, 0]].concat());
}

#[test]
fn export_name_reply_is_zero_padded_unless_the_client_declines() {
    let (_, exports) = exports(MemoryExport::new(SIZE));
    for (flags, length) in [(3u32, 10), (1, 134), (0, 134)] {
        let talk = ClientMessages(flags.to_be_bytes().to_vec()).option(option::EXPORT_NAME, b"other");
        let (output, end) = talk.answers(&exports);
        assert!(
            matches!(end, NbdSessionEnd::Closed)
                && output.len() == length
                && output[..8] == 4096u64.to_be_bytes()
        );
    }
    let (output, end) = ClientMessages::new().option(option::EXPORT_NAME, b"nothing").answers(&exports);
    assert!(matches!(end, NbdSessionEnd::InvalidMessage(_)) && output.is_empty());
}

#[test]
fn written_data_is_read_and_reported_as_allocated() {
    let (export, exports) = exports(MemoryExport::new(SIZE));
    let talk = ClientMessages::chosen()
        .write(0, 5000, b"abc")
        .read(4998, 6)
        .request(0, command::BLOCK_STATUS, 100, 20000, &[])
        .request(command_flag::REQ_ONE, command::BLOCK_STATUS, 0, 20000, &[])
        .request(0, command::WRITE_ZEROES, 4096, 4096, &[])
        .request(command_flag::FAST_ZERO, command::WRITE_ZEROES, 4096, 4096, &[])
        .request(0, command::TRIM, 0, SIZE as u32, &[])
        .request(command_flag::DF, command::READ, 5000, 3, &[])
        .request(0, command::DISCONNECT, 0, 0, &[])
        .write(0, 0, b"behind the end");
    let (output, end) = talk.answers(&exports);
    assert!(matches!(end, NbdSessionEnd::Closed));
    let status = |states: &[u32]| {
        let words = std::iter::once(&1).chain(states).flat_map(|word| word.to_be_bytes());
        RequestReply::Chunk(chunk::BLOCK_STATUS, words.collect())
    };
    let expected = [
        RequestReply::Simple(0),
        data_of(4998, b"\0\0abc\0"),
        status(&[3996, 3, 4096, 0, 11908, 3]),
        status(&[4096, 3]),
        RequestReply::Simple(0),
        RequestReply::Simple(error::ENOTSUP),
        RequestReply::Simple(0),
        data_of(5000, &[0; 3]),
    ];
    assert_eq!(replies(&output), expected);
    assert!(export.content().iter().all(|byte| *byte == 0));
}

#[test]
fn without_structured_replies_reads_are_simple_and_block_status_fails() {
    let (_, exports) = exports(MemoryExport::new(SIZE));
    let talk = ClientMessages::new().go("disk").read(0, 5).request(0, command::BLOCK_STATUS, 0, 512, &[]);
    let (output, _) = talk.answers(&exports);
    let (_, transmitted) = option_replies(&output);
    assert_eq!(transmitted.len(), 16 + 5 + 16);
    assert_eq!(transmitted[25..29], error::EINVAL.to_be_bytes());
}

#[test]
fn invalid_requests_get_an_error_and_change_nothing() {
    let (export, exports) = exports(MemoryExport::new(SIZE));
    let end = SIZE as u64;
    let talk = ClientMessages::chosen()
        .read(end - 1, 2)
        .read(u64::MAX, 2)
        .write(0, end - 2, b"abc")
        .request(0, command::WRITE_ZEROES, end, 1, &[])
        .request(0, command::TRIM, 1, SIZE as u32, &[])
        .request(0, command::READ, 0, (32 << 20) + 1, &[])
        .request(1 << 9, command::READ, 0, 1, &[])
        .request(0, 99, 0, 0, &[])
        .request(0, command::BLOCK_STATUS, 0, 0, &[])
        .read(0, 0)
        .write(0, 0, &[]);
    let expected = [
        error_of(error::EINVAL),
        error_of(error::EINVAL),
        RequestReply::Simple(error::ENOSPC),
        RequestReply::Simple(error::ENOSPC),
        RequestReply::Simple(error::EINVAL),
        error_of(error::EINVAL),
        error_of(error::EINVAL),
        RequestReply::Simple(error::EINVAL),
        error_of(error::EINVAL),
        RequestReply::Chunk(0, vec![]),
        RequestReply::Simple(0),
    ];
    assert_eq!(replies(&talk.answers(&exports).0), expected);
    // A write that exceeds the maximum length: its data is discarded.
    let long = vec![7; (32 << 20) + 1];
    let talk = ClientMessages::chosen().write(0, 0, &long).read(0, 1);
    assert_eq!(replies(&talk.answers(&exports).0), [RequestReply::Simple(error::EINVAL), data_of(0, &[0])]);
    assert!(export.content().iter().all(|byte| *byte == 0));
}

#[test]
fn a_read_only_export_refuses_changes() {
    let (export, exports) = exports(MemoryExport { is_read_only: true, ..MemoryExport::new(SIZE) });
    let talk = ClientMessages::chosen()
        .write(0, 0, b"a")
        .request(0, command::TRIM, 0, 1, &[])
        .request(0, command::WRITE_ZEROES, 0, 1, &[])
        .request(0, command::FLUSH, 0, 0, &[]);
    let expected = [error::EPERM, error::EPERM, error::EPERM, 0].map(RequestReply::Simple);
    assert_eq!(replies(&talk.answers(&exports).0), expected);
    assert_eq!(export.content()[0], 0);
}

#[test]
fn one_flush_and_any_failure_apply_to_all_pending_flushes() {
    let talk = ClientMessages::chosen()
        .write(command_flag::FUA, 0, b"a")
        .write(0, 1, b"b")
        .request(0, command::FLUSH, 0, 0, &[])
        .write(command_flag::FUA, SIZE as u64, b"c")
        .write(command_flag::FUA, 2, b"d");
    let (export, good) = exports(MemoryExport::new(SIZE));
    let expected = [0, 0, 0, error::ENOSPC, 0].map(RequestReply::Simple);
    assert_eq!(replies(&talk.answers(&good).0), expected);
    assert_eq!((*export.flushes.lock().unwrap(), &export.content()[..3]), (1, &b"abd"[..]));
    let (_, bad) = exports(MemoryExport { fails_to_flush: true, ..MemoryExport::new(SIZE) });
    let expected = [error::EIO, 0, error::EIO, error::ENOSPC, error::EIO].map(RequestReply::Simple);
    assert_eq!(replies(&talk.answers(&bad).0), expected);
}

#[test]
fn pending_reads_form_one_batch_and_fail_individually() {
    let (export, exports) = exports(MemoryExport { unreadable: Some(9000), ..MemoryExport::new(SIZE) });
    let talk = ClientMessages::chosen().read(0, 10).read(100, 20).read(8999, 1);
    let expected = [data_of(0, &[0; 10]), data_of(100, &[0; 20]), data_of(8999, &[0])];
    assert_eq!(replies(&talk.answers(&exports).0), expected);
    assert_eq!(*export.batches.lock().unwrap(), [3]);
    let notes = RefCell::new(vec![]);
    let mut output = vec![];
    let talk = talk.read(8999, 2).read(9000, 1).read(SIZE as u64, 1);
    serve(&talk.0[..], &mut output, &exports, &memory(), || Ok(()), &|note| {
        notes.borrow_mut().push(note.to_string());
    });
    let errors = [error::EIO, error::EIO, error::EINVAL].map(error_of);
    assert_eq!(replies(&output[18..]), expected.into_iter().chain(errors).collect::<Vec<_>>());
    assert_eq!(*notes.borrow(), ["a read failed: unreadable", "2 requests failed in total"]);
}

#[test]
fn a_disconnect_or_garbage_leaves_the_export_unchanged() {
    let (export, exports) = exports(MemoryExport::new(SIZE));
    let whole = ClientMessages::chosen().write(0, 0, &[9; 300]).0;
    for length in 0..whole.len() {
        let (_, end) = ClientMessages(whole[..length].to_vec()).answers(&exports);
        assert!(matches!(end, NbdSessionEnd::Closed | NbdSessionEnd::Lost(_)), "{length}: {end:?}");
    }
    assert_eq!(export.content()[0], 0, "not all of the write had arrived");
    let garbage = [
        ClientMessages(vec![0xFF; 64]),
        ClientMessages(b"\0\0\0\x03GET / HTTP/1.1\r\n\r\n".to_vec()),
        ClientMessages(
            [3u32.to_be_bytes().to_vec(), OPTION_MAGIC.to_be_bytes().to_vec(), vec![0xFF; 40]].concat(),
        ),
        ClientMessages([ClientMessages::chosen().0, vec![0x55; 28]].concat()),
    ];
    for talk in garbage {
        assert!(matches!(talk.answers(&exports).1, NbdSessionEnd::InvalidMessage(_)));
    }
    let endless = (0..2000).fold(ClientMessages::new(), |talk, _| talk.option(99, &[]));
    assert!(matches!(endless.answers(&exports).1, NbdSessionEnd::InvalidMessage(_)));
}

#[test]
fn a_client_may_abort_the_handshake_without_reading_the_reply() {
    let (_, exports) = exports(MemoryExport::new(SIZE));
    let talk = ClientMessages::new().option(option::ABORT, &[]);
    // There is room only for the greeting.
    let mut output = [0; 18];
    assert!(matches!(
        serve(&talk.0[..], &mut output[..], &exports, &memory(), || Ok(()), &|_| {}),
        NbdSessionEnd::Closed
    ));
}

/// A connection that the system times out.
struct TimedOutStream;

impl Read for TimedOutStream {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::TimedOut.into())
    }
}

#[test]
fn silence_is_a_handshake_timeout_then_a_lost_connection() {
    let (_, exports) = exports(MemoryExport::new(SIZE));
    let end = |said: ClientMessages| {
        serve((&said.0[..]).chain(TimedOutStream), vec![], &exports, &memory(), || Ok(()), &|_| {})
    };
    assert!(matches!(end(ClientMessages::new()), NbdSessionEnd::HandshakeTimeout));
    let lost = end(ClientMessages::chosen().read(0, 10));
    assert!(
        matches!(&lost, NbdSessionEnd::Lost(error) if error.kind() == io::ErrorKind::TimedOut),
        "{lost:?}"
    );
}

proptest! {
    /// Sends arbitrary bytes after a valid beginning. The session must end without a panic.
    #[test]
    fn arbitrary_bytes_do_not_panic_a_session(choice in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (_, exports) = exports(MemoryExport::new(SIZE));
        let start = if choice { ClientMessages::chosen() } else { ClientMessages::new() };
        ClientMessages([start.0, bytes].concat()).answers(&exports);
    }

    /// Sends requests with arbitrary fields. Changes must stay within the export, and each request must get exactly
    /// one reply.
    #[test]
    fn each_request_gets_one_reply(requests in prop::collection::vec((0u16..64, 0u16..9, 0u64..70_000, 0u32..5_000), 0..40)) {
        let (_, exports) = exports(MemoryExport::new(SIZE));
        let mut talk = ClientMessages::chosen();
        let mut expected = 0;
        for (flags, kind, offset, length) in requests {
            if kind != command::DISCONNECT {
                let data = vec![1; if kind == command::WRITE { length as usize } else { 0 }];
                talk = talk.request(flags, kind, offset, length, &data);
                expected += 1;
            }
        }
        prop_assert_eq!(replies(&talk.answers(&exports).0).len(), expected);
    }
}

/// Relies on the session's debug assertion, which compares its buffers with the memory that it requested.
#[test]
fn buffers_stay_within_the_connection_limit_for_all_request_lengths() {
    let all = ServerMemory::new(0, 1);
    let memory = ConnectionMemory::new(&all, Duration::from_secs(60));
    let share = memory.available();
    let (_, exports) = exports(MemoryExport::new(4 << 20));
    for base in [share, share + (1 << 20)] {
        let mut talk = ClientMessages::chosen();
        for length in (base - 70..base + 70).step_by(7) {
            talk = talk.write(0, 0, &vec![7; length]).read(0, length as u32).read(0, 5);
            talk = talk.request(0, command::FLUSH, 0, 0, &[]);
            talk = talk.request(0, command::BLOCK_STATUS, 0, 4 << 20, &[]);
        }
        let end = serve(&talk.0[..], io::sink(), &exports, &memory, || Ok(()), &|_| {});
        assert!(matches!(end, NbdSessionEnd::Closed), "{end:?}");
        assert_eq!(memory.available(), share);
    }
}
