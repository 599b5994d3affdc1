"""Runs: the same as the command line's, errors with place and remedy, interrupts."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import wordline as wl
from conftest import MIXED, ROOT
from wordline.errors import in_python


# One run in the words of both.
SAME = [
    (
        {"rw": "randread", "bs": "4k", "iodepth": 8, "number_ios": 2000, "device": "z-ssd-small"},
        "run --name=job --rw=randread --bs=4k --iodepth=8 --number_ios=2000 --device z-ssd-small",
    ),
    (
        {
            "rw": "randwrite",
            "bs": "4k",
            "norandommap": True,
            "number_ios": 2000,
            "device": wl.Device("cnex-small", ftl="rail", set={"nand.t_read": "40us"}),
            "set": {"ftl.gc_start_lines": 9},
            "precondition": "steady",
            "seed": 7,
            "stack": "linux-io_uring",
            "limit": "20ms",
        },
        "run --name=job --rw=randwrite --bs=4k --norandommap=1 --number_ios=2000 --device cnex-small --ftl rail "
        "--set nand.t_read=40us --set ftl.gc_start_lines=9 --precondition steady --seed 7 --stack linux-io_uring --limit 20ms",
    ),
    (
        {"app": "web-server", "device": "z-ssd-small", "limit": "5ms", "precondition": "none"},
        "run --app web-server --device z-ssd-small --limit 5ms --precondition none",
    ),
    (
        {"rw": "randread", "number_ios": 500, "device": "z-ssd-small", "drives": 2, "array": "raid0"},
        "run --name=job --rw=randread --number_ios=500 --device z-ssd-small --drives 2 --array raid0",
    ),
]


@pytest.mark.parametrize("arguments, words", SAME)
def test_the_command_line_gives_the_same_bytes(arguments, words, shell):
    # The command line keeps the slowest I/Os when it is asked to.
    result = wl.run(progress=False, slowest=0, **arguments)
    for format, text in [
        ("json", result.json()),
        ("json+", result.json(plus=True)),
        ("normal", result.report()),
        ("terse", result.terse()),
    ]:
        assert shell(*words.split(), "--output-format", format) == text


def test_files_text_and_replays_give_the_same_bytes(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.fio").write_text(MIXED)
    flags = "--device cnex-small --output-format json+ --section readers".split()
    result = wl.run("a.fio", device="cnex-small", sections=["readers"], progress=False, slowest=0)
    assert shell("run", "a.fio", *flags) == result.json(plus=True)
    # Text at hand is what the command line calls its standard input.
    text = wl.run(MIXED, device="cnex-small", sections=["readers"], progress=False, slowest=0)
    assert text.json() == result.json().replace("a.fio", "-")
    jobs = [
        wl.Job("readers", rw="randread", bs="4k", iodepth=8, number_ios=3000),
        wl.Job("writer", rw="randwrite", bs="4k", iodepth=4, number_ios=3000),
    ]
    both = wl.run(jobs, device="cnex-small", progress=False)
    assert both.read.ios == both.write.ios == 3000
    trace = str(ROOT / "examples/traces/msr.csv")
    replayed = wl.replay(trace, device="z-ssd-small", wrap=True, closed_loop=4, progress=False, slowest=0)
    words = ["replay", trace, "--device", "z-ssd-small", "--wrap", "--closed-loop", "4"]
    assert shell(*words, "--output-format", "json+") == replayed.json(plus=True)


def test_a_shared_drive_changes_nothing():
    arguments = {
        "device": "cnex-small",
        "precondition": "steady",
        "rw": "randwrite",
        "number_ios": 2000,
        "progress": False,
    }
    alone = wl.run(**arguments)
    first, second = (wl.run(share=True, **arguments) for _ in range(2))
    assert alone.json(plus=True) == first.json(plus=True) == second.json(plus=True)
    # Another drive, and this one again.
    wl.run(share=True, **{**arguments, "seed": 2})
    assert wl.run(share=True, **arguments).json(plus=True) == alone.json(plus=True)


def test_a_kept_state_is_taken_up(tmp_path):
    state = tmp_path / "drive.state"
    arguments = {"device": "cnex-small", "rw": "randread", "number_ios": 500, "progress": False}
    first = wl.run(precondition="random", save_state=state, **arguments)
    again = wl.run(load_state=state, **arguments)
    assert str(state) in again.prepared
    assert again.read.latency.percentiles_ns() == first.read.latency.percentiles_ns()


@pytest.mark.parametrize(
    "arguments, parts",
    [
        ({}, ["no job", "wordline.run(rw="]),
        ({"job": "[a]\nrw=randread\niodpeth=3\n"}, ["-:3", "iodpeth", "iodepth"]),
        ({"job": "missing.fio"}, ["missing.fio", "check the path"]),
        ({"rw": "randread", "device": "z-sdd-small"}, ["z-sdd-small", "did you mean 'z-ssd-small'"]),
        ({"rw": "randread", "set": {"nand.t_raed": "3us"}}, ["nand.t_raed", "did you mean 't_read'"]),
        ({"rw": "randread", "precondition": "old"}, ["precondition", "'old'", "steady"]),
        ({"rw": "randread", "scale": "7"}, ["scale", "1/16"]),
        ({"rw": "randread", "align": "up"}, ["align", "error or round"]),
        ({"rw": "randread", "limit": "soon"}, ["limit", "soon"]),
        ({"rw": "randread", "drives": 0}, ["drives", "1 to 255"]),
        ({"rw": "randread", "array": "raid9"}, ["raid9", "raid0 or raid5"]),
        ({"rw": "randread", "system": "x"}, ["system", "vanilla"]),
        ({"rw": ["randread"]}, ["job option rw", "list", "string"]),
        ({"job": "[a]\nrw=randread\n", "iodepth": 3}, ["iodepth", "variables"]),
        ({"rw": "randread", "bs": 512, "device": "cnex-small"}, ["512", "4096"]),
        ({"rw": "randread", "load_state": "none.state"}, ["none.state", "check the path"]),
        ({"rw": "randread", "save_state": "/nowhere/a"}, ["/nowhere/a", "check the path"]),
        ({"job": "-"}, ["standard input"]),
        ({"rw": "randread", "seed": -1}, ["seed: -1 must be a whole number, 0 to 2**64 - 1"]),
        ({"rw": "randread", "seed": "a"}, ["seed: 'a' must be a whole number"]),
        ({"rw": "randread", "seed": 1.5}, ["seed: 1.5 must be a whole number"]),
        ({"rw": "randread", "seed": 2**64}, ["seed: 18446744073709551616 must be"]),
        ({"rw": "randread", "limit": 5}, ["limit: 5 is an int", "limit='5s'"]),
        ({"rw": "randread", "slowest": "a"}, ["slowest: 'a' must be a whole number"]),
        ({"rw": "randread", "slowest": True}, ["slowest: True must be a whole number"]),
        ({"rw": "randread", "timeline": -1}, ["timeline: -1 must be a whole number"]),
        ({"rw": "randread", "drives": "2"}, ["drives: '2' must be a whole number, 1 to 255"]),
        ({"rw": "randread", "device": 5}, ["device: 5 is an int", "a list of names"]),
        ({"rw": "randread", "ftl": 3}, ["ftl: 3 is an int", "ftl='rail'"]),
        ({"rw": "randread", "scale": 16}, ["scale: 16 is an int", "scale='1/16'"]),
        ({"rw": "randread", "share": "yes"}, ["share: 'yes' is a str", "True or False"]),
        ({"rw": "randread", "set": "a=b"}, ["set: 'a=b' is a str", "set={"]),
        ({"rw": "randread", "set": {"nand.t_read": None}}, ["set nand.t_read: None is a NoneType"]),
        ({"rw": "randread", "variables": "x"}, ["variables: 'x' is a str", "variables={"]),
        ({"rw": "randread", "with_": "pagerank"}, ["with_: 'pagerank' is a str", "with_=['pagerank']"]),
        ({"rw": "randread", "sections": "a"}, ["sections: 'a' is a str", "sections=["]),
        ({"rw": "randread", "load_state": 3}, ["load_state: 3 is an int", "path"]),
        ({"job": 5}, ["job: 5 is an int", "path of a job file"]),
        ({"job": ["a.fio"]}, ["job: ['a.fio'] is a list", "path of a job file"]),
        ({"rw": "randread", "progress": "log"}, ["progress: 'log' is a str", "True, False"]),
        ({"job": "[a]\nrw=${D}\n", "variables": {"D": None}}, ["variables D: None is a NoneType"]),
        ({"job": "[a]\nrw=${D}\n", "variables": {"D": ["read"]}}, ["variables D: ['read'] is a list"]),
    ],
)
def test_bad_input_is_named_with_its_place_and_a_remedy(arguments, parts):
    with pytest.raises(wl.InputError) as error:
        wl.run(**{"progress": False, "device": "z-ssd-small", **arguments})
    for part in parts:
        assert part in str(error.value)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"iodpeth": 3}, "iodpeth: no argument of wordline.run and no option of fio's, did you mean 'iodepth'?"),
        (
            {"precondtion": "fill"},
            "precondtion: no argument of wordline.run and no option of fio's (did you mean precondition?)",
        ),
        ({"bs": "4q"}, "bs: '4q' has an unknown unit 'q': write for example 4096, 4k or 1g"),
        ({"sections": ["none"]}, "job: no job section is named 'none'"),
    ],
)
def test_the_place_of_a_wrong_option_is_its_keyword(arguments, text):
    with pytest.raises(wl.InputError) as error:
        wl.run(rw="randread", number_ios=1, device="z-ssd-small", progress=False, **arguments)
    assert str(error.value) == text


@pytest.mark.parametrize(
    "said, here",
    [
        # A word behind an option is its value where the option takes it, and else one of the sentence.
        ("A later --limit or a shorter ramp_time shows them", "A later limit or a shorter ramp_time shows them"),
        (
            "direct=0: without --fs every I/O goes to the drive; --fs bdev puts a cache in front",
            "direct=0: without fs every I/O goes to the drive; fs='bdev' puts a cache in front",
        ),
        ("--drives 2 is so many of one device, and --device names a,b", "drives=2 is so many of one device, and device names a,b"),
        ("take --ftl fssd, or --device fssd-430g.", "take ftl='fssd', or device='fssd-430g'."),
        ("use --stack linux-libaio or spdk (--scale 1/16)", "use stack='linux-libaio' or spdk (scale='1/16')"),
        ("name it with --format msr (MSR Cambridge: a,b)", "name it with format='msr' (MSR Cambridge: a,b)"),
        ("all at its beginning (--closed-loop N fits better)", "all at its beginning (closed_loop=N fits better)"),
        ("leave them out (wordline replay --skip-beyond), or", "leave them out (wordline.replay with skip_beyond=True), or"),
        ("--no-integrity keeps none, {} (--no-cache ages it anew)", "integrity=False keeps none, {} (cache=False ages it anew)"),
        ("raise --host-memory (ftl.fssd.host_memory)", "raise ftl.fssd.host_memory"),
        ("leave out --set nand.blocks=...; see --timeline-limit", "leave out set={'nand.blocks': '...'}; see timeline"),
        ("--set nand.t_read=3 parsecs: unknown", "set={'nand.t_read': '3 parsecs'}: unknown"),
        # Of other programs.
        ("unpack it with zstd -d --long=31; fio --cmdhelp=all lists them", None),
        # What the user named.
        ("cannot read the trace old--run.csv: check the path", None),
        ("/a--limit/b--fs.toml:3:1: unknown key", None),
        ("nothing was measured of v1--scale-2: later", None),
        ("job 'a --fs ext4': the drive's own 'it's --wrap' and \"--limit 5s\"", None),
    ],
)
def test_messages_have_the_words_of_python_and_names_stay(said, here):
    assert in_python(said) == (said if here is None else here)


@pytest.mark.parametrize("option", ["align", "array", "precondition", "system"])
def test_values_of_options_are_known(option):
    with pytest.raises(wl.InputError) as error:
        wl.run(rw="read", device="z-ssd-small", progress=False, drives=3, **{option: "x"})
    known = re.split(r", | or ", str(error.value).partition(": use ")[2])
    assert known and all(in_python(f"use --{option} {name} with it") == f"use {option}='{name}' with it" for name in known)


def test_names_of_the_users_own_stay_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (lambda name: wl.replay(name, progress=False), lambda name: wl.run(rw="read", device=name, progress=False)):
        for name in ("my--limit.toml", "my --limit 3.toml", "--wrap.toml"):
            with pytest.raises(wl.InputError, match=re.escape(f" {name}: ")):
                call(name)
    for name in ("v1--scale-2", "v1 --scale 2"):
        result = wl.run(rw="randread", name=name, number_ios=10, ramp_time="10s", device="z-ssd-small", progress=False)
        assert f"nothing was measured of {name}: " in result.warnings[0] and "a later limit or" in result.warnings[0]


def test_numbers_of_numpy_are_numbers():
    theirs = {"number_ios": np.int64(50), "seed": np.uint32(3), "set": {"ftl.over_provisioning": np.float64(20.0)}}
    ours = {"number_ios": 50, "seed": 3, "set": {"ftl.over_provisioning": 20.0}}
    common = {"rw": "randread", "device": "z-ssd-small", "progress": False}
    assert wl.run(**theirs, **common).json() == wl.run(**ours, **common).json()
    sweep = wl.sweep({"iodepth": np.arange(1, 3)}, executor="inline", number_ios=20, **common)
    assert [row["iodepth"] for row in sweep] == [1, 2] and "2 of 2 points" in repr(sweep)
    assert repr(wl.sweep([{}], executor="inline", number_ios=20, **common)) == "Sweep(1 of 1 point)"


def test_bad_replays_are_named(tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("1,2,3\nx\n")
    for arguments, part in [
        ({"trace": bad}, "bad.csv"),
        ({"trace": []}, "no file"),
        ({"trace": bad, "closed_loop": 0}, "closed_loop"),
        ({"trace": bad, "closed_loop": 1, "time_scale": 2}, "time_scale"),
        ({"trace": bad, "rwmixread": 101}, "rwmixread"),
        ({"trace": bad, "format": "mrs"}, "msr"),
        ({"trace": 3}, "trace: 3 is an int"),
        ({"trace": bad, "bs": 4096}, "bs='4k'"),
        ({"trace": bad, "wrap": 1}, "wrap: 1 is an int"),
        ({"trace": bad, "wrap": True, "skip_beyond": True}, "skip_beyond: with wrap"),
        ({"trace": bad, "time_scale": [2]}, "time_scale"),
    ]:
        with pytest.raises(wl.InputError, match=part):
            wl.replay(device="z-ssd-small", progress=False, **arguments)


def test_a_failed_run_is_an_error_with_its_result():
    with pytest.raises(wl.RunError) as error:
        wl.run(
            rw="randread",
            number_ios=2000,
            max_latency="1us",
            device="z-ssd-small",
            progress=False,
        )
    assert "job 'job' ended early: a read took" in str(error.value)
    assert error.value.result.ended == "failed"


def test_values_of_variables_are_those_of_options():
    job = "[a]\nrw=randread\nnumber_ios=5\nnorandommap=${D}\n"
    for value in (True, np.bool_(False), 1):
        result = wl.run(job, variables={"D": value}, device="z-ssd-small", progress=False)
        assert dict(result["a"].about["options"])["norandommap"] == str(int(value))


def test_values_of_variables_come_first(monkeypatch):
    monkeypatch.setenv("DEPTH", "2")
    job = "[a]\nrw=randread\niodepth=${DEPTH}\nnumber_ios=100\n"
    for variables, depth in [({}, 2), ({"DEPTH": 16}, 16)]:
        result = wl.run(job, variables=variables, device="z-ssd-small", progress=False)
        assert result["a"].about["iodepth"] == depth


LONG = {"rw": "randread", "number_ios": 50_000_000, "device": "z-ssd-small", "progress": False}


def test_an_interrupt_ends_a_run_with_its_result():
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    # By time: once over the drive is soon done on a fast machine.
    result = wl.run(**{**LONG, "number_ios": 2**40, "time_based": True, "runtime": "10h"})
    assert result.interrupted and result.ended == "interrupted"
    assert 0 < result.read.ios < 2**40
    assert "interrupted" in result.failure


def test_an_interrupt_is_no_failure_of_a_run_of_which_a_job_has_failed():
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    job = "[global]\nrw=randread\n[bad]\nmax_latency=1us\n[long]\ntime_based\nruntime=10h\n"
    result = wl.run(job, device="z-ssd-small", progress=False)
    assert result.interrupted and result.ended == "interrupted"
    assert "job 'bad' ended early" in result.failure
    assert result.warnings[0].startswith("before the run was stopped a part of it had failed: job 'bad'")


def test_a_run_lets_other_threads_go_on():
    ticks = []

    def tick():
        while len(ticks) < 200:
            ticks.append(time.monotonic())
            time.sleep(0.002)

    thread = threading.Thread(target=tick)
    thread.start()
    result = wl.run(**{**LONG, "number_ios": 300_000})
    assert result.read.ios == 300_000
    thread.join()
    # A run that kept Python to itself would leave a gap of its own length.
    assert np.median(np.diff(ticks)) < 0.05


def test_progress_is_told():
    seen = []

    class Seen:
        def __call__(self, phase, part, now_ns, ios):
            seen.append((phase, part, now_ns, ios))

        def close(self):
            seen.append(None)

    wl.run(**{**LONG, "number_ios": 400_000, "progress": Seen()})
    assert seen[-1] is None
    parts = [one[1] for one in seen[:-1] if one[1] is not None]
    assert parts and parts == sorted(parts) and 0 < parts[-1] <= 1


def test_progress_asked_for_is_told_in_any_thread():
    seen = []

    class Seen:
        def __call__(self, *told):
            seen.append(told)

        def close(self):
            seen.append(None)

    thread = threading.Thread(target=lambda: wl.run(**{**LONG, "number_ios": 400_000, "progress": Seen()}))
    thread.start()
    thread.join()
    assert len(seen) > 1 and seen[-1] is None


def test_a_terminal_sees_progress_and_ctrl_c():
    """A script on a terminal of its own: a bar is drawn, Ctrl-C ends the run, and the script goes on."""
    script = textwrap.dedent(
        """
        import wordline as wl
        r = wl.run(rw="randread", number_ios=50_000_000, device="z-ssd-small")
        print("after", r.interrupted, r.read.ios > 0)
        """
    )
    import pty

    main, other = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=other, stdout=subprocess.PIPE, stderr=other
    )
    os.close(other)
    drawn = b""
    while b"simulated" not in drawn:
        drawn += os.read(main, 4096)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=20)
    os.close(main)
    assert out == b"after True True\n"
    assert b"I/Os" in drawn


def test_devices_tell_what_they_are(tmp_path):
    assert "cnex-westlake" in wl.Device.names()
    device = wl.Device("cnex-small", set={"nand.t_read": "55us"})
    assert device.settings["nand.t_read"].strip('"') == "55us"
    assert "capacity" in device.check()
    assert "[nand]" in device.profile
    assert device.with_(set={"ftl.over_provisioning": 20}).set == {
        "nand.t_read": "55us",
        "ftl.over_provisioning": 20,
    }
    (path := tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(wl.InputError, match="bad.toml: is not a text file"):
        _ = wl.Device(path).profile
    with pytest.raises(wl.InputError, match="nand.t_read"):
        device.with_(set={"nand.t_read": "fast"}).check()
