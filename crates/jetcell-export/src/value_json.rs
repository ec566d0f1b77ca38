//! Values as JSON.

use crate::value::ExportedValue;

impl ExportedValue<'_> {
    /// Appends the value as JSON. Integers beyond 2^53 are strings if `wide_integers_as_text` is true.
    pub(crate) fn write_json(&self, wide_integers_as_text: bool, to: &mut Vec<u8>) {
        match self {
            ExportedValue::List(values) => {
                to.push(b'[');
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        to.push(b',');
                    }
                    value.write_json(wide_integers_as_text, to);
                }
                to.push(b']');
            }
            ExportedValue::Object(fields) => {
                to.push(b'{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        to.push(b',');
                    }
                    write_json_string(name, to);
                    to.push(b':');
                    value.write_json(wide_integers_as_text, to);
                }
                to.push(b'}');
            }
            ExportedValue::Text(text) => write_json_string(text, to),
            value
                if value.is_json_literal()
                    && !(wide_integers_as_text && value.exceeds_double_precision()) =>
            {
                value.write_text(to);
            }
            value => {
                // Numbers, dates, GUIDs, SIDs and hexadecimal digits need no escapes.
                to.push(b'"');
                value.write_text(to);
                to.push(b'"');
            }
        }
    }

    /// Returns true if the value is an integer that a double cannot represent exactly.
    fn exceeds_double_precision(&self) -> bool {
        const EXACT: u64 = 1 << 53;
        match self {
            ExportedValue::Int(value) | ExportedValue::Currency(value) => value.unsigned_abs() > EXACT,
            ExportedValue::UInt(value) => *value > EXACT,
            _ => false,
        }
    }

    /// Returns true if the text form is a JSON literal, which needs no quotes.
    fn is_json_literal(&self) -> bool {
        match self {
            ExportedValue::Bit(_)
            | ExportedValue::Int(_)
            | ExportedValue::UInt(_)
            | ExportedValue::Currency(_) => true,
            ExportedValue::Single(value) => value.is_finite(),
            ExportedValue::Double(value) => value.is_finite(),
            _ => false,
        }
    }
}

/// Appends a JSON string.
pub(crate) fn write_json_string(text: &str, to: &mut Vec<u8>) {
    // The result can be ignored, because writing to memory cannot fail.
    let _ = serde_json::to_writer(to, text);
}
