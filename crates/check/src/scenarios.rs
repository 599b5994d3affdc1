//! Runs that together reach every part of the machine, on drives so small that each takes a fraction of
//! a second.

use crate::{Age, Case};
use wordline::Level;

const MIXED: &str = "
[global]
bs=4k
direct=1
norandommap
[r]
rw=randread
iodepth=16
number_ios=400
[w]
rw=randwrite
bssplit=4k/80:24k/20
iodepth=16
number_ios=600
fsync=64
fdatasync=100
[s]
rw=rw
bs=64k
iodepth=8
iodepth_batch=4
number_ios=150
[t]
rw=trim
bs=64k
number_ios=20
";

/// Jobs on small drives that between them reach every setting.
pub fn scenarios() -> Vec<Case<'static>> {
    const FSSD: &str = "
[writers]
ioengine=libaio
rw=randwrite
bsrange=512-32k
blockalign=512
norandommap
iodepth=32
numjobs=2
number_ios=1500
[readers]
ioengine=libaio
rw=randread
bs=512
norandommap
iodepth=4
number_ios=1500
[trims]
ioengine=libaio
rw=randtrim
bs=1m
norandommap
number_ios=60
";
    let jobs = MIXED;
    // Two classes of queues, so that arbitration has something to weigh.
    const CLASSES: &str = "
[global]
bs=4k
rw=randread
iodepth=64
number_ios=3000
[high]
prioclass=1
[low]
prioclass=3
[mid]
";
    // A latency-critical job beside others that stream and write, in queues of their own.
    const SHARED_DRIVE: &str = "
[global]
bs=4k
norandommap
[critical]
rw=randrw
iodepth=2
size=6m
number_ios=2500
workload_attr=latency
[stream]
rw=read
bs=8k
iodepth=16
offset=16m
size=12m
number_ios=2500
loops=9
workload_attr=throughput
[back]
rw=randwrite
iodepth=24
offset=40m
size=16m
number_ios=2500
prioclass=1
";
    // One processor and few tags, so that threads and the scheduler have something to decide.
    const CROWD: &str = "
[global]
bs=4k
norandommap
direct=1
iodepth=32
[r]
rw=randread
numjobs=2
number_ios=1500
[w]
rw=randwrite
number_ios=1500
[back]
rw=write:-8k
offset=64m
size=32m
iodepth_batch=16
number_ios=600
";
    // A writer that rests for longer than the write timer.
    const RESTING: &str = "
[w]
rw=randwrite
bs=4k
norandommap
number_ios=40
thinktime=20ms
thinktime_blocks=3
";
    // Long and short reads beside writes, on strides.
    const READERS: &str = "
[global]
norandommap
direct=1
[r]
rw=randread
bssplit=4k/80:64k/20
iodepth=16
number_ios=4000
[w]
rw=randwrite
bs=4k
iodepth=8
number_ios=6000
";
    // Parts of the flash's sectors.
    const SMALL: &str = "
[a]
rw=randrw
bs=512
norandommap
direct=1
iodepth=16
number_ios=600
";
    // Every way to wait for a completion.
    const POLLED: &str = "
[global]
bs=4k
rw=randread
norandommap
number_ios=300
[p]
ioengine=pvsync2
hipri
[u]
ioengine=io_uring
iodepth=4
[h]
ioengine=io_uring
hipri
iodepth=4
[s]
ioengine=io_uring
sqthread_poll
thinktime=10ms
thinktime_blocks=100
";
    const WEIGHTS: &str = "
[global]
bs=4k
norandommap
[a]
rw=randread
iodepth=2
prioclass=2
prio=0
thinktime=100us
number_ios=300
[b]
rw=randread
iodepth=8
prioclass=2
prio=7
number_ios=600
";
    const BESIDE: &str = "
[global]
bs=4k
norandommap
[r]
rw=randread
iodepth=2
number_ios=6000
[w]
rw=randwrite
iodepth=64
number_ios=2000
";
    const SPDK: &str = "
[s]
ioengine=spdk
rw=randread
bs=4k
iodepth=4
number_ios=300
";
    // Pauses of several lengths, and a core that is never idle.
    const SHARED: &str = "
[global]
bs=4k
norandommap
[io]
ioengine=libaio
rw=randread
number_ios=100
[short]
ioengine=libaio
rw=randread
thinktime=150us
number_ios=100
[long]
ioengine=libaio
rw=randread
thinktime=400us
number_ios=60
[busy]
ioengine=pvsync2
hipri
rw=randread
number_ios=400
";
    // Files made, filled, synced and read again, in little memory.
    const FILES: &str = "
[global]
directory=/mnt
bs=4k
[make]
rw=write
nrfiles=150
filesize=4k-24k
create_on_open=1
openfiles=1
file_service_type=sequential
fsync=5
numjobs=2
[stream]
rw=write
size=3m
fallocate=none
[over]
rw=randrw
size=2m
number_ios=300
fdatasync=20
[past]
rw=randrw
direct=1
size=1m
number_ios=100
[again]
stonewall
rw=read
size=3m
filename=stream.0.0
";
    // Many changes, and then one that waits for all of them to be in the log.
    const LOG: &str = "
[global]
directory=/mnt
bs=4k
[make]
ioengine=filecreate
rw=write
fallocate=none
nrfiles=600
filesize=4k
openfiles=1
[sync]
stonewall
rw=write
size=16k
fallocate=none
fsync=1
";
    let rail = |stride: &'static str| {
        Case::new("cnex-small", READERS)
            .age(Age::Steady)
            .set(stride)
            .set("ftl.over_provisioning=30")
    };
    let crowd = |c: Case<'static>| {
        c.age(Age::Filled)
            .set("stack.scheduler=mq-deadline")
            .set("stack.cores=1")
            .set("stack.queue_depth=5")
            .set("stack.scheduler_tags=128")
    };
    let files = |fs| {
        Case::new("intel-750-small", FILES)
            .age(Age::Filled)
            .fs(fs)
            .stack("linux-pvsync2")
            .set("fs.memory=2_000_000")
            .set("fs.dirty_expire=2ms")
            .set("fs.dirty_writeback=1ms")
            .set("fs.time_granularity=100us")
            .set("fs.ext4.commit=3ms")
            .set("fs.ext4.blocks_per_group=2048")
            .set("fs.ext4.journal_blocks=1024")
            .set("fs.xfs.sync=3ms")
            .set("cache.capacitor=false")
    };
    let shared_drive = || {
        Case::new("z-ssd-flashshare-small", SHARED_DRIVE)
            .age(Age::Filled)
            .stack("none")
            .set("queues.arbitration=weighted-urgent")
            .set("queues.in_flight=4")
            .set("queues.guard.commands=8")
            .set("cache.partition.latency_ways=4")
            .set("cache.epoch.ios=300")
            .set("cache.read_ahead.ratio=2.0")
            .set("cache.read_ahead.ghosts.sample=4")
    };
    let classes = || {
        Case::new("z-ssd-flashshare-small", BOTH_CLASSES)
            .age(Age::Filled)
            .stack("interrupt")
            .set("system=selectisr")
            .set("stack.cores=1")
            .set("stack.sched_latency=0ms")
            .set("stack.time_slice=20us")
            .set("flashshare.give_up=15us")
    };
    let divided = |word: &'static str| {
        Case::new("fssd-small", FSSD)
            .age(Age::Filled)
            .set("ftl.over_provisioning=45")
            .set("nand.channels=4")
            .set(word)
    };
    let cases = vec![
        crowd(Case::new("intel-750-small", CROWD)).set("cache=none").set("limits.write_iops=3000"),
        crowd(Case::new("z-ssd-small", CROWD)).set("stack.deadline.read_expire=100us"),
        Case::new("cnex-small", RESTING).age(Age::Filled).set("ftl.write_timer=5ms"),
        Case::new("cnex-small", jobs)
            .age(Age::Steady)
            .set("ftl.gc_request_sectors=1")
            .set("ftl.gc_readers=2")
            .set("ftl.gc_queue=2")
            .set("ftl.gc_reserve_lines=4")
            .set("ftl.meta_lines=1"),
        Case::new("cnex-small", jobs).age(Age::Steady),
        Case::new("intel-750-small", jobs).age(Age::Steady),
        Case::new("z-ssd-small", jobs)
            .age(Age::Steady)
            .set("ftl.firmware=none")
            .set("ftl.victim=d-choices")
            .set("nand.faults.bad_blocks_ppb=20000000")
            .set("ftl.gc_start_lines=12"),
        Case::new("intel-750-small", jobs)
            .age(Age::Steady)
            .set("stack.scheduler=mq-deadline")
            .set("stack.scheduler_tags=8")
            .set("cache.write_back=false"),
        Case::new("intel-750-small", jobs)
            .age(Age::Filled)
            .set("interrupt.threshold=4")
            .set("interrupt.time=30us")
            .set("nand.faults.program_fail_ppb=2000000")
            .set("nand.faults.read_fail_ppb=2000000")
            .set("nand.faults.erase_fail_ppb=20000000")
            .set("nand.faults.bad_blocks_ppb=20000000"),
        rail("ftl.stride=4")
            .set("nand.faults.read_fail_ppb=3000000")
            .set("nand.faults.bad_blocks_ppb=30000000")
            .set("limits.read_iops=60000"),
        rail("ftl.stride=2").set("ftl.throttle=gc").set("ftl.emeta_on_parity=true"),
        rail("ftl.stride=4").set("ftl.parities=2").set("ftl.write_mostly_iops=20000"),
        rail("ftl.stride=8")
            .age(Age::Filled)
            .set("ftl.over_provisioning=45")
            .set("ftl.write_mostly_iops=0"),
        rail("ftl.stride=2")
            .set("ftl.hot_cold=true")
            .set("ftl.partition_interval=3000")
            .set("ftl.write_mostly_iops=0"),
        rail("ftl.stride=4").set("stack.bio_scheduler=kyber").set("stack.kyber.read_lat=100us"),
        // Reads miss their target, and writes give way window by window.
        Case::new("intel-750-small", BESIDE)
            .age(Age::Filled)
            .set("stack.scheduler=kyber")
            .set("stack.cores=1")
            .set("limits.write_iops=3000")
            .set("cache=none")
            .set("stack.kyber.read_lat=50us")
            .set("stack.kyber.write_lat=60ms"),
        Case::new("intel-750-small", WEIGHTS)
            .age(Age::Filled)
            .set("stack.scheduler=bfq")
            .set("stack.cores=2")
            .set("stack.bfq.max_budget=64")
            .set("stack.bfq.timeout=1ms")
            .set("stack.bfq.slice_idle=200us")
            .set("stack.bfq.wr_max_time=2ms"),
        Case::new("z-ssd-small", POLLED).age(Age::Filled).set("stack.io_poll_delay=3"),
        Case::new("z-ssd-small", POLLED).age(Age::Filled).set("stack.io_poll_delay=0"),
        Case::new("intel-750-small", SHARED)
            .age(Age::Filled)
            .set("stack.tick_hz=1000")
            .set("stack.kworker.interval=1ms")
            .set("stack.kworker.work=20us")
            .set("stack.idle.governor=menu"),
        Case::new("z-ssd-small", SPDK).age(Age::Filled).stack("spdk"),
        files("ext4"),
        files("ext4").set("fs.ext4.data=journal").set("fs.ext4.delalloc=false").set("fs.cold=true"),
        files("xfs").set("fs.xfs.log_blocks=512"),
        files("bdev"),
        Case::new("intel-750-small", LOG)
            .age(Age::Filled)
            .fs("xfs")
            .set("fs.xfs.log_buffer_bytes=16384")
            .set("fs.xfs.log_buffers=2")
            .set("cache.capacitor=false"),
        Case::new("z-ssd-small", jobs)
            .age(Age::Filled)
            .stack("nbd-kernel")
            .set("stack.nbd.page_cache=false")
            .set("stack.nbd.flush=true")
            .set("cache.capacitor=false"),
        Case::new("z-ssd-small", jobs)
            .age(Age::Filled)
            .stack("nbd-kernel")
            .set("stack.nbd.transport=ethernet"),
        Case::new("z-ssd-small", jobs).age(Age::Filled).stack("nbd-spdk"),
        Case::new("z-ssd-small", CLASSES)
            .age(Age::Filled)
            .stack("none")
            .set("queues.arbitration=weighted-urgent")
            .set("queues.in_flight=8"),
        Case::new("z-ssd-small", jobs).age(Age::Filled).set("nand.media=optane"),
        Case::new("intel-750-small", SMALL).age(Age::Filled).set("cache=none"),
        shared_drive(),
        shared_drive()
            .set("cache.partition.split=requests")
            .set("cache.epoch.time=500us")
            .set("cache.read_ahead.ghosts.penalty=2.0")
            .set("cache.read_ahead.ghosts.hysteresis=40.0"),
        classes(),
        classes().set("flashshare.accelerator=true"),
        Case::new("z-ssd-small", jobs).age(Age::Filled).array(Level::Raid0, 3),
        Case::new("z-ssd-small", jobs)
            .age(Age::Steady)
            .set("ftl.firmware=none") // a collector that works in spells
            .set("ftl.gc_start_lines=4")
            .array(Level::Raid5, 4)
            .set("stack.md.stripe_cache=32")
            .set("stack.md.bitmap=65536")
            .set("stack.md.gc=token")
            .set("stack.md.core=1"),
        // Buffers of few units, so that writes wait for them.
        Case::new("fssd-small", FSSD)
            .age(Age::Filled)
            .set("ftl.over_provisioning=45")
            .set("ftl.fssd.buffer_bytes=262144")
            .set("ftl.fssd.gc_units=4")
            .set("nand.channels=4")
            .set("ftl.fssd.append_points=2")
            .set("ftl.fssd.checkpoint_sectors=20000")
            .set("staging_bytes=65536"),
        // All that the firmware of a drive has, at work: a volatile buffer, groups of LUNs, idle time.
        Case::new("intel-750-small", PAUSES)
            .age(Age::Steady)
            .set("cache=none")
            .set("ftl.over_provisioning=30")
            .set("ftl.firmware.superblock_luns=3")
            .set("ftl.firmware.buffer_sectors=64")
            .set("ftl.firmware.protected=false")
            .set("ftl.firmware.hot_share=10")
            .set("ftl.firmware.gc_units=4")
            .set("ftl.firmware.gc_start=9")
            .set("ftl.firmware.gc_reserve=2")
            .set("ftl.firmware.gc_lag=1")
            .set("ftl.firmware.checkpoint_sectors=20000")
            .set("ftl.firmware.idle_after=2ms")
            .set("ftl.firmware.idle_free=10"),
        Case::new("z-ssd-small", SMALL)
            .age(Age::Steady)
            .set("cache=none")
            .set("ftl.firmware.victim=cost-benefit")
            .set("ftl.firmware.allocation=static"),
        // Worn, and kept for long: many pages are read again.
        Case::new("intel-750-small", SMALL)
            .age(Age::Filled)
            .set("cache=none")
            .set("nand.errors.cycles=2000")
            .set("nand.errors.age_days=200"),
        // The map on the host and the collector in the drive, and all of it in the drive.
        divided("ftl.on_host=map"),
        divided("ftl.on_host=none"),
        // Cold superblocks are moved to even out wear.
        Case::new("z-ssd-small", SMALL)
            .age(Age::Steady)
            .set("cache=none")
            .set("ftl.firmware.wear_spread=1"),
        // The collector alone on the host, which has much to look at.
        divided("ftl.on_host=gc"),
        // The scheduler alone on the host.
        divided("ftl.on_host=schedule").set("ftl.fssd.places=512").set("ftl.fssd.lun_reads=1"),
        // A buffer in SLC mode, always and borrowed, that pauses fold.
        Case::new("intel-750-small", PAUSES)
            .age(Age::Filled)
            .set("cache=none")
            .set("ftl.over_provisioning=40")
            .set("ftl.firmware.idle_after=2ms")
            .set("ftl.firmware.idle_free=30")
            .with_slc()
            .set("nand.errors.cycles=2000")
            .set("nand.errors.age_days=200"),
        // A part of the map in memory, with what the layer has beside it.
        Case::new("intel-750-small", PAUSES)
            .age(Age::Steady)
            .set("cache=none")
            .set("ftl.over_provisioning=45")
            .set("ftl.firmware.map_bytes=8192")
            .set("ftl.firmware.protected=false")
            .set("ftl.firmware.checkpoint_sectors=20000"),
        classes().set("flashshare.marked_by=chworkload_attr"),
        // What is old is written anew, all of it in 4 s.
        Case::new("z-ssd-small", SMALL)
            .age(Age::Filled)
            .set("cache=none")
            .set("ftl.firmware.refresh_days=0.00005"),
        Case::new("z-ssd-small", SMALL)
            .age(Age::Filled)
            .set("cache.refresh.every=3904ns")
            .set("cache.refresh.takes=280ns"),
        // Warm after a moment.
        Case::new("z-ssd-small", SMALL)
            .age(Age::Steady)
            .set("cache=none")
            .set("power.flash_limit_mw=900")
            .set("power.thermal.ambient=25.0")
            .set("power.thermal.resistance=5.0")
            .set("power.thermal.capacity=0.0005")
            .set("power.thermal.start=44.0")
            .set("power.thermal.throttle=47.0")
            .set("power.thermal.hysteresis=1.0")
            .set("power.thermal.throttle_mw=300"),
        // Blocks and layers that differ, and wear.
        Case::new("intel-750-small", PAUSES)
            .age(Age::Steady)
            .set("cache=none")
            .set("ftl.over_provisioning=40")
            .set("nand.variation.read=2")
            .set("nand.variation.program=3")
            .set("nand.variation.erase=4")
            .set("nand.variation.layers=4")
            .set("nand.variation.layer_program=5")
            .set("nand.variation.program_wear=10")
            .set("nand.variation.erase_wear=30")
            .set("nand.errors.cycles=1000"),
        // Worn, and one decoder a channel.
        Case::new("intel-750-small", SMALL)
            .age(Age::Filled)
            .set("cache=none")
            .set("nand.errors.cycles=2000")
            .set("nand.errors.age_days=200")
            .set("nand.decoder.t_iteration=1us"),
        // Reads wait for power as well.
        Case::new("z-ssd-small", SMALL)
            .age(Age::Steady)
            .set("cache=none")
            .set("power.flash_limit_mw=300")
            .set("power.limit_reads=true"),
        // More threads than cores, some of which compute: woken ones go where a core is idle.
        Case::new("z-ssd-small", BUSY_CORES)
            .age(Age::Filled)
            .set("stack.cores=4")
            .set("stack.migrate=true"),
        // First writes to what fallocate reserved.
        Case { job: RESERVED, ..files("ext4") },
        Case { job: RESERVED, ..files("xfs") },
        // One queue, and commands that stand alone in it.
        Case::new("d3-s4610-small", SATA).age(Age::Filled).set("stack.scheduler=mq-deadline"),
    ];
    // The drives' shape, but few and short blocks: hundreds of runs follow.
    let shrink = |c: Case<'static>| c.set("nand.blocks=64").set("nand.pages_per_block=8");
    cases.into_iter().map(shrink).collect()
}

/// Writes of part of the drive, with pauses, beside reads.
const PAUSES: &str = "
[global]
ioengine=libaio
bs=4k
direct=1
norandommap
[w]
rw=randwrite
iodepth=8
random_distribution=zipf:1.1
number_ios=4000
fsync=100
thinktime=5ms
thinktime_blocks=500
[r]
rw=randread
iodepth=4
number_ios=1000
";

/// Tasks of both classes on the same sectors and the same core.
const BOTH_CLASSES: &str = "
[global]
size=1m
norandommap
number_ios=300
rw=randrw
[lat]
ioengine=pvsync2
bs=4k
workload_attr=latency
[thr]
ioengine=libaio
iodepth=8
iodepth_batch=4
bs=16k
workload_attr=throughput
";

/// Tasks that read, that write and that compute now and then.
const BUSY_CORES: &str = "
[global]
size=16m
norandommap
[sync]
ioengine=pvsync2
rw=randread
numjobs=3
number_ios=400
[async]
ioengine=libaio
rw=randrw
iodepth=8
numjobs=2
number_ios=800
thinktime=100us
[poll]
ioengine=pvsync2
hipri
rw=randread
number_ios=200
[burn]
ioengine=cpuio
cpuload=60
cpuchunks=700
numjobs=3
exit_on_io_done=1
";

/// Writes to reserved blocks: in order, at random, past the cache, and behind the end of the file.
const RESERVED: &str = "
[global]
directory=/mnt
size=2m
number_ios=120
[log]
rw=write
bs=16k
fdatasync=1
[db]
rw=randwrite
bs=4k
fdatasync=7
[past]
rw=randwrite
bs=4k
direct=1
fdatasync=7
[kept]
rw=write
bs=4k
fallocate=keep
fsync=4
";

/// Reads, writes that a flush follows, and trims.
const SATA: &str = "
[global]
bs=4k
direct=1
norandommap
[r]
rw=randread
iodepth=8
numjobs=2
number_ios=500
[w]
rw=randwrite
bs=16k
iodepth=4
sync=1
number_ios=200
[t]
rw=randtrim
bs=64k
fsync=10
number_ios=40
";

/// Programs, small and under pressure: stalls, full caches, checkpoints, groups of writers.
pub fn programs() -> Vec<Case<'static>> {
    let lsm = || {
        Case::new("cnex-small", "")
            .app("rocksdb-readwhilewriting")
            .age(Age::Filled)
            .set("app.runtime=60ms")
            .set("app.ramp_time=2ms")
            .set("app.lsm.keys=50000")
            .set("app.lsm.updates=40.0")
            .set("app.lsm.readers=3")
            .set("app.lsm.writers=3")
            .set("app.lsm.write_buffer_size=100000")
            .set("app.lsm.max_bytes_for_level_base=400000")
            .set("app.lsm.target_file_size_base=200000")
            .set("app.lsm.page_cache=2097152")
            .set("app.lsm.block_cache=40960")
            .set("app.lsm.level0_file_num_compaction_trigger=2")
            .set("app.lsm.level0_slowdown_writes_trigger=4")
            .set("app.lsm.level0_stop_writes_trigger=5")
    };
    let btree = |mix: &'static str| {
        Case::new("cnex-small", "")
            .app(mix)
            .age(Age::Filled)
            .set("app.operations=0")
            .set("app.runtime=60ms")
            .set("app.btree.records=30000")
            .set("app.btree.clients=4")
            .set("app.btree.cache=2097152")
            .set("app.btree.page_cache=2097152")
            .set("app.btree.checkpoint=10ms")
            .set("app.btree.journal_commit=2ms")
            .set("app.btree.journal_bytes=1048576")
    };
    vec![
        lsm(),
        lsm().set("app.lsm.wal=synced").set("app.lsm.bloom_bits=10").set("app.lsm.discard=true"),
        lsm().set("app.lsm.readers=0").set("app.lsm.wal_bytes_per_sync=20000"),
        lsm()
            .set("app.lsm.soft_pending_compaction_bytes_limit=200000")
            .set("app.lsm.hard_pending_compaction_bytes_limit=400000"),
        btree("mongodb-ycsb-a")
            .set("app.btree.dirty_trigger=8")
            .set("app.btree.eviction_threads=1")
            .set("app.btree.cost.page_write=300us"),
        btree("mongodb-ycsb-d").set("app.btree.journaled=true"),
        // So few pages that all of them are dirty.
        btree("mongodb-ycsb-a")
            .set("app.btree.dirty_target=70")
            .set("app.btree.dirty_trigger=90")
            .set("app.btree.eviction_target=60")
            .set("app.btree.eviction_trigger=70"),
        btree("mongodb-ycsb-e"),
    ]
}

/// Servers, rounds over a graph and sorts, small: what they read is on the drive, and they end soon.
pub fn servers() -> Vec<Case<'static>> {
    let of = |app: &'static str| {
        Case::new("z-ssd-flashshare-small", "")
            .app(app)
            .age(Age::Filled)
            .set("nand.pages_per_block=8")
            .set("ftl.over_provisioning=35.0")
            .set("app.runtime=20ms")
            .set("app.ramp_time=1ms")
    };
    let sort = || {
        of("sort")
            .set("app.operations=2")
            .set("app.sort.threads=2")
            .set("app.sort.input_bytes=8388608")
            .set("app.sort.run_bytes=1048576")
            .set("app.sort.io_bytes=65536")
    };
    vec![
        of("web-server").set("app.web.files=2000").set("app.web.threads=8"),
        of("kv-update").set("app.kv.records=5000").set("app.kv.threads=4"),
        of("pagerank").set("app.pagerank.graph_bytes=8388608"),
        sort(),
    ]
}
