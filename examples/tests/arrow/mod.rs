//! Arrow IPC streams of the records `who, a, y`, written by hand: no Arrow crate is among the dependencies.

/// One record.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) who: Option<&'a [u8]>,
    pub(crate) a: Option<f64>,
    pub(crate) y: Option<f64>,
}

/// A field of a FlatBuffers table.
enum Item {
    Byte(u8),
    Short(i16),
    Long(i64),
    Text(&'static str),
    Table(Vec<Item>),
    Tables(Vec<Vec<Item>>),
    Pairs(Vec<(i64, i64)>),
}

/// A stream in record batches of so many rows.
pub(crate) fn stream(records: &[Record<'_>], rows: usize) -> Vec<u8> {
    let double = || vec![Item::Short(2)];
    let field = |name, kind, details| vec![Item::Text(name), Item::Byte(1), Item::Byte(kind), Item::Table(details)];
    let fields = vec![field("who", 5, Vec::new()), field("a", 3, double()), field("y", 3, double())];
    let mut bytes = message(1, vec![Item::Short(0), Item::Tables(fields)], &[]);
    for batch in records.chunks(rows) {
        let (mut body, mut nodes, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
        let mut column = |present: Vec<bool>, parts: Vec<Vec<u8>>| {
            let mut bits = vec![0u8; present.len().div_ceil(8)];
            for (at, _) in present.iter().enumerate().filter(|(_, present)| **present) {
                bits[at / 8] |= 1 << (at % 8);
            }
            nodes.push((present.len() as i64, present.iter().filter(|present| !**present).count() as i64));
            for part in [vec![bits], parts].concat() {
                buffers.push((body.len() as i64, part.len() as i64));
                body.extend(part);
            }
        };
        let names: Vec<&[u8]> = batch.iter().map(|record| record.who.unwrap_or_default()).collect();
        let ends = names.iter().scan(0i32, |end, name| {
            *end += name.len() as i32;
            Some(*end)
        });
        let offsets = std::iter::once(0).chain(ends).flat_map(i32::to_le_bytes).collect();
        column(batch.iter().map(|record| record.who.is_some()).collect(), vec![offsets, names.concat()]);
        for values in
            [batch.iter().map(|record| record.a).collect(), batch.iter().map(|record| record.y).collect::<Vec<_>>()]
        {
            let numbers = values.iter().flat_map(|value| value.unwrap_or(0.0).to_le_bytes()).collect();
            column(values.iter().map(Option::is_some).collect(), vec![numbers]);
        }
        let header = vec![Item::Long(batch.len() as i64), Item::Pairs(nodes), Item::Pairs(buffers)];
        bytes.extend(message(3, header, &body));
    }
    bytes.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    bytes
}

fn message(kind: u8, header: Vec<Item>, body: &[u8]) -> Vec<u8> {
    let mut described = vec![0; 4];
    let fields = [Item::Short(4), Item::Byte(kind), Item::Table(header), Item::Long(body.len() as i64)];
    let root = put(&mut described, &fields);
    described[..4].copy_from_slice(&(root as u32).to_le_bytes());
    let length = (described.len() as u32).to_le_bytes();
    [&[0xff; 4], &length[..], &described, body].concat()
}

/// Writes a table behind its table of offsets, and what its fields lead to behind it.
fn put(bytes: &mut Vec<u8>, fields: &[Item]) -> usize {
    let offsets = bytes.len();
    let size = 4 + 2 * fields.len();
    bytes.extend((size as u16).to_le_bytes());
    bytes.extend(vec![0; size - 2]);
    let at = bytes.len();
    bytes.extend(((at - offsets) as i32).to_le_bytes());
    let mut places = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let place = bytes.len();
        let slot = offsets + 4 + 2 * index;
        bytes[slot..slot + 2].copy_from_slice(&((place - at) as u16).to_le_bytes());
        match field {
            Item::Byte(value) => bytes.push(*value),
            Item::Short(value) => bytes.extend(value.to_le_bytes()),
            Item::Long(value) => bytes.extend(value.to_le_bytes()),
            _ => bytes.extend([0; 4]),
        }
        places.push(place);
    }
    for (field, place) in fields.iter().zip(places) {
        let target = match field {
            Item::Text(text) => counted(bytes, text.len(), text.as_bytes()),
            Item::Pairs(pairs) => {
                let numbers: Vec<u8> =
                    pairs.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()]).flatten().collect();
                counted(bytes, pairs.len(), &numbers)
            }
            Item::Table(fields) => put(bytes, fields),
            Item::Tables(tables) => {
                let begin = counted(bytes, tables.len(), &vec![0; 4 * tables.len()]);
                for (index, fields) in tables.iter().enumerate() {
                    let (slot, table) = (begin + 4 + 4 * index, put(bytes, fields));
                    bytes[slot..slot + 4].copy_from_slice(&((table - slot) as u32).to_le_bytes());
                }
                begin
            }
            _ => continue,
        };
        bytes[place..place + 4].copy_from_slice(&((target - place) as u32).to_le_bytes());
    }
    at
}

fn counted(bytes: &mut Vec<u8>, count: usize, content: &[u8]) -> usize {
    let at = bytes.len();
    bytes.extend((count as u32).to_le_bytes());
    bytes.extend(content);
    at
}
