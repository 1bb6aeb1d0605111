use super::*;

#[test]
fn value_is_decoded_and_a_plus_is_a_plus() {
    let parameters = UrlParameters::of("user=jobs&&password=a%26b+c&flag");
    assert_eq!(parameters.get("password"), Ok(Some("a&b+c".to_owned())));
    assert_eq!(parameters.get("flag"), Ok(Some(String::new())));
    assert_eq!(parameters.get("pass"), Ok(None));
}

#[test]
fn parameter_that_is_given_twice_or_is_no_text_is_refused_and_not_repeated() {
    for (query, says) in [("a=secret&a=secret", "`a` is given twice"), ("a=secret%ff", "`a` is not UTF-8")] {
        assert_eq!(UrlParameters::of(query).get("a"), Err(says.to_owned()));
    }
}

#[cfg(feature = "redis")]
#[test]
fn unknown_parameter_is_refused_with_the_known_ones_and_not_repeated() {
    let known = ["a", "b"];
    assert_eq!(UrlParameters::of("b=1&a=2").allow(&known), Ok(()));
    let unknown = "parameter number 2 is not known here; known are a, b";
    assert_eq!(UrlParameters::of("a=1&secret=1&b=1").allow(&known), Err(unknown.to_owned()));
    assert_eq!(UrlParameters::of("b=secret&b").allow(&known), Err("`b` is given twice".to_owned()));
}

#[cfg(feature = "postgres")]
#[test]
fn other_parameters_are_left_as_they_are_and_in_their_order() {
    let parameters = UrlParameters::of("a=%201&response_timeout=2s&b&c=3");
    assert_eq!(parameters.without(&["response_timeout", "d"]), "a=%201&b&c=3");
    assert_eq!(parameters.without(&["a", "b", "c", "response_timeout"]), "");
}
