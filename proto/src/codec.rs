//! Between frames on the wire and the generated types.

use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

/// prost, except that bytes which do not decode become an empty message, which every checked conversion refuses.
///
/// An error of the codec would end the stream, and with it the chance to tell the peer why the run ends.
#[derive(Debug, Clone, Copy)]
pub struct TolerantCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for TolerantCodec<T, U> {
    fn default() -> Self {
        TolerantCodec(PhantomData)
    }
}

impl<T, U> Codec for TolerantCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = TolerantDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        TolerantDecoder(PhantomData)
    }
}

/// The reading half of [`TolerantCodec`].
#[derive(Debug, Clone, Copy)]
pub struct TolerantDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for TolerantDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        use bytes::Buf;
        let item = U::decode(&mut *buffer).unwrap_or_else(|error| {
            tracing::warn!("a peer sent bytes that do not decode: {error}");
            U::default()
        });
        buffer.advance(buffer.remaining());
        Ok(Some(item))
    }
}
