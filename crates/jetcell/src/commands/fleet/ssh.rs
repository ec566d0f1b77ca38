//! `--ssh` option: starts the hosts of a fleet by ssh when there is no launcher.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::Args;
use jetcell_vfs::check_secret;
use jetcell_workload::profile::shell_word;

use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::remote::MAX_TOKEN_FILE;

/// Options for hosts that are started by ssh.
#[derive(Args)]
pub struct SshOptions {
    /// Start the hosts by ssh, in the order of their ranks; jetcell must be in their PATH, and ssh must not ask for a
    /// password
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',', requires = "ssh_allow_dir")]
    ssh: Vec<String>,
    /// With --ssh: value of --allow-dir on every host
    #[arg(long, value_name = "DIR", requires = "ssh")]
    ssh_allow_dir: Option<PathBuf>,
    /// With --ssh: NATS server address for the hosts, if it differs from the one for the coordinator
    #[arg(long, value_name = "URL", requires = "ssh")]
    ssh_nats: Option<String>,
    /// With --ssh: file on each host with the CA certificates that verify the NATS server's certificate
    #[arg(long, value_name = "FILE", requires = "ssh")]
    ssh_tls_ca: Option<PathBuf>,
}

/// The ssh processes that run fleet hosts. They are killed when this value is dropped.
pub struct SshHosts(Vec<Child>);

impl SshOptions {
    /// Checks the number and the names of the hosts.
    pub fn check(&self, size: u32) -> CommandResult<()> {
        if self.ssh.is_empty() {
            return Ok(());
        }
        if self.ssh.len() as u64 != u64::from(size) {
            return Err(CommandError::new(format_args!(
                "--ssh lists {} hosts, but the configuration has {size}",
                self.ssh.len()
            ))
            .advise("list one host for each rank"));
        }
        match self.ssh.iter().find(|host| host.is_empty() || host.starts_with('-')) {
            Some(host) => Err(CommandError::new(format_args!("--ssh: {host:?} is not a host name"))),
            None => Ok(()),
        }
    }

    /// Starts the hosts. If there is a token file, each host reads the server token from its standard input.
    pub fn start(&self, fleet: &str, url: &str, token: Option<&Path>) -> CommandResult<SshHosts> {
        let mut hosts = SshHosts(Vec::new());
        let (url, size) = (self.ssh_nats.as_deref().unwrap_or(url), self.ssh.len().to_string());
        let allowed = self.ssh_allow_dir.clone().unwrap_or_default().display().to_string();
        let authorities = self.ssh_tls_ca.as_ref().map(|path| path.display().to_string());
        for (rank, host) in self.ssh.iter().enumerate() {
            let rank = rank.to_string();
            let mut words = vec!["jetcell", "fleet", "join", "--quiet", "--fleet", fleet, "--nats", url];
            words.extend(["--rank", &rank, "--size", &size, "--allow-dir", &allowed]);
            if let Some(authorities) = &authorities {
                words.extend(["--tls-ca", authorities]);
            }
            let input = match token {
                Some(path) => {
                    words.extend(["--token-file", "/dev/stdin"]);
                    check_secret(path, MAX_TOKEN_FILE).context(path.display())?;
                    File::open(path).context(path.display())?.into()
                }
                None => Stdio::null(),
            };
            let line = words.into_iter().map(shell_word).collect::<Vec<_>>().join(" ");
            let mut command = Command::new("ssh");
            command.args(["-o", "BatchMode=yes", "--", host]).arg(line).stdin(input).stdout(Stdio::null());
            // Ctrl-C must reach only the coordinator, which stops the hosts.
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            let child = command.spawn().context("could not start ssh").advise("install it")?;
            hosts.0.push(child);
        }
        Ok(hosts)
    }
}

impl SshHosts {
    /// Waits until the hosts have exited. Lost hosts are skipped.
    pub fn end(mut self, is_lost: impl Fn(usize) -> bool) {
        for (rank, child) in self.0.iter_mut().enumerate() {
            if !is_lost(rank) {
                let _ = child.wait();
            }
        }
    }
}

impl Drop for SshHosts {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
