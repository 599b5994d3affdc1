# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A sweep on Dask
#
# `wl.sweep` takes a `Client` of Dask distributed in place of its own processes. Here the cluster is on this machine; with
# `Client("tcp://scheduler:8786")` it is any other whose workers have the same build of the package.

# %%
from distributed import Client, LocalCluster

import wordline as wl

cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
client = Client(cluster)

# %% [markdown]
# A key with a dot is a setting of the machine, `depth` is a variable of the job's text. The drive's own limits of reads are
# taken off (0), so that its LUNs are what limits.

# %%
job = """
[readers]
rw=randread
bs=4k
iodepth=${depth}
number_ios=2000
"""
axes = {"nand.t_read": ["40us", "60us"], "depth": [1, 2, 4, 8, 16, 32]}
common = {
    "job": job,
    "device": "cnex-small",
    "precondition": "fill",
    "set": {"device.limits.read_iops": 0, "device.limits.read_rate": 0},
}
sweep = wl.sweep(axes, executor=client, out="by-depth", **common)
sweep

# %% [markdown]
# Rows are kept in `by-depth` as they come: parts in Parquet, and a manifest that lists them. The same call goes on where
# an earlier one was stopped, whatever stopped it; now there is nothing left to do.

# %%
again = wl.sweep(axes, executor=client, out="by-depth", **common)
assert [row["read_p99_ns"] for row in again] == [row["read_p99_ns"] for row in sweep]

# %% [markdown]
# A point that fails is a row with its reason, and others go on.

# %%
odd = wl.sweep([{"bs": "4k"}, {"bs": 511}], rw="randread", number_ios=100, device="cnex-small", executor=client)
odd.failures

# %%
import polars

table = polars.read_parquet("by-depth/results.parquet")
table.select("nand.t_read", "depth", "read_iops", "read_p99_ns")

# %%
from matplotlib.figure import Figure
from wordline.plot import Picture

figure = Figure(figsize=(6, 3.6), layout="constrained")
axes_of = figure.subplots()
for (t_read,), rows in table.group_by("nand.t_read", maintain_order=True):
    # Each step of depth is more reads a second, and the last ones cost most.
    assert rows["read_iops"].is_sorted() and rows["read_iops"][-1] > 8 * rows["read_iops"][0]
    axes_of.plot(rows["read_iops"] / 1e3, rows["read_p99_ns"] / 1e3, marker="o", label=f"reads of {t_read}")
axes_of.set_xlabel("thousand reads a second")
axes_of.set_ylabel("latency, 99 % (us)")
axes_of.set_yscale("log")
axes_of.legend(frameon=False)
axes_of.spines[["top", "right"]].set_visible(False)
picture = Picture(figure)
picture.save("by-depth.png")
picture

# %%
client.close()
cluster.close()
