//! Which node of a cluster has which keys.

use redis::Value;

const SLOTS: u16 = 16384;

/// A node's host and port.
pub(super) type Node = (String, u16);

/// The slots as some node of the cluster knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slots(Vec<(u16, u16, Node)>);

impl Slots {
    /// Reads the answer to `CLUSTER SLOTS` of a node that was reached at `asked`.
    pub(super) fn read(answer: &Value, asked: &str) -> Option<Self> {
        let Value::Array(ranges) = answer else { return None };
        let read = |range: &Value| {
            let Value::Array(parts) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else {
                return None;
            };
            let [host, Value::Int(port), ..] = master.as_slice() else { return None };
            let host = match host {
                Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
                _ => String::new(),
            };
            // A node that does not know its own name means the one by which it was asked.
            let host = if host.is_empty() || host == "?" { asked.to_owned() } else { host };
            Some(((*first).try_into().ok()?, (*last).try_into().ok()?, (host, (*port).try_into().ok()?)))
        };
        let mut ranges = ranges.iter().map(read).collect::<Option<Vec<_>>>()?;
        ranges.sort();
        Some(Self(ranges))
    }

    pub(super) fn node_of(&self, slot: u16) -> Option<&Node> {
        let range = self.0.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        range.map(|(_, _, node)| node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.iter().map(|(_, _, node)| node)
    }
}

/// Reads where a redirection leads; a node that does not know its name means the one that was asked.
pub(super) fn redirected(to: &str, asked: &Node) -> Option<Node> {
    let (host, port) = to.rsplit_once(':')?;
    let host = if host.is_empty() { &asked.0 } else { host };
    Some((host.to_owned(), port.parse().ok()?))
}

/// The slot of a key: of what its first braces enclose, if they enclose anything.
pub(super) fn slot_of(key: &str) -> u16 {
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
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16("123456789"), 0x31c3);
        assert_eq!([slot_of("foo"), slot_of("somekey"), slot_of("")], [12182, 11058, 0]);
    }

    #[test]
    fn the_keys_of_a_job_are_in_one_slot() {
        let slot = slot_of("shop:lock:import");
        for key in ["{shop:lock:import}:state", "{shop:lock:import}:runs"] {
            assert_eq!(slot_of(key), slot);
        }
        assert_eq!(slot_of("{}:a"), crc16("{}:a") % SLOTS);
    }

    #[test]
    fn a_node_without_a_name_is_the_one_that_was_asked() {
        let node = |host, port| Value::Array(vec![host, Value::Int(port), Value::Int(0)]);
        let range = |first, last, node| Value::Array(vec![Value::Int(first), Value::Int(last), node]);
        let named = node(Value::BulkString(b"b".to_vec()), 2);
        let answer = Value::Array(vec![range(10, 20, named), range(0, 9, node(Value::Nil, 1))]);
        let slots = Slots::read(&answer, "a").unwrap();
        assert_eq!(slots.node_of(9), Some(&("a".to_owned(), 1)));
        assert_eq!(slots.node_of(10), Some(&("b".to_owned(), 2)));
        assert_eq!(slots.node_of(21), None);
        assert_eq!(redirected(":7", &("a".to_owned(), 1)), Some(("a".to_owned(), 7)));
        assert_eq!(redirected("::1:7", &("a".to_owned(), 1)), Some(("::1".to_owned(), 7)));
    }
}
