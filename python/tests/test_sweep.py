"""Sweeps: the same rows whatever runs them; kept, gone on with, and never half-written."""

import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import polars
import pytest

import wordline as wl
from conftest import ROOT
from wordline import _build, _points

AXES = {"iodepth": [1, 8], "ftl": ["pblk", "rail"], "ftl.over_provisioning": [15.0, 20.0]}
COMMON = {
    "device": "cnex-small",
    "rw": "randrw",
    "number_ios": 300,
    "precondition": "fill",
    "progress": False,
}


def numbers(sweep):
    """Rows without what is of the run of the sweep, not of the point."""
    return [{k: v for k, v in row.items() if k not in ("wall_s", "key")} for row in sweep]


def plain(row):
    return {key: value for key, value in row.items() if value is not None}


@pytest.fixture(scope="module")
def inline():
    return wl.sweep(AXES, executor="inline", **COMMON)


def test_a_row_is_a_run(inline):
    assert len(inline) == 8 and not inline.failures
    row = inline[5]
    assert (row["iodepth"], row["ftl"], row["ftl.over_provisioning"]) == (8, "pblk", 20.0)
    arguments = {**COMMON, "iodepth": 8, "ftl": "pblk", "set": {"ftl.over_provisioning": 20.0}}
    result = wl.run(**arguments)
    for name, value in result.metrics().items():
        assert row[name] == value, name


def heaps(result):
    return {"heaps": int(os.environ["MALLOC_ARENA_MAX"])}


def test_a_worker_keeps_memory_from_point_to_point_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    sweep = wl.sweep({"iodepth": [1]}, workers=1, measure=heaps, **COMMON)
    assert sweep.column("heaps") == [1]
    monkeypatch.setenv("MALLOC_ARENA_MAX", "3")
    sweep = wl.sweep({"iodepth": [1]}, workers=1, measure=heaps, **COMMON)
    assert sweep.column("heaps") == [3]


def test_points_of_one_aged_drive_are_as_if_each_had_its_own():
    common = {**COMMON, "precondition": "steady", "rw": "randwrite"}
    sweep = wl.sweep({"number_ios": [100, 200, 300]}, workers=1, **common)
    for row in sweep:
        result = wl.run(**{**common, "number_ios": row["number_ios"]})
        assert row["write_p99_ns"] == result.write.latency.percentile_or_none(99)
        assert row["write_amplification"] == result.write_amplification


def test_processes_and_executors_give_the_same_rows(inline):
    assert numbers(wl.sweep(AXES, workers=2, **COMMON)) == numbers(inline)
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        assert numbers(wl.sweep(AXES, executor=executor, **COMMON)) == numbers(inline)


def read_ios_twice(result):
    return {"twice": 2 * result.read.ios}


def test_measures_and_variables():
    job = "[a]\nrw=randread\niodepth=${depth}\nnumber_ios=100\n"
    points = [{"depth": 2}, {"depth": 4, "seed": 9}]
    sweep = wl.sweep(points, job=job, device="z-ssd-small", measure=read_ios_twice, workers=1)
    assert sweep.column("twice") == [200, 200] and sweep[1]["seed"] == 9
    with pytest.raises(wl.InputError, match="column 'thrice': there are depth"):
        sweep.column("thrice")
    # A function of a notebook goes along.
    local = wl.sweep(points, job=job, device="z-ssd-small", measure=lambda r: {"n": r.read.ios}, workers=1)
    assert local.column("n") == [100, 100]


def test_traces_are_swept_too():
    trace = str(ROOT / "examples/traces/msr.csv")
    common = {"trace": trace, "device": "z-ssd-small", "wrap": True, "executor": "inline"}
    sweep = wl.sweep({"closed_loop": [1, 8], "nand.t_read": ["3us", "30us"]}, **common)
    assert not sweep.failures and len(set(sweep.column("read_mean_ns"))) == 4
    one = wl.replay(trace, device="z-ssd-small", wrap=True, closed_loop=8, set={"nand.t_read": "30us"}, progress=False)
    assert sweep[3]["read_mean_ns"] == one.read.latency.mean_ns
    with pytest.raises(wl.InputError, match="iodepth"):
        wl.sweep([{"iodepth": 3}], **common)


def test_points_that_fail_are_named_and_others_go_on():
    points = [{"iodepth": 1}, {"bs": 512}, {"device": "none"}, {"iodepth": 4}]
    for executor in ("inline", "processes"):
        sweep = wl.sweep(points, executor=executor, **{**COMMON, "precondition": "none"})
        assert len(sweep) == 4 and sorted(sweep.failures) == [1, 2]
        assert "512" in sweep.failures[1] and "unknown device 'none'" in sweep.failures[2]
        assert [row["read_ios"] > 0 for row in sweep.good] == [True, True]

    def broken(result):
        raise KeyError("p50")

    sweep = wl.sweep(points[:1], executor="inline", measure=broken, **COMMON)
    assert sweep.failures == {0: "measure: KeyError: 'p50'"}


def test_what_is_wrong_with_all_points_is_raised_before_any_runs(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(_points, "run_point", lambda point, measure: ran.append(point))
    axes = {"iodepth": [1, 8]}
    for executor in ("inline", "processes", concurrent.futures.ThreadPoolExecutor(1)):
        with pytest.raises(wl.InputError, match="each of the 2 points: .*nand.t_reed.*did you mean"):
            wl.sweep(axes, executor=executor, out=tmp_path / "out", **COMMON, set={"nand.t_reed": "3us"})
    with pytest.raises(wl.InputError, match="each of the 2 points: unknown device 'none'"):
        wl.sweep(axes, executor="inline", **{**COMMON, "device": "none"})
    assert not ran and not (tmp_path / "out").exists()


def test_points_with_reasons_of_their_own_are_rows():
    for points in (
        [{"device": "none"}, {"device": "neither"}],
        [{"device": "none"}, {"iodepth": 4}],
        [{"device": "none"}],
    ):
        sweep = wl.sweep(points, executor="inline", **{**COMMON, "precondition": "none"})
        assert len(sweep) == len(points) and 0 in sweep.failures


def killer(result):
    """Ends its process at one point, always."""
    if result["job"].about["iodepth"] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def test_a_process_that_dies_costs_its_point_alone():
    points = [{"iodepth": depth} for depth in (1, 2, 3, 4, 5)]
    common = {**COMMON, "precondition": "none", "number_ios": 50}
    sweep = wl.sweep(points, measure=killer, workers=1, **common)
    assert list(sweep.failures) == [2] and "SIGKILL" in sweep.failures[2]
    assert len(sweep.good) == 4


@pytest.mark.parametrize(
    "points, more, part",
    [
        ({"ftl": "rail"}, {}, "axis ftl: 'rail' is no list"),
        ({"ftl": []}, {}, "axis ftl: no value"),
        ([{"rw": ["x"]}], {}, "point 0 rw="),
        ([{}], {"executor": 7}, "executor 7: use 'processes'"),
        ([{}], {"workers": 0}, "workers: 0"),
        ([{}], {"set": ["nand.t_read=3us"]}, "set: .* is a list: give a mapping"),
        ([{"set": "nand.t_read=3us"}], {}, "set: .* is a str: give a mapping"),
        ([{}], {"flush_s": 0}, "flush_s 0"),
        ([{}], {"job": "none.fio"}, "none.fio"),
        ([{}], {"job": __file__[:-3] + ".none"}, "check the path"),
        ([{}], {"job": wl._wordline.__file__}, "_wordline.*not a text file"),
        ([1, 2], {}, "point 0: 1 is an int: give a mapping"),
        (5, {}, "points: 5 is an int"),
        ([{}], {"workers": "2"}, "workers: '2' must be a whole number"),
        ([{}], {"workers": 1.5}, "workers: 1.5 must be a whole number"),
        ([{}], {"flush_s": "2"}, "flush_s '2'"),
    ],
)
def test_bad_sweeps_are_named(points, more, part):
    common = {"device": "z-ssd-small", "rw": "randread", "number_ios": 10, **more}
    if "job" in more:
        common = {"device": "z-ssd-small", **more}
    with pytest.raises(wl.InputError, match=part):
        wl.sweep(points, **common)


def test_a_replay_has_no_options_of_jobs():
    with pytest.raises(wl.InputError, match=r"point 0 .*: formt: no argument of wordline.replay \(did you mean format\?\)"):
        wl.sweep([{"trace": str(ROOT / "examples/traces/msr.csv")}], formt="msr", device="z-ssd-small")


def files(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_kept_sweep_goes_on_and_runs_nothing_twice(inline, tmp_path, monkeypatch):
    out = tmp_path / "kept"
    first = wl.sweep(wl.grid(AXES)[:3], executor="inline", out=out, **COMMON)
    assert numbers(first) == numbers(inline)[:3]
    ran = []
    whole = _points.run_point
    monkeypatch.setattr(_points, "run_point", lambda p, m: ran.append(p.index) or whole(p, m))
    sweep = wl.sweep(AXES, executor="inline", out=out, **COMMON)
    assert sorted(ran) == [3, 4, 5, 6, 7] and numbers(sweep) == numbers(inline)
    table = polars.read_parquet(out / "results.parquet")
    assert [plain(row) for row in table.drop("wall_s", "key").to_dicts()] == [
        plain(row) for row in numbers(inline)
    ]
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["points"], manifest["done"], manifest["failed"]) == (8, 8, 0)
    assert manifest["complete"] and sum(part["rows"] for part in manifest["parts"]) == 8
    ran.clear()
    before = files(out)
    wl.sweep(AXES, executor="inline", out=out, **COMMON)
    assert not ran and files(out) == before
    # Another measure is another sweep; a damaged part is run again.
    wl.sweep(wl.grid(AXES)[:1], executor="inline", out=out, measure=read_ios_twice, **COMMON)
    assert ran == [0]
    ran.clear()
    part = out / "parts" / "part-000002.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    assert numbers(wl.sweep(AXES, executor="inline", out=out, **COMMON)) == numbers(inline)
    assert sorted(ran) == [3, 4, 5, 6, 7]


def test_points_that_failed_are_tried_again(tmp_path):
    common = {**COMMON, "precondition": "none", "executor": "inline", "out": tmp_path}
    state = tmp_path / "later.state"
    point = [{"precondition": "auto", "load_state": str(state)}]
    assert wl.sweep(point, **common).failures
    wl.run(device="cnex-small", rw="randread", number_ios=1, save_state=state, progress=False)
    assert not wl.sweep(point, **common).failures


def test_folders_of_others_are_refused(tmp_path):
    common = {**COMMON, "precondition": "none", "number_ios": 10, "executor": "inline"}
    wl.sweep([{}], out=tmp_path, **common)
    manifest = tmp_path / "manifest.json"
    good = json.loads(manifest.read_text())
    for text, part in [
        ("x", "not the manifest"),
        ("{}", "not the manifest"),
        (json.dumps({**good, "parts": [{"rows": 1}]}), "not the manifest"),
        (json.dumps({**good, "wordline": "0.0.1", "format_version": 1}), "made by wordline 0.0.1 in format 1"),
        (json.dumps({**good, "build": "0123456789ab"}), "made by build 0123456789ab.*or go on with that build"),
    ]:
        manifest.write_text(text)
        with pytest.raises(wl.FormatError, match=part):
            wl.sweep([{}], out=tmp_path, **common)
    # The folder is free again, also while somebody has the error.
    kept = pytest.raises(wl.FormatError, wl.sweep, [{}], out=tmp_path, **common)
    manifest.write_text(json.dumps(good))
    assert kept and len(wl.sweep([{}], out=tmp_path, **common)) == 1
    with pytest.raises(OSError, match="name another"):
        wl.sweep([{}], out="/proc/nowhere", **common)


def test_a_sweep_that_is_killed_leaves_whole_files(tmp_path):
    script = textwrap.dedent(
        f"""
        import wordline as wl
        wl.sweep({{"seed": range(400)}}, device="z-ssd-small", rw="randread", number_ios=300, precondition="none",
                 workers=1, flush_s=0.05, out={str(tmp_path)!r})
        """
    )
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, start_new_session=True)
    manifest = tmp_path / "manifest.json"
    end = time.monotonic() + 30
    while not (manifest.exists() and len(json.loads(manifest.read_text())["parts"]) > 3):
        assert time.monotonic() < end and child.poll() is None
        time.sleep(0.02)
    child.kill()
    said = child.communicate()[1]
    # Its workers end without a word. The pipe ends when the last of them is gone.
    assert said == b""
    listed = json.loads(manifest.read_text())["parts"]
    rows = sum(polars.read_parquet(tmp_path / "parts" / part["file"]).height for part in listed)
    assert rows == sum(part["rows"] for part in listed) >= 4
    points = {"seed": range(rows + 3)}
    common = {"device": "z-ssd-small", "rw": "randread", "number_ios": 300, "precondition": "none"}
    sweep = wl.sweep(points, executor="inline", out=tmp_path, **common)
    assert len(sweep) == rows + 3 and not sweep.failures


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_processes_of_a_sweep_do_not_outlive_it(tmp_path, name):
    """Those at a long point too, which they would hear of only at its end."""
    script = textwrap.dedent(
        f"""
        import wordline as wl
        wl.sweep({{"runtime": ["1ms", "10h"]}}, time_based=True, device="z-ssd-small", rw="randread", precondition="none", workers=1,
                 flush_s=0.01, out={str(tmp_path)!r})
        """
    )
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, start_new_session=True)
    end = time.monotonic() + 30
    while not (tmp_path / "manifest.json").exists():
        assert time.monotonic() < end and child.poll() is None
        time.sleep(0.02)
    child.send_signal(signal.Signals[name])
    # The pipe ends when the last of them is gone.
    assert child.communicate(timeout=10)[1] == b""


def loud(result):
    print("seen")
    return {}


def thirsty(result):
    """Reads the standard input, and so does a process that it starts."""
    head = subprocess.run(["head", "-c", "5"], capture_output=True, check=True, timeout=20)
    return {"taken": len(head.stdout) + len(sys.stdin.read())}


def test_a_measure_takes_nothing_of_what_is_to_run():
    common = {"device": "z-ssd-small", "rw": "randread", "number_ios": 10, "precondition": "none"}
    sweep = wl.sweep({"iodepth": [1, 2, 3, 4, 5, 6]}, measure=thirsty, workers=2, **common)
    assert sweep.column("taken") == [0] * 6


@pytest.mark.parametrize(
    "sent, error",
    [(b"\xff" * 8, "OverflowError"), (b"\4" + bytes(7) + b"none", "UnpicklingError")],
)
def test_a_worker_that_cannot_take_up_what_it_hears_ends(sent, error):
    """The pipe stays open: the end of it would end the worker anyhow."""
    words = [sys.executable, "-c", "from wordline._worker import main; main()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        try:
            worker.stdin.write(sent)
            worker.stdin.flush()
            assert worker.wait(timeout=30) == 1
            assert error in worker.stderr.read().decode()
        finally:
            worker.kill()


def broken():
    raise RuntimeError("not here")


class Unpicklable:
    """A measure that no process can take up."""

    def __reduce__(self):
        return broken, ()

    def __call__(self, result):
        return {}


def test_what_a_measure_prints_is_seen_and_one_that_cannot_be_taken_up_is_told(capfd, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    common = {"device": "z-ssd-small", "rw": "randread", "number_ios": 10, "precondition": "none"}
    wl.sweep([{}, {}], measure=loud, workers=1, **common)
    assert capfd.readouterr().err.count("seen") == 2
    failed = wl.sweep([{}], measure=Unpicklable(), workers=1, **common)
    assert "ended with status 1, twice" in failed.failures[0]
    assert "RuntimeError: not here" in (said := capfd.readouterr().err) and "Fatal" not in said


def test_what_a_table_cannot_have_ends_a_sweep_that_is_kept(tmp_path):
    common = {"device": "z-ssd-small", "rw": "randread", "number_ios": 10, "precondition": "none", "executor": "inline"}
    with pytest.raises(wl.SweepError, match="measure: .* numbers or text"):
        wl.sweep([{}], measure=lambda result: {"x": object()}, out=tmp_path, **common)
    assert len(wl.sweep([{}], out=tmp_path, **common)) == 1


def test_a_disk_without_room_ends_a_sweep_with_what_is_whole(tmp_path):
    """A limit on file size stands for a full disk."""
    script = textwrap.dedent(
        f"""
        import resource, signal
        import wordline as wl
        common = dict(device="z-ssd-small", rw="randread", number_ios=50, precondition="none", executor="inline",
                      out={str(tmp_path)!r})
        wl.sweep({{"seed": [1]}}, **common)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
        try:
            wl.sweep({{"seed": [1, 2]}}, **common)
        except wl.SweepError as error:
            print(error)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    for part in ("cannot write", "free space", "goes on with what is whole"):
        assert part in done.stdout, done
    assert polars.read_parquet(tmp_path / "results.parquet").height == 1
    assert not [name for name in files(tmp_path) if name.startswith(".wordline-")]


def test_an_interrupt_ends_a_sweep_with_its_rows(tmp_path):
    script = textwrap.dedent(
        f"""
        import wordline as wl
        s = wl.sweep({{"seed": range(20000)}}, device="z-ssd-small", rw="randread", number_ios=300,
                     precondition="none", workers=2, out={str(tmp_path)!r}, flush_s=0.2)
        print(s.interrupted, len(s) > 0, len(s) < 20000)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    end = time.monotonic() + 60
    while not (tmp_path / "manifest.json").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=30)
    assert out == b"True True True\n"
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert not manifest["complete"] and manifest["done"] > 0


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
    ) as cluster, distributed.Client(cluster) as client:
        yield client


def slow(result):
    time.sleep(0.05)
    return {}


# Before those that kill workers: one that comes back may go once more.
def test_a_cluster_with_another_build_is_refused(client):
    client.wait_for_workers(2, timeout=30)

    def other():
        import wordline._build

        wordline._build.kept, wordline._build.identity = wordline._build.identity, lambda: "0123456789ab"

    def back():
        import wordline._build

        wordline._build.identity = wordline._build.kept

    client.run(other)
    try:
        with pytest.raises(wl.VersionError, match="0123456789ab.*install the same"):
            wl.sweep([{}], executor=client, **COMMON)
    finally:
        client.run(back)


def test_a_cluster_gives_the_same_rows_with_a_worker_killed_in_the_middle(client):
    common = {**COMMON, "precondition": "none", "number_ios": 100}
    points = {"seed": range(60)}
    killed = []

    def kill(progress):
        if not killed:
            pids = client.run(os.getpid)
            killed.append(os.kill(next(iter(pids.values())), signal.SIGKILL))

    plan = [_points.Point(i, str(i), "{}", "") for i in range(3)]
    assert [len(lot) for lot in _points.batches(plan, 1)] == [1, 1, 1]
    import threading

    timer = threading.Timer(0.5, kill, [None])
    timer.start()
    sweep = wl.sweep(points, executor=client, measure=slow, **common)
    timer.join()
    assert killed and len(sweep) == 60 and not sweep.failures
    here = wl.sweep(points, executor="inline", **common)
    assert numbers(sweep) == numbers(here)


def test_a_point_that_kills_its_workers_is_named(client):
    common = {**COMMON, "precondition": "none", "number_ios": 50}
    points = [{"iodepth": depth} for depth in (1, 3, 4)]
    client.wait_for_workers(2, timeout=30)
    sweep = wl.sweep(points, executor=client, measure=killer, **common)
    assert list(sweep.failures) == [1] and "died" in sweep.failures[1]
    assert len(sweep.good) == 2


def test_a_worker_that_joins_with_another_build_refuses_its_lot():
    with pytest.raises(wl.VersionError, match=f"this worker has build {_build.identity()} .* and the client build 0123"):
        _points.run_batch("0123", [], None)


def test_a_terminal_sees_how_far_a_sweep_is(capsys):
    common = {"device": "z-ssd-small", "rw": "randread", "number_ios": 300, "precondition": "none"}
    wl.sweep({"seed": range(40)}, executor="inline", measure=slow, progress=True, **common)
    drawn = capsys.readouterr().err
    assert " of 40 points, " in drawn and " s to go" in drawn and drawn.endswith("\r\x1b[2K")
    wl.sweep({"seed": range(4)}, executor="inline", **common)
    assert capsys.readouterr().err == ""


def test_the_identity_of_a_build_is_that_of_its_sources(tmp_path):
    """A package elsewhere has the same; another text of one of its files makes it another."""
    copy = tmp_path / "wordline"
    shutil.copytree(ROOT / "python/wordline", copy, ignore=shutil.ignore_patterns("__pycache__"))

    def told():
        words = [sys.executable, "-c", "from wordline import _build; print(_build.identity())"]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert told() == _build.identity()
    with open(copy / "result.py", "a") as file:
        file.write("# more\n")
    assert told() != _build.identity()


def test_a_table_has_plain_numbers_with_their_units(inline):
    page = inline._repr_html_()
    assert " MB/s</td>" in page and " us</td>" in page and "e+0" not in page


PROFILE = """
[device]
name = "mine"
base = "z-ssd-small"
[nand]
t_read = "%s"
"""


def test_rows_are_kept_under_all_that_they_depend_on(tmp_path, monkeypatch):
    """Another file behind a name, or another environment, is another run."""
    monkeypatch.chdir(tmp_path)

    def mean(**more):
        table = wl.sweep([{}], device="z-ssd-small", executor="inline", progress=False, out="kept", **more)
        return table[0]["read_mean_ns"]

    def change(write, call):
        """The same call before and after a change: other numbers, and without a change the same row."""
        write(0)
        before, again = call(), call()
        write(1)
        assert before == again != call()

    job = "[a]\nrw=randread\nbs=4k\nnumber_ios=200\niodepth=${DEPTH}\n"
    change(lambda n: monkeypatch.setenv("DEPTH", ["1", "16"][n]), lambda: mean(job=job))
    included = tmp_path / "more.fio"
    change(
        lambda n: included.write_text(f"iodepth={[1, 16][n]}\n"),
        lambda: mean(job="[a]\nrw=randread\nbs=4k\nnumber_ios=200\ninclude more.fio\n"),
    )
    log = tmp_path / "t.log"
    change(
        lambda n: log.write_text("fio version 2 iolog\nf add\nf open\n" + "f read 0 %d\n" % [4096, 65536][n] + "f close\n"),
        lambda: mean(job="[a]\nread_iolog=t.log\n"),
    )
    topology = tmp_path / "topology.toml"
    topology.write_text('[[drive]]\nname = "nvme0n1"\ndevice = "mine.toml"\n')
    # Whatever the name of a profile ends in.
    change(
        lambda n: (tmp_path / "mine").write_text(PROFILE % ["3us", "30us"][n]),
        lambda: wl.sweep([{}], job=job, device="mine", executor="inline", progress=False, out="kept3")[0]["read_mean_ns"],
    )
    change(
        lambda n: (tmp_path / "mine.toml").write_text(PROFILE % ["3us", "30us"][n]),
        lambda: wl.sweep(
            [{}], job=job, topology="topology.toml", executor="inline", progress=False, out="kept2"
        )[0]["read_mean_ns"],
    )


def test_an_axis_that_changes_nothing_is_refused():
    job = "[a]\nrw=randread\nnumber_ios=100\niodepth=4\n"
    with pytest.raises(wl.InputError, match=r"no job has \$\{iodepth\}"):
        wl.sweep({"iodepth": [1, 4]}, job=job, device="z-ssd-small", progress=False)
    with pytest.raises(wl.InputError, match=r"no job has \$\{D\}"):
        wl.run(job, variables={"D": 4}, device="z-ssd-small", progress=False)
    # One of a section that is left out is one of the job's.
    two = "[a]\nrw=randread\nnumber_ios=${D}\n[b]\nrw=randread\nbs=${B}\n"
    one = wl.run(two, sections=["a"], variables={"D": 4, "B": "8k"}, device="z-ssd-small", progress=False)
    assert one.read.ios == 4


def test_columns_of_a_row_are_its_own(tmp_path):
    common = {"rw": "randread", "number_ios": 100, "device": "z-ssd-small", "executor": "inline", "progress": False}
    for name in ("index", "error", "read_iops"):
        with pytest.raises(wl.InputError, match=f"{name} is a column of each row"):
            wl.sweep({name: [1]}, **common)
    table = wl.sweep({"iodepth": [1]}, measure=lambda result: {"iodepth": 9}, **common)
    assert "iodepth is a column of each row already" in table.failures[0]
    table = wl.sweep({"iodepth": [1]}, measure=lambda result: {"wall_s": 9}, **common)
    assert "wall_s is a column of each row already" in table.failures[0]
    # What comes from a file has the kinds that it had.
    points = {"bs": [4096, "8k"], "direct": [True, 0]}
    first = wl.sweep(points, out=tmp_path / "kept", **common)
    again = wl.sweep(points, out=tmp_path / "kept", **common)
    assert list(map(list, map(dict.items, again))) == list(map(list, map(dict.items, first)))


def test_floats_that_are_whole_are_whole_numbers():
    result = wl.run(rw="randread", iodepth=8.0, number_ios=1e2, rate_iops=1e5, device="z-ssd-small", progress=False)
    assert result.read.ios == 100


def test_rows_have_their_warnings():
    table = wl.sweep(
        {"rw": ["randwrite"]}, bs="4k", number_ios=20000, norandommap=True, device="cnex-small", precondition="fill",
        executor="inline", progress=False,
    )
    assert "no garbage was collected" in table[0]["warned"] and table[0]["warnings"] >= 1
    assert "1 with warnings" in repr(table)
