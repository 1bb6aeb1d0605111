use super::*;

fn timeouts(parameters: &str) -> Result<Timeouts, String> {
    Timeouts::read(&UrlParameters::of(parameters), "")
}

#[test]
fn time_outs_are_read_and_each_has_a_default() {
    let (two, half) = (Duration::from_secs(2), Duration::from_millis(500));
    assert_eq!(timeouts("response_timeout=500ms"), Ok(Timeouts { connect: two, response: half }));
    let both = timeouts("connect_timeout=60s&response_timeout=10ms").unwrap();
    assert_eq!(both.connect, Duration::from_secs(60));
    assert_eq!(timeouts(""), Ok(Timeouts::default()));
}

#[test]
fn time_outs_that_make_no_sense_are_refused_by_name_and_not_repeated() {
    for (parameters, says) in [
        ("connect_timeout=0s", "invalid `connect_timeout`: expected from 10ms to 60s"),
        ("response_timeout=9ms", "invalid `response_timeout`: expected from 10ms to 60s"),
        ("response_timeout=61s", "invalid `response_timeout`: expected from 10ms to 60s"),
        ("connect_timeout=3", "invalid `connect_timeout`: expected a number with a unit, as in 2s or 500ms"),
        (
            "connect_timeout=se@cret",
            "invalid `connect_timeout`: expected a number with a unit, as in 2s or 500ms",
        ),
    ] {
        assert_eq!(timeouts(parameters).unwrap_err(), says, "{parameters}");
    }
}
