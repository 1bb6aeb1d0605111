//! The names of the keys. The part in braces decides the cluster's hash slot.

use super::super::Topic;

/// The keys of one namespace.
pub(super) struct RedisKeys {
    /// `<namespace>:lock:`.
    lock_prefix: String,
    /// `{<namespace>:notes}:`.
    notes_prefix: String,
}

impl RedisKeys {
    pub(super) fn new(namespace: Option<&str>) -> Self {
        let prefix = namespace.map(|name| format!("{name}:")).unwrap_or_default();
        Self { lock_prefix: format!("{prefix}lock:"), notes_prefix: format!("{{{prefix}notes}}:") }
    }

    /// The string that other programs share: `lock:<key>`.
    pub(super) fn lock(&self, key: &str) -> String {
        [&self.lock_prefix, key].concat()
    }

    /// The string of the key's record.
    pub(super) fn record(&self, key: &str) -> String {
        self.beside_lock(key, "state")
    }

    /// The keys of swap.lua: the lock, the record, a key that exists while there are subscribers, the runs and the skips.
    pub(super) fn of_job(&self, key: &str) -> [String; 5] {
        let beside_lock = |part| self.beside_lock(key, part);
        [self.lock(key), self.record(key), beside_lock("awaited"), beside_lock("runs"), beside_lock("skips")]
    }

    /// The channel on which swap.lua publishes that the key may have become free.
    pub(super) fn channel(&self, key: &str) -> String {
        [&self.lock_prefix, key, ":freed"].concat()
    }

    /// A pattern that matches all locks and records, and some other keys.
    pub(super) fn pattern(&self) -> String {
        format!("*{}*", self.lock_prefix)
    }

    /// Returns the key to which a lock or a record belongs.
    pub(super) fn key_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let record = name.strip_prefix('{').and_then(|name| name.strip_suffix("}:state"));
        record.unwrap_or(name).strip_prefix(&self.lock_prefix)
    }

    /// The keys of `put_note.lua`: the expiries of a topic's notes, and their texts.
    pub(super) fn of_notes(&self, topic: Topic) -> [String; 2] {
        ["expiries", "texts"].map(|part| [&self.notes_prefix, topic.as_str(), ":", part].concat())
    }

    fn beside_lock(&self, key: &str, part: &str) -> String {
        ["{", &self.lock_prefix, key, "}:", part].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_and_records_lead_to_their_key_and_nothing_else_does() {
        let keys = RedisKeys::new(Some("shop"));
        for name in [keys.lock("import#slots"), keys.record("import#slots")] {
            assert_eq!(keys.key_of(&name), Some("import#slots"), "{name}");
        }
        for name in
            ["{shop:lock:import}:runs", "eshop:lock:import", "{eshop:lock:import}:state", "lock:import"]
        {
            assert_eq!(keys.key_of(name), None, "{name}");
        }
        assert_eq!(RedisKeys::new(None).record("import"), "{lock:import}:state");
        assert_eq!(RedisKeys::new(None).channel("import"), "lock:import:freed");
        assert_eq!(keys.of_notes(Topic::Servers)[1], "{shop:notes}:servers:texts");
    }
}
