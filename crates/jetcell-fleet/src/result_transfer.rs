//! Transfers a result from a host to the coordinator, in chunks that the coordinator requests.

use jetcell_workload::RunResult;
use jetcell_workload::measurement::Sample;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::message::{CHUNK_BYTES, ResultOffer};

/// Maximum size of a result in bytes. The result of a week-long stress test with eight databases is a tenth of this
/// size.
pub const MAX_RESULT_BYTES: u64 = 256 << 20;

/// A fleet host's result, with its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostResult {
    /// Content of the file `result.json`.
    pub result: RunResult,
    /// Content of the file `samples.csv`.
    pub samples: Vec<Sample>,
}

/// An encoded host result that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultTransfer {
    bytes: Vec<u8>,
    offer: ResultOffer,
}

impl ResultTransfer {
    /// Prepares these bytes for transfer. Returns `None` if there are none or too many.
    pub fn new(bytes: Vec<u8>) -> Option<ResultTransfer> {
        let offer = ResultOffer { bytes: bytes.len() as u64, sum: XxHash3_64::oneshot(&bytes) };
        (1..=MAX_RESULT_BYTES).contains(&offer.bytes).then_some(ResultTransfer { bytes, offer })
    }

    /// Returns the length and the checksum of the result.
    pub fn offer(&self) -> ResultOffer {
        self.offer
    }

    /// Returns the chunk with this number, if it exists.
    pub fn chunk(&self, number: u64) -> Option<&[u8]> {
        let begin = usize::try_from(number).ok()?.checked_mul(CHUNK_BYTES)?;
        let end = begin.saturating_add(CHUNK_BYTES).min(self.bytes.len());
        (begin < self.bytes.len()).then(|| &self.bytes[begin..end])
    }
}

/// Receives a host's result in chunks.
#[derive(Debug)]
pub struct ResultReceiver {
    offer: ResultOffer,
    /// Bytes received so far, without gaps. The buffer grows with the bytes received, not with the announced length.
    bytes: Vec<u8>,
}

impl ResultReceiver {
    /// Starts receiving an offered result. Returns `None` if the offered length is invalid.
    pub fn start(offer: ResultOffer) -> Option<ResultReceiver> {
        (1..=MAX_RESULT_BYTES).contains(&offer.bytes).then_some(ResultReceiver { offer, bytes: Vec::new() })
    }

    /// Returns the offer that is being received.
    pub fn offer(&self) -> ResultOffer {
        self.offer
    }

    /// Returns the number of the next chunk.
    pub fn next_chunk(&self) -> u64 {
        (self.bytes.len() / CHUNK_BYTES) as u64
    }

    /// Returns the number of missing chunks.
    pub fn missing_chunks(&self) -> u64 {
        self.offer.bytes.div_ceil(CHUNK_BYTES as u64) - self.bytes.len().div_ceil(CHUNK_BYTES) as u64
    }

    /// Adds a chunk. A chunk that is not the next one is ignored and will be requested again.
    pub fn add_chunk(&mut self, number: u64, piece: &[u8]) -> bool {
        let rest = self.offer.bytes - self.bytes.len() as u64;
        let fits =
            number == self.next_chunk() && rest > 0 && piece.len() as u64 == rest.min(CHUNK_BYTES as u64);
        if fits {
            self.bytes.extend_from_slice(piece);
        }
        fits
    }

    /// Returns the result if no chunk is missing. If the checksum is wrong, the transfer starts over.
    pub fn take_result(&mut self) -> Option<Vec<u8>> {
        if (self.bytes.len() as u64) < self.offer.bytes {
            return None;
        }
        let bytes = std::mem::take(&mut self.bytes);
        (XxHash3_64::oneshot(&bytes) == self.offer.sum).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(bytes: usize) -> ResultTransfer {
        ResultTransfer::new((0..bytes).map(|at| (at % 251) as u8).collect()).unwrap()
    }

    #[test]
    fn a_result_arrives_complete_despite_lost_messages() {
        for bytes in [1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES + 7] {
            let parcel = parcel(bytes);
            let mut intake = ResultReceiver::start(parcel.offer()).unwrap();
            let mut lost = 0;
            while intake.missing_chunks() > 0 {
                let number = intake.next_chunk();
                assert!(!intake.add_chunk(number + 1, parcel.chunk(number).unwrap()));
                lost += 1;
                if lost % 3 == 0 {
                    assert!(intake.add_chunk(number, parcel.chunk(number).unwrap()));
                    assert!(!intake.add_chunk(number, parcel.chunk(number).unwrap()), "the same again");
                }
            }
            assert_eq!(parcel.chunk(bytes.div_ceil(CHUNK_BYTES) as u64), None);
            assert_eq!(intake.take_result(), Some(parcel.bytes));
        }
    }

    #[test]
    fn changed_results_are_refetched_and_impossible_offers_are_rejected() {
        let parcel = parcel(10);
        let mut intake = ResultReceiver::start(parcel.offer()).unwrap();
        assert!(intake.add_chunk(0, &[9; 10]));
        assert_eq!((intake.take_result(), intake.missing_chunks()), (None, 1));
        assert!(intake.add_chunk(0, parcel.chunk(0).unwrap()) && intake.take_result().is_some());
        assert!(ResultReceiver::start(ResultOffer { bytes: 0, sum: 0 }).is_none());
        assert!(ResultReceiver::start(ResultOffer { bytes: u64::MAX, sum: 0 }).is_none());
        assert_eq!(parcel.chunk(u64::MAX), None);
    }
}
