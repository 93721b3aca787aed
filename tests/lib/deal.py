# SPDX-License-Identifier: MIT
"""Distributes the files of a checkpoint to directories, one directory for each host.

    with Hosts(3) as hosts:
        who = deal("tests/fixtures/fsdp2", hosts.directories, "random", seed)
        who["h2"]       # ["__1_0.distcp"], what h2 has

HOW lists the distributions of data files:

    by rank      __R_*.distcp is on host R mod n, the host that saved it. Other files go by
                 the last number in their path
    one empty    as by rank, but one host has no data file
    random       each on one host
    all to one   all on one host
    copies       each on `copies` hosts

.metadata or an index is on "one" host, on "some" but not all hosts, or on "all". With a
single host, "some" means that host. Open choices are random: the same seed gives the same
distribution.
"""
import os
import random
import re
import shutil

METADATA = ".metadata"


def is_metadata(name):
    """True for a file that describes the data files."""
    return name in (METADATA, "metadata.pkl") or name.endswith(".index.json")


def rank_of(name):
    base = os.path.basename(name)
    match = re.match(r"__(\d+)[_.]", base) or re.match(r".*?(\d+)-of-\d+", base)
    return int(match.group(1) if match else [0, *re.findall(r"\d+", name)][-1])


def by_rank(name, hosts):
    return [hosts[rank_of(name) % len(hosts)]]


def files_of(folder):
    """Sorted relative paths of all files below a folder."""
    return sorted(os.path.relpath(os.path.join(place, name), folder)
                  for place, _, names in os.walk(folder) for name in names)


def by_way(how, hosts, copies, rng):
    """A function from the name of a file to its hosts."""
    chosen = rng.choice(hosts)
    others = [host for host in hosts if host != chosen] or hosts
    return {
        "by rank": lambda name: by_rank(name, hosts),
        "one empty": lambda name: by_rank(name, others),
        "random": lambda name: [rng.choice(hosts)],
        "all to one": lambda name: [chosen],
        "copies": lambda name: rng.sample(hosts, min(copies, len(hosts))),
    }[how]


HOW = ("by rank", "one empty", "random", "all to one", "copies")


def with_metadata(where, hosts, rng):
    count = {"one": 1, "all": len(hosts),
             "some": rng.randint(1, max(1, len(hosts) - 1))}[where]
    return rng.sample(hosts, count)


def put(source, target, link):
    """Makes a hard link if requested and possible, otherwise a copy. A test that changes
    a linked file changes the source too."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        if link:
            os.link(source, target)
            return
    except OSError:
        pass
    shutil.copy2(source, target)


def flip(path):
    """Flips one bit in the middle of a file; keeps the file times."""
    before = os.stat(path)
    with open(path, "r+b") as f:
        f.seek(before.st_size // 2)
        byte = f.read(1)
        f.seek(before.st_size // 2)
        f.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def deal(folder, directories, how, seed, metadata="one", copies=2,
         link=False):
    """directories: {host: directory}. Returns the sorted files of each host,
    {host: [path, ...]}."""
    rng = random.Random(f"{how} {metadata} {seed}")
    hosts = list(directories)
    hosts_of = by_way(how, hosts, copies, rng)
    chosen = with_metadata(metadata, hosts, rng)
    who = {host: [] for host in hosts}
    for name in files_of(folder):
        for host in chosen if is_metadata(name) else hosts_of(name):
            put(os.path.join(folder, name),
                os.path.join(directories[host], name), link)
            who[host].append(name)
    return who
