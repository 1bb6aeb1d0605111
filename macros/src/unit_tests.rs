//! The attributes as a plain program, with their tests.

mod args;
mod expand;
mod function;
mod fuzz;
mod job;
mod locked;
mod near_miss;
