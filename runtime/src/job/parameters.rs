//! The parameters of a job's function.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;

use crate::Run;

/// A value given to the builder with [`state`](crate::Builder::state), cloned into each run.
///
/// ```
/// # use jobs::{singleton_job, State};
/// #[derive(Clone)]
/// struct Db;
///
/// #[singleton_job(key = "import-products", every = "0 * * * *")]
/// async fn import_products(State(db): State<Db>) {
///     let _: Db = db;
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<T>(pub T);

/// Something that a job's function can take as a parameter: [`Run`], [`State<T>`] or
/// `Option<State<T>>`.
#[diagnostic::on_unimplemented(
    message = "a job cannot take a parameter of type `{Self}`",
    label = "not something that a job can be given",
    note = "a job takes `Run`, `State<T>` and `Option<State<T>>`, any number in any order",
    note = "for a value of your own write `State<T>`, and give it to the builder: `jobs::builder().state(…)`"
)]
pub trait FromRun: Sized {
    /// Adds the state that the parameter needs, which is checked at start.
    #[doc(hidden)]
    fn needs(needs: &mut Needs);

    /// Returns the parameter's value for one run.
    #[doc(hidden)]
    fn from_run(run: &Run, states: &States) -> Self;
}

/// The state types that a job needs.
#[derive(Default)]
pub struct Needs(pub(crate) Vec<Need>);

pub(crate) struct Need {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
}

/// The values given to the builder, one per type.
#[derive(Default)]
pub struct States {
    values: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    pub(crate) repeated: Vec<&'static str>,
}

impl States {
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        if self.values.insert(TypeId::of::<T>(), Box::new(value)).is_some() {
            self.repeated.push(type_name::<T>());
        }
    }

    pub(crate) fn contains(&self, id: TypeId) -> bool {
        self.values.contains_key(&id)
    }

    fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.values.get(&TypeId::of::<T>())?.downcast_ref().cloned()
    }
}

impl<T: Clone + 'static> State<T> {
    pub(crate) fn from_states(states: &States) -> Self {
        Self(states.get().expect("start_all() refuses to start while a job's state is missing"))
    }
}

impl FromRun for Run {
    fn needs(_: &mut Needs) {}

    fn from_run(run: &Run, _: &States) -> Self {
        run.clone()
    }
}

impl<T: Clone + Send + Sync + 'static> FromRun for State<T> {
    fn needs(needs: &mut Needs) {
        needs.0.push(Need { id: TypeId::of::<T>(), name: type_name::<T>() });
    }

    fn from_run(_: &Run, states: &States) -> Self {
        Self::from_states(states)
    }
}

impl<T: Clone + Send + Sync + 'static> FromRun for Option<State<T>> {
    fn needs(_: &mut Needs) {}

    fn from_run(_: &Run, states: &States) -> Self {
        states.get().map(State)
    }
}
