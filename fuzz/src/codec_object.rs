//! An object as a stranger announces and sends it: the decoder neither panics nor holds more than it
//! was allowed, and right symbols, in any order and number, never give a wrong object.

use arbitrary::{Arbitrary, Unstructured};
use wellspring_codec::Error;
use wellspring_codec::raptorq::{
    ObjectDecoder, ObjectEncoder, ObjectTransmissionInformation, PayloadId,
};

/// What the decoder may hold \[bytes\].
const MAX_MEMORY: u64 = 1 << 20;

#[derive(Arbitrary, Debug)]
enum Announcement {
    /// Any twelve bytes.
    Raw([u8; ObjectTransmissionInformation::LEN]),
    /// An object small enough to be encoded here: T is `units` times `alignment`.
    Small { len: u16, units: u8, alignment: u8, source_blocks: u8, sub_blocks: u8 },
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// The symbol of that name as the encoder makes it.
    Right { sbn: u8, esi: u32 },
    /// Bytes of no meaning, of the symbol's length or another.
    Wrong { id: [u8; PayloadId::LEN], len: Option<u16>, byte: u8 },
    /// Take a block.
    Take { sbn: u8 },
}

/// A byte of the object, so that a symbol in the wrong place shows.
fn byte_at(index: usize) -> u8 {
    (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]
}

fn information(announcement: &Announcement) -> Result<ObjectTransmissionInformation, Error> {
    match *announcement {
        Announcement::Raw(bytes) => ObjectTransmissionInformation::from_bytes(&bytes),
        Announcement::Small { len, units, alignment, source_blocks, sub_blocks } => {
            let alignment = alignment % 8 + 1;
            let symbol_size = u16::from(alignment) * (u16::from(units % 16) + 1);
            ObjectTransmissionInformation::new(
                u64::from(len % 4_096),
                symbol_size,
                source_blocks,
                u16::from(sub_blocks),
                alignment,
            )
        }
    }
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok(announcement) = input.arbitrary::<Announcement>() else { return };
    let Ok(information) = information(&announcement) else { return };
    assert_eq!(ObjectTransmissionInformation::from_bytes(&information.to_bytes()), Ok(information));
    let symbol_size = usize::from(information.symbol_size());
    let small = information.transfer_length() <= 4_096 && symbol_size <= 4_096;
    let object: Vec<u8> = if small {
        (0..information.transfer_length() as usize).map(byte_at).collect()
    } else {
        vec![]
    };
    let mut encoder =
        small.then(|| ObjectEncoder::new(information, &object).expect("the length is right"));
    let Ok(mut decoder) = ObjectDecoder::new(information, MAX_MEMORY) else { return };
    let mut all_right = true;
    let mut symbol = vec![0; symbol_size];
    while !input.is_empty() {
        let Ok(step) = input.arbitrary::<Step>() else { return };
        match step {
            Step::Right { sbn, esi } => {
                let (Some(encoder), Ok(id)) = (&mut encoder, PayloadId::new(sbn, esi)) else {
                    continue;
                };
                if encoder.encode(id, &mut symbol).is_ok() {
                    decoder.add(id, &symbol).expect("a symbol of the object, and it is small");
                }
            }
            Step::Wrong { id, len, byte } => {
                let id = PayloadId::from_bytes(&id).expect("four bytes");
                let bytes = vec![byte; len.map_or(symbol_size, usize::from)];
                all_right &= decoder.add(id, &bytes).is_err();
            }
            Step::Take { sbn } => {
                if let (Some(part), true) = (decoder.take_block(sbn), all_right && small) {
                    let block = information.block(sbn).expect("it was taken");
                    let start = block.offset as usize;
                    assert_eq!(part, object[start..start + block.len as usize]);
                }
            }
        }
        assert!(decoder.memory() <= MAX_MEMORY);
    }
    let complete = decoder.is_complete();
    if let Some(decoded) = decoder.into_object() {
        assert!(complete);
        assert!(!all_right || !small || decoded == object);
    }
}
