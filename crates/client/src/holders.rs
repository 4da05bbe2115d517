//! The replicas of a fetch, asked for the manifest of the object.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::order::Order;
use super::pages::Question;
use super::resume::{Answered, Holders};
use super::{Update, Updates};
use crate::task::Boxed;

/// The replicas of a fetch.
pub(super) struct Replicas<'a> {
    pub(super) order: &'a Order,
    /// The address of each share's replica that has the object.
    pub(super) addresses: &'a BTreeMap<usize, SocketAddr>,
    pub(super) updates: &'a Updates,
}

impl Holders for Replicas<'_> {
    fn is_live(&self, share: usize) -> bool {
        self.addresses.contains_key(&share)
    }

    fn ask(&self, question: Question) -> Boxed<'static, Answered> {
        let Question { share, page, cookie } = question;
        let (order, address) = (self.order.clone(), self.addresses[&share]);
        Box::pin(async move { (page, order.page(address, page, &cookie).await) })
    }

    fn looked_at(&self, done: u64) {
        self.updates.tell(Update::Hashing { host: None, done, total: self.order.size });
    }
}
