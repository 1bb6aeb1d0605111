//! The calls of operators in a simulation.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::super::plan::OperatorCall;
use super::super::recorder::{Recorder, first_word};
use crate::Jobs;
use crate::util::probe::reached;

/// Makes a call in a task of its own.
pub(in crate::testing::simulation) fn call(
    jobs: Jobs,
    key: Arc<str>,
    call: OperatorCall,
    _recorder: &Recorder,
) {
    drop(tokio::spawn(async move {
        let answer = match call {
            OperatorCall::Pause { .. } => format!("pause: {:?}", jobs.pause(&key).await),
            OperatorCall::RunNow => format!("run now: {:?}", jobs.run_now(&key).await),
            OperatorCall::Cancel => format!("cancel: {:?}", jobs.cancel(&key).await),
            OperatorCall::Break => {
                let broken = jobs.break_lock(&key).await;
                format!("break: {:?}", broken.map(|held| !held.is_empty()))
            }
            OperatorCall::Reset => format!("reset: {:?}", jobs.reset(&key).await),
            OperatorCall::Forget => format!("forget: {:?}", jobs.forget(&key).await),
        };
        reached(format_args!("{}", short(&answer)));
    }));
}

/// `run now: Ok(Ran)` of a long answer.
fn short(answer: &str) -> String {
    let Some((call, result)) = answer.split_once(": ") else { return answer.to_owned() };
    let Some((result, inner)) = result.split_once('(') else { return answer.to_owned() };
    format!("{call}: {result}({})", first_word(inner))
}

/// Resumes a job, in a task of its own.
pub(in crate::testing::simulation) fn resume(jobs: Jobs, key: Arc<str>, _recorder: &Recorder) {
    drop(tokio::spawn(async move {
        while timeout(Duration::from_secs(10), jobs.resume(&key)).await.is_ok_and(|resumed| resumed.is_err())
        {
            sleep(Duration::from_millis(500)).await;
        }
    }));
}
