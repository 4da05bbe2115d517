//! An object store against a model of it: under a name there are always the bytes that were committed there last,
//! whatever is written into part files, taken up, dropped or cleaned away; and no name leads anywhere else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use wellspring_store::{
    Digest, Existing, HashProgress, Limits, ObjectName, ObjectSink, PartFile, PartLimits, Store,
    StoreError, hash_file,
};

/// Length of the blocks that are written \[bytes\].
const BLOCK: usize = 1_024;
/// Steps of an input, at most.
const MAX_STEPS: usize = 64;
/// Objects that there are: each of another length and other bytes.
const OBJECTS: u8 = 3;
/// Names that objects are received under.
const NAMES: [&str; 3] = ["a", "b", "folder/c"];

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// Begin to receive an object under a name.
    Receive { name: u8, object: u8, resume: bool, replace: bool },
    /// Write a block of it, right or wrong.
    Write { part: u8, block: u8, wrong: bool },
    /// Verify what an earlier part file has left.
    Verify { part: u8 },
    /// Give it its name.
    Commit { part: u8 },
    /// Give it up.
    Drop { part: u8 },
    /// Remove part files that nobody works on.
    Trim { bytes: u16, wanted: u16 },
    /// Open whatever has that name.
    Open { name: &'a str },
}

/// What a block of a part file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Block {
    Missing,
    /// An earlier part file may have left it.
    Unknown,
    Right,
    Wrong,
}

/// A part file, and what must be in it.
struct Part {
    file: PartFile,
    name: usize,
    object: usize,
    replace: bool,
    resumed: bool,
    blocks: Vec<Block>,
}

struct Object {
    bytes: Vec<u8>,
    digest: Digest,
}

impl Object {
    fn number(number: u8, folder: &Path) -> Object {
        let len = 700 + 1_500 * usize::from(number);
        let bytes: Vec<u8> = (0..len).map(|i| ((i * 31 + i / 7) as u8 ^ number) | 1).collect();
        let path = folder.join("hashed");
        fs::write(&path, &bytes).expect("written");
        let file = File::open(path).expect("open");
        let digest = hash_file(&file, len as u64, &HashProgress::default()).expect("hashed");
        Object { bytes, digest }
    }
}

struct Model {
    store: Store,
    served: std::path::PathBuf,
    objects: Vec<Object>,
    parts: Vec<Part>,
    /// What has which name.
    there: BTreeMap<usize, usize>,
}

impl Model {
    fn new(folder: &Path) -> Model {
        let served = folder.join("served");
        fs::create_dir_all(served.join("folder")).expect("directories");
        fs::write(folder.join("secret"), "not to be opened").expect("written");
        let limits = Limits { keep_free: 0, objects: 4, object_len: 10_000, total_len: 12_000 };
        let store = Store::open(&served, limits).expect("a directory");
        let objects = (0..OBJECTS).map(|number| Object::number(number, folder)).collect();
        Model { store, served, objects, parts: Vec::new(), there: BTreeMap::new() }
    }

    fn step(&mut self, step: &Step<'_>) {
        match *step {
            Step::Receive { name, object, resume, replace } => {
                let (name, object) =
                    (usize::from(name) % NAMES.len(), usize::from(object) % self.objects.len());
                self.receive(name, object, resume, replace);
            }
            Step::Write { part, block, wrong } => self.write(part, block, wrong),
            Step::Verify { part } => self.verify(part),
            Step::Commit { part } => self.commit(part),
            Step::Drop { part } => drop(self.take(part)),
            Step::Trim { bytes, wanted } => {
                let limits = PartLimits {
                    age: Duration::from_secs(60),
                    bytes: bytes.into(),
                    files: usize::from(bytes),
                };
                self.store.trim_parts(&limits, wanted.into()).expect("the directory is there");
            }
            Step::Open { name } => self.open(name),
        }
    }

    fn receive(&mut self, name: usize, object: usize, resume: bool, replace: bool) {
        let Object { bytes, digest } = &self.objects[object];
        let existing = if replace { Existing::Replace } else { Existing::Keep };
        let of = ObjectName::new(NAMES[name]).expect("a name");
        let size = bytes.len() as u64;
        let file = match resume {
            true => self.store.resume(&of, size, *digest, existing),
            false => self.store.create(&of, size, *digest, existing),
        };
        let is_there = self.there.contains_key(&name);
        match file {
            Ok(file) => {
                assert!(replace || !is_there, "an object would be overwritten");
                let state = if file.has_old_bytes() { Block::Unknown } else { Block::Missing };
                let blocks = vec![state; bytes.len().div_ceil(BLOCK)];
                let resumed = resume;
                self.parts.push(Part { file, name, object, replace, resumed, blocks });
            }
            Err(StoreError::Exists(_)) => assert!(is_there && !replace),
            Err(StoreError::Busy { .. } | StoreError::NoSpace { .. }) => {
                assert!(!self.parts.is_empty());
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn write(&mut self, part: u8, block: u8, wrong: bool) {
        let Some(part) = pick(&mut self.parts, part) else { return };
        // Into a file that is taken up go only verified blocks.
        let wrong = wrong && !part.resumed;
        let block = usize::from(block) % part.blocks.len();
        let bytes = &self.objects[part.object].bytes;
        let start = block * BLOCK;
        let mut block_bytes = bytes[start..bytes.len().min(start + BLOCK)].to_vec();
        if wrong {
            block_bytes[0] ^= 1;
        }
        if matches!(part.blocks[block], Block::Right | Block::Wrong) {
            return; // the protocol hands over each block once
        }
        part.file.write_block(start as u64, &block_bytes).expect("written");
        part.blocks[block] = if wrong { Block::Wrong } else { Block::Right };
    }

    fn verify(&mut self, part: u8) {
        let Some(part) = pick(&mut self.parts, part).filter(|part| part.resumed) else { return };
        let bytes = &self.objects[part.object].bytes;
        let ranges = part.file.data_ranges().expect("read");
        let unknown = |(_, state): &(usize, &mut Block)| **state == Block::Unknown;
        for (block, state) in part.blocks.iter_mut().enumerate().filter(unknown) {
            let (start, end) = (block * BLOCK, bytes.len().min((block + 1) * BLOCK));
            let mut there = vec![0; end - start];
            part.file.read_at(start as u64, &mut there).expect("read");
            *state = if there == bytes[start..end] { Block::Right } else { Block::Missing };
            if *state == Block::Right {
                let has = |range: &std::ops::Range<u64>| {
                    range.start <= start as u64 && end as u64 <= range.end
                };
                assert!(ranges.iter().any(has), "bytes where the file has a hole");
                part.file.note(start as u64..end as u64);
            }
        }
    }

    fn commit(&mut self, part: u8) {
        let Some(part) = self.take(part) else { return };
        // Of a file that was taken up the caller knows that all is there.
        let is_whole = part.blocks.iter().all(|state| *state == Block::Right);
        if part.resumed && !is_whole {
            return;
        }
        let is_free = part.replace || !self.there.contains_key(&part.name);
        match part.file.commit() {
            Ok(_) => {
                assert!(is_whole && is_free, "committed");
                self.there.insert(part.name, part.object);
            }
            Err(StoreError::Exists(_)) => assert!(!is_free),
            Err(error) => assert!(!is_whole, "{error}"),
        }
    }

    fn take(&mut self, part: u8) -> Option<Part> {
        let parts = self.parts.len();
        (parts > 0).then(|| self.parts.swap_remove(usize::from(part) % parts))
    }

    fn open(&self, name: &str) {
        let parsed = ObjectName::new(name);
        assert_eq!(parsed.is_ok(), may_be_a_name(name), "{name:?}");
        let Ok(name) = parsed else { return };
        let known = NAMES.iter().position(|known| *known == name.as_str());
        let expected = known.and_then(|known| self.there.get(&known));
        match self.store.open_object(&name) {
            Ok((mut file, fingerprint)) => {
                let object = &self.objects[*expected.expect("nothing else is there")];
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).expect("read");
                assert!(bytes == object.bytes);
                assert_eq!(fingerprint.size(), bytes.len() as u64);
            }
            Err(_) => assert!(expected.is_none()),
        }
    }

    /// Under each name there is what was committed there.
    fn check(&self) {
        for (index, name) in NAMES.iter().enumerate() {
            let there = fs::read(self.served.join(name)).ok();
            let expected = self.there.get(&index).map(|object| &self.objects[*object].bytes);
            assert!(there.as_ref() == expected, "{name}");
        }
    }
}

fn pick(parts: &mut [Part], part: u8) -> Option<&mut Part> {
    let count = parts.len();
    (count > 0).then(|| &mut parts[usize::from(part) % count])
}

/// What the documentation of names says.
fn may_be_a_name(name: &str) -> bool {
    let is_component = |c: &str| {
        let is_part = c.starts_with('.') && c.contains(".wellspring-") && c.ends_with(".part");
        let is_ledger = c.eq_ignore_ascii_case(".wellspring-quotas");
        (1..=255).contains(&c.len()) && c != "." && c != ".." && !is_part && !is_ledger
    };
    let is_odd = |c: char| c == '\\' || c.is_control();
    let depth = name.split('/').count();
    name.len() <= 1_000
        && depth <= 32
        && !name.contains(is_odd)
        && name.split('/').all(is_component)
}

/// The input is the steps.
pub fn run(input: &[u8]) {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory } else { &std::env::temp_dir() };
    let folder = folder.join(format!("wellspring-fuzz-{}", std::process::id()));
    let thread = format!("{:?}", std::thread::current().id());
    let folder =
        folder.with_extension(thread.chars().filter(char::is_ascii_digit).collect::<String>());
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("directory");
    let mut model = Model::new(&folder);
    let mut input = Unstructured::new(input);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let Ok(step) = input.arbitrary::<Step<'_>>() else { break };
        model.step(&step);
        model.check();
    }
    drop(model);
    fs::remove_dir_all(&folder).expect("removed");
}
