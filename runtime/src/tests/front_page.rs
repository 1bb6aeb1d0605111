//! The path of a tick on the crate's front page.

use std::path::Path;

#[test]
fn every_file_on_the_path_of_a_tick_exists() {
    let page = include_str!("../lib.rs");
    let (_, path) = page.split_once("# Following a tick through the source").expect("the section");
    let (path, _) = path.split_once("\n\n").expect("its end");
    let is_source = |text: &&str| Path::new(text).extension().is_some_and(|extension| extension == "rs");
    let files: Vec<_> = path.split('`').filter(is_source).collect();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        assert!(source.is_file(), "{file} is not there");
    }
}
