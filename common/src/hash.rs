//! SHA-256 of millions of short messages, for which the padding and the buffers of a general one take longer than the digest.

use sha2::digest::consts::U64;
use sha2::digest::generic_array::GenericArray;
use sha2::{Digest as _, Sha256, compress256};

/// Bytes of a block.
pub(crate) const BLOCK: usize = 64;

/// Where the length of the message stands in the last block.
const LENGTH: usize = BLOCK - size_of::<u64>();

/// A block.
pub(crate) type Block = GenericArray<u8, U64>;

/// The state at the beginning (FIPS 180-4, section 5.3.3).
pub(crate) const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The state behind the end of a message of this many bits, which fills a part of the last block.
pub(crate) fn close(mut state: [u32; 8], mut block: Block, filled: usize, bits: u64) -> [u32; 8] {
    block[filled] = 0x80;
    block[filled + 1..].fill(0);
    if filled >= LENGTH {
        compress256(&mut state, std::slice::from_ref(&block));
        block = Block::default();
    }
    block[LENGTH..].copy_from_slice(&bits.to_be_bytes());
    compress256(&mut state, &[block]);
    state
}

/// Writes a state as the bytes of its digest, or as many of them as there is room for.
pub(crate) fn write(state: [u32; 8], bytes: &mut [u8]) {
    bytes.as_chunks_mut::<4>().0.iter_mut().zip(state).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
}

/// The digest of a message. One that is shorter than a block passes by the buffers of the library.
pub fn of_short(message: &[u8]) -> [u8; 32] {
    if message.len() >= BLOCK {
        return Sha256::digest(message).into();
    }
    let mut block = Block::default();
    block[..message.len()].copy_from_slice(message);
    let state = close(INITIAL, block, message.len(), 8 * message.len() as u64);
    let mut digest = [0; 32];
    write(state, &mut digest);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_message_has_the_digest_of_the_library() {
        let bytes: Vec<u8> = (0..200).map(|at| (at * 37 % 251) as u8).collect();
        for length in 0..bytes.len() {
            let library: [u8; 32] = Sha256::digest(&bytes[..length]).into();
            assert_eq!(of_short(&bytes[..length]), library, "{length}");
        }
    }
}
