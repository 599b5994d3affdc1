// A plugin of QEMU that counts instructions, loads and stores of the guest by translated block, and how often the
// block is entered, between two marks; with MMIO in the environment the loads and stores of devices' registers, too.
// A mark is an eight-byte NOP that ends in 57 57 57: an odd number before begins, the next one ends.
// The declarations are those of the plugin interface, version 1 (QEMU, docs/devel/tcg-plugins.rst).
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD = 0, NO_REGISTERS = 0, LOADS_AND_STORES = 3 };
// In QEMU 7.2 the callback of a plugin sees 1 at stores and 2 at loads (`dd_has_work` of Linux, which only
// loads, has none of 1).
enum { STORES = 1, LOADS = 2 };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t, void (*)(uint64_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_inline(struct qemu_plugin_insn *, int, int, void *, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);
struct qemu_plugin_hwaddr;
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t, uint64_t);
_Bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
_Bool qemu_plugin_mem_is_store(uint32_t);

int qemu_plugin_version = 1;

struct counts {
    uint64_t runs, instructions, loads, stores, device_loads, device_stores;
};

struct block {
    uint64_t address;
    struct counts now, begin;
    struct block *next;
};

static struct block *blocks;
static FILE *out;
static int devices;

static void mark(unsigned cpu, void *number) {
    int n = (int)(intptr_t)number;
    if (n & 1) {
        for (struct block *b = blocks; b; b = b->next) b->begin = b->now;
        return;
    }
    fprintf(out, "== %d\n", n);
    for (struct block *b = blocks; b; b = b->next) {
        uint64_t runs = b->now.runs - b->begin.runs;
        if (runs || b->now.loads != b->begin.loads || b->now.stores != b->begin.stores)
            fprintf(out, "%lx %lu %lu %lu %lu %lu %lu\n", b->address, b->now.instructions - b->begin.instructions,
                    b->now.loads - b->begin.loads, b->now.stores - b->begin.stores, runs,
                    b->now.device_loads - b->begin.device_loads, b->now.device_stores - b->begin.device_stores);
    }
    fflush(out);
}

static void access_of(unsigned cpu, uint32_t info, uint64_t address, void *block) {
    struct counts *now = &((struct block *)block)->now;
    struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, address);
    if (where && qemu_plugin_hwaddr_is_io(where)) ++*(qemu_plugin_mem_is_store(info) ? &now->device_stores : &now->device_loads);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb) {
    struct block *b = calloc(1, sizeof *b);
    b->address = qemu_plugin_tb_vaddr(tb);
    b->next = blocks;
    blocks = b;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &b->now.runs, 1);
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const unsigned char *code = qemu_plugin_insn_data(insn);
        // By instruction: a block that comes upon a device's register ends there and goes on as another.
        qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD, &b->now.instructions, 1);
        qemu_plugin_register_vcpu_mem_inline(insn, LOADS, ADD, &b->now.loads, 1);
        qemu_plugin_register_vcpu_mem_inline(insn, STORES, ADD, &b->now.stores, 1);
        if (devices) qemu_plugin_register_vcpu_mem_cb(insn, access_of, NO_REGISTERS, LOADS_AND_STORES, b);
        if (qemu_plugin_insn_size(insn) == 8 && code[0] == 0x0f && code[1] == 0x1f && code[2] == 0x84 && code[5] == 0x57
            && code[6] == 0x57 && code[7] == 0x57)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, mark, NO_REGISTERS, (void *)(intptr_t)code[4]);
    }
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv) {
    const char *path = getenv("COUNTS");
    out = fopen(path ? path : "counts.txt", "w");
    if (!out) return 1;
    devices = getenv("MMIO") != NULL;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
