use jobs::locked;

#[locked(key = "payment")]
struct Payment;

fn main() {}
