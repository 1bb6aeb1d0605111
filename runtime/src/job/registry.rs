//! The jobs that the attribute registered in this program.

use std::pin::Pin;

use singleton_jobs_policy::{Problem, Settings};

use super::Job;
use super::hooks::RegisteredHooks;
use super::outcome::BoxError;
use super::parameters::{Needs, States};
use super::run::Run;

/// One run of a job's function, ready to be polled.
pub type JobFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// The registration of an annotated function, made by `#[singleton_job]`.
pub struct Registration {
    /// The attribute's arguments, which were checked at compile time.
    pub settings: Settings<'static>,
    /// The function's doc comment.
    pub description: &'static str,
    /// The function's name.
    pub function: &'static str,
    /// The module it is in.
    pub module: &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// Lists the state the parameters need.
    pub needs: fn(&mut Needs),
    /// Calls the function with its parameters.
    pub call: fn(&Run, &States) -> JobFuture,
    /// Adds the functions that are named as hooks.
    pub hooks: fn(&mut RegisteredHooks),
}

inventory::collect!(Registration);

/// Every annotated function that is linked into this program.
pub(crate) fn registered() -> Vec<Result<Job, (String, Vec<Problem>)>> {
    inventory::iter::<Registration>.into_iter().map(Registration::job).collect()
}

impl Registration {
    fn job(&self) -> Result<Job, (String, Vec<Problem>)> {
        let place = format!("{}:{}", self.file, self.line);
        let policy = self.settings.policy().map_err(|problems| (place.clone(), problems))?;
        let mut registered = RegisteredHooks::default();
        (self.hooks)(&mut registered);
        let RegisteredHooks { hooks, mut needs } = registered;
        (self.needs)(&mut needs);
        Ok(Job {
            policy,
            description: self.description.to_owned(),
            place,
            needs: needs.0,
            call: std::sync::Arc::new(self.call),
            hooks,
            activity: super::JobActivity::default(),
        })
    }
}
