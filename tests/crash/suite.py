# SPDX-License-Identifier: MIT
"""Runs groups of trials and prints TAP. See README.md, section crash.

    run BUILD reference [OPTION...]     the correct writer survives all
    run BUILD mutants                   each mutant of it is caught; a few
                                        outside of the long run
    run BUILD syncs                     so is each sync left out
    run BUILD eatmydata                 so is a disk that syncs nothing
    run BUILD dcp --python PYTHON       so is dcp.save over a checkpoint
    run BUILD space --fs ext4-4k,xfs    every size that a full disk leaves
    run BUILD writer --writer 'COMMAND {checkpoint} {plan}'
    run BUILD writer --mount 'COMMAND {checkpoint} {mnt}' --script 'cp ...'
"""
import argparse
import collections
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import traceback
from functools import partial

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib")]
import cases  # noqa: E402
import harness  # noqa: E402
import images  # noqa: E402
import injector  # noqa: E402
import oracle  # noqa: E402
import tap  # noqa: E402
import writers  # noqa: E402

ON_IMAGES = ("cut", "shutdown", "random", "error", "skip", "space")
PHASES = ("undisturbed", "kill", "short", "nomem", "model", "error", "cut",
          "shutdown", "random")
FEW_MUTANTS = ("no-shard-sync", "no-first-directory-sync")
Found = collections.namedtuple("Found", "trials bad kinds first")


class Suite(tap.Tap):
    def __init__(self, options, work):
        super().__init__()
        self.options, self.work = options, work
        self.fields, self.mounted = {}, []
        self.why = images.why_not(work) if options.fs else None

    # --- fields ---

    def field(self, kind):
        """A plain folder, or an image of that kind, mounted once."""
        if kind not in self.fields:
            image = None
            root = f"{self.work}/folder"
            if kind:
                image = images.Image(kind, self.work).__enter__()
                self.mounted.append(image)
                root = image.root
            self.fields[kind] = harness.Field(root, image)
        return self.fields[kind]

    def close(self):
        for image in self.mounted:
            image.__exit__()

    # --- trials ---

    def trials(self, subject, phase, kind):
        """All trials, or with --points a random selection, in order. `skip` and
        `space` always run all, since a trial depends on earlier ones."""
        trials = self.all_trials(subject, phase, kind)
        if not self.options.points or phase in ("skip", "space"):
            return trials
        trials = list(trials)
        lot = random.Random(self.options.lot)
        chosen = lot.sample(range(len(trials)),
                            min(self.options.points, len(trials)))
        return [trials[number] for number in sorted(chosen)]

    def all_trials(self, subject, phase, kind):
        options, field = self.options, self.field(kind)
        if phase == "cut":
            return harness.cut(subject, field, options.states)
        if phase == "random":
            return harness.random_cuts(subject, field, options.cuts,
                                       options.seed)
        if phase == "model":
            return harness.modelled(subject, field)
        if phase == "error" and not options.only:
            return harness.error(subject, field, some=options.errnos,
                                 lot=random.Random(options.lot))
        return getattr(harness, phase)(subject, field)

    def go(self, trials, enough=None):
        """enough: kinds of problems that end the run, for mutants."""
        count = bad = 0
        kinds, first = collections.Counter(), []
        for name, trial in trials:
            if not (name + "/").startswith(self.options.only.rstrip("/")
                                           + "/" * bool(self.options.only)):
                continue
            count += 1
            problems = sorted(set(trial()))
            bad += bool(problems)
            kinds.update({kind for kind, _ in problems})
            if problems and len(first) < 20:
                first += [f"{name}: {kind}: {text}"
                          for kind, text in problems][:6]
            if enough and not self.options.all and kinds.keys() & enough:
                break
        return Found(count, bad, kinds, first)

    def phases(self, subject, phases):
        """(phase, kind of image) by the options."""
        for phase in phases:
            if phase not in ON_IMAGES:
                yield phase, None
            elif self.why:
                self.skip(f"{subject.name}/{phase}", self.why)
            elif phase in ("error", "skip"):
                yield phase, self.options.fs[0]
            else:
                yield from ((phase, kind) for kind in self.options.fs)

    def survives(self, subject, phases):
        for phase, kind in self.phases(subject, phases):
            try:
                found = self.go(self.trials(subject, phase, kind))
            except Exception:
                self.result(False, f"{subject.name}/{phase}",
                            traceback.format_exc().splitlines())
                continue
            if found.trials or not self.options.only:
                self.result(
                    not found.bad and found.trials > 0,
                    f"{subject.name}/{phase}{'/' + kind if kind else ''}: "
                    f"{found.trials - found.bad} of {found.trials} good",
                    found.first)

    def caught(self, subject, phases, kinds, need=any):
        """need: whether any phase must find problems, or all phases."""
        got, lines = [], []
        for phase, kind in self.phases(subject, phases):
            found = self.go(self.trials(subject, phase, kind), kinds)
            if not found.trials:
                continue
            got.append(bool(found.kinds.keys() & kinds))
            lines.append(f"{phase}{'/' + kind if kind else ''}: "
                         f"{figures(found)}")
            if self.options.only:
                lines += found.first
            elif found.first:
                lines.append("first " + found.first[0])
        if got:
            self.result(need(got), f"{subject.name} is caught", lines)


def reference(suite, name, plans, prefix=()):
    argv = [*prefix, os.environ["REFERENCE_BIN"], name, "{checkpoint}",
            "{plan}/new"]
    title = "-".join([*map(os.path.basename, prefix), name])
    return harness.Subject(title, writers.Command(*argv), plans, suite.work)


def group_reference(suite):
    suite.survives(reference(suite, "correct", cases.plans()),
                   suite.options.phases)


def group_mutants(suite):
    options, suite.options.points = suite.options, 0
    options.fs += ["strict"] * ("strict" not in options.fs)
    few = not tap.is_long() and not options.all and not options.only
    for name, mutant in cases.MUTANTS.items():
        if options.only.split("/")[0] not in ("", name) or \
                few and name not in FEW_MUTANTS:
            continue
        plan = cases.made.Plan(**mutant.plan)
        suite.caught(reference(suite, name, [plan]), mutant.phases,
                     mutant.kinds)


def group_eatmydata(suite):
    if not shutil.which("eatmydata"):
        suite.skip("eatmydata", "no eatmydata")
        return
    suite.options.points = 0
    subject = reference(suite, "correct", cases.plans(), ["eatmydata"])
    suite.caught(subject, ["cut"], cases.HARM, all)


def given(suite, plans=None):
    """The writer of the command line."""
    options, plans = suite.options, plans or cases.plans()
    if options.mount:
        writer = writers.Mounted(shlex.split(options.mount), options.script,
                                 suite.work + "/mnt")
    elif options.writer:
        writer = writers.Command(*shlex.split(options.writer))
    else:
        return reference(suite, "correct", plans)
    plans = plans[options.first - 1:][:options.plans]
    subject = harness.Subject(options.name, writer, plans, suite.work,
                              atomic=not options.each)
    subject.changes = not options.unchanged
    return subject


def group_writer(suite):
    suite.survives(given(suite), suite.options.phases)


def group_space(suite):
    suite.survives(given(suite, [cases.crowded()]), ["space"])


def group_syncs(suite):
    """A sync whose omission is not detected is redundant, or not tested."""
    subject = given(suite)
    suite.options.fs = suite.options.fs[-1:]
    for phase, kind in suite.phases(subject, ["skip"]):
        for name, trial in suite.trials(subject, phase, kind):
            problems = sorted(set(trial()))
            suite.result(problems, f"{name}: left out, it is missed",
                         [f"{k}: {text}" for k, text in problems[:1]])


# --- dcp.save -----------------------------------------------------------------------

def figures(found):
    seen = ", ".join(f"{k} {n}" for k, n in found.kinds.items())
    return f"{found.bad} of {found.trials} ({seen or 'nothing'})"


class Saving:
    """Cuts of dcp.save over a checkpoint that it saved itself, with other
    shapes and values."""

    OLD, NEW = "1000 1", "1500 2"

    def __init__(self, field, python):
        self.field, self.count = field, 0
        self.writer, self.wanted = writers.DcpSave(python), {}
        self.writer.start(field.root)

    def old(self, tensors):
        self.count += 1
        path = f"{self.field.root}/dcp{self.count}"
        self.writer.run(path, f"{tensors} {self.OLD}", injector.Fault())
        self.field.image.settle()
        return path, oracle.look(path)

    def new(self, tensors):
        """Contents and number of calls of a save without a fault."""
        if tensors not in self.wanted:
            path, _ = self.old(tensors)
            fault = injector.Fault()
            self.writer.run(path, f"{tensors} {self.NEW}", fault)
            self.wanted[tensors] = (oracle.look(path).contents,
                                    len(fault.seen))
        return self.wanted[tensors]

    def trial(self, tensors, state, at, number):
        """at: the power is cut before this call; 0: after the save."""
        wanted, _ = self.new(tensors)
        path, before = self.old(tensors)

        def strike(call):
            self.field.image.cut(state, [call.tid] if call else [], number)
        fault = injector.Cut(at, strike, whom="kill")
        outcome = self.writer.run(path, f"{tensors} {self.NEW}", fault)
        if not fault.hit:
            strike(None)
        self.field.image.recover()
        return [(kind, text) for kind, text in oracle.verdict(
            before, wanted, oracle.look(path), outcome.reported)
            if kind in cases.HARM]

    def returned(self, state):
        kind = self.field.image.kind
        for tensors in (2, 8, 60):
            for n in range(3):
                yield (f"dcp/returned/{kind}/{state}/{tensors}/{n}",
                       partial(self.trial, tensors, state, 0, n))

    def anywhere(self, cuts, seed):
        def trial(number):
            rng = random.Random(number)
            tensors = rng.choice((2, 8, 60))
            # Half of the points among the last calls, where names change.
            last = self.new(tensors)[1] + 1
            first = rng.choice((1, max(1, last - 6)))
            return self.trial(tensors, rng.choice(images.STATES),
                              rng.randrange(first, last + 1), number)
        for number in range(seed, seed + cuts):
            yield (f"dcp/random/{self.field.image.kind}/{number}",
                   partial(trial, number))


def group_dcp(suite):
    options = suite.options
    if suite.why:
        suite.skip("dcp", suite.why)
        return
    for kind in options.fs:
        try:
            saving = Saving(suite.field(kind), options.python)
        except RuntimeError as problem:
            suite.skip(f"dcp/{kind}", str(problem))
            continue
        try:
            rows = {"as it returns": saving.returned("lost"),
                    "at random": saving.anywhere(options.cuts, options.seed)}
            for what, trials in rows.items():
                found = suite.go(trials)
                if found.trials:
                    suite.result(found.kinds["unreadable"] > 0,
                                 f"dcp.save on {kind}, {what}, is caught: "
                                 f"{figures(found)}", found.first[:2])
            # The effect depends on the size of the pickle.
            found = suite.go(saving.returned("journal"))
            print(f"# as it returns, journal committed: {figures(found)}")
        finally:
            saving.writer.stop()


GROUPS = {"reference": group_reference, "mutants": group_mutants,
          "eatmydata": group_eatmydata, "writer": group_writer,
          "space": group_space, "syncs": group_syncs, "dcp": group_dcp}


def words(text):
    return [word for word in text.split(",") if word]


def parse():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("group", choices=GROUPS)
    p.add_argument("--phases", type=words, default=list(PHASES))
    p.add_argument("--fs", type=words,
                   default=["ext4", "xfs"] if tap.is_long() else ["ext4"])
    p.add_argument("--states", type=words,
                   default=["lost", "journal", "fsync"])
    p.add_argument("--cuts", type=int, default=40, help="of phase random")
    p.add_argument("--seed", type=int, help="of phase random (CKPTFS_SEED)")
    p.add_argument("--points", type=int, metavar="N",
                   default=tap.cases("CKPTFS_POINTS", 6, 0),
                   help="of each phase N, by lot (CKPTFS_SEED); 0: all")
    p.add_argument("--errnos", type=int, metavar="N",
                   help="of phase error: N for each call, by lot "
                   "(CKPTFS_SEED; not if CKPTFS_ERRORS=all)")
    p.add_argument("--only", default="", help="an id, or the beginning of one")
    p.add_argument("--all", action="store_true",
                   help="go on when a mutant is caught, and count")
    p.add_argument("--python", default=sys.executable, help="one with torch")
    p.add_argument("--name", default="writer")
    p.add_argument("--writer")
    p.add_argument("--mount")
    p.add_argument("--script", default="cp {plan}/full/t0.npy {mnt}/full/")
    p.add_argument("--plans", type=int, default=5)
    p.add_argument("--first", type=int, default=1,
                   help="number of the plan that is used for all points")
    p.add_argument("--each", action="store_true",
                   help="a commit for each tensor, not one for all")
    p.add_argument("--unchanged", action="store_true",
                   help="the writer is a reader: nothing may change")
    options = p.parse_args()
    if os.environ.get("CKPTFS_ERRORS") == "all":
        options.errnos = None
    if options.only:
        options.points = 0
    options.lot = tap.seed()
    options.seed = options.lot if options.seed is None else options.seed
    if options.group == "writer" and not (options.mount or options.writer):
        p.error("writer needs --writer or --mount")
    return options


def main():
    options = parse()
    # SIGTERM removes the images, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if os.geteuid() == 0:
        images.keep_mounts_private()
    work = tempfile.mkdtemp(prefix="ckptfs-crash-")
    suite = Suite(options, work)
    try:
        GROUPS[options.group](suite)
    finally:
        suite.close()
        shutil.rmtree(work)
    return suite.finish()


sys.exit(main())
