//! Tests every promise on a store.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::{AccessFuture, Capability, Subject};

mod fences;
mod full_state;
mod lists;
mod locks;
mod looks;
mod notes;
mod records;
mod swaps;

/// Promises mostly wait for the store, or for time to pass.
const AT_A_TIME: usize = 8;

/// No promise takes so long, unless the store never answers.
const PATIENCE: Duration = Duration::from_secs(60);

struct Promise {
    name: &'static str,
    need: Option<Capability>,
    prove: for<'a> fn(&'a Subject) -> AccessFuture<'a>,
}

macro_rules! table {
    ($($area:ident { $($promise:ident $(: $need:ident)?;)+ })+) => {
        &[$($(Promise {
            name: stringify!($promise),
            need: [$(crate::__store_need!($need))?].first().copied(),
            prove: |subject| Box::pin($area::$promise(subject)),
        },)+)+]
    };
}

static PROMISES: &[Promise] = crate::__every_promise! { [table] };

/// Tests every promise, each on a store that `open` opens for it.
///
/// `without` names what the subject does not have. The promises that need it are left out, and listed in the test's
/// output.
///
/// # Panics
///
/// With the name of every promise that is not kept, and what the store answered. Also if `without` is wrong: what it
/// does not name must be there, and what it names must not.
pub async fn contract(open: impl AsyncFn() -> Subject, without: &[Capability]) {
    let report = Report::on(open).await;
    println!("{} promises are kept", report.kept);
    for (need, promises) in &report.left_out {
        println!("{} are not applicable without {need}: {}", promises.len(), promises.join(", "));
    }
    let problems = report.problems(without);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Tests one promise, in a runtime of its own. [`store_contract`](crate::store_contract) calls it.
#[doc(hidden)]
pub fn prove(promise: &str, open: impl AsyncFn() -> Subject) {
    let promise = PROMISES.iter().find(|known| known.name == promise).expect("a promise of the list");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let subject = open().await;
        if let Some(need) = promise.lacks(&subject) {
            let (name, remedy) = (promise.name, need.remedy());
            panic!("{name} needs {need}: see `{remedy}`, or name it behind `without`");
        }
        promise.put_to(&subject).await;
    });
}

impl Promise {
    fn lacks(&self, subject: &Subject) -> Option<Capability> {
        self.need.filter(|need| !subject.can(*need))
    }

    async fn put_to(&self, subject: &Subject) {
        let proved = tokio::time::timeout(PATIENCE, (self.prove)(subject)).await;
        assert!(proved.is_ok(), "{} was still waiting for the store after {PATIENCE:?}", self.name);
    }
}

/// The results of the promises.
#[derive(Default)]
struct Report {
    kept: usize,
    left_out: BTreeMap<Capability, Vec<&'static str>>,
    broken: Vec<(&'static str, String)>,
}

impl Report {
    async fn on(open: impl AsyncFn() -> Subject) -> Self {
        let room = Arc::new(Semaphore::new(AT_A_TIME));
        let mut proofs = Vec::new();
        for promise in PROMISES {
            let room = Arc::clone(&room).acquire_owned().await;
            let subject = open().await;
            let proof = tokio::spawn(async move {
                let _room = room;
                let lacks = promise.lacks(&subject);
                if lacks.is_none() {
                    promise.put_to(&subject).await;
                }
                lacks
            });
            proofs.push((promise.name, AbortOnDropHandle::new(proof)));
        }
        let mut report = Self::default();
        for (name, proof) in proofs {
            match proof.await {
                Ok(None) => report.kept += 1,
                Ok(Some(need)) => report.left_out.entry(need).or_default().push(name),
                Err(error) => report.broken.push((name, message_of(error.into_panic().as_ref()))),
            }
        }
        report
    }

    fn problems(&self, without: &[Capability]) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, answer) in &self.broken {
            problems.push(format!("{name} is not kept: {answer}"));
        }
        for need in Capability::ALL {
            let (left_out, remedy) = (self.left_out.get(&need), need.remedy());
            match left_out {
                Some(promises) if !without.contains(&need) => problems.push(format!(
                    "{} promises could not be put to the test without {need} (see `{remedy}`, or say that the \
                     subject has none by `&[Capability::{need:?}]`): {}",
                    promises.len(),
                    promises.join(", ")
                )),
                None if without.contains(&need) => problems.push(format!(
                    "nothing was left out for `Capability::{need:?}`: the subject has {need}, so do not name it"
                )),
                _ => {}
            }
        }
        problems
    }
}

/// Returns the message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}
