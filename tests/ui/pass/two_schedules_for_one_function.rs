use jobs::singleton_job;

#[singleton_job(key = "import-weekdays", every = "0 6 * * MON-FRI")]
#[singleton_job(key = "import-weekend", every = "0 9 * * SAT,SUN")]
async fn import() {}

pub(super) fn main() {
    assert_eq!(super::registered(module_path!()).len(), 2);
}
