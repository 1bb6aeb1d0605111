use jobs::{Run, singleton_job};

#[singleton_job(key = "below")]
#[tracing::instrument(skip_all, fields(fence = run.fence()))]
async fn below(run: Run) -> Result<(), std::io::Error> {
    std::fs::metadata(run.key())?;
    Ok(())
}

#[tracing::instrument(skip_all, err)]
#[singleton_job(key = "above")]
async fn above(run: Run) -> anyhow::Result<()> {
    run.cancelled().await;
    Ok(())
}

pub(super) fn main() {}
