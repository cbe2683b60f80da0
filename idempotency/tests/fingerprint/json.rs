//! JSON values that remember how they are written, and every way to write one.

use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;

/// A value; numbers are texts, and an object's names are distinct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    Literal(&'static str),
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

pub(crate) fn json() -> BoxedStrategy<Json> {
    let number = "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?";
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false"]).prop_map(Json::Literal),
        number.prop_map(Json::Number),
        any::<String>().prop_map(Json::Text),
    ];
    let nested = leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::Array),
            prop::collection::btree_map("[a-c\u{e4}\u{fb33}\u{1f600}\"\\\\]{0,3}", inner, 0..5)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    });
    nested.boxed()
}

/// Decides how a value is written where JSON leaves a choice; the same dice write the same text.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // Numerical Recipes' generator: any spread will do.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(["", "", " ", "\n\t", "\r "][self.below(5)]);
    }
}

impl Json {
    /// Writes the value in one of the ways that mean the same: white space, escapes and the order of members are the dice's.
    pub(crate) fn write(&self, dice: &mut Dice, out: &mut String) {
        dice.space(out);
        match self {
            Self::Literal(text) => out.push_str(text),
            Self::Number(text) => out.push_str(text),
            Self::Text(text) => write_string(text, dice, out),
            Self::Array(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    out.push_str(if position > 0 { "," } else { "" });
                    item.write(dice, out);
                }
                dice.space(out);
                out.push(']');
            }
            Self::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for last in (1..members.len()).rev() {
                    members.swap(last, dice.below(last + 1));
                }
                out.push('{');
                for (position, (name, value)) in members.into_iter().enumerate() {
                    out.push_str(if position > 0 { "," } else { "" });
                    dice.space(out);
                    write_string(name, dice, out);
                    dice.space(out);
                    out.push(':');
                    value.write(dice, out);
                }
                dice.space(out);
                out.push('}');
            }
        }
        dice.space(out);
    }

    pub(crate) fn written(&self, seed: u64) -> String {
        let mut out = String::new();
        self.write(&mut Dice(seed), &mut out);
        out
    }
}

fn write_string(text: &str, dice: &mut Dice, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        let must_escape = matches!(character, '"' | '\\') || character < ' ';
        if must_escape || dice.below(4) == 0 {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                let hex = format!("{unit:04x}");
                out.push_str("\\u");
                out.push_str(&if dice.below(2) == 0 { hex.to_uppercase() } else { hex });
            }
        } else {
            out.push(character);
        }
    }
    out.push('"');
}
