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
    pub(super) fn of_job(&self, key: &str) -> [String; 4] {
        let lock = format!("{}lock:{key}", self.prefix);
        let [state, runs, skips] = ["state", "runs", "skips"].map(|part| format!("{{{lock}}}:{part}"));
        [lock, state, runs, skips]
    }

    /// What the scripts of the fleet touch: see fleet.lua.
    pub(super) fn of_fleet(&self) -> [String; 4] {
        ["alive", "about", "requested", "requests"].map(|part| format!("{{{}servers}}:{part}", self.prefix))
    }
}
