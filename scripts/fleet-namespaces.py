#!/usr/bin/env python3
"""Runs fleets on hosts that are network namespaces of this machine, started by ssh, Open MPI and Slurm in turns.

    scripts/fleet-namespaces.py                     four hosts, 20 runs
    scripts/fleet-namespaces.py --runs 3 --cut      and, for each launcher, one run in which a host's cable is cut
    scripts/fleet-namespaces.py --throttled         eight hosts, of which one has a slow volume: is it named?

Prints the start skew of all hosts and what was lost as a table for docs/performance/other-results.md. Messages go over TLS with a token. Needs root and the
Debian packages iproute2, openssh-server, openmpi-bin, slurm-wlm, munge, nats-server and openssl. Everything that it starts ends with it.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "jetcell"
HEAD = "10.97.0.1"
PORT = 4222
TOOLS = {
    "ip": "iproute2", "sshd": "openssh-server", "mpirun": "openmpi-bin", "srun": "slurm-wlm", "slurmd": "slurm-wlm",
    "slurmctld": "slurm-wlm", "munged": "munge", "nats-server": "nats-server", "openssl": "openssl",
}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **more)


def address(host):
    return f"10.97.0.{11 + host}"


def namespace(host):
    return f"{PREFIX}{host}"


class Hosts:
    """Namespaces on a bridge, each with a name of its own."""

    def __init__(self, count):
        self.count = count
        self.daemons = []
        self.remove()
        run("ip", "link", "add", PREFIX, "type", "bridge")
        run("ip", "address", "add", f"{HEAD}/24", "dev", PREFIX)
        run("ip", "link", "set", PREFIX, "up")
        for host in range(count):
            name = namespace(host)
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"{name}-out", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"{name}-out", "master", PREFIX, "up")
            self.inside(host, "ip", "address", "add", f"{address(host)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                self.inside(host, "ip", "link", "set", device, "up")

    def inside(self, host, *command):
        return run("ip", "netns", "exec", namespace(host), *command)

    def start(self, host, *command):
        """A daemon in the foreground, in the namespace of a host or, for None, outside."""
        words = [str(word) for word in command]
        if host is not None:
            script = f'hostname {namespace(host)}; exec "$@"'
            # Not `ip netns exec`, which hides the control groups that slurmd looks for.
            words = ["nsenter", f"--net=/run/netns/{namespace(host)}", "unshare", "--uts", "sh", "-c", script, "sh", *words]
        daemon = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.daemons.append(daemon)

    def cable(self, host, state):
        run("ip", "link", "set", f"{namespace(host)}-out", state)

    def remove(self):
        for daemon in self.daemons:
            try:
                os.killpg(daemon.pid, signal.SIGTERM)
                daemon.wait(timeout=5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                daemon.kill()
        for line in run("ip", "netns", "list").stdout.splitlines():
            name = line.split()[0]
            if name.startswith(PREFIX):
                for process in run("ip", "netns", "pids", name).stdout.split():
                    os.kill(int(process), signal.SIGKILL)
                run("ip", "netns", "delete", name)
        subprocess.run(["ip", "link", "delete", PREFIX], capture_output=True)


def make_certificates(work):
    """An authority and the certificate of the server."""
    authority, key, server = (work / name for name in ("ca.pem", "server.key", "server.pem"))
    common = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    run("openssl", "req", "-x509", *common, "-keyout", work / "ca.key", "-out", authority, "-subj", "/CN=authority")
    run("openssl", "req", *common, "-keyout", key, "-out", work / "server.csr", "-subj", "/CN=nats")
    (work / "extensions").write_text(f"subjectAltName=IP:{HEAD}\nbasicConstraints=CA:FALSE\n")
    run("openssl", "x509", "-req", "-in", work / "server.csr", "-CA", authority, "-CAkey", work / "ca.key", "-days", "2",
        "-extfile", work / "extensions", "-out", server)


def start_ssh(hosts, work, program):
    """A server in each namespace, and a client in the path that finds them."""
    for name in ("host_key", "user_key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", work / name)
    shutil.copy(work / "user_key.pub", work / "authorized_keys")
    (work / "sshd_config").write_text(
        f"HostKey {work}/host_key\nAuthorizedKeysFile {work}/authorized_keys\nStrictModes no\nPermitRootLogin yes\nPidFile none\n"
        f"UsePAM no\nMaxStartups 100\nSetEnv PATH={program.parent}:/usr/sbin:/usr/bin:/sbin:/bin\n")
    (work / "ssh_config").write_text(
        f"IdentityFile {work}/user_key\nUser root\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n")
    client = work / "bin" / "ssh"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {work}/ssh_config "$@"\n')
    client.chmod(0o755)
    os.environ["PATH"] = f"{client.parent}:{os.environ['PATH']}"
    Path("/run/sshd").mkdir(exist_ok=True)
    for host in range(hosts.count):
        hosts.start(host, shutil.which("sshd"), "-D", "-f", work / "sshd_config")


def start_slurm(hosts, work):
    spool = work / "slurm"
    spool.mkdir()
    key, socket = work / "munge.key", work / "munge.socket"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    hosts.start(None, "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket}", f"--pid-file={work}/munge.pid",
                f"--log-file={work}/munge.log", f"--seed-file={work}/munge.seed")
    nodes = "".join(f"NodeName={namespace(host)} NodeAddr={address(host)} CPUs=1 State=UNKNOWN\n" for host in range(hosts.count))
    config = work / "slurm.conf"
    config.write_text(
        f"ClusterName=jetcell\nSlurmctldHost=head({HEAD})\nAuthType=auth/munge\nAuthInfo=socket={socket}\nCredType=cred/munge\n"
        f"SlurmUser=root\nStateSaveLocation={spool}\nSlurmdSpoolDir={spool}/%n\nSlurmctldPidFile={spool}/controller.pid\n"
        f"SlurmdPidFile={spool}/%n.pid\nSlurmctldLogFile={work}/slurmctld.log\nSlurmdLogFile={work}/slurmd-%n.log\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nReturnToService=2\nSlurmdParameters=config_overrides\n"
        f"{nodes}PartitionName=all Nodes=ALL Default=YES State=UP\n")
    environment = f"SLURM_CONF={config}"
    hosts.start(None, "unshare", "--uts", "sh", "-c", f"hostname head; exec env {environment} slurmctld -D")
    for host in range(hosts.count):
        hosts.start(host, "env", environment, "slurmd", "-D", "-N", namespace(host))
    os.environ["SLURM_CONF"] = str(config)
    deadline = time.monotonic() + 60
    while True:
        states = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], capture_output=True, text=True).stdout.split()
        if states.count("idle") == hosts.count:
            return
        if time.monotonic() > deadline:
            for log in work.glob("slurm*.log"):
                sys.stderr.write("".join(f"{log.name}: {line}\n" for line in log.read_text().splitlines()[-5:]))
            sys.exit(f"fleet-namespaces: nodes of Slurm are {states}")
        time.sleep(0.5)


class Fleet:
    """A run of jetcell fleet over all hosts."""

    def __init__(self, work, hosts, launcher, number, arguments):
        self.work, self.hosts, self.launcher = work, hosts, launcher
        self.program = arguments.program
        self.directory = work / f"run-{number}"
        self.directory.mkdir()
        self.name = f"run{number}"
        # Wide limits: what is looked at is the fleet and not this machine's storage.
        text = (
            f'name = "{self.name}"\nhosts = {hosts.count}\noutput = "{self.directory}/out"\n'
            'join_timeout = "60s"\nlost_after = "10s"\nlease = "20s"\n'
            f'[options]\nsize = "32MiB"\ncache = "16MiB"\nthreads = 2\nduration = "{arguments.duration}"\n'
            f"{f'rate = {arguments.rate}' if arguments.rate else ''}\n[options.records]\ntables = 1\n[options.thresholds]\n")
        limits = ("average_database_read_ms", "maximum_database_read_ms", "average_log_write_ms", "maximum_log_write_ms",
                  "page_fault_stalls")
        text += "".join(f"{limit} = 1000000\n" for limit in limits)
        for host in range(hosts.count):
            place = self.directory / f"host{host}"
            place.mkdir()
            text += f'[[host]]\noptions = {{ dirs = ["{place}/db"], output = "{place}/run" }}\n'
        (self.directory / "FLEET.toml").write_text(text)

    def join_words(self):
        return [self.program, "fleet", "join", "--quiet", "--fleet", self.name, "--nats", f"tls://{HEAD}:{PORT}", "--token-file",
                self.work / "token", "--tls-ca", self.work / "ca.pem", "--allow-dir", self.work]

    def launch(self):
        hosts = [address(host) for host in range(self.hosts.count)]
        if self.launcher == "mpirun":
            words = ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", self.work / "bin/ssh", "--mca", "oob_tcp_if_include",
                     "10.97.0.0/24", "--mca", "orte_launch_agent", shutil.which("orted"), "--host",
                     ",".join(f"{host}:1" for host in hosts), *self.join_words()]
        elif self.launcher == "slurm":
            words = ["srun", f"-N{len(hosts)}", f"-n{len(hosts)}", "--no-kill", "-K0", "-D", "/", *self.join_words()]
        else:
            return None
        output = open(self.directory / "launcher.log", "wb")
        return subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def run(self, cut=None):
        """The result, and the exit code. `cut` is a host whose cable is cut while all measure."""
        words = [self.program, "fleet", "run", "--config", self.directory / "FLEET.toml", "--listen", f"{HEAD}:{PORT}", "--token-file",
                 self.work / "token", "--tls-cert", self.work / "server.pem", "--tls-key", self.work / "server.key", "--tls-ca",
                 self.work / "ca.pem"]
        if self.launcher == "ssh":
            hosts = ",".join(address(host) for host in range(self.hosts.count))
            words += ["--ssh", hosts, "--ssh-allow-dir", self.work, "--ssh-tls-ca", self.work / "ca.pem"]
        log = self.directory / "coordinator.log"
        output = open(log, "wb")
        coordinator = subprocess.Popen([str(word) for word in words], stdout=output, stderr=output)
        launcher = self.launch()
        try:
            if cut is not None:
                while coordinator.poll() is None and b"Measuring" not in log.read_bytes():
                    time.sleep(0.1)
                time.sleep(5)
                self.hosts.cable(cut, "down")
            code = coordinator.wait(timeout=300)
        finally:
            coordinator.kill()
            if cut is not None:
                self.hosts.cable(cut, "up")
            if launcher is not None:
                try:
                    launcher.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    launcher.terminate()
                    launcher.wait()
        found = list((self.directory / "out").glob("Fleet_*/fleet.json"))
        if len(found) != 1:
            for name in (log, self.directory / "launcher.log"):
                if name.exists():
                    sys.stderr.write(name.read_text(errors="replace"))
            sys.exit(f"fleet-namespaces: the {self.launcher} run {self.name} has no result")
        return json.loads(found[0].read_text()), code


def table(rows):
    print("| launcher | runs | hosts lost | start skew, median | greatest | round trip, median |")
    print("| --- | --- | --- | --- | --- | --- |")
    for launcher, results in rows.items():
        hosts = [host for result in results for host in result["hosts"]]
        skews = [abs(host["start_skew_ms"]) for host in hosts if "start_skew_ms" in host]
        trips = [host["clock"]["round_trip_ms"] for host in hosts if "clock" in host]
        lost = sum(host["outcome"] != "completed" for host in hosts)
        print(f"| {launcher} | {len(results)} | {lost} of {len(hosts)} | {statistics.median(skews):.2f} ms | {max(skews):.2f} ms "
              f"| {statistics.median(trips):.2f} ms |")


class SlowVolume:
    """A control group whose processes read a disk slowly."""

    def __init__(self, path, reads_per_second):
        device = path.stat().st_dev
        disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
        numbers = (disk.parent if (disk / "partition").exists() else disk).joinpath("dev").read_text().strip()
        groups = Path("/sys/fs/cgroup")
        has_version_2 = (groups / "cgroup.controllers").exists()
        self.group = (groups if has_version_2 else groups / "blkio") / PREFIX
        self.group.mkdir(exist_ok=True)
        if has_version_2:
            (groups / "cgroup.subtree_control").write_text("+io")
            (self.group / "io.max").write_text(f"{numbers} riops={reads_per_second}")
        else:
            (self.group / "blkio.throttle.read_iops_device").write_text(f"{numbers} {reads_per_second}")

    def take(self, process):
        (self.group / "cgroup.procs").write_text(str(process))

    def remove(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                return self.group.rmdir()
            except OSError:
                time.sleep(0.1)


def throttled(work, hosts, arguments):
    """All read as fast as they can; one host's processes may read 50 times per second."""
    slow = SlowVolume(work, 50)
    try:
        # What ssh starts on this host is in the group of its server.
        slow.take(hosts.daemons[5].pid)
        arguments.rate = 0
        result, code = Fleet(work, hosts, "ssh", 0, arguments).run()
    finally:
        hosts.remove()
        slow.remove()
    print(f"eight hosts, host 5 throttled: {result['verdict']}, exit code {code}")
    for host in result["hosts"]:
        print(f"rank {host['rank']}: {host['totals']['achieved_transactional_iops']:.0f} I/O per second, reads "
              f"{host['database_read_ms']:.2f} ms, {host.get('straggler', 'no straggler')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--launchers", default="ssh,mpirun,slurm")
    parser.add_argument("--duration", default="10s")
    parser.add_argument("--rate", type=int, default=40, help="operations per second of each host")
    parser.add_argument("--cut", action="store_true", help="then cut the cable of a host in one run of each launcher")
    parser.add_argument("--throttled", action="store_true", help="eight hosts, of which one has a slow volume, instead")
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/jetcell")
    arguments = parser.parse_args()
    for tool, package in TOOLS.items():
        if shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            sys.exit(f"fleet-namespaces: {tool} is missing; install the package {package}")
    if os.geteuid() != 0:
        sys.exit("fleet-namespaces: network namespaces need root")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    launchers = arguments.launchers.split(",")
    (ROOT / "target/tmp").mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="fleet-", dir=ROOT / "target/tmp"))
    (work / "token").touch(mode=0o600)
    (work / "token").write_text(secrets.token_hex(16))
    hosts = Hosts(8 if arguments.throttled else arguments.hosts)
    try:
        make_certificates(work)
        start_ssh(hosts, work, arguments.program)
        if arguments.throttled:
            return throttled(work, hosts, arguments)
        if "slurm" in launchers:
            start_slurm(hosts, work)
        rows = {launcher: [] for launcher in launchers}
        for number in range(arguments.runs):
            launcher = launchers[number % len(launchers)]
            result, code = Fleet(work, hosts, launcher, number, arguments).run()
            print(f"{number + 1} of {arguments.runs}, {launcher}: {result['verdict']}, exit code {code}", file=sys.stderr)
            rows[launcher].append(result)
        table(rows)
        arguments.duration = "20s"
        for place, launcher in enumerate(launchers if arguments.cut else []):
            result, code = Fleet(work, hosts, launcher, arguments.runs + place, arguments).run(cut=arguments.hosts - 1)
            lost = [(host["rank"], host["reason"]) for host in result["hosts"] if host["outcome"] != "completed"]
            print(f"{launcher}, a cable cut: {result['verdict']}, exit code {code}, lost {lost}")
    finally:
        hosts.remove()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
