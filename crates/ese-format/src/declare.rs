//! Macros that declare on-disk structures.
//!
//! `layout!` takes a list of fields in file order and generates the struct, its encoder and decoder, its length, and
//! a description of each field. Each layout is therefore defined in exactly one place.

/// Declares a structure. `name: Type` is a field, and `[name: u16]` is the length of the payload `name`. The names
/// after `then` are the payloads (`Vec<u8>`), in the order in which they follow the fixed part.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $( $(#[$field_meta:meta])* $field:ident : $ty:ty )? $( [$counted:ident : $width:ty] )? , )*
        }
        $( then { $( $(#[$payload_meta:meta])* $payload:ident, )* } )?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $( $(#[$field_meta])* pub $field: $ty, )? )*
            $( $( $(#[$payload_meta])* pub $payload: Vec<u8>, )* )?
        }

        impl $name {
            /// Appends the encoded structure, given its parts.
            #[allow(clippy::too_many_arguments)]
            pub(crate) fn put_parts(
                out: &mut Vec<u8>,
                $( $( $field: &$ty, )? )*
                $( $( $payload: &[u8], )* )?
            ) {
                $(
                    $( $crate::layout::BinaryLayout::put($field, out); )?
                    $( <$width as $crate::layout::LengthField>::put_len($counted.len(), out); )?
                )*
                $( $( out.extend_from_slice($payload); )* )?
            }
        }

        impl $crate::layout::BinaryLayout for $name {
            const FIXED: usize = 0
                $( $( + <$ty as $crate::layout::BinaryLayout>::FIXED )? $( + <$width as $crate::layout::BinaryLayout>::FIXED )? )*;

            fn put(&self, out: &mut Vec<u8>) {
                $name::put_parts(out, $( $( &self.$field, )? )* $( $( &self.$payload, )* )?);
            }

            fn take(input: &mut $crate::layout::Input<'_>) -> Result<Self, $crate::layout::LayoutError> {
                $(
                    $( let $field = <$ty as $crate::layout::BinaryLayout>::take(input)?; )?
                    $( let $counted = <$width as $crate::layout::LengthField>::take_len(input)?; )?
                )*
                $( $( let $payload = input.bytes($payload)?.to_vec(); )* )?
                Ok($name { $( $( $field, )? )* $( $( $payload, )* )? })
            }

            #[allow(unused_mut)]
            fn payload_len(
                input: &mut $crate::layout::Input<'_>,
            ) -> Result<usize, $crate::layout::LayoutError> {
                let mut len = 0usize;
                $(
                    $( input.bytes(<$ty as $crate::layout::BinaryLayout>::FIXED)?; )?
                    $( len = len.saturating_add(<$width as $crate::layout::LengthField>::take_len(input)?); )?
                )*
                Ok(len)
            }
        }

        impl $crate::fields::Describe for $name {
            #[allow(clippy::vec_init_then_push)]
            fn describe(
                input: &mut $crate::layout::Input<'_>,
            ) -> Result<$crate::fields::FieldValue, $crate::layout::LayoutError> {
                let mut fields = $crate::fields::Fields::new();
                $(
                    $( fields.push((stringify!($field), <$ty as $crate::fields::Describe>::describe(input)?)); )?
                    $( let $counted = <$width as $crate::layout::LengthField>::take_len(input)?; )?
                )*
                $( $(
                    let bytes = input.bytes($payload)?.to_vec();
                    fields.push((stringify!($payload), $crate::fields::FieldValue::Bytes(bytes)));
                )* )?
                Ok($crate::fields::FieldValue::Group(fields))
            }
        }

        #[cfg(test)]
        impl $name {
            /// Returns the offset of each field. Tests compare these with the published offsets.
            #[allow(dead_code)]
            pub(crate) fn offsets() -> Vec<(&'static str, usize)> {
                let mut at = 0;
                let mut offsets = Vec::new();
                $(
                    $( offsets.push((stringify!($field), at)); at += <$ty as $crate::layout::BinaryLayout>::FIXED; )?
                    $( offsets.push((stringify!($counted), at)); at += <$width as $crate::layout::BinaryLayout>::FIXED; )?
                )*
                offsets.push(("end", at));
                offsets
            }
        }
    };
}

/// Implements the layout of flag types stored as integers. Unknown bits are preserved.
macro_rules! layout_flags {
    ($($name:ty: $int:ty),* $(,)?) => {$(
        impl $crate::layout::BinaryLayout for $name {
            const FIXED: usize = <$int as $crate::layout::BinaryLayout>::FIXED;
            fn put(&self, out: &mut Vec<u8>) {
                $crate::layout::BinaryLayout::put(&self.bits(), out);
            }
            fn take(input: &mut $crate::layout::Input<'_>) -> Result<Self, $crate::layout::LayoutError> {
                Ok(<$name>::from_bits_retain(<$int as $crate::layout::BinaryLayout>::take(input)?))
            }
        }

        impl $crate::fields::Describe for $name {
            fn describe(
                input: &mut $crate::layout::Input<'_>,
            ) -> Result<$crate::fields::FieldValue, $crate::layout::LayoutError> {
                let flags = <$name as $crate::layout::BinaryLayout>::take(input)?;
                let names = flags.iter_names().map(|(name, _)| name).collect();
                Ok($crate::fields::FieldValue::Flags { value: flags.bits().into(), names })
            }
        }
    )*};
}

/// Declares enumerations stored as integers. Unlisted values are rejected.
macro_rules! layout_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $int:ty, $what:literal { $( $(#[$variant_meta:meta])* $variant:ident = $value:literal, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$variant_meta])* $variant = $value, )* }

        impl $name {
            /// Converts a stored number to an enumeration value.
            const fn from_raw(value: $int) -> Option<$name> {
                match value { $( $value => Some($name::$variant), )* _ => None }
            }
        }

        impl $crate::layout::BinaryLayout for $name {
            const FIXED: usize = <$int as $crate::layout::BinaryLayout>::FIXED;
            fn put(&self, out: &mut Vec<u8>) {
                $crate::layout::BinaryLayout::put(&(*self as $int), out);
            }
            fn take(input: &mut $crate::layout::Input<'_>) -> Result<Self, $crate::layout::LayoutError> {
                $name::from_raw(<$int as $crate::layout::BinaryLayout>::take(input)?)
                    .ok_or($crate::layout::LayoutError::Invalid($what))
            }
        }

        impl $crate::fields::Describe for $name {
            fn describe(
                input: &mut $crate::layout::Input<'_>,
            ) -> Result<$crate::fields::FieldValue, $crate::layout::LayoutError> {
                let value = <$int as $crate::layout::BinaryLayout>::take(input)?;
                let name = $name::from_raw(value).map(|known| format!("{known:?}"));
                Ok($crate::fields::FieldValue::Choice { value: value.into(), name })
            }
        }
    };
}

pub(crate) use {layout, layout_enum, layout_flags};
