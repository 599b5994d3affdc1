# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A tail, explained
#
# Reads beside a few writes on an aged drive have a tail. Which I/Os are in it, and what did they wait for?

# %%
import wordline as wl

job = """
[readers]
rw=randread
bs=4k
iodepth=2
runtime=300ms
time_based

[writer]
rw=randwrite
bs=4k
rate_iops=1000
iodepth=8
runtime=300ms
time_based
"""
result = wl.run(job, device="cnex-small", precondition="random", slowest=50)
result.plot.cdf("read")

# %% [markdown]
# Nearly all reads take little more than the flash itself. The tail is two orders of magnitude away. The share of each
# layer says what it is made of: at the median the page's own read and its transfer, in the tail the wait for a LUN.

# %%
result.plot.breakdown("read")

# %%
at = dict(zip(result.breakdown("read").rows, result.breakdown("read").by_layer_ns))
layers = result.breakdown("read").layers
wait = layers.index("LUN wait")
print(f"a read at 99.9 % waits {at['p99.9'][wait] / 1e3:,.0f} us for its LUN, one at the median {at['p50'][wait] / 1e3:,.1f} us")
assert at["p99.9"][wait] > 100 * at["p50"][wait]

# %% [markdown]
# ## One read at a time
#
# The slowest I/Os keep their lives, step by step. What stood in the way of each?

# %%
reads = [life for life in result.slowest if life.direction == "read"]
causes: dict[str, int] = {}
for life in reads:
    before = life.begin_ns
    for step in life.steps:
        if step["layer"] == "LUN wait":
            causes[step["why"]] = causes.get(step["why"], 0) + step["end_ns"] - before
        before = step["end_ns"]
for why, ns in sorted(causes.items(), key=lambda item: -item[1]):
    print(f"{why:28} {ns / 1e3:10,.0f} us")

# %%
reads[0] if reads else result.slowest[0]

# %% [markdown]
# The whole machine counts the same: reads by what they waited for longest.

# %%
dict(result.machine["reads_blocked"])

# %% [markdown]
# ## When
#
# A heat map has every read. Bands are what a read can meet: nothing, another read, a program, an erase.

# %%
result.plot.heatmap("read")
