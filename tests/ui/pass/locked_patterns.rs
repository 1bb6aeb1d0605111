use jobs::locked;

struct Order {
    id: u64,
    lines: (String, [u8; 2]),
    r#type: u8,
}

#[locked(key = "order:{id}:{shop}/{first}:{name}/{type}:{all.0}")]
async fn ship(
    mut count: u32,
    Order { id, lines: (name, [first, _]), r#type }: Order,
    (shop, _): (u8, u8),
    all @ (_, _): (u8, u8),
    &copied: &u8,
    _: String,
) -> u32 {
    count += u32::from(shop + copied);
    count
}

#[locked(key = "order:{order.id}:{order.lines.0}/{order.type}:{r}")]
async fn pack(order: &Order, r#r: u8) {}

pub(super) fn main() {}
