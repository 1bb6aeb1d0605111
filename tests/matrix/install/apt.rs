//! Packages of a suite of Debian or Ubuntu, with all that they depend on, unpacked beside the system. Their programs run with
//! the libraries of their own suite.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::steps::{files, folder, make, make_executable, read, run, write};

/// Mirrors, for systems that have none of their own.
const DEBIAN_MIRROR: &str = "JOBS_MATRIX_DEBIAN";
const UBUNTU_MIRROR: &str = "JOBS_MATRIX_UBUNTU";

/// A suite, with its own state of apt. Nothing of the system's is changed.
pub struct Suite {
    name: String,
    sources: String,
}

impl Suite {
    pub fn of_debian(suite: &str) -> Result<Self, String> {
        let keys = Path::new("/usr/share/keyrings/debian-archive-keyring.gpg");
        // Backports need the suite that they are for.
        let base = suite.trim_end_matches("-backports");
        let suites = if base == suite { vec![suite] } else { vec![base, suite] };
        Ok(Self::new(format!("debian-{suite}"), &debian_mirror()?, keys, &suites, "main"))
    }

    /// Debian has the keys of Ubuntu's archive, and a program that knows where it is.
    pub fn of_ubuntu(suite: &str) -> Result<Self, String> {
        let root = folder().join("about-ubuntu");
        let keys = root.join("usr/share/keyrings/ubuntu-archive-keyring.gpg");
        let script = root.join("usr/share/debootstrap/scripts/gutsy");
        if !(keys.exists() && script.exists()) {
            make(&root)?;
            Self::of_debian("trixie")?.extract(&["ubuntu-keyring", "debootstrap"], &root)?;
        }
        let mirror = match std::env::var(UBUNTU_MIRROR) {
            Ok(mirror) => mirror,
            Err(_) => {
                let text = read(&script)?;
                let mut words = text.split_whitespace().skip_while(|word| *word != "default_mirror");
                words.nth(1).ok_or("debootstrap names no mirror of Ubuntu")?.trim_end_matches(';').to_owned()
            }
        };
        let updates = format!("{suite}-updates");
        Ok(Self::new(format!("ubuntu-{suite}"), &mirror, &keys, &[suite, &updates], "main universe"))
    }

    fn new(name: String, mirror: &str, keys: &Path, suites: &[&str], components: &str) -> Self {
        let line = |suite: &&str| {
            format!("deb [arch=amd64 signed-by={}] {mirror} {suite} {components}\n", keys.display())
        };
        Self { name, sources: suites.iter().map(line).collect() }
    }

    /// Unpacks the packages and all that they depend on, and returns the first of the programs.
    pub fn unpack(&self, packages: &[&str], programs: &[&str], folder: &Path) -> Result<PathBuf, String> {
        let root = folder.join("root");
        make(&root)?;
        self.extract(packages, &root)?;
        for program in programs {
            run_with_own_libraries(&root, &root.join(program))?;
        }
        Ok(root.join(programs[0]))
    }

    /// Lets a program of another origin run with the libraries of this suite, which are unpacked below the folder.
    pub fn add_libraries(&self, folder: &Path, program: &Path) -> Result<(), String> {
        self.extract(&["libstdc++6"], folder)?;
        run_with_own_libraries(folder, program)
    }

    fn extract(&self, packages: &[&str], root: &Path) -> Result<(), String> {
        let own = folder().join("apt").join(&self.name);
        for part in ["state/lists/partial", "cache/archives/partial"] {
            make(&own.join(part))?;
        }
        write(&own.join("sources.list"), &self.sources)?;
        // Nothing is installed, so that everything is downloaded.
        write(&own.join("status"), "")?;
        run(apt(&own).arg("update"))?;
        let _none = fs::remove_dir_all(own.join("cache/archives"));
        make(&own.join("cache/archives/partial"))?;
        run(apt(&own)
            .args(["install", "--download-only", "--yes", "--no-install-recommends"])
            .args(packages))?;
        let archives = files(&own.join("cache/archives"));
        for archive in archives.iter().filter(|path| path.extension().is_some_and(|kind| kind == "deb")) {
            run(Command::new("dpkg-deb").arg("--extract").arg(archive).arg(root))?;
        }
        let _best_effort = fs::remove_dir_all(own.join("cache/archives"));
        Ok(())
    }
}

/// The mirror that this system is installed from.
fn debian_mirror() -> Result<String, String> {
    if let Ok(mirror) = std::env::var(DEBIAN_MIRROR) {
        return Ok(mirror);
    }
    let targets = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
    let mirrors = run(Command::new("apt-get").args(targets))?;
    let mirror =
        mirrors.lines().map(|mirror| mirror.trim_end_matches('/')).find(|mirror| mirror.ends_with("/debian"));
    mirror.map(str::to_owned).ok_or(format!("this system has no mirror of Debian: set {DEBIAN_MIRROR}"))
}

fn apt(own: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    let own = own.display();
    apt.args([
        format!("-oDir::Etc::SourceList={own}/sources.list"),
        "-oDir::Etc::SourceParts=-".to_owned(),
        format!("-oDir::State={own}/state"),
        format!("-oDir::State::Status={own}/status"),
        format!("-oDir::Cache={own}/cache"),
        "-oAPT::Architecture=amd64".to_owned(),
        "-oAPT::Sandbox::User=".to_owned(),
        "-oAcquire::Languages=none".to_owned(),
        "-qq".to_owned(),
    ]);
    apt
}

/// Puts a script in the place of the program, which calls it with the loader and the libraries below the root.
fn run_with_own_libraries(root: &Path, program: &Path) -> Result<(), String> {
    let is_loader = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux-x86-64.so"))
            && path.parent().is_some_and(|folder| folder.ends_with("x86_64-linux-gnu"))
    };
    let found = files(root);
    let loader = found.iter().find(is_loader).ok_or("the packages have no loader")?;
    // Some packages keep libraries of their own in a folder `private`.
    let has_libraries =
        |folder: &&Path| ["x86_64-linux-gnu", "private"].iter().any(|end| folder.ends_with(end));
    let folders: BTreeSet<_> = found.iter().filter_map(|path| path.parent()).filter(has_libraries).collect();
    let libraries: Vec<_> = folders.into_iter().map(|folder| folder.display().to_string()).collect();
    let original = program.with_extension("original");
    fs::rename(program, &original).map_err(|error| format!("{}: {error}", program.display()))?;
    let script = format!(
        "#!/bin/sh\nexec '{}' --library-path '{}' '{}' \"$@\"\n",
        loader.display(),
        libraries.join(":"),
        original.display()
    );
    write(program, &script)?;
    make_executable(program)
}
