//! Handshakes over a connection that keeps bytes in order: those of datagrams, for keys of another [`Medium`].

use std::net::IpAddr;
use std::sync::Arc;

use crate::channels::NoWay;
use crate::direction::Suite;
use crate::handshake::{Initiator, Medium, Pattern, Refusal, Responder, pattern_of};
use crate::key::PublicKey;
use crate::keyring::{Greeting, Identity, Keyring};
use crate::layout::{
    HELLO, HELLO_LEN, INITIATION, MAX_INITIATION_LEN, MESSAGE_AT, REFUSAL, RETRY, begin, id_of,
    refusal,
};
use crate::messages::{Opener, Sealer};

/// Longest part of a handshake \[bytes\].
pub const MAX_HANDSHAKE_LEN: usize = MAX_INITIATION_LEN;

/// Why a server's answer ends a handshake over a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamTrouble {
    /// It refuses.
    Refused(Refusal),
    /// Its key is not trusted (there).
    UnknownServer(PublicKey),
    /// It is no answer.
    Nonsense,
}

/// A client's side of a handshake over a stream.
pub struct StreamGreeting {
    keyring: Arc<Keyring>,
    server: IpAddr,
    id: u64,
    stage: Stage,
}

enum Stage {
    /// The server's key was asked for.
    Asking(Vec<u8>),
    Initiated(Box<Initiator>),
}

/// What follows a server's answer.
pub enum Greeted {
    /// More is to be sent.
    GoesOn(StreamGreeting),
    /// The server has the key that it was greeted with.
    Established(Sealer, Opener),
}

impl StreamGreeting {
    /// Greets the server at that address. `id` is any number.
    ///
    /// # Errors
    /// No key that is trusted here can be the server's.
    pub fn new(keyring: Arc<Keyring>, server: IpAddr, id: u64) -> Result<Self, NoWay> {
        let suite = Suite::of_this_machine();
        let initiator = match keyring.greeting(server).ok_or(NoWay::NoServerKey)? {
            Greeting::Ask => None,
            Greeting::Pinned(peer, _) => {
                let own = keyring.own().ok_or(NoWay::NoServerKey)?;
                let keys = (own, &peer.key);
                Some(Initiator::pinned_for(Medium::Stream, keys, suite, id, &[]))
            }
            Greeting::Cluster(key, _) => {
                Some(Initiator::cluster_for(Medium::Stream, key, suite, id, &[]))
            }
        };
        let stage = match initiator {
            None => {
                let mut hello = begin(HELLO, id).to_vec();
                hello.resize(HELLO_LEN, 0);
                Stage::Asking(hello)
            }
            Some(initiator) => Stage::Initiated(Box::new(initiator.ok_or(NoWay::TooLong)?)),
        };
        Ok(StreamGreeting { keyring, server, id, stage })
    }

    /// What is to be sent, and answered: at most [`MAX_HANDSHAKE_LEN`] bytes.
    pub fn message(&self) -> &[u8] {
        match &self.stage {
            Stage::Asking(hello) => hello,
            Stage::Initiated(initiator) => initiator.datagram(),
        }
    }

    /// Takes in the answer.
    ///
    /// # Errors
    /// [`StreamTrouble`].
    pub fn answered(self, answer: &[u8]) -> Result<Greeted, StreamTrouble> {
        if id_of(answer) != Some(self.id) {
            return Err(StreamTrouble::Nonsense);
        }
        if answer[0] == REFUSAL {
            let reason = Refusal::from_number(answer[1]);
            return Err(reason.map_or(StreamTrouble::Nonsense, StreamTrouble::Refused));
        }
        let StreamGreeting { keyring, server, id, stage } = self;
        match stage {
            Stage::Initiated(initiator) => {
                let (sealer, opener) =
                    initiator.finish_stream(answer).ok_or(StreamTrouble::Nonsense)?;
                Ok(Greeted::Established(sealer, opener))
            }
            Stage::Asking(_) => {
                let key = answer.get(MESSAGE_AT..).filter(|_| answer[0] == RETRY);
                let key = key.and_then(|rest| rest.first_chunk::<32>());
                let key = PublicKey(*key.ok_or(StreamTrouble::Nonsense)?);
                let peer = keyring.server_at(server, &key).map(|(peer, _)| peer);
                let peer = peer.ok_or(StreamTrouble::UnknownServer(key))?;
                let own = keyring.own().ok_or(StreamTrouble::Nonsense)?;
                let (keys, suite) = ((own, &peer.key), Suite::of_this_machine());
                let initiator = Initiator::pinned_for(Medium::Stream, keys, suite, id, &[]);
                let initiator = initiator.ok_or(StreamTrouble::Nonsense)?;
                let stage = Stage::Initiated(Box::new(initiator));
                Ok(Greeted::GoesOn(StreamGreeting { keyring, server, id, stage }))
            }
        }
    }
}

/// What a server does about a part of a handshake over a stream.
pub enum Answered {
    /// It sends this, and waits for more.
    GoesOn(Vec<u8>),
    /// It sends this, and knows the client once the first message opens: a handshake can be played again.
    Established(Vec<u8>, Sealer, Opener, Arc<Identity>),
    /// It sends this, and closes.
    Refused(Vec<u8>, Refusal),
}

/// Answers a part of a handshake over a stream; `None` if it is none. An initiation costs an exchange of keys, about
/// 0.2 ms.
pub fn answer_greeting(keyring: &Keyring, message: &[u8]) -> Option<Answered> {
    let id = id_of(message)?;
    match *message.first()? {
        HELLO if message.len() >= HELLO_LEN => {
            let mut answer = begin(RETRY, id).to_vec();
            // No cookie: whoever has a connection has shown its address.
            answer.resize(MESSAGE_AT, 0);
            answer.extend_from_slice(&keyring.own().map_or([0; 32], |own| own.public().0));
            Some(Answered::GoesOn(answer))
        }
        INITIATION => Some(match respond(keyring, message) {
            Ok((response, sealer, opener, identity)) => {
                Answered::Established(response, sealer, opener, identity)
            }
            Err(reason) => Answered::Refused(refusal(id, reason as u8).to_vec(), reason),
        }),
        _ => None,
    }
}

type Established = (Vec<u8>, Sealer, Opener, Arc<Identity>);

fn respond(keyring: &Keyring, message: &[u8]) -> Result<Established, Refusal> {
    let (responder, identity) = match pattern_of(message).ok_or(Refusal::WrongKey)? {
        Pattern::Cluster => {
            let mut keys = keyring.cluster_identities().iter();
            let found = keys.find_map(|(key, identity)| {
                Some((Responder::cluster_for(Medium::Stream, key, message)?, identity))
            });
            found.ok_or(Refusal::WrongKey)?
        }
        Pattern::Pinned => {
            let own = keyring.own().ok_or(Refusal::WrongKey)?;
            let responder = Responder::pinned_for(Medium::Stream, own, message);
            let responder = responder.ok_or(Refusal::WrongKey)?;
            let peer = responder.initiator.and_then(|key| keyring.peer(&key));
            (responder, peer.ok_or(Refusal::NotTrusted)?.1)
        }
    };
    let identity = Arc::clone(identity);
    let finished = responder.finish_stream(Suite::of_this_machine());
    let (response, sealer, opener) = finished.ok_or(Refusal::WrongKey)?;
    Ok((response, sealer, opener, identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{ClusterKey, PrivateKey};
    use crate::keyring::Peer;
    use crate::messages::{MAX_STREAM_MESSAGE_LEN, STREAM_OVERHEAD};
    use crate::rights::Rights;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn peer(name: &str, key: PublicKey) -> Peer {
        Peer { name: name.to_owned(), key, rights: Rights::all(), addresses: Vec::new() }
    }

    fn pinned(servers: usize) -> (Arc<Keyring>, Keyring) {
        let (client, server) = (PrivateKey::generate(), PrivateKey::generate());
        let at_server = Keyring::new().with_own(server).with_peer(peer("client", client.public()));
        let server_key = at_server.own().expect("a key").public();
        let mut at_client = Keyring::new().with_own(client).with_peer(peer("server", server_key));
        for _ in 1..servers {
            at_client = at_client.with_peer(peer("other", PrivateKey::generate().public()));
        }
        (Arc::new(at_client), at_server)
    }

    fn greet(client: &Arc<Keyring>) -> StreamGreeting {
        StreamGreeting::new(Arc::clone(client), HERE, 7).expect("a way")
    }

    /// Both ends, and who the server takes the client for.
    fn meet(
        client: &Arc<Keyring>,
        server: &Keyring,
    ) -> ((Sealer, Opener), (Sealer, Opener), String) {
        let mut greeting = greet(client);
        loop {
            let answered = answer_greeting(server, greeting.message()).expect("a handshake");
            match answered {
                Answered::GoesOn(answer) => match greeting.answered(&answer).expect("the server") {
                    Greeted::GoesOn(next) => greeting = next,
                    Greeted::Established(..) => panic!("nothing was agreed"),
                },
                Answered::Established(answer, sealer, opener, identity) => {
                    let Ok(Greeted::Established(ours, theirs)) = greeting.answered(&answer) else {
                        panic!("not established");
                    };
                    return ((ours, theirs), (sealer, opener), identity.name.clone());
                }
                Answered::Refused(_, reason) => panic!("{reason:?}"),
            }
        }
    }

    fn sealed(sealer: &mut Sealer, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        sealer.seal(message, &mut out).expect("short");
        out
    }

    #[test]
    fn messages_open_in_order_and_only_once_and_no_byte_can_be_changed() {
        let key = ClusterKey::generate();
        let cluster = || Keyring::new().with_cluster(key.clone(), Rights::all());
        for (client, server) in [pinned(1), pinned(3), (Arc::new(cluster()), cluster())] {
            let ((mut sealer, mut replies), (mut answers, mut opener), _) = meet(&client, &server);
            let (one, two) = (sealed(&mut sealer, b"one"), sealed(&mut sealer, b"two"));
            assert!(one.len() == 3 + STREAM_OVERHEAD && !one.windows(3).any(|w| w == b"one"));
            let mut plain = Vec::new();
            assert_eq!(opener.open(&two, &mut plain), None, "out of order");
            for at in 0..one.len() {
                let mut changed = one.clone();
                changed[at] ^= 1;
                assert_eq!(opener.open(&changed, &mut plain), None, "byte {at}");
                assert_eq!(opener.open(&one[..at], &mut plain), None, "cut at {at}");
            }
            assert_eq!(replies.open(&one, &mut plain), None, "its own, reflected");
            assert_eq!((opener.open(&one, &mut plain), &plain[..]), (Some(()), &b"one"[..]));
            assert_eq!(opener.open(&one, &mut plain), None, "again");
            assert_eq!((opener.open(&two, &mut plain), &plain[..]), (Some(()), &b"two"[..]));
            let answer = sealed(&mut answers, b"three");
            assert_eq!((replies.open(&answer, &mut plain), &plain[..]), (Some(()), &b"three"[..]));
            assert_eq!(sealer.seal(&[0; MAX_STREAM_MESSAGE_LEN + 1], &mut plain), None);
        }
    }

    #[test]
    fn a_server_knows_who_is_there_and_refuses_who_is_not_trusted() {
        let (client, server) = pinned(1);
        assert_eq!(meet(&client, &server).2, "client");
        let own = server.own().expect("a key").public();
        let stranger =
            Keyring::new().with_own(PrivateKey::generate()).with_peer(peer("server", own));
        let greeting = greet(&Arc::new(stranger));
        let Some(Answered::Refused(answer, Refusal::NotTrusted)) =
            answer_greeting(&server, greeting.message())
        else {
            panic!("a stranger is let in");
        };
        let refused = greeting.answered(&answer).err();
        assert_eq!(refused, Some(StreamTrouble::Refused(Refusal::NotTrusted)));
        // Another server at the address: the client takes no answer of it.
        let (_, other) = pinned(1);
        let greeting = greet(&client);
        let answered = answer_greeting(&other, greeting.message());
        assert!(matches!(answered, Some(Answered::Refused(_, Refusal::WrongKey))));
        let greeting = greet(&pinned(2).0);
        let Some(Answered::GoesOn(key)) = answer_greeting(&other, greeting.message()) else {
            panic!("not asked for its key");
        };
        let shown = other.own().expect("a key").public();
        assert_eq!(greeting.answered(&key).err(), Some(StreamTrouble::UnknownServer(shown)));
    }

    #[test]
    fn a_handshake_for_datagrams_is_none_for_a_stream_and_one_that_is_replayed_opens_nothing() {
        let (client, server) = pinned(1);
        let (own, key) = (client.own().expect("a key"), server.own().expect("a key"));
        let datagram =
            Initiator::pinned(own, &key.public(), Suite::Aes128Gcm, 7, &[]).expect("short");
        let answered = answer_greeting(&server, datagram.datagram());
        assert!(matches!(answered, Some(Answered::Refused(_, Refusal::WrongKey))));
        let greeting = greet(&client);
        assert!(Responder::pinned(key, greeting.message()).is_none(), "a stream's");
        let mut moved = greeting.message().to_vec();
        moved[crate::layout::MEDIUM_AT] = Medium::Datagrams as u8;
        assert!(Responder::pinned(key, &moved).is_none(), "relabelled");
        let recorded = greeting.message().to_vec();
        let Some(Answered::Established(answer, ..)) = answer_greeting(&server, &recorded) else {
            panic!("not answered");
        };
        let Ok(Greeted::Established(mut sealer, _)) = greeting.answered(&answer) else {
            panic!("not established");
        };
        let message = sealed(&mut sealer, b"one");
        let Some(Answered::Established(_, _, mut opener, _)) = answer_greeting(&server, &recorded)
        else {
            panic!("the replay is answered, too");
        };
        assert_eq!(opener.open(&message, &mut Vec::new()), None, "with keys of its own");
    }

    #[test]
    fn noise_is_answered_by_nothing() {
        let (client, server) = pinned(1);
        let message = greet(&client).message().to_vec();
        for cut in 0..message.len() {
            let answered = answer_greeting(&server, &message[..cut]);
            assert!(matches!(answered, None | Some(Answered::Refused(..))), "{cut}");
        }
        for first in 0..=255 {
            let mut noise = message.clone();
            noise[0] = first;
            let answered = answer_greeting(&server, &noise);
            assert_eq!(answered.is_some(), first == HELLO || first == INITIATION, "{first}");
        }
        assert!(greet(&client).answered(&[]).is_err());
        assert!(greet(&client).answered(&begin(crate::layout::RESPONSE, 7)).is_err());
    }
}
