use std::fmt::Display;

use jobs::locked;

#[locked(key = "nothing")]
async fn nothing() {}

#[locked(key = "boxed")]
async fn boxed(early: bool) -> Box<dyn Display + Send> {
    if early {
        return Box::new(7);
    }
    let text = Box::new("seven");
    text
}

#[locked(key = "question")]
async fn question(text: &str) -> anyhow::Result<u32> {
    let number: u32 = text.parse()?;
    if number == 0 {
        anyhow::bail!("zero");
    }
    Ok(number)
}

#[locked(key = "opaque")]
async fn opaque() -> impl Iterator<Item = u8> {
    [1, 2].into_iter()
}

#[locked(key = "endless")]
async fn endless() -> u8 {
    loop {
        nothing().await.ok();
    }
}

#[locked(key = "once", within = "1h")]
async fn once() -> Result<impl Display, std::io::Error> {
    Ok::<_, std::io::Error>("done")
}

pub(super) fn main() {}
