//! Text form of quantities in files.

use serde::Deserialize;

/// A quantity as it appears in a file. Plain numbers are accepted too, which allows a missing unit to be reported.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number, or text in quotes")]
#[expect(missing_docs, reason = "the variants are the types of JSON and TOML")]
pub enum QuantityText {
    Whole(u64),
    Number(f64),
    Text(String),
}

impl From<QuantityText> for String {
    fn from(written: QuantityText) -> String {
        match written {
            QuantityText::Whole(number) => number.to_string(),
            QuantityText::Number(number) => number.to_string(),
            QuantityText::Text(text) => text,
        }
    }
}

/// Implements serialization with `Display`, and deserialization with `FromStr`. The error must have a method `advice`,
/// because serde passes on only text.
#[macro_export]
macro_rules! text_in_serde {
    ($kind:ty) => {
        impl ::serde::Serialize for $kind {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> ::serde::Deserialize<'de> for $kind {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<$kind, D::Error> {
                let text =
                    <$crate::quantity::QuantityText as ::serde::Deserialize>::deserialize(deserializer)?;
                let parsed = String::from(text).parse::<$kind>();
                parsed
                    .map_err(|error| ::serde::de::Error::custom($crate::with_advice(&error, error.advice())))
            }
        }
    };
}
