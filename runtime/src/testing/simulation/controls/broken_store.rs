//! A store with counted versions or fences.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::Control;
use crate::Timestamp;
use crate::store::{FenceChange, Look, Swap, SwapReply, Swapped, Version};
use crate::util::lock;

/// Translates between the versions of the store and counted ones, or counts fences. All servers share one.
#[derive(Clone, Default)]
pub(in crate::testing::simulation) struct BrokenStore {
    counts_fences: bool,
    counts_versions: bool,
    /// The number of each version that was ever written.
    numbers: Arc<Mutex<BTreeMap<Version, u64>>>,
}

impl BrokenStore {
    pub(in crate::testing::simulation) fn of(control: Option<Control>) -> Self {
        Self {
            counts_fences: control == Some(Control::CountedFences),
            counts_versions: control == Some(Control::CountedVersions),
            numbers: Arc::default(),
        }
    }

    fn number(&self, version: Option<Version>) -> u64 {
        version.and_then(|version| lock(&self.numbers).get(&version).copied()).unwrap_or_default()
    }

    /// The look as the servers see it.
    pub(in crate::testing::simulation) fn shown(&self, look: Look) -> Look {
        match look.version {
            Some(version) if self.counts_versions => {
                Look { version: Some(counted(self.number(Some(version)))), ..look }
            }
            _ => look,
        }
    }

    /// The swap as the store understands it.
    pub(in crate::testing::simulation) fn understood<'a>(
        &self,
        key: &str,
        before: &Look,
        swap: &'a Swap,
    ) -> Cow<'a, Swap> {
        let mut swap = Cow::Borrowed(swap);
        if self.counts_versions
            && before.version.is_some()
            && swap.expected == before.version.map(|version| counted(self.number(Some(version))))
        {
            swap.to_mut().expected = before.version;
        }
        // Records of manual locks are deleted: without a clock their fences would come back at once.
        if self.counts_fences && key.starts_with("job") && swap.change.fence == FenceChange::Next {
            swap.to_mut().change.fence = FenceChange::AtLeast(before.fence + 1);
        }
        swap
    }

    /// The reply as the servers see it.
    pub(in crate::testing::simulation) fn answered(&self, before: &Look, reply: SwapReply) -> SwapReply {
        match reply {
            SwapReply::Swapped(swapped) if self.counts_versions => {
                let number = self.number(before.version) + 1;
                lock(&self.numbers).insert(swapped.version, number);
                SwapReply::Swapped(Swapped { version: counted(number), ..swapped })
            }
            SwapReply::Changed(look) => SwapReply::Changed(self.shown(look)),
            swapped @ SwapReply::Swapped(_) => swapped,
        }
    }
}

fn counted(number: u64) -> Version {
    Version { at: Timestamp::from_micros(0), nonce: number }
}
