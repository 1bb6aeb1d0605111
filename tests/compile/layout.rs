//! Limits that keep the source readable: short files, small folders, few parameters, one meaning per type name.
//!
//! An exception is a line in [`EXCEPTIONS`] with its reason. An exception that is no longer needed fails the test, too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, ImplItem, Item, Signature, TraitItem};

const MOST_LINES: usize = 350;
const MOST_ENTRIES: usize = 12;
/// `self` is one of them.
const MOST_PARAMETERS: usize = 5;

/// The source of each crate. No two types of one crate share a name.
const CRATES: [&str; 3] = ["runtime/src", "runtime/cli", "macros/src"];

/// A violation as this test reports it, up to its colon, and why it stays.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("folder runtime/src/docs", "a page for each question of the guide"),
    ("function verify_server_cert in runtime/src/store/net/tls/verifier.rs", "a method of a trait of rustls"),
];

#[derive(Default)]
struct Violations(BTreeMap<String, String>);

impl Violations {
    fn add(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.0.insert(what.into(), why.into());
    }
}

/// Where a crate's types are defined, by name.
type Types = BTreeMap<String, Vec<String>>;

struct Source<'a> {
    root: &'a Path,
    violations: Violations,
    types: Types,
    files: Vec<(PathBuf, syn::File)>,
    /// Modules that only tests see: their files, and their folders.
    test_modules: Vec<PathBuf>,
}

impl Source<'_> {
    fn is_test(&self, path: &Path) -> bool {
        path.file_stem().is_some_and(|name| name == "tests")
            || self
                .test_modules
                .iter()
                .any(|module| path.starts_with(module) || path == module.with_extension("rs"))
    }

    fn folder(&mut self, folder: &Path) {
        let mut entries: Vec<_> =
            fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        if entries.len() > MOST_ENTRIES {
            let count = format!("{} entries, {MOST_ENTRIES} are allowed", entries.len());
            self.violations.add(format!("folder {}", self.name(folder)), count);
        }
        for path in entries {
            if path.is_dir() {
                self.folder(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.file(&path);
            }
        }
    }

    fn file(&mut self, path: &Path) {
        let name = self.name(path);
        let text = fs::read_to_string(path).expect("a source file");
        let lines = text.lines().count();
        if lines > MOST_LINES {
            self.violations.add(format!("file {name}"), format!("{lines} lines, {MOST_LINES} are allowed"));
        }
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        self.find_test_modules(&file.items, path, false);
        self.files.push((path.to_owned(), file));
    }

    /// Remembers the modules in files of their own that only tests see. Their files may come first.
    fn find_test_modules(&mut self, items: &[Item], path: &Path, in_tests: bool) {
        for item in items {
            let Item::Mod(module) = item else { continue };
            let in_tests = in_tests || only_for_tests(&module.attrs);
            match &module.content {
                Some((_, items)) => self.find_test_modules(items, path, in_tests),
                None if in_tests => self.test_modules.push(folder_of(path).join(module.ident.to_string())),
                None => {}
            }
        }
    }

    fn all_items(&mut self) {
        for (path, file) in std::mem::take(&mut self.files) {
            let in_tests = path.ancestors().any(|part| self.is_test(part));
            self.items(&file.items, &path, in_tests);
        }
    }

    fn items(&mut self, items: &[Item], path: &Path, in_tests: bool) {
        for item in items {
            self.item(item, path, in_tests);
        }
    }

    fn item(&mut self, item: &Item, path: &Path, in_tests: bool) {
        match item {
            Item::Fn(function) => self.function(&function.sig, path),
            Item::Impl(block) => {
                for item in &block.items {
                    if let ImplItem::Fn(method) = item {
                        self.function(&method.sig, path);
                    }
                }
            }
            Item::Trait(definition) => {
                for item in &definition.items {
                    if let TraitItem::Fn(method) = item {
                        self.function(&method.sig, path);
                    }
                }
                self.define(&definition.ident, path, in_tests);
            }
            Item::Mod(module) => {
                let items = module.content.as_ref().map_or(&[][..], |(_, items)| items);
                self.items(items, path, in_tests || only_for_tests(&module.attrs));
            }
            Item::Struct(definition) => self.define(&definition.ident, path, in_tests),
            Item::Enum(definition) => self.define(&definition.ident, path, in_tests),
            Item::Union(definition) => self.define(&definition.ident, path, in_tests),
            Item::Type(definition) => self.define(&definition.ident, path, in_tests),
            _ => {}
        }
    }

    fn function(&mut self, signature: &Signature, path: &Path) {
        let parameters = signature.inputs.len();
        if parameters > MOST_PARAMETERS {
            let count = format!("{parameters} parameters, {MOST_PARAMETERS} are allowed");
            self.violations.add(format!("function {} in {}", signature.ident, self.name(path)), count);
        }
    }

    fn define(&mut self, name: &syn::Ident, path: &Path, in_tests: bool) {
        if !in_tests {
            let place = self.name(path);
            self.types.entry(name.to_string()).or_default().push(place);
        }
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.root).expect("a path in this repository").display().to_string()
    }
}

/// Where the files of a file's modules are.
fn folder_of(path: &Path) -> PathBuf {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| path.ends_with(name));
    if is_root { path.with_file_name("") } else { path.with_extension("") }
}

fn only_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|argument| argument.is_ident("test"))
    })
}

/// What exceeds the limits in these crates below the root.
fn violations(root: &Path, crates: &[&str]) -> BTreeMap<String, String> {
    let mut violations = Violations::default();
    for name in crates {
        let mut source =
            Source { root, violations, types: Types::new(), files: Vec::new(), test_modules: Vec::new() };
        source.folder(&root.join(name));
        source.all_items();
        violations = source.violations;
        for (name, places) in source.types {
            if places.len() > 1 {
                violations.add(format!("type {name}"), format!("defined in {}", places.join(", ")));
            }
        }
    }
    violations.0
}

#[test]
fn source_keeps_to_the_limits_of_its_layout() {
    let mut found = violations(Path::new(env!("CARGO_MANIFEST_DIR")), &CRATES);
    let mut report = Vec::new();
    for (what, _reason) in EXCEPTIONS {
        if found.remove(*what).is_none() {
            report.push(format!("{what}: the exception is no longer needed"));
        }
    }
    report.extend(found.into_iter().map(|(what, why)| format!("{what}: {why}")));
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}

/// The control: a crate that exceeds every limit.
#[test]
fn every_limit_of_the_layout_is_noticed() {
    let folder = support::folder::TempFolder::new();
    let source = folder.path().join("src");
    fs::create_dir_all(source.join("full")).unwrap();
    for number in 0..=MOST_ENTRIES {
        fs::write(
            source.join(format!("full/part{number}.rs")),
            "struct Part;\n".repeat(usize::from(number == 0)),
        )
        .unwrap();
    }
    let long = "// line\n".repeat(MOST_LINES + 1);
    let lib = "mod full;
        #[cfg(test)]
        mod checks { struct Part; struct Twice; }
        #[cfg(test)]
        mod before;
        struct Twice;
        enum Other {}
        fn allowed(a: u8, b: u8, c: u8, d: u8, e: u8) {}
        fn refused(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}
        impl Twice { fn method(&self, a: u8, b: u8, c: u8, d: u8, e: u8) {} fn short(&self, a: u8) {} }
        trait Refusing { fn refused_too(&self, a: u8, b: u8, c: u8, d: u8, e: u8); }";
    fs::write(source.join("lib.rs"), lib).unwrap();
    fs::write(source.join("long.rs"), format!("{long}mod inner {{ struct Twice; }}\n")).unwrap();
    fs::write(source.join("before.rs"), "struct Twice;\n").unwrap();
    let found = violations(folder.path(), &["src"]);
    let expected = [
        "file src/long.rs",
        "folder src/full",
        "function method in src/lib.rs",
        "function refused in src/lib.rs",
        "function refused_too in src/lib.rs",
        "type Twice",
    ];
    assert_eq!(found.keys().collect::<Vec<_>>(), expected, "{found:#?}");
    assert_eq!(found["type Twice"], "defined in src/lib.rs, src/long.rs");
}
