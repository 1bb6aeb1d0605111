//! The types that a job's function can return.

use std::error::Error;

/// Any error that a job can fail with.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A type that a job's function can return: `()`, or `Result<T, E>` with an error that can be boxed.
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "not an outcome",
    note = "a job returns `()` or `Result<T, E>`, where `E` is an error: `std::io::Error`, `anyhow::Error`, \
            `String` or one of your own"
)]
pub trait IntoOutcome {
    #[doc(hidden)]
    fn into_outcome(self) -> Result<(), BoxError>;
}

/// An error that a job can return: everything that converts into `Box<dyn Error + Send + Sync>`.
#[diagnostic::on_unimplemented(
    message = "a job cannot fail with `{Self}`",
    label = "this error cannot be boxed",
    note = "a job's error converts into `Box<dyn Error + Send + Sync>`: implement `std::error::Error` for it, or \
            return that box, `anyhow::Error` or `String`"
)]
pub trait JobError {
    #[doc(hidden)]
    fn into_box(self) -> BoxError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> JobError for E {
    fn into_box(self) -> BoxError {
        self.into()
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<T, E: JobError> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Result<(), BoxError> {
        self.map(drop).map_err(JobError::into_box)
    }
}

/// How many characters of an error's text are kept in a record.
const LONGEST_ERROR: usize = 2000;

/// How many causes of an error are followed.
const MOST_CAUSES: usize = 16;

/// An error with its causes in one line, cut at 2,000 characters.
pub(crate) fn describe_error(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..MOST_CAUSES {
        let Some(error) = cause else { break };
        let line = error.to_string();
        // Many errors already print their cause.
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        cause = error.source();
    }
    cut(&text)
}

pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_ERROR) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
