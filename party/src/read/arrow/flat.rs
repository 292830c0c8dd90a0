//! Tables of the FlatBuffers format, read where they lie. Every position is checked before it is used.
//!
//! # Reference
//!
//! FlatBuffers internals: a table begins with the signed distance back to its table of field offsets; offsets are relative
//! to where they stand.

/// Bytes that end before what they promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut;

/// A table.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    fields: usize,
    /// Bytes of the table of field offsets.
    size: usize,
}

impl<'a> Table<'a> {
    /// The table that the bytes hold.
    pub(super) fn root(bytes: &'a [u8]) -> Result<Table<'a>, Cut> {
        Table::at(bytes, word(bytes, 0)? as usize)
    }

    fn at(bytes: &'a [u8], at: usize) -> Result<Table<'a>, Cut> {
        let back = i64::from(word(bytes, at)? as i32);
        let fields = usize::try_from(at as i64 - back).map_err(|_| Cut)?;
        let size = usize::from(half(bytes, fields)?);
        Ok(Table { bytes, at, fields, size })
    }

    /// Where a field stands; nothing where it has its default.
    fn field(&self, index: usize) -> Result<Option<usize>, Cut> {
        let slot = 4 + 2 * index;
        if slot + 2 > self.size {
            return Ok(None);
        }
        let offset = usize::from(half(self.bytes, self.fields + slot)?);
        Ok((offset != 0).then_some(self.at + offset))
    }

    /// A field of one byte, zero by default.
    pub(super) fn byte(&self, index: usize) -> Result<u8, Cut> {
        self.field(index)?.map_or(Ok(0), |at| self.bytes.get(at).copied().ok_or(Cut))
    }

    /// A field of two bytes, zero by default.
    pub(super) fn short(&self, index: usize) -> Result<i16, Cut> {
        self.field(index)?.map_or(Ok(0), |at| Ok(half(self.bytes, at)? as i16))
    }

    /// A field of four bytes, zero by default.
    pub(super) fn int(&self, index: usize) -> Result<i32, Cut> {
        self.field(index)?.map_or(Ok(0), |at| Ok(word(self.bytes, at)? as i32))
    }

    /// A field of eight bytes, zero by default.
    pub(super) fn long(&self, index: usize) -> Result<i64, Cut> {
        self.field(index)?.map_or(Ok(0), |at| long(self.bytes, at))
    }

    /// Where a field's offset leads.
    fn target(&self, index: usize) -> Result<Option<usize>, Cut> {
        let Some(at) = self.field(index)? else { return Ok(None) };
        at.checked_add(word(self.bytes, at)? as usize).map(Some).ok_or(Cut)
    }

    /// A table in a field.
    pub(super) fn table(&self, index: usize) -> Result<Option<Table<'a>>, Cut> {
        self.target(index)?.map(|at| Table::at(self.bytes, at)).transpose()
    }

    /// Text in a field.
    pub(super) fn text(&self, index: usize) -> Result<Option<&'a str>, Cut> {
        let Some(at) = self.target(index)? else { return Ok(None) };
        let length = word(self.bytes, at)? as usize;
        let text = self.bytes.get(at + 4..).and_then(|rest| rest.get(..length)).ok_or(Cut)?;
        std::str::from_utf8(text).map(Some).map_err(|_| Cut)
    }

    /// Positions of a vector's elements of `size` bytes each.
    fn vector(&self, index: usize, size: usize) -> Result<Vec<usize>, Cut> {
        let Some(at) = self.target(index)? else { return Ok(Vec::new()) };
        let length = word(self.bytes, at)? as usize;
        let rest = self.bytes.len().saturating_sub(at + 4);
        if length > rest / size {
            return Err(Cut);
        }
        Ok((0..length).map(|element| at + 4 + element * size).collect())
    }

    /// A vector of tables in a field.
    pub(super) fn tables(&self, index: usize) -> Result<Vec<Table<'a>>, Cut> {
        let elements = self.vector(index, 4)?;
        elements
            .into_iter()
            .map(|at| Table::at(self.bytes, at.checked_add(word(self.bytes, at)? as usize).ok_or(Cut)?))
            .collect()
    }

    /// A vector of long numbers in a field.
    pub(super) fn longs(&self, index: usize) -> Result<Vec<i64>, Cut> {
        self.vector(index, 8)?.into_iter().map(|at| long(self.bytes, at)).collect()
    }

    /// A vector in a field of a long number, one of four bytes and another long number.
    pub(super) fn blocks(&self, index: usize) -> Result<Vec<(i64, i32, i64)>, Cut> {
        let elements = self.vector(index, 24)?.into_iter();
        elements
            .map(|at| Ok((long(self.bytes, at)?, word(self.bytes, at + 8)? as i32, long(self.bytes, at + 16)?)))
            .collect()
    }

    /// A vector of pairs of long numbers in a field.
    pub(super) fn pairs(&self, index: usize) -> Result<Vec<(i64, i64)>, Cut> {
        let elements = self.vector(index, 16)?;
        elements.into_iter().map(|at| Ok((long(self.bytes, at)?, long(self.bytes, at + 8)?))).collect()
    }
}

fn read<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Cut> {
    bytes.get(at..).and_then(|rest| rest.get(..N)).and_then(|entry| entry.try_into().ok()).ok_or(Cut)
}

fn half(bytes: &[u8], at: usize) -> Result<u16, Cut> {
    Ok(u16::from_le_bytes(read(bytes, at)?))
}

fn word(bytes: &[u8], at: usize) -> Result<u32, Cut> {
    Ok(u32::from_le_bytes(read(bytes, at)?))
}

fn long(bytes: &[u8], at: usize) -> Result<i64, Cut> {
    Ok(i64::from_le_bytes(read(bytes, at)?))
}
