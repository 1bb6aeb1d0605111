//! File names for keys and namespaces.

use std::fmt::Write;

/// Longest name before a suffix is added; with one it fits the 143 bytes of the strictest file systems.
const LONGEST: usize = 100;
const KEPT_OF_A_LONG_NAME: usize = 64;

/// Returns a file name that differs for every text, even where `A` and `a` are the same file.
///
/// Lower-case letters and digits stay as they are, the rest is percent-encoded: `etl/Daily` becomes
/// `etl%2f%44aily`. A long name ends in `~` and a hash; no other name contains a `~`. This never changes, so that servers of
/// different versions open the same file.
pub(super) fn encode(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    let escape_first = is_device(text);
    for (index, byte) in text.bytes().enumerate() {
        let plain = match byte {
            b'a'..=b'z' => index > 0 || !escape_first,
            b'0'..=b'9' | b'_' => true,
            // In front they make a hidden file, or an option of a command.
            b'.' | b'-' => index > 0,
            _ => false,
        };
        if plain {
            name.push(char::from(byte));
        } else {
            write!(name, "%{byte:02x}").expect("a string takes every write");
        }
    }
    if name.len() > LONGEST {
        name.truncate(KEPT_OF_A_LONG_NAME);
        write!(name, "~{:032x}", fnv1a(text.as_bytes())).expect("a string takes every write");
    }
    name
}

/// Windows opens a device for these names, whatever suffix follows.
fn is_device(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or(text);
    let numbered = |prefix| stem.strip_prefix(prefix).is_some_and(|n: &str| n.len() == 1);
    ["con", "prn", "aux", "nul"].contains(&stem) || numbered("com") || numbered("lpt")
}

/// FNV-1a in 128 bits: keys are chosen by a program's authors, not by an attacker.
fn fnv1a(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    })
}
