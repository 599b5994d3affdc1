"""What docs/ tells people to type is typed, page by page in a folder of its own, and does what the page shows.

In a block ```console a line that begins with $ is a command (one that ends with \\ goes on in the next line), and the lines below it are checked: each is in its output, in
this order. A line ``...`` stands for any lines, and ... within a line for any text. Words are compared as they are, numbers
to within a quarter: what a change of a model moves by less needs no new text. WORDLINE_DOCS=record writes the numbers anew.
A comment above a block says more: ``% fails with 2`` its exit status, ``% not run: why`` that it is left alone.
A block with a caption is a file of that name; blocks of Python run in one session for each page.
"""

import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from conftest import ROOT

PAGES = [ROOT / "docs/tutorial.md", *sorted((ROOT / "docs/howto").glob("*.md"))]
RECORD = os.environ.get("WORDLINE_DOCS") == "record"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
FENCE = re.compile(r"^```(\{?[\w-]+\}?)?(?: (\w+))?$")


@dataclass
class Block:
    kind: str
    line: int
    lines: list[str] = field(default_factory=list)
    caption: str | None = None
    remark: str = ""


def blocks(text: str) -> list[Block]:
    out, open_, remark = [], None, ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if open_ is None and fence:
            open_ = Block(fence[1] or "", number, remark=remark)
        elif open_ is not None and line == "```":
            out.append(open_)
            open_ = None
        elif open_ is not None and not open_.lines and (caption := re.match(r":caption: (\S+)$", line)):
            open_.caption = caption[1]
        elif open_ is not None:
            open_.lines.append(line)
        remark = line[2:] if line.startswith("% ") else ""
    assert open_ is None, f"the block of line {open_.line} has no end"
    return out


def squeezed(line: str) -> str:
    return re.sub(r" +", " ", line.rstrip())


def pattern(line: str) -> re.Pattern[str]:
    """Its words, with a group for each of its numbers."""
    parts, at = [], 0
    line = squeezed(line)
    for token in re.finditer(rf"{NUMBER.pattern}|\.\.\.", line):
        parts.append(re.escape(line[at : token.start()]))
        parts.append(".*" if token[0] == "..." else f"({NUMBER.pattern})")
        at = token.end()
    return re.compile("".join([*parts, re.escape(line[at:])]) + "$")


def near(shown: str, is_: str) -> bool:
    a, b = (float(text.replace(",", "")) for text in (shown, is_))
    last = 10.0 ** -len(shown.partition(".")[2])
    return abs(a - b) <= max(0.25 * abs(a), 1.001 * last)


def agrees(shown: str, line: str, *, of_numbers: bool = True) -> bool:
    found = pattern(shown).match(squeezed(line))
    if found is None or not of_numbers:
        return found is not None
    return all(near(a, b) for a, b in zip(NUMBER.findall(shown.replace("...", "\0")), found.groups()))


def check(shown: list[str], output: list[str], of_numbers: bool = True) -> tuple[str | None, list[str | None]]:
    """What is missing, if something is; and for each line shown the line that it is."""
    at, gap, place = 0, False, []
    for line in shown:
        if line == "...":
            gap = True
            place.append(None)
            continue
        until = len(output) if gap else at + 1
        found = next((i for i in range(at, min(until, len(output))) if agrees(line, output[i], of_numbers=of_numbers)), None)
        if found is None:
            return line, place
        place.append(output[found])
        at, gap = found + 1, False
    if shown and not gap and at < len(output):
        return f"no more after: {output[at - 1]}", place
    return None, place


def written(shown: str, line: str) -> str:
    """A line shown, with the numbers that it has now."""
    if "..." not in shown:
        return line.rstrip()
    found = pattern(shown).match(squeezed(line))
    assert found is not None
    numbers = iter(found.groups())
    return re.sub(rf"{NUMBER.pattern}|\.\.\.", lambda token: token[0] if token[0] == "..." else next(numbers), shown)


def run_console(block: Block, where: str, folder: pathlib.Path, program: str) -> list[str]:
    """The block's lines as they ought to be."""
    commands: list[tuple[str, list[str]]] = []
    for line in block.lines:
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands and commands[-1][0].endswith("\\") and not commands[-1][1]:
            commands[-1] = (f"{commands[-1][0]}\n{line}", [])
        else:
            assert commands, f"{where}: a line of output before the first command"
            commands[-1][1].append(line)
    status = int(found[1]) if (found := re.match(r"fails with (\d+)$", block.remark)) else 0
    path = os.pathsep.join([str(pathlib.Path(program).parent), os.environ["PATH"]])
    lines = []
    for command, shown in commands:
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # It stands there if a page's earlier command has aged the same drive.
        told = "note: the aged drive is from the cache"
        output = [line for line in done.stdout.splitlines() if not line.startswith(told)]
        assert done.returncode == status, f"{where}: {command}\nends with {done.returncode}:\n{done.stdout}"
        missing, place = check(shown, output, of_numbers=not RECORD)
        assert missing is None, f"{where}: {command}\nhas no line\n{missing}\nin\n{done.stdout}"
        lines += f"$ {command}".split("\n")
        lines += [line if now is None else written(line, now) for line, now in zip(shown, place)]
    return lines


def test_pages_have_commands():
    kinds = [block.kind for page in PAGES for block in blocks(page.read_text())]
    assert kinds.count("console") > 25 and kinds.count("python") >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch, program):
    for name in ("examples", "profiles", "studies"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    text, session = page.read_text(), {"__name__": "__main__"}
    source = text.splitlines()
    for block in blocks(text):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.caption is not None:
            (tmp_path / block.caption).write_text("\n".join(block.lines).strip() + "\n")
        elif block.remark.startswith("not run: "):
            continue
        elif block.kind == "console":
            now = run_console(block, where, tmp_path, program)
            if RECORD:
                assert len(now) == len(block.lines)
                source[block.line : block.line + len(now)] = now
        elif block.kind == "python":
            code = "\n" * block.line + "\n".join(block.lines)
            exec(compile(code, str(page), "exec"), session)
    if RECORD:
        page.write_text("\n".join(source) + "\n")


@pytest.mark.parametrize(
    "shown, line, is_so",
    [
        ("reads : 10.0 us", "reads   : 12.4 us", True),
        ("reads : 10.0 us", "reads : 12.6 us", False),
        ("reads : 10.0 us", "writes : 10.0 us", False),
        ("a 1,000 ... b", "a 1,050 and so on b", True),
        ("a ...", "a", False),
        ("share 0.1%", "share 0.2%", True),
        ("3", "4", True),
        ("30", "38", False),
    ],
)
def test_lines_agree_by_words_and_near_numbers(shown, line, is_so):
    assert agrees(shown, line) is is_so


def test_a_gap_is_any_lines_and_nothing_else_is():
    output = ["a 1", "b 2", "c 3"]
    assert check(["a 1", "...", "c 3"], output)[0] is None
    assert check(["a 1", "..."], output)[0] is None
    assert check(["a 1", "c 3"], output)[0] == "c 3"
    assert check(["a 1", "b 2"], output)[0] is not None
    assert check(["...", "c 9"], output)[0] == "c 9"
    assert check([], output)[0] is None


LINK = re.compile(r"""(?:src|href)=["']([^"'#?]+)""")


def test_the_site_is_whole_and_needs_no_network(tmp_path, program):
    out = tmp_path / "site"
    words = ["-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(tmp_path / "trees"), str(ROOT / "docs"), str(out)]
    done = subprocess.run(
        [sys.executable, *words], env={**os.environ, "WORDLINE": program}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    pages = sorted(out.rglob("*.html"))
    for page in pages:
        for link in LINK.findall(page.read_text()):
            if not re.match(r"https?:|data:|mailto:", link):
                assert (page.parent / link).exists(), f"{page}: {link}"
        # What a browser fetches by itself; links are followed by hand.
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text()):
            assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", tag), f"{page}: {tag}"
    text = {str(page.relative_to(out)): page.read_text() for page in pages}
    # Of a setting its unit, its default and its source; of an option what --help says; of Python its docstrings.
    nand = text["reference/settings/nand.html"]
    for part in ("nand.t_read", "Array to page register", "65us", "RAIL, Table 4", "time, as in", "Bytes a second of one channel"):
        assert part in nand, part
    assert "nand.faults.program_fail_ppb" in nand
    assert "State of the drive before the run" in text["reference/commands/wordline-run.html"]
    assert "Runs many points" in text["reference/python.html"] and "percentile_ns" in text["reference/python.html"]
    assert "worker" not in text["reference/commands/wordline-study.html"]
    for kind, name in (("device", "z-ssd-small"), ("ftl", "rail-hc"), ("testbed", "i7-8700"), ("app", "kv-read")):
        assert name in text[f"reference/profiles/{kind}.html"], name
