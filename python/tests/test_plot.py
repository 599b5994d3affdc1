"""Pictures: every one has marks, its axes have units, its legend is beside the data."""

import sys

import numpy as np
import pytest

import wordline as wl

matplotlib = pytest.importorskip("matplotlib")

from wordline import plot  # noqa: E402


@pytest.fixture(scope="module")
def other(mixed_job):
    return wl.run(mixed_job, device="cnex-small", ftl="rail", precondition="fill", progress=False)


@pytest.fixture(scope="module")
def mixed_job():
    from conftest import MIXED

    return MIXED


def boxes(picture):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(picture.figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for axes in picture.axes:
        legend = axes.get_legend()
        if legend is not None:
            yield axes.get_window_extent(renderer), legend.get_window_extent(renderer)


def labels(axis):
    return [text.get_text() for text in axis.get_ticklabels() if text.get_text()]


def test_every_picture_has_marks_and_its_legend_beside_them(mixed, other, tmp_path):
    pictures = {
        "cdf": mixed.plot.cdf(),
        "jobs": mixed.plot.cdf(by="job"),
        "breakdown": mixed.plot.breakdown(),
        "one": mixed.plot.breakdown("write"),
        "over_time": mixed.plot.over_time(),
        "heatmap": mixed.plot.heatmap("write"),
        "compare": mixed.plot.compare(other),
    }
    for name, picture in pictures.items():
        for axes in picture.axes:
            marks = len(axes.lines) + len(axes.patches) + len(axes.collections)
            assert marks > 0, name
        for data, legend in boxes(picture):
            assert legend.x0 >= data.x1, name
        picture.save(tmp_path / f"{name}.png", dpi=40)
        assert (tmp_path / f"{name}.png").stat().st_size > 2000
    pictures["cdf"].save(tmp_path / "cdf.svg")
    assert b"<svg" in (tmp_path / "cdf.svg").read_bytes()
    assert pictures["cdf"]._repr_png_()[:4] == b"\x89PNG"


def test_the_tail_is_in_nines_and_latency_in_times(mixed):
    axes = mixed.plot.cdf("read").axes[0]
    axes.figure.canvas.draw()
    assert labels(axes.yaxis)[:4] == ["0 %", "50 %", "90 %", "99 %"]
    assert "99.9 %" in labels(axes.yaxis)
    assert axes.get_xscale() == "log"
    assert any(text.endswith(" us") for text in labels(axes.xaxis))
    # The curve is the distribution: at two nines it is at the 99th percentile.
    x, y = axes.lines[0].get_data()
    at = x[(y >= 2).argmax()]
    assert at == mixed.read.latency.percentile_ns(99)


def test_a_comparison_names_what_differs(mixed, other):
    picture = mixed.plot.compare(other, at="p50")
    names = [text.get_text() for text in picture.axes[0].get_legend().get_texts()]
    assert names == ["pblk", "rail"]
    named = mixed.plot.compare(other, labels=["a", "b"], direction="write")
    assert labels(named.axes[1].yaxis) == ["a", "b"]
    same = mixed.plot.compare(mixed)
    assert [t.get_text() for t in same.axes[0].get_legend().get_texts()] == ["run (1)", "run (2)"]


def test_jobs_that_differ_in_few_options_are_named_by_them():
    jobs = {"rw": "randread", "number_ios": 100, "device": "z-ssd-small", "progress": False}
    one, four = (wl.run(iodepth=depth, ioengine="libaio", **jobs) for depth in (1, 4))
    legend = one.plot.compare(four).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["iodepth=1", "iodepth=4"]


def test_parts_of_a_bar_fill_it(mixed):
    axes = mixed.plot.breakdown("read").axes[0]
    ends = {}
    for bar in axes.patches:
        ends.setdefault(round(bar.get_y(), 3), []).append(bar.get_x() + bar.get_width())
    for of in ends.values():
        assert max(of) == pytest.approx(100, abs=0.5)
    # What was in the way is a part of its own, as long as it is at the mean and at percentiles.
    parts = mixed.breakdown("read")
    drawn = {bars.get_label(): [bar.get_width() for bar in bars] for bars in axes.containers}
    shares = parts.delay_shares()
    for d in parts.told_delays():
        layer, why = parts.delays[d]
        assert drawn[f"{layer}: {why}"] == pytest.approx(list(shares[:, d]), abs=0.1)


@pytest.mark.parametrize(
    "draw, part",
    [
        (lambda r: r.plot.cdf("trim"), "no trims"),
        (lambda r: r.plot.cdf("reads"), "use read, write, trim or sync"),
        (lambda r: r.plot.cdf(by="thread"), "use direction or job"),
        (lambda r: r.plot.compare(r, labels=["one"]), "1 for 2 results"),
        (lambda r: r.plot.compare(r, at="p98"), "use mean, p50"),
        (lambda r: r.plot.cdf().save("a.jpeg"), "ends in .png"),
    ],
)
def test_pictures_that_cannot_be_are_refused(mixed, draw, part):
    with pytest.raises(wl.InputError, match=part):
        draw(mixed)


def test_a_run_without_series_says_so():
    result = wl.run(rw="randread", number_ios=50, device="z-ssd-small", over_time=False, progress=False)
    result.plot.cdf()
    for draw in (result.plot.heatmap, result.plot.over_time):
        with pytest.raises(wl.InputError, match="over_time=True"):
            draw()


def test_bytes_programmed_are_those_of_the_result():
    result = wl.run(
        rw="randwrite", bs="512", iodepth=16, ioengine="libaio", number_ios=5000, device="fssd-small", progress=False
    )
    axes = result.plot.over_time().axes[-1]
    drawn = sum(
        float((patch.get_data().values - patch.get_data().baseline) @ np.diff(patch.get_data().edges))
        for patch in axes.patches
    )
    assert drawn * 1e6 == pytest.approx(result.machine["write_amplification"]["flash_bytes"], rel=0.01)


@pytest.fixture(scope="module")
def interactive(mixed, other):
    pytest.importorskip("plotly")
    return {
        "cdf": mixed.plot.cdf(backend="plotly"),
        "jobs": mixed.plot.cdf(by="job", backend="plotly"),
        "breakdown": mixed.plot.breakdown(backend="plotly"),
        "over_time": mixed.plot.over_time(backend="plotly"),
        "heatmap": mixed.plot.heatmap("write", backend="plotly"),
        "compare": mixed.plot.compare(other, backend="plotly"),
    }


def test_plotly_draws_the_same_values(interactive, mixed):
    assert len(interactive["jobs"].figure.data) == 2
    by_matplotlib = mixed.plot.cdf("read").axes[0].lines[0].get_data()
    read = interactive["cdf"].figure.data[0]
    assert read.name == "read"
    assert list(read.x) == list(by_matplotlib[0]) and list(read.y) == list(by_matplotlib[1])
    at = next(i for i, nines in enumerate(read.y) if nines >= 2)
    assert read.x[at] == mixed.read.latency.percentile_ns(99)
    assert read.text[at].startswith("99.") and " are no slower than " in read.text[at]
    shares = [sum(part) for part in zip(*(bar.x for bar in interactive["breakdown"].figure.data))]
    assert len(shares) == 2 * len(mixed.breakdown("read").rows)
    assert all(share == pytest.approx(100, abs=0.5) for share in shares)
    counts = mixed.latency_counts("write")
    drawn = interactive["heatmap"].figure.data[0]
    assert sum(10**z for row in drawn.z for z in row if z == z) == pytest.approx(counts.sum())
    lines = {line.name: line for line in interactive["over_time"].figure.data}
    assert list(lines["reads"].y[:-1]) == list(plot._whole(mixed.series("read"))["iops"])
    assert {"reads, 99 %", "writes, 50 %", "users' data"} <= set(lines)
    names = [line.name for line in interactive["compare"].figure.data[:2]]
    assert names == ["pblk", "rail"]


def test_a_picture_of_plotlys_is_a_file_without_a_network(interactive, tmp_path):
    interactive["cdf"].save(tmp_path / "cdf.html")
    page = (tmp_path / "cdf.html").read_text()
    assert "are no slower than" in page and "<script src=" not in page.replace("<script type", "")
    interactive["cdf"].save(tmp_path / "cdf.json")
    assert (tmp_path / "cdf.json").read_text().startswith("{")
    assert interactive["cdf"]._repr_png_() is None
    with pytest.raises(wl.InputError, match="ends in .html or .json; backend='matplotlib' has png"):
        interactive["cdf"].save(tmp_path / "cdf.png")


def test_without_plotly_an_error_says_how_to_get_it(mixed, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    for draw in (mixed.plot.cdf, mixed.plot.breakdown, mixed.plot.heatmap, mixed.plot.over_time):
        with pytest.raises(wl.MissingPackage, match=r"pip install plotly, .* '\.\[plotly\]'"):
            draw(backend="plotly")
    with pytest.raises(wl.InputError, match="backend 'bokeh': use matplotlib or plotly"):
        mixed.plot.cdf(backend="bokeh")


def test_over_time_leaves_out_what_an_interval_cannot_tell():
    # 100 reads in a whole interval have one beyond 99 %, and none beyond 99.9 %.
    job = "[a]\nrw=randread\nthinktime=100us\nthinktime_blocks=1\nruntime={}us\ntime_based\n"
    result = wl.run(job.format(61_000), device="z-ssd-small", precondition="fill", progress=False)
    series = result.series("read")
    assert series["ios"][:6].min() >= 50 and series["ios"].max() < 200
    assert np.isnan(series["p99_9_ns"]).all() and not np.isnan(series["p50_ns"][:6]).any()
    assert np.nanmax(series["p50_ns"]) <= result.read.latency.max_ns
    assert series.rows == 7 and series["end_s"][-1] - series["begin_s"][-1] < 0.0025
    axes = result.plot.over_time().axes
    assert [text.get_text() for text in axes[1].get_legend().get_texts()] == ["50 %"]
    assert len(axes[0].patches[0].get_data().values) == 6
    names = [line.name for line in result.plot.over_time(backend="plotly").figure.data]
    assert "reads, 50 %" in names and "reads, 99.9 %" not in names
    # A run with an I/O or none in each interval has no percentile at all.
    few = wl.run(rw="randread", number_ios=1, device="z-ssd-small", progress=False)
    few.plot.over_time()
    few.plot.over_time(backend="plotly")


def test_times_are_written_with_the_unit_that_suits_them():
    from wordline._html import count, duration, time_ticks, told

    times = {5: "5 ns", 1500: "1.5 us", 250_000: "250 us", 2e6: "2 ms", 12.34e9: "12.3 s"}
    for ns, text in times.items():
        assert duration(ns) == text
    assert count(1500) == "1.5 k"
    numbers = {
        ("read_p99_ns", 15_470.0): "15.5 us",
        ("write_iops", 505_856.3): "506 k/s",
        ("write_iops", 850.0): "850 /s",
        ("read_bytes_per_s", 6.338e7): "63.4 MB/s",
        ("simulated_s", 0.25): "250 ms",
        ("watts", 3.456): "3.46 W",
        ("read_ios", 1_234_567): "1,234,567",
        ("write_amplification", 5.154321): "5.15432",
        ("of_a_measure", 9.37165e6): "9,371,650",
        ("read_p99_99_ns", None): "–",
        ("ended", "complete"): "complete",
    }
    for (name, value), text in numbers.items():
        assert told(name, value) == text
    # A short axis has several ticks, each another text.
    for low, high in [(1.1e6, 1.4e6), (300e3, 900e3), (2e6, 2e6), (990e3, 1010e3)]:
        texts = [duration(tick) for tick in time_ticks(low, high)]
        assert len(set(texts)) == len(texts) >= 3, (low, high, texts)
    assert time_ticks(1e3, 1e6) is None
