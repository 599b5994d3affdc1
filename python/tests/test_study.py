"""Studies from Python: the numbers are the command line's, a cluster gives the same, bad input is named."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import wordline as wl
from wordline.__main__ import main

TEXT = """
[study]
title = "Reads by depth"
shows = "How latency grows with the queue."

[base]
device = "z-ssd-small"
stack = "linux-libaio"
precondition = "fill"
job = '''
[a]
rw=randread
bs=4k
iodepth=${depth}
number_ios=300
'''

[[axis]]
name = "depth"
values = [1, 4, 16]
quick = [1]

[[axis]]
name = "t_read"
[[axis.value]]
name = "3us"
[[axis.value]]
name = "6us"
set = ["nand.t_read=6us"]

[[metric]]
name = "p99"
path = "jobs.a.read.clat_ns.p99"
unit = "us"
scale = 1e-3
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(TEXT)
    return "mine.toml"


def tables(folder):
    return {suffix: (folder / f"mine.{suffix}").read_text() for suffix in ("csv", "json")}


def test_tables_are_those_of_the_command_line(study, shell, tmp_path):
    one = wl.Study(study)
    assert (one.name, one.title, len(one.points)) == ("mine", "Reads by depth", 6)
    assert one.points[1] == {"depth": "1", "t_read": "6us"}
    table = one.run("here", executor="inline", progress=False)
    text = shell("study", "run", study, "--out", "there", "--quiet")
    assert tables(tmp_path / "here") == tables(tmp_path / "there")
    assert table.text == text and not table.failures
    assert [row["p99"] for row in table.rows] == table.to_polars()["p99"].to_list()
    # What is there is not run again; another build's results are not taken.
    begun = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "here/mine/points").iterdir()}
    wl.Study(study).run("here", executor="inline", progress=False)
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "here/mine/points").iterdir()}
    assert begun == after and len(begun) == 6
    quick = wl.Study(study, scale="quick", points=["t_read=6us"])
    assert len(quick.points) == 1
    varied = wl.Study(study, points=["depth=1"], vary=["seed=1,2"])
    assert [point["seed"] for point in varied.points] == 2 * ["1", "2"]
    table = varied.run("here", executor="inline", progress=False)
    text = shell("study", "run", study, "--out", "there", "--quiet", "--point", "depth=1", "--vary", "seed=1,2")
    assert table.text == text and table.document["varied"] == ["seed=1,2"]
    repeated = wl.Study(study, points=["depth=4,16"], repeat=3)
    assert len(repeated.points) == 4
    table = repeated.run("here", executor="inline", progress=False)
    text = shell("study", "run", study, "--out", "there", "--quiet", "--point", "depth=4,16", "--repeat", "3")
    assert table.text == text and table.document["seeds"] == [1, 2, 3]
    assert [row["n"] for row in table.rows] == [3] * 4
    halves = table.to_polars()["p99 half_width_95"].to_list()
    assert all(half >= row["p99"] / 128 for half, row in zip(halves, table.rows))


def test_points_that_fail_are_named(study, tmp_path):
    bad = TEXT.replace('set = ["nand.t_read=6us"]', 'set = ["device.lba=4096"]')
    bad = bad.replace("bs=4k", "bs=512")
    (tmp_path / "mine.toml").write_text(bad)
    table = wl.Study(study, points=["depth=1"]).run(executor="inline", progress=False)
    assert list(table.failures) == ["depth=1, t_read=6us"]
    assert "4096" in table.failures["depth=1, t_read=6us"]


def test_bad_studies_are_named(study, tmp_path):
    for arguments, part in [
        (("none/such",), "none/such"),
        (("none.toml",), "check the path"),
        ((study, "half"), "use whole or quick"),
        ((study, "whole", ["deep=1"]), "depth"),
        ((study, "whole", [], ["seed=x"]), "no seed"),
        ((study, "whole", [], [], 1), "^repeat: 1 must be a whole number, 2 to 1000"),
        ((study, "whole", [], [], True), "^repeat: True must be a whole number"),
        ((study, "whole", [], [], 5000), "^repeat: 5000 must be a whole number"),
        ((study, "whole", [], [], "3"), "^repeat: '3' must be a whole number"),
        ((study, "whole", [], [], -3), "^repeat: -3 must be a whole number"),
        ((study, "whole", [], ["seed=1,2"], 2), "^repeat: vary seed=1,2 gives the seeds, and so does repeat: "),
        ((None,), "^name: None is a NoneType: give a name"),
        ((study, 3), "^scale: 3 is an int: use whole or quick"),
        ((study, "whole", "depth=1"), "^points: 'depth=1' is a str: give a list of words"),
    ]:
        name, *more = arguments
        keys = dict(zip(("scale", "points", "vary", "repeat"), more))
        with pytest.raises(wl.InputError, match=part):
            wl.Study(name, **keys)
    left_out = wl.Study(study, scale=None, points=None, vary=None, repeat=np.int64(3))
    assert left_out.points == wl.Study(study).points
    assert "rail/max-write-rate" in wl.Study.names()
    (tmp_path / "results").write_text("")
    with pytest.raises(wl.InputError, match="results"):
        wl.Study(study).run(executor="inline")


def test_the_command_line_is_told_in_its_own_words(study, capsys):
    assert main(["study", study, "--repeat", "3", "--vary", "seed=1,2"]) == 2
    said = capsys.readouterr().err
    assert "--repeat: --vary seed=1,2 gives the seeds, and so does --repeat: leave out --vary" in said
    for word, part in [("1", "an interval takes two runs or more"), ("x", "'x' is no number from 2 to 1000")]:
        with pytest.raises(SystemExit):
            main(["study", study, "--repeat", word])
        assert f"argument --repeat: {part}" in capsys.readouterr().err


def test_the_command_line_hands_over_to_a_cluster(study, program, tmp_path):
    distributed = pytest.importorskip("distributed")
    environment = {**os.environ, "WORDLINE_PYTHON": sys.executable}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
    ) as cluster:
        words = ["study", "run", study, "--dask", cluster.scheduler_address, "--out", "far"]
        done = subprocess.run(
            [program, *words, "--point", "depth=1,4", "--repeat", "2"], capture_output=True, text=True, env=environment
        )
    assert done.returncode == 0, done.stderr
    here = wl.Study(study, points=["depth=1,4"], repeat=2).run("near", executor="inline", progress=False)
    assert done.stdout == here.text
    assert json.loads((tmp_path / "far/mine.repeated.part.json").read_text())["points"] == here.document["points"]


def test_the_command_line_says_what_it_lacks(program, tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[tune]\n")
    for python, status, part in [
        ("/bin/false", 2, "WORDLINE_PYTHON"),
        (sys.executable, 2, "names no objective"),
    ]:
        environment = {**os.environ, "WORDLINE_PYTHON": python}
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        done = subprocess.run(
            [program, "tune", str(path)], capture_output=True, text=True, env=environment
        )
        assert done.returncode == status and part in done.stderr, done


def test_words_of_a_study_are_lists(study):
    for name in ("points", "vary"):
        for value in ("depth=1", 5):
            with pytest.raises(wl.InputError, match=f"{name}: {value!r} is .*: give a list of"):
                wl.Study(study, **{name: value})
