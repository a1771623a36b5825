//! Bodies as they were before they were packed, up to a bound.
//!
//! A few kilobytes can be packed so that they become gigabytes, so what comes out is measured while it comes: against the
//! bound, at which reading ends, and against what was sent for it, where a body that grows out of all proportion is an error.

use std::io::{self, Write};

use flate2::write::{GzDecoder, ZlibDecoder};

use super::limits::{Limits, RATIO_FREE_BYTES};

/// A body that is being read.
pub(super) struct Body(Kind);

enum Kind {
    Plain(Room),
    Gzip(Box<GzDecoder<Room>>),
    Zlib(Box<ZlibDecoder<Room>>),
}

/// Whether there is any use in reading on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    More,
    Enough,
}

/// Why a body can't be unpacked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It grows out of all proportion.
    Bomb,
    /// It isn't what it is said to be, or broke off.
    Broken,
}

/// What was unpacked so far.
struct Room {
    bytes: Vec<u8>,
    sent: u64,
    most: usize,
    ratio: u64,
    full: bool,
    bomb: bool,
}

impl Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let after = (self.bytes.len() + bytes.len()) as u64;
        if after > RATIO_FREE_BYTES && after > self.sent.saturating_mul(self.ratio) {
            self.bomb = true;
            return Err(io::Error::other("it grows out of all proportion"));
        }
        let taken = bytes.len().min(self.most - self.bytes.len());
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

impl Body {
    /// A body in this encoding, as the header names it; nothing if it isn't known.
    pub(super) fn new(encoding: &str, limits: &Limits) -> Option<Body> {
        let room = Room {
            bytes: Vec::new(),
            sent: 0,
            most: limits.unpacked_bytes,
            ratio: limits.ratio,
            full: false,
            bomb: false,
        };
        Some(Body(match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Kind::Plain(room),
            "gzip" | "x-gzip" => Kind::Gzip(Box::new(GzDecoder::new(room))),
            "deflate" => Kind::Zlib(Box::new(ZlibDecoder::new(room))),
            _ => return None,
        }))
    }

    fn room(&mut self) -> &mut Room {
        match &mut self.0 {
            Kind::Plain(room) => room,
            Kind::Gzip(decoder) => decoder.get_mut(),
            Kind::Zlib(decoder) => decoder.get_mut(),
        }
    }

    /// Takes a part as it was sent.
    pub(super) fn take(&mut self, mut part: &[u8]) -> Result<Wanted, Bad> {
        let sent = part.len() as u64;
        self.room().sent += sent;
        while !part.is_empty() {
            let done = match &mut self.0 {
                Kind::Plain(room) => {
                    // What isn't packed can't grow.
                    room.ratio = u64::MAX;
                    room.write(part)
                }
                Kind::Gzip(decoder) => decoder.write(part),
                Kind::Zlib(decoder) => decoder.write(part),
            };
            match done {
                // What follows the end of what was packed means nothing.
                Ok(0) => return Ok(Wanted::Enough),
                Ok(done) => part = &part[done..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    let room = self.room();
                    return match (room.bomb, room.full) {
                        (true, _) => Err(Bad::Bomb),
                        (_, true) => Ok(Wanted::Enough),
                        _ => Err(Bad::Broken),
                    };
                }
            }
        }
        Ok(Wanted::More)
    }

    /// The whole, and whether something is missing at its end. `cut` says that not all of it was taken.
    pub(super) fn finish(mut self, cut: bool) -> Result<(Vec<u8>, bool), Bad> {
        if !cut && !self.room().full {
            let ended = match &mut self.0 {
                Kind::Plain(_) => Ok(()),
                // A server that packs nothing may send nothing.
                Kind::Gzip(decoder) if decoder.get_ref().sent == 0 => Ok(()),
                Kind::Zlib(decoder) if decoder.get_ref().sent == 0 => Ok(()),
                Kind::Gzip(decoder) => decoder.try_finish(),
                Kind::Zlib(decoder) => decoder.try_finish(),
            };
            let room = self.room();
            match ended {
                Err(_) if room.bomb => return Err(Bad::Bomb),
                Err(_) if !room.full => return Err(Bad::Broken),
                _ => {}
            }
        }
        let room = self.room();
        let cut = cut || room.full;
        Ok((std::mem::take(&mut room.bytes), cut))
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

    /// What comes of a body that is sent in parts of this size.
    fn unpacked(encoding: &str, sent: &[u8], part: usize, limits: &Limits) -> Result<(Vec<u8>, bool), Bad> {
        let mut body = Body::new(encoding, limits).unwrap();
        for part in sent.chunks(part) {
            if body.take(part)? == Wanted::Enough {
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
        let limits = Limits::default();
        for part in [1, 7, 4096, 1 << 20] {
            for (encoding, sent) in [("gzip", &gzip(&text)), ("deflate", &zlib), ("", &text)] {
                assert_eq!(
                    unpacked(encoding, sent, part, &limits).unwrap(),
                    (text.clone(), false),
                    "{encoding}"
                );
            }
        }
        let mut more = gzip(b"whole");
        more.extend_from_slice(b"and something behind it");
        assert_eq!(unpacked("gzip", &more, 3, &limits).unwrap(), (b"whole".to_vec(), false));
    }

    #[test]
    fn a_bomb_is_an_error_and_a_long_body_is_cut() {
        let limits = Limits { unpacked_bytes: 2 << 20, ..Limits::default() };
        let zeros = gzip(&vec![0; 4 << 20]);
        assert!(zeros.len() < 1 << 18);
        assert_eq!(unpacked("gzip", &zeros, 1024, &limits), Err(Bad::Bomb));
        let mut state = 1_u32;
        let noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Vec<u8> = std::iter::repeat_with(noise).take(5 << 19).collect();
        for (encoding, sent) in [("gzip", &gzip(&noise)), ("", &noise)] {
            let (bytes, cut) = unpacked(encoding, sent, 4096, &limits).unwrap();
            assert_eq!((bytes.len(), cut), (2 << 20, true), "{encoding}");
            assert_eq!(bytes, noise[..2 << 20]);
        }
    }

    #[test]
    fn half_a_body_is_not_taken_for_a_whole_one() {
        let limits = Limits::default();
        let sent = gzip(&[b'x'; 10_000]);
        assert_eq!(unpacked("gzip", &sent[..sent.len() - 9], 100, &limits), Err(Bad::Broken));
        assert_eq!(unpacked("gzip", b"<html>no gzip</html>", 100, &limits), Err(Bad::Broken));
        assert_eq!(unpacked("gzip", b"", 100, &limits), Ok((Vec::new(), false)));
        assert!(Body::new("br", &limits).is_none());
    }
}
