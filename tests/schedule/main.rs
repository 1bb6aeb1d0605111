//! When a job is due: schedules, time zones and a policy's rules, without a store.

mod daylight_saving;
mod delay_and_grace;
mod forms;
mod mistakes;
mod policy;
mod properties;
