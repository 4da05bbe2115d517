//! SCDP: receiver-driven transport of RaptorQ symbols (SCDP §III-IV, Algorithms 1 and 2).
//!
//! # How it works
//! A sender pushes an *initial window* of symbols. From then on the receiver is in charge: it
//! *grants credits*, and a sender answers each credit with exactly one symbol. Credits are
//! numbered per sender; the initial window is credits 1 to w, a pull carries the cumulative count
//! beyond, and every symbol carries the number of the credit it answers. So a symbol that
//! arrives, a trimmed header, and a gap in the numbers all say the same kind of thing: that
//! credit is spent; was it worth a symbol or not? The receiver keeps as many credits in flight
//! as its window allows, and aims them at the lowest block that still wants symbols.
//!
//! No symbol is ever repeated: a loss is made good by any new symbol.

mod command;
mod config;
mod context;
mod endpoint;
mod event;
mod receiver;
mod sender;

pub use command::{
    Command, CommandError, ObjectInfo, ReceiveSession, Resume, Role, SendSession, Share,
};
pub use config::{Config, Fabric, Limits, StragglerPolicy};
pub use endpoint::Endpoint;
pub use event::{
    Event, FailReason, ReceiveStats, SendStats, SenderStats, StragglerAction, StragglerCause,
};
