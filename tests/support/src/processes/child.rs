//! Other processes: the test binary once more, in a role, to be stopped and killed.
//!
//! A test that is also the children's entry starts with `if let Some(role) = child::role()`.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{self, ChildStdout, Command, Stdio};

const ROLE: &str = "JOBS_TEST_ROLE";
const FOLDER: &str = "JOBS_TEST_FOLDER";
/// Tells a child's words from the test harness's.
const MARK: char = '@';

/// In a child: what it is to do, and where.
pub fn role() -> Option<(String, String)> {
    Some((std::env::var(ROLE).ok()?, std::env::var(FOLDER).ok()?))
}

/// In a child: tells the parent one line, at once.
pub fn tell(line: &str) {
    println!("{MARK}{line}");
}

/// In a child: waits until the parent closes its end, or is gone.
pub fn wait_for_parent() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A child process; killed when dropped.
pub struct Child {
    process: process::Child,
    output: BufReader<ChildStdout>,
}

impl Child {
    pub fn spawn(entry: &str, role: &str, folder: &Path) -> Self {
        Self::start(Command::new(std::env::current_exe().unwrap()), entry, role, folder)
    }

    /// A child that may not write a single byte to a file.
    pub fn spawn_without_room(entry: &str, role: &str, folder: &Path) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
        shell.arg(std::env::current_exe().unwrap());
        Self::start(shell, entry, role, folder)
    }

    fn start(mut command: Command, entry: &str, role: &str, folder: &Path) -> Self {
        command.args([entry, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(FOLDER, folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// The next line the child told, or `None` at its end.
    pub fn told(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            if let Some((_, told)) = line.split_once(MARK) {
                return Some(told.trim_end().to_owned());
            }
            line.clear();
        }
        None
    }

    pub fn expect(&mut self, line: &str) {
        assert_eq!(self.told().as_deref(), Some(line));
    }

    /// Lets the child go on from [`wait_for_parent`].
    pub fn go_on(&mut self) {
        drop(self.process.stdin.take());
    }

    pub fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.id()]).status().unwrap().success());
    }

    /// As the child itself says it.
    pub fn id(&self) -> String {
        self.process.id().to_string()
    }

    /// SIGKILL: not one more instruction.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    /// Everything else the child told until its end.
    pub fn rest(&mut self) -> Vec<String> {
        let told = std::iter::from_fn(|| self.told()).collect();
        self.process.wait().unwrap();
        told
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
