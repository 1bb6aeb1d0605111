//! Optional fields that a later version of the same format may write.

pub(super) const NAME: &str = "later_field";

/// Values of these are one of several variants, not an object with fields.
const VARIANTS: [&str; 2] = ["\"kind\":", "\"answer\":"];

/// Adds a field to every object of a JSON text, behind its own fields.
pub(super) fn add(json: &str) -> String {
    let (mut added, mut in_text, mut escaped) = (String::new(), false, false);
    // For each open object, whether fields may be added to it.
    let mut open = Vec::new();
    for c in json.chars() {
        if !in_text && c == '{' {
            open.push(!VARIANTS.iter().any(|name| added.ends_with(name)));
        }
        if !in_text && c == '}' && open.pop() == Some(true) {
            let comma = if added.ends_with('{') { "" } else { "," };
            added.extend([comma, "\"", NAME, "\":{\"format\":9,\"kind\":[1,\"\\u00f6\"]}"]);
        }
        in_text ^= c == '"' && !escaped;
        escaped = in_text && c == '\\' && !escaped;
        added.push(c);
    }
    added
}

#[test]
fn field_is_added_to_every_object_but_not_to_a_variant() {
    let added = add(r#"{"a":{"kind":{"slot":{"of":3}}},"b":"{\"}"}"#);
    assert_eq!(added.matches(NAME).count(), 3, "{added}");
    let value: serde_json::Value = serde_json::from_str(&added).expect("JSON");
    assert_eq!(value["b"], "{\"}");
    assert!(value["a"]["kind"].get(NAME).is_none() && value["a"]["kind"]["slot"].get(NAME).is_some());
}
