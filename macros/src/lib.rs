//! The attributes of the package `singleton-jobs`, which re-exports them. Depend on that package.

mod args;
mod expand;
mod function;
#[cfg(test)]
mod fuzz;
mod job;
mod locked;
mod near_miss;

use proc_macro::TokenStream;

/// Makes an `async fn` a job: at each tick, one of the servers that run this program runs it.
///
/// ```
/// use jobs::{Run, State, singleton_job};
///
/// #[derive(Clone)]
/// struct Db;
///
/// /// Pulls new products from the supplier.
/// #[singleton_job(key = "import-products", ttl = "60s", every = "0 * * * *")]
/// async fn import_products(State(db): State<Db>, run: Run) -> Result<(), std::io::Error> {
///     println!("importing for {:?} under fence {}", run.tick(), run.fence());
///     # let _: Db = db;
///     Ok(())
/// }
/// ```
///
/// # Arguments
///
/// | argument | default | meaning |
/// |---|---|---|
/// | `key` | required | names the job and its lock on every server: 1 to 128 of `A–Z a–z 0–9 . _ : / -` |
/// | `ttl` | `"60s"` | how long the lease lasts without an extension, and so how long a crash blocks the job: `"1s"` to `"7days"` |
/// | `every` | none: only manual runs | cron with 5 or 6 fields (`"0 3 * * *"`; the sixth, in front, is seconds), `"@hourly"`, `"@daily"`, `"@weekly"`, `"@monthly"`, `"@yearly"`, or an interval (`"10m"`) |
/// | `tz` | `"UTC"` | the IANA time zone of a cron schedule |
/// | `timeout` | none | cancels a run that takes longer, including its retries |
/// | `retries` | `0` | how often a run that fails or panics is retried under the same lease; at most 100 |
/// | `retry_delay` | `"5s"` | the upper bound of the random pause before the first retry; it doubles with each retry, up to 5 min |
/// | `overlap` | `"skip"` | a tick that is due while the previous run is in progress is skipped; with `"queue"` it starts when that run ends, within the grace |
/// | `missed` | `"skip"` | ticks that passed while no server or no store was available are only counted; with `"run_once"` the newest of them runs, however late |
/// | `on_crash` | `"skip"` | a tick whose run did not finish is over; with `"retry"` another server takes it over when the lease has ended |
/// | `takeovers` | `1` | how many of these attempts a tick gets |
/// | `grace` | the shorter of `ttl` and the gap to the next tick; with `overlap = "queue"` the gap | how late a tick may still start |
/// | `jitter` | none | delays each start by an amount below this, derived from key and tick: the same on every server |
/// | `keep_alive` | `true` | `false` never extends the lease |
/// | `pause_after` | never | after so many failures in a row the job is paused, until an operator resumes it |
/// | `on_lost` | `"cancel"` | a run whose lease is lost is dropped at its next `await`; with `"continue"` it is only notified |
/// | `on_success` | none | names a function that is called after each run that succeeded: `async fn(EndedRun)`, and up to three `State<T>` |
/// | `on_failure` | none | the same after each run that did not succeed, when no retry is left |
/// | `on_overdue` | none | the same for each tick that was not started within its grace: `async fn(OverdueTick)` |
/// | `crate` | `::jobs` | where this crate is, if it is renamed or re-exported: `crate = my::jobs` |
///
/// `jobs::guide::failures` describes for each of them what happens in each failure, and how long it takes.
///
/// Durations are written `"250ms"`, `"60s"`, `"5m"`, `"1h 30m"`, `"2days"`. Every value is checked at compile time,
/// by the rules that the runtime uses for jobs built at run time.
///
/// # The function
///
/// It takes `Run`, `State<T>` and `Option<State<T>>`, any number in any order, and returns `()` or
/// `Result<T, E>` with an error that converts into `Box<dyn Error + Send + Sync>`. Its doc comment is the
/// job's description. `#[cfg(…)]` on the function applies to the job, too; all other attributes apply to the function only.
///
/// It is compiled as it is written, so it can be called like any other function, for example in a unit test:
///
/// ```
/// # use jobs::{Run, singleton_job};
/// #[singleton_job(key = "close-books", every = "0 3 * * *", tz = "Europe/Berlin")]
/// async fn close_books(run: Run) -> Result<i64, String> {
///     Ok(run.fence())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_eq!(close_books(Run::detached("close-books")).await, Ok(1));
/// # });
/// ```
///
/// # What it does not do
///
/// * It starts nothing. The job is only registered; `jobs::start_all()` starts every registered job.
/// * It takes no lock around a direct call: the caller runs the function at once.
/// * It cannot see other jobs: two jobs with the same key are an error at start.
/// * It does not link a library. The jobs of a library that the program never mentions are not part of the program;
///   write `use that_library as _;`.
/// * It does not work inside `impl` and `trait` blocks, nor on generic functions: a key names exactly one
///   function.
#[proc_macro_attribute]
pub fn singleton_job(arguments: TokenStream, item: TokenStream) -> TokenStream {
    job::singleton_job(arguments.into(), &item.into()).into()
}

/// Makes an `async fn` run under a lock: of all calls for the same key, on all servers, one runs at a time.
///
/// ```
/// use jobs::{locked, locks::NotRun};
///
/// /// Charges the card, once a day at most.
/// #[locked(key = "payment:{order_id}", ttl = "30s", wait = "5s", within = "24h")]
/// async fn charge(order_id: u64, amount: u32) -> Result<String, std::io::Error> {
///     Ok(format!("{amount} for order {order_id}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let jobs = jobs::builder().without_jobs().url("memory://locked").start_all().await?;
/// let receipt = charge(7, 300).await??;
/// assert_eq!(receipt, "300 for order 7");
///
/// match charge(7, 300).await {
///     Err(NotRun::AlreadyDone { at, .. }) => println!("order 7 was charged at {at}"),
///     other => panic!("{other:?}"),
/// }
/// assert!(charge(8, 300).await.is_ok(), "another order has another lock");
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
///
/// The function returns `Result<T, jobs::locks::NotRun>`, where `T` is the return type that you wrote. It did not run if
/// another caller holds the lock, if an earlier call succeeded, or if the lock cannot be acquired.
///
/// # Arguments
///
/// | argument | default | meaning |
/// |---|---|---|
/// | `key` | required | names the lock on every server, with values of the parameters: `"payment:{order_id}"` |
/// | `ttl` | `"30s"` | how long the lock lasts if its server dies: `"1s"` to `"7days"` |
/// | `wait` | none: the call fails at once if the lock is held | how long to wait for the lock, or `"forever"` |
/// | `within` | none: a plain lock | the period in which a call that succeeded is not run again: `"1s"` to `"3650days"` |
/// | `keep_alive` | `true` | `false` never extends the lock: a call that is still running shortly before the ttl ends is dropped |
/// | `crate` | `::jobs` | where this crate is, if it is renamed or re-exported: `crate = my::jobs` |
///
/// Every value is checked at compile time.
///
/// # The key
///
/// `{order_id}` is a parameter, `{order.id}` a field of a parameter, `{self.shop}` a field of `self`. Its type implements
/// `Display`. The text around values consists of `A–Z a–z 0–9 . _ : / -`, with a `:` or a `/` between two values.
///
/// Different values make different keys. In a value letters, digits, `_` and `-` stay, `.` becomes `..`, and every other
/// byte becomes `.XX` in hexadecimal, so that a customer called `7:8` does not get the lock of another one. A value may be
/// empty. A key of 128 characters or more keeps its first 94 and ends in `..` and a hash of the whole key. A manual lock
/// with the same key, such as `jobs::lock("payment:7")`, is the same lock.
///
/// # The function
///
/// It is any `async fn` with a body: a free function, a method that takes `self` in whatever way, generic, with
/// patterns, in the `impl` of a trait whose method returns
/// `Result<T, NotRun>`. In the body `Run::current()` has the fence, and `assert_locked()` passes. The body runs on the task
/// of its caller, and only while the lock is held: when the lock is lost, the body is dropped at its next `await`. The lock
/// is on the default server, as with `jobs::lock`.
///
/// With `within` it returns `()` or a `Result`. Only success counts as done: after an error, a panic or a crash the next
/// call runs it. Its own error is in the `Ok`: `charge(7).await??`.
///
/// # What it does not do
///
/// * It is not reentrant. A function that calls itself, or another one, for the key that it holds finds the lock held: it
///   fails at once, or after its `wait`; with `"forever"` it waits for itself.
/// * It does not run anything "exactly once": if a server dies after the work and before the mark, the work is done again,
///   so make writes repeatable.
/// * It does not compare the arguments of the function that are not in the key: with `within` a second call for the same
///   key is done, whatever its other arguments are.
/// * It cannot be added to a job, which has a lock of its own.
#[proc_macro_attribute]
pub fn locked(arguments: TokenStream, item: TokenStream) -> TokenStream {
    locked::locked(arguments.into(), item.into()).into()
}
