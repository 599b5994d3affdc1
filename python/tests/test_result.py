"""Results: numbers equal those of the JSON, files are whole, tables have units."""

import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import wordline as wl
from conftest import ROOT
from wordline import _html
from wordline.distribution import Distribution, midpoints_ns
from wordline.result import METRICS


def test_numbers_are_those_of_the_json(mixed):
    data = json.loads(mixed.json(plus=True))
    for job in data["jobs"]:
        thread = mixed[job["jobname"]]
        for name in ("read", "write"):
            there, one = job[name], thread.direction(name)
            if there["total_ios"] == 0:
                assert one is None
                continue
            assert one.ios == there["total_ios"] and one.bytes == there["io_bytes"]
            assert one.iops == pytest.approx(there["iops"])
            for latency, key in [
                (one.latency, "lat_ns"),
                (one.completion_latency, "clat_ns"),
                (one.submission_latency, "slat_ns"),
            ]:
                assert latency.count == there[key]["N"]
                assert (latency.min_ns, latency.max_ns) == (there[key]["min"], there[key]["max"])
                assert latency.mean_ns == pytest.approx(there[key]["mean"], abs=1e-5)
                for percent, value in there[key].get("percentile", {}).items():
                    assert latency.percentile_ns(float(percent)) == value
                bins = there[key].get("bins")
                if bins is not None:
                    there_counts = {int(at): n for at, n in bins.items()}
                    here = latency.counts > 0
                    assert dict(zip(latency.values_ns[here], latency.counts[here])) == there_counts
    machine = data["wordline"]["machine"]
    assert mixed.machine["served"] == machine["served"] == 6000
    assert mixed.simulated_ns == machine["simulated_ns"]
    assert mixed.provenance == data["wordline"]["provenance"]


def test_a_distribution_of_all_is_the_sum(mixed):
    both = mixed["readers"].read.latency.merge(mixed["writer"].write.latency)
    assert both.count == 6000
    counts = mixed.read.latency.counts + mixed.write.latency.counts
    assert (both.counts == counts).all()
    values = np.repeat(both.values_ns.astype(float), both.counts)
    assert both.stddev_ns == pytest.approx(values.std(ddof=1), rel=0.02)
    latency, share = mixed.read.latency.cdf()
    assert (np.diff(latency.astype(float)) > 0).all() and share[-1] == pytest.approx(1)
    assert mixed.read.latency.share_above(0) == 1
    assert mixed.read.latency.share_above(mixed.read.latency.percentile_ns(99)) <= 0.01


def test_where_the_time_went_sums_to_the_latency(mixed):
    for direction in ("read", "write"):
        parts = mixed.breakdown(direction)
        # Of 3,000 less than one lies beyond 99.99 %.
        assert parts.rows == ("mean", "p50", "p99", "p99.9")
        assert parts.by_layer_ns.sum(axis=1) == pytest.approx(parts.latency_ns, abs=1)
        assert len(parts.layers) == parts.by_layer_ns.shape[1]
    with pytest.raises(wl.InputError, match="trim"):
        mixed.breakdown("trim")


def test_what_was_in_the_way_is_told_as_the_text_report_tells_it(mixed):
    """The shares of the text, and the nanoseconds of the JSON."""
    text = mixed.report()
    table = text[text.index("  read (usec)") :]
    table = table[: table.index("\n\n")].splitlines()
    parts = mixed.breakdown("read")
    shares = parts.delay_shares()
    told = [parts.delays[d] for d in parts.told_delays()]
    by_text = [line for line in table if line.startswith("    ")]
    assert by_text and [why for _, why in told] == [line.split("  ")[2].strip() for line in by_text]
    for (layer, why), line in zip(told, by_text):
        column = parts.delays.index((layer, why))
        cells = line.replace(why, "").split()
        here = [f"{share:.1f}%" if share > 0 else "-" for share in shares[:, column]]
        assert cells[: len(here)] == here
        assert max(shares[:, column]) >= 5
    layers = json.loads(mixed.json())["wordline"]["machine"]["layers"]
    there = next(of for of in layers if of["ddir"] == "read")
    for row, split in enumerate([there["mean_by_delay_ns"], *(at["by_delay_ns"] for at in there["at"])]):
        flat = {(layer, why): ns for layer, of in split.items() for why, ns in of.items()}
        here = {delay: ns for delay, ns in zip(parts.delays, parts.by_delay_ns[row]) if ns > 0}
        assert here == pytest.approx(flat)
    # In each layer, what was in the way is a part.
    for i, layer in enumerate(parts.layers):
        of = [d for d, delay in enumerate(parts.delays) if delay[0] == layer]
        assert (parts.by_delay_ns[:, of].sum(axis=1) <= parts.by_layer_ns[:, i] + 1).all()


def test_delays_are_columns_behind_their_layer(mixed):
    parts = mixed.breakdown("read")
    columns = parts.series().columns
    at = columns.index("LUN_wait_ns")
    assert columns[at + 1].startswith("LUN_wait_behind_a_")
    layers = parts.series(float("inf"))
    assert not [name for name in layers.columns if "behind" in name]
    total = sum(layers[name] for name in layers.columns[2:])
    assert total == pytest.approx(parts.latency_ns, abs=1)
    assert set(layers.columns) < set(columns) < set(parts.series(0).columns)
    assert list(parts.to_pandas(0).columns) == parts.series(0).columns == parts.to_polars(0).columns
    for wrong in (-1, float("nan"), None, "x", True):
        with pytest.raises(wl.InputError, match="at_least"):
            parts.series(wrong)
    line = next(line for line in repr(parts).splitlines() if line.startswith("  p99:"))
    assert "LUN wait" in line and "(behind a " in line and " %" in line
    page = parts._repr_html_()
    assert "<b>LUN wait</b>" in page and "&emsp;behind a " in page and page.count("<th") == 5
    # Nothing is in the way of one I/O at a time.
    alone = wl.run(rw="randread", number_ios=50, device="z-ssd-small", progress=False).breakdown()
    assert "(" not in repr(alone) and alone.told_delays() == []
    assert alone.series().columns == alone.series(float("inf")).columns


def test_intervals_have_every_io(mixed):
    for direction, of in [("read", mixed.read), ("write", mixed.write)]:
        matrix = mixed.latency_counts(direction)
        assert (matrix.sum(axis=0) == of.latency.counts).all()
        series = mixed.series(direction)
        assert series["ios"].sum() == of.ios
        assert series.columns[:4] == ["begin_s", "end_s", "ios", "iops"]
        assert "p99_9_ns" in series
    programs = mixed.series("programs")
    amplification = mixed.machine["write_amplification"]
    assert programs["user_sectors"].sum() == amplification["user_sectors"]
    assert mixed.series("host")["end_s"][-1] == pytest.approx(mixed.simulated_ns / 1e9)
    assert mixed.series("energy").rows > 0
    with pytest.raises(wl.InputError, match="programs"):
        mixed.series("reads")
    plain = wl.run(rw="randread", number_ios=10, device="z-ssd-small", over_time=False, progress=False)
    with pytest.raises(wl.InputError, match="over_time=True"):
        plain.series("read")


def test_arrays_are_views_that_nobody_can_write(mixed):
    counts = mixed["readers"].read.latency.counts
    assert counts is mixed["readers"].read.latency.counts
    assert np.shares_memory(mixed.latency_counts("read"), mixed.latency_counts("read")[3:])
    with pytest.raises(ValueError):
        counts[0] = 1
    with pytest.raises(ValueError):
        mixed.latency_counts("read")[0, 0] = 1


def test_the_slowest_have_their_steps(mixed):
    lives = mixed.slowest
    assert [life.direction for life in lives] == ["read"] * 20 + ["write"] * 20
    for of_direction in (lives[:20], lives[20:]):
        latencies = [life.latency_ns for life in of_direction]
        assert latencies == sorted(latencies, reverse=True)
    for life in lives:
        assert sum(life.spent_ns.values()) == life.latency_ns
        assert life.thread in ("readers", "writer") and life.steps
    assert mixed.read.latency.max_ns == lives[0].latency_ns and mixed.write.latency.max_ns == lives[20].latency_ns
    shown = lives[0]._repr_html_()
    assert shown.count("<tr>") == len(lives[0].steps) and lives[0].steps[-1]["why"] in shown


def test_tables_have_units_in_their_names(mixed):
    frame = mixed.to_polars()
    assert frame["direction"].to_list() == ["read", "write"]
    assert frame["p99_9_ns"][0] == mixed.read.latency.percentile_or_none(99.9)
    assert mixed.to_pandas("breakdown").shape[0] == 4
    assert mixed.to_polars("read").height == mixed.series("read").rows
    assert mixed.metrics()["read_p99_9_ns"] == mixed.read.latency.percentile_or_none(99.9)
    assert set(mixed.metrics()) - {"ended"} < set(METRICS)
    plain = {"percentile", "direction", "ios", "iops", "at", "looks", "interrupts"}
    plain |= {"context_switches", "loads", "stores"}
    for table in ("summary", "percentiles", "breakdown", "read", "programs", "host", "energy"):
        for column in mixed._table(table).columns:
            assert column in plain or column.endswith(("_ns", "_s", "_j", "_sectors")), column


def test_a_percentile_has_an_io_beyond_it(mixed):
    # 3,000 reads: three beyond 99.9 %, none beyond 99.99 %.
    assert mixed.metrics()["read_p99_99_ns"] is None and np.isnan(mixed.summary()["p99_99_ns"]).all()
    assert mixed.to_polars("percentiles")["percentile"].max() == 99.95
    assert mixed.read.latency.percentile_or_none(99.9) == pytest.approx(mixed.read.latency.percentile_ns(99.9), rel=0.01)
    assert mixed.read.latency.percentile_or_none(99.99) is None
    page = mixed._repr_html_()
    assert page.count("<td style='text-align:right'>–</td>") == 2


def test_a_table_has_the_percentiles_of_the_page(mixed):
    told = [d for d in json.loads(mixed.json(plus=True))["wordline"]["latency"] if d["of"] == "all"]
    assert [d["ddir"] for d in told] == ["read", "write"]
    for d in told:
        for percent in (50, 99, 99.9):
            name = f"{d['ddir']}_p{percent:g}_ns".replace(".", "_")
            assert mixed.metrics()[name] == d["percentile"][f"{percent:.6f}"]


def test_a_percentile_of_a_table_is_within_the_fastest_and_the_slowest():
    counts = np.zeros(len(Distribution(np.zeros(1), {}).values_ns), dtype=np.int64)
    bucket = int(np.searchsorted(midpoints_ns(), 9_362_036, side="right"))
    counts[bucket] = 1000
    exact = {"count": 1000, "min_ns": 9_362_036, "max_ns": 9_362_036, "mean_ns": 9_362_036.0, "stddev_ns": 0.0}
    same = Distribution(counts, exact)
    assert same.percentile_ns(99) == 9_371_648
    assert same.percentile_or_none(99) == 9_362_036


def test_folded_data_are_a_part_of_write_amplification():
    settings = {
        "nand.blocks": 64,
        "nand.pages_per_block": 8,
        "ftl.over_provisioning": 40,
        "ftl.firmware.slc_dynamic": 60,
        "ftl.firmware.idle_after": "2ms",
        "cache": "none",
        "nand.slc.t_read": "20us",
        "nand.slc.t_program": "200us",
        "nand.slc.t_erase": "2ms",
        "nand.slc.endurance": 30000,
        "nand.slc.read_mw": 40,
        "nand.slc.program_mw": 50,
        "nand.slc.erase_mw": 30,
    }
    result = wl.run(
        rw="randwrite",
        bs="4k",
        iodepth=8,
        ioengine="libaio",
        number_ios=4000,
        thinktime="20ms",
        thinktime_blocks=1000,
        device="intel-750-small",
        set=settings,
        precondition="fill",
        progress=False,
    )
    parts = result.write_amplification_by_cause
    assert parts["folded"] > 0
    assert sum(parts.values()) == pytest.approx(result.write_amplification)
    assert result.series("programs")["folded_sectors"].sum() > 0


def test_write_amplification_is_what_flash_programs():
    result = wl.run(
        rw="randwrite", bs="4k", number_ios=20_000, device="cnex-small", ftl="rail", precondition="fill", progress=False
    )
    counted = result.machine["write_amplification"]
    programmed = sum(counted[f"{cause}_sectors"] for cause in ("user", "gc", "padding", "metadata", "parity"))
    assert counted["parity_sectors"] > 0
    over_time = result.series("programs")
    assert over_time["parity_sectors"].sum() == counted["parity_sectors"]
    assert over_time["folded_sectors"].sum() == 0
    assert result.write_amplification == pytest.approx(programmed / counted["user_sectors"])
    assert result.metrics()["write_amplification"] == result.write_amplification
    parts = result.write_amplification_by_cause
    assert sum(parts.values()) == pytest.approx(result.write_amplification) and parts["user"] == 1
    shown = result._repr_html_()
    assert f"write amplification {result.write_amplification:.2f} (user 1.00" in shown
    assert f"parity {parts['parity']:.2f}" in shown


def test_remedies_are_in_the_words_of_python():
    result = wl.run(rw="randread", number_ios=50, device="cnex-small", precondition="none", progress=False)
    told = " ".join([*result.warnings, *result.notes])
    assert "precondition=" in told and "--" not in told, told


def test_logs_that_jobs_ask_for(tmp_path):
    job = "[a]\nrw=randread\nnumber_ios=300\nwrite_lat_log=here\nwrite_hist_log=here\nlog_hist_msec=1\n"
    result = wl.run(job, device="z-ssd-small", progress=False)
    log = result.logs["here_lat.1.log"]
    assert log.columns == ["at_ns", "value", "direction", "size_bytes", "offset_bytes"]
    assert log.rows == 300 and (log["size_bytes"] == 4096).all()
    names = result.write_logs(tmp_path)
    lines = (tmp_path / "here_lat.1.log").read_text().splitlines()
    assert len(lines) == 300 and str(tmp_path / "here_clat.1.log") in names
    assert int(lines[0].split(",")[1]) == log["value"][0]
    assert result.logs["here_clat_hist.1.log"]["counts"].shape[1] == 1856


def test_threads_that_share_a_log_are_all_in_it():
    def logs(per_job):
        asked = f"write_lat_log=here\nwrite_hist_log=here\nlog_hist_msec=1\nper_job_logs={per_job}\n"
        job = f"[a]\nnumjobs=2\nrw=randread\nnumber_ios=300\n{asked}"
        return wl.run(job, device="z-ssd-small", progress=False).logs

    shared, apart = logs(0), logs(1)
    assert shared["here_lat.log"].rows == 600
    both = [apart[f"here_clat_hist.{n}.log"]["counts"] for n in (1, 2)]
    assert (shared["here_clat_hist.log"]["counts"] == np.concatenate(both)).all() and all(len(rows) for rows in both)


def test_a_course_has_no_rate_where_nothing_is_counted():
    reader = "rw=randread\ntime_based\nruntime=60ms\n"
    job = f"[a]\n{reader}[b]\nstonewall\nramp_time=60ms\n{reader}"
    series = wl.run(job, device="z-ssd-small", precondition="fill", progress=False).series("read")
    begin, end = series["begin_s"], series["end_s"]
    ramp = (begin > 0.061) & (end < 0.119)
    assert ramp.any() and np.isnan(series["iops"][ramp]).all()
    counted = series["iops"][(end < 0.059) | (begin > 0.121) & (end < 0.179)]
    assert len(counted) > 2 and counted.min() > 0.8 * counted.max(), series["iops"]


def test_threads_without_statistics_are_in_no_sum():
    job = "[a]\nrw=randread\nnumber_ios=100\n[b]\nstats=0\nrw=randread\nbs=64k\nnumber_ios=50\n"
    result = wl.run(job, device="z-ssd-small", progress=False)
    assert (result.read.ios, result.direction("read", job="b").ios) == (100, 50)
    assert result.latency("read").count == 100 and any("stats=0" in note for note in result.notes)


def test_syncs_are_told_as_reads_and_writes_are():
    job = "[db]\nrw=write\nbs=4k\nsize=8m\nfdatasync=4\nnumber_ios=2000\ndirectory=/mnt\nfallocate=none\n"
    result = wl.run(job, device="z-ssd-small", fs="ext4", slowest=3, progress=False)
    assert result.sync.count == 499
    parts = result.breakdown("sync")
    assert parts.by_layer_ns[0].sum() == pytest.approx(result.sync.mean_ns) == parts.latency_ns[0]
    assert [life.direction for life in result.slowest] == ["write"] * 3 + ["datasync"] * 3
    assert result.slowest[3].latency_ns == result.sync.max_ns
    assert result.latency_counts("sync").sum() == 499 == result.series("sync")["ios"].sum()
    assert result.percentiles("sync")["latency_ns"][-1] <= result.sync.max_ns
    metrics = result.metrics()
    assert (metrics["syncs"], metrics["sync_mean_ns"]) == (499, result.sync.mean_ns)
    assert result.plot.cdf("sync") and result.plot.breakdown("sync") and result.plot.heatmap("sync")
    assert wl.run(rw="randread", number_ios=50, device="z-ssd-small", progress=False).sync is None


def test_a_timeline_is_written(tmp_path):
    result = wl.run(rw="randread", number_ios=50, device="z-ssd-small", timeline=1000, progress=False)
    result.write_timeline(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_a_saved_result_is_the_same(mixed, tmp_path):
    path = tmp_path / "a.wordline"
    mixed.save(path)
    for again in (wl.load(path), pickle.loads(pickle.dumps(mixed))):
        assert again.json(plus=True) == mixed.json(plus=True)
        assert again.report() == mixed.report() and again.terse() == mixed.terse()
        assert again.metrics() == mixed.metrics()
        assert (again.latency_counts("read") == mixed.latency_counts("read")).all()
        assert again._repr_html_() == mixed._repr_html_()
        assert [a.steps for a in again.slowest] == [b.steps for b in mixed.slowest]
    # A saved one can be saved again, to the same bytes.
    wl.load(path).save(tmp_path / "b.wordline")
    assert (tmp_path / "b.wordline").read_bytes() == path.read_bytes()
    with pytest.raises(wl.InputError, match="no timeline"):
        wl.load(path).write_timeline(tmp_path / "t.json")


def test_the_slowest_of_a_kept_result_are_in_its_report(mixed, tmp_path):
    mixed.save(tmp_path / "a.wordline")
    none = wl.run(rw="randread", number_ios=10, device="z-ssd-small", slowest=0, progress=False)
    for one in (mixed, none):
        one.save(tmp_path / "a.wordline")
        for again in (wl.load(tmp_path / "a.wordline"), pickle.loads(pickle.dumps(one))):
            for slowest in (0, 1, 7, 20, 1000):
                assert again.report(slowest) == one.report(slowest)
    # A file without them says so.
    rewritten(tmp_path / "a.wordline", lambda members: members.pop("slowest.txt"))
    assert wl.load(tmp_path / "a.wordline").report() == none.report()
    with pytest.raises(wl.InputError, match="a.wordline: .*Result.slowest"):
        wl.load(tmp_path / "a.wordline").report(1)
    for slowest in (-1, "a", 1.5, None):
        for one in (mixed, wl.load(tmp_path / "a.wordline")):
            with pytest.raises(wl.InputError, match="slowest: .* must be a whole number"):
                one.report(slowest)


def rewritten(path, change):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_files_that_are_no_results_are_refused(mixed, tmp_path):
    path = tmp_path / "a.wordline"
    mixed.save(path)
    whole = path.read_bytes()
    for damage in (b"", b"text", whole[: len(whole) // 2]):
        path.write_bytes(damage)
        with pytest.raises(wl.FormatError, match="a.wordline"):
            wl.load(path)
    path.write_text(mixed.json())
    with pytest.raises(wl.FormatError, match="a.wordline: JSON, .*wordline report.*Result.save"):
        wl.load(path)
    path.write_bytes(whole)

    def older(members):
        head = json.loads(members["format.json"])
        members["format.json"] = json.dumps({**head, "format_version": 0, "wordline": "0.0.9"}).encode()

    rewritten(path, older)
    with pytest.raises(wl.FormatError, match="0.0.9.*run it again"):
        wl.load(path)
    path.write_bytes(whole)
    rewritten(path, lambda members: members.pop("document.json"))
    with pytest.raises(wl.FormatError, match="document.json"):
        wl.load(path).metrics()
    with pytest.raises(FileNotFoundError):
        wl.load(tmp_path / "none")


def test_a_damaged_byte_is_no_result(mixed, tmp_path):
    path = tmp_path / "a.wordline"
    mixed.save(path)
    whole = path.read_bytes()
    for at in range(0, len(whole), len(whole) // 150):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            # A byte of a member's date or the like is no damage.
            assert wl.load(path).metrics() == mixed.metrics()
        except wl.FormatError as error:
            assert "a.wordline" in str(error)
    path.write_bytes(whole)
    rewritten(path, lambda members: members.update({"document.json": b"{"}))
    with pytest.raises(wl.FormatError, match="a.wordline: document.json in it is damaged"):
        wl.load(path).metrics()


def test_a_disk_without_room_leaves_nothing_new(mixed, tmp_path):
    """A limit on file size stands for a full disk: the system's error comes in the midst of the write."""
    path = tmp_path / "a.wordline"
    mixed.save(path)
    before = path.read_bytes()
    script = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
import wordline as wl
try:
    wl.load({str(path)!r}).save({str(path)!r})
except OSError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "a.wordline" in done.stdout and "name another place" in done.stdout, done
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.wordline"]


def test_a_notebook_shows_numbers_and_where_the_time_went(mixed):
    page = mixed._repr_html_()
    for part in ("cnex-small", "p99.9", "LUN wait", f"{mixed.read.iops:,.0f}"):
        assert part in page
    failed = "<script>"
    assert failed not in page
    assert "p99_ns" in mixed.summary()._repr_html_()
    assert "us" in repr(mixed) and "IOPS" in repr(mixed)


def test_nothing_optional_is_needed():
    """The core imports numpy and what Python has itself."""
    script = """
import sys
class Refuse:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {"pandas", "polars", "matplotlib", "optuna", "distributed", "dask", "IPython"}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import wordline as wl
r = wl.run(rw="randread", number_ios=10, device="z-ssd-small")
r._repr_html_()
try:
    r.to_polars()
except wl.MissingPackage as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == (
        "to_polars() needs the package polars: pip install polars, or in the folder of wordline's sources "
        "pip install '.[polars]'\n"
    ), done.stderr


def test_types_hold():
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(ROOT / "target/mypy")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


IN_TURN = """
[global]
rw=randread
bs=4k
runtime=5ms
time_based
[a]
[b]
stonewall
[c]
stonewall
"""


def test_jobs_that_run_in_turn_have_no_rate_that_is_the_sum_of_theirs(shell, tmp_path):
    result = wl.run(IN_TURN, device="z-ssd-small", progress=False)
    assert result.read.iops == pytest.approx(result.read.ios * 1e9 / result.simulated_ns, rel=0.01)
    assert result.read.iops == pytest.approx(result["a"].read.iops, rel=0.01)
    (tmp_path / "turn.fio").write_text(IN_TURN)
    document = json.loads(shell("run", "turn.fio", "--device", "z-ssd-small", "--output-format", "json", "-q"))
    of_all = next(d for d in document["wordline"]["latency"] if d["of"] == "all")
    assert of_all["ran_ns"] == result.read.runtime_ns
    page = shell("run", "turn.fio", "--device", "z-ssd-small", "--report", "page.html")
    assert page and f"{result.read.iops / 1e3:.2f}" in (tmp_path / "page.html").read_text()
    # Beside each other the longest is the time of both; where they overlap in part that counts once.
    beside = wl.run(IN_TURN.replace("stonewall\n[c]", "startdelay=3ms\n[c]"), device="z-ssd-small", progress=False)
    assert beside.read.runtime_ns == pytest.approx(13e6, rel=0.02)


def test_the_reads_of_jobs_that_verify_are_after_their_writes():
    text = "[global]\nrw=write\nbs=4k\nverify=crc32c\n[a]\nsize=1m\n[b]\nsize=4m\n"
    result = wl.run(text, device="z-ssd-small", progress=False)
    a, b = (result[name].read for name in "ab")
    ends = [one.began_ns + one.runtime_ns for one in (a, b)]
    # The first is through before the other begins to read: the times of both are the time of all.
    assert a.began_ns == result["a"].write.runtime_ns and ends[0] < b.began_ns
    assert ends[1] == pytest.approx(result.simulated_ns, rel=0.01)
    assert result.read.runtime_ns == a.runtime_ns + b.runtime_ns
    assert result.read.began_ns == a.began_ns


def test_a_rate_over_time_begins_behind_the_ramp():
    result = wl.run(
        rw="randread", bs="4k", runtime="60ms", ramp_time="25ms", time_based=True, device="z-ssd-small", progress=False
    )
    rates = result.series("read")["iops"]
    assert np.isnan(rates[:2]).all(), "the ramp counts nothing"
    assert rates[2:] == pytest.approx(np.full(len(rates) - 2, rates[-2]), rel=0.02)
    # Each direction has its own, and where statistics begin anew the ramp is where it was.
    two = wl.run(
        "[global]\ntime_based\nruntime=60ms\n[r]\nrw=randread\nramp_time=30ms\n[w]\nrw=randwrite\nstartdelay=15ms\n",
        device="z-ssd-small",
        progress=False,
    )
    assert np.isnan(two.series("read")["iops"][0]) and two.series("write")["iops"][0] == 0
    searched = wl.run(
        rw="randread", runtime="200ms", ramp_time="20ms", time_based=True, latency_target="100us", latency_window="10ms",
        ioengine="libaio", iodepth=16, device="z-ssd-small", progress=False,
    )
    assert not np.isnan(searched.series("read")["iops"][3:]).any()


def test_a_percentile_over_time_is_within_the_fastest_and_the_slowest():
    # The fastest read is in the upper half of its bucket, whose middle is below it.
    for more in range(0, 128, 16):
        result = wl.run(
            "[a]\nrw=randread\nbssplit=4k/99:64k/1\nnumber_ios=1000\n",
            device="z-ssd-small", set={"nand.t_read": f"{3000 + more}ns"}, progress=False,
        )
        latency, table = result.read.latency, result.series("read", percents=(1, 50))
        assert latency.min_ns <= table["p1_ns"].min() and table["p50_ns"].max() <= latency.max_ns


def test_a_table_of_hosts_is_empty_where_none_was_watched():
    result = wl.run(rw="randread", number_ios=5, stack="none", testbed="none", device="z-ssd-small", progress=False)
    table = result.series("host")
    assert table.rows == 0 and "user_ns" in table.columns and table._repr_html_()


def test_a_log_of_histograms_is_a_table():
    job = "[a]\nrw=randread\nnumber_ios=300\nwrite_hist_log=h\nlog_hist_msec=1\n"
    log = wl.run(job, device="z-ssd-small", progress=False).logs["h_clat_hist.1.log"]
    frame = log.to_pandas()
    assert list(frame.columns) == log.columns and (frame["counts"][0] == log["counts"][0]).all()
    assert log.to_polars().height == log.rows


def test_percentiles_are_those_of_the_json_at_every_percentage():
    at = [0.1, 1, 30, 50, 60, 90, 99.7, 99.9, 99.95, 100]
    result = wl.run(
        rw="randread",
        bs="4k",
        iodepth=32,
        number_ios=2000,
        lat_percentiles=True,
        percentile_list=":".join(map(str, at)),
        norandommap=True,
        device="cnex-small",
        precondition="fill",
        progress=False,
    )
    table = json.loads(result.json())["jobs"][0]["read"]["lat_ns"]["percentile"]
    assert [result.read.latency.percentile_ns(p) for p in at] == [table[f"{p:.6f}"] for p in at]
    with pytest.raises(wl.InputError, match="'99': must be a number from 0 to 100"):
        result.read.latency.percentile_ns("99")


def test_a_rate_of_operations_is_no_time():
    assert _html.told("op_kv_read_per_s", 5000.0) == "5 k/s" and _html.told("simulated_s", 5.0) == "5 s"


def test_clones_are_not_taken_for_their_job():
    result = wl.run("[r]\nrw=randread\nnumjobs=4\nnumber_ios=100\n", device="z-ssd-small", progress=False)
    with pytest.raises(wl.InputError, match=r"has 4 threads: direction\('read', job='r'\)"):
        result["r"]
    assert result.direction("read", "r").ios == 400 == sum(thread.read.ios for thread in result.threads)


def test_operations_of_programs_are_numbers_of_a_run():
    result = wl.run(app="kv-read", device="z-ssd-small", limit="20s", progress=False)
    (program,) = result.programs
    assert program == json.loads(result.json())["wordline"]["app"]
    operation, of = next((name, of) for name, of in program["operations"].items() if of["total"] > 100)
    row = result.metrics()
    name = f"op_{program['name']}_{operation}".replace("-", "_")
    assert row[f"{name}_count"] == of["total"] and row[f"{name}_per_s"] == of["per_s"] > 0
    assert row[f"{name}_p99_ns"] == of["lat_ns"]["percentile"]["99.000000"]


def test_what_was_not_kept_is_not_written(mixed, tmp_path):
    with pytest.raises(wl.InputError, match="run with timeline="):
        mixed.write_timeline(tmp_path / "t.json")
    assert not (tmp_path / "t.json").exists()
    assert "the three longest parts" in repr(mixed.breakdown("read"))


def test_latencies_that_are_not_kept_are_no_zeros():
    result = wl.run(rw="randread", number_ios=400, gtod_reduce=1, device="z-ssd-small", progress=False)
    assert result.read.ios == 400 and result.latency("read") is None
    assert result.metrics()["read_mean_ns"] is None and result.metrics()["read_max_ns"] is None
    assert result.metrics()["read_iops"] > 0 and np.isnan(result.summary()["mean_ns"]).all()
    assert result.series("read")["p50_ns"][0] > 5000
    assert "p99" not in repr(result) and "–" in result._repr_html_()
    for draw in (result.plot.cdf, lambda: result.plot.cdf(by="job"), lambda: result.plot.compare(result)):
        with pytest.raises(wl.InputError, match="were not kept"):
            draw()
    result.plot.breakdown()
    result.plot.over_time()


@pytest.mark.parametrize("percent", [101, -1, float("nan"), "99", None, True])
def test_a_percentage_is_a_number_up_to_100(mixed, percent):
    for ask in (
        mixed.read.latency.percentile_ns,
        mixed.read.latency.percentile_or_none,
        lambda p: mixed.series("read", percents=(p,)),
    ):
        with pytest.raises(wl.InputError, match="from 0 to 100"):
            ask(percent)
