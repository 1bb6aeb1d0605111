//! The nodes of a cluster, and their hash slots.

use std::collections::BTreeSet;

use redis::{Value, from_redis_value_ref};

const SLOTS: u16 = 16384;

/// A node's host and port.
pub(crate) type Node = (String, u16);

/// The hash slots as one node knows them: first, last, and the node that has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotMap(Vec<(u16, u16, Node)>);

impl SlotMap {
    /// Reads the answer to `CLUSTER SLOTS` of a node that was reached at `asked`.
    pub(crate) fn read(answer: &Value, asked: &str) -> Option<Self> {
        let Value::Array(ranges) = answer else { return None };
        let number = |value: &Value| u16::try_from(from_redis_value_ref::<i64>(value).ok()?).ok();
        let read = |range: &Value| {
            let [first, last, Value::Array(master), ..] = range.as_sequence()? else { return None };
            let [host, port, ..] = master.as_slice() else { return None };
            // A node that does not know its own name uses the one by which it was asked.
            let host = from_redis_value_ref::<Option<String>>(host).ok()?;
            let host = host.filter(|host| !["", "?"].contains(&host.as_str()));
            let node = (host.unwrap_or_else(|| asked.to_owned()), number(port)?);
            Some((number(first)?, number(last)?, node))
        };
        let mut ranges = ranges.iter().map(read).collect::<Option<Vec<_>>>()?;
        ranges.sort();
        Some(Self(ranges))
    }

    pub(crate) fn node_of(&self, slot: u16) -> Option<&Node> {
        let range = self.0.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        range.map(|(_, _, node)| node)
    }

    pub(crate) fn nodes(&self) -> BTreeSet<&Node> {
        self.0.iter().map(|(_, _, node)| node).collect()
    }
}

/// Reads the target of a redirection. A node that does not know its name uses the one by which it was asked.
pub(crate) fn redirected(to: &str, asked: &Node) -> Option<Node> {
    let (host, port) = to.rsplit_once(':')?;
    let host = if host.is_empty() { &asked.0 } else { host };
    Some((host.to_owned(), port.parse().ok()?))
}

/// Returns the hash slot of a key: of the part in its first braces, if that is not empty.
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

/// The checksum that Redis Cluster is specified with: XMODEM.
fn crc16(text: &str) -> u16 {
    text.bytes().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests;
