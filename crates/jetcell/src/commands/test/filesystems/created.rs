//! File systems that `jetcell test filesystems` creates: options, checks, and leftovers from killed tests.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::within;
use jetcell_lab::filesystems::{
    FilesystemKind, FilesystemMaker, FilesystemMedium, FilesystemSpecification, LeftoverDirectory,
    MIN_IMAGE_BYTES, MakeError, SkippedFilesystem, TestedDirectory, check,
};
use jetcell_lab::{ErasableDevice, LocalSystem, SystemError};
use jetcell_workload::units::ByteSize;

use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::load_turns::{LoadTurns, interrupted};

/// Directory for the mount points of a test that uses a device.
const MOUNT_POINTS: &str = "/run";

/// Maximum size of an image.
const MAX_IMAGE_SIZE: ByteSize = ByteSize(1 << 50);

/// Options for file systems that the test creates.
#[derive(Args)]
pub struct CreatedFilesystemOptions {
    /// File systems to create (requires root): ext4, ext4-fscrypt, xfs, btrfs, btrfs-nodatacow, f2fs, gocryptfs,
    /// luks, ntfs, zfs. Those that this machine cannot create are skipped and reported
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    make: Vec<FilesystemKind>,
    /// TOML file that lists file systems to create, with their options, free space and aging
    #[arg(long, value_name = "FILE", conflicts_with = "make")]
    make_list: Option<PathBuf>,
    /// Directory for images, one for each file system; they are removed at the end
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Size of an image
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = within(ByteSize(MIN_IMAGE_BYTES)..=MAX_IMAGE_SIZE))]
    image_size: ByteSize,
    /// Device or partition to use instead of images: every file system is created anew on it for each turn
    #[arg(long, value_name = "DEVICE", conflicts_with = "images", requires = "erase")]
    device: Option<PathBuf>,
    /// Overwrite the device
    #[arg(long, requires = "device")]
    erase: bool,
    /// Overwrite the device even if it contains file systems, partitions or array members
    #[arg(long, requires = "erase")]
    force: bool,
    /// With --make: percentage of the space to fill with other files
    #[arg(long, value_name = "PERCENT", requires = "make", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=80))]
    fill: u8,
    /// With --make: number of aging rounds before the test; each round writes files until 90 % of the space is in
    /// use, and removes files in random order
    #[arg(long, value_name = "ROUNDS", requires = "make", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=100))]
    aging: u16,
    /// First remove mounts and images left over from killed tests: those in the --images directory, or without it,
    /// all that are still mounted or attached; without other options, do nothing else
    #[arg(long)]
    clean_up: bool,
}

impl CreatedFilesystemOptions {
    /// Returns the size of an image, rounded down to a multiple of the block size of every file system.
    fn image_bytes(&self) -> u64 {
        self.image_size.0 >> 20 << 20
    }

    /// Returns true if file systems are to be created.
    pub fn is_requested(&self) -> bool {
        !self.make.is_empty() || self.make_list.is_some()
    }

    /// Returns the directory for images or mount points.
    fn base_directory(&self) -> &Path {
        self.images.as_deref().unwrap_or(Path::new(MOUNT_POINTS))
    }

    /// Removes leftovers from killed tests if this was requested. Otherwise, fails if there are any, with a message
    /// that explains how to remove them. Without a directory for images, also removes leftovers that are mounted or
    /// attached elsewhere.
    pub fn handle_leftovers(&self) -> CommandResult<()> {
        if !self.is_requested() && !self.clean_up {
            return Ok(());
        }
        let place = self.base_directory();
        let mut found = LeftoverDirectory::in_directory(place)
            .context(format_args!("{} cannot be used for file systems", place.display()))?;
        if self.clean_up && self.images.is_none() {
            found.extend(self.other_leftovers());
        }
        for leftover in found {
            let path = leftover.path().display();
            if !self.clean_up {
                return Err(CommandError::new(format_args!("{path} was left over from a killed test"))
                    .advise("remove it with --clean-up"));
            }
            leftover.remove(&LocalSystem).context(format_args!("could not remove {path}"))?;
            console::print_note(&format!("removed {path}, left over from a killed test"));
        }
        Ok(())
    }

    /// Lists leftovers from killed tests that are mounted or attached elsewhere, with the command that removes them.
    pub fn report_other_leftovers(&self) {
        for leftover in self.other_leftovers() {
            let path = leftover.path();
            let place = path.parent().unwrap_or(Path::new("/")).display();
            console::print_note(&format!(
                "{} was left over from a killed test; remove it with: jetcell test filesystems --images \
                 {place} --clean-up",
                path.display()
            ));
        }
    }

    fn other_leftovers(&self) -> Vec<LeftoverDirectory> {
        let looked_at = self.is_requested() || self.clean_up;
        let here = looked_at.then(|| self.base_directory().canonicalize().ok()).flatten();
        let all = LeftoverDirectory::in_use(&LocalSystem).into_iter();
        all.filter(|leftover| here.as_deref().is_none_or(|here| leftover.path().parent() != Some(here)))
            .collect()
    }

    /// Returns the error for file systems that could not be removed after the test, with the command that removes
    /// them.
    pub fn removal_error(&self, error: &SystemError) -> CommandError {
        let place = self.images.as_ref().map(|place| format!("--images {} ", place.display()));
        let place = place.unwrap_or_default();
        CommandError::new(error.to_string()).advise(format!(
            "when the file system is no longer in use, remove it with: jetcell test filesystems \
             {place}--clean-up"
        ))
    }

    /// Returns the file systems to create, and those that this machine cannot create.
    pub fn specifications(&self) -> CommandResult<(Vec<FilesystemSpecification>, Vec<SkippedFilesystem>)> {
        let all = match &self.make_list {
            Some(file) => FilesystemSpecification::read_list(file)?,
            None => {
                let settings = |kind: &FilesystemKind| FilesystemSpecification {
                    fill_percent: self.fill,
                    aging_rounds: self.aging,
                    ..FilesystemSpecification::for_kind(*kind)
                };
                self.make.iter().map(settings).collect()
            }
        };
        check(&all)?;
        if self.is_requested() && self.images.is_none() && self.device.is_none() {
            return Err(CommandError::new("file systems must be created on images or on a device")
                .advise("specify --images DIR, or --device and --erase"));
        }
        if self.is_requested() && !rustix::process::geteuid().is_root() {
            return Err(CommandError::new("creating file systems requires root")
                .advise("run the command as root, or specify directories"));
        }
        let (mut made, mut skipped) = (Vec::new(), Vec::new());
        for one in all {
            match one.kind.missing_requirement(&LocalSystem) {
                None => made.push(one),
                Some(reason) => {
                    console::print_note(&format!("{} is skipped: {reason}", one.name));
                    skipped.push(SkippedFilesystem { name: one.name, reason });
                }
            }
        }
        Ok((made, skipped))
    }

    /// Creates the maker for `made` file systems. Fails without writing anything if there is not enough space.
    pub fn create_maker(&self, made: usize) -> CommandResult<FilesystemMaker<'static>> {
        let medium = match &self.device {
            Some(device) => {
                let claimed = ErasableDevice::claim(device, self.force, &LocalSystem)?;
                FilesystemMedium::Device(claimed.release())
            }
            None => {
                let place = self.base_directory();
                let found = rustix::fs::statvfs(place).map_err(io::Error::from).context(place.display())?;
                let free = found.f_bavail.saturating_mul(found.f_frsize);
                let wanted = self.image_bytes().saturating_mul(made as u64);
                if free < wanted {
                    return Err(CommandError::new(format_args!(
                        "{}: the images need {}, but only {} are free",
                        place.display(),
                        human_bytes(wanted),
                        human_bytes(free)
                    ))
                    .advise("use a smaller --image-size"));
                }
                FilesystemMedium::Images(self.image_bytes())
            }
        };
        Ok(FilesystemMaker::new(&LocalSystem, medium, self.base_directory())?)
    }
}

/// Runs a turn on a file system that the test creates. The file system is mounted only during the turn.
pub fn measure_created(
    maker: &FilesystemMaker<'_>,
    (number, specification): (usize, &FilesystemSpecification),
    turn: usize,
    turns: &LoadTurns,
    output: &Path,
    used_before: &mut u64,
) -> CommandResult<(Vec<f64>, TestedDirectory)> {
    let directory = maker.attach(number, specification, turn == 0, turns.cancellation()).map_err(
        |error| match error {
            MakeError::Stopped => interrupted(),
            other => other.into(),
        },
    )?;
    let used = || maker.used_bytes(number).context(&specification.name);
    let again = turn > 0 && !maker.remakes();
    if !again {
        *used_before = used()?;
    }
    let figures = turns.measure(&directory, output, again)?;
    let mut seen = TestedDirectory::examine(&specification.name, &directory, &LocalSystem);
    seen.allocated_bytes = used()?.saturating_sub(*used_before);
    seen.remarks.extend(specification.kind.remarks(&seen.storage, &LocalSystem));
    seen.made = Some(specification.clone());
    maker.detach()?;
    Ok((figures, seen))
}
