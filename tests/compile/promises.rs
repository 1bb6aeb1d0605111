//! `tests/README.md` maps promises to tests. Every test that it names exists, and every promise has one.

use crate::programs::{PROGRAMS, read, tests};

/// The paths in backticks that begin with a program's name.
fn named(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|path| PROGRAMS.iter().any(|(name, _)| path.starts_with(&format!("{name}::")))).collect()
}

/// Whether a program has this test, or this module of tests.
fn exists(path: &str) -> bool {
    let (program, rest) = path.split_once("::").expect("a path");
    let Some((_, root)) = PROGRAMS.iter().find(|(name, _)| *name == program) else { return false };
    let mut file = tests().join(root);
    let mut folder = file.with_file_name("");
    let mut rest = rest.split("::").peekable();
    if let Some(first) = rest.peek()
        && !declares_module(&read(&file), first)
    {
        return rest.count() == 1 && declares_test(&read(&file), path);
    }
    // Down to the last file. What is left over is in that file: a test, or a module and a test.
    while let Some(name) = rest.peek() {
        let below = folder.join(name);
        if below.with_extension("rs").is_file() {
            file = below.with_extension("rs");
        } else if below.join("mod.rs").is_file() {
            file = below.join("mod.rs");
        } else if !below.is_dir() {
            break;
        }
        folder = below;
        rest.next();
    }
    let text = read(&file);
    match rest.collect::<Vec<_>>()[..] {
        [] => true,
        [_test] => declares_test(&text, path),
        [module, _test] => text.contains(module) && declares_test(&text, path),
        _ => false,
    }
}

fn declares_module(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim().trim_start_matches("pub ");
        line == format!("mod {name};") || line == format!("mod {name} {{")
    })
}

/// A function with a test's attribute, or an entry in a list from which a macro makes tests.
fn declares_test(text: &str, path: &str) -> bool {
    let (_, name) = path.rsplit_once("::").expect("a path");
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let is_function =
        |line: &str| ["fn ", "async fn "].iter().any(|start| line.starts_with(&format!("{start}{name}(")));
    lines.iter().enumerate().any(|(number, line)| {
        let attributes = lines[..number].iter().rev().take_while(|line| line.starts_with('#'));
        let mut tests = attributes.filter(|line| **line == "#[test]" || line.starts_with("#[tokio::test"));
        let is_listed = !line.starts_with("use ") && line.ends_with(&format!("::{name};"));
        is_listed || (is_function(line) && tests.next().is_some())
    })
}

#[test]
fn every_test_named_in_the_readme_of_the_tests_exists() {
    let readme = read(&tests().join("README.md"));
    let names = named(&readme);
    assert!(names.len() > 100, "only {} tests are named", names.len());
    let missing: Vec<_> = names.into_iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "tests/README.md names tests that do not exist: {missing:#?}");
}

#[test]
fn every_promise_in_the_readme_of_the_tests_has_a_test() {
    let readme = read(&tests().join("README.md"));
    let (_, promises) = readme.split_once("\n## Promises").expect("a part about promises");
    let rows: Vec<_> =
        promises.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise")).collect();
    assert!(rows.len() > 40, "only {} promises", rows.len());
    let without: Vec<_> = rows.into_iter().filter(|row| named(row).is_empty()).collect();
    assert!(without.is_empty(), "promises without a test: {without:#?}");
}

/// The control: what does not exist is not found.
#[test]
fn test_that_does_not_exist_is_noticed() {
    for path in [
        "compile::promises::test_that_does_not_exist_is_noticed",
        "compile::promises",
        "locks_under_load::semaphore",
        "processes::worker_process_runs_its_job",
        "processes::faults::tick_during_an_outage_runs_once_when_the_server_is_back",
        "processes::broken_connections::redis::two_servers_survive_every_fault_at_every_position",
        "ui::every_mistake_is_reported_where_it_was_made",
    ] {
        assert!(exists(path), "{path}");
    }
    for path in [
        "compile::promises::exists",
        "compile::promises::renamed",
        "compile::renamed::test_that_does_not_exist_is_noticed",
        "compile::renamed",
        "processes::naive_control",
        "processes::worker",
        "processes::renamed",
        "processes::faults::renamed",
        "processes::broken_connections::mysql::two_servers_survive_every_fault_at_every_position",
        "processes::broken_connections::redis::renamed",
    ] {
        assert!(!exists(path), "{path}");
    }
}
