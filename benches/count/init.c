// The only program of the guest: loads the modules that /modules names, reads and writes 4 KiB of a drive by each engine,
// between marks (counter.c). At the end it writes the kernel's and the modules' symbols to a second drive, for sum.py.
// The kernel hands `drive=', `symbols=' and `scheduler=' of its command line on as the environment.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MARK(n) __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00," #n ",0x57,0x57,0x57" ::: "memory")
enum { IOS = 512, WARM = 64, MOST = 128, BLOCK = 4096, BLOCKS = 8192 };

static char *buffer;
static int drive;

static void need(int ok, const char *what) {
    if (ok) return;
    perror(what);
    reboot(RB_POWER_OFF);
}

static long offset(void) {
    static unsigned long state = 1;
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (long)((state >> 33) % BLOCKS) * BLOCK;
}

static const char *option(const char *name, const char *otherwise) {
    return getenv(name) ? getenv(name) : otherwise;
}

static int drive_open(const char *name, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/dev/%s", name);
    int file = -1;
    for (int i = 0; i < 100 && (file = open(path, flags)) < 0; i++) usleep(100000);
    need(file >= 0, path);
    return file;
}

static void modules(void) {
    FILE *names = fopen("/modules", "r");
    char name[256];
    while (names && fscanf(names, "%255s", name) == 1) {
        int file = open(name, O_RDONLY);
        need(file >= 0 && syscall(SYS_finit_module, file, "", 0) == 0, name);
        close(file);
    }
}

// Prints an attribute of the drive, after setting it if there is a value.
static void attribute(const char *name, const char *value) {
    char path[128], is[64];
    snprintf(path, sizeof path, "/sys/block/%s/%s", option("drive", "nvme0n1"), name);
    int file = open(path, value ? O_RDWR : O_RDONLY);
    if (value) need(write(file, value, strlen(value)) == (ssize_t)strlen(value), path);
    ssize_t n = pread(file, is, sizeof is, 0);
    if (n > 0) printf("%s: %.*s", name, (int)n, is);
    close(file);
}

static void aio(int depth) {
    aio_context_t context = 0;
    struct iocb iocbs[MOST];
    struct io_event events[MOST];
    need(syscall(SYS_io_setup, MOST, &context) == 0, "io_setup");
    for (int round = -WARM / depth; round < IOS / depth; round++) {
        if (round == 0 && depth == 1) MARK(0x05);
        if (round == 0 && depth > 1) MARK(0x07);
        for (int i = 0; i < depth; i++) {
            struct iocb *one = &iocbs[i];
            memset(one, 0, sizeof *one);
            one->aio_fildes = drive;
            one->aio_lio_opcode = IOCB_CMD_PREAD;
            one->aio_buf = (unsigned long)buffer + i * BLOCK;
            one->aio_nbytes = BLOCK;
            one->aio_offset = offset();
            need(syscall(SYS_io_submit, context, 1, &one) == 1, "io_submit");
        }
        for (int got = 0; got < depth;) got += syscall(SYS_io_getevents, context, 1, MOST, events, NULL);
    }
    if (depth == 1) MARK(0x06);
    if (depth > 1) MARK(0x08);
    syscall(SYS_io_destroy, context);
}

static void uring(int depth) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    int ring = syscall(SYS_io_uring_setup, MOST, &p);
    need(ring >= 0, "io_uring_setup");
    int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, prot, flags, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * 16, prot, flags, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqes = mmap(0, p.sq_entries * sizeof *sqes, prot, flags, ring, IORING_OFF_SQES);
    unsigned *tail = (unsigned *)(sq + p.sq_off.tail), *array = (unsigned *)(sq + p.sq_off.array);
    unsigned *head = (unsigned *)(cq + p.cq_off.head);
    volatile unsigned *end = (unsigned *)(cq + p.cq_off.tail);
    for (int round = -WARM / depth; round < IOS / depth; round++) {
        if (round == 0 && depth == 1) MARK(0x09);
        if (round == 0 && depth > 1) MARK(0x0b);
        for (int i = 0; i < depth; i++) {
            unsigned at = *tail & (p.sq_entries - 1);
            struct io_uring_sqe *sqe = &sqes[at];
            memset(sqe, 0, sizeof *sqe);
            sqe->opcode = IORING_OP_READ;
            sqe->fd = drive;
            sqe->addr = (unsigned long)buffer + i * BLOCK;
            sqe->len = BLOCK;
            sqe->off = offset();
            array[at] = at;
            ++*tail;
        }
        need(syscall(SYS_io_uring_enter, ring, depth, 1, IORING_ENTER_GETEVENTS, 0, 0) == depth, "io_uring_enter");
        for (int left = depth;;) {
            for (; *end != *head; left--) ++*head;
            if (!left) break;
            syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0);
        }
    }
    if (depth == 1) MARK(0x0a);
    if (depth > 1) MARK(0x0c);
    close(ring);
}

static void symbols(void) {
    char bytes[65536];
    int from = open("/proc/kallsyms", O_RDONLY), to = drive_open(option("symbols", "nvme1n1"), O_WRONLY);
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;) need(write(to, bytes, n) == n, "symbols");
    need(write(to, "\nEND\n", 5) == 5 && fsync(to) == 0, "symbols");
}

int main(void) {
    mkdir("/dev", 0755);
    mkdir("/sys", 0755);
    mount("devtmpfs", "/dev", "devtmpfs", 0, 0);
    mount("sysfs", "/sys", "sysfs", 0, 0);
    int console = open("/dev/console", O_RDWR);
    dup2(console, 1);
    dup2(console, 2);
    buffer = aligned_alloc(BLOCK, MOST * BLOCK);
    memset(buffer, 1, MOST * BLOCK);
    mkdir("/proc", 0755);
    mount("proc", "/proc", "proc", 0, 0);
    modules();
    drive = drive_open(option("drive", "nvme0n1"), O_RDWR | O_DIRECT);
    attribute("queue/scheduler", option("scheduler", "none"));
    for (const char *const *name = (const char *const[]){"queue/nr_requests", "queue/rotational", "queue/add_random",
                                                         "queue/wbt_lat_usec", "device/queue_depth", NULL};
         *name; name++)
        attribute(*name, NULL);

    for (int i = -WARM; i < IOS; i++) {
        if (i == 0) MARK(0x01);
        need(pread(drive, buffer, BLOCK, offset()) == BLOCK, "pread");
    }
    MARK(0x02);
    for (int i = -WARM; i < IOS; i++) {
        if (i == 0) MARK(0x03);
        need(pwrite(drive, buffer, BLOCK, offset()) == BLOCK, "pwrite");
    }
    MARK(0x04);
    aio(1);
    aio(16);
    uring(1);
    uring(16);
    for (int i = -WARM; i < IOS; i++) {
        if (i == 0) MARK(0x0d);
        syscall(SYS_getppid);
    }
    MARK(0x0e);
    symbols();
    printf("all done\n");
    reboot(RB_POWER_OFF);
}
