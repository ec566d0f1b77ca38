//! Requests and replies.
//!
//! Requests that have arrived together are answered together. Consecutive reads are passed to the export as one
//! batch, and all writes that must be durable share a single flush. A reply never waits for a request that has not
//! arrived yet.

use std::io::{self, BufRead, BufReader, Write};
use std::mem;

use super::handshake::NegotiatedOptions;
use super::{NbdSessionEnd, is_closed, read_bytes, read_data, skip};
use crate::export::ExportRead;
use crate::memory::ConnectionMemory;
use crate::protocol::{
    ALLOCATION_ID, MAX_PAYLOAD, REQUEST_HEADER, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, STATE_HOLE, STATE_ZERO,
    STRUCTURED_REPLY_MAGIC, chunk, command, command_flag, error,
};

/// Number of bytes of pending replies after which they are sent, even if more requests have arrived.
const MAX_REPLIES: usize = 4 << 20;
/// Maximum number of reads in a batch.
const MAX_READS: usize = 128;
/// Maximum length of data that bypasses the input buffer, in bytes. Data bypasses the buffer only if none of it
/// arrived together with the header.
const MAX_BUFFERED_DATA: u32 = 64 << 10;
/// Number of bytes for a block's state in a reply. The state takes the same amount of memory while the reply is
/// created.
const STATE_BYTES: usize = 8;
const STATUS_BYTES: usize = 56;
/// Maximum number of bytes in a reply without data.
const MAX_SHORT_REPLY: usize = 64;
/// Maximum number of bytes by which the reply buffer grows beyond what is needed.
const MAX_GROWTH: usize = 256 << 10;

/// Maximum number of blocks in the reply to a block status request.
const MAX_STATUS_BLOCKS: u32 = 64 << 10;
/// Maximum number of bytes that precede the data in the reply to a read.
const MAX_READ_HEAD: usize = 28;

/// A request, without the data if it is a write.
#[derive(Clone, Copy)]
struct NbdRequest {
    flags: u16,
    kind: u16,
    cookie: [u8; 8],
    offset: u64,
    length: u32,
}

impl NbdRequest {
    /// Parses a request. Returns `None` if it does not begin with the magic number.
    fn parse(header: &[u8; REQUEST_HEADER]) -> Option<NbdRequest> {
        let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
        let u64_at = |at: usize| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
        (u32_at(0) == REQUEST_MAGIC).then(|| NbdRequest {
            flags: u16_at(4),
            kind: u16_at(6),
            cookie: u64_at(8).to_be_bytes(),
            offset: u64_at(16),
            length: u32_at(24),
        })
    }
}

/// An error number of the protocol.
type Errno = u32;

/// The transmission phase of an NBD connection, in which requests are processed.
pub struct Transmission<'session, R, W> {
    input: &'session mut BufReader<R>,
    output: W,
    choices: NegotiatedOptions,
    memory: &'session ConnectionMemory<'session>,
    log: &'session dyn Fn(&str),
    /// Replies that have not been sent.
    replies: Vec<u8>,
    /// Offsets of replies that may report success only after a flush.
    unflushed: Vec<usize>,
    payload: Vec<u8>,
    failures: u64,
}

impl<'session, R: io::Read, W: Write> Transmission<'session, R, W> {
    pub fn new(
        input: &'session mut BufReader<R>,
        output: W,
        chosen: NegotiatedOptions,
        memory: &'session ConnectionMemory<'session>,
        note: &'session dyn Fn(&str),
    ) -> Self {
        let (replies, unflushed, payload) = (vec![], vec![], vec![]);
        Transmission {
            input,
            output,
            choices: chosen,
            memory,
            log: note,
            replies,
            unflushed,
            payload,
            failures: 0,
        }
    }

    /// Answers requests until the connection ends.
    pub fn run(mut self) -> NbdSessionEnd {
        let end = loop {
            match self.next() {
                Ok(true) => {}
                Ok(false) => break NbdSessionEnd::Closed,
                Err(end) => break end,
            }
        };
        // If the client is still connected, it gets the replies to completed requests.
        let sent = self.send();
        if self.failures > 1 {
            (self.log)(&format!("{} requests failed in total", self.failures));
        }
        match (end, sent) {
            (NbdSessionEnd::Closed, Err(end)) => end,
            (end, _) => end,
        }
    }

    /// Handles the next requests. Returns false if no further requests can follow.
    fn next(&mut self) -> Result<bool, NbdSessionEnd> {
        if self.input.buffer().len() < REQUEST_HEADER || self.replies.len() >= MAX_REPLIES {
            self.send()?;
        }
        if is_closed(self.input)? {
            return Ok(false);
        }
        let header: [u8; REQUEST_HEADER] = read_bytes(self.input)?;
        let Some(request) = NbdRequest::parse(&header) else {
            return Err(NbdSessionEnd::InvalidMessage(format!("{:02x?} instead of a request", &header[..4])));
        };
        self.allow(MAX_SHORT_REPLY, 0)?;
        match request.kind {
            command::DISCONNECT => return Ok(false),
            command::READ => self.reads(request)?,
            command::WRITE => {
                if request.length > MAX_PAYLOAD {
                    // The client may take a long time to send all this data, so it gets its other replies first.
                    self.send()?;
                    skip(self.input, request.length)?;
                } else {
                    self.allow(0, request.length as usize)?;
                    self.payload.clear();
                    self.payload.reserve_exact(request.length as usize);
                    let mut payload = mem::take(&mut self.payload);
                    let taken = if request.length <= MAX_BUFFERED_DATA && self.input.buffer().is_empty() {
                        payload.resize(request.length as usize, 0);
                        self.input.get_mut().read_exact(&mut payload).map_err(NbdSessionEnd::from)
                    } else {
                        read_data(self.input, request.length, &mut payload)
                    };
                    self.payload = payload;
                    taken?;
                }
                self.change(request);
            }
            command::FLUSH | command::TRIM | command::WRITE_ZEROES => self.change(request),
            command::BLOCK_STATUS => {
                let blocks = (self.status_length(&request) / self.choices.export.preferred_block().max(1))
                    as usize
                    + 2;
                self.allow(MAX_SHORT_REPLY + blocks * STATE_BYTES, blocks * STATUS_BYTES)?;
                self.status(request);
            }
            _ => self.simple_reply(request, Err(error::EINVAL)),
        }
        debug_assert!(self.replies.capacity() + self.payload.capacity() <= self.memory.available());
        Ok(true)
    }

    /// Flushes the export if a reply requires it, and sends all replies.
    fn send(&mut self) -> Result<(), NbdSessionEnd> {
        if !self.unflushed.is_empty()
            && let Err(failed) = self.choices.export.flush()
        {
            let number = self.failed("a flush", &failed);
            for place in &self.unflushed {
                self.replies[place + 4..place + 8].copy_from_slice(&number.to_be_bytes());
            }
        }
        self.unflushed.clear();
        self.output.write_all(&self.replies)?;
        self.output.flush()?;
        self.replies.clear();
        if self.memory.is_watched() {
            self.payload = vec![];
            self.replies = vec![];
            self.memory.release();
        }
        Ok(())
    }

    /// Reserves memory for this number of bytes of replies, and for the other data that is needed at the same time.
    /// If there is not enough memory for both, pending replies are sent first.
    fn allow(&mut self, replies: usize, other: usize) -> Result<(), NbdSessionEnd> {
        let other_and_kept = other.max(self.payload.capacity());
        let needed = self.replies.len() + replies;
        let mut capacity = self.replies.capacity();
        if needed > capacity {
            // Replies are added one at a time, so the buffer grows by more than each of them needs.
            capacity = needed.max(capacity + capacity.clamp(MAX_SHORT_REPLY, MAX_GROWTH));
        }
        if !self.memory.try_allow(capacity + other_and_kept) {
            self.send()?;
            (self.replies, self.payload) = (vec![], vec![]);
            // There must always be room for a reply to the request.
            capacity = replies.max(MAX_SHORT_REPLY);
            self.memory.allow(capacity + other);
        }
        self.replies.reserve_exact(capacity - self.replies.len());
        Ok(())
    }

    /// Returns the length of the range whose status is returned. A reply may cover less than the request.
    fn status_length(&self, request: &NbdRequest) -> u32 {
        let most = self.choices.export.preferred_block().max(1).saturating_mul(MAX_STATUS_BLOCKS);
        request.length.min(most)
    }

    /// Checks whether a request is permitted.
    fn check(&self, request: &NbdRequest) -> Result<(), Errno> {
        let is_change = matches!(request.kind, command::WRITE | command::WRITE_ZEROES | command::TRIM);
        if request.flags & !command_flag::ALL != 0 {
            return Err(error::EINVAL);
        }
        if is_change && self.choices.export.is_read_only() {
            return Err(error::EPERM);
        }
        let has_payload = matches!(request.kind, command::READ | command::WRITE);
        if has_payload && request.length > MAX_PAYLOAD {
            return Err(error::EINVAL);
        }
        let end = request.offset.checked_add(request.length.into());
        if end.is_some_and(|end| end <= self.choices.export.size()) {
            return Ok(());
        }
        let writes = matches!(request.kind, command::WRITE | command::WRITE_ZEROES);
        Err(if writes { error::ENOSPC } else { error::EINVAL })
    }

    /// Handles a read, together with the reads that arrived directly after it.
    fn reads(&mut self, first: NbdRequest) -> Result<(), NbdSessionEnd> {
        let mut requests = vec![first];
        let mut total = first.length as usize;
        while requests.len() < MAX_READS
            && let Some(header) = self.input.buffer().first_chunk()
            && let Some(next) = NbdRequest::parse(header)
            && next.kind == command::READ
            && total + next.length as usize <= MAX_REPLIES
        {
            self.input.consume(REQUEST_HEADER);
            total += next.length as usize;
            requests.push(next);
        }
        let is_good = |request: &NbdRequest| request.length > 0 && self.check(request).is_ok();
        let payload = |request: &NbdRequest| if is_good(request) { request.length as usize } else { 0 };
        let room = requests.iter().map(|request| MAX_READ_HEAD + payload(request)).sum();
        self.allow(room, 0)?;
        let is_good = |request: &NbdRequest| request.length > 0 && self.check(request).is_ok();
        if !(requests.iter().all(is_good) && self.read(&requests).is_ok()) {
            for request in requests {
                self.read_alone(request);
            }
        }
        Ok(())
    }

    fn read_alone(&mut self, request: NbdRequest) {
        let result = match self.check(&request) {
            Ok(()) if request.length > 0 => {
                self.read(&[request]).map_err(|failed| self.failed("a read", &failed))
            }
            Ok(()) if self.choices.is_structured => {
                self.chunk(request, chunk::DONE, 0, &[]);
                Ok(())
            }
            Ok(()) => {
                self.simple_reply(request, Ok(()));
                Ok(())
            }
            Err(number) => Err(number),
        };
        if let Err(number) = result {
            self.structured_error(request, number);
        }
    }

    /// Adds the replies to reads, which must be within the export. Adds nothing if a read fails.
    fn read(&mut self, requests: &[NbdRequest]) -> io::Result<()> {
        let start = self.replies.len();
        for request in requests {
            if self.choices.is_structured {
                self.chunk_head(*request, chunk::DONE, chunk::OFFSET_DATA, 8 + request.length);
                self.replies.extend(request.offset.to_be_bytes());
            } else {
                self.simple_reply(*request, Ok(()));
            }
            self.replies.resize(self.replies.len() + request.length as usize, 0);
        }
        let head = if self.choices.is_structured { 28 } else { 16 };
        let mut batch = Vec::with_capacity(requests.len());
        let mut rest = &mut self.replies[start..];
        for request in requests {
            let (buffer, behind) = rest[head..].split_at_mut(request.length as usize);
            batch.push(ExportRead { offset: request.offset, buffer });
            rest = behind;
        }
        let result = self.choices.export.read(&mut batch);
        if result.is_err() {
            self.replies.truncate(start);
        }
        result
    }

    /// Handles a request that changes data or makes it durable.
    fn change(&mut self, request: NbdRequest) {
        let result = match request.kind {
            command::FLUSH => Ok(()),
            _ => self.check(&request).and_then(|()| self.try_change(&request)),
        };
        let wants_flush = request.kind == command::FLUSH || request.flags & command_flag::FUA != 0;
        if wants_flush && result.is_ok() {
            self.unflushed.push(self.replies.len());
        }
        self.simple_reply(request, result);
    }

    fn try_change(&mut self, request: &NbdRequest) -> Result<(), Errno> {
        if request.length == 0 {
            return Ok(());
        }
        let NbdRequest { flags, offset, length, .. } = *request;
        let export = &self.choices.export;
        let (name, result) = match request.kind {
            command::WRITE => ("a write", export.write(offset, &self.payload)),
            command::TRIM if export.can_trim() => ("a trim", export.trim(offset, length.into())),
            // A trim is only a hint.
            command::TRIM => return Ok(()),
            _ => {
                let may_free = flags & command_flag::NO_HOLE == 0;
                let only_fast = flags & command_flag::FAST_ZERO != 0;
                ("a write of zeros", export.zero(offset, length.into(), may_free, only_fast))
            }
        };
        match result {
            Err(failed) if failed.kind() == io::ErrorKind::Unsupported => Err(error::ENOTSUP),
            result => result.map_err(|failed| self.failed(name, &failed)),
        }
    }

    /// Handles a block status request.
    fn status(&mut self, request: NbdRequest) {
        let answer = match self.check(&request) {
            Ok(()) if !self.choices.has_allocation || request.length == 0 => Err(error::EINVAL),
            Ok(()) => {
                let length = self.status_length(&request).into();
                let found = self.choices.export.extents(request.offset, length);
                found.map_err(|failed| self.failed("a block status", &failed))
            }
            Err(number) => Err(number),
        };
        let extents = match answer {
            Ok(extents) => extents,
            Err(number) => return self.structured_error(request, number),
        };
        let mut states: Vec<(u32, u32)> = vec![];
        let mut left = self.status_length(&request);
        for extent in extents {
            let length = u32::try_from(extent.length).unwrap_or(u32::MAX).min(left);
            let state = if extent.is_hole { STATE_HOLE | STATE_ZERO } else { 0 };
            left -= length;
            match states.last_mut() {
                Some(last) if last.1 == state => last.0 += length,
                _ if length > 0 => states.push((length, state)),
                _ => {}
            }
        }
        if request.flags & command_flag::REQ_ONE != 0 {
            states.truncate(1);
        }
        let states = states.iter().flat_map(|(length, state)| [length.to_be_bytes(), state.to_be_bytes()]);
        let content: Vec<u8> = std::iter::once(ALLOCATION_ID.to_be_bytes()).chain(states).flatten().collect();
        self.chunk(request, chunk::DONE, chunk::BLOCK_STATUS, &content);
    }

    fn simple_reply(&mut self, request: NbdRequest, result: Result<(), Errno>) {
        self.replies.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
        self.replies.extend(result.err().unwrap_or(0).to_be_bytes());
        self.replies.extend(request.cookie);
    }

    /// Adds an error reply to a request with structured replies. The reply is itself structured if the client
    /// supports that.
    fn structured_error(&mut self, request: NbdRequest, number: Errno) {
        if self.choices.is_structured {
            // There is no error text, because it would reveal paths on this machine to the client.
            let content = [&number.to_be_bytes()[..], &0u16.to_be_bytes()].concat();
            self.chunk(request, chunk::DONE, chunk::ERROR, &content);
        } else {
            self.simple_reply(request, Err(number));
        }
    }

    fn chunk(&mut self, request: NbdRequest, flags: u16, kind: u16, content: &[u8]) {
        self.chunk_head(request, flags, kind, content.len() as u32);
        self.replies.extend(content);
    }

    fn chunk_head(&mut self, request: NbdRequest, flags: u16, kind: u16, length: u32) {
        self.replies.extend(STRUCTURED_REPLY_MAGIC.to_be_bytes());
        self.replies.extend(flags.to_be_bytes());
        self.replies.extend(kind.to_be_bytes());
        self.replies.extend(request.cookie);
        self.replies.extend(length.to_be_bytes());
    }

    /// Returns the error number for an export error. Only the first error is logged.
    fn failed(&mut self, what: &str, failed: &io::Error) -> Errno {
        self.failures += 1;
        if self.failures == 1 {
            (self.log)(&format!("{what} failed: {failed}"));
        }
        match failed.kind() {
            io::ErrorKind::StorageFull => error::ENOSPC,
            io::ErrorKind::Unsupported => error::ENOTSUP,
            io::ErrorKind::InvalidInput => error::EINVAL,
            _ => error::EIO,
        }
    }
}
