//! The test programs, and that no file is left out of them: a file that no program declares is not even compiled.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use syn::Item;

/// Their names, and the files that they begin with.
pub const PROGRAMS: [(&str, &str); 19] = [
    ("attributes", "../macros/src/unit_tests.rs"),
    ("chaos", "chaos/main.rs"),
    ("command_line", "command_line/main.rs"),
    ("compile", "compile/main.rs"),
    ("dashboard", "dashboard/main.rs"),
    ("effects", "effects/main.rs"),
    ("fleet", "fleet/main.rs"),
    ("locks", "locks/main.rs"),
    ("locks_under_load", "processes/locks_under_load/main.rs"),
    ("matrix", "matrix/main.rs"),
    ("model", "model/main.rs"),
    ("monitoring", "monitoring/main.rs"),
    ("naive_control", "processes/naive_control/main.rs"),
    ("processes", "processes/main.rs"),
    ("schedule", "schedule/main.rs"),
    ("startup", "startup/main.rs"),
    ("stores", "stores/main.rs"),
    ("ui", "ui/ui.rs"),
    ("ui_pass", "ui/pass/main.rs"),
];

/// The libraries that the programs share.
const LIBRARIES: [&str; 2] = ["fuzz/src/lib.rs", "support/src/lib.rs"];

pub fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file, and those of all modules that it declares in the folder.
fn declared(file: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    found.insert(file.to_owned());
    let parsed = syn::parse_file(&read(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    declared_by(&parsed.items, folder, found);
}

fn declared_by(items: &[Item], folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let below = folder.join(module.ident.to_string());
        match &module.content {
            Some((_, items)) => declared_by(items, &below, found),
            None => {
                let files = [below.with_extension("rs"), below.join("mod.rs")];
                if let Some(file) = files.iter().find(|file| file.is_file()) {
                    declared(file, &below, found);
                }
            }
        }
    }
}

/// All source files below a folder, but for the cases of the compiler's messages.
fn files(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if !path.ends_with("ui/fail") {
                files(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path);
        }
    }
}

/// The files that belong to no program.
fn left_out(tests: &Path, roots: &[&str]) -> Vec<PathBuf> {
    let (mut all, mut used) = (BTreeSet::new(), BTreeSet::new());
    files(tests, &mut all);
    for root in roots {
        let root = tests.join(root);
        declared(&root, &root.with_file_name(""), &mut used);
    }
    all.difference(&used).cloned().collect()
}

#[test]
fn every_file_of_the_tests_belongs_to_a_program() {
    let roots: Vec<_> = PROGRAMS.iter().map(|(_, root)| *root).chain(LIBRARIES).collect();
    assert_eq!(left_out(&tests(), &roots), Vec::<PathBuf>::new());
}

#[test]
fn every_program_is_a_target_of_cargo() {
    let packages = ["model", "ui"];
    let files = packages.map(|package| format!("tests/{package}/Cargo.toml"));
    let files = files.iter().map(String::as_str).chain(["Cargo.toml", "runtime/Cargo.toml"]);
    let manifests: Vec<_> = files.map(|file| read(&tests().join("..").join(file))).collect();
    let targets = manifests.join("\n").matches("[[test]]").count();
    assert_eq!(targets, PROGRAMS.len());
    for (name, root) in PROGRAMS {
        let own = packages.iter().find_map(|package| root.strip_prefix(package)?.strip_prefix('/'));
        let beside = root.strip_prefix("../");
        let path = own.or(beside).map_or(format!("tests/{root}"), str::to_owned);
        let target = |path: &str| format!("[[test]]\nname = \"{name}\"\npath = \"{path}\"\n");
        let targets = [target(&path), target(&format!("../{path}"))];
        let is_there = |manifest: &String| targets.iter().any(|target| manifest.contains(target));
        assert!(manifests.iter().any(is_there), "no such target:\n{}", targets[0]);
    }
}

/// The control: files that nothing declares.
#[test]
fn file_that_no_program_declares_is_noticed() {
    let folder = support::folder::TempFolder::new();
    fs::create_dir_all(folder.path().join("level/inner")).unwrap();
    for (name, text) in [
        ("forgotten.rs", ""),
        ("level/main.rs", "mod used; mod inner { mod deep; }"),
        ("level/used.rs", ""),
        ("level/unused.rs", ""),
        ("level/inner/deep.rs", ""),
        ("level/inner/unused.rs", ""),
    ] {
        folder.put(name, text);
    }
    let expected = ["forgotten.rs", "level/inner/unused.rs", "level/unused.rs"];
    assert_eq!(left_out(folder.path(), &["level/main.rs"]), expected.map(|name| folder.path().join(name)));
}
