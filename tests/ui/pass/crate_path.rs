mod my {
    pub mod scheduling {
        pub use ::jobs::*;
    }
}

extern crate jobs as renamed;

#[renamed::singleton_job(key = "relative", crate = my::scheduling)]
async fn relative() {}

#[renamed::singleton_job(crate = crate::crate_path::my::scheduling, key = "absolute")]
async fn absolute() {}

#[renamed::singleton_job(key = "renamed", crate = renamed,)]
async fn renamed_dependency(run: renamed::Run) {
    run.fence();
}

pub(super) fn main() {}
