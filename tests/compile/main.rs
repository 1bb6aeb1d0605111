//! What is known when a program compiles: what an attribute leaves behind, and that the text agrees with the code.
//! What the compiler says about each mistake is in `tests/ui`.

mod attribute;
mod dependencies;
mod layout;
mod programs;
mod promises;
mod readme;
