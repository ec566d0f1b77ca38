//! The handshake, in which the client chooses an export and the types of replies that it understands.

use std::io::{BufRead, Write};
use std::sync::Arc;

use super::{NbdExports, NbdSessionEnd, OptionFields, read_bytes, read_data};
use crate::export::BlockExport;
use crate::protocol::{
    ALLOCATION, ALLOCATION_ID, FIXED_NEWSTYLE, MAGIC, MAX_NAME, MAX_PAYLOAD, NO_ZEROES, OPTION_MAGIC,
    OPTION_REPLY_MAGIC, info, option, option_reply, transmission,
};

/// Maximum length of the data of an option, in bytes. It has room for several names.
const MAX_OPTION: u32 = 64 << 10;
/// Maximum number of options in a handshake.
const MAX_OPTIONS: usize = 1000;

/// Choices made by an NBD client in the handshake.
pub struct NegotiatedOptions {
    pub export: Arc<dyn BlockExport>,
    pub is_structured: bool,
    pub has_allocation: bool,
}

/// A handshake with an NBD client.
pub struct Handshake<'session, R, W> {
    input: &'session mut R,
    output: &'session mut W,
    exports: &'session NbdExports,
    omits_zeros: bool,
    is_structured: bool,
    /// Export whose allocation the client wants to query.
    allocation_of: Option<usize>,
}

/// Protocol error number with which an option is refused.
type OptionError = u32;

impl<'session, R: BufRead, W: Write> Handshake<'session, R, W> {
    pub fn new(input: &'session mut R, output: &'session mut W, exports: &'session NbdExports) -> Self {
        Handshake { input, output, exports, omits_zeros: false, is_structured: false, allocation_of: None }
    }

    /// Answers options until the client has chosen an export.
    pub fn run(mut self) -> Result<NegotiatedOptions, NbdSessionEnd> {
        let flags = FIXED_NEWSTYLE | NO_ZEROES;
        let hello = [&MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &flags.to_be_bytes()].concat();
        self.send(&hello)?;
        let theirs = u32::from_be_bytes(read_bytes(self.input)?);
        if theirs & !u32::from(flags) != 0 {
            return Err(NbdSessionEnd::InvalidMessage(format!("unknown flags {theirs:#x} in the handshake")));
        }
        self.omits_zeros = theirs & u32::from(NO_ZEROES) != 0;
        for _ in 0..MAX_OPTIONS {
            if super::is_closed(self.input)? {
                return Err(NbdSessionEnd::Closed);
            }
            let magic = u64::from_be_bytes(read_bytes(self.input)?);
            if magic != OPTION_MAGIC {
                return Err(NbdSessionEnd::InvalidMessage(format!("{magic:#x} instead of an option")));
            }
            let number = u32::from_be_bytes(read_bytes(self.input)?);
            let length = u32::from_be_bytes(read_bytes(self.input)?);
            if length > MAX_OPTION {
                return Err(NbdSessionEnd::InvalidMessage(format!("an option of {length} bytes")));
            }
            let mut content = vec![];
            read_data(self.input, length, &mut content)?;
            if let Some(export) = self.handle_option(number, &content)? {
                return Ok(NegotiatedOptions {
                    export: self.exports[export].1.clone(),
                    is_structured: self.is_structured,
                    has_allocation: self.allocation_of == Some(export),
                });
            }
        }
        Err(NbdSessionEnd::InvalidMessage(format!("more than {MAX_OPTIONS} options")))
    }

    /// Answers an option. Returns the index of the export if the client has chosen one.
    fn handle_option(&mut self, number: u32, content: &[u8]) -> Result<Option<usize>, NbdSessionEnd> {
        let result = match number {
            option::EXPORT_NAME => return self.choose_by_export_name(content).map(Some),
            option::ABORT => {
                // The client may close the connection without waiting for this reply.
                let _ = self.reply(number, option_reply::ACK, &[]);
                return Err(NbdSessionEnd::Closed);
            }
            option::LIST if content.is_empty() => self.list()?,
            option::INFO | option::GO => match self.describe(number, content)? {
                Ok(export) if number == option::GO => {
                    self.reply(number, option_reply::ACK, &[])?;
                    return Ok(Some(export));
                }
                result => result.map(drop),
            },
            option::STRUCTURED_REPLY if content.is_empty() => {
                self.is_structured = true;
                Ok(())
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(number, content)?,
            option::LIST | option::STRUCTURED_REPLY => Err(option_reply::INVALID),
            _ => Err(option_reply::UNSUPPORTED),
        };
        self.reply(number, result.err().unwrap_or(option_reply::ACK), &[])?;
        Ok(None)
    }

    /// Handles the old option for choosing an export. Its only possible error response is to close the connection.
    fn choose_by_export_name(&mut self, name: &[u8]) -> Result<usize, NbdSessionEnd> {
        let export = str::from_utf8(name).ok().and_then(|name| self.find(name));
        let Some(export) = export else {
            return Err(NbdSessionEnd::InvalidMessage(format!(
                "the name {:?}, which is not an export",
                String::from_utf8_lossy(name)
            )));
        };
        let mut answer = self.size_and_flags(export);
        if !self.omits_zeros {
            answer.extend([0; 124]);
        }
        self.send(&answer)?;
        Ok(export)
    }

    fn list(&mut self) -> Result<Result<(), OptionError>, NbdSessionEnd> {
        for (name, export) in self.exports {
            let length = (name.len() as u32).to_be_bytes();
            let entry = [&length[..], name.as_bytes(), export.description().as_bytes()].concat();
            self.reply(option::LIST, option_reply::SERVER, &entry)?;
        }
        Ok(Ok(()))
    }

    /// Sends the information about an export that the client asked for.
    fn describe(&mut self, number: u32, content: &[u8]) -> Result<Result<usize, OptionError>, NbdSessionEnd> {
        let mut fields = OptionFields(content);
        let mut parse = || {
            let name = fields.name()?;
            let wanted: Option<Vec<u16>> = (0..fields.u16()?).map(|_| fields.u16()).collect();
            fields.is_empty().then_some((name, wanted?))
        };
        let Some((name, wanted)) = parse() else { return Ok(Err(option_reply::INVALID)) };
        let Some(export) = self.find(name) else { return Ok(Err(option_reply::UNKNOWN)) };
        let (name, served) = &self.exports[export];
        let block_sizes = [1, served.preferred_block(), MAX_PAYLOAD].map(u32::to_be_bytes).concat();
        let (export_facts, description) = (self.size_and_flags(export), served.description());
        let facts: [(u16, &[u8]); 4] = [
            (info::EXPORT, &export_facts),
            (info::NAME, name.as_bytes()),
            (info::DESCRIPTION, description.as_bytes()),
            (info::BLOCK_SIZE, &block_sizes),
        ];
        for (fact, content) in facts {
            if fact == info::EXPORT || wanted.contains(&fact) {
                let content = [&fact.to_be_bytes()[..], content].concat();
                self.reply(number, option_reply::INFO, &content)?;
            }
        }
        Ok(Ok(export))
    }

    /// Lists or selects contexts of an export.
    fn contexts(&mut self, number: u32, content: &[u8]) -> Result<Result<(), OptionError>, NbdSessionEnd> {
        let is_choice = number == option::SET_META_CONTEXT;
        let mut fields = OptionFields(content);
        let mut parse = || {
            let name = fields.name()?;
            let mut queries = vec![];
            for _ in 0..fields.u32()? {
                queries.push(fields.name()?);
            }
            fields.is_empty().then_some((name, queries))
        };
        if is_choice {
            self.allocation_of = None;
        }
        let Some((name, queries)) = parse().filter(|_| self.is_structured) else {
            return Ok(Err(option_reply::INVALID));
        };
        let Some(export) = self.find(name) else { return Ok(Err(option_reply::UNKNOWN)) };
        let lists_all = !is_choice && (queries.is_empty() || queries.contains(&"base:"));
        if lists_all || queries.contains(&ALLOCATION) {
            let id = if is_choice { ALLOCATION_ID } else { 0 };
            let context = [&id.to_be_bytes()[..], ALLOCATION.as_bytes()].concat();
            self.reply(number, option_reply::META_CONTEXT, &context)?;
            self.allocation_of = is_choice.then_some(export);
        }
        Ok(Ok(()))
    }

    fn find(&self, name: &str) -> Option<usize> {
        match name {
            "" => (!self.exports.is_empty()).then_some(0),
            _ => self.exports.iter().position(|(other, _)| other == name),
        }
    }

    fn size_and_flags(&self, export: usize) -> Vec<u8> {
        let export = &self.exports[export].1;
        let mut flags = transmission::HAS_FLAGS
            | transmission::SEND_FLUSH
            | transmission::SEND_FUA
            | transmission::CAN_MULTI_CONN;
        flags |= if export.is_read_only() {
            transmission::READ_ONLY
        } else {
            transmission::SEND_WRITE_ZEROES | transmission::SEND_FAST_ZERO
        };
        if !export.is_read_only() && export.can_trim() {
            flags |= transmission::SEND_TRIM;
        }
        if self.is_structured {
            flags |= transmission::SEND_DF;
        }
        [&export.size().to_be_bytes()[..], &flags.to_be_bytes()].concat()
    }

    fn reply(&mut self, number: u32, kind: u32, content: &[u8]) -> Result<(), NbdSessionEnd> {
        let length = (content.len() as u32).to_be_bytes();
        let head =
            [&OPTION_REPLY_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &kind.to_be_bytes(), &length];
        self.send(&[&head.concat(), content].concat())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), NbdSessionEnd> {
        self.output.write_all(message)?;
        Ok(self.output.flush()?)
    }
}

const _: () = assert!(MAX_OPTION as usize > 2 * MAX_NAME);
