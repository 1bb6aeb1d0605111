//! What holds for every schedule at every instant.

use std::time::Duration;

use jobs::Timestamp;
use jobs::schedule::Schedule;
use proptest::prelude::*;

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "America/Ciudad_Juarez",
    "Pacific/Apia",
];

fn field(lowest: u32, highest: u32) -> impl Strategy<Value = String> {
    let value = lowest..=highest;
    prop_oneof![
        3 => Just("*".to_owned()),
        4 => value.clone().prop_map(|value| value.to_string()),
        1 => (2..=highest / 2 + 1).prop_map(|step| format!("*/{step}")),
        1 => (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (value.clone(), value).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

fn day() -> impl Strategy<Value = String> {
    prop_oneof![6 => field(1, 28), 1 => Just("L".to_owned()), 1 => Just("15W".to_owned()), 1 => Just("LW".to_owned())]
}

fn weekday() -> impl Strategy<Value = String> {
    prop_oneof![6 => field(0, 7), 1 => (0..=6, 1..=4).prop_map(|(day, nth)| format!("{day}#{nth}")), 1 => Just("5L".to_owned())]
}

fn cron() -> impl Strategy<Value = Schedule> {
    let fields = (field(0, 59), field(0, 59), field(0, 23), day(), field(1, 12), weekday());
    (fields, prop::sample::select(&ZONES[..])).prop_map(
        |((second, minute, hour, day, month, weekday), zone)| {
            Schedule::parse(&format!("{second} {minute} {hour} {day} {month} {weekday}"), Some(zone)).unwrap()
        },
    )
}

fn interval() -> impl Strategy<Value = Schedule> {
    (10_u64..=1_000_000_000).prop_map(|millis| Schedule::parse(&format!("{millis}ms"), None).unwrap())
}

fn any_schedule() -> impl Strategy<Value = Schedule> {
    prop_oneof![5 => cron(), 1 => interval()]
}

/// Any microsecond of the years 1950 to 2060.
fn any_instant() -> impl Strategy<Value = Timestamp> {
    (-631_152_000_000_000_i64..2_840_140_800_000_000).prop_map(Timestamp::from_micros)
}

fn just_before(tick: Timestamp) -> Timestamp {
    tick - Duration::from_micros(1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_instant_lies_between_the_newest_tick_and_the_next(schedule in any_schedule(), instant in any_instant()) {
        let newest = schedule.newest_at(instant).unwrap();
        let next = schedule.next_after(instant).unwrap();
        prop_assert!(newest <= instant && instant < next, "{schedule}: {newest} {instant} {next}");
        prop_assert_eq!(schedule.next_after(newest), Some(next), "{}: nothing lies between", schedule);
    }

    #[test]
    fn tick_follows_the_instant_just_before_it(schedule in any_schedule(), instant in any_instant()) {
        let newest = schedule.newest_at(instant).unwrap();
        prop_assert_eq!(schedule.next_after(just_before(newest)), Some(newest), "{}", &schedule);
        let next = schedule.next_after(instant).unwrap();
        prop_assert_eq!(schedule.newest_at(next), Some(next), "{}", &schedule);
        prop_assert_eq!(schedule.newest_at(just_before(next)), Some(newest), "{}", &schedule);
    }

    #[test]
    fn ticks_strictly_grow(schedule in any_schedule(), instant in any_instant()) {
        let mut last = instant;
        for _ in 0..20 {
            let next = schedule.next_after(last).unwrap();
            prop_assert!(next > last, "{schedule}: {next} after {last}");
            last = next;
        }
    }

    #[test]
    fn schedule_parses_its_own_text(schedule in cron(), instant in any_instant()) {
        let shown = schedule.to_string();
        let (text, zone) = shown.rsplit_once(' ').unwrap();
        let again = Schedule::parse(text, Some(zone)).unwrap();
        prop_assert_eq!(again.next_after(instant), schedule.next_after(instant));
    }
}
