//! Decompresses response bodies up to a limit.
//!
//! A few kilobytes can decompress to gigabytes. The output is checked while it is produced: against
//! the size limit, where reading stops, and against the compressed size, where a disproportionate
//! body is an error.

use std::io::{self, Write};

use flate2::write::{GzDecoder, ZlibDecoder};

use super::limits::{FetchLimits, RATIO_FREE_BYTES};

/// A body that is being received.
pub(super) struct BodyDecoder(ContentDecoder);

enum ContentDecoder {
    Plain(BoundedBuffer),
    Gzip(Box<GzDecoder<BoundedBuffer>>),
    Zlib(Box<ZlibDecoder<BoundedBuffer>>),
}

/// Whether more input is useful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodeProgress {
    More,
    Enough,
}

/// Why a body can't be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// The compression ratio is too high.
    DecompressionBomb,
    /// The content doesn't match its declared encoding, or is incomplete.
    Malformed,
}

/// The decoded bytes, with the limits.
struct BoundedBuffer {
    bytes: Vec<u8>,
    received: u64,
    bytes_max: usize,
    ratio: u64,
    full: bool,
    bomb: bool,
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let after = (self.bytes.len() + bytes.len()) as u64;
        if after > RATIO_FREE_BYTES && after > self.received.saturating_mul(self.ratio) {
            self.bomb = true;
            return Err(io::Error::other("it grows out of all proportion"));
        }
        let taken = bytes.len().min(self.bytes_max - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
        if taken < bytes.len() {
            self.full = true;
            return Err(io::Error::other("there is no more room"));
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BodyDecoder {
    /// Creates a decoder for a `Content-Encoding`; returns `None` if the encoding is unknown.
    pub(super) fn new(encoding: &str, limits: &FetchLimits) -> Option<BodyDecoder> {
        let buffer = BoundedBuffer {
            bytes: Vec::new(),
            received: 0,
            bytes_max: limits.decoded_bytes,
            ratio: limits.ratio,
            full: false,
            bomb: false,
        };
        Some(BodyDecoder(match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => ContentDecoder::Plain(buffer),
            "gzip" | "x-gzip" => ContentDecoder::Gzip(Box::new(GzDecoder::new(buffer))),
            "deflate" => ContentDecoder::Zlib(Box::new(ZlibDecoder::new(buffer))),
            _ => return None,
        }))
    }

    fn buffer(&mut self) -> &mut BoundedBuffer {
        match &mut self.0 {
            ContentDecoder::Plain(buffer) => buffer,
            ContentDecoder::Gzip(decoder) => decoder.get_mut(),
            ContentDecoder::Zlib(decoder) => decoder.get_mut(),
        }
    }

    /// Decodes a received part.
    pub(super) fn decode_part(&mut self, mut part: &[u8]) -> Result<DecodeProgress, DecodeError> {
        let received = part.len() as u64;
        self.buffer().received += received;
        while !part.is_empty() {
            let done = match &mut self.0 {
                ContentDecoder::Plain(buffer) => {
                    // An uncompressed body can't grow.
                    buffer.ratio = u64::MAX;
                    buffer.write(part)
                }
                ContentDecoder::Gzip(decoder) => decoder.write(part),
                ContentDecoder::Zlib(decoder) => decoder.write(part),
            };
            match done {
                // Bytes after the end of the compressed stream are ignored.
                Ok(0) => return Ok(DecodeProgress::Enough),
                Ok(done) => part = &part[done..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    let buffer = self.buffer();
                    return match (buffer.bomb, buffer.full) {
                        (true, _) => Err(DecodeError::DecompressionBomb),
                        (_, true) => Ok(DecodeProgress::Enough),
                        _ => Err(DecodeError::Malformed),
                    };
                }
            }
        }
        Ok(DecodeProgress::More)
    }

    /// Returns the decoded body and whether it was truncated. `cut` tells that the caller didn't
    /// pass on everything.
    pub(super) fn finish(mut self, cut: bool) -> Result<(Vec<u8>, bool), DecodeError> {
        if !cut && !self.buffer().full {
            let ended = match &mut self.0 {
                ContentDecoder::Plain(_) => Ok(()),
                // A server that declares a compression may send an empty body.
                ContentDecoder::Gzip(decoder) if decoder.get_ref().received == 0 => Ok(()),
                ContentDecoder::Zlib(decoder) if decoder.get_ref().received == 0 => Ok(()),
                ContentDecoder::Gzip(decoder) => decoder.try_finish(),
                ContentDecoder::Zlib(decoder) => decoder.try_finish(),
            };
            let buffer = self.buffer();
            match ended {
                Err(_) if buffer.bomb => return Err(DecodeError::DecompressionBomb),
                Err(_) if !buffer.full => return Err(DecodeError::Malformed),
                _ => {}
            }
        }
        let buffer = self.buffer();
        let cut = cut || buffer.full;
        Ok((std::mem::take(&mut buffer.bytes), cut))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Decodes a body that arrives in parts of this size.
    fn decode(
        encoding: &str,
        received: &[u8],
        part: usize,
        limits: &FetchLimits,
    ) -> Result<(Vec<u8>, bool), DecodeError> {
        let mut body = BodyDecoder::new(encoding, limits).unwrap();
        for part in received.chunks(part) {
            if body.decode_part(part)? == DecodeProgress::Enough {
                return body.finish(false);
            }
        }
        body.finish(false)
    }

    #[test]
    fn whatever_the_parts_the_whole_is_the_same() {
        let text: Vec<u8> = (0..50_000_u32).flat_map(|n| n.to_le_bytes()).collect();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&text).unwrap();
        let zlib = zlib.finish().unwrap();
        let limits = FetchLimits::default();
        for part in [1, 7, 4096, 1 << 20] {
            for (encoding, received) in [("gzip", &gzip(&text)), ("deflate", &zlib), ("", &text)] {
                assert_eq!(
                    decode(encoding, received, part, &limits).unwrap(),
                    (text.clone(), false),
                    "{encoding}"
                );
            }
        }
        let mut more = gzip(b"whole");
        more.extend_from_slice(b"and something behind it");
        assert_eq!(decode("gzip", &more, 3, &limits).unwrap(), (b"whole".to_vec(), false));
    }

    #[test]
    fn a_bomb_is_an_error_and_a_long_body_is_cut() {
        let limits = FetchLimits { decoded_bytes: 2 << 20, ..FetchLimits::default() };
        let zeros = gzip(&vec![0; 4 << 20]);
        assert!(zeros.len() < 1 << 18);
        assert_eq!(decode("gzip", &zeros, 1024, &limits), Err(DecodeError::DecompressionBomb));
        let mut state = 1_u32;
        let noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Vec<u8> = std::iter::repeat_with(noise).take(5 << 19).collect();
        for (encoding, received) in [("gzip", &gzip(&noise)), ("", &noise)] {
            let (bytes, cut) = decode(encoding, received, 4096, &limits).unwrap();
            assert_eq!((bytes.len(), cut), (2 << 20, true), "{encoding}");
            assert_eq!(bytes, noise[..2 << 20]);
        }
    }

    #[test]
    fn half_a_body_is_not_taken_for_a_whole_one() {
        let limits = FetchLimits::default();
        let received = gzip(&[b'x'; 10_000]);
        assert_eq!(
            decode("gzip", &received[..received.len() - 9], 100, &limits),
            Err(DecodeError::Malformed)
        );
        assert_eq!(decode("gzip", b"<html>no gzip</html>", 100, &limits), Err(DecodeError::Malformed));
        assert_eq!(decode("gzip", b"", 100, &limits), Ok((Vec::new(), false)));
        assert!(BodyDecoder::new("br", &limits).is_none());
    }
}
