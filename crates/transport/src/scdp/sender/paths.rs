//! Further paths to the receiver of a session: each a stream with numbers of its own, which answers the pulls that
//! come by it.

use alloc::vec::Vec;
use wellspring_core::{Destination, HostId, Time};
use wellspring_wire::scdp::Mode;

use super::member::Standing;
use super::stream::{Stream, StreamPlan};
use super::symbols::SymbolStream;
use super::{Sender, Share};
use crate::scdp::{CommandError, Config, Resume};

impl Sender {
    /// Answers pulls of a receiver by another path.
    pub(in crate::scdp) fn add_path(
        &mut self,
        now: Time,
        (receiver, path): (HostId, u16),
        config: &Config,
    ) -> Result<(), CommandError> {
        let first = &self.streams[0];
        if first.mode == Mode::OneToMany {
            return Err(CommandError::Invalid("a group has one path"));
        }
        if !first.members.iter().any(|member| member.host == receiver) {
            return Err(CommandError::NoSuchReceiver(receiver));
        }
        if self.streams.iter().any(|stream| stream.path == path) {
            return Ok(());
        }
        let epoch = first.epoch;
        let (floor, horizon) = (first.symbols.floor(), first.symbols.horizon());
        // Pulls by several paths name the symbols; who asks for any gets repair symbols that no other path sends.
        let resume = Resume { epoch: epoch.saturating_add(path as u8).max(1), floor, horizon };
        let plan = StreamPlan {
            destination: Destination::Host(receiver),
            path,
            mode: first.mode,
            epoch,
            symbols: SymbolStream::new(Share::WHOLE, Some(resume)),
            initial_window: 0,
            window: super::window(&self.object, config),
            object: self.object,
            held: Vec::new(),
        };
        let mut stream = Stream::new(now, plan, &[receiver]);
        stream.members[0].heard = true;
        self.streams.push(stream);
        self.turn.paths = true;
        Ok(())
    }

    /// Every path to a receiver that is still served.
    pub(in crate::scdp) fn paths(&self) -> impl Iterator<Item = (HostId, u16)> + '_ {
        let served = |host: HostId| {
            let is_it = move |standing| matches!(standing, Standing::Live | Standing::Finished);
            self.members().any(|m| m.host == host && is_it(m.standing) && !m.closed)
        };
        let all = self.streams.iter().flat_map(|s| s.members.iter().map(|m| (m.host, s.path)));
        all.filter(move |(host, _)| served(*host))
    }
}
