//! Damaged records: a clear error, never a panic, and never a lost fence.

mod decisions;
mod on_stores;

use fuzz::{Source, Target, Verdict};
use jobs::fleet::ServerInfo;
use jobs::history::{RunRecord, SkipRecord};
use jobs::store::{JobRecord, KeyState, Record};
use serde_json::Value;

const TARGET: Target<'_> = Target {
    corpus: "states",
    words: r#"
        { } [ ] " : , null true false "format" "version" "fence" "state" "claimant" "released" "mark" "tick" "skip" "held"
        "until" "ttl" "since" "server" "token" "kind" "slot" {"slot":{"of":4294967295}} "of" "attempt" "takeovers"
        4294967295 18446744073709551615 9223372036854775807 -9223372036854775808 9007199254740993 1e3 1.5 -0 007
        "stats" "runs" "slots" "expires" "pause" "by" "since" "started" "finished" "missed" "registered" "request" "done" "until"
        \u0000 \ud800 "\"" "7-7" "-1-0123456789abcdef" 3 4
    "#,
    cases: 2_000,
    kinds: &["read", "refused"],
};

/// Reads a record; `None` if there is none.
type Reader = fn(&[u8]) -> Result<Option<Record>, String>;

fn ours(bytes: &[u8]) -> Result<Option<Record>, String> {
    Record::from_first_line(bytes).map(Some).map_err(|error| error.to_string())
}

/// The fence and the version as another reader finds them, if this is a record of this format.
fn reference(bytes: &[u8]) -> Option<(i64, String)> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let fence = value.get("fence")?.as_i64()?;
    let version = value.get("version")?.as_str()?.to_owned();
    (value.get("state")?.get("format")?.as_u64()? == 3).then_some((fence, version))
}

fn check(case: &[u8], reader: Reader) -> Verdict {
    // None of these may panic.
    let _ = JobRecord::from_json::<RunRecord>(case);
    let _ = JobRecord::from_json::<SkipRecord>(case);
    let _ = serde_json::from_slice::<ServerInfo>(case);
    let _ = KeyState::from_json(case);
    let record = match reader(case) {
        Ok(Some(record)) => record,
        Ok(None) => return Err("a damaged record counts as absent".to_owned()),
        Err(error) if error.is_empty() => return Err("an error without a text".to_owned()),
        Err(_) => return Ok("refused"),
    };
    let Some((fence, version)) = reference(case) else {
        return Err(format!("this is no record: {record:?}"));
    };
    if (record.fence, record.version.to_string()) != (fence, version) {
        return Err(format!("the fence or the version is another one: {record:?}"));
    }
    if KeyState::from_json(record.state.to_json()).as_ref() != Ok(&*record.state) {
        return Err(format!("the state does not survive its text: {record:?}"));
    }
    let whole = Record::from_text(&record.to_text());
    if whole.as_ref() != Ok(&record) {
        return Err(format!("the record does not survive its text: {whole:?}"));
    }
    for length in [0, 1, case.len() / 3, case.len() / 2, case.trim_ascii_end().len() - 1] {
        if reader(&case[..length]).is_ok() {
            return Err(format!("the first {length} bytes of it are read, too"));
        }
    }
    decisions::check(&record)?;
    Ok("read")
}

#[test]
fn damaged_record_is_refused_and_every_record_that_is_read_can_be_decided_on() {
    TARGET.run(|case| check(case, ours));
}

/// The records of the corpus that are not damaged.
fn readable() -> Vec<Value> {
    let corpus = fuzz::read_corpus(TARGET.corpus);
    let records = corpus.iter().filter(|case| ours(case).is_ok());
    records.filter_map(|case| serde_json::from_slice(case).ok()).collect()
}

/// A record of the corpus with other values, of the same kinds and of others: most random bytes are no JSON.
fn with_other_values(case: &[u8], corpus: &[Value]) -> Vec<u8> {
    let seed = case.iter().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let mut source = Source::new(seed);
    let mut record = source.pick(corpus).clone();
    for _ in 0..=source.below(4) {
        change_a_value(&mut record["state"], &mut source);
    }
    if source.below(4) == 0 {
        record["fence"] = source.number().into();
    }
    let Value::Object(fields) = &record else { return case.to_vec() };
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let (version, fence, state) = (field("version"), field("fence"), field("state"));
    format!("{{\"version\":{version},\"fence\":{fence},\"state\":{state}}}").into_bytes()
}

/// Descends to a random value, and changes it.
fn change_a_value(value: &mut Value, source: &mut Source) {
    let is_here = source.below(6) == 0;
    match value {
        Value::Object(fields) if !fields.is_empty() && !is_here => {
            let names: Vec<_> = fields.keys().cloned().collect();
            let name = source.pick(&names);
            if source.below(12) == 0 {
                fields.remove(name);
            } else if let Some(field) = fields.get_mut(name) {
                change_a_value(field, source);
            }
        }
        Value::Array(items) if !items.is_empty() && !is_here => {
            let index = source.below(items.len());
            if source.below(4) == 0 {
                items.push(items[index].clone());
            }
            change_a_value(&mut items[index], source);
        }
        Value::Number(_) => {
            *value = match source.below(3) {
                0 => (source.bits() >> source.below(64)).into(),
                1 => u32::MAX.into(),
                _ => source.number().into(),
            };
        }
        Value::Bool(flag) => *flag = !*flag,
        Value::String(text) => text.push('\u{0}'),
        _ => *value = Value::Null,
    }
}

#[test]
fn record_with_any_values_is_refused_or_can_be_decided_on() {
    let records = readable();
    Target { cases: 800, kinds: &["read", "refused"], ..TARGET }.run(|case| {
        let record = with_other_values(case, &records);
        check(&record, ours).map_err(|mistake| format!("{mistake}: {}", String::from_utf8_lossy(&record)))
    });
}

#[test]
fn reader_that_takes_damage_for_no_record_is_found() {
    TARGET.finds("damage that counts as absent", |case| {
        check(case, |bytes| Ok(ours(bytes).unwrap_or_default()))
    });
}

#[test]
fn reader_without_a_fence_in_a_damaged_record_is_found() {
    let lenient: Reader = |bytes| {
        let text = String::from_utf8_lossy(bytes).replace("\"fence\"", "\"fense\"");
        let text = text.replacen("\"state\"", "\"fence\":0,\"state\"", 1);
        ours(text.as_bytes())
    };
    TARGET.finds("a lost fence", |case| check(case, lenient));
}

#[test]
fn reader_that_repairs_a_record_that_is_cut_off_is_found() {
    let repairs: Reader = |bytes| ours(bytes).or_else(|_| ours(&[bytes, b"}}"].concat()));
    TARGET.finds("a record that is cut off", |case| check(case, repairs));
}
