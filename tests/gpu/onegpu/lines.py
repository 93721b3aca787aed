# SPDX-License-Identifier: MIT
"""Lines of tests/gpu/run: JSON objects with `version`, `check` and `ok`, which is null, with
`reason`, for a check that was not measured. With the fake driver no figure is printed, since its
speed has no meaning."""
import ctypes
import json

# Members that are printed also for a figure that was not measured.
ABOUT = {"device", "bytes", "bytes_each", "shards", "tensors", "run_bytes", "threads",
         "at_a_time", "same", "about"}
NO_SPEED = "a stand-in has no speed"


def is_standin():
    """True if the loaded CUDA driver is the fake one."""
    try:
        return hasattr(ctypes.CDLL("libcuda.so.1"), "standin_control")
    except OSError:
        return False


def is_figure(name):
    """True for durations and amounts of memory, which have no meaning with the fake driver."""
    return name == "seconds" or name.endswith(("_ms", "_mib"))


class Lines:
    """Prints the lines of a step to stdout, without buffering; each step is a process."""

    def __init__(self):
        self.standin = is_standin()

    def say(self, check, ok, **more):
        line = {"version": 1, "check": check, "ok": ok, **more}
        if self.standin:
            line["standin"] = True
        print(json.dumps(line), flush=True)

    def missing(self, check, reason, **more):
        self.say(check, None, reason=reason, **more)

    def figure(self, check, floor=None, target=None, low=False, **more):
        """Prints a figure that is judged by `ratio`, or, if `low`, by `us`, where less is better.
        With the fake driver, only the members in ABOUT are printed."""
        if self.standin:
            self.missing(check, NO_SPEED, **{k: v for k, v in more.items() if k in ABOUT})
            return
        got = more.get("us" if low else "ratio")
        ok = True
        if floor is not None:
            ok = got <= floor if low else got >= floor
            more.update(floor=floor, target=target)
        self.say(check, ok, **more)

    def passed_on(self, line, floor=None, target=None):
        """Prints a line of ckptfs-gpucheck, or of ckptfs-ncclcheck."""
        line = {k: v for k, v in line.items() if k != "version"}
        if "why" in line:
            line["reason"] = line.pop("why")
        check, ok = line.pop("check"), line.pop("ok")
        if ok and "gbps" in line:
            self.figure(check, floor if "ratio" in line else None, target, **line)
            return
        if self.standin:
            line = {k: v for k, v in line.items() if not is_figure(k)}
        self.say(check, ok, **line)


def rounded(number):
    return float(f"{number:.4g}")


def gbps(nbytes, seconds):
    return rounded(nbytes / seconds / 1e9)
