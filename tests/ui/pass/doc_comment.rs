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

fn main() {
    let mut jobs: Vec<_> = jobs::__private::inventory::iter::<jobs::__private::Registration>
        .into_iter()
        .map(|job| (job.settings.key, job.description))
        .collect();
    jobs.sort_unstable();
    let above = "Pulls new products from the supplier.\n\nIndented, \"quoted\" and {braced}.";
    assert_eq!(jobs, [("above", above), ("below", "Pulls new prices\nfrom the supplier.")]);
}
