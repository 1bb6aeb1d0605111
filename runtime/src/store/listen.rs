//! Hearing that a key may have come free, instead of asking again and again.

use tokio::sync::watch;

/// Hears of it when a key is freed. Whoever waits still asks now and then: a message can get lost.
#[derive(Debug)]
pub struct Listener(watch::Receiver<u64>);

/// The store's end of a [`Listener`].
#[derive(Debug)]
pub struct Bell(watch::Sender<u64>);

impl Listener {
    /// A listener, and the bell that it hears.
    pub fn new() -> (Bell, Self) {
        let (bell, listener) = watch::channel(0);
        (Bell(bell), Self(listener))
    }

    /// Waits until the key may have come free, counted from when the store began to listen. `false` if the store can no
    /// longer tell, and has to be asked to listen again.
    pub async fn freed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl Bell {
    /// Another listener that hears this bell, from now on.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(super) fn listener(&self) -> Listener {
        Listener(self.0.subscribe())
    }

    /// Tells the listener; at once, and without waiting for it.
    pub fn ring(&self) {
        self.0.send_modify(|rung| *rung += 1);
    }

    /// Whether nobody listens any longer.
    pub fn is_unheard(&self) -> bool {
        self.0.is_closed()
    }
}
