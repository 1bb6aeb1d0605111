//! A resource that jobs write to: a file per key, which compares fences unless a control turns that off.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use jobs::testing::check::{LeaseRef, Observed};

use super::history::Journal;

/// Whether a resource refuses a lower fence than it has seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Comparing {
    Fences,
    Nothing,
}

/// Writes under a lease. The comparison and the note of it are one step, under a lock of the operating system.
pub async fn write(lease: &LeaseRef, comparing: Comparing) {
    let path = Journal::get().folder.join(format!("{}.resource", lease.key));
    let file =
        File::options().create(true).truncate(false).read(true).write(true).open(path).expect("a file");
    // A process that was stopped in the middle keeps the lock; no other process waits for it.
    for _ in 0..3 {
        match file.try_lock() {
            Ok(()) => return write_locked(&file, lease, comparing),
            Err(_busy) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

fn write_locked(file: &File, lease: &LeaseRef, comparing: Comparing) {
    let mut digits = [0; 20];
    let highest: i64 = match file.read_exact_at(&mut digits, 0) {
        Ok(()) => std::str::from_utf8(&digits).expect("digits").parse().expect("a fence"),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
        Err(error) => panic!("the resource: {error}"),
    };
    if comparing == Comparing::Fences && lease.fence < highest {
        return;
    }
    file.write_all_at(format!("{:020}", lease.fence).as_bytes(), 0).expect("a write");
    Journal::get().history.note(Observed::Wrote(lease.clone()));
}
