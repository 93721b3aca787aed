#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page as arrays of html_page.h: embed.py OUTPUT page.html style.css script.js

The lines `<!-- style -->` and `<!-- script -->` of page.html are replaced by the files. The page is divided at the line
`<!-- data -->`, where the program inserts the data. Each must be there once.
"""
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def parts(text, name):
    """The text before and behind the line of a marker."""
    found = text.split(f"<!-- {name} -->\n")
    if len(found) != 2:
        sys.exit(f"page.html: expected the line <!-- {name} --> once, found {len(found) - 1}")
    return found


def inserted(page, name, text):
    end = f"</{name}"
    if end in text.lower():
        sys.exit(f"{name}: {end} would end its element")
    before, behind = parts(page, name)
    return before + text + behind


def array(name, text):
    data = text.encode()
    rows = [data[i:i + 24] for i in range(0, len(data), 24)]
    lines = "".join("\t" + ",".join(map(str, row)) + ",\n" for row in rows)
    return f"static const unsigned char {name}[] = {{\n{lines}\t0\n}};\n"


def main(output, page, style, script):
    page = inserted(read(page), "style", read(style))
    page = inserted(page, "script", read(script))
    before, behind = parts(page, "data")
    with open(output, "w", encoding="ascii") as file:
        file.write('#include "html_page.h"\n' + array("before", before) + array("behind", behind))
        file.write("const struct ck_html_page ck_html_page = {\n"
                   "\t{ (const char *)before, sizeof(before) - 1 },\n"
                   "\t{ (const char *)behind, sizeof(behind) - 1 },\n};\n")


main(*sys.argv[1:])
