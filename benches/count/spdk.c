// SPDK's NVMe driver with an application and a drive around it that do nothing: what an empty look at a
// completion queue costs, and what reads of one page and of sixteen cost. For SPDK 19.07, whose PCIe transport
// is one file with all its types, so that it is included.
#define _GNU_SOURCE
#include "lib/nvme/nvme_pcie.c"

#include <time.h>
#include <valgrind/callgrind.h>

enum { ENTRIES = 256, REQUESTS = 512, WARM = 1000 };

static struct nvme_pcie_ctrlr controller;
static struct spdk_nvme_ns namespace;
static struct nvme_pcie_qpair *pair;
static void *data;
static uint64_t completed;
static uint32_t sectors = 8;

static void complete(void *of, const struct spdk_nvme_cpl *entry) {
    completed++;
}

static int __attribute__((noinline)) look(void) {
    return spdk_nvme_qpair_process_completions(&pair->qpair, 1);
}

static int __attribute__((noinline)) submit(void) {
    return spdk_nvme_ns_cmd_read_with_md(&namespace, &pair->qpair, data, NULL, 8, sectors / 8, complete, NULL, 0, 0, 0);
}

// The drive: it completes the newest command.
static void __attribute__((noinline)) drive(void) {
    static uint16_t tail;
    static int phase = 1;
    uint16_t newest = (pair->sq_tail + ENTRIES - 1) % ENTRIES;
    struct spdk_nvme_cpl entry = {.cid = pair->cmd[newest].cid, .sqhd = pair->sq_tail, .status.p = phase};
    pair->cpl[tail] = entry;
    if (++tail == ENTRIES) {
        tail = 0;
        phase = !phase;
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int looks = !strcmp(argv[1], "look"), n = atoi(argv[2]);
    if (!strcmp(argv[1], "read-64k")) sectors = 128;
    struct spdk_nvme_ctrlr *c = &controller.ctrlr;
    data = spdk_zmalloc(65536, 4096, NULL, 0, 0);
    controller.regs = spdk_zmalloc(65536, 4096, NULL, 0, 0);
    controller.doorbell_stride_u32 = 1;
    spdk_nvme_ctrlr_get_default_ctrlr_opts(&c->opts, sizeof c->opts);
    c->trid.trtype = SPDK_NVME_TRANSPORT_PCIE;
    c->min_page_size = c->page_size = 4096;
    c->max_xfer_size = 131072;
    c->opts.io_queue_size = ENTRIES;
    c->opts.io_queue_requests = REQUESTS;
    TAILQ_INIT(&c->active_io_qpairs);
    TAILQ_INIT(&c->active_procs);
    STAILQ_INIT(&c->queued_aborts);
    namespace.ctrlr = c;
    namespace.id = 1;
    namespace.sector_size = namespace.extended_lba_size = 4096;
    namespace.sectors_per_max_io = 32;
    pair = calloc(1, sizeof *pair);
    pair->num_entries = ENTRIES;
    if (nvme_qpair_init(&pair->qpair, 1, c, 0, REQUESTS) || nvme_pcie_qpair_construct(&pair->qpair, NULL)) return 1;
    pair->qpair.trtype = SPDK_NVME_TRANSPORT_PCIE;
    pair->qpair.is_enabled = 1;
    nvme_pcie_qpair_reset(&pair->qpair);
    for (int i = 0; i < WARM; i++) {
        if (submit()) return 1;
        look();
        drive();
        look();
    }
    if (completed != WARM) return 1;

    double begin = now();
    CALLGRIND_START_INSTRUMENTATION;
    for (int i = 0; i < n; i++) {
        if (!looks) {
            submit();
            drive();
        }
        look();
    }
    CALLGRIND_STOP_INSTRUMENTATION;
    printf("%s: %.1f ns\n", argv[1], (now() - begin) / n);
}
