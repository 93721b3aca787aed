# SPDX-License-Identifier: MIT
"""Trials of crash consistency: each runs a writer with one injected fault and
judges the resulting checkpoint with the oracle.

A phase yields (id, trial) for every point at which its fault can strike; a
trial returns problems. A first run without a fault finds the points. An id
names its point: SUBJECT/PHASE/..., and running with an id repeats the trial.

    kill    SIGKILL before and after every call that changes something
    cut     a power cut before every such call and after the end, with every
            requested state of the file system (images.STATES)
    shutdown    the file system shuts down before every such call, and the
            writer continues
    random  a power cut at a random point, after a random delay, in a random
            state
    error   every call beneath the checkpoint fails, with every errno or with
            a random selection; then the power is cut, which tests the success
            that the writer reported
    short   every read and write moves one byte, or half
    skip    every sync is omitted, then power cuts, shutdowns and model at
            every point
    nomem   every allocation fails, alone or with all after it
    model   states that POSIX allows and the tested file systems never produce
    foreign another program saves before each call: its checkpoint must
            survive, and the writer must report ESTALE. A save between the
            last check and the rename is not detected.
    space   the disk has N free blocks, from 0 to enough; then the power is
            cut. Failed allocations are reported as ENOSPC
"""
import os
import random
import re
import shutil
from functools import partial

import images
import injector
import model
import oracle


class Field:
    """The directory of the trials: a plain folder, or the root of an image."""

    def __init__(self, root, image=None):
        self.root, self.image = root, image
        self.path, self.count = None, 0
        os.makedirs(root, exist_ok=True)

    def fresh(self, plan):
        if self.path:
            shutil.rmtree(self.path)
        self.count += 1
        self.path = f"{self.root}/run{self.count}"
        plan.write_old(self.path)
        if self.image:
            self.image.settle()
        return self.path


class Subject:
    """A writer and its plans. Only random cuts use more than one plan."""

    def __init__(self, name, writer, plans, work, **rules):
        self.name, self.writer, self.plans = name, writer, plans
        self.rules, self.folders, self.changes = rules, [], True
        for number, plan in enumerate(plans):
            folder = f"{work}/plan-{name}-{number}"
            plan.write_new(folder)
            self.folders.append(folder)

    def before(self, path, plan):
        if not hasattr(plan, "before"):
            plan.before = oracle.look(path)
            if plan.before.broken:
                raise RuntimeError("the maker of checkpoints: "
                                   + plan.before.broken)
        return plan.before

    def run(self, field, fault, which=0):
        """Outcome, and a function that judges the current checkpoint."""
        plan = self.plans[which]
        path = field.fresh(plan)
        before = self.before(path, plan)
        wanted = plan.wanted(before) if self.changes else None
        outcome = self.writer.run(path, self.folders[which], fault)

        def judge(may_leak=True):
            return oracle.verdict(before, wanted, oracle.look(path),
                                  outcome.reported, may_leak=may_leak,
                                  **self.rules)
        return outcome, judge

    def next_mount(self, field, judge):
        """Mounts the directory after a crash, which removes leftover files."""
        if not hasattr(self.writer, "again"):
            return []
        status, output = self.writer.again(field.path)
        problems = judge(may_leak=False)
        if status:
            problems.append(("mount", f"the next one fails: {output[-200:]}"))
        return problems

    def calls(self, field, counted=injector.CHANGES, which=0):
        """The calls of a run without a fault, which must succeed."""
        fault = injector.Fault(counted=counted)
        outcome, judge = self.run(field, fault, which)
        problems = judge(may_leak=False)
        if outcome.status or not outcome.reported:
            raise RuntimeError(f"{self.name} fails undisturbed: {outcome}")
        return fault.seen, problems


def missed(fault, point):
    return [] if fault.hit or not point else [
        ("harness", f"the fault did not hit: there was no call {point}")]


def died(outcome):
    if outcome.status == injector.HUNG:
        return [("hung", f"for {injector.PATIENCE} s")]
    if outcome.status <= 128:
        return []
    return [("died", f"of signal {outcome.status - 128}")]


# --- phases ---------------------------------------------------------------------

def undisturbed(subject, field):
    yield f"{subject.name}/undisturbed", lambda: subject.calls(field)[1]


def kill(subject, field):
    def trial(at, late):
        fault = injector.Kill(at, late)
        _, judge = subject.run(field, fault)
        return missed(fault, at) + judge() + subject.next_mount(field, judge)
    for at in range(1, len(subject.calls(field)[0]) + 1):
        yield f"{subject.name}/kill/{at}", partial(trial, at, False)
        yield f"{subject.name}/kill/{at}+", partial(trial, at, True)


def cut_after(subject, field, fault, point, cut, which=0):
    """A run with a power cut; if the fault did not strike, the cut follows it."""
    _, judge = subject.run(field, fault, which)
    problems = missed(fault, point)
    if not fault.hit:
        cut(None)
    field.image.recover()
    return problems + judge() + subject.next_mount(field, judge)


def cut(subject, field, states=("lost", "journal", "fsync")):
    def trial(at, state, last):
        def strike(call):
            field.image.cut(state, [call.tid] if call else [], at)
        return cut_after(subject, field, injector.Cut(at, strike),
                         0 if last else at, strike)
    count = len(subject.calls(field)[0])
    for state in states:
        for at in range(1, count + 2):
            yield (f"{subject.name}/cut/{field.image.kind}/{state}/{at}",
                   partial(trial, at, state, at > count))


def shutdown(subject, field):
    """The file system shuts down and the writer continues: a commit that it
    reports must be on the disk."""
    def trial(at):
        def strike(_call):
            field.image.cut("lost")
        return cut_after(subject, field, injector.Cut(at, strike, whom="go"),
                         at, strike)
    for at in range(1, len(subject.calls(field)[0]) + 1):
        yield (f"{subject.name}/shutdown/{field.image.kind}/{at}",
               partial(trial, at))


def random_cuts(subject, field, cuts, seed):
    counts = [len(subject.calls(field, which=which)[0])
              for which in range(len(subject.plans))]

    def trial(number):
        rng = random.Random(number)
        which = rng.randrange(len(counts))
        at = rng.randrange(1, counts[which] + 2)
        state, late = rng.choice(images.STATES), rng.random() < 0.5
        last = at > counts[which]

        def strike(call):
            field.image.cut(state, [call.tid] if call else [], number)
        return cut_after(subject, field, injector.Cut(at, strike, late),
                         0 if last else at, strike, which)
    for number in range(seed, seed + cuts):
        yield (f"{subject.name}/random/{field.image.kind}/{number}",
               partial(trial, number))


def error(subject, field, errnos=injector.ERRNOS, some=None, lot=None):
    def trial(at, name):
        fault = injector.Fail(at, name)
        outcome, judge = subject.run(field, fault)
        problems = missed(fault, at) + died(outcome)
        # A writer whose unlink fails cannot remove its file.
        problems += judge(may_leak=bool(
            fault.hit and fault.hit.name.startswith("unlink")))
        field.image.cut("lost")
        field.image.recover()
        return problems + judge()
    for at in range(1, len(subject.calls(field, None)[0]) + 1):
        for name in lot.sample(errnos, some) if some else errnos:
            yield f"{subject.name}/error/{name}/{at}", partial(trial, at, name)


def short(subject, field):
    def trial(at, half):
        fault = injector.Short(at, half)
        outcome, judge = subject.run(field, fault)
        return missed(fault, at) + died(outcome) + judge(may_leak=False)
    moves = injector.DATA | injector.LOOKS
    for at in range(1, len(subject.calls(field, moves)[0]) + 1):
        for half in (False, True):
            yield (f"{subject.name}/short/{'half' if half else 'one'}/{at}",
                   partial(trial, at, half))


def skip(subject, field, state="lost"):
    """One trial for each sync, which runs without that sync. Power cuts,
    shutdowns and the model look for a problem. A sync without any problem is
    redundant on this file system."""
    points = len(subject.calls(field)[0]) + 1

    def without(left_out, at, whom):
        def strike(_call):
            field.image.cut(state)
        fault = injector.Both(injector.Skip(left_out),
                              injector.Cut(at, strike, whom=whom))
        return cut_after(subject, field, fault, 0, strike)

    def trial(left_out):
        for whom in ("killall", "go"):
            for at in range(1, points + 1):
                problems = without(left_out, at, whom)
                if problems:
                    return problems
        for at in range(1, points + 1):
            watch = model.Watch(field, at)
            problems = follow(subject, field, watch,
                              injector.Both(injector.Skip(left_out), watch))
            if problems:
                return problems
        return []
    for at in range(1, len(subject.calls(field, injector.SYNCS)[0]) + 1):
        yield f"{subject.name}/skip/{at}", partial(trial, at)


def nomem(subject, field):
    path = field.root + ".nomem"

    def trial(at, times):
        fault = injector.NoMemory(path, at, times)
        outcome, judge = subject.run(field, fault)
        return missed(fault, at if subject.writer.steady else 0) + \
            died(outcome) + judge(may_leak=False)
    fault = injector.NoMemory(path)
    subject.run(field, fault)
    if not fault.count:
        raise RuntimeError(f"{NOMEM_SILENT}")
    for at in range(1, fault.count + 1):
        yield f"{subject.name}/nomem/once/{at}", partial(trial, at, 1)
        yield f"{subject.name}/nomem/all/{at}", partial(trial, at, 1 << 60)


NOMEM_SILENT = "no allocation was seen: is the program static or sanitized?"


def follow(subject, field, watch, fault):
    """Every state that the model allows at one point."""
    _, judge = subject.run(field, fault)
    problems = []
    for state in list(watch.states()):
        state.make(field.path)
        problems += judge()
    return problems


def modelled(subject, field):
    count = len(subject.calls(field)[0])

    def trial(at):
        watch = model.Watch(field, at)
        found = follow(subject, field, watch, watch)
        return found + missed(watch, at if at <= count else 0)
    for at in range(1, count + 2):
        yield f"{subject.name}/model/{at}", partial(trial, at)


# --- another writer -------------------------------------------------------------

class Foreign(injector.Fault):
    """Another program saves before the call, whole or its data files only."""

    def __init__(self, at, path, plan, whole):
        super().__init__(at, counted=None)
        self.path, self.plan, self.whole = path, plan, whole

    def strike(self, _call):
        def metadata():
            with open(f"{self.path}/.metadata", "rb") as f:
                return f.read()
        self.committed = metadata() != self.plan.metadata(False)
        self.plan.save_over(self.path, self.whole)
        self.saved = theirs(oracle.look(self.path))
        return "go"


def theirs(snapshot):
    return {name: what for name, what in snapshot.files.items()
            if not oracle.OURS.match(name)}


def judge_foreign(fault, outcome, after):
    """Problems, and whether the writer's own commit is visible."""
    files, ours = theirs(after), sorted(filter(oracle.OURS.match, after.files))
    if files != fault.saved:
        if set(files) == set(fault.saved) and outcome.reported and \
                fault.hit.name in ("linkat", "renameat"):
            return [], True
        return [("foreign", "what was saved has changed before "
                 f"{fault.hit.name} {fault.hit.paths}")], True
    problems = []
    if after.broken and fault.whole:
        problems.append(("unreadable", after.broken))
    if fault.committed:
        return problems, False
    if ours:
        problems.append(("leak", f"{ours} are left"))
    if outcome.reported or "Stale file handle" not in outcome.output:
        problems.append(("lost", f"ESTALE is not reported: {outcome.output}"))
    return problems, False


def foreign(subject, field):
    plan, late = subject.plans[0], {False: [], True: []}

    def trial(at, whole):
        fault = Foreign(at, field.fresh(plan), plan, whole)
        outcome = subject.writer.run(fault.path, subject.folders[0], fault)
        problems = missed(fault, at)
        if not problems:
            problems, over = judge_foreign(fault, outcome,
                                           oracle.look(fault.path))
            late[whole] += [fault.hit.name] * over
        return problems

    def narrow(names):
        return [] if sorted(names) in (["linkat", "renameat"], ["renameat"]) \
            else [("foreign", f"unseen before {names}")]
    for whole in (True, False):
        what = f"{subject.name}/foreign/{'whole' if whole else 'part'}"
        for at in range(1, len(subject.calls(field, None)[0]) + 1):
            yield f"{what}/{at}", partial(trial, at, whole)
        if late[whole]:
            yield f"{what}/unseen", partial(narrow, late[whole])


# --- space ----------------------------------------------------------------------

# Messages of mounts and tools, by the step that failed.
PLACES = {"write": "error writing", "close": "failed to close",
          "data file": "a new data file:", "name": "distcp: No space",
          "metadata": "new metadata:|metadata: No space|no new file:",
          "temporary name": r"\.metadata\.ckptfs-\w+: No space"}


def blocks_left_out(field, before, free):
    """Blocks lost although the checkpoint did not change; a directory that
    grew for a name keeps its size."""
    field.image.settle()
    grown = os.stat(field.path).st_size - before
    return (free - field.image.free() - max(0, grown)) // 4096


def full_disk(subject, field, free, places):
    """One run with `free` bytes on the disk, and checks of the result."""
    plan, folder = subject.plans[0], subject.folders[0]
    need = os.path.getsize(f"{folder}/full/{plan.changed[0]}.npy")
    path = field.fresh(plan)
    before = subject.before(path, plan)
    wanted, size = plan.wanted(before), os.stat(path).st_size
    left = field.image.fill(free)
    outcome = subject.writer.run(path, folder, injector.Fault())

    def judge(may_leak=False):
        return oracle.verdict(before, wanted, oracle.look(path),
                              outcome.reported, may_leak=may_leak)
    problems = judge()
    reached = {place for place, text in PLACES.items()
               if re.search(text, outcome.output)}
    places[left] = reached if not outcome.reported else {"success"}
    if outcome.reported:
        field.image.cut("lost")
        field.image.recover()
        problems += judge()
    else:
        # The writer reserves the space for the data at the first write.
        if "data file" in reached:
            problems.append(("late", outcome.output))
        if "No space left" not in outcome.output:
            problems.append(("errno", f"ENOSPC is not reported: {outcome.output}"))
        if left < need and "write" not in reached:
            problems.append(("late", f"{need} bytes do not fit in {left}, "
                             f"which no write reported: {outcome.output}"))
        lost = blocks_left_out(field, size, left)
        if lost > 0:        # < 0: blocks of removed files were freed late
            problems.append(("leak", f"{lost} blocks are gone"))
    field.image.unfill()
    replaced = outcome.reported
    outcome = subject.writer.run(path, folder, injector.Fault())
    if not outcome.reported:
        problems.append(("stuck", f"with room again: {outcome.output}"))
    return problems + judge(may_leak=replaced)


def space(subject, field):
    subject.calls(field)
    image, places, most = field.image, {}, 200
    for free in range(0, most * 4096, 4096):
        yield (f"{subject.name}/space/{image.kind}/{free // 4096}",
               partial(full_disk, subject, field, free, places))
        last = [places[n] for n in sorted(places)[-5:]]
        if last == [{"success"}] * 5:
            break

    def all_met():
        met = set().union(*places.values())
        return [] if {"write", "close", "success"} <= met else [
            ("harness", f"met were only {sorted(met)}")]
    if len(places) > 5:
        yield f"{subject.name}/space/{image.kind}/all", all_met
    for place in ["success", *PLACES]:
        found = sorted(n // 4096 for n, met in places.items() if place in met)
        if found:
            print(f"# {image.kind}: {place}: with {found[0]} to {found[-1]} "
                  "blocks left")
