//! Keys that were made from data must not pile up: each new one pays for a look at a few old ones.

use std::fs::{self, ReadDir};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::disk::KeyFiles;
use crate::Timestamp;
use crate::store::model;

/// Files looked at for each new one: more than one, so that the sweep is faster than the growth.
const AT_A_TIME: usize = 8;

/// Goes round the folder, again and again, a few files at a time.
#[derive(Default)]
pub(super) struct Sweep(Mutex<Option<ReadDir>>);

impl Sweep {
    /// Whatever fails here is left for the next round.
    pub(super) fn go_on(&self, folder: &Path, now: Timestamp) {
        let mut round = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if round.is_none() {
            *round = fs::read_dir(folder).ok();
        }
        for _ in 0..AT_A_TIME {
            let Some(entry) = round.as_mut().and_then(Iterator::next) else {
                *round = None;
                return;
            };
            let name = entry.ok().and_then(|entry| entry.file_name().into_string().ok());
            let files = name.as_deref().and_then(|name| KeyFiles::of_state_file(folder, name));
            if let Some(files) = files.filter(|files| is_gone(files, now)) {
                let _next_time = files.remove_if(model::is_gone);
            }
        }
    }
}

fn is_gone(files: &KeyFiles, now: Timestamp) -> bool {
    files.read().is_ok_and(|state| model::is_gone(&state, now))
}
