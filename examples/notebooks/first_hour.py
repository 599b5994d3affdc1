# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # The first hour
#
# A drive, a host and a workload, all modelled. A run takes a second or so, touches no device, and gives the same
# numbers each time.

# %%
import wordline as wl

result = wl.run(
    rw="randread", bs="4k", iodepth=2, number_ios=20_000, device="cnex-small", precondition="fill"
)
result

# %% [markdown]
# Numbers have their unit in their name. `read` has all reads of the run; latency is counted in fio's buckets, so that
# percentiles are those that fio would print.

# %%
read = result.read
print(f"{read.iops:,.0f} reads a second")
print(f"half within {read.latency.percentile_ns(50) / 1e3:.0f} us, 99.9 % within {read.latency.percentile_ns(99.9) / 1e3:.0f} us")

# %% [markdown]
# Where did the time go? Layer by layer, at the mean and at percentiles:

# %%
result.breakdown()

# %%
result.plot.breakdown()

# %% [markdown]
# Most of it is the flash: a page's read and its way over the channel. Deeper queues are no faster than the drive: its
# profile says that it serves 23,750 reads a second (`device.limits.read_iops`), and what waits for that has a layer of its own.

# %%
deep = wl.run(rw="randread", bs="4k", iodepth=16, number_ios=20_000, device="cnex-small", precondition="fill")
result.plot.compare(deep, labels=["2 reads at a time", "16 reads at a time"], at="p50")

# %% [markdown]
# ## A job file
#
# Jobs are fio's own. Here readers meet a writer, and `${depth}` is filled in from Python.

# %%
job = """
[readers]
rw=randread
bs=4k
iodepth=${depth}
runtime=200ms
time_based

[writer]
rw=randwrite
bs=4k
iodepth=4
runtime=200ms
time_based
"""
mixed = wl.run(job, variables={"depth": 8}, device="cnex-small", precondition="steady")
mixed

# %%
mixed.plot.cdf()

# %%
mixed.plot.over_time()

# %% [markdown]
# ## Changing the drive
#
# Every value of a profile can be set. `check()` tells what follows from a drive before anything runs.

# %%
fast = wl.Device("cnex-small", set={"nand.t_read": "25us"})
print(fast.check())

# %%
faster = wl.run(job, variables={"depth": 8}, device=fast, precondition="steady")
mixed.plot.compare(faster, labels=["as it is", "reads of 25 us"])

# %% [markdown]
# ## What is wrong is said, with its place and a remedy

# %%
try:
    wl.run(rw="randread", iodpeth=8, device="cnex-small")
except wl.InputError as error:
    print(error)

# %% [markdown]
# ## Keeping a result
#
# One file has all of it: tables, histograms, and the reports of the command line.

# %%
mixed.save("mixed.wordline")
again = wl.load("mixed.wordline")
assert again.json() == mixed.json()
again.to_polars()
