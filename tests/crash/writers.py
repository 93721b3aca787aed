# SPDX-License-Identifier: MIT
"""Writers that change a checkpoint, and how each is started.

Each has run(checkpoint, plan, fault) -> Outcome. `fault` decides the result of
every system call beneath `checkpoint`; `plan` is the folder of
made.Plan.write_new().

    Command    a program that makes one commit and ends
    Mounted    the daemon, with tools that write into the mount
    DcpSave    torch.distributed.checkpoint.save
"""
import collections
import ctypes
import os
import subprocess
import time

import injector

# status: exit status, 128 + signal, or HUNG; reported: it reported success
Outcome = collections.namedtuple("Outcome", "status reported output")
MNT_FORCE, MNT_DETACH = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


def filled(words, **places):
    return [word.format(**places) for word in words]


class Command:
    """argv may have {checkpoint} and {plan}. Success is exit 0, or a line
    "committed" with any exit status."""

    steady = True       # the same calls and allocations every time

    def __init__(self, *argv):
        self.argv = argv

    def run(self, checkpoint, plan, fault):
        argv = filled(self.argv, checkpoint=checkpoint, plan=plan)
        status, output = injector.Injector(
            getattr(fault, "prefix", []) + argv, checkpoint, fault).wait()
        reported = status == 0 or "committed" in output.splitlines()
        return Outcome(status, reported, output)


class Mounted:
    """argv mounts {checkpoint} at {mnt} in the foreground; script has the user's
    shell commands, one a line, with {mnt} and {plan}. Success means exit 0 of
    every command. Calls are counted once the mount is ready."""

    steady = False

    def __init__(self, argv, script, mnt):
        self.argv, self.script, self.mnt = argv, script, mnt
        os.makedirs(mnt, exist_ok=True)

    def is_usable(self, waited):
        """True if the mount is ready. The last step of ckptfs before it reports
        that is to raise the read-ahead; an earlier umount is refused. If the
        kernel reuses the device number at once, the raised value may be that of
        the previous mount (1 of 100)."""
        with open("/proc/self/mountinfo") as mounts:
            devices = [line.split()[2] for line in mounts
                       if line.split()[4] == self.mnt]
        if not devices or os.geteuid() != 0 or waited > 10:
            return bool(devices)    # only root may raise it
        with open(f"/sys/class/bdi/{devices[0]}/read_ahead_kb") as kb:
            return kb.read() == "1024\n"

    def run(self, checkpoint, plan, fault):
        argv = filled(self.argv, checkpoint=checkpoint, mnt=self.mnt)
        fault.armed = False
        run = injector.Injector(getattr(fault, "prefix", []) + argv,
                                checkpoint, fault)
        output, good = "", False
        try:
            output, good = self.use(run, plan, fault)
        finally:
            # A dead daemon leaves its mount; a live one exits. A daemon killed
            # while it waits for its own reply waits until the connection is
            # aborted.
            if libc.umount2(self.mnt.encode(), 0):
                libc.umount2(self.mnt.encode(), MNT_FORCE)
                libc.umount2(self.mnt.encode(), MNT_DETACH)
            status, log = run.wait()
        return Outcome(status, good, output + log)

    def again(self, checkpoint):
        """Mounts and unmounts without a fault: status and output."""
        script, self.script = self.script, "true"
        outcome = self.run(checkpoint, "", injector.Fault())
        self.script = script
        return outcome.status or not outcome.reported, outcome.output

    def use(self, run, plan, fault):
        begin = time.monotonic()
        while not self.is_usable(time.monotonic() - begin):
            if run.process.poll() is not None or \
                    time.monotonic() > begin + injector.PATIENCE:
                return "not mounted\n", False
            time.sleep(0.002)
        fault.armed = True
        try:
            done = subprocess.run(
                ["sh", "-ec", self.script.format(mnt=self.mnt, plan=plan)],
                capture_output=True, text=True, timeout=injector.PATIENCE)
        except subprocess.TimeoutExpired:
            run.end()
            return "", False
        fault.finish()
        return done.stdout + done.stderr, done.returncode == 0


class DcpSave:
    """dcp.save in processes forked from one that has imported torch; plan is
    "<tensors> <columns> <seed>"."""

    def __init__(self, python):
        self.python, self.server, self.root = python, None, None

    def start(self, root):
        here = os.path.dirname(os.path.abspath(__file__))
        give, take = os.pipe(), os.pipe()
        self.root = root
        self.server = injector.Injector(
            [self.python, f"{here}/dcp_save.py", str(give[0]), str(take[1])],
            root, injector.Fault(), more_fds=(give[0], take[1]))
        os.close(give[0])
        os.close(take[1])
        self.orders, self.answers = open(give[1], "w"), open(take[0])
        if self.answers.readline() != "ready\n":
            self.stop()
            raise RuntimeError((self.output.split("\n")[-2:] or ["no torch"])[0])

    def stop(self):
        self.orders.close()
        _, self.output = self.server.wait()
        self.server = None

    def run(self, checkpoint, plan, fault):
        self.server.fault = fault
        print(checkpoint, plan, file=self.orders, flush=True)
        status = int(self.answers.readline().split()[1])
        self.server.fault = injector.Fault()
        return Outcome(status, status == 0, "")
