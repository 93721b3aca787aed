#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checkpoints of all kinds over several hosts, whose directories form one checkpoint. Files of the
ranks of a job, each on its own host, are shown as in one directory; so are safetensors, and pieces
whose index is on one host. Other tests cover replicas that differ, hosts that go down, and refused
mounts.

    kinds.py CKPTFS [SCENE...]      needs root
"""
import ctypes
import os
import re
import select
import shutil
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import deal  # noqa: E402
import hosts_mount  # noqa: E402
from hosts import Hosts, skipped, until  # noqa: E402
from scenes import play  # noqa: E402
from tap import Tap  # noqa: E402
from trees_differ import differ  # noqa: E402
from two_trees_at import seen_in  # noqa: E402

FIXTURES = os.path.join(HERE, "../fixtures")
CKPTFS = os.path.realpath(sys.argv[1])
IN_OPEN = 0x20
libc = ctypes.CDLL(None, use_errno=True)
tap = Tap()
# The file that a rank has saved.
RANK = "model_world_size_3_rank_{}.pt"
NORM = 3712     # of files_ranks, where each has model.norm.weight


def clear(hosts):
    for place in hosts.directories.values():
        for name in os.listdir(place):
            path = os.path.join(place, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def dealt(hosts, name, metadata="one"):
    clear(hosts)
    return deal.deal(f"{FIXTURES}/{name}", hosts.directories, "by rank", 1, metadata)


def copy(hosts, one, other, name):
    """Copies a file to another host; returns the path of the copy."""
    return shutil.copy2(f"{hosts.directory(one)}/{name}", f"{hosts.directory(other)}/{name}")


def read(hosts, path):
    """The number of bytes of a read, or a negative errno."""
    return hosts_mount.read(hosts, path)[0]


def sizes(hosts, *paths):
    return [read(hosts, path) for path in paths]


def over(hosts, *options):
    return ["--hosts", ",".join(hosts.names), "-o",
            ",".join((f"agent={hosts.agent}", hosts_mount.NET, *options))]


def command(hosts, *words, options=()):
    return hosts.run(hosts.names[0], [CKPTFS, words[0], *over(hosts, *options), hosts.src, *words[1:]],
                     capture_output=True, text=True)


# --- whole ---

def whole(hosts, name):
    """The tree of a fixture that is in one directory."""
    return whole_at(hosts, f"{FIXTURES}/{name}")


def whole_at(hosts, path):
    hosts.run("h1", [CKPTFS, "mount", path, hosts.mnt], check=True)
    try:
        return seen_in(hosts, "h1", hosts.mnt)
    finally:
        hosts.run("h1", [CKPTFS, "umount", hosts.mnt], check=True)


def same(hosts, what, tree, *options):
    with hosts_mount.mounted(hosts, CKPTFS, *options):
        found = list(differ(tree, seen_in(hosts, "h1", hosts.mnt)))
    tap.check(not found, what, *found[:20])


def test_whole(hosts):
    """A few kinds; `whole` draws the others at random."""
    for name in ("alone_3", "hub_index", "files_ranks"):
        tree, who = whole(hosts, name), dealt(hosts, name)
        tap.check(all(who.values()), f"{name}: each host has some of it", who)
        same(hosts, f"{name}: the tree equals that of one directory", tree)
    short(hosts, tree)


def short(hosts, tree):
    """A truncated replica is not used if another one is whole."""
    cut = copy(hosts, "h3", "h1", RANK.format(2))
    times = os.stat(cut)
    os.truncate(cut, times.st_size - 30)
    os.utime(cut, ns=(times.st_atime_ns, times.st_mtime_ns))
    same(hosts, "a copy that was cut short is as if it were not there", tree)
    deal.flip(copy(hosts, "h3", "h2", RANK.format(2)))
    same(hosts, "regression: it is the beginning of any of two that differ", tree, "prefer=h1+h3")


def test_commands(hosts):
    dealt(hosts, "files_ranks")
    done = command(hosts, "dump")
    with open(f"{HERE}/../golden/files_ranks.dump") as dump:
        tap.check(done.stdout == dump.read(), "dump", done.stderr, done.stdout[:300])
    done = command(hosts, "check", "--full")
    tap.check(done.returncode == 0, "check --full", done.stdout, done.stderr)
    done = command(hosts, "cat", "objects/step.json")
    tap.check(done.stdout == "7\n", "cat", done.stdout, done.stderr)


def test_differ(hosts):
    """The check compares replicas of ranks on other hosts with the shown bytes."""
    who = dealt(hosts, "files_ranks")
    for host in (host for host, names in who.items() if RANK.format(2) in names):
        with open(f"{hosts.directory(host)}/{RANK.format(2)}", "r+b") as file:
            file.seek(NORM)
            byte = file.read(1)[0]
            file.seek(NORM)
            file.write(bytes([byte ^ 1]))
    done = command(hosts, "check", "--full")
    tap.check(done.returncode == 1 and "model.norm.weight: ranks have other bytes than are shown: [2]" in done.stdout,
              "regression: replicas on other hosts are compared", done.stdout, done.stderr)
    done = command(hosts, "check")
    tap.check(done.returncode == 0, "the sample of a plain tensor is of one host", done.stdout, done.stderr)


# --- copies that differ ---

def test_conflict(hosts):
    dealt(hosts, "files_ranks")
    deal.flip(copy(hosts, "h2", "h3", RANK.format(1)))
    with hosts_mount.mounted(hosts, CKPTFS):
        lost = sizes(hosts, "raw/model.embed.weight", "raw/of.rank1",
                     "local/rank-1/model.embed.weight.npy")
        kept = sizes(hosts, "raw/of.rank0", "raw/of.rank2", "raw/model.norm.weight",
                     "local/rank-0/model.embed.weight.npy")
        damage = hosts_mount.report(hosts, "damage")
    tap.check(lost == [-5, -5, -5], "copies that differ: their tensors are an error", lost)
    tap.check(min(kept) > 0, "and nothing else is", kept)
    tap.check(re.search("differs between hosts.*h2.*h3", damage), "both hosts are named", damage)
    with hosts_mount.mounted(hosts, CKPTFS, "prefer=h2"):
        tap.check(read(hosts, "raw/model.embed.weight") == 140, "prefer= settles it")


def test_indexes(hosts):
    who = dealt(hosts, "hub_index")
    index = next(name for name in deal.files_of(f"{FIXTURES}/hub_index") if deal.is_metadata(name))
    first = next(host for host in who if index in who[host])
    other = next(host for host in who if host != first)
    with open(copy(hosts, first, other, index), "a") as out:
        out.write(" ")
    done = hosts_mount.mount(CKPTFS, hosts)
    tap.check(done.returncode == 2 and re.search(f"{index} differs between hosts: h., h.|"
                                                 f"{index} differs between hosts: h. has", done.stderr),
              "indexes that differ are refused", done.stderr)
    with hosts_mount.mounted(hosts, CKPTFS, f"prefer={first}"):
        tap.check(True, "but for prefer=")


def test_rank_metadata(hosts):
    dealt(hosts, "alone_3")
    deal.flip(copy(hosts, "h2", "h1", "__1.metadata"))
    done = hosts_mount.mount(CKPTFS, hosts)
    tap.check(done.returncode == 2 and "__1.metadata differs between hosts: h1 has" in done.stderr,
              "so are __<rank>.metadata", done.stderr)


def test_sidecar(hosts):
    """State of flat parameters: the sidecar on one host, on two that differ, and beside all."""
    side, name = "ckptfs-flat.json", "ranks_flat_state"
    tree = whole(hosts, name)
    dealt(hosts, name)
    for place in hosts.directories.values():
        if os.path.exists(f"{place}/{side}"):
            os.remove(f"{place}/{side}")
    shutil.copy2(f"{FIXTURES}/{name}/{side}", hosts.directory("h3"))
    same(hosts, "a sidecar that another host has", tree)
    with open(copy(hosts, "h3", "h2", side), "a") as out:
        out.write(" ")
    with hosts_mount.mounted(hosts, CKPTFS):
        shown = names_of(hosts)
        damage = hosts_mount.report(hosts, "damage")
    tap.check("optim.state.net1.0.weight.exp_avg" not in shown and "optim.state.0.exp_avg" in shown and re.search(f"{side}.* differs between hosts", damage),
              "sidecars that differ are not used", shown, damage)
    with hosts_mount.mounted(hosts, CKPTFS, f"sidecar={FIXTURES}/{name}/{side}"):
        found = [line for line in differ(tree, seen_in(hosts, "h1", hosts.mnt))
                 if not line.startswith((f"hf/{side}:", "errors:"))]
    tap.check(not found, "but one that sidecar= names", *found[:20])


def test_rename(hosts):
    """A map of names that only the mounting host has."""
    dealt(hosts, "dcp_flat")
    with open(hosts.directory("h1") + "/names", "w", encoding="utf-8") as out:
        out.write("*\tnew.*\n")
    with hosts_mount.mounted(hosts, CKPTFS, f"rename={hosts.src}/names"):
        shown = names_of(hosts)
    tap.check(shown and all(name.startswith("new.") for name in shown), "names of a file that one host has", shown)


def test_dcp_sidecar(hosts):
    """Flat parameters of DCP, with their boxes and the sidecar on any host."""
    name = "dcp_flat"
    tree = whole(hosts, name)
    dealt(hosts, name)
    same(hosts, "a sidecar beside DCP", tree)


def test_common(hosts):
    """Megatron's common.pt and metadata.json on other hosts, equal and different ones."""
    tree = whole(hosts, "megatron")
    dealt(hosts, "megatron", "all")
    for name, host in ("common.pt", "h2"), ("metadata.json", "h3"):
        shutil.move(f"{hosts.directory('h1')}/{name}", hosts.directory(host))
    same(hosts, "regression: Megatron's common.pt that another host has", tree)
    done = command(hosts, "check", "--full")
    tap.check(done.returncode == 0, "it is checked", done.stdout, done.stderr)
    shard, holder = "__1_0.distcp", next(host for host in hosts.names if os.path.exists(f"{hosts.directory(host)}/__1_0.distcp"))
    cut = copy(hosts, holder, next(host for host in hosts.names if host != holder), shard)
    times = os.stat(cut)
    os.truncate(cut, times.st_size - 300)
    os.utime(cut, ns=(times.st_atime_ns, times.st_mtime_ns))
    same(hosts, "regression: beside it a copy that was cut short is as if it were not there", tree)
    os.remove(cut)
    done = hosts_mount.mount(CKPTFS, hosts, agent=hosts_mount.agent_without(hosts, "h2"))
    shown_status = hosts_mount.report(hosts, "status")
    hosts_mount.must_umount(tap, CKPTFS, hosts)
    tap.check(done.returncode == 0 and "may have more files" not in shown_status,
              "regression: metadata names all files, also of a host that is missing", done.stderr, shown_status)
    with open(copy(hosts, "h3", "h1", "metadata.json"), "a") as out:
        out.write(" ")
    with hosts_mount.mounted(hosts, CKPTFS):
        shown, damage = names_of(hosts), hosts_mount.report(hosts, "damage")
    tap.check(shown and not any(name.startswith("common.") for name in shown) and
              re.search("common.pt is not shown: metadata.json differs between hosts", damage),
              "hosts do not agree whose it is", shown, damage)
    for name in "h1", "h3":
        with open(f"{hosts.directory(name)}/metadata.json", "w") as out:
            out.write("{}")
    with hosts_mount.mounted(hosts, CKPTFS):
        shown, damage = names_of(hosts), hosts_mount.report(hosts, "damage")
    tap.check(not any(name.startswith("common.") for name in shown) and "common" not in damage,
              "it is not Megatron's", shown, damage)


def test_beside(hosts):
    """Trainer's state beside safetensors, on another host than the index, and on two of them."""
    state = f"{FIXTURES}/files_several/optimizer.pt"
    with tempfile.TemporaryDirectory(prefix="ckptfs-kinds-") as both:
        os.chmod(both, 0o755)
        for path in *(f"{FIXTURES}/hub_index/{name}" for name in os.listdir(f"{FIXTURES}/hub_index")), state:
            shutil.copy2(path, both)
        tree = whole_at(hosts, both)
    dealt(hosts, "hub_index")
    shutil.copy2(state, hosts.directory("h3"))
    same(hosts, "torch files beside safetensors that another host has", tree)
    copy(hosts, "h3", "h2", "optimizer.pt")
    same(hosts, "torch files beside safetensors that two hosts have", tree)
    done = command(hosts, "check", "--full")
    tap.check(done.returncode == 0, "torch files beside safetensors: check --full", done.stdout, done.stderr)


def test_items(hosts):
    """Items of torch_checkpointing: metadata.pkl on one host, files on those of their ranks, damage of one of them."""
    tree, who = whole(hosts, "items_4"), dealt(hosts, "items_4")
    tap.check(all(who.values()), "torch_checkpointing: each host has some of it", who)
    same(hosts, "torch_checkpointing: files of ranks on their hosts", tree)
    done = command(hosts, "check", "--full")
    tap.check(done.returncode == 0, "torch_checkpointing: check --full", done.stdout, done.stderr)
    holder = next(host for host in hosts.names if os.path.exists(f"{hosts.directory(host)}/model_2.pt"))
    os.remove(f"{hosts.directory(holder)}/model_2.pt")
    with hosts_mount.mounted(hosts, CKPTFS):
        lost, kept = sizes(hosts, "raw/model.embed"), sizes(hosts, "raw/model.norm", "raw/opt.state.0.exp_avg")
        damage = hosts_mount.report(hosts, "damage")
    tap.check(lost == [-61] and min(kept) > 0 and "model_2.pt" in damage,
              "torch_checkpointing: a file that no host has", lost, kept, damage)
    dealt(hosts, "items_4", "all")
    with open(f"{hosts.directory('h2')}/metadata.pkl", "ab") as out:
        out.write(b" ")
    refused(hosts, "torch_checkpointing: metadata.pkl that differs between hosts", "metadata.pkl differs between hosts")


def test_aside(hosts):
    """Small files for hf/ on other hosts, equal and different ones."""
    tree = whole(hosts, "hub_index")
    dealt(hosts, "hub_index")
    holder = next(host for host in hosts.names if os.path.exists(f"{hosts.directory(host)}/config.json"))
    shutil.move(f"{hosts.directory(holder)}/config.json", hosts.directory("h3"))
    same(hosts, "a configuration that another host has", tree)
    with open(copy(hosts, "h3", "h2", "config.json"), "a") as out:
        out.write(" ")
    with hosts_mount.mounted(hosts, CKPTFS):
        shown = hosts.run("h1", ["ls", f"{hosts.mnt}/hf"], capture_output=True, text=True).stdout.split()
        shown_status = hosts_mount.report(hosts, "status")
    tap.check(shown == ["model.safetensors"] and "hf: not shown: config.json differs between hosts" in shown_status,
              "one that hosts have not the same", shown, shown_status)


def names_of(hosts):
    return hosts.run("h1", ["ls", f"{hosts.mnt}/raw"], capture_output=True, text=True).stdout.split()


def test_links(hosts):
    """A symbolic link that is not followed is shown as in one directory."""
    clear(hosts)
    one, name = f"{hosts.base}/one", "files_several"
    os.mkdir(one)
    for place in one, hosts.directory("h3"):
        shutil.copy2(f"{FIXTURES}/{name}/model.pt", place)
    for place in one, hosts.directory("h2"):
        os.symlink(f"{FIXTURES}/{name}/optimizer.pt", f"{place}/optimizer.pt")
    tree = whole_at(hosts, one)
    same(hosts, "regression: a file of torch.save behind a link", tree)
    os.remove(f"{hosts.directory('h3')}/model.pt")
    refused(hosts, "regression: there is only one behind a link",
            "optimizer.pt: is a link that is not followed")


def test_sidecar_link(hosts):
    """A symbolic link to the sidecar is followed on each host."""
    side, name = "ckptfs-flat.json", "ranks_flat_state"
    dealt(hosts, name)
    for place in hosts.directories.values():
        if os.path.exists(f"{place}/{side}"):
            os.remove(f"{place}/{side}")
    for host in "h1", "h3":
        place = hosts.directory(host)
        shutil.copy2(f"{FIXTURES}/{name}/{side}", f"{place}/behind.json")
        os.symlink("behind.json", f"{place}/{side}")
        with hosts_mount.mounted(hosts, CKPTFS, "shardlinks=beneath"):
            shown = names_of(hosts)
        tap.check("optim.state.net1.0.weight.exp_avg" in shown,
                  f"regression: a link to a sidecar is followed on {host}", shown)
        os.remove(f"{place}/{side}")


# --- hosts that are down or missing ---

def test_lost(hosts):
    """If a host dies, only tensors stored solely on it fail."""
    dealt(hosts, "files_ranks")
    with hosts_mount.mounted(hosts, CKPTFS, "rejoin=off"):
        for pid, _ in hosts.processes("h3"):
            hosts.kill(pid)
        gone = until(lambda: hosts_mount.status(hosts)[0].get("h3") == "down", 15)
        tap.check(gone, "a host dies", hosts_mount.status(hosts))
        lost = sizes(hosts, "raw/model.embed.weight", "raw/of.rank2")
        kept = sizes(hosts, "raw/of.rank0", "raw/of.rank1", "raw/model.norm.weight",
                     "local/rank-1/model.embed.weight.npy")
    tap.check(lost == [-5, -5], "what only it has is an error", lost)
    tap.check(min(kept) > 0, "and nothing else is", kept)


def test_missing(hosts):
    """The files of a host that was missing at the mount are unknown."""
    dealt(hosts, "files_ranks")
    done = hosts_mount.mount(CKPTFS, hosts, agent=hosts_mount.agent_without(hosts, "h3"))
    tap.check(done.returncode == 0 and "h3" in done.stderr, "a host is missing", done.stderr)
    lost, kept = sizes(hosts, "raw/model.embed.weight"), sizes(hosts, "raw/of.rank1")
    shown_status = hosts_mount.report(hosts, "status")
    hosts_mount.must_umount(tap, CKPTFS, hosts)
    tap.check((lost, kept) == ([-5], [8]), "tensors it may have are an error", lost, kept)
    tap.check("a host that was not there may have more files" in shown_status, "and that is said", shown_status)


class Opened:
    """Runs an action when a program opens a file in a directory."""

    def __init__(self, folder, strike):
        self.fd = libc.inotify_init()
        self.end = threading.Event()
        libc.inotify_add_watch(self.fd, folder.encode(), IN_OPEN)
        self.thread = threading.Thread(target=self.wait, args=(strike,))

    def wait(self, strike):
        while not self.end.is_set():
            if select.select([self.fd], [], [], 0.1)[0]:
                strike()
                return

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()
        os.close(self.fd)


def movers(hosts, host):
    return [pid for pid, argv in hosts.processes(host) if "serve" in argv and "--mpi" in argv]


def test_lost_in_time(hosts):
    """A host has two processes. The first one lists the files and dies before it sends their
    headers; the second one sends them."""
    tree = whole(hosts, "files_pieces")
    dealt(hosts, "files_pieces")
    hosts.netem("h2", "delay 30ms")
    with Opened(hosts.directory("h2"), lambda: hosts.stop(movers(hosts, "h2")[0])):
        done = hosts_mount.mount(CKPTFS, hosts, "rejoin=off", names="h1,h2:2,h3")
    hosts.netem("h2", None)
    tap.check(done.returncode == 0 and "host h2: its process went down" in done.stderr,
              "a process of a host is stopped while it is asked", done.returncode, done.stderr)
    found = list(differ(tree, seen_in(hosts, "h1", hosts.mnt)))
    tap.check(not found, "regression: the other one of that host is asked", *found[:20])
    for pid in movers(hosts, "h2"):
        hosts.cont(pid)
    hosts_mount.must_umount(tap, CKPTFS, hosts)


# --- refused mounts ---

def refused(hosts, what, *texts, options=()):
    done = hosts_mount.mount(CKPTFS, hosts, *options)
    tap.check(done.returncode == 2 and all(text in done.stderr for text in texts), what, done.stderr)


def test_refused(hosts):
    clear(hosts)
    shutil.copytree(f"{FIXTURES}/files_index", f"{hosts.directory('h1')}/step-1")
    shutil.copytree(f"{FIXTURES}/files_index", f"{hosts.directory('h1')}/step-2")
    refused(hosts, "a run directory", "checkpoints of kind run are not read from several hosts")
    refused(hosts, "nothing that is wanted", "it has no *.safetensors", options=("kind=safetensors",))
    clear(hosts)
    for name in os.listdir(f"{FIXTURES}/files_zip"):
        shutil.copy2(f"{FIXTURES}/files_zip/{name}", f"{hosts.directory('h2')}/step-1.pt")
    done = hosts.run("h1", [CKPTFS, "mount", *over(hosts), f"{hosts.src}/step-1.pt", hosts.mnt],
                     capture_output=True, text=True)
    tap.check(done.returncode == 2 and "directory" in done.stderr, "one file is no directory", done.stderr)


def scene_whole(hosts):
    test_whole(hosts)
    test_commands(hosts)
    test_differ(hosts)


def scene_copies(hosts):
    test_conflict(hosts)
    test_indexes(hosts)
    test_rank_metadata(hosts)
    test_common(hosts)
    test_beside(hosts)
    test_items(hosts)
    test_aside(hosts)
    test_sidecar(hosts)
    test_rename(hosts)
    test_dcp_sidecar(hosts)
    test_sidecar_link(hosts)
    test_links(hosts)
    test_refused(hosts)


def scene_away(hosts):
    test_lost(hosts)
    test_missing(hosts)
    test_lost_in_time(hosts)


def act(scene):
    with Hosts(3) as hosts:
        scene(hosts)
    return tap.finish()


sys.exit(0 if skipped() else play((scene_whole, scene_copies, scene_away), act))
