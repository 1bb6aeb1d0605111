//! Making the folder ready when a store is opened.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use uuid::Uuid;
use uuid::fmt::Simple;

use super::disk::{Failure, sync_folder, temporary};
use crate::store::Topic;

/// No step takes this long between creating its temporary file and renaming it. A process that was stopped for so long
/// loses its write and gets an error.
const ABANDONED: Duration = Duration::from_secs(60);
/// Bounds on the clean-up, so that a huge folder does not delay the start.
const MOST_LOOKED_AT: usize = 100_000;
const MOST_REMOVED: usize = 1_000;

/// Creates the folder if it is missing, and finds out now, not at the first tick, whether it can be used.
pub(super) fn prepare(folder: &Path) -> Result<(), Failure> {
    let missing: Vec<_> = folder.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(folder).map_err(|error| Failure::io("create the folder", folder, &error))?;
    for parent in missing.iter().filter_map(|made| made.parent()) {
        // Only a folder that may be listed can be flushed, and a parent need not be.
        let _ = sync_folder(parent);
    }
    let probe = temporary(&folder.join("probe"));
    let usable = File::create_new(&probe).and_then(|file| {
        let locked = file.try_lock();
        fs::remove_file(&probe)?;
        Ok(locked?)
    });
    usable
        .and_then(|()| sync_folder(folder))
        .map_err(|error| Failure::io("write to and lock files in the folder", folder, &error))?;
    remove_abandoned(folder);
    for topic in [Topic::Servers, Topic::Requests] {
        remove_abandoned(&folder.join(topic.as_str()));
    }
    Ok(())
}

/// Removes what killed processes left behind. What fails is left for the next start.
fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let temporary = entries.take(MOST_LOOKED_AT).flatten().filter(|entry| is_temporary(&entry.path()));
    let now = SystemTime::now();
    let abandoned = temporary.filter(|entry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > ABANDONED))
    });
    for entry in abandoned.take(MOST_REMOVED) {
        let _ = fs::remove_file(entry.path());
    }
}

/// Only names that [`temporary`] makes: the folder may hold other people's files.
fn is_temporary(path: &Path) -> bool {
    let unique = |stem: &str| {
        let id = stem.rsplit('.').next().unwrap_or_default();
        id.len() == Simple::LENGTH && Uuid::try_parse(id).is_ok()
    };
    path.extension().is_some_and(|suffix| suffix == "tmp")
        && path.file_stem().and_then(|stem| stem.to_str()).is_some_and(unique)
}
