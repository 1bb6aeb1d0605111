//! A recorder of the application that panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{
    Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};

use super::{HOUR, hourly, secs};
use crate::observe::metrics::name;
use crate::testing::Fleet;

/// Panics when a run is counted as in progress.
struct PanickingRecorder;

struct PanickingGauge;

impl GaugeFn for PanickingGauge {
    fn increment(&self, _: f64) {
        panic!("a defect of the recorder");
    }

    fn decrement(&self, _: f64) {}

    fn set(&self, _: f64) {}
}

impl Recorder for PanickingRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        if key.name() == name::RUNNING { Gauge::from_arc(Arc::new(PanickingGauge)) } else { Gauge::noop() }
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

async fn starts_of_a_job() -> usize {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = starts.clone();
    let job = move || {
        let starts = counted.clone();
        let run = hourly().run(move |_| {
            starts.fetch_add(1, Ordering::SeqCst);
            std::future::ready(())
        });
        run.build().unwrap()
    };
    let fleet = Fleet::of(1).job(job).start().await.unwrap();
    fleet.run_for(secs(HOUR + 60)).await;
    starts.load(Ordering::SeqCst)
}

/// A function that had started would not be watched: its lease would be neither extended nor released.
#[tokio::test(start_paused = true)]
async fn function_does_not_start_if_the_recorder_panics_when_its_run_begins() {
    assert_eq!(starts_of_a_job().await, 1, "without it");
    let _recorder = set_default_local_recorder(&PanickingRecorder);
    assert_eq!(starts_of_a_job().await, 0);
}
