//! The model: the protocol of one configuration, and its steps.

use stateright::{Model, Property};

use crate::broken::BrokenRule;
use crate::configurations::configuration::Configuration;
use crate::facts::properties;
use crate::facts::{Fact, Notes, Violation, Violations};
use crate::merging::numbering::number_versions;
use crate::real::{Real, SECOND};
use crate::small::{Contents, Micros, NO_TOKEN, SmallLook, Token};
use crate::state::{Half, History, MOST_SERVERS, Server, State};

/// The protocol of one configuration, with at most one rule broken.
pub struct Protocol {
    pub configuration: Configuration,
    pub broken: Option<BrokenRule>,
    /// Whether states that no step can tell apart are merged.
    pub merges: bool,
    pub real: Real,
    pub margin: Micros,
    pub response_timeout: Micros,
}

/// A step to another state.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub label: Label,
    next: Box<State>,
}

/// The description of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label {
    /// The token of the claim, if it is about one.
    pub token: Token,
    pub text: &'static str,
    pub result: &'static str,
}

impl Label {
    pub fn of(token: Token, text: &'static str) -> Self {
        Self { token, text, result: "" }
    }

    pub fn with(self, result: &'static str) -> Self {
        Self { result, ..self }
    }
}

impl Protocol {
    pub fn new(configuration: Configuration, broken: Option<BrokenRule>) -> Self {
        let real = Real::new(configuration.policy);
        let (margin, response_timeout) = (real.margin(), real.response_timeout());
        Self { configuration, broken, merges: true, real, margin, response_timeout }
    }

    /// The same without merging states.
    pub fn without_merging(configuration: Configuration, broken: Option<BrokenRule>) -> Self {
        Self { merges: false, ..Self::new(configuration, broken) }
    }

    /// Real time.
    pub fn time(&self, state: &State) -> Micros {
        Micros::from(self.configuration.clock[usize::from(state.instant)]) * SECOND
    }

    /// The store's clock.
    pub fn store_now(&self, state: &State) -> Micros {
        self.time(state) + state.offset + self.configuration.past_second
    }

    /// The last instant of the store's clock, if it does not jump.
    pub fn last_instant(&self) -> Micros {
        Micros::from(*self.configuration.clock.last().expect("a clock")) * SECOND
            + self.configuration.past_second
    }

    /// Whether the store's clock can still go back.
    pub fn clock_goes_back(&self, state: &State) -> bool {
        self.configuration.jumps[usize::from(state.jumps)..].iter().any(|jump| *jump < 0)
    }

    /// Whether a second copy of a swap can ever be applied: only if a version can come back.
    pub fn copies_matter(&self) -> bool {
        self.configuration.loses_records() || !self.compares_versions()
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            instant: 0,
            offset: 0,
            jumps: 0,
            store: Contents::default(),
            replica: None,
            servers: [Server::Idle; MOST_SERVERS],
            flights: Vec::new(),
            transaction: None,
            seen: None,
            budget: self.configuration.budget,
            history: History::default(),
            violations: Violations::default(),
            witness: None,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.witness.is_some() || !state.violations.is_empty() {
            return;
        }
        let (time, now) = (self.time(state), self.store_now(state));
        let mut explorer = Explorer { protocol: self, state, time, now, steps };
        explorer.claims();
        for index in 0..MOST_SERVERS {
            if index == 0 || state.servers[index] != state.servers[index - 1] {
                explorer.server(index);
            }
        }
        explorer.deliveries();
        explorer.transaction();
        explorer.environment();
        explorer.operator();
        explorer.passing_time();
    }

    fn next_state(&self, _: &State, step: Step) -> Option<State> {
        Some(*step.next)
    }

    fn format_action(&self, step: &Step) -> String {
        step.label.to_string()
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let always = Violation::ALL.into_iter().map(properties::always);
        let sometimes = self.configuration.sometimes.iter().copied().map(properties::sometimes);
        always.chain(sometimes).collect()
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.token != NO_TOKEN {
            write!(f, "[{}] ", self.token)?;
        }
        f.write_str(self.text)?;
        if !self.result.is_empty() {
            write!(f, ": {}", self.result)?;
        }
        Ok(())
    }
}

/// A look, or the first part of one.
pub enum Looked {
    Part(Half),
    Whole(SmallLook),
}

/// Finds all steps from one state.
pub struct Explorer<'a> {
    pub protocol: &'a Protocol,
    pub state: &'a State,
    /// Real time.
    pub time: Micros,
    /// The store's clock.
    pub now: Micros,
    steps: &'a mut Vec<Step>,
}

impl Explorer<'_> {
    /// A look at the key.
    pub fn look(&self) -> SmallLook {
        self.state.store.look(self.now)
    }

    /// The looks that a server can finish now, and the parts of looks that it can begin with.
    pub fn looks(&self, half: Option<Half>) -> Vec<Looked> {
        let (store, lock) = (&self.state.store, self.state.store.live_lock(self.now));
        match half {
            _ if !self.protocol.configuration.looks_twice => vec![Looked::Whole(self.look())],
            None => vec![Looked::Part(Half::Clock(self.now, lock)), Looked::Part(Half::Record(store.record))],
            Some(Half::Clock(now, lock)) => {
                vec![Looked::Whole(SmallLook { now, record: store.record, lock })]
            }
            Some(Half::Record(record)) => vec![Looked::Whole(SmallLook { now: self.now, record, lock })],
        }
    }

    /// Adds a step, with the facts that it shows.
    pub fn add(&mut self, label: Label, mut next: State, mut notes: Notes) {
        self.protocol.check(&next, &mut notes);
        notes.fact_if(self.is_raced(&next), Fact::Raced);
        for fact in &notes.facts {
            if self.protocol.configuration.sometimes.contains(fact) {
                self.steps.push(Step { label, next: Box::new(self.witness(*fact)) });
            }
        }
        if self.protocol.merges {
            self.protocol.settle(&mut next);
        } else {
            // Without that there would be no end of states: every extension has a new version.
            number_versions(&mut next);
        }
        next.violations = notes.violations;
        if next != *self.state {
            self.steps.push(Step { label, next: Box::new(next) });
        }
    }

    /// Whether a server has decided on a look that is no longer true: its swap would be refused, and it decides anew.
    fn is_raced(&self, next: &State) -> bool {
        let is_refused = |server: &Server| {
            let decided = match server {
                Server::Claiming(claiming) => claiming.decided,
                Server::Running(running) => running.extension,
                Server::Ending(ending) => ending.decided,
                Server::Idle => None,
            };
            decided.is_some_and(|decided| {
                decided.swap.expected == self.state.store.version()
                    && self.protocol.apply(&next.store, self.now, &decided.swap).is_none()
            })
        };
        next.store.version() != self.state.store.version() && next.servers.iter().any(is_refused)
    }

    /// A state that only witnesses a fact: one for all steps that show it.
    fn witness(&self, fact: Fact) -> State {
        let mut state = self.protocol.init_states().remove(0);
        state.witness = Some(fact);
        state
    }
}
