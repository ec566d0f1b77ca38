//! The newest version id in a log. Ids have 32 bits and wrap around: an id is newer than another if it is ahead of it
//! by less than half the id range. ESE: `rceid`.

/// The newest version id seen. Id 0 means that there is no version.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[doc(alias = "rceid")]
pub(super) struct NewestVersionId(Option<u32>);

impl NewestVersionId {
    /// Updates the newest id if `id` is newer.
    pub fn update(&mut self, id: u32) {
        let is_newer = self.0.is_none_or(|newest| (id.wrapping_sub(newest) as i32) > 0);
        if id != 0 && is_newer {
            self.0 = Some(id);
        }
    }

    /// Returns the newest id, or 0 if no id was seen.
    pub fn get(self) -> u32 {
        self.0.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_id_is_found_across_the_wrap() {
        let newest = |ids: &[u32]| {
            let mut newest = NewestVersionId::default();
            ids.iter().for_each(|id| newest.update(*id));
            newest.get()
        };
        assert_eq!(newest(&[]), 0);
        assert_eq!(newest(&[0, 7, 0, 5]), 7);
        assert_eq!(newest(&[u32::MAX - 80, u32::MAX, 0, 3, u32::MAX - 1]), 3);
        assert_eq!(newest(&[3, u32::MAX]), 3);
    }
}
