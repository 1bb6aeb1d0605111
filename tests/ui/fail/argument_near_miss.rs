use jobs::singleton_job;

#[singleton_job(key = "import-products", evry = "1h")]
async fn import_products() {}

#[singleton_job(key = "close-books", every = "1h", retires = 3)]
async fn close_books() {}

#[singleton_job(key = "send-mails", Every = "1h", time_out = "1m")]
async fn send_mails() {}

#[singleton_job(key = "sweep", every = "1h", retrydelay = "5s", retries = 1)]
async fn sweep() {}

fn main() {}
