use super::*;

#[test]
fn slots_are_those_of_the_specification() {
    assert_eq!(crc16("123456789"), 0x31c3);
    assert_eq!([slot_of("foo"), slot_of("somekey"), slot_of("")], [12182, 11058, 0]);
}

#[test]
fn the_keys_of_a_job_are_in_one_slot() {
    let slot = slot_of("shop:lock:import");
    for key in ["{shop:lock:import}:state", "{shop:lock:import}:runs"] {
        assert_eq!(slot_of(key), slot);
    }
    assert_eq!(slot_of("{}:a"), crc16("{}:a") % SLOTS);
}

#[test]
fn a_node_without_a_name_is_the_one_that_was_asked() {
    let node = |host, port| Value::Array(vec![host, Value::Int(port), Value::Int(0)]);
    let range = |first, last, node| Value::Array(vec![Value::Int(first), Value::Int(last), node]);
    let named = node(Value::BulkString(b"b".to_vec()), 2);
    let answer = Value::Array(vec![range(10, 20, named), range(0, 9, node(Value::Nil, 1))]);
    let slots = SlotMap::read(&answer, "a").unwrap();
    assert_eq!(slots.node_of(9), Some(&("a".to_owned(), 1)));
    assert_eq!(slots.node_of(10), Some(&("b".to_owned(), 2)));
    assert_eq!(slots.node_of(21), None);
    assert_eq!(redirected(":7", &("a".to_owned(), 1)), Some(("a".to_owned(), 7)));
    assert_eq!(redirected("::1:7", &("a".to_owned(), 1)), Some(("::1".to_owned(), 7)));
}
