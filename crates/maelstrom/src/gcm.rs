//! AES-128-GCM by aws-lc; in Rust where no C is compiled, which is WebAssembly, for simulations in a browser.

#[cfg(not(target_family = "wasm"))]
pub(crate) use native::Gcm;
#[cfg(target_family = "wasm")]
pub(crate) use portable::Gcm;

/// Length of a key, of a nonce, of a tag \[bytes\].
const KEY_LEN: usize = 16;
const NONCE_LEN: usize = 12;
pub(crate) const TAG_LEN: usize = 16;

#[cfg(not(target_family = "wasm"))]
mod native {
    use crate::gcm::{KEY_LEN, NONCE_LEN, TAG_LEN};
    use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

    /// A key.
    pub(crate) struct Gcm(LessSafeKey);

    impl Gcm {
        pub fn new(key: &[u8; KEY_LEN]) -> Self {
            let unbound = UnboundKey::new(&AES_128_GCM, key).expect("AES-128 keys have 16 bytes");
            Gcm(LessSafeKey::new(unbound))
        }

        /// Encrypts the body; the tag is over both. A nonce is used once.
        pub fn seal(&self, nonce: [u8; NONCE_LEN], head: &[u8], body: &mut [u8]) -> [u8; TAG_LEN] {
            let nonce = Nonce::assume_unique_for_key(nonce);
            let tag = self
                .0
                .seal_in_place_separate_tag(nonce, Aad::from(head), body)
                .expect("datagrams are shorter than what GCM takes");
            tag.as_ref().try_into().expect("GCM's tags have 16 bytes")
        }

        /// Decrypts a body that ends with its tag; false if that is another.
        pub fn open(&self, nonce: [u8; NONCE_LEN], head: &[u8], body: &mut [u8]) -> bool {
            let nonce = Nonce::assume_unique_for_key(nonce);
            self.0.open_in_place(nonce, Aad::from(head), body).is_ok()
        }
    }
}

#[cfg(any(target_family = "wasm", test))]
mod portable {
    use crate::gcm::{KEY_LEN, NONCE_LEN, TAG_LEN};
    use aes_gcm::{AeadInPlace, Aes128Gcm, KeyInit};

    /// A key.
    pub(crate) struct Gcm(Aes128Gcm);

    impl Gcm {
        pub fn new(key: &[u8; KEY_LEN]) -> Self {
            Gcm(Aes128Gcm::new(key.into()))
        }

        /// Encrypts the body; the tag is over both. A nonce is used once.
        pub fn seal(&self, nonce: [u8; NONCE_LEN], head: &[u8], body: &mut [u8]) -> [u8; TAG_LEN] {
            self.0
                .encrypt_in_place_detached((&nonce).into(), head, body)
                .expect("datagrams are shorter than what GCM takes")
                .into()
        }

        /// Decrypts a body that ends with its tag; false if that is another.
        pub fn open(&self, nonce: [u8; NONCE_LEN], head: &[u8], body: &mut [u8]) -> bool {
            let Some((body, tag)) = body.split_last_chunk_mut::<TAG_LEN>() else { return false };
            let tag = &*tag;
            self.0.decrypt_in_place_detached((&nonce).into(), head, body, tag.into()).is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{native, portable};

    #[test]
    fn both_make_and_take_the_same() {
        let key = [7; 16];
        let (native, portable) = (native::Gcm::new(&key), portable::Gcm::new(&key));
        for (number, (head, body)) in
            [(&b""[..], &b""[..]), (b"head", b""), (b"", b"body"), (b"head", &[9; 1_500])]
                .into_iter()
                .enumerate()
        {
            let nonce = [number as u8; 12];
            let mut sealed = [body.to_vec(), body.to_vec()];
            let tags = [
                native.seal(nonce, head, &mut sealed[0]),
                portable.seal(nonce, head, &mut sealed[1]),
            ];
            assert!(tags[0] == tags[1] && sealed[0] == sealed[1], "{number}");
            let whole = [&sealed[0][..], &tags[0]].concat();
            for at in 0..whole.len() {
                let mut forged = [whole.clone(), whole.clone()];
                forged.iter_mut().for_each(|whole| whole[at] ^= 1);
                assert!(!native.open(nonce, head, &mut forged[0]), "{number}, {at}");
                assert!(!portable.open(nonce, head, &mut forged[1]), "{number}, {at}");
            }
            let mut opened = [whole.clone(), whole];
            assert!(native.open(nonce, head, &mut opened[0]), "{number}");
            assert!(portable.open(nonce, head, &mut opened[1]), "{number}");
            opened.iter().for_each(|whole| assert_eq!(&whole[..body.len()], body, "{number}"));
        }
        assert!(!portable.open([0; 12], b"", &mut [0; 15]));
    }
}
