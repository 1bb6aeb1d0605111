//! Where tasks run.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A runtime. In the test kit also a stage: what runs there can be stopped and killed like a process.
#[derive(Clone)]
pub(crate) struct Place {
    runtime: Handle,
    stage: Option<Arc<Stage>>,
}

impl Place {
    pub(crate) fn runtime(runtime: Handle) -> Self {
        Self { runtime, stage: None }
    }

    pub(crate) fn staged(runtime: Handle, stage: Arc<Stage>) -> Self {
        Self { runtime, stage: Some(stage) }
    }

    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match &self.stage {
            None => self.runtime.spawn(future),
            Some(stage) => self.runtime.spawn(stage.clone().play(future)),
        }
    }
}

/// What a process is to its threads: while it is stopped none of them goes on, and when it is killed they are gone.
#[derive(Default)]
pub(crate) struct Stage(Mutex<Scene>);

#[derive(Default)]
struct Scene {
    act: Act,
    next_seat: u64,
    waiting: HashMap<u64, Waker>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Act {
    #[default]
    Playing,
    Stopped,
    Killed,
}

impl Stage {
    pub(crate) fn stop(&self) {
        self.turn_to(Act::Stopped);
    }

    pub(crate) fn go_on(&self) {
        self.turn_to(Act::Playing);
    }

    pub(crate) fn kill(&self) {
        self.turn_to(Act::Killed);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.scene().act == Act::Killed
    }

    fn turn_to(&self, act: Act) {
        let mut scene = self.scene();
        if scene.act != Act::Killed {
            scene.act = act;
        }
        let waiting: Vec<_> = scene.waiting.drain().map(|(_, waker)| waker).collect();
        drop(scene);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Polls a future only while the stage plays. A killed one is dropped and never completes.
    async fn play<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        let ended = {
            let seat = self.seat();
            let mut future = pin!(future);
            poll_fn(|polling| match seat.look(polling) {
                Act::Playing => future.as_mut().poll(polling).map(Some),
                Act::Stopped => Poll::Pending,
                Act::Killed => Poll::Ready(None),
            })
            .await
        };
        match ended {
            Some(output) => output,
            None => std::future::pending().await,
        }
    }

    fn seat(&self) -> Seat<'_> {
        let mut scene = self.scene();
        scene.next_seat += 1;
        Seat { stage: self, number: scene.next_seat }
    }

    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Seat<'a> {
    stage: &'a Stage,
    number: u64,
}

impl Seat<'_> {
    /// Whoever looks is woken at the next turn.
    fn look(&self, polling: &Context<'_>) -> Act {
        let mut scene = self.stage.scene();
        scene.waiting.insert(self.number, polling.waker().clone());
        scene.act
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.stage.scene().waiting.remove(&self.number);
    }
}
