//! What an overview leaves for the next one: records of jobs that have not changed, parsed manifests and schedules.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use singleton_jobs_policy::Schedule;

use crate::Timestamp;
use crate::fleet::Manifest;
use crate::store::{JobRecords, Look, Note, Version};

/// Makes an overview cheaper that follows another one. Empty, it changes nothing.
#[derive(Default)]
pub(crate) struct OverviewMemory {
    pub(crate) reads: KnownReads,
    pub(super) schedules: KnownSchedules,
}

/// What was read from the store, and need not be read or parsed again.
#[derive(Default)]
pub(crate) struct KnownReads {
    records: HashMap<String, KnownRecords>,
    manifests: HashMap<String, Option<Arc<Manifest>>>,
}

struct KnownRecords {
    /// That of the look before the records were read. Records are appended by swaps only, and each makes a new version.
    version: Version,
    /// How many of each kind were asked for.
    newest: usize,
    records: Arc<JobRecords>,
}

impl KnownReads {
    /// The records of a key that are still those of the store.
    pub(crate) fn records(&self, key: &str, look: &Look, newest: usize) -> Option<Arc<JobRecords>> {
        let known = self.records.get(key)?;
        let is_current = Some(known.version) == look.version && known.newest >= newest;
        is_current.then(|| known.records.clone())
    }

    /// Keeps the records that were read after the look.
    pub(crate) fn keep(&mut self, key: &str, look: &Look, newest: usize, records: &Arc<JobRecords>) {
        let Some(version) = look.version else { return };
        self.records.insert(key.to_owned(), KnownRecords { version, newest, records: records.clone() });
    }

    /// Forgets the keys that the store no longer has.
    pub(crate) fn retain(&mut self, keys: &BTreeMap<String, Look>) {
        self.records.retain(|key, _| keys.contains_key(key));
    }

    /// The manifests in these notes, by name. Leaves out those that this version cannot read. The name stands for the content.
    pub(crate) fn manifests(&mut self, notes: Vec<Note>) -> BTreeMap<String, Arc<Manifest>> {
        let mut known = std::mem::take(&mut self.manifests);
        for Note { name, text } in notes {
            let manifest = known.remove(&name);
            let manifest = manifest.unwrap_or_else(|| Manifest::from_json(&text).ok().map(Arc::new));
            self.manifests.insert(name, manifest);
        }
        let readable = self.manifests.iter().filter_map(|(name, manifest)| Some((name, manifest.as_ref()?)));
        readable.map(|(name, manifest)| (name.clone(), manifest.clone())).collect()
    }
}

/// Schedules by their texts.
#[derive(Default)]
pub(super) struct KnownSchedules(HashMap<String, Option<KnownSchedule>>);

/// A parsed schedule, and its newest answer.
pub(super) struct KnownSchedule {
    pub(super) schedule: Schedule,
    pub(super) in_words: String,
    /// A tick, and an instant from which on it is the next one.
    next: Option<(Timestamp, Timestamp)>,
}

impl KnownSchedules {
    pub(super) fn get(&mut self, text: &str) -> Option<&mut KnownSchedule> {
        if !self.0.contains_key(text) {
            let parsed = Schedule::from_text(text).map(|schedule| KnownSchedule {
                in_words: schedule.in_words(),
                schedule,
                next: None,
            });
            self.0.insert(text.to_owned(), parsed);
        }
        self.0.get_mut(text)?.as_mut()
    }

    /// Forgets the schedules that no job has.
    pub(super) fn retain<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        let used: std::collections::HashSet<_> = texts.collect();
        self.0.retain(|text, _| used.contains(text.as_str()));
    }
}

impl KnownSchedule {
    /// As [`Schedule::next_after`]. Polls, and jobs with the same schedule, mostly ask for the same tick.
    pub(super) fn next_after(&mut self, instant: Timestamp) -> Option<Timestamp> {
        if let Some((from, tick)) = self.next
            && (from..tick).contains(&instant)
        {
            return Some(tick);
        }
        let tick = self.schedule.next_after(instant)?;
        let from = match self.next {
            Some((from, known)) if known == tick => from.min(instant),
            _ => instant,
        };
        self.next = Some((from, tick));
        Some(tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn known_schedule_answers_as_the_schedule_itself() {
        for text in ["every 10s", "* * * * * UTC", "0 3 * * * Europe/Berlin", "*/7 * * * * * Asia/Tokyo"] {
            let mut known = KnownSchedules::default();
            let plain = Schedule::from_text(text).unwrap();
            // Forwards, and back again.
            let begin = 1_794_873_600 * SECOND;
            for step in (0..200).chain((0..200).rev()) {
                let instant = Timestamp::from_micros(begin + step * 997 * SECOND / 100);
                assert_eq!(known.get(text).unwrap().next_after(instant), plain.next_after(instant), "{text}");
            }
            assert_eq!(known.get(text).unwrap().in_words, plain.in_words());
        }
        assert!(KnownSchedules::default().get("nonsense").is_none());
    }

    #[test]
    fn records_are_known_as_long_as_the_version_is_the_same() {
        let now = Timestamp::from_micros(SECOND);
        let look = |nonce| Look { version: Some(Version { at: now, nonce }), ..Look::nothing(now) };
        let (mut known, records) = (KnownReads::default(), Arc::new(JobRecords::default()));
        known.keep("import", &look(1), 20, &records);
        assert!(known.records("import", &look(1), 20).is_some());
        assert!(known.records("import", &look(1), 5).is_some(), "fewer are known, too");
        assert!(known.records("import", &look(1), 21).is_none(), "more are not");
        assert!(known.records("import", &look(2), 20).is_none(), "a swap may have appended some");
        assert!(known.records("import", &Look::nothing(now), 20).is_none());
        known.retain(&BTreeMap::new());
        assert!(known.records("import", &look(1), 20).is_none());
    }
}
