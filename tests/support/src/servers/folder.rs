//! Folders that vanish with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct TempFolder(PathBuf);

impl TempFolder {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// On a file system without a disk, if there is one: a thousand times faster, so that a random instant
    /// falls less often into a flush.
    pub fn in_memory() -> Self {
        let shared = Path::new("/dev/shm");
        if shared.is_dir() { Self::below(shared) } else { Self::new() }
    }

    fn below(parent: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("jobs-test-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Writes a file, and tells its path.
    pub fn put(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A folder for all tests of a program, in memory. A shell removes it when the program ends, however it ends.
pub(crate) struct ProgramFolder {
    path: PathBuf,
    _shell: Child,
}

impl ProgramFolder {
    pub(crate) fn new() -> Self {
        let folder = TempFolder::in_memory();
        let path = folder.path().to_owned();
        let mut shell = Command::new("sh");
        shell.args(["-c", "read -r _; rm -rf \"$1\"", "sh"]).arg(&path);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let shell = shell.spawn().expect("sh");
        std::mem::forget(folder);
        Self { path, _shell: shell }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
