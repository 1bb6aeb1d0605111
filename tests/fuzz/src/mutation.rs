//! Mutations of the cases in a corpus: tokens and bytes are dropped, repeated, exchanged and replaced.

use crate::Source;

/// Characters that parsers may take for letters, digits, spaces or ends of lines.
const ODD: [&str; 13] =
    [" ", "\n", "\t", "é", "ﬀ", "ⓐ", "٣", "\u{a0}", "\u{2028}", "\u{202e}", "😀", "\u{feff}", "İ"];

/// An endless list of mutated cases.
pub(crate) struct Mutations<'a> {
    source: Source,
    corpus: &'a [Vec<u8>],
    words: &'a [&'a str],
}

impl<'a> Mutations<'a> {
    pub(crate) fn new(source: Source, corpus: &'a [Vec<u8>], words: &'a [&'a str]) -> Self {
        Self { source, corpus, words }
    }

    pub(crate) fn next_case(&mut self) -> Vec<u8> {
        match self.source.below(20) {
            0 => {
                let length = self.source.below(80);
                (0..length).map(|_| self.source.bits().to_be_bytes()[0]).collect()
            }
            1 => {
                let length = self.source.below(12);
                (0..length).flat_map(|_| self.word()).collect()
            }
            _ => {
                let mut tokens = self.tokens_of_a_case();
                for _ in 0..=self.source.below(4) {
                    self.mutate(&mut tokens);
                }
                let mut case = tokens.concat();
                if self.source.below(8) == 0 {
                    self.damage(&mut case);
                }
                case
            }
        }
    }

    fn tokens_of_a_case(&mut self) -> Vec<Vec<u8>> {
        let case = self.source.pick(self.corpus);
        tokens(case)
    }

    /// Changes a case by tokens.
    fn mutate(&mut self, tokens: &mut Vec<Vec<u8>>) {
        let at = self.source.below(tokens.len() + 1);
        let (last, other) = (tokens.len().saturating_sub(1), self.source.below(tokens.len()));
        let length = (1 + self.source.below(3)).min(tokens.len() - at);
        match self.source.below(10) {
            0 | 1 => drop(tokens.drain(at..at + length)),
            2 => {
                let repeated: Vec<_> = tokens[at..at + length].to_vec();
                let times = 1 + self.source.below(3);
                (0..times).for_each(|_| drop(tokens.splice(at..at, repeated.clone())));
            }
            3 if !tokens.is_empty() => tokens.swap(at.min(last), other),
            4 | 5 if !tokens.is_empty() => tokens[at.min(last)] = self.word(),
            6 => {
                let numbers = tokens.iter().enumerate().filter(|(_, token)| token[0].is_ascii_digit());
                let numbers: Vec<_> = numbers.map(|(index, _)| index).collect();
                if !numbers.is_empty() {
                    let index = *self.source.pick(&numbers);
                    tokens[index] = self.source.number().to_string().into_bytes();
                }
            }
            7 => {
                // The end of another case.
                let others = self.tokens_of_a_case();
                let begin = self.source.below(others.len() + 1);
                tokens.splice(at.., others[begin..].iter().cloned());
            }
            _ => tokens.insert(at, self.word()),
        }
        tokens.truncate(2_000);
    }

    /// Changes a case by bytes.
    fn damage(&mut self, case: &mut Vec<u8>) {
        let at = self.source.below(case.len() + 1);
        match self.source.below(3) {
            0 => case.truncate(at),
            1 => case.insert(at, self.source.bits().to_be_bytes()[0]),
            _ if at < case.len() => case[at] ^= 1 << self.source.below(8),
            _ => {}
        }
    }

    /// A word of the target, of another case, or an odd one. Never empty.
    fn word(&mut self) -> Vec<u8> {
        match self.source.below(8) {
            0 => self.source.pick(&ODD).as_bytes().to_vec(),
            1 => self.source.number().to_string().into_bytes(),
            2 | 3 => {
                let others = self.tokens_of_a_case();
                if others.is_empty() { vec![b' '] } else { self.source.pick(&others).clone() }
            }
            _ => self.source.pick(self.words).as_bytes().to_vec(),
        }
    }
}

/// Runs of letters and digits, and all other bytes one by one.
fn tokens(case: &[u8]) -> Vec<Vec<u8>> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    case.chunk_by(|one, next| is_part(one) && is_part(next)).map(<[u8]>::to_vec).collect()
}
