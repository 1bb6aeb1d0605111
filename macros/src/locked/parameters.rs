//! The names that a key can use.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::{FnArg, Pat, Signature, Token};

/// The names that the parameters of a function bind.
pub(super) struct Parameters {
    receiver: Option<Token![self]>,
    names: Vec<Ident>,
}

impl Parameters {
    pub(super) fn of(signature: &Signature) -> Self {
        let mut parameters = Self { receiver: None, names: Vec::new() };
        for input in &signature.inputs {
            match input {
                FnArg::Receiver(receiver) => parameters.receiver = Some(receiver.self_token),
                FnArg::Typed(parameter) => collect(&parameter.pat, &mut parameters.names),
            }
        }
        parameters
    }

    /// The expression for `order_id` or `order.id`.
    ///
    /// A message about a parameter's type points at the parameter, a message about a field at the key: a part of a string
    /// literal has no span of its own.
    pub(super) fn value(&self, path: &[String], literal: Span) -> Result<TokenStream, String> {
        let (first, fields) = path.split_first().ok_or("a value without a name")?;
        let mut parameter = self.find(first).ok_or_else(|| self.unknown(first))?;
        if fields.is_empty() {
            return Ok(parameter.into_token_stream());
        }
        // Resolved as the parameter, even if a macro wrote the key and its caller the parameter.
        let at = literal.resolved_at(parameter.span());
        parameter.set_span(at);
        let fields = fields.iter().map(|field| member(field, at)).collect::<Result<Vec<_>, _>>()?;
        Ok(quote_spanned!(at=> #parameter #(.#fields)*))
    }

    fn find(&self, name: &str) -> Option<Ident> {
        match self.receiver {
            Some(receiver) if name == "self" => Some(Ident::new("self", receiver.span)),
            _ => self.names.iter().find(|known| known.unraw() == name).cloned(),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let receiver = self.receiver.map(|_| "self".to_owned());
        let names = receiver.into_iter().chain(self.names.iter().map(|name| name.unraw().to_string()));
        let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
        match names.as_slice() {
            [] => format!("the key names `{name}`, but the function has no parameters"),
            [only] => format!("the key names `{name}`, but the only parameter is {only}"),
            _ => format!("the key names `{name}`, but the parameters are {}", names.join(", ")),
        }
    }
}

/// The name of a field, or its number.
fn member(field: &str, at: Span) -> Result<TokenStream, String> {
    if let Ok(index) = field.parse() {
        let mut index = Literal::u16_unsuffixed(index);
        index.set_span(at);
        return Ok(index.into_token_stream());
    }
    // A keyword is a field's name in its raw form, except for those that have none (`self`).
    let name = syn::parse_str::<Ident>(field).or_else(|_| syn::parse_str(&format!("r#{field}")));
    let mut name = name.map_err(|_| format!("the key names a field `{field}`, which no type can have"))?;
    name.set_span(at);
    Ok(name.into_token_stream())
}

/// Collects the names that a pattern binds.
fn collect(pattern: &Pat, names: &mut Vec<Ident>) {
    match pattern {
        Pat::Ident(binding) => {
            names.push(binding.ident.clone());
            if let Some((_, inner)) = &binding.subpat {
                collect(inner, names);
            }
        }
        Pat::Tuple(tuple) => tuple.elems.iter().for_each(|inner| collect(inner, names)),
        Pat::TupleStruct(tuple) => tuple.elems.iter().for_each(|inner| collect(inner, names)),
        Pat::Slice(slice) => slice.elems.iter().for_each(|inner| collect(inner, names)),
        Pat::Struct(fields) => fields.fields.iter().for_each(|field| collect(&field.pat, names)),
        Pat::Reference(reference) => collect(&reference.pat, names),
        Pat::Paren(paren) => collect(&paren.pat, names),
        _ => {}
    }
}
