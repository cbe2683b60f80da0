//! Which generation is sealed, as a file or an object tells it.

use std::fmt;

use crate::fence::Refusal;
use crate::owner_mark::OwnerMark;
use crate::permit::Permit;
use crate::token::FencingToken;

const TITLE: &str = "leastlock fence 1";

/// The sealed generation and its owner; of an object also where its content is.
///
/// Four lines of text, the last one only if there is content: a title, `generation 34`, `owner ` and 32 hexadecimal digits
/// (not of the nonce: whoever reads the record must not be able to release the lease), `content ` and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) generation: FencingToken,
    pub(crate) owner: OwnerMark,
    pub(crate) content: Option<String>,
}

impl Record {
    /// What the permit seals.
    pub(crate) fn of(permit: &Permit, content: Option<String>) -> Self {
        Self { generation: permit.token(), owner: permit.owner_mark(), content }
    }

    /// Reads a record; `None` if that is none, or only half of one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next() != Some(TITLE) {
            return None;
        }
        let generation = FencingToken::new(lines.next()?.strip_prefix("generation ")?.parse().ok()?)?;
        let owner = OwnerMark::parse(lines.next()?.strip_prefix("owner ")?)?;
        let content = match lines.next() {
            Some(line) => Some(line.strip_prefix("content ")?.to_owned()),
            None => None,
        };
        lines.next().is_none().then_some(Self { generation, owner, content })
    }

    /// Why a newcomer may not seal over what stands there, if it may not.
    pub(crate) fn refuses_seal(sealed: Option<&Self>, newcomer: &Self) -> Option<Refusal> {
        let sealed = sealed?;
        if sealed.generation > newcomer.generation {
            Some(Refusal::Superseded { by: sealed.generation })
        } else if sealed.generation == newcomer.generation && sealed.owner != newcomer.owner {
            Some(Refusal::OtherOwner { owner: sealed.owner.hash() })
        } else {
            None
        }
    }

    /// Why somebody may not write under what stands there, if it may not: generation *and* owner must be the sealed ones.
    pub(crate) fn refuses_write(sealed: Option<&Self>, writer: &Self) -> Option<Refusal> {
        Self::refuses_seal(sealed, writer).or_else(|| match sealed {
            Some(sealed) if sealed.generation == writer.generation => None,
            _ => Some(Refusal::NotSealed),
        })
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}\ngeneration {}\nowner {}", self.generation, self.owner)?;
        match &self.content {
            Some(content) => writeln!(f, "content {content}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(generation: i64, owner: u8) -> Record {
        let generation = FencingToken::new(generation).unwrap();
        Record { generation, owner: OwnerMark::of(&[owner; 16]), content: None }
    }

    #[test]
    fn a_record_comes_back_as_it_was_and_half_of_one_is_none() {
        for content in [None, Some("0034-x".to_owned())] {
            let record = Record { content, ..record(34, 1) };
            let text = record.to_string();
            assert_eq!(Record::parse(&text), Some(record.clone()));
            // Without its last line, one with content is one without; a cut within a line is never taken for a record.
            let whole_lines: Vec<_> = text.match_indices('\n').map(|(end, _)| end + 1).collect();
            for end in (0..text.len()).filter(|end| !whole_lines.contains(end)) {
                assert_eq!(Record::parse(&text[..end]), None, "{:?}", &text[..end]);
            }
            assert_eq!(Record::parse(&format!("{text}more\n")), None);
        }
        assert_eq!(Record::parse(&record(34, 1).to_string().replace("34", "0")), None);
    }

    #[test]
    fn the_newer_generation_seals_and_only_the_sealed_owner_writes() {
        let (old, new, twin) = (record(3, 1), record(4, 2), record(4, 3));
        assert_eq!(Record::refuses_seal(None, &old), None);
        assert_eq!(Record::refuses_seal(Some(&old), &new), None);
        assert_eq!(Record::refuses_seal(Some(&new), &new), None);
        assert_eq!(Record::refuses_seal(Some(&new), &old), Some(Refusal::Superseded { by: new.generation }));
        assert_eq!(Record::refuses_seal(Some(&new), &twin), Some(Refusal::OtherOwner { owner: new.owner.hash() }));
        assert_eq!(Record::refuses_write(Some(&new), &new), None);
        assert_eq!(Record::refuses_write(Some(&old), &new), Some(Refusal::NotSealed));
        assert_eq!(Record::refuses_write(None, &new), Some(Refusal::NotSealed));
    }
}
