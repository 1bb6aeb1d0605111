use jobs::singleton_job;

/// Pulls new products from the supplier.
///
///     Indented, "quoted" and {braced}.
#[singleton_job(key = "above", every = "@hourly")]
async fn above() {}

#[singleton_job(key = "below", every = "@hourly")]
/** Pulls new prices
from the supplier. */
#[doc(alias = "prices")]
#[doc = concat!("Not", "text")]
async fn below() {}

pub(super) fn main() {
    let jobs = super::registered(module_path!());
    let jobs: Vec<_> = jobs.iter().map(|job| (job.settings.key, job.description)).collect();
    let above = "Pulls new products from the supplier.\n\nIndented, \"quoted\" and {braced}.";
    assert_eq!(jobs, [("above", above), ("below", "Pulls new prices\nfrom the supplier.")]);
}
