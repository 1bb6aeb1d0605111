//! Decides what operators ask for all jobs, and keeps the list of their actions.

use std::sync::Arc;

use super::super::{Action, FleetState, Look, Pause, PauseOrder};
use super::transition::Transition;
use super::{Decision, expiry};

/// Number of actions that are kept.
const KEPT_ACTIONS: usize = 200;

/// Adds an action to the list of the fleet, at the look's time, and notifies the servers if it concerns one of them.
pub fn note_action(look: &Look, action: &Action, notify: bool) -> Decision<()> {
    let mut transition = Transition::new(look);
    let mut fleet = transition.fleet_state();
    fleet.actions.insert(0, Action { at: transition.now, ..action.clone() });
    fleet.actions.truncate(KEPT_ACTIONS);
    transition.change.notify = notify;
    transition.set_fleet_state(fleet);
    transition.finish(())
}

/// Pauses jobs that are registered from now on. Those that exist are paused one by one.
pub fn pause_fleet(look: &Look, order: &PauseOrder) -> Decision<Pause> {
    let mut transition = Transition::new(look);
    let now = transition.now;
    let mut fleet = transition.fleet_state();
    let current = fleet.pause.filter(|pause| pause.is_active(now));
    let pause = Pause {
        by: order.by.clone(),
        reason: order.reason.clone(),
        since: current.map_or(now, |pause| pause.since),
        until: order.lasts.map(|lasts| expiry(now, lasts)),
        all: true,
    };
    fleet.pause = Some(pause.clone());
    transition.set_fleet_state(fleet);
    transition.finish(pause)
}

/// Lets jobs that are registered from now on start unpaused. Returns the pause that ends.
pub fn resume_fleet(look: &Look) -> Decision<Option<Pause>> {
    let mut transition = Transition::new(look);
    let mut fleet = transition.fleet_state();
    let pause = fleet.pause.take();
    if pause.is_some() {
        transition.set_fleet_state(fleet);
    }
    let now = look.now;
    transition.finish(pause.filter(|pause| pause.is_active(now)))
}

impl Transition<'_> {
    fn fleet_state(&self) -> FleetState {
        self.fleet.as_deref().cloned().unwrap_or_default()
    }

    fn set_fleet_state(&mut self, fleet: FleetState) {
        let state = self.edit();
        (state.fleet, state.expires) = (Some(Arc::new(fleet)), None);
    }
}
