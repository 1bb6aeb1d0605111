//! The names of the keys. Those in braces are in the cluster slot of what the braces enclose.

/// The keys of one namespace.
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(namespace: Option<&str>) -> Self {
        Self { prefix: namespace.map(|name| format!("{name}:")).unwrap_or_default() }
    }

    /// What the scripts of a job touch: see state.lua.
    pub(super) fn of_job(&self, key: &str) -> [String; 6] {
        let lock = format!("{}lock:{key}", self.prefix);
        let [state, runs, skips, slots, awaited] =
            ["state", "runs", "skips", "slots", "awaited"].map(|part| format!("{{{lock}}}:{part}"));
        [lock, state, runs, skips, slots, awaited]
    }

    /// Where it is told that a key was freed.
    pub(super) fn channel(&self, key: &str) -> String {
        format!("{}lock:{key}:freed", self.prefix)
    }

    /// The patterns of what is held: locks, and slots.
    pub(super) fn patterns(&self) -> [String; 2] {
        [format!("{}lock:*", self.prefix), format!("{{{}lock:*}}:slots", self.prefix)]
    }

    /// The job's key, of a lock's or its slots' name.
    pub(super) fn key_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let slots = name.strip_prefix('{').and_then(|name| name.strip_suffix("}:slots"));
        slots.unwrap_or(name).strip_prefix(&self.prefix)?.strip_prefix("lock:")
    }

    /// What the scripts of the fleet touch: see fleet.lua.
    pub(super) fn of_fleet(&self) -> [String; 4] {
        ["alive", "about", "requested", "requests"].map(|part| format!("{{{}servers}}:{part}", self.prefix))
    }
}
