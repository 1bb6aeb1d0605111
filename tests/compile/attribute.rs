//! What an annotated function leaves behind in the program, and that it stays a function.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::__private::{Registration, inventory};
use jobs::events::OverdueTick;
use jobs::testing::Fleet;
use jobs::{Run, State, singleton_job};

/// Pulls new products
/// from the supplier.
#[singleton_job(
    key = "import-products",
    ttl = "90s",
    every = "0 3 * * *",
    tz = "Europe/Berlin",
    timeout = "10m",
    retries = 3,
    retry_delay = "250ms",
    overlap = "queue",
    missed = "run_once",
    on_crash = "retry",
    takeovers = 2,
    grace = "5m",
    jitter = "30s",
    keep_alive = true,
    on_lost = "cancel"
)]
async fn import_products(run: Run, State(limit): State<i64>) -> Result<i64, String> {
    if limit == 0 { Err("nothing to import".to_owned()) } else { Ok(run.fence() + limit) }
}

/// Says who was notified of the end of a run.
type Notified = Arc<Mutex<Vec<String>>>;

#[singleton_job(key = "send-reports", every = "1h", on_failure = alerts::on_call, on_overdue = late)]
async fn send_reports() -> Result<(), String> {
    Err("no paper".to_owned())
}

mod alerts {
    use jobs::State;
    use jobs::events::EndedRun;

    pub async fn on_call(run: EndedRun, State(notified): State<super::Notified>, State(_): State<i64>) {
        let (outcome, error) = (run.record.outcome, run.record.error.unwrap_or_default());
        notified.lock().unwrap().push(format!("{} {outcome}: {error}", run.key));
    }
}

async fn late(tick: OverdueTick) -> Result<(), String> {
    Err(format!("{} is late: {}", tick.key, tick.tick))
}

mod nightly {
    #[jobs::singleton_job(key = "close-books")]
    pub async fn close_books() {}
}

fn registration(key: &str) -> &'static Registration {
    let mut found = inventory::iter::<Registration>.into_iter().filter(|job| job.settings.key == key);
    let registration = found.next().expect("the job is registered");
    assert!(found.next().is_none(), "{key} is registered twice");
    registration
}

#[test]
fn every_argument_arrives_in_the_registration() {
    let settings = registration("import-products").settings;
    assert_eq!(settings.ttl, Some("90s"));
    assert_eq!(settings.every, Some("0 3 * * *"));
    assert_eq!(settings.tz, Some("Europe/Berlin"));
    assert_eq!(settings.timeout, Some("10m"));
    assert_eq!(settings.retries, Some(3));
    assert_eq!(settings.retry_delay, Some("250ms"));
    assert_eq!(settings.overlap, Some("queue"));
    assert_eq!(settings.missed, Some("run_once"));
    assert_eq!(settings.on_crash, Some("retry"));
    assert_eq!(settings.takeovers, Some(2));
    assert_eq!(settings.grace, Some("5m"));
    assert_eq!(settings.jitter, Some("30s"));
    assert_eq!(settings.keep_alive, Some(true));
    assert_eq!(settings.on_lost, Some("cancel"));
}

#[test]
fn omitted_arguments_are_left_to_the_defaults_of_the_runtime() {
    let settings = registration("close-books").settings;
    let nothing = jobs::__private::Settings { key: "close-books", ..Default::default() };
    assert_eq!(format!("{settings:?}"), format!("{nothing:?}"));
}

#[test]
fn every_compiled_job_is_a_valid_policy_at_run_time() {
    for registration in inventory::iter::<Registration> {
        assert!(registration.settings.policy().is_ok(), "{}", registration.settings.key);
    }
}

#[test]
fn the_doc_comment_is_the_description() {
    assert_eq!(registration("import-products").description, "Pulls new products\nfrom the supplier.");
    assert_eq!(registration("close-books").description, "");
}

#[test]
fn registration_names_the_place_of_its_function() {
    let registration = registration("close-books");
    assert_eq!(registration.function, "close_books");
    assert_eq!(registration.module, concat!(module_path!(), "::nightly"));
    assert_eq!(registration.file, file!());
    let attribute = include_str!("attribute.rs").lines().nth(registration.line as usize - 1).unwrap();
    assert!(attribute.contains("singleton_job(key = \"close-books\")"), "{attribute}");
}

#[tokio::test]
async fn the_function_can_be_called_like_any_other() {
    let run = Run::detached("import-products");
    assert_eq!(import_products(run.clone(), State(4)).await, Ok(5));
    assert_eq!(import_products(run, State(0)).await, Err("nothing to import".to_owned()));
    nightly::close_books().await;
}

#[tokio::test(start_paused = true)]
async fn function_that_the_attribute_names_as_a_hook_is_called_with_its_state() {
    let notified = Notified::default();
    let fleet = Fleet::of(3).annotated_job("send-reports").state(notified.clone()).state(7_i64);
    let fleet = fleet.start().await.unwrap();
    fleet.run_for(Duration::from_secs(3700)).await;
    assert_eq!(*notified.lock().unwrap(), ["send-reports failed: no paper"]);
}

#[tokio::test(start_paused = true)]
async fn state_that_only_a_hook_takes_is_missed_at_start() {
    let fleet = Fleet::of(1).annotated_job("send-reports").state(7_i64);
    let error = fleet.start().await.err().expect("a start without the state of a hook").to_string();
    assert!(error.contains("[send-reports]") && error.contains("Mutex"), "{error}");
}
