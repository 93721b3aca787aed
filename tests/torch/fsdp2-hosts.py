#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts the checkpoint of a training job on three hosts. Each process saves to the disk of its own host.

    fsdp2-hosts.py CKPTFS

The job is train.py: FSDP2, AdamW, four processes; tests/lib/hosts.py makes the hosts. No single directory is sufficient for
PyTorch's loader; the mount has every tensor of the job. A host is unplugged and plugged in again. The result is TAP.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

import live                                                             # also finds the modules of tests/fixtures
import interop
import train

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import hosts as hosts_module                                                                # noqa: E402

RANKS = {0: "h1", 1: "h2", 2: "h2", 3: "h3"}
PORT = 29500                                                            # in a private network
NET = "10.77.0.0/24"


def start(hosts, rank, words):
    environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(len(RANKS)),
                   "MASTER_ADDR": hosts.addresses["h1"], "MASTER_PORT": str(PORT), "OMP_NUM_THREADS": "1",
                   "GLOO_SOCKET_IFNAME": "eth0", "TP_SOCKET_IFNAME": "eth0"}
    return hosts.popen(RANKS[rank], [sys.executable, train.__file__, *words], env=environment,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def job(hosts):
    """Runs the job. Returns its report of the tensors, or None if it failed."""
    report = pathlib.Path(hosts.base, "report")
    words = ["--steps=2", f"--save={hosts.src}", f"--report={report}"]
    running = [start(hosts, rank, words) for rank in RANKS]
    said = [process.communicate(timeout=200)[0] for process in running]
    if any(process.returncode for process in running):
        print(f"# {ascii(said)[-1500:]}")
        return None
    return json.loads(report.read_text())


def digest(hosts, key):
    """SHA-256 of a tensor in the mount, or the error message of cat."""
    done = hosts.run("h1", ["cat", f"{hosts.mnt}/raw/{key}"], capture_output=True)
    return done.stderr.decode() if done.returncode else hashlib.sha256(done.stdout).hexdigest()


def wrong_ones(hosts, trained):
    return [f"{key}: {digest(hosts, key)}" for key, (_, _, _, want) in trained.items() if digest(hosts, key) != want]


def mount(hosts, program):
    done = hosts.run("h1", [program, "mount", "--hosts", "h1,h2,h3", "-o", f"agent={hosts.agent},net={NET}", hosts.src,
                            hosts.mnt], capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def loadable(path):
    """True if PyTorch can read the directory of a host alone."""
    done = subprocess.run([sys.executable, "-c", "import sys, torch.distributed.checkpoint.format_utils as f; "
                           "f.dcp_to_torch_save(sys.argv[1], sys.argv[1] + '.pt')", path], capture_output=True, check=False)
    return done.returncode == 0


def copied(hosts, tap, program, trained):
    """Copies one tensor by the command of the README."""
    key = "model.layers.0.attention.wq.weight"
    name = f"{hosts.base}/wq"
    good = hosts.run("h1", ["cp", f"{hosts.mnt}/raw/{key}", name]).returncode == 0
    found = hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest() if good else None
    tap.line(found == trained[key][3], "one is copied out")
    whole = hosts.run("h1", [program, "check", "--full", "--hosts", "h1,h2,h3", "-o",
                             f"agent={hosts.agent},net={NET}", hosts.src], capture_output=True, text=True)
    tap.line(whole.returncode == 0, "check --full over the hosts finds nothing", [whole.stdout, whole.stderr])


def cable(hosts, tap, trained):
    """Unplugs h3, which has a quarter of every layer."""
    hosts.link("h3", "down")
    lost = []
    begin = time.monotonic()
    while not lost and time.monotonic() < begin + 30:
        hosts.run("h1", ["sh", "-c", "echo 3 >/proc/sys/vm/drop_caches"])
        lost = wrong_ones(hosts, trained)
    tap.line(lost and all("Input/output error" in line for line in lost), "a cable is pulled: EIO, no other bytes", lost)
    hosts.link("h3", "up")
    while lost and time.monotonic() < begin + 60:
        lost = wrong_ones(hosts, trained)
    tap.line(not lost, "it is in again: all is there", lost)


def main():
    options = live.arguments(__doc__)
    why = hosts_module.why_not()
    if why and os.environ.get("CI") != "true":
        interop.skip(why)
    tap = interop.Tap()
    with hosts_module.Hosts(3) as hosts:
        report = job(hosts)
        tap.line(report is not None, "a job of four processes on three hosts saves")
        trained = report["trained"]
        tap.line(not any(loadable(path) for path in hosts.directories.values()),
                 "canary: PyTorch loads no host's directory alone")
        good, said = mount(hosts, options.ckptfs)
        tap.line(good and not said, "it is mounted", [said])
        wrong = wrong_ones(hosts, trained)
        tap.line(not wrong and len(trained) > 20, f"{len(trained)} tensors are as they were trained", wrong)
        loaded = wrong_ones(hosts, report["loaded"])
        tap.line(loaded, "canary: not as they were before")
        copied(hosts, tap, options.ckptfs, trained)
        cable(hosts, tap, trained)
        done = hosts.run("h1", [options.ckptfs, "umount", hosts.mnt], capture_output=True, text=True)
        tap.line(done.returncode == 0 and not done.stderr, "umount", [done.stderr])
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
