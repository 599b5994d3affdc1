"""Pages that are made, not written: commands from the program's own declarations, settings and profiles from the
profiles and from the types that read them, the Python package from its own list of names."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Sections as profiles and --set write them: their types, and where a whole configuration has them.
SECTIONS = {
    "nand": ("nand", "NandConfig"),
    "ftl": ("ftl", "FtlConfig"),
    "stack": ("host", "StackConfig"),
    "fs": ("fs", "FsConfig"),
    "app": ("app", "AppConfig"),
}
# Of the host's settings those that a testbed's profile has.
OF_TESTBED = ("cores", "kernel", "idle", "cost")
# What heads a profile and sets nothing.
HEADER = {"name", "description", "base", "testbed"}
KINDS = {
    "device": "Devices",
    "media": "Media",
    "ftl": "FTLs",
    "stack": "Host stacks",
    "testbed": "Testbeds",
    "fs": "File systems",
    "app": "Programs",
}
PAGES = {
    "device": ("Device", "of a device profile, beside its flash and its FTL"),
    "nand": ("NAND", "of a device profile or a medium"),
    "ftl": ("FTL", "of a device profile, and laid over it by an FTL's (`--ftl`)"),
    "stack": ("Host stack", "of a stack's profile (`--stack`)"),
    "testbed": ("Testbed", "of a testbed's profile (`--testbed`)"),
    "fs": ("File system", "of a file system's profile (`--fs`)"),
    "app": ("Program", "of a program's profile (`--app`, `--with`)"),
}


@dataclass
class Setting:
    path: str
    what: str
    type: str
    words: dict[str, str] = field(default_factory=dict)
    # Value, comment and profile, in the order of the files.
    given: list[tuple[str, str, str]] = field(default_factory=list)
    default: str | None = None


# Types that read profiles.

@dataclass
class Types:
    structs: dict[tuple[str, str], list[tuple[str, str, str]]]
    enums: dict[tuple[str, str], dict[str, str]]
    # Crates that a crate takes from.
    uses: dict[str, set[str]]
    # What is said of a type itself.
    about: dict[tuple[str, str], str]

    def find(self, crate: str, name: str) -> tuple[str, str] | None:
        """A type by the name that a file of the crate has for it."""
        if "::" in name:
            home, name = name.split("::")[0], name.rsplit("::", 1)[1]
            crate = home.removeprefix("wordline_")
        if (crate, name) in self.structs or (crate, name) in self.enums:
            return crate, name
        near = self.uses[crate]
        others = [key for key in (*self.structs, *self.enums) if key[1] == name and key[0] in near]
        if len(others) > 1:
            raise ValueError(f"{name} of {crate} is one of {others}: name its crate")
        return others[0] if others else None


def kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def read_types() -> Types:
    types = Types({}, {}, defaultdict(set), {})
    for path in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        text = path.read_text()
        if "Deserialize" not in text:
            continue
        crate = path.relative_to(ROOT / "crates").parts[0]
        types.uses[crate] |= set(re.findall(r"\bwordline_(\w+)::", text))
        for what, kind, name, body in re.findall(
            r"((?:^///[^\n]*\n)*)(?:^#\[[^\n]*\]\n)*^pub(?:\(crate\))? (struct|enum) (\w+) \{\n(.*?)^\}",
            text,
            re.M | re.S,
        ):
            types.about[crate, name] = sentence(what)
            if kind == "struct":
                types.structs[crate, name] = fields(body)
            else:
                types.enums[crate, name] = {
                    renamed or kebab(word): sentence(what)
                    for what, renamed, word in re.findall(
                        r'((?:^    ///.*\n)*)(?:^    #\[serde\(rename = "([^"]*)"\)\]\n)?(?:^    #\[.*\]\n)*^    (\w+)(?:\(.*\))?,',
                        body,
                        re.M,
                    )
                }
    return types


def fields(body: str) -> list[tuple[str, str, str]]:
    return [
        (name, sentence(what), kind)
        for what, name, kind in re.findall(
            r"((?:^    ///.*\n)*)(?:^    #\[.*\]\n)*^    pub (\w+): (.*),$", body, re.M
        )
    ]


def sentence(comment: str) -> str:
    return " ".join(line.strip().removeprefix("///").strip() for line in comment.splitlines())


# Machines whose settings are defaults: the first that has one.
MACHINES = (
    ("", {"device": "cnex-westlake"}),
    ("`--device z-ssd-800g`", {"device": "z-ssd-800g"}),
    ("`--device bssd-400g`", {"device": "bssd-400g"}),
    ("`--ftl firmware`", {"device": "z-ssd-800g", "ftl": "firmware"}),
    ("`--ftl fssd`", {"device": "fssd-430g", "ftl": "fssd"}),
)


def walk(types: Types, crate: str, name: str, path: str, out: dict[str, Setting]) -> None:
    for key, what, kind in types.structs[crate, name]:
        inner = kind
        while (outer := re.fullmatch(r"(?:Option|Box)<(.*)>", inner)) is not None:
            inner = outer[1]
        home = types.find(crate, inner)
        below = f"{path}.{key}" if path else key
        if home == ("fs", "FsConfig") and path:
            continue
        if home in types.structs:
            walk(types, *home, below, out)
            continue
        setting = Setting(below, what, inner)
        if home in types.enums and home[1] != "PerPage":
            setting.words = types.enums[home]
            setting.what = what or types.about.get(home, "")
        out[below] = setting


def read_settings() -> dict[str, Setting]:
    types, out = read_types(), {}
    for section, (crate, name) in SECTIONS.items():
        walk(types, crate, name, section, out)
    walk(types, "device", "DeviceConfig", "", device := {})
    for path, setting in device.items():
        if "." not in path:
            setting.path = f"device.{path}"
        out[setting.path] = setting
    for path in [p for p in out if p.startswith("stack.")]:
        key = path.split(".")[1]
        if key in OF_TESTBED:
            setting = out.pop(path)
            setting.path = path.replace("stack", "testbed", 1)
            out[setting.path] = setting
        elif key == "fs":
            del out[path]
    return out


# Profiles.

LINE = re.compile(r"^([\w-]+)\s*=\s*((?:\"[^\"]*\"|\[[^\]]*\]|[^#\"\[])+?)\s*(?:#\s*(.*))?$")


def read_profile(text: str) -> list[tuple[str, str, str]]:
    """Each path with its value and the comment beside it, as written."""
    section, out = "", []
    for line in text.splitlines():
        if found := re.match(r"^\[+([^\]]+)\]+", line):
            section = found[1]
        elif found := LINE.match(line):
            key, value, comment = found.groups()
            comment = (comment or "").removeprefix("... ")
            out.append((f"{section}.{key}", value.strip(), comment))
    seen: dict[str, object] = {}
    flat(tomllib.loads(text), "", seen)
    missing = set(seen) - {path for path, _, _ in out}
    if missing:
        raise ValueError(f"lines of {sorted(missing)} are not understood")
    return out


def flat(table: dict[str, object], path: str, out: dict[str, object]) -> None:
    for key, value in table.items():
        below = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            flat(value, below, out)
        else:
            out[below] = value


def profiles() -> list[tuple[str, str, str]]:
    """Kind, name and text of those that come with the program."""
    from wordline import _wordline

    return [(kind, name, _wordline.show(f"{kind}/{name}")) for kind, name in _wordline.presets()]


def give(settings: dict[str, Setting], kind: str, name: str, text: str) -> None:
    for path, value, comment in read_profile(text):
        section, key = path.rsplit(".", 1)
        if section == kind and key in HEADER or path.startswith("bridge.members."):
            continue
        # A whole section that is not there, or is what the program has for it.
        if path not in settings and value == '"none"' and any(p.startswith(f"{path}.") for p in settings):
            continue
        if path not in settings:
            raise ValueError(f"{kind}/{name}: no type has '{path}'")
        settings[path].given.append((value, comment, name))


def whole_path(path: str) -> str:
    """Where a whole configuration has it."""
    section, _, rest = path.partition(".")
    if section in ("nand", "ftl", "stack", "app", "device"):
        return path
    if section == "testbed":
        return f"stack.{rest}"
    if section == "fs":
        return f"stack.fs.{rest}"
    return f"device.{path}"


def give_defaults(settings: dict[str, Setting]) -> None:
    from wordline import _wordline

    paths = {whole_path(path): setting for path, setting in settings.items()}
    for name, machine in MACHINES:
        for path, value in _wordline.settings(json.dumps(machine)):
            setting = paths.get(path)
            if setting is None:
                raise ValueError(f"no type has '{path}'")
            if setting.default is None:
                setting.default = f"`{value}`" + (f", with {name}" if name else "")


# Pages.

UNITS = (
    ("percent", "percent"),
    ("bytes/s", "bytes a second"),
    ("bytes a second", "bytes a second"),
    ("bytes", "bytes"),
    ("sectors of 512 bytes", "sectors of 512 bytes"),
    ("sectors", "sectors"),
    ("requests a second", "a second"),
)


def unit(setting: Setting) -> str:
    kind, key = setting.type, setting.path.rsplit(".", 1)[1]
    if kind in ("Span", "PerPage", "Vec<Span>"):
        several = "" if kind == "Span" else ", one or one for each type of page"
        return f"time, as in `\"3us\"`{several}"
    if kind == "bool":
        return "`true` or `false`"
    if kind in ("String", "Vec<String>"):
        return "text" if kind == "String" else "a list of texts"
    for end, name in (("_bytes", "bytes"), ("_mw", "milliwatts"), ("_hz", "hertz"), ("_sectors", "sectors"), ("_kib", "KiB")):
        if key.endswith(end):
            return name
    said = [setting.what.lower(), *(comment.lower() for _, comment, _ in setting.given)]
    for text in said:
        for begins, name in UNITS:
            if text.startswith(begins):
                return name
    if "per cent" in setting.what or "percent" in setting.what.lower():
        return "percent"
    if kind.startswith(("Vec", "[")):
        return "a list of numbers"
    if kind.startswith("f"):
        return "a number"
    return "a whole number"


def anchor(path: str) -> str:
    return "setting-" + re.sub(r"[^a-z0-9]+", "-", path.lower())


def cell(text: str) -> str:
    return escaped(text).replace("|", "\\|") or " "


def escaped(text: str) -> str:
    parts = re.split(r"(`[^`]*`|https?://\S+)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\*_<>\[\]{}$#])", r"\\\1", parts[i])
    return "".join(parts)


def setting_text(setting: Setting) -> str:
    # No headings: every page would have all of them in its navigation.
    lines = ["~~~{rubric} " + f"`{setting.path}`", f":name: {anchor(setting.path)}", "~~~", ""]
    if setting.what:
        lines += [escaped(setting.what), ""]
    if not setting.words:
        lines += [f"Unit\n: {unit(setting)}", ""]
    else:
        words = "\n  ".join(
            f"- `{word}`{': ' + escaped(what) if what else ''}" for word, what in setting.words.items()
        )
        lines += [f"Words\n: {words}", ""]
    if setting.default is not None:
        lines += [f"Default\n: {setting.default}", ""]
    elif not setting.given:
        lines += ["Default\n: none: its section is absent until one of its settings is given", ""]
    by: dict[tuple[str, str], list[str]] = defaultdict(list)
    for value, comment, name in setting.given:
        by[value, comment].append(name)
    if by:
        lines += ["| value | in | where from |", "|---|---|---|"]
        lines += [
            f"| `{value}` | {', '.join(names)} | {cell(comment)} |" for (value, comment), names in by.items()
        ]
        lines.append("")
    return "\n".join(lines)


def page_of(path: str) -> str:
    section = path.split(".")[0]
    return section if section in PAGES else "device"


def settings_pages(out: dict[str, str], settings: dict[str, Setting]) -> None:
    index = [
        "# Settings",
        "",
        "Every value that a profile or `--set PATH=VALUE` may have. A default is what `wordline run` has when nothing "
        "is said: the drive cnex-westlake, pblk, linux-libaio. Each table names the profiles that say a value, and "
        "where they have it from; \"chosen\" is a value that no source gives.",
        "",
        "```{toctree}",
        *PAGES,
        "```",
        "",
    ]
    for page, (title, where) in PAGES.items():
        mine = [setting for setting in settings.values() if page_of(setting.path) == page]
        sections: dict[str, list[Setting]] = defaultdict(list)
        for setting in mine:
            sections[setting.path.rsplit(".", 1)[0]].append(setting)
        text = [f"# {title}", "", f"Settings {where}.", ""]
        index += [f"## {title}", ""]
        for section, some in sections.items():
            text += [f"## `[{section}]`", "", *(setting_text(setting) for setting in some)]
            links = ", ".join(
                f"{{ref}}`{s.path.rsplit('.', 1)[1]} <{anchor(s.path)}>`" for s in some
            )
            index += [f"`[{section}]`\n: {links}", ""]
        out[f"settings/{page}.md"] = "\n".join(text)
    out["settings/index.md"] = "\n".join(index)


def profile_pages(out: dict[str, str], all: list[tuple[str, str, str]]) -> None:
    index = [
        "# Profiles",
        "",
        "What comes with the program, as `wordline device list` names it and `wordline device show NAME` prints it. "
        "A file of one's own is taken wherever a name is.",
        "",
        "```{toctree}",
        ":maxdepth: 2",
        "",
        *KINDS,
        "```",
        "",
    ]
    for kind, title in KINDS.items():
        page = [f"# {title}", ""]
        for _, name, text in (profile for profile in all if profile[0] == kind):
            described = tomllib.loads(text)[kind].get("description", "")
            page += [f"## {name}", "", f"{escaped(described)}.", "", "`````toml", text.rstrip(), "`````", ""]
        out[f"profiles/{kind}.md"] = "\n".join(page)
    out["profiles/index.md"] = "\n".join(index)


def command_pages(out: dict[str, str]) -> None:
    program = os.environ.get("WORDLINE", str(ROOT / "target/debug/wordline"))
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "man", "--format", "md", "--out", folder], check=True, capture_output=True)
        pages = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
    names = sorted(name.removesuffix(".md") for name in pages)
    for name, text in pages.items():
        out[f"commands/{name}"] = text
    out["commands/index.md"] = "\n".join(
        ["# Commands", "", "What each takes, as `--help` says it.", "", "```{toctree}", ":maxdepth: 1", "", *names, "```", ""]
    )


def python_page(out: dict[str, str]) -> None:
    import inspect

    import wordline

    functions, classes, errors = [], [], []
    for name in wordline.__all__:
        value = getattr(wordline, name)
        if inspect.isclass(value) and issubclass(value, BaseException):
            errors.append(name)
        elif inspect.isclass(value):
            classes.append(name)
        elif callable(value):
            functions.append(name)
    lines = [
        "# Python",
        "",
        "`import wordline as wl`. Names end in their unit: `_ns` nanoseconds, `_s` seconds, `_bytes`. Shares are from 0 "
        "to 1, percentiles from 0 to 100.",
        "",
        "```{eval-rst}",
        ".. py:module:: wordline",
        "```",
    ]
    lists = {"Functions": functions, "Classes": classes + ["plot.Plots", "plot.Picture", "plot.PlotlyPicture", "tune.Objective"], "Errors": errors}
    for title, names in lists.items():
        lines += ["", f"## {title}", "", "```{eval-rst}"]
        for name in names:
            if title == "Functions":
                lines += [f".. autofunction:: wordline.{name}", ""]
            else:
                extra = ["   :members:", "   :special-members: __call__"] if title == "Classes" else []
                lines += [f".. autoclass:: wordline.{name}", *extra, "   :show-inheritance:" if title == "Errors" else "", ""]
        lines.append("```")
    out["python.md"] = "\n".join(lines) + "\n"


def write(folder: pathlib.Path) -> None:
    """All pages; one that is as it was is left alone, and one that is no more goes."""
    out: dict[str, str] = {}
    settings, all = read_settings(), profiles()
    for kind, name, text in all:
        give(settings, kind, name, text)
    give_defaults(settings)
    command_pages(out)
    settings_pages(out, settings)
    profile_pages(out, all)
    python_page(out)
    out["index.md"] = "\n".join(
        [
            "# Reference",
            "",
            "Made from the program: what it declares, and the profiles that come with it.",
            "",
            "```{toctree}",
            ":maxdepth: 1",
            "",
            "commands/index",
            "settings/index",
            "profiles/index",
            "python",
            "```",
            "",
        ]
    )
    for path in folder.rglob("*.md"):
        if str(path.relative_to(folder)) not in out:
            path.unlink()
    for name, text in out.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
