# SPDX-License-Identifier: MIT
"""Kills daemons in the middle of commits, while other programs create, remove, rename and
look up names. Each of these programs must end, the daemon must end completely, and the next
mount must work. Prints the errors.

    killed-daemon.py CKPTFS SOURCE MOUNT KILLS [UID GID]

With UID and GID all programs except this script run as that user.
"""

import ctypes
import errno
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, f'{os.path.dirname(os.path.abspath(__file__))}/../lib')
sys.dont_write_bytecode = True
import tap  # noqa: E402

ckptfs, source, mount, kills = sys.argv[1:5]
user = list(map(int, sys.argv[5:7]))
raw = f'{mount}/raw'
GONE = {errno.ENOTCONN, errno.ECONNABORTED}
MOST = 5  # errors until the test stops
END = 5 if tap.is_long() else 60  # seconds within which all programs must end
MNT_FORCE = 1
libc = ctypes.CDLL(None)


def become():
    if user:
        os.setgroups([])
        os.setgid(user[1])
        os.setuid(user[0])


def run(*command):
    return subprocess.run(command, preexec_fn=become, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


# --- clients: each call does one operation -------------------------------------

def commits(i, stems):
    """Overwrites a tensor."""
    path = f'{raw}/{random.choice(stems)}'
    size = os.stat(path).st_size
    with open(path, 'wb') as f:
        f.write(bytes([i]) * size)


def makes(i, stems):
    with open(f'{raw}/made{i}', 'wb'):
        pass
    os.unlink(f'{raw}/made{i}')


def renames(i, stems):
    with open(f'{raw}/from{i}', 'wb'):
        pass
    os.rename(f'{raw}/from{i}', f'{raw}/to{i}')


def replaces(i, stems):
    path = f'{raw}/{random.choice(stems)}'
    with open(f'{raw}/new{i}', 'wb') as f:
        f.write(bytes([i]) * os.stat(path).st_size)
    os.rename(f'{raw}/new{i}', path)


def misses(i, stems):
    os.stat(f'{raw}/{random.random()}')


def lists(i, stems):
    for e in os.scandir(raw):
        e.stat()


BESIDE = [makes, renames, replaces, misses, lists]


def work(what, i, stems):
    """Repeats an operation until the mount is dead."""
    random.seed(i * 1000003 + os.getpid())
    while True:
        try:
            what(i, stems)
        except OSError as e:
            if e.errno in GONE:
                return


def client(what, i, stems):
    pid = os.fork()
    if pid:
        return pid
    try:
        become()
        work(what, i, stems)
        os._exit(0)
    except BaseException as e:
        print(f'{what.__name__}: {e!r}', flush=True)
        os._exit(1)


# --- one kill -----------------------------------------------------------------

def ended(pids, seconds):
    """Waits for processes. Returns those that have not ended."""
    until = time.monotonic() + seconds
    left = list(pids)
    while left and time.monotonic() < until:
        left = [pid for pid in left if os.waitpid(pid, os.WNOHANG)[0] == 0]
        time.sleep(0.005)
    return left


def states(pids):
    """The states of processes, in the letters of ps(1)."""
    text = ''
    for pid in pids:
        with open(f'/proc/{pid}/stat') as f:
            text += f.read().rsplit(')')[-1].split()[0]
    return text


def threads(pid):
    try:
        return len(os.listdir(f'/proc/{pid}/task'))
    except FileNotFoundError:
        return 0


def has_ended(pid):
    """True if a process ended with all threads and open files; a zombie has ended."""
    try:
        return threads(pid) <= 1 and states([pid]) in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return True


def whole(pid):
    until = time.monotonic() + END
    while not has_ended(pid) and time.monotonic() < until:
        time.sleep(0.005)
    return has_ended(pid)


def detach():
    if user:
        run('fusermount3', '-uz', mount)
    else:
        run('umount', '-l', mount)


def free(left):
    """Releases clients that hang in the mount; needs root."""
    helper = os.fork()
    if helper == 0:
        libc.umount2(mount.encode(), MNT_FORCE)
        os._exit(0)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    ended([*left, helper], END)


def daemon_of(mounted):
    status = run('cat', f'{mount}/.ckptfs/status').stdout.decode()
    return int(status.split('\ndaemon: ')[1].split('\n')[0])


def kill_once(number):
    """Kills one daemon. Returns the error, or None."""
    mounted = run(ckptfs, 'mount', source, mount, '-o', 'write')
    if mounted.returncode:
        return f'the next mount: {mounted.stdout.decode()}'
    daemon = daemon_of(mounted)
    stems = run('ls', raw).stdout.decode().split()[:4]
    kinds = [commits] * 3 + random.choices(BESIDE, k=5)
    pids = [client(what, i, stems) for i, what in enumerate(kinds)]
    time.sleep(random.uniform(0.02, 0.12))
    os.kill(daemon, signal.SIGKILL)
    left = ended(pids, END)
    alive = not whole(daemon)
    names = ' '.join(kind.__name__ for kind in kinds)
    wrong = None
    if left:
        wrong = f'{states(left)} of {len(pids)} programs did not end: {names}'
        free(left)
    elif alive:
        wrong = f'the daemon did not end: {names}'
    detach()
    return wrong


random.seed(tap.seed())
begun = time.monotonic()
bad = 0
for number in range(int(kills)):
    wrong = kill_once(number)
    if wrong:
        bad += 1
        print(f'kill {number}: {wrong}', flush=True)
    if bad == MOST:
        break
print(f'# {number + 1} kills, {bad} bad, {time.monotonic() - begun:.0f} s')
sys.exit(bad > 0)
