"""Make src/polyseme/text/strokes.txt, the strokes of Chinese characters in five classes, from a package of npm.

    python scripts/strokes.py cnchar-order-3.2.6.tgz      (npm pack cnchar-order@3.2.6)

The package names 26 kinds of strokes. Classes: 1 横 (and 提), 2 竖 (and 竖钩), 3 撇, 4 捺 (and 点), 5 折 (what turns).
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "src" / "polyseme" / "text" / "strokes.txt"
CLASSES = {"横": 1, "提": 1, "竖": 2, "竖钩": 2, "撇": 3, "捺": 4, "点": 4, "点2": 4}
TURNING = "折笔"
HEADER = """\
# The strokes of {n:,} Chinese characters in five classes: 1 横 提, 2 竖 竖钩, 3 撇, 4 捺 点, 5 折.
# Made by scripts/strokes.py from cnchar-order 3.2.6 (npm), https://github.com/theajack/cnchar
# Copyright (c) 2017 - present theajack <theajack@qq.com>, The MIT License:
# Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
# documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
# rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
# persons to whom the Software is furnished to do so, subject to the following conditions: The above copyright notice
# and this permission notice shall be included in all copies or substantial portions of the Software. THE SOFTWARE IS
# PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
# MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT
# HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
# ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def stroke_classes(names: dict[str, dict[str, str]]) -> dict[str, str]:
    """letter of a stroke → its class; a stroke that is neither known nor turns is an error."""
    classes = {}
    for letter, stroke in names.items():
        if stroke["name"] not in CLASSES and stroke["type"] != TURNING:
            raise SystemExit(f"stroke {stroke['name']} belongs to no class: name it in CLASSES")
        classes[letter] = str(CLASSES.get(stroke["name"], 5))
    return classes


def main() -> None:
    with tarfile.open(sys.argv[1]) as archive:
        file = archive.extractfile("package/cnchar.order.min.js")
        assert file is not None
        program = file.read().decode("utf-8")
    orders, names = (json.loads(text) for text in re.findall(r"JSON\.parse\('(.*?)'\)", program))
    classes = stroke_classes(names)
    lines = [f"{character} {''.join(classes[letter] for letter in order)}\n" for character, order in orders.items()]
    TABLE.write_text(HEADER.format(n=len(lines)) + "".join(sorted(lines)), encoding="utf-8")
    print(f"{len(lines):,} characters in {TABLE}")


if __name__ == "__main__":
    main()
