//! Members of compressed files. Compressed files can be concatenated, and their contents are then concatenated as well.

use std::fs::File as RealFile;
use std::io;
#[cfg(feature = "zst")]
use std::io::{BufRead, BufReader, Read};

#[cfg(feature = "zst")]
use ese_format::recognise::START_LEN;

#[cfg(not(feature = "zst"))]
use crate::disabled_command::disabled_feature_error;

/// Format of a compressed file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    Zstandard,
    Gzip,
}

/// A part of the unpacked content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnpackedPart {
    /// Number of bytes. 0 at the end of the content.
    pub len: usize,
    /// True if the part is the start of a member. It has at least [`START_LEN`] bytes if the member and the buffer do.
    ///
    /// [`START_LEN`]: ese_format::recognise::START_LEN
    pub begins_member: bool,
}

/// Decoder of a compressed file, which distinguishes its members.
#[cfg(feature = "zst")]
pub struct PackedMembers {
    packing: Packing,
    state: Option<DecoderState>,
}

#[cfg(feature = "zst")]
enum DecoderState {
    BetweenMembers(BufReader<RealFile>),
    Zstandard(Box<zstd::Decoder<'static, BufReader<RealFile>>>),
    Gzip(Box<flate2::bufread::GzDecoder<BufReader<RealFile>>>),
}

#[cfg(feature = "zst")]
impl PackedMembers {
    /// Creates a decoder.
    pub fn new(packing: Packing, packed: RealFile) -> io::Result<PackedMembers> {
        Ok(PackedMembers { packing, state: Some(DecoderState::BetweenMembers(BufReader::new(packed))) })
    }

    /// Reads the next part of the content. A part belongs to a single member.
    pub fn read_part(&mut self, buffer: &mut [u8]) -> io::Result<UnpackedPart> {
        loop {
            // Nothing is read after an error.
            let Some(mut state) = self.state.take() else {
                return Ok(UnpackedPart { len: 0, begins_member: false });
            };
            let mut begins_member = false;
            if let DecoderState::BetweenMembers(mut packed) = state {
                if packed.fill_buf()?.is_empty() {
                    return Ok(UnpackedPart { len: 0, begins_member: false });
                }
                begins_member = true;
                state = match self.packing {
                    Packing::Zstandard => {
                        DecoderState::Zstandard(Box::new(zstd::Decoder::with_buffer(packed)?.single_frame()))
                    }
                    Packing::Gzip => DecoderState::Gzip(Box::new(flate2::bufread::GzDecoder::new(packed))),
                };
            }
            let wanted = if begins_member { buffer.len().min(START_LEN) } else { buffer.len() };
            let part = buffer.get_mut(..wanted).unwrap_or_default();
            let len = state.read_full(part)?;
            self.state = Some(if len < wanted { state.into_next_member() } else { state });
            if len > 0 || wanted == 0 {
                return Ok(UnpackedPart { len, begins_member });
            }
        }
    }
}

#[cfg(feature = "zst")]
impl DecoderState {
    /// Reads until the buffer is full or the member ends.
    fn read_full(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let reader: &mut dyn Read = match self {
            DecoderState::BetweenMembers(_) => return Ok(0),
            DecoderState::Zstandard(decoder) => decoder,
            DecoderState::Gzip(decoder) => decoder,
        };
        let mut len = 0;
        while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match reader.read(rest) {
                Ok(0) => break,
                Ok(count) => len += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(len)
    }

    fn into_next_member(self) -> DecoderState {
        DecoderState::BetweenMembers(match self {
            DecoderState::BetweenMembers(packed) => packed,
            DecoderState::Zstandard(decoder) => decoder.finish(),
            DecoderState::Gzip(decoder) => decoder.into_inner(),
        })
    }
}

#[cfg(not(feature = "zst"))]
pub use self::AbsentDecoder as PackedMembers;

/// Decoder in a build without decoders. It cannot be created.
#[cfg(not(feature = "zst"))]
pub enum AbsentDecoder {}

#[cfg(not(feature = "zst"))]
impl AbsentDecoder {
    /// Returns an error that explains how to get a build that includes the decoders.
    pub fn new(_: Packing, _: RealFile) -> io::Result<AbsentDecoder> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            disabled_feature_error("reading compressed files", "zst").full_text(),
        ))
    }

    /// Reads the next part of the content.
    pub fn read_part(&mut self, _: &mut [u8]) -> io::Result<UnpackedPart> {
        match *self {}
    }
}
