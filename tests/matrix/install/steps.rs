//! Commands and files of an installation. An error says which command failed, and why.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where everything is installed, and reused by the next run.
pub fn folder() -> PathBuf {
    // The folder of the program is `target/debug/deps`.
    let program = std::env::current_exe().expect("a program");
    program.ancestors().nth(3).expect("the target folder").join("matrix")
}

pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    let last: Vec<_> = said.lines().rev().take(5).collect();
    Err(format!("{command:?}: {}", last.into_iter().rev().collect::<Vec<_>>().join(" / ")))
}

pub fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

pub fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub fn make_executable(program: &Path) -> Result<(), String> {
    let set = fs::set_permissions(program, fs::Permissions::from_mode(0o755));
    set.map_err(|error| format!("{}: {error}", program.display()))
}

/// The files of a folder and those below it.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // A link to a folder is not followed: it may lead out of here.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
