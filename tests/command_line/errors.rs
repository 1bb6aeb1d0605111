//! What the command line says when it is called wrongly, or the store is not there.

use super::kit::run;

#[tokio::test]
async fn store_that_is_not_named_is_wrong_usage_and_the_message_names_the_option() {
    let printed = run(&["list"]).await;
    assert_eq!(printed.code, 2, "{printed:?}");
    assert!(printed.errors.contains("pass --url, or set JOBS_URL"), "{printed:?}");
}

#[tokio::test]
async fn url_that_cannot_be_read_is_wrong_usage_and_shows_no_password() {
    let printed = run(&["list", "--url", "redis://:s3cret@host:port"]).await;
    assert_eq!(printed.code, 2, "{printed:?}");
    assert!(printed.errors.contains("--url") && !printed.errors.contains("s3cret"), "{printed:?}");
}

#[tokio::test]
async fn store_that_is_unreachable_is_named_without_its_password() {
    let printed = run(&["list", "--url", "redis://:s3cret@127.0.0.1:1"]).await;
    assert_eq!(printed.code, 3, "{printed:?}");
    assert!(printed.errors.contains("127.0.0.1:1") && !printed.errors.contains("s3cret"), "{printed:?}");
}

#[tokio::test]
async fn store_on_a_wrong_path_is_an_error_and_is_not_created() {
    let folder = support::folder::TempFolder::new();
    let path = folder.path().join("typo");
    for scheme in ["file", "sqlite"] {
        let printed = run(&["list", "--url", &format!("{scheme}://{}", path.display())]).await;
        assert_eq!(printed.code, 3, "{printed:?}");
        assert!(printed.errors.contains("check the path in the URL") && !path.exists(), "{printed:?}");
    }
}

#[tokio::test]
async fn unknown_job_has_an_exit_code_of_its_own() {
    let folder = support::folder::TempFolder::new();
    let url = format!("file://{}", folder.path().display());
    for arguments in [&["show", "imprt"][..], &["why", "imprt"], &["history", "imprt"], &["run", "imprt"]] {
        let printed = run(&[arguments, &["--url", &url]].concat()).await;
        assert_eq!(printed.code, 4, "{printed:?}");
        assert!(
            printed.errors.contains("no job \"imprt\"") && printed.errors.contains("jobsctl list"),
            "{printed:?}"
        );
    }
}

#[tokio::test]
async fn mistakes_in_arguments_say_what_is_expected() {
    let folder = support::folder::TempFolder::new();
    let url = format!("file://{}", folder.path().display());
    for (arguments, expected) in [
        (&["next", "0 25 * * *"][..], "hour 25 is out of range"),
        (&["next", "0 3 * * *", "--tz", "Europe/Nowhere"], "IANA time zone"),
        (&["lst"], "list"),
        (&["pause"], "--all"),
        (&["watch", "--interval", "1"], "--interval"),
        (&["history", "import", "--outcome", "fail"], "succeeded"),
        (&["next", "import-products"], "--job"),
        (&["plan", "/nowhere/manifest.json"], "failed to read"),
    ] {
        let printed = run(&[arguments, &["--url", &url]].concat()).await;
        assert_ne!(printed.code, 0, "{printed:?}");
        assert!(printed.errors.contains(expected), "{expected}: {printed:?}");
    }
}

#[tokio::test]
async fn commands_without_a_store_need_none() {
    let next = run(&["next", "0 3 * * *", "--tz", "Europe/Berlin", "-n", "2"]).await;
    assert_eq!(next.code, 0, "{next:?}");
    assert!(next.out.starts_with("0 3 * * * Europe/Berlin: at 03:00 (Europe/Berlin)\n"), "{next:?}");
    assert_eq!(next.out.lines().count(), 3, "{next:?}");
    let completions = run(&["completions", "bash"]).await;
    assert!(completions.code == 0 && completions.out.contains("_jobs"), "{completions:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn misspelled_key_and_a_pause_without_an_effect_are_refused_with_advice() {
    let folder = support::folder::TempFolder::new();
    let url = format!("file://{}", folder.path().display());
    let job = jobs::Job::builder("import-products").every("1h").run(|_| async {}).build().unwrap();
    let builder = jobs::builder().without_annotated().url(&url).job(job);
    let server = builder.start_all().await.expect("it starts");
    for (arguments, code, expected) in [
        (&["show", "import-product"][..], 4, "did you mean \"import-products\"?"),
        (&["pause", "import-products", "--for", "0s"], 2, "--for: must be longer than zero"),
        (&["pause", "import-products", "--for", "tomorrow"], 2, "--for: \"tomorrow\""),
        (&["pause", "import-products", "--until", "2020-01-01 00:00"], 2, "has passed"),
        (&["unlock", "import-products"], 4, "is not held"),
    ] {
        let printed = run(&[arguments, &["--url", &url]].concat()).await;
        assert_eq!(printed.code, code, "{printed:?}");
        assert!(printed.errors.contains(expected), "{expected}: {printed:?}");
    }
    let refused = run(&["show", "import-product", "--json", "--url", &url]).await;
    assert!(refused.json()["error"].as_str().unwrap().contains("no job"), "{refused:?}");
    let paused = run(&["pause", "import-products", "--until", "03:00", "--json", "--url", &url]).await;
    assert!(paused.json()["pause"]["until"].as_str().unwrap().contains("T03:00:00"), "{paused:?}");
    server.shutdown().await;
    let gone = run(&["run", "import-products", "--url", &url]).await;
    assert!(gone.code == 1 && gone.out.contains("no server has"), "{gone:?}");
}
