//! System calls that the standard library and `socket2` do not offer: the crate's only `unsafe`.
//!
//! Everything here is about one thing: filling C structures with pointers into memory that
//! outlives the call. Nothing else of the crate sees a pointer.
#![allow(
    unsafe_code,
    reason = "sendmmsg, recvmmsg, control messages and interface lists have no safe wrapper"
)]

mod addresses;
mod batches;
mod control;
mod interfaces;
mod options;
mod timer;

pub(super) use batches::{
    RECEIVE_BATCH, ReceiveMeta, SEND_BATCH, SendMeta, receive_many, send_many, take_report,
};
pub(super) use interfaces::interfaces;
pub(super) use options::{dropped, option, set_multicast_interface_v4, set_option};
pub(super) use timer::{timer_create, timer_set};
