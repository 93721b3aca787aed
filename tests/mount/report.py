# SPDX-License-Identifier: MIT
"""The parts of report.sh that need more than a shell.

    report.py compare CKPTFS SOURCE...     the data of the page against inspect and check
    report.py data PAGE                    prints the data of a page
    report.py names DIR                    writes a safetensors file whose names have a meaning in HTML
    report.py many DIR TENSORS             writes a safetensors file of many tensors with few shapes
    report.py large FILE                   writes a safetensors file with a tensor of 1 TiB, which is a hole
    report.py long DIR                     writes a safetensors file with a tensor of 3 MiB and 3 bytes
    report.py rows DIR                     writes a safetensors file with a tensor of 300 rows
    report.py texts PAGE DIR               the names of the page are those, and the page is safe
    report.py interrupted CKPTFS SRC PAGE  SIGINT at each call that changes the directory of the page
"""

import base64
import json
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "crash")]
import injector  # noqa: E402

NAMES = ["</script><script>alert(1)</script>", "<!--", "a & b &lt;", "\"quotes\" 'and' \\ more", "line\u2028and\u2029paragraph",
         "control\x01\x1f\x7f\x85", "tab\tand\nline", "ümlaut 漢字 \U0001f600", "normal.weight", "]]>", "%41"]


def run(*command):
    return subprocess.run(command, capture_output=True, check=False)


def split(page):
    """The page without its data, and the text of the data."""
    found = re.fullmatch(r"(.*<script type=\"application/json\" id=\"data\">\n)([^\n].*?)(\n</script>.*)", page, re.S)
    return found[1] + found[3], found[2]


def data_of(page):
    return json.loads(split(page)[1])


# --- against inspect and check

def holder_is(rank, file, kind):
    """Whether a rank, or the name of a file without one, is that of the file of a box."""
    if isinstance(rank, str) or rank is None:
        return rank == file
    numbers = [int(n) for n in re.findall(r"\d+", file)]
    if kind == "dcp":
        return rank == int(re.search(r"__(\d+)_", file)[1])
    return rank + (kind == "safetensors") in numbers    # shards are counted from 1


def shown(name):
    """A name of inspect as the page has it: surrogates are U+FFFD."""
    if isinstance(name, str):
        return name
    return re.sub("[\ud800-\udfff]", "\ufffd", base64.b64decode(name["$str"]).decode("utf-8", "surrogatepass"))


def boxes_fault(layout, tensor, kind):
    boxes = sorted(tensor["boxes"], key=lambda box: (box["offset"], box["size"]))
    wanted = []
    for box in boxes:
        if not wanted or (wanted[-1]["offset"], wanted[-1]["size"]) != (box["offset"], box["size"]):
            wanted.append(box)
    if len(wanted) > 256:
        return None if layout["boxes"] == [] and layout["omitted"] == layout["total"] == len(wanted) else "omitted boxes"
    if [[box["offset"], box["size"]] for box in wanted] != [box[1:] for box in layout["boxes"]]:
        return f"boxes {layout['boxes']}, expected {wanted}"
    for box, (rank, *_), copies in zip(wanted, layout["boxes"], layout.get("copies", [[]] * len(wanted)), strict=True):
        if not holder_is(rank, box["file"], kind):
            return f"rank {rank} of a box in {box['file']}"
        if rank in copies:
            return f"rank {rank} is its own copy"
    return None


def tensor_fault(data, i, tensor):
    layout = data["layouts"][data["layout"][i]]
    found = {"fqn": data["names"][i], "stem": data["stems"].get(str(i), data["names"][i]), "dtype": data["dtypes"][data["dtype"][i]],
             "shape": layout["shape"], "bytes": data["bytes"][i]}
    if str(i) in data["alias"]:
        found["alias_of"] = data["names"][data["alias"][str(i)]]
    wanted = {key: shown(tensor[key]) if key in ("fqn", "alias_of") else tensor[key] for key in ("fqn", "stem", "dtype", "shape", "bytes", "alias_of") if key in tensor}
    return f"{found}, expected {wanted}" if found != wanted else boxes_fault(layout, tensor, data["source"]["kind"])


def damage_fault(data, findings):
    """Tensors with findings that are damage, and others."""
    damage = [finding for finding in findings if finding.get("severity") != "warning"]
    named = {finding["fqn"] for finding in damage} & set(data["names"])
    marked = {data["names"][int(i)] for i in data["damage"] if i not in data["alias"]}
    others = [finding for finding in damage if finding["fqn"] not in data["names"]]
    if marked != {name for name in named if str(data["names"].index(name)) not in data["alias"]}:
        return f"damage {marked}, expected {named}"
    if len(data["faults"]) != len(others):
        return f"faults {data['faults']}, expected {others}"
    for finding in damage:
        line = data["damage"].get(str(data["names"].index(finding["fqn"]))) if finding["fqn"] in named else finding["errno"]
        if finding["errno"] and finding["errno"] not in line and finding["what"] not in line:
            return f"{line} does not have {finding['errno']}"
    return None


def states_fault(data):
    """The tensors that belong to a parameter are named after it, and have its elements or none."""
    for parameter, states in data["optimizer"].items():
        for name, i in states.items():
            if not data["names"][i].endswith("." + name) and "." + name + "." not in data["names"][i]:
                return f"{name} of {data['names'][int(parameter)]} is {data['names'][i]}"
    return None


def fault(ckptfs, source):
    done = run(ckptfs, "report", "-o", "-", source)
    if done.returncode or done.stderr and b"left out" not in done.stderr:
        return f"exit status {done.returncode}: {done.stderr[:300]}", None
    data = data_of(done.stdout.decode())
    inspected = json.loads(run(ckptfs, "inspect", "--json", "--chunks", source).stdout)
    checked = json.loads(run(ckptfs, "check", "--json", source).stdout)
    tensors = inspected["tensors"]
    heads = [data["source"]["kind"], data["source"]["why"], data["source"]["objects"], data["source"]["ranks"] or 0]
    summary = inspected["summary"]
    if heads != [inspected["kind"], inspected["why"], summary["objects"], summary["ranks"]]:
        return f"source {data['source']}", None
    if data["names"] != [shown(tensor["fqn"]) for tensor in tensors]:
        return "other names, or another order", None
    faults = [tensor_fault(data, i, tensor) for i, tensor in enumerate(tensors)]
    faults += [damage_fault(data, checked["findings"]), states_fault(data)]
    return next(filter(None, faults), None), data


def compare(ckptfs, *sources):
    kinds, damaged, states, copies = set(), 0, 0, 0
    for source in sources:
        found, data = fault(ckptfs, source)
        assert not found, f"{source}: {found}"
        kinds.add(data["source"]["kind"])
        damaged += len(data["damage"])
        states += len(data["optimizer"])
        copies += sum("copies" in layout for layout in data["layouts"])
    print(len(sources), "sources", *sorted(kinds), damaged, "damaged", states, "parameters with state", copies, "layouts with copies")
    assert kinds == {"dcp", "ranks", "safetensors", "torch", "torch_checkpointing"}
    assert damaged and states and copies


# --- files of safetensors

def write(home, tensors):
    """tensors: name, shape. All elements are bytes."""
    head, at = {}, 0
    for name, shape in tensors:
        size = 1
        for n in shape:
            size *= n
        head[name] = {"dtype": "U8", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    os.makedirs(home, exist_ok=True)
    with open(f"{home}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.write((bytes(range(256)) * (at // 256 + 1))[:at])


def names(home):
    write(home, [(name, [2]) for name in NAMES])


def many(home, count):
    shapes = [[32, 4], [4, 32], [64], [16, 8], [8, 8]]
    write(home, [(f"model.layers.{i // 10}.attention.part{i % 10}.weight", shapes[i % 5]) for i in range(int(count))])


def large(path):
    head = json.dumps({"large": {"dtype": "U8", "shape": [2 ** 40], "data_offsets": [0, 2 ** 40]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        file.truncate(file.tell() + 2 ** 40)


def long(home):
    write(home, [("long", [3, 2 ** 20 + 1])])


def rows(home):
    write(home, [("rows", [300, 2]), ("columns", [2, 256])])


def texts(page, home):
    with open(page, encoding="utf-8", newline="") as file:
        rest, text = split(file.read())
    shown = sorted(NAMES)
    assert sorted(json.loads(text)["names"]) == shown, json.loads(text)["names"]
    assert not re.search("[<>&\u2028\u2029\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert rest.count("<script") == rest.count("</script>") == 2
    assert not re.search(r"(src|href)=[\"']?(https?:)?//|@import|url\(", rest), "the page loads nothing"
    assert home in text


class Interrupt(injector.Fault):
    def strike(self, call):
        os.kill(call.tid, signal.SIGINT)
        return "go"


def interrupted(ckptfs, source, page):
    """No other file than the page stays, and the page is the old or the new one as a whole."""
    page, at, fault = Path(page), 0, None
    while at == 0 or fault.hit:
        at += 1
        page.write_text("old", encoding="utf-8")
        fault = Interrupt(at)
        status, output = injector.Injector([ckptfs, "report", source, "-o", str(page)], str(page.parent), fault).wait()
        assert status in (0, 128 + signal.SIGINT), (fault.hit, status, output)
        assert list(page.parent.iterdir()) == [page], (fault.hit, list(page.parent.iterdir()))
        text = page.read_text(encoding="utf-8")
        assert text == "old" or text.endswith("</html>\n"), (fault.hit, text)
    assert at > 3, at


if __name__ == "__main__":
    if sys.argv[1] == "data":
        with open(sys.argv[2], encoding="utf-8") as page_file:
            print(json.dumps(data_of(page_file.read())))
    else:
        {"compare": compare, "names": names, "many": many, "texts": texts, "large": large, "long": long, "rows": rows,
         "interrupted": interrupted}[sys.argv[1]](*sys.argv[2:])
