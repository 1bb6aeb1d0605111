//! The dashboard: in a real browser, and by plain requests.
//!
//! The browser is Chromium, driven by its own driver. `tests/run` installs both, and the accessibility checks (axe-core).

mod accessibility;
mod arbitrary;
mod browser;
mod clicked;
mod live;
mod many;
mod refused;
mod screenshots;
mod shown;
mod site;
