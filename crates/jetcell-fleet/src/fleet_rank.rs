//! A host's rank and its fleet's size, as provided by launchers.

use std::borrow::Cow;

use thiserror::Error;

use crate::config::MAX_HOSTS;

/// A host's rank in a fleet, and the fleet's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetRank {
    /// Rank of the host, starting at 0.
    pub rank: u32,
    /// Number of hosts, if it is known.
    pub size: Option<u32>,
}

/// Reason why a host's rank cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RankError {
    /// No rank is given.
    #[error("the rank is not set")]
    NoRank,
    /// The launcher provided a value that is not a valid rank or size.
    #[error("{variable}={value:?} is not a valid host number")]
    Invalid {
        /// Name of the environment variable.
        variable: &'static str,
        /// Value of the variable.
        value: String,
    },
    /// The rank is not less than the size.
    #[error("rank {rank} is out of range for {size} hosts")]
    OutOfRange {
        /// Rank of the host.
        rank: u32,
        /// Size of the fleet.
        size: u32,
    },
}

impl RankError {
    /// Returns what the user can do about the error, for example `use a rank from 0 to 3`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            RankError::NoRank => {
                "start the command with srun, mpirun or as an indexed Kubernetes job, or add --rank N".into()
            }
            RankError::Invalid { .. } => "correct the environment, or use --rank and --size".into(),
            RankError::OutOfRange { size, .. } => {
                format!("use a rank from 0 to {}", size.saturating_sub(1)).into()
            }
        })
    }
}

/// Environment variables in which launchers provide the rank and the size. More specific launchers come first,
/// because mpirun may start the hosts within a Slurm job.
const LAUNCHERS: [(&str, Option<&str>); 4] = [
    ("OMPI_COMM_WORLD_RANK", Some("OMPI_COMM_WORLD_SIZE")),
    ("PMIX_RANK", Some("PMIX_SIZE")),
    ("SLURM_PROCID", Some("SLURM_NTASKS")),
    ("JOB_COMPLETION_INDEX", None),
];

impl FleetRank {
    /// Returns the given rank and size, or those that a launcher provides in the environment.
    pub fn detect(
        rank: Option<u32>,
        size: Option<u32>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<FleetRank, RankError> {
        let read = |variable: &'static str| match environment(variable) {
            None => Ok(None),
            Some(value) => match value.trim().parse::<u32>() {
                Ok(number) if number <= MAX_HOSTS => Ok(Some(number)),
                _ => Err(RankError::Invalid { variable, value: value.chars().take(40).collect() }),
            },
        };
        let mut place = rank.map(|rank| FleetRank { rank, size });
        for (of_rank, of_size) in LAUNCHERS {
            if place.is_some() {
                break;
            }
            if let Some(rank) = read(of_rank)? {
                let told = of_size.map(read).transpose()?.flatten();
                place = Some(FleetRank { rank, size: size.or(told) });
            }
        }
        let place = place.ok_or(RankError::NoRank)?;
        match place.size {
            Some(size) if place.rank >= size => Err(RankError::OutOfRange { rank: place.rank, size }),
            _ => Ok(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<FleetRank, RankError> {
        let find_variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
        FleetRank::detect(None, None, find_variable)
    }

    #[test]
    fn ranks_from_every_launcher_are_detected() {
        let place = |rank, size| Ok(FleetRank { rank, size });
        assert_eq!(found(&[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4")]), place(2, Some(4)));
        let within = [
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
        ];
        assert_eq!(found(&within), place(3, Some(4)));
        assert_eq!(found(&[("PMIX_RANK", "1")]), place(1, None));
        assert_eq!(found(&[("JOB_COMPLETION_INDEX", "5")]), place(5, None));
        assert_eq!(FleetRank::detect(Some(1), Some(2), |_| Some("9".into())), place(1, Some(2)));
    }

    #[test]
    fn invalid_ranks_are_rejected() {
        assert_eq!(found(&[]), Err(RankError::NoRank));
        for value in ["", "-1", "x", "10001", "99999999999999999999"] {
            assert!(matches!(found(&[("SLURM_PROCID", value)]), Err(RankError::Invalid { .. })), "{value}");
        }
        assert_eq!(
            FleetRank::detect(Some(2), Some(2), |_| None),
            Err(RankError::OutOfRange { rank: 2, size: 2 })
        );
    }
}
