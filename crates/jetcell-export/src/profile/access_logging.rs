//! User Access Logging in Windows Server (`Current.mdb`, `SystemIdentity.mdb`): role names and client addresses.
//!
//! `SystemIdentity.mdb` maps role GUIDs to names. The other files contain only the GUIDs, so this module also
//! contains a list of the Windows Server roles.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fields::{text, visit_fields};
use super::timeline_columns::TimelineColumns;
use crate::names::ValueNames;
use crate::source_database::SourceDatabase;
use crate::table::{ColumnMeaning, SourceTable};
use crate::value::ExportedValue;

/// Table that contains the role names.
const ROLES: &str = "ROLE_IDS";
const ROLE: &str = "RoleGuid";
const ADDRESS: &str = "Address";
/// Meanings of the time columns, and the columns that describe a row.
pub(super) const TIMELINE: TimelineColumns = TimelineColumns {
    meanings: &[
        ("InsertDate", "first access in the year"),
        ("LastAccess", "last access in the year"),
        ("FirstSeen", "role first seen"),
        ("LastSeen", "last seen"),
        ("CreationTime", "created"),
        ("LastSeenActive", "last seen active"),
    ],
    descriptions: &["AuthenticatedUserName", "Address", "RoleGuid", "HostName"],
};

const KNOWN: [(u128, &str); 21] = [
    (0x10A9226F_50EE_49D8_A393_9A501D47CE04, "File Server"),
    (0x1479A8C1_9808_411E_9739_2D3C5923E86A, "Remote Desktop Gateway"),
    (0x2414BC1B_1572_4CD9_9CA5_65166D8DEF3D, "SQL Server Analysis Services"),
    (0x4116A14D_3840_4F42_A67F_F2F9FF46EB4C, "Windows Deployment Services"),
    (0x48EED6B2_9CDC_4358_B5A5_8DEA3B2F3F6A, "DHCP Server"),
    (0x4AD13311_EC3B_447E_9056_14EDE9FA7052, "Active Directory Lightweight Directory Services"),
    (0x7CC4B071_292C_4732_97A1_CF9A7301195D, "FAX Server"),
    (0x7FB09BD3_7FE6_435E_8348_7D8AEFB6CEA3, "Print and Document Services"),
    (0x8CC0AC85_40F7_4886_9DAB_021519800418, "Reporting Services"),
    (0x90E64AFA_70DB_4FEF_878B_7EB8C868F091, "Remote Desktop Services"),
    (0x910CBAF9_B612_4782_A21F_F7C75105434A, "BranchCache"),
    (0x952285D9_EDB7_4B6B_9D85_0C09E3DA0BBD, "Remote Access"),
    (0xAD495FC3_0EAA_413D_BA7D_8B13FA7EC598, "Active Directory Domain Services"),
    (0xB4CDD739_089C_417E_878D_855F90081BE7, "Active Directory Rights Management Service"),
    (0xBBD85B29_9DCC_4FD9_865D_3846DCBA75C7, "Network Policy and Access Services"),
    (0xBD7F7C0D_7C36_4721_AFA8_0BA700E26D9E, "SQL Server Database Engine"),
    (0xC23F1C6A_30A8_41B6_BBF7_F266563DFCD6, "FTP Server"),
    (0xC50FCC83_BC8D_4DF5_8A3D_89D7F80F074B, "Active Directory Certificate Services"),
    (0xD6256CF7_98FB_4EB4_AA18_303F1DA1F770, "Web Server"),
    (0xD8DC1C8E_EA13_49CE_9A68_C9DCA8DB8B33, "Windows Server Update Services"),
    (0xDDE30B98_449E_4B93_84A6_EA86AF0B19FE, "MSMQ"),
];

/// Returns true if the database is a User Access Logging database.
pub(super) fn matches(source: &SourceDatabase) -> bool {
    let has_table = |table| source.table(table).is_some();
    has_table("CLIENTS") && has_table("ROLE_ACCESS") || has_table(ROLES) && has_table("SYSTEM_IDENTITY")
}

/// Returns the role names from the database, together with those of the Windows Server roles.
pub(super) fn read(source: &SourceDatabase) -> ValueNames {
    let mut roles: BTreeMap<[u8; 16], String> =
        KNOWN.iter().map(|(guid, name)| (guid_bytes(*guid), (*name).to_owned())).collect();
    visit_fields(source, ROLES, [ROLE, "RoleName"], |[guid, name]| {
        if let (Some(ExportedValue::Guid(guid)), Some(name)) = (guid, text(name)) {
            roles.insert(guid, name);
        }
    });
    ValueNames::Guids(Arc::new(roles))
}

/// Returns a GUID's stored bytes. Its first three groups are little-endian.
fn guid_bytes(guid: u128) -> [u8; 16] {
    let [a0, a1, a2, a3, b0, b1, c0, c1, rest @ ..] = guid.to_be_bytes();
    let [d0, d1, d2, d3, d4, d5, d6, d7] = rest;
    [a3, a2, a1, a0, b1, b0, c1, c0, d0, d1, d2, d3, d4, d5, d6, d7]
}

/// Replaces role GUIDs with names, except in the table that defines the names, and formats addresses as text.
pub(super) fn apply(table: &mut SourceTable, roles: &ValueNames) {
    if table.name.eq_ignore_ascii_case(ROLES) {
        return;
    }
    for column in &mut table.columns {
        match column.column.name.as_str() {
            ROLE => column.names = Some(roles.clone()),
            ADDRESS => column.format.meaning = ColumnMeaning::Address,
            _ => {}
        }
    }
}
