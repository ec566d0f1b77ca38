//! Names of network interfaces, from the locally unique identifiers (LUIDs) of Windows.

/// Interface types that Windows uses, with their names in the IANA registry.
const TYPES: [(u64, &str); 33] = [
    (1, "other"),
    (6, "ethernetCsmacd"),
    (9, "iso88025TokenRing"),
    (15, "fddi"),
    (20, "basicISDN"),
    (21, "primaryISDN"),
    (22, "propPointToPointSerial"),
    (23, "ppp"),
    (24, "softwareLoopback"),
    (28, "slip"),
    (37, "atm"),
    (48, "modem"),
    (53, "propVirtual"),
    (62, "fastEther"),
    (63, "isdn"),
    (69, "fastEtherFX"),
    (71, "ieee80211"),
    (94, "adsl"),
    (95, "radsl"),
    (96, "sdsl"),
    (97, "vdsl"),
    (114, "ipOverAtm"),
    (117, "gigabitEthernet"),
    (131, "tunnel"),
    (135, "l2vlan"),
    (136, "l3ipvlan"),
    (144, "ieee1394"),
    (161, "ieee8023adLag"),
    (209, "bridge"),
    (237, "ieee80216WMAN"),
    (243, "wwanPP"),
    (244, "wwanPP2"),
    (259, "ieee802154"),
];

/// Returns the type of an interface and its index among the interfaces of that type, such as `ieee80211_32768`.
///
/// The upper 16 bits of a LUID contain the type, the next 24 bits the index. The other bits are zero.
pub(super) fn interface_name(luid: i64) -> Option<String> {
    let luid = luid as u64;
    let (kind, index, reserved) = (luid >> 48, luid >> 24 & 0xff_ffff, luid & 0xff_ffff);
    let (_, name) = TYPES.iter().find(|(known, _)| *known == kind).filter(|_| reserved == 0)?;
    Some(format!("{name}_{index}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luids_have_the_type_of_the_interface() {
        assert_eq!(interface_name(1_689_399_616_077_824).unwrap(), "ethernetCsmacd_32768");
        assert_eq!(interface_name(71 << 48 | 1 << 24).unwrap(), "ieee80211_1");
        for other in [0, 24, 71 << 48 | 1, 5 << 48, -1, i64::MIN] {
            assert_eq!(interface_name(other), None, "{other}");
        }
    }
}
