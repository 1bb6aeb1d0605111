//! A small disk for the store of files, which can be full.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use support::folder::TempFolder;

/// Mounted if this process may mount; otherwise a plain folder, which is never full.
pub struct Disk {
    mounted: Option<Child>,
    place: TempFolder,
}

/// Mounts, and unmounts when its input closes, so that not even a killed test leaves anything behind.
const MOUNT: &str = r#"
    mount -t tmpfs -o size=48m tmpfs "$1" 2>/dev/null && echo mounted || echo refused
    read -r _
    umount -l "$1" 2>/dev/null"#;

impl Disk {
    pub fn mount() -> Self {
        let place = TempFolder::in_memory();
        let mut shell = Command::new("sh");
        shell.args(["-c", MOUNT, "sh"]).arg(place.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("sh");
        let mut answer = String::new();
        BufReader::new(shell.stdout.take().expect("a pipe")).read_line(&mut answer).expect("an answer");
        let is_mounted = answer.trim() == "mounted";
        if !is_mounted {
            eprintln!("no disk is filled: a mount needs root");
        }
        Self { mounted: is_mounted.then_some(shell), place }
    }

    /// Where the store is.
    pub fn folder(&self) -> PathBuf {
        self.place.path().join("jobs")
    }

    pub fn is_limited(&self) -> bool {
        self.mounted.is_some()
    }

    fn filler(&self) -> PathBuf {
        self.place.path().join("filler")
    }

    pub fn fill(&self) {
        let mut file = File::create(self.filler()).expect("a file on the disk");
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    pub fn empty(&self) {
        std::fs::remove_file(self.filler()).expect("the filler");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(mut shell) = self.mounted.take() {
            drop(shell.stdin.take());
            let _unmounted = shell.wait();
        }
    }
}
