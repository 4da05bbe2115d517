//! Admission of sessions: those that the application asks for, and those that symbols announce.

use alloc::boxed::Box;
use core::ops::Range;
use wellspring_core::{DropReason, Frame, SessionId, Time};
use wellspring_wire::scdp::{CloseReason, Mode, ScdpHeader, Symbol};

use super::{Endpoint, Session, push_close};
use crate::scdp::receiver::Receiver;
use crate::scdp::sender::Sender;
use crate::scdp::{CommandError, Event, ObjectInfo, ReceiveSession, Role, SendSession};

impl Endpoint {
    pub(super) fn open_send(
        &mut self,
        now: Time,
        command: &SendSession,
    ) -> Result<(), CommandError> {
        self.check_new(command.session, &command.object)?;
        match &command.role {
            Role::Unicast { share, .. } if share.index >= share.count => {
                return Err(CommandError::Invalid("a share's index lies below its count"));
            }
            Role::OneToMany { members, .. } if members.is_empty() || members.len() > 255 => {
                return Err(CommandError::OverLimit {
                    what: "members of a group",
                    got: members.len() as u64,
                    limit: 255,
                });
            }
            Role::OneToMany { held, .. } => check_ranges(held, &command.object)?,
            Role::Unicast { .. } => {}
        }
        if command.resume.is_some_and(|r| r.epoch == 0 || r.floor >= command.object.source_blocks) {
            return Err(CommandError::Invalid("a resumed session has an epoch and blocks to send"));
        }
        let sender = Sender::new(now, command, &self.config);
        let place = self.insert(command.session, Session::Sending(Box::new(sender)));
        self.refresh(now, place);
        Ok(())
    }

    pub(super) fn open_receive(
        &mut self,
        now: Time,
        command: &ReceiveSession,
    ) -> Result<(), CommandError> {
        self.check_new(command.session, &command.object)?;
        if command.senders.is_empty() || command.senders.len() > 255 {
            return Err(CommandError::OverLimit {
                what: "senders of a session",
                got: command.senders.len() as u64,
                limit: 255,
            });
        }
        if command.mode == Mode::OneToMany && command.senders.len() > 1 {
            return Err(CommandError::Invalid("a group has one sender"));
        }
        check_ranges(&command.complete, &command.object)?;
        let receiver = Receiver::announced(now, command, &self.config);
        self.received.retain(|&id| id != command.session);
        let place = self.insert(command.session, Session::Receiving(Box::new(receiver)));
        self.refresh(now, place);
        Ok(())
    }

    fn check_new(&self, session: SessionId, object: &ObjectInfo) -> Result<(), CommandError> {
        if self.places.contains_key(&session) {
            return Err(CommandError::SessionInUse(session));
        }
        self.check_room(object)
    }

    /// Whether a session for this object fits the limits.
    fn check_room(&self, object: &ObjectInfo) -> Result<(), CommandError> {
        let limits = &self.config.limits;
        let over = |what, got, limit| Err(CommandError::OverLimit { what, got, limit });
        if self.places.len() as u64 >= u64::from(limits.sessions) {
            return over("open sessions", self.places.len() as u64, limits.sessions.into());
        }
        if object.transfer_len > limits.transfer_len {
            return over("object length", object.transfer_len, limits.transfer_len);
        }
        if object.transfer_len == 0 || object.symbol_size == 0 || object.source_blocks == 0 {
            return Err(CommandError::Invalid("an object has bytes, symbols and blocks"));
        }
        if u64::from(object.source_blocks) > object.total_symbols() {
            return Err(CommandError::Invalid("more blocks than symbols"));
        }
        // Packet numbers are 32 bits; half of them are left for repair.
        if object.total_symbols() > 1 << 31 {
            return over("symbols of an object", object.total_symbols(), 1 << 31);
        }
        let symbols = u64::from(object.symbols_in_block(0));
        if symbols > u64::from(limits.symbols_per_block) {
            return over("symbols of a block", symbols, limits.symbols_per_block.into());
        }
        Ok(())
    }

    /// Opens a session for an unannounced `syn` symbol (SCDP §IV-C).
    pub(super) fn accept(
        &mut self,
        frame: &Frame<ScdpHeader>,
        symbol: &Symbol,
    ) -> Result<u32, DropReason> {
        let session = frame.session;
        if self.received.contains(&session) {
            push_close(&mut self.closes, (frame.source, 0), session, CloseReason::Complete, true);
            return Err(DropReason::Stale);
        }
        let Some(options) = symbol.options.filter(|_| self.config.accept_unannounced) else {
            return Err(DropReason::UnknownSession);
        };
        let object = ObjectInfo::from_options(&options);
        if symbol.sbn >= object.source_blocks {
            return Err(DropReason::Malformed);
        }
        if self.check_room(&object).is_err() {
            push_close(&mut self.closes, (frame.source, 0), session, CloseReason::Refused, true);
            return Err(DropReason::OverLimit);
        }
        let receiver = Receiver::unannounced(session, object, &self.config);
        let place = self.insert(session, Session::Receiving(Box::new(receiver)));
        self.events.push_back(Event::Accepted { session, sender: frame.source, object });
        Ok(place)
    }
}

/// Checks ranges of blocks that are there from the beginning.
fn check_ranges(ranges: &[Range<u32>], object: &ObjectInfo) -> Result<(), CommandError> {
    let mut blocks = 0..object.source_blocks;
    for range in ranges {
        if range.start < blocks.start || range.is_empty() || range.end > blocks.end {
            return Err(CommandError::Invalid("complete blocks ascend and are the object's"));
        }
        blocks.start = range.end;
    }
    if ranges.first().is_some_and(|range| range.len() == blocks.end as usize) {
        return Err(CommandError::Invalid("all blocks are complete"));
    }
    Ok(())
}
