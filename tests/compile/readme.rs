//! The README's program is the quickstart example, which `tests/run` runs; its other code is compiled as
//! documentation of the runtime crate.

#[test]
fn the_readmes_program_is_the_quickstart_example() {
    let readme = include_str!("../../README.md");
    let program = readme.split("```rust,no_run\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let example = include_str!("../../examples/quickstart.rs");
    let code = example.split_once("\n\n").unwrap().1;
    assert_eq!(program, code);
}

#[test]
fn the_readme_shows_the_two_commands() {
    let readme = include_str!("../../README.md");
    for command in ["cargo run --example ten_servers", "./tests/run"] {
        assert!(readme.contains(&format!("```console\n{command}\n```")), "{command}");
    }
}
