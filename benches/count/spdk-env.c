// What SPDK's driver asks of its environment on the way of an I/O. Addresses are translated by two levels of
// tables, by 2 MiB, as DPDK's environment does.
#include "spdk/env.h"
#include "spdk/log.h"
#include "spdk/stdinc.h"

void *spdk_zmalloc(size_t size, size_t align, uint64_t *phys, int socket, uint32_t flags) {
    align = align < 64 ? 64 : align;
    size = (size + align - 1) / align * align;
    return memset(aligned_alloc(align, size), 0, size);
}

void *spdk_malloc(size_t size, size_t align, uint64_t *phys, int socket, uint32_t flags) {
    return spdk_zmalloc(size, align, phys, socket, flags);
}

void spdk_free(void *memory) {
    free(memory);
}

uint64_t spdk_vtophys(void *of, uint64_t *size) {
    static uint64_t gigabyte[512], *table[1 << 18];
    uint64_t address = (uint64_t)of, **entry = &table[(address >> 30) & ((1 << 18) - 1)];
    if (!*entry) *entry = gigabyte;
    return address + (*entry)[(address >> 21) & 511];
}

uint64_t spdk_get_ticks(void) {
    return __builtin_ia32_rdtsc();
}

void spdk_log(enum spdk_log_level level, const char *file, int line, const char *func, const char *format, ...) {}
