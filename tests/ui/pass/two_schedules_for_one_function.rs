use jobs::singleton_job;

#[singleton_job(key = "import-weekdays", every = "0 6 * * MON-FRI")]
#[singleton_job(key = "import-weekend", every = "0 9 * * SAT,SUN")]
async fn import() {}

fn main() {
    assert_eq!(jobs::__private::inventory::iter::<jobs::__private::Registration>.into_iter().count(), 2);
}
