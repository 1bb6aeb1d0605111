use jobs::{Run, singleton_job};

#[singleton_job(key = "type")]
async fn r#type(r#in: Run) {
    drop(r#in);
}

pub(super) fn main() {
    assert_eq!(super::registered(module_path!())[0].function, "type");
}
