//! `jobsctl dashboard`: the standalone dashboard.

use support::folder::TempFolder;

use super::exporter::{Serving, get};
use super::kit::run;

#[tokio::test]
async fn dashboard_is_served_and_needs_a_token_beyond_this_machine() {
    let folder = TempFolder::new();
    let url = format!("file://{}", folder.path().display());
    let refused = run(&["dashboard", "--listen", "0.0.0.0:0", "--url", &url]).await;
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.errors.contains("--token-file"), "{refused:?}");

    let open = Serving::start(&["dashboard", "--listen", "127.0.0.1:0", "--title", "Shop", "--url", &url]);
    let page = get(&open.address, "/overview");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("Shop"), "{page}");

    let token = folder.put("token", "s3cret\n");
    let listen = ["dashboard", "--listen", "127.0.0.1:0", "--token-file", &token, "--url", &url];
    let protected = Serving::start(&listen);
    let page = get(&protected.address, "/");
    assert!(page.starts_with("HTTP/1.1 401") && !page.contains("s3cret"), "{page}");
}
