use jobs::{Run, singleton_job};

#[singleton_job(key = "type")]
async fn r#type(r#in: Run) {
    drop(r#in);
}

fn main() {
    let registration = jobs::__private::inventory::iter::<jobs::__private::Registration>.into_iter().next();
    assert_eq!(registration.unwrap().function, "type");
}
