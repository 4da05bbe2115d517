//! Names and failures of the object store as control messages carry them.

use wellspring_wire::control::{self, Name, RefusalCode};

use crate::store::{MAX_NAME_LEN, ObjectName, StoreError};

const _: () = assert!(MAX_NAME_LEN <= control::MAX_NAME_LEN);

/// The name of an object as messages carry it.
pub fn name(name: &ObjectName) -> Name<'_> {
    Name::new(name.as_str()).expect("the rules for objects include those for messages")
}

/// The name of an object, or of a part of a tree, as messages carry it.
pub fn asked(name: &str) -> Name<'_> {
    Name::new(name).expect("names of parts of trees are kept within the limit by who makes them")
}

/// The code by which a server refuses.
pub fn refusal_code(error: &StoreError) -> RefusalCode {
    match error {
        StoreError::Name(_) => RefusalCode::BadName,
        StoreError::NotFound(_)
        | StoreError::NotRegular(_)
        | StoreError::NoDirectory(_)
        | StoreError::NoParent(_) => RefusalCode::NotFound,
        StoreError::Exists(_) => RefusalCode::Exists,
        StoreError::TooLarge { .. } => RefusalCode::TooLarge,
        StoreError::Busy { .. } | StoreError::NoMemory => RefusalCode::Busy,
        StoreError::NoSpace { .. }
        | StoreError::NotReserved { .. }
        | StoreError::NoFiles { .. } => RefusalCode::NoSpace,
        StoreError::Changed(_) | StoreError::Replaced(_) => RefusalCode::Changed,
        StoreError::BadDigest { .. } => RefusalCode::BadDigest,
        // What is added later has no code of its own yet.
        _ => RefusalCode::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_an_object_fits_into_a_message() {
        let deep = vec!["a".repeat(30); 32].join("/");
        for text in ["a", "..a", "日本語", "a b", deep.as_str()] {
            let object = ObjectName::new(text).expect(text);
            assert_eq!(name(&object).as_str(), text);
        }
    }
}
