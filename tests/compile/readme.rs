//! The README and the pages of the guide: their links, commands and promises. Their code is compiled as documentation of the
//! runtime crate, and `tests/run` runs the README's program as the quickstart example.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn readme_program_is_the_quickstart_example() {
    let readme = read("README.md");
    let program = readme.split("```rust,no_run\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let example = read("examples/quickstart.rs");
    let code = example.split_once("\n\n").unwrap().1;
    assert_eq!(program, code);
}

#[test]
fn readme_shows_the_two_commands() {
    let readme = read("README.md");
    for command in ["cargo run --example ten_servers", "./tests/run"] {
        assert!(readme.contains(&format!("```console\n{command}\n```")), "{command}");
    }
}

#[test]
fn readme_has_at_most_160_lines() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 160, "{lines} lines");
}

#[test]
fn readme_and_guarantees_make_the_same_promises() {
    let readme = numbered_items(&read("README.md"), "## Guarantees");
    let page = numbered_items(&read("runtime/src/docs/guarantees.md"), "# The promises");
    assert!(readme.len() >= 5, "{readme:?}");
    assert_eq!(readme, page);
}

#[test]
fn readme_and_front_page_begin_with_the_same_paragraph() {
    let readme = read("README.md");
    let source = read("runtime/src/lib.rs");
    let front_page = source.lines().map_while(|line| line.strip_prefix("//!"));
    let front_page: Vec<_> = front_page.map(str::trim).take_while(|line| !line.is_empty()).collect();
    assert_eq!(front_page, readme.lines().skip(2).take(front_page.len()).collect::<Vec<_>>());
}

#[test]
fn guide_and_attribute_list_the_same_arguments() {
    let page = first_column(&read("runtime/src/docs/arguments.md"), "# Arguments");
    let attribute = first_column(&read("macros/src/singleton_job.md"), "# Arguments");
    assert!(page.len() > 10, "{page:?}");
    assert_eq!(page, attribute);
}

/// In the repository. On docs.rs they are intra-doc links, which `cargo doc` checks: see the next test.
#[test]
fn every_relative_link_and_anchor_leads_somewhere() {
    let mut checked = 0;
    for page in pages() {
        for target in links(&read(&page)) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) =
                target.split_once('#').map_or((&*target, None), |(file, at)| (file, Some(at)));
            let own = root().join(&page);
            let path = if file.is_empty() { own } else { own.parent().unwrap().join(file) };
            assert!(path.exists(), "{page}: {target} is not there");
            if let Some(anchor) = anchor {
                let text = fs::read_to_string(&path).unwrap();
                assert!(anchors(&text).contains(anchor), "{page}: {target} has no such heading");
            }
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked} links: they are not recognized any more");
}

/// A relative path leads nowhere on docs.rs, so the module that includes a page defines its links first.
#[test]
fn every_link_of_a_page_has_another_target_on_docs_rs() {
    let sources = ["lib.rs", "store/redis/mod.rs", "store/postgres/mod.rs"];
    let sources: Vec<_> = sources.map(|source| read(&format!("runtime/src/{source}"))).into();
    for page in pages().into_iter().filter(|page| page.starts_with("runtime/")) {
        let name = Path::new(&page).file_name().unwrap().to_str().unwrap();
        let including = format!("docs/{name}\")");
        let before: Vec<_> = sources.iter().filter_map(|source| source.split_once(&*including)).collect();
        let [(before, _)] = before[..] else { panic!("{page} is included {} times", before.len()) };
        let comment = before.lines().rev().skip(1).map_while(doc_comment);
        let on_docs_rs: BTreeMap<_, _> = comment.filter_map(definition).collect();
        let text = read(&page);
        let in_the_repository: BTreeMap<_, _> = prose(&text).filter_map(definition).collect();
        assert_eq!(
            on_docs_rs.keys().collect::<Vec<_>>(),
            in_the_repository.keys().collect::<Vec<_>>(),
            "{page}: definitions at its end, and in the module that includes it"
        );
        for (label, target) in &in_the_repository {
            let anchor = |target: &str| target.split_once('#').map(|(_, anchor)| anchor.to_owned());
            assert_eq!(anchor(on_docs_rs[label]), anchor(target), "{page}: {label}");
        }
        let inline = inline_links(&text).into_iter().filter(|to| !to.starts_with('#') && !to.contains("://"));
        assert_eq!(inline.collect::<Vec<_>>(), Vec::<String>::new(), "{page}: define these at its end");
    }
}

#[test]
fn every_command_names_an_existing_target() {
    let mut checked = 0;
    for page in pages() {
        let text = read(&page);
        let words: Vec<_> = text.split(|c: char| c.is_whitespace() || c == '`').collect();
        for pair in words.windows(2) {
            let (folder, name) = match pair[0] {
                "--test" => {
                    let declaration = format!("[[test]]\nname = \"{}\"", pair[1]);
                    let packages = ["Cargo.toml", "tests/model/Cargo.toml"];
                    assert!(
                        packages.iter().any(|path| read(path).contains(&declaration)),
                        "{page}: {pair:?}"
                    );
                    checked += 1;
                    continue;
                }
                "--example" => ("examples", pair[1]),
                "--bench" => ("runtime/benches", pair[1]),
                _ => continue,
            };
            let there = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/main.rs")];
            let placeholder = name.chars().all(|c| c.is_ascii_uppercase());
            assert!(placeholder || there.iter().any(|path| root().join(path).exists()), "{page}: {pair:?}");
            checked += 1;
        }
    }
    assert!(checked >= 5, "{checked} commands: they are not recognized any more");
}

/// The folder of the repository, wherever in it this test is built.
fn root() -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("runtime/src/lib.rs").exists()).unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The Markdown files at the top of the repository, and the pages of the guide.
fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    for folder in ["", "runtime/src/docs/"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
                pages.push(format!("{folder}{name}"));
            }
        }
    }
    assert!(pages.len() > 10, "{pages:?}");
    pages
}

/// The lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

fn links(text: &str) -> Vec<String> {
    let defined = prose(text).filter_map(definition).map(|(_, target)| target.to_owned());
    inline_links(text).into_iter().chain(defined).collect()
}

/// The targets of `[text](target)`.
fn inline_links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        for rest in line.split("](").skip(1) {
            found.push(rest.split(')').next().unwrap().to_owned());
        }
    }
    found
}

/// Label and target of `[label]: target`.
fn definition(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[')?.split_once("]: ")
}

fn doc_comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "))
}

/// As GitHub and rustdoc make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let titles = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ';
    titles.map(|title| title.chars().filter(|c| kept(*c)).collect::<String>().replace(' ', "-")).collect()
}

/// The part of a page from this heading to the next.
fn section<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| !line.starts_with('#')).collect()
}

fn numbered_items(text: &str, heading: &str) -> Vec<String> {
    let mut items = Vec::<String>::new();
    for line in section(text, heading) {
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            items.push(line.to_owned());
        } else if let Some(item) = items.last_mut().filter(|_| line.starts_with("   ")) {
            item.push(' ');
            item.push_str(line.trim());
        }
    }
    items
}

fn first_column(text: &str, heading: &str) -> BTreeSet<String> {
    let rows = section(text, heading).into_iter().filter(|line| line.starts_with("| `"));
    rows.take_while(|row| !row.is_empty()).map(|row| row.split('`').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn every_file_on_the_path_of_a_tick_exists() {
    let page = read("runtime/src/lib.rs");
    let (_, path) = page.split_once("# Following a tick through the source").expect("the section");
    let (path, _) = path.split_once("\n\n").expect("its end");
    let is_source = |text: &&str| Path::new(text).extension().is_some_and(|extension| extension == "rs");
    let files: Vec<_> = path.split('`').filter(is_source).collect();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        assert!(root().join("runtime/src").join(file).is_file(), "{file} is not there");
    }
}

#[test]
fn a_store_of_your_own_takes_at_most_200_lines() {
    let example = read("examples/custom_store/sqlite_store.rs");
    assert!(example.lines().count() <= 200, "the README says so");
}
