//! Formats security descriptors in the Security Descriptor Definition Language (SDDL).
//!
//! A self-relative descriptor starts with a header that contains the offsets of an owner, a group and two access
//! control lists. The size of the text is proportional to the size of the descriptor.

use std::io::Write;

use jetcell_input::hex::write_hex;

use crate::value::write_guid;

/// Control flag of descriptors that contain offsets instead of pointers.
const SELF_RELATIVE: u16 = 0x8000;
/// Prefix with which Active Directory stored some descriptors: a mask of the descriptor's parts.
const ALL_PARTS: [u8; 4] = [0x0f, 0, 0, 0];
/// Control flags for the discretionary access control list: the flag for its presence, and the flags that SDDL names.
const DISCRETIONARY: (u16, [(u16, &str); 3]) = (0x4, [(0x1000, "P"), (0x100, "AR"), (0x400, "AI")]);
/// Control flags for the system access control list, in the same order.
const SYSTEM: (u16, [(u16, &str); 3]) = (0x10, [(0x2000, "P"), (0x200, "AR"), (0x800, "AI")]);

const ENTRY_TYPES: [(u8, &str); 15] = [
    (0x00, "A"),
    (0x01, "D"),
    (0x02, "AU"),
    (0x03, "AL"),
    (0x05, "OA"),
    (0x06, "OD"),
    (0x07, "OU"),
    (0x08, "OL"),
    (0x09, "XA"),
    (0x0A, "XD"),
    (0x0B, "ZA"),
    (0x0D, "XU"),
    (MANDATORY_LABEL, "ML"),
    (0x12, "RA"),
    (0x13, "SP"),
];
/// Types of entries that may contain the GUIDs of an object type and of an inherited object type.
const OBJECT_ENTRIES: [u8; 5] = [0x05, 0x06, 0x07, 0x08, 0x0B];
const MANDATORY_LABEL: u8 = 0x11;
const ENTRY_FLAGS: [(u32, &str); 8] = [
    (0x01, "OI"),
    (0x02, "CI"),
    (0x04, "NP"),
    (0x08, "IO"),
    (0x10, "ID"),
    (0x20, "CR"),
    (0x40, "SA"),
    (0x80, "FA"),
];
/// Rights of directory objects, the standard rights, and the generic rights.
const RIGHTS: [(u32, &str); 17] = [
    (0x1, "CC"),
    (0x2, "DC"),
    (0x4, "LC"),
    (0x8, "SW"),
    (0x10, "RP"),
    (0x20, "WP"),
    (0x40, "DT"),
    (0x80, "LO"),
    (0x100, "CR"),
    (0x1_0000, "SD"),
    (0x2_0000, "RC"),
    (0x4_0000, "WD"),
    (0x8_0000, "WO"),
    (0x1000_0000, "GA"),
    (0x2000_0000, "GX"),
    (0x4000_0000, "GW"),
    (0x8000_0000, "GR"),
];
const LABEL_RIGHTS: [(u32, &str); 3] = [(0x1, "NW"), (0x2, "NR"), (0x4, "NX")];
/// Identifiers that are the same on all systems. Aliases of domain accounts are not used, because they would not name
/// the domain.
const ALIASES: [(&str, &str); 47] = [
    ("S-1-1-0", "WD"),
    ("S-1-3-0", "CO"),
    ("S-1-3-1", "CG"),
    ("S-1-3-4", "OW"),
    ("S-1-5-2", "NU"),
    ("S-1-5-4", "IU"),
    ("S-1-5-6", "SU"),
    ("S-1-5-7", "AN"),
    ("S-1-5-9", "ED"),
    ("S-1-5-10", "PS"),
    ("S-1-5-11", "AU"),
    ("S-1-5-12", "RC"),
    ("S-1-5-18", "SY"),
    ("S-1-5-19", "LS"),
    ("S-1-5-20", "NS"),
    ("S-1-5-33", "WR"),
    ("S-1-5-32-544", "BA"),
    ("S-1-5-32-545", "BU"),
    ("S-1-5-32-546", "BG"),
    ("S-1-5-32-547", "PU"),
    ("S-1-5-32-548", "AO"),
    ("S-1-5-32-549", "SO"),
    ("S-1-5-32-550", "PO"),
    ("S-1-5-32-551", "BO"),
    ("S-1-5-32-552", "RE"),
    ("S-1-5-32-554", "RU"),
    ("S-1-5-32-555", "RD"),
    ("S-1-5-32-556", "NO"),
    ("S-1-5-32-558", "MU"),
    ("S-1-5-32-559", "LU"),
    ("S-1-5-32-568", "IS"),
    ("S-1-5-32-569", "CY"),
    ("S-1-5-32-573", "ER"),
    ("S-1-5-32-574", "CD"),
    ("S-1-5-32-575", "RA"),
    ("S-1-5-32-576", "ES"),
    ("S-1-5-32-577", "MS"),
    ("S-1-5-32-578", "HA"),
    ("S-1-5-32-579", "AA"),
    ("S-1-5-32-580", "RM"),
    ("S-1-5-84-0-0-0-0-0", "UD"),
    ("S-1-15-2-1", "AC"),
    ("S-1-16-4096", "LW"),
    ("S-1-16-8192", "ME"),
    ("S-1-16-8448", "MP"),
    ("S-1-16-12288", "HI"),
    ("S-1-16-16384", "SI"),
];

/// Returns a self-relative security descriptor as SDDL, or `None` if the bytes are not a valid descriptor.
pub(crate) fn format_descriptor(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.strip_prefix(&ALL_PARTS).unwrap_or(bytes);
    let &[1, _, low, high, ..] = bytes else { return None };
    let control = u16::from_le_bytes([low, high]);
    let &[owner, group, system, discretionary] = bytes.get(4..20)?.as_chunks::<4>().0 else { return None };
    if control & SELF_RELATIVE == 0 {
        return None;
    }
    let at = |offset: [u8; 4]| match u32::from_le_bytes(offset) as usize {
        0 => Some(None),
        offset => bytes.get(offset..).map(Some),
    };
    let mut text = Vec::new();
    for (prefix, offset) in [("O:", owner), ("G:", group)] {
        if let Some(sid) = at(offset)? {
            text.extend_from_slice(prefix.as_bytes());
            text.extend_from_slice(split_sid(sid)?.0.as_bytes());
        }
    }
    for (prefix, (present, flags), offset) in [("D:", DISCRETIONARY, discretionary), ("S:", SYSTEM, system)] {
        if control & present == 0 {
            continue;
        }
        text.extend_from_slice(prefix.as_bytes());
        for (_, name) in flags.iter().filter(|(flag, _)| control & flag != 0) {
            text.extend_from_slice(name.as_bytes());
        }
        match at(offset)? {
            Some(list) => write_list(list, &mut text)?,
            // A missing list grants all access, and an empty list grants none.
            None => text.extend_from_slice(b"NO_ACCESS_CONTROL"),
        }
    }
    String::from_utf8(text).ok()
}

/// Appends the entries of an access control list.
fn write_list(bytes: &[u8], to: &mut Vec<u8>) -> Option<()> {
    let &[2..=4, _, size_low, size_high, count_low, count_high, _, _, ..] = bytes else { return None };
    let size = usize::from(u16::from_le_bytes([size_low, size_high]));
    let mut entries = bytes.get(8..size)?;
    for _ in 0..u16::from_le_bytes([count_low, count_high]) {
        let &[kind, flags, low, high, ..] = entries else { return None };
        let (entry, rest) = entries.split_at_checked(u16::from_le_bytes([low, high]).into())?;
        write_entry(kind, flags, entry.get(4..)?, to)?;
        entries = rest;
    }
    Some(())
}

/// Appends an access control entry. Data after the identifier, such as a condition, is appended in hexadecimal.
fn write_entry(kind: u8, flags: u8, body: &[u8], to: &mut Vec<u8>) -> Option<()> {
    let (_, name) = ENTRY_TYPES.iter().find(|(known, _)| *known == kind)?;
    let (mask, mut rest) = body.split_first_chunk::<4>()?;
    let mut guids = [Vec::new(), Vec::new()];
    if OBJECT_ENTRIES.contains(&kind) {
        let (present, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        for (bit, guid) in [1u32, 2].into_iter().zip(&mut guids) {
            if u32::from_le_bytes(*present) & bit != 0 {
                let (bytes, after) = rest.split_first_chunk::<16>()?;
                rest = after;
                // The result can be ignored, because writing to memory cannot fail.
                let _ = write_guid(bytes, guid);
            }
        }
    }
    let (sid, data) = split_sid(rest)?;
    let mask = u32::from_le_bytes(*mask);
    let rights: &[(u32, &str)] = if kind == MANDATORY_LABEL { &LABEL_RIGHTS } else { &RIGHTS };
    let [object, inherited] = guids;
    let fields: [&[u8]; 6] = [
        name.as_bytes(),
        &bit_names(flags.into(), &ENTRY_FLAGS),
        &bit_names(mask, rights),
        &object,
        &inherited,
        sid.as_bytes(),
    ];
    to.push(b'(');
    to.extend(fields.join(&b';'));
    if data.iter().any(|byte| *byte != 0) {
        to.extend_from_slice(b";0x");
        write_hex(data, to);
    }
    to.push(b')');
    Some(())
}

/// Returns the names of the bits that are set, or a hexadecimal number if one of them has no name.
fn bit_names(bits: u32, names: &[(u32, &str)]) -> Vec<u8> {
    let mut text = Vec::new();
    if bits & !names.iter().fold(0u32, |known, (bit, _)| known | bit) != 0 {
        // The result can be ignored, because writing to memory cannot fail.
        let _ = write!(text, "{bits:#x}");
        return text;
    }
    for (_, name) in names.iter().filter(|(bit, _)| bits & bit != 0) {
        text.extend_from_slice(name.as_bytes());
    }
    text
}

/// Returns the security identifier at the start of `bytes`, as text or as its alias, and the bytes after it.
fn split_sid(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<8>()?;
    let [1, count @ 0..=15, authority @ ..] = header else { return None };
    let (parts, rest) = rest.split_at_checked(usize::from(*count) * 4)?;
    let authority = authority.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let mut sid = match u32::try_from(authority) {
        Ok(authority) => format!("S-1-{authority}"),
        Err(_) => format!("S-1-{authority:#014x}"),
    };
    for part in parts.as_chunks::<4>().0 {
        sid.push('-');
        sid.push_str(&u32::from_le_bytes(*part).to_string());
    }
    let alias = ALIASES.iter().find(|(known, _)| *known == sid);
    Some((alias.map_or(sid, |(_, alias)| (*alias).to_owned()), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn sddl(hex: &str) -> Option<String> {
        format_descriptor(&bytes(hex))
    }

    /// Descriptor of the local system, with five entries in its discretionary list and two in its system list.
    const RICH: &str = "01001494 14000000 20000000 f0000000 30000000
        010100000000000512000000 01020000000000052000000020020000
        0400c00005000000
        00022800 ff010f00 010500000000000515000000010000000200000003000000f4010000 00000000
        05022800 10000000 01000000 2040164cc020d011a76800aa006e0529 01010000000000050a000000
        061a3800 20000000 03000000 7f7a96bfe60dd011a28500aa003049e2 ba7a96bfe60dd011a28500aa003049e2
            010100000000000100000000
        01001400 00000080 010100000000000507000000
        090a1c00 00000030 01020000000000052000000021020000 61727478
        0200300002000000
        02c01400 00000500 010100000000000100000000
        11001400 01000000 010100000000001000300000";

    #[test]
    fn descriptors_are_shown_as_sddl() {
        // Descriptors of the initial databases of Active Directory.
        let everyone = "0f000000 01000480 30000000 3c000000 00000000 14000000 02001c0001000000
            00031400ffffffff010100000000000100000000 010100000000000100000000 010100000000000100000000";
        assert_eq!(sddl(everyone).unwrap(), "O:WDG:WDD:(A;OICI;0xffffffff;;;WD)");
        let empty = "24000000 34000000 14000000 1c000000 0200080000000000 0200080000000000
            01020000000000052000000020020000 01020000000000052000000020020000";
        assert_eq!(sddl(&format!("01001480{empty}")).unwrap(), "O:BAG:BAD:S:");
        assert_eq!(sddl(&format!("0100148c{empty}")).unwrap(), "O:BAG:BAD:AIS:AI");
        assert_eq!(
            sddl(RICH).unwrap(),
            "O:SYG:BAD:PAI(A;CI;CCDCLCSWRPWPDTLOCRSDRCWDWO;;;S-1-5-21-1-2-3-500)\
             (OA;CI;RP;4c164020-20c0-11d0-a768-00aa006e0529;;PS)\
             (OD;CIIOID;WP;bf967a7f-0de6-11d0-a285-00aa003049e2;bf967aba-0de6-11d0-a285-00aa003049e2;WD)\
             (D;;GR;;;AN)(XA;CIIO;GAGX;;;BU;0x61727478)S:(AU;SAFA;SDWD;;;WD)(ML;;NW;;;HI)"
        );
        let without_lists = "01000080 00000000 14000000 00000000 00000000 010100000000000512000000";
        assert_eq!(sddl(without_lists).unwrap(), "G:SY");
        let null_list = without_lists.replacen("01000080", "01000480", 1);
        assert_eq!(sddl(&null_list).unwrap(), "G:SYD:NO_ACCESS_CONTROL");
        let wide_authority = "01000080 14000000 00000000 00000000 00000000 010100010000000012000000";
        assert_eq!(sddl(wide_authority).unwrap(), "O:S-1-0x000100000000-18");
    }

    #[test]
    fn damaged_descriptors_are_not_shown() {
        let whole = bytes(RICH);
        for len in 0..whole.len() {
            assert_eq!(format_descriptor(&whole[..len]), None, "{len} bytes");
        }
        // Neither an unknown entry type nor a length of zero in the first entry is accepted.
        for (at, value) in [(0, 2), (3, 0x14), (48, 9), (56, 4), (58, 0), (58, 12), (64, 2), (65, 16), (7, 1)]
        {
            let mut damaged = whole.clone();
            damaged[at] = value;
            assert_eq!(format_descriptor(&damaged), None, "byte {at}");
        }
        // Every other change of a byte yields a different text or no text, without a panic.
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let text = format_descriptor(&damaged).unwrap_or_default();
                assert!(text.len() < 2000, "byte {at}: {text}");
            }
        }
    }
}
