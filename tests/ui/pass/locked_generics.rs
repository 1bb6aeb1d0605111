use std::fmt::{Debug, Display};

use jobs::locked;

#[locked(key = "generic:{id}/{name}")]
async fn generic<'a, T, const N: usize>(id: T, name: impl Display, rest: &'a [T; N]) -> &'a [T]
where
    T: Display + Clone,
{
    drop(id);
    rest
}

#[locked(key = "borrowed:{id}")]
async fn borrowed<T: Display + ?Sized>(id: &T) -> impl Debug {
    id.to_string()
}

struct Queue<T>(T);

impl<T: Display> Queue<T> {
    #[locked(key = "queue:{self.0}", within = "1h")]
    async fn drain<E: From<std::io::Error>>(&self) -> Result<Vec<u8>, E> {
        Ok(std::fs::read(self.0.to_string())?)
    }
}

pub(super) fn main() {}
