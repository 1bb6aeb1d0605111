//! The hooks of a job: functions of the application that are called after a run, or for a tick that is overdue.

use std::pin::Pin;
use std::sync::Arc;

use super::outcome::{BoxError, IntoOutcome};
use super::parameters::{FromRun, Needs, State, States};
use crate::Timestamp;
use crate::history::RunRecord;

/// A run that has ended, for a hook of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedRun {
    /// The job's key.
    pub key: String,
    /// The record of the run: its outcome, its error, its duration.
    pub record: RunRecord,
}

/// A tick that was not started within its grace, as far as this server knows, for a hook of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverdueTick {
    /// The job's key.
    pub key: String,
    /// The tick.
    pub tick: Timestamp,
    /// The id of the server that reports it.
    pub server: String,
}

/// A call of a hook.
pub type HookCall = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// A hook, with its parameters taken from what it is called for and from the state.
pub(crate) type HookFunction<E> = Arc<dyn Fn(E, &States) -> HookCall + Send + Sync>;

/// The hooks of a job, at most one of each kind.
#[derive(Clone, Default)]
pub(crate) struct JobHooks {
    pub(crate) success: Option<HookFunction<EndedRun>>,
    pub(crate) failure: Option<HookFunction<EndedRun>>,
    pub(crate) overdue: Option<HookFunction<OverdueTick>>,
}

/// A function that an annotated job can name as its hook: an `async fn` that takes an [`EndedRun`], or an [`OverdueTick`], and
/// then up to three values of [`State`].
#[diagnostic::on_unimplemented(
    message = "this function cannot be called as a hook",
    label = "not a hook for `{E}`",
    note = "`on_success` and `on_failure` name an `async fn(EndedRun)`, `on_overdue` names an `async fn(OverdueTick)`; up to \
            three parameters of type `State<T>` may follow",
    note = "a hook returns `()` or `Result<T, E>`, and its future can be sent to another thread"
)]
pub trait JobHook<E, P>: Send + Sync + 'static {
    #[doc(hidden)]
    fn needs(needs: &mut Needs);

    #[doc(hidden)]
    fn call(&self, event: E, states: &States) -> HookCall;
}

macro_rules! hook_with {
    ($($state:ident),*) => {
        impl<E, F, Fut, $($state),*> JobHook<E, ($(State<$state>,)*)> for F
        where
            F: Fn(E, $(State<$state>),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output: IntoOutcome> + Send + 'static,
            $($state: Clone + Send + Sync + 'static,)*
        {
            fn needs(needs: &mut Needs) {
                let _ = &needs;
                $(<State<$state> as FromRun>::needs(needs);)*
            }

            fn call(&self, event: E, states: &States) -> HookCall {
                let _ = &states;
                let future = self(event, $(State::<$state>::from_states(states)),*);
                Box::pin(async move { future.await.into_outcome() })
            }
        }
    };
}

hook_with!();
hook_with!(A);
hook_with!(A, B);
hook_with!(A, B, C);

/// Not public API. The hooks that `#[singleton_job]` names, and the state that they need.
#[derive(Default)]
pub struct RegisteredHooks {
    pub(crate) hooks: JobHooks,
    pub(crate) needs: Needs,
}

impl RegisteredHooks {
    #[doc(hidden)]
    pub fn on_success<P, H: JobHook<EndedRun, P>>(&mut self, hook: H) {
        self.hooks.success = Some(self.function(hook));
    }

    #[doc(hidden)]
    pub fn on_failure<P, H: JobHook<EndedRun, P>>(&mut self, hook: H) {
        self.hooks.failure = Some(self.function(hook));
    }

    #[doc(hidden)]
    pub fn on_overdue<P, H: JobHook<OverdueTick, P>>(&mut self, hook: H) {
        self.hooks.overdue = Some(self.function(hook));
    }

    fn function<E, P, H: JobHook<E, P>>(&mut self, hook: H) -> HookFunction<E> {
        H::needs(&mut self.needs);
        Arc::new(move |event, states| hook.call(event, states))
    }
}
