//! Processes that are stopped in the middle of a booking, and overtaken.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use jobs::transaction::FinishError;
use jobs::{Job, Run};
use support::child::{Child, role, tell, wait_for_parent};

use crate::{TestBank, on_every_database};
use support::bank::{Bank, Booking, Steps};

const ENTRY: &str = "stops::worker_process_books_one_payment_at_a_time";

on_every_database! {
    run_that_was_overtaken_before_its_check_commits_nothing;
    without_a_check_a_run_that_was_overtaken_books_again;
}

/// A worker begins here; without a parent it has nothing to do.
#[test]
fn worker_process_books_one_payment_at_a_time() {
    let Some((role, _)) = role() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(&role));
}

/// Tells the parent of each step, and gives it time to stop the process.
struct Told(i64);

impl Steps for Told {
    async fn booked(&self) {
        tell(&format!("booked {}", self.0));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    async fn checked(&self) {
        tell(&format!("checked {}", self.0));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

async fn work(role: &str) {
    let parts: Vec<_> = role.split_whitespace().collect();
    let [booking, fleet, url] = parts[..] else { panic!("{role}") };
    let booking = if booking == "finish" { Booking::Finish } else { Booking::Unprotected };
    let (bank, namespace) = (Bank::at(url), fleet.to_owned());
    let run = move |run: Run| {
        let (bank, fleet) = (bank.clone(), namespace.clone());
        // In a task of its own, so that it continues after its run was cancelled, as in a program that spawns.
        tokio::spawn(async move {
            let tick = run.tick().map_or(0, jobs::Timestamp::as_micros);
            let result = bank.book(&run, &fleet, (booking, 2), &Told(tick)).await;
            let refused = result.as_ref().is_err_and(anyhow::Error::is::<FinishError>);
            tell(&format!(
                "{} {tick}",
                if refused {
                    "refused"
                } else if result.is_ok() {
                    "done"
                } else {
                    "failed"
                }
            ));
            result
        })
    };
    let job = Job::builder("pay").every("6s").ttl("1s").retry_on_crash(5);
    let job = job
        .run(move |it: Run| {
            let task = run(it);
            async move { task.await? }
        })
        .build()
        .expect("a job");
    let builder = jobs::builder().url(url).namespace(fleet).without_annotated().job(job);
    let jobs = builder.start_all().await.expect("a server");
    tokio::task::spawn_blocking(wait_for_parent).await.expect("a thread");
    jobs.shutdown().await;
}

/// Two workers, and what they tell.
struct Pair {
    processes: [String; 2],
    lines: Receiver<(usize, String)>,
}

impl Pair {
    fn start(bank: &TestBank, booking: &str) -> Self {
        let role = format!("{booking} {} {}", bank.namespace, bank.bank.url());
        let (sender, lines) = channel();
        let processes = [0, 1].map(|number| {
            let mut child = Child::spawn(ENTRY, &role, bank.folder.path());
            let (id, sender) = (child.id(), sender.clone());
            std::thread::spawn(move || {
                while let Some(line) = child.told() {
                    if sender.send((number, line)).is_err() {
                        break; // the test is over, and the child is killed
                    }
                }
            });
            id
        });
        Self { processes, lines }
    }

    /// Waits for a line of a worker, or of any.
    fn wait_for(&self, worker: Option<usize>, beginning: &str, within: Duration) -> Option<(usize, String)> {
        let until = Instant::now() + within;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((from, line))
                    if worker.is_none_or(|worker| worker == from) && line.starts_with(beginning) =>
                {
                    return Some((from, line));
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn signal(&self, worker: usize, signal: &str) {
        let status = std::process::Command::new("kill").args([signal, &self.processes[worker]]).status();
        assert!(status.expect("a signal").success());
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // A stopped process is killed, too.
        for process in &self.processes {
            drop(std::process::Command::new("kill").args(["-9", process]).status());
        }
    }
}

const LONG: Duration = Duration::from_secs(20);

/// Stops the first worker at this step until another one has done its tick. Returns the tick, and what the first one then told.
fn overtake(bank: &TestBank, booking: &str, step: &str) -> (i64, String) {
    let pair = Pair::start(bank, booking);
    let (first, line) = pair.wait_for(None, step, LONG).expect("a run");
    pair.signal(first, "-STOP");
    let tick = line.split_once(' ').expect("a tick").1.to_owned();
    let done = pair.wait_for(Some(1 - first), &format!("done {tick}"), LONG);
    assert!(done.is_some(), "no other server took over while the first one was stopped");
    pair.signal(first, "-CONT");
    let end = ["refused", "done", "failed"];
    let told = (0..100).find_map(|_| {
        let (_, line) = pair.wait_for(Some(first), "", LONG)?;
        end.iter().any(|end| line == format!("{end} {tick}")).then_some(line)
    });
    (tick.parse().expect("a tick"), told.expect("the end of the first booking"))
}

async fn times(bank: &TestBank, tick: i64) -> i64 {
    let payments = bank.bank.payments(&bank.namespace).await.expect("payments");
    payments.iter().filter(|payment| payment.1 == tick).map(|payment| payment.2).sum()
}

async fn run_that_was_overtaken_before_its_check_commits_nothing(bank: &TestBank) {
    let (tick, told) = tokio::task::block_in_place(|| overtake(bank, "finish", "booked"));
    assert_eq!(told, format!("refused {tick}"));
    assert_eq!(times(bank, tick).await, 1);
}

/// The control.
async fn without_a_check_a_run_that_was_overtaken_books_again(bank: &TestBank) {
    let (tick, told) = tokio::task::block_in_place(|| overtake(bank, "control", "booked"));
    assert_eq!(told, format!("done {tick}"));
    assert_eq!(times(bank, tick).await, 2);
}

/// The server ends its session, and with it the lock of its row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_stops_before_its_commit_is_overtaken_on_postgres() {
    let bank = TestBank::on("postgres").await;
    let (tick, told) = tokio::task::block_in_place(|| overtake(&bank, "finish", "checked"));
    assert_eq!(told, format!("failed {tick}"));
    assert_eq!(times(&bank, tick).await, 1);
}
