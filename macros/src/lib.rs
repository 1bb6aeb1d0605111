//! The attribute of `singleton-jobs`.
use proc_macro::TokenStream;
/// placeholder
#[proc_macro_attribute]
pub fn singleton_job(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    item
}
