use jobs::singleton_job;

#[singleton_job(key = "no-below")]
#[cfg(any())]
async fn no_below() {}

#[cfg(any())]
#[singleton_job(key = "no-above")]
async fn no_above() {}

#[singleton_job(key = "no-by-cfg-attr")]
#[cfg_attr(all(), cfg(any()), doc = "Never there.")]
async fn no_by_cfg_attr() {}

#[singleton_job(key = "yes")]
#[cfg(not(any()))]
#[cfg_attr(all(), cfg(all()), allow(dead_code), doc = "Always there.")]
async fn yes() {}

#[cfg_attr(all(), singleton_job(key = "yes-by-cfg-attr"))]
async fn yes_by_cfg_attr() {}

pub(super) fn main() {
    let keys: Vec<_> = super::registered(module_path!()).iter().map(|job| job.settings.key).collect();
    assert_eq!(keys, ["yes", "yes-by-cfg-attr"]);
}
