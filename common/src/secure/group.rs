//! The group of record matching: keys become elements of ristretto255, which two parties multiply by a secret scalar each.
//!
//! A key is hashed to an element, so that nobody knows a relation between the elements of two keys. `a b H(key)` is the same in either
//! order: two parties who exchange `a H(key)` and `b H(key)` and multiply what they got find equal keys as equal elements. Of these only
//! tags travel.
//!
//! Elements that came from a peer are decoded by [`Scalar::tags`] alone, which refuses every encoding but the canonical one, and the
//! identity.
//!
//! # Timing
//!
//! Nothing of ours branches on a scalar or looks anything up by one. This file is the only one that sees scalars, and does three things with
//! them: [`Scalar::derive`] reduces and halves them, [`Scalar::mask`] and [`Scalar::tags`] multiply elements by them. All three are
//! operations of `curve25519-dalek` in constant time; none of its functions whose names have `vartime` is called. One comparison looks at a
//! whole scalar, whether it is zero, in constant time, and ends a run with probability 2^-252. Other branches are on what is not secret to
//! the one who could time them: whether an element of the peer decodes, and in [`matching`](crate::methods::vertical::matching) the numbers
//! of entries and the tags, which both parties have. Hashing a key to an element takes constant time but for the key's length. Sorting the
//! own list compares masked elements, which are no secret, in the order of the file, which is one: the time of the whole sort shows.
//!
//! # Reference
//!
//! RFC 9496 (ristretto255), RFC 9380 section 5.3.1 and appendix B (hashing to it).

use curve25519_dalek::RistrettoPoint;
use curve25519_dalek::ristretto::CompressedRistretto;
use curve25519_dalek::traits::IsIdentity;
use hmac::{Hmac, Mac};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256, Sha512};

use crate::id::RunId;

/// Bytes of an encoded element.
pub const ELEMENT_BYTES: usize = 32;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// An encoded element.
pub type Element = [u8; ELEMENT_BYTES];
/// The beginning of the hash of an element.
pub type Tag = [u8; TAG_BYTES];

/// What separates these hashes from every other use of the same construction.
const DST: &[u8] = b"fedreg-match-v1-ristretto255_XMD:SHA-512_R255MAP_RO_";
/// Elements that are encoded together: one inversion serves them all.
const BATCH: usize = 256;
/// Bytes of a block of SHA-512, and of its digest.
const BLOCK: usize = 128;
const DIGEST: usize = 64;

/// A secret scalar, kept halved: encoding many elements at once doubles them. Erased when it is dropped.
pub struct Scalar(curve25519_dalek::Scalar);

impl Scalar {
    /// The scalar of a pass of a run: 64 bytes that follow from the run's secret, modulo the order of the group. The same secret gives
    /// another scalar in every run and every pass. None in the case, of probability 2^-252, that it is zero.
    pub fn derive(secret: &[u8; 32], run: &RunId, pass: u32) -> Option<Scalar> {
        let mut mac = keyed(secret);
        for field in [b"fedreg match scalar".as_slice(), run.0.as_slice(), pass.to_le_bytes().as_slice()] {
            mac.update(&length(field));
            mac.update(field);
        }
        let wide: [u8; 64] = mac.finalize().into_bytes().into();
        Scalar::from_wide(&wide)
    }

    fn from_wide(wide: &[u8; 64]) -> Option<Scalar> {
        let scalar = curve25519_dalek::Scalar::from_bytes_mod_order_wide(wide);
        (scalar != curve25519_dalek::Scalar::ZERO).then(|| Scalar(scalar.div_by_2()))
    }

    /// Puts the masked element of every item in front of it. `write` puts the item's message into the buffer, which is empty.
    pub fn mask<T: Send>(&self, items: &mut [(Element, T)], write: impl Fn(&T, &mut Vec<u8>) + Sync) {
        items.par_chunks_mut(BATCH).for_each(|items| {
            let mut message = Vec::new();
            let elements: Vec<RistrettoPoint> = items
                .iter()
                .map(|(_, item)| {
                    message.clear();
                    write(item, &mut message);
                    self.0 * hash(&message, DST)
                })
                .collect();
            let encoded = RistrettoPoint::double_and_compress_batch(&elements);
            for ((place, _), element) in items.iter_mut().zip(encoded) {
                *place = element.to_bytes();
            }
        });
    }

    /// The tags of a peer's masked elements, multiplied by this scalar, in their order.
    ///
    /// # Errors
    /// The position of the first that is the identity, or not the canonical encoding of an element.
    pub fn tags(&self, masked: &[Element], context: &TagContext) -> Result<Vec<Tag>, usize> {
        let parts: Vec<Result<Vec<Tag>, usize>> = masked
            .par_chunks(BATCH)
            .enumerate()
            .map(|(part, masked)| {
                let multiplied = masked.iter().enumerate().map(|(at, element)| {
                    let decoded = CompressedRistretto(*element).decompress().filter(|element| !element.is_identity());
                    decoded.map(|element| self.0 * element).ok_or(part * BATCH + at)
                });
                let multiplied = multiplied.collect::<Result<Vec<RistrettoPoint>, usize>>()?;
                let encoded = RistrettoPoint::double_and_compress_batch(&multiplied);
                Ok(encoded.iter().map(|element| context.tag(element.as_bytes())).collect())
            })
            .collect();
        let mut tags = Vec::with_capacity(masked.len());
        for part in parts {
            tags.extend(part?);
        }
        Ok(tags)
    }
}

impl Drop for Scalar {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

/// No bytes: anyone who knows a scalar can test guesses of the keys that it masks.
impl std::fmt::Debug for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scalar")
    }
}

/// What a tag is bound to: the run and the pass.
#[derive(Clone)]
pub struct TagContext(Sha256);

impl TagContext {
    /// Of a pass by its name.
    pub fn new(run: &RunId, pass: &str) -> TagContext {
        let mut hash = Sha256::new();
        for field in [b"fedreg match tag".as_slice(), run.0.as_slice(), pass.as_bytes()] {
            hash.update(length(field));
            hash.update(field);
        }
        hash.update(length(&[0; ELEMENT_BYTES]));
        TagContext(hash)
    }

    fn tag(&self, element: &Element) -> Tag {
        let digest: [u8; 32] = self.0.clone().chain_update(element).finalize().into();
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&digest[..TAG_BYTES]);
        tag
    }
}

/// The message of an element that belongs to no key, for lists whose length is to be hidden: nobody without the secret can name it.
pub fn padding(secret: &[u8; 32], run: &RunId, pass: u32, number: u32) -> [u8; 64] {
    let mut mac = keyed(secret);
    for field in [
        b"fedreg match padding".as_slice(),
        run.0.as_slice(),
        pass.to_le_bytes().as_slice(),
        number.to_le_bytes().as_slice(),
    ] {
        mac.update(&length(field));
        mac.update(field);
    }
    mac.finalize().into_bytes().into()
}

/// HMAC under a key of 32 bytes, which HMAC itself pads with zeros to a block.
fn keyed(secret: &[u8; 32]) -> Hmac<Sha512> {
    let mut block = hmac::digest::Key::<Hmac<Sha512>>::default();
    block[..secret.len()].copy_from_slice(secret);
    <Hmac<Sha512> as hmac::digest::KeyInit>::new(&block)
}

fn length(field: &[u8]) -> [u8; 8] {
    (field.len() as u64).to_le_bytes()
}

/// A message hashed to an element: `hash_to_ristretto255` of RFC 9380, appendix B.
fn hash(message: &[u8], dst: &[u8]) -> RistrettoPoint {
    RistrettoPoint::from_uniform_bytes(&expand::<64>(message, dst))
}

/// `expand_message_xmd` of RFC 9380, section 5.3.1, with SHA-512; at most 255 digests, and a separation tag of at most 255 bytes.
fn expand<const N: usize>(message: &[u8], dst: &[u8]) -> [u8; N] {
    const { assert!(N <= 255 * DIGEST) };
    let mut expanded = [0; N];
    let ends = [dst.len() as u8];
    let first = Sha512::new()
        .chain_update([0; BLOCK])
        .chain_update(message)
        .chain_update((N as u16).to_be_bytes())
        .chain_update([0])
        .chain_update(dst)
        .chain_update(ends)
        .finalize();
    let mut last = [0; DIGEST];
    for (number, place) in (1..=u8::MAX).zip(expanded.chunks_mut(DIGEST)) {
        let mixed: [u8; DIGEST] = std::array::from_fn(|at| first[at] ^ last[at]);
        let digest = Sha512::new().chain_update(mixed).chain_update([number]).chain_update(dst).chain_update(ends);
        last = digest.finalize().into();
        place.copy_from_slice(&last[..place.len()]);
    }
    expanded
}

#[cfg(test)]
mod tests;
