/*
 * The floor that fsdyno is measured against: the system calls of its
 * `small-files` workload in one directory, in a bare loop, with names and
 * buffers prepared before and nothing recorded but the time of each phase.
 *
 *     bare_loop DIRECTORY FILES BYTES [create]
 *
 * Prints `PHASE NANOSECONDS` for create, stat, read and delete. The directory
 * must exist and is empty again afterwards; with `create` the files stay.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 16, READ_BYTES = 262144 };

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static const char *name_of(const char *names, long i)
{
    return names + i * NAME_BYTES;
}

static void create_all(int dir, const char *names, long files, const char *payload, size_t bytes)
{
    for (long i = 0; i < files; i++) {
        int fd = openat(dir, name_of(names, i), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0)
            err(1, "cannot create %s", name_of(names, i));
        if (write(fd, payload, bytes) != (ssize_t)bytes)
            err(1, "cannot write %s", name_of(names, i));
        if (close(fd) != 0)
            err(1, "cannot close %s", name_of(names, i));
    }
}

static void stat_all(int dir, const char *names, long files)
{
    struct stat facts;
    for (long i = 0; i < files; i++)
        if (fstatat(dir, name_of(names, i), &facts, AT_SYMLINK_NOFOLLOW) != 0)
            err(1, "cannot stat %s", name_of(names, i));
}

static void read_all(int dir, const char *names, long files, char *buffer, size_t bytes)
{
    for (long i = 0; i < files; i++) {
        size_t total = 0;
        ssize_t got;
        int fd = openat(dir, name_of(names, i), O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            err(1, "cannot open %s", name_of(names, i));
        while ((got = read(fd, buffer, READ_BYTES)) > 0)
            total += (size_t)got;
        if (got < 0 || total != bytes)
            err(1, "%s holds %zu bytes instead of %zu", name_of(names, i), total, bytes);
        if (close(fd) != 0)
            err(1, "cannot close %s", name_of(names, i));
    }
}

static void delete_all(int dir, const char *names, long files)
{
    for (long i = 0; i < files; i++)
        if (unlinkat(dir, name_of(names, i), 0) != 0)
            err(1, "cannot delete %s", name_of(names, i));
}

int main(int argc, char **argv)
{
    int only_create = argc == 5 && strcmp(argv[4], "create") == 0;
    if (argc != 4 && !only_create)
        errx(2, "usage: bare_loop DIRECTORY FILES BYTES [create]");
    long files = atol(argv[2]);
    long bytes = atol(argv[3]);
    if (files <= 0 || files > 10000000 || bytes <= 0 || bytes > READ_BYTES)
        errx(2, "FILES must be 1..10000000 and BYTES 1..%d", READ_BYTES);
    int dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        err(1, "cannot open %s", argv[1]);

    char *names = malloc((size_t)files * NAME_BYTES);
    char *payload = malloc((size_t)bytes);
    char *buffer = malloc(READ_BYTES);
    if (!names || !payload || !buffer)
        errx(1, "out of memory");
    for (long i = 0; i < files; i++)
        snprintf(names + i * NAME_BYTES, NAME_BYTES, "f%08ld", i);
    memset(payload, 'a', (size_t)bytes);
    memset(buffer, 0, READ_BYTES);

    long long t0 = now_ns();
    create_all(dir, names, files, payload, (size_t)bytes);
    long long t1 = now_ns();
    if (only_create) {
        printf("create %lld\n", t1 - t0);
        return 0;
    }
    stat_all(dir, names, files);
    long long t2 = now_ns();
    read_all(dir, names, files, buffer, (size_t)bytes);
    long long t3 = now_ns();
    delete_all(dir, names, files);
    long long t4 = now_ns();
    printf("create %lld\nstat %lld\nread %lld\ndelete %lld\n", t1 - t0, t2 - t1, t3 - t2, t4 - t3);
    return 0;
}
