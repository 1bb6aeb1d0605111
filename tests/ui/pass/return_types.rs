use std::error::Error;
use std::fmt;

use jobs::{IntoOutcome, singleton_job};

#[derive(Debug)]
struct Failure;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failure")
    }
}

impl Error for Failure {}

#[singleton_job(key = "nothing")]
async fn nothing() {}

#[singleton_job(key = "unit")]
async fn unit() -> () {}

#[singleton_job(key = "own-error")]
async fn own_error() -> Result<(), Failure> {
    Err(Failure)
}

#[singleton_job(key = "value")]
async fn value() -> Result<Vec<u8>, std::io::Error> {
    Ok(std::fs::read("/dev/null")?)
}

#[singleton_job(key = "anyhow")]
async fn with_anyhow() -> anyhow::Result<()> {
    anyhow::bail!("no")
}

#[singleton_job(key = "boxed")]
async fn boxed() -> Result<(), Box<dyn Error + Send + Sync>> {
    Err(Failure)?
}

#[singleton_job(key = "text")]
async fn text() -> Result<(), String> {
    Err("no".to_owned())
}

#[singleton_job(key = "static-text")]
async fn static_text() -> Result<&'static str, &'static str> {
    Ok("yes")
}

#[singleton_job(key = "hidden")]
async fn hidden() -> impl IntoOutcome {
    Ok::<_, Failure>(7)
}

pub(super) fn main() {}
