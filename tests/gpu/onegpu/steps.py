# SPDX-License-Identifier: MIT
"""The steps of tests/gpu/run. Each is a separate process that prints lines; the starting process
reports the checks that it does not reach."""
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time

import ckptfs_gpu
import gpu_client
import kinds as of_kinds
import python_reader
from lines import gbps, rounded
from offer import CLIENT, Offer, make_data, until

FD, PRIVATE = gpu_client.FD, gpu_client.PRIVATE
RANKS = 8
PIECE = 32 << 20  # bytes compared at once
RUN = 1024        # bytes of a run of tensors sharded on the second dimension
THREADS = 8
CLIENTS = 8       # killed clients
SETTLED = 0.5     # seconds until the memory of an ended process is free


class Step:
    def __init__(self, lines, programs, work, sizes):
        self.lines, self.programs, self.work, self.sizes = lines, programs, work, sizes

    def place(self, name):
        return os.path.join(self.work, name)

    def offer(self, checkpoint, options=""):
        return Offer(self.programs, checkpoint, self.place("offer"), options)


# --- ckptfs-gpucheck --------------------------------------------------------------------------


def gpucheck(s, *words, judge=lambda check: (None, None), quick=False):
    """Prints the lines of ckptfs-gpucheck. A run without its summary line has not ended well."""
    words = [*words, *(["--quick"] if quick or s.sizes.quick else [])]
    process = subprocess.Popen([s.programs.path("gpucheck"), *words], env=s.programs.env,
                               text=True, stdout=subprocess.PIPE)
    ended = False
    for text in process.stdout:
        line = json.loads(text)
        if line["check"] == "summary":
            ended = True
        elif line["check"] not in ("driver", "device") or "--only=device" in words or not line["ok"]:
            s.lines.passed_on(line, *judge(line["check"]))
    if process.wait() not in (0, 1, 2) or not ended:
        raise RuntimeError(f"ckptfs-gpucheck ended with {process.returncode}")
    return process.returncode


def device(s):
    """Exit status 2 without a GPU. The driver compiles all kernels, at their load."""
    s.programs.env.update(CUDA_CACHE_DISABLE="1", CUDA_MODULE_LOADING="EAGER")
    uname = platform.uname()
    s.lines.say("machine", True, kernel=uname.release, libc=" ".join(platform.libc_ver()),
                python=platform.python_version(), processors=os.cpu_count(),
                memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                disk_free_bytes=shutil.disk_usage(s.work).free)
    return gpucheck(s, "--only=device")


def kernels(s):
    gpucheck(s, "--only=tiles", f"--cases={s.sizes.cases}")


def floors(check):
    """(floor, target) of the ratio to a copy within the device."""
    way, _, rest = check.partition("_")
    run, _, off = rest.partition("_")
    if way != "tiles" or not run.isdigit():
        return None, None
    if int(run) >= 64:
        return (0.6, 0.7) if off else (0.8, 0.9)
    if off:
        return None, None
    return (0.5, 0.6) if int(run) == 16 else (0.25, 0.3)


def speed(s):
    gpucheck(s, "--only=speed", judge=floors)


# --- tensors of another process ------------------------------------------------------------------


def is_same(driver, export, stream):
    """True if the device has the bytes that the host backend gathers."""
    at = export.open()
    for begin in range(0, export.bytes, PIECE):
        n = min(PIECE, export.bytes - begin)
        if driver.bytes_at(at + begin, n) != stream.read(n):
            return False
    return stream.read(1) == b""


@contextlib.contextmanager
def saying(s, *checks):
    """Reports an error as a failure of these checks, so that the next checks still run."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        for check in checks:
            s.lines.say(check, False, reason=f"{type(error).__name__}: {error}")


def compare(s, driver, offer, name, flags=0):
    export = gpu_client.Export(driver, offer.path(name), flags)
    try:
        with s.programs.cat(offer.checkpoint, name) as process:
            same = is_same(driver, export, process.stdout)
            process.stdout.read()
        return same
    finally:
        export.close()


def small_sets(s):
    """Makes {directory: number of tensors}: rows, and columns of several widths."""
    made = {}
    for name, form, numbers in (("rows", None, (65536,)), ("columns8", "--columns", (65536, 8)),
                                ("columns24", "--columns", (65520, 24)),
                                ("columns1k", "--columns", (1 << 20, 1024))):
        make_data(s.place(name), s.sizes.tensors, RANKS, *numbers, form=form)
        made[s.place(name)] = [f"raw/t{t}" for t in range(s.sizes.tensors)]
    return made


def by_python(s, offer, name):
    """The bytes of a tensor of ckptfs_gpu.py, in the memory of the device."""
    tensor = ckptfs_gpu.open(offer.path(name))
    taken = python_reader.Taken(tensor.__dlpack__())
    got = python_reader.Memory().read(taken.data, taken.size())
    taken.end()
    tensor.close()
    return got == s.programs.bytes(offer.checkpoint, name)


def compared(s, driver):
    ways = {"export_ipc": lambda o, name: compare(s, driver, o, name),
            "export_fd": lambda o, name: compare(s, driver, o, name, FD | PRIVATE),
            "export_python": lambda o, name: by_python(s, o, name)}
    wrong = {check: [] for check in ways}
    n = 0
    for checkpoint, names in small_sets(s).items():
        with s.offer(checkpoint) as offer:
            for name in names:
                n += 1
                for check, is_right in ways.items():
                    try:
                        why = None if is_right(offer, name) else "other bytes"
                    except (OSError, RuntimeError) as error:
                        why = str(error)
                    if why:
                        wrong[check].append(f"{os.path.basename(checkpoint)}/{name}: {why}")
    for check, what in wrong.items():
        s.lines.say(check, not what, tensors=n, wrong=what[:5])


def many_at_once(s, driver, offer):
    """Small tensors share an allocation. Several private allocations may be in one block of the
    driver."""
    names = [f"raw/t{t}" for t in range(s.sizes.together)]
    exports = [gpu_client.Export(driver, offer.path(name), PRIVATE if i % 2 else 0)
               for i, name in enumerate(names)]
    try:
        wrong = [name for name, export in zip(names, exports)
                 if export.data() != s.programs.bytes(offer.checkpoint, name)]
        s.lines.say("many_at_once", not wrong, tensors=len(names), wrong=wrong[:5])
    finally:
        for export in exports:
            export.close()


def open_close(s, driver, offer):
    """Opening and closing exports returns all memory of the device."""
    def once(flags):
        export = gpu_client.Export(driver, offer.path("raw/t0"), flags | PRIVATE)
        export.open()
        export.close()
    once(0)  # the driver keeps memory of its setup
    once(FD)
    before = driver.free_bytes()
    for i in range(s.sizes.times):
        once(FD if i % 2 else 0)
    good = until(lambda: driver.free_bytes() >= before)
    s.lines.say("open_close", good, times=s.sizes.times, free_before=before,
                free_after=driver.free_bytes())


def client_of(offer, *names):
    """Starts a process that exports these tensors; returns it, and true if it succeeded."""
    client = subprocess.Popen([sys.executable, CLIENT, *map(offer.path, names)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
    return client, client.stdout.readline() == "ready\n"


def kill_client(offer):
    """Kills a client; true if it had its exports."""
    client, ready = client_of(offer, "raw/t0", "raw/t1")
    client.kill()
    client.wait()
    return ready


def client_killed(s, driver, offer):
    """Killed clients return their memory; the driver keeps memory of the first one, once."""
    held = kill_client(offer)
    time.sleep(SETTLED)
    before = driver.free_bytes()
    for _ in range(CLIENTS):
        held &= kill_client(offer)
    freed = until(lambda: driver.free_bytes() >= before)
    after = driver.free_bytes()
    same = compare(s, driver, offer, "raw/t0")
    s.lines.say("client_killed", held and freed and same, clients=CLIENTS, held=held, freed=freed,
                same=same, free_before=before, free_after=after)


def mover_killed(s, driver, offer):
    """The worker is killed. Its exports have no guarantee: the client's exit status is reported,
    and not judged."""
    client, ready = client_of(offer, "raw/t0")
    replaced = offer.kill_mover()

    def comes():
        with contextlib.suppress(OSError):
            gpu_client.Export(driver, offer.path("raw/t1"), PRIVATE).close()
            return True
        return False
    same = until(comes, 20) and compare(s, driver, offer, "raw/t1")
    client.communicate("\n")
    s.lines.say("mover_killed", ready and replaced and same, replaced=replaced, same=same,
                client_exit_status=client.returncode)


def export(s):
    driver = gpu_client.Driver()
    compared(s, driver)
    make_data(s.place("tiny"), s.sizes.together, RANKS, 16384, form="--whole")
    with s.offer(s.place("tiny")) as offer:
        for check in many_at_once, open_close, client_killed, mover_killed:
            with saying(s, check.__name__):
                check(s, driver, offer)


def kinds(s):
    of_kinds.check(s)


# --- speed of exports and reads --------------------------------------------------------------------


def time_exports(s, offer, n, threads):
    """Exports all tensors twice: the first time includes opening and mapping the files."""
    got = [s.programs.ask("exports", "0", offer.socket, str(n), str(threads), "raw/t%u")
           for _ in range(2)]
    return got[0]["seconds"], got[1]["seconds"], got[1]["bytes"]


def export_small(s):
    n = s.sizes.small
    make_data(s.place("small"), n, RANKS, 16384, form="--whole")
    with s.offer(s.place("small")) as offer:
        _, one, nbytes = time_exports(s, offer, n, 1)
        _, all_of_them, _ = time_exports(s, offer, n, THREADS)
    if nbytes != n * 16384:
        raise RuntimeError(f"{nbytes} bytes came")
    s.lines.figure("export_small", 50, 30, low=True, tensors=n, bytes_each=16384, threads=THREADS,
                   us=rounded(all_of_them / n * 1e6), one_us=rounded(one / n * 1e6),
                   about="asked over a socket, without FUSE; one_us: one after the other")


def gathered(s, offer, name, check):
    """Gathers back to host memory, compared with the host backend."""
    got = offer.read(name, THREADS)
    whole = got["gpu_bytes"] == got["bytes"]
    if got["err"] or not got["same"] or not whole:
        s.lines.say(check, False, reason=f"errno {got['err']}, same bytes: {got['same']}, "
                    f"by the GPU: {got['gpu_bytes']} of {got['bytes']}")
        return None
    s.lines.figure(check, bytes=got["bytes"], threads=THREADS, same=True,
                   gbps=gbps(got["bytes"], got["gpu_seconds"]), ref="host mover",
                   ref_gbps=gbps(got["bytes"], got["host_seconds"]),
                   ratio=rounded(got["host_seconds"] / got["gpu_seconds"]))
    return got["host_seconds"] / got["bytes"]


def copied(s, nbytes, how):
    return s.programs.ask("copies", "0", str(nbytes), how)["seconds"]


def of_reads(s, check, nbytes, took, host):
    """Compared with the host backend and a copy of its result: the least work of a read(2)."""
    read = host * nbytes + copied(s, nbytes, "pageable")
    s.lines.figure(check, 1.5, 2, bytes=nbytes, gbps=gbps(nbytes, took), ratio=rounded(read / took),
                   ref=f"host mover with {THREADS} threads, and a copy of that; without FUSE",
                   ref_gbps=gbps(nbytes, read))


def pipeline_of(s, name, row):
    driver, tensors = gpu_client.Driver(), s.sizes.large_tensors
    # Two sets are in memory: the previous one is freed while the next one is exported.
    each = min(s.sizes.bytes, driver.free_bytes() // 3) // tensors // RANKS // 4096 * 4096
    checkpoint = s.place(name)
    make_data(checkpoint, tensors, RANKS, each, *([row] if row else []),
              form="--columns" if row else None)
    nbytes = tensors * RANKS * each
    with s.offer(checkpoint) as offer:
        pinned = copied(s, nbytes, "pinned")
        _, one, _ = time_exports(s, offer, tensors, 1)
        first, took, came = time_exports(s, offer, tensors, THREADS)
        pinned = min(pinned, copied(s, nbytes, "pinned"))
        same = came == nbytes and compare(s, driver, offer, "raw/t0")
        if same:
            s.lines.figure("pipeline_" + name, 0.75, 0.85, bytes=nbytes, shards=RANKS, same=True,
                           tensors=tensors, run_bytes=row or each, ref="copy from pinned memory",
                           gbps=gbps(nbytes, took), ref_gbps=gbps(nbytes, pinned),
                           ratio=rounded(pinned / took), first_gbps=gbps(nbytes, first),
                           one_gbps=gbps(nbytes, one), at_a_time=min(THREADS, tensors))
        else:
            s.lines.say("pipeline_" + name, False, reason="other bytes", bytes=came)
        host = gathered(s, offer, "raw/t0", "gather_" + name)
        if host is not None and not s.lines.standin:
            of_reads(s, "export_large_" + name, nbytes, took, host)
        elif host is not None:
            s.lines.figure("export_large_" + name, bytes=nbytes)
    shutil.rmtree(checkpoint)


def pipeline(s):
    pipeline_of(s, "rows", None)
    pipeline_of(s, "columns", RUN)


# --- PyTorch, NCCL, compute-sanitizer ------------------------------------------------------------------


def torch_python():
    """An interpreter whose PyTorch finds a GPU, or the reason why there is no such one."""
    why = "no PyTorch"
    code = "import torch; print(torch.cuda.is_available())"
    for python in dict.fromkeys((os.environ.get("CKPTFS_TORCH_PYTHON"), sys.executable,
                                 shutil.which("python3"), shutil.which("python"))):
        if not python:
            continue
        done = subprocess.run([python, "-c", code], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        if done.stdout.strip() == "True":
            return python, None
        if done.returncode == 0:
            why = "PyTorch sees no GPU"
    return None, why


TORCH = ["torch_equal", "torch_load", "torch_safe_open"]


def torch(s):
    python, why = torch_python()
    if not python:
        for check in TORCH:
            s.lines.missing(check, why)
        return
    each = s.sizes.torch_bytes // RANKS // 4096 * 4096
    make_data(s.place("torch"), 1, RANKS, each)
    with s.offer(s.place("torch")) as offer:
        with open(s.place("t0.bytes"), "wb") as file:
            file.write(s.programs.bytes(offer.checkpoint, "raw/t0"))
        here = os.path.dirname(os.path.abspath(__file__))
        subprocess.run([python, os.path.join(here, "with_torch.py"), offer.path("raw/t0"),
                        s.place("t0.bytes")], check=True)


NCCL = ["nccl_version", "nccl_self", "nccl_two_ranks", "nccl_killed", "nccl_memory"]


def nccl(s):
    """A separate program prints these lines, in the form of ckptfs-gpucheck, and a summary. Each
    of its checks has a timeout; together they take less time than this step has."""
    if not s.programs.has("ncclcheck"):
        for check in NCCL:
            s.lines.missing(check, "ckptfs-ncclcheck is not in this archive")
        return
    process = subprocess.Popen([s.programs.path("ncclcheck"), *(["--quick"] if s.sizes.quick else [])],
                               env=s.programs.env, text=True, stdout=subprocess.PIPE)
    ended = False
    for text in process.stdout:
        line = json.loads(text)
        if line["check"] == "summary":
            ended = True
        else:
            s.lines.passed_on(line)
    if process.wait() not in (0, 1, 2) or not ended:
        raise RuntimeError(f"ckptfs-ncclcheck ended with {process.returncode}")


def sanitizer_of(s, path, tool):
    done = s.programs.run("gpucheck", "--quick", "--only=tiles",
                          before=[path, "--tool", tool, "--error-exitcode", "9"])
    tail = [line for line in done.stdout.splitlines() if "ERROR SUMMARY" in line or
            "RACECHECK SUMMARY" in line]
    if not tail and done.returncode:
        s.lines.missing(tool, "it does not run: " + (done.stdout + done.stderr).strip()[-200:])
        return
    s.lines.say(tool, done.returncode == 0, summary=" ".join(tail).strip("= "))


def sanitizer(s):
    path = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin")
    for tool in "memcheck", "racecheck":
        if s.lines.standin:
            s.lines.missing(tool, "a stand-in is not what it looks at")
        elif not path:
            s.lines.missing(tool, "no compute-sanitizer")
        else:
            sanitizer_of(s, path, tool)


# --- all steps, the most important first: time limit in seconds, and checks -----------------------------

STEPS = [
    (device, 30, ["machine", "driver", "device", "kernels", "ptx"]),
    (kernels, 60, ["tiles"]),
    (export, 60, ["export_ipc", "export_fd", "export_python", "many_at_once", "open_close", "client_killed",
                  "mover_killed"]),
    (kinds, 60, ["kinds_export", "kinds_gather", "kinds_steps", "kinds_canary"]),
    (pipeline, 120, [f"{what}_{name}" for name in ("rows", "columns")
                     for what in ("pipeline", "gather", "export_large")]),
    (export_small, 60, ["export_small"]),
    (speed, 90, ["copy_up", "copy_down", "copy_both", "copy_device"] + [
        f"{way}_{run}{off}" for run in (2, 4, 8, 16, 64, 256, 2048, 65536) for way, off in (
            ("tiles", ""), ("tiles", "_misaligned"), ("rows", ""), ("batch", ""))] + ["pipe"]),
    (nccl, 120, NCCL),
    (torch, 60, TORCH),
    (sanitizer, 60, ["memcheck", "racecheck"]),
]
