//! Recognizes Jetcell and ESE data on a device. `wipefs` does not know these formats.

use std::io;
use std::path::Path;

use ese_format::recognise::{EseFileKind, START_LEN};
use jetcell_array::MemberLabel;
use jetcell_luns::has_write_log;
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Vfs};

/// Returns a description if the device contains an array member, a write log of LUNs, or an ESE file. Otherwise returns
/// `None`. Nothing is written.
pub(crate) fn describe_raw_content(vfs: &dyn Vfs, device: &Path) -> io::Result<Option<String>> {
    if let Some(label) = MemberLabel::read(vfs, device)? {
        return Ok(Some(label.to_string()));
    }
    let file = vfs.open(device, OpenMode::Read)?;
    if has_write_log(&*file)? {
        return Ok(Some("the write log of a Jetcell array".into()));
    }
    let granularity = IoBuffer::ALIGNMENT as u64;
    let length = (file.len()? / granularity * granularity).min(START_LEN as u64);
    if length == 0 {
        return Ok(None);
    }
    let mut start = IoBuffer::zeroed(length as usize);
    file.read_at(0, &mut start, IoReason::Other)?;
    let kind = EseFileKind::detect(&start);
    Ok((kind != EseFileKind::Unknown).then(|| kind.to_string()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use jetcell_array::{Array, CreateArrayOptions, RaidLevel};
    use jetcell_vfs::SimVfs;

    use super::*;

    const BYTES: u64 = 16 << 20;

    #[test]
    fn array_members_write_logs_and_ese_databases_are_described() {
        let disk = SimVfs::new();
        let found = |path: &Path| describe_raw_content(&disk, path).unwrap();
        let members: Vec<PathBuf> = (0..3).map(|number| PathBuf::from(format!("/a/m{number}"))).collect();
        for path in &members {
            disk.open(path, OpenMode::CreateNew).unwrap().grow(BYTES).unwrap();
            assert_eq!(found(path), None);
        }
        Array::create(&disk, &members, &CreateArrayOptions::new(RaidLevel::Raid5, 0xABC)).unwrap();
        let expected = format!("a member of the Jetcell array {:032x} (raid5)", 0xABC);
        assert_eq!(found(&members[1]), Some(expected));

        let content = |at: usize, bytes: &[u8]| {
            let mut all = vec![0; 1 << 20];
            all[at..at + bytes.len()].copy_from_slice(bytes);
            disk.put(Path::new("/a/other"), &all);
            found(Path::new("/a/other"))
        };
        let log = Some("the write log of a Jetcell array".to_string());
        assert_eq!(content(0, b"JETNVLG2"), log);
        assert_eq!(content((1 << 20) - 4096, b"JETNVLG2"), log, "the copy of the header");
        let database = Some("an ESE database".to_string());
        let magic = 0x89AB_CDEF_u32.to_le_bytes();
        assert_eq!(content(4, &magic), database);
        assert_eq!(content(32768 + 4, &magic), database, "the second header");
        assert_eq!(content(9, b"other"), None);
        disk.put(Path::new("/a/other"), &[]);
        assert_eq!(found(Path::new("/a/other")), None);
    }
}
