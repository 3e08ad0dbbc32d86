/* A preloaded library that makes a disk full: the nth call to the C library that writes below a folder fails. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char below[4096]; /* the folder whose calls are counted; empty if none */
static long at, asked;
static int lasting, reason;

/* Start counting: the `nth` call fails with `error`, later ones too if `for_good`; 0 fails none. */
void fill_disk(const char *folder, long nth, int for_good, int error) {
    at = nth, lasting = for_good, reason = error, asked = 0;
    snprintf(below, sizeof below, "%s", folder);
}

/* Stop counting, and return the number of calls. */
long empty_disk(void) {
    below[0] = 0;
    return asked;
}

static int is_full(const char *path) {
    if (!below[0] || !path || strncmp(path, below, strlen(below))) return 0;
    long nth = __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
    if (!at || nth < at || (nth > at && !lasting)) return 0;
    errno = reason;
    return 1;
}

static int is_full_of(int file) {
    char link[64], path[4096];
    if (!below[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_full(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define OF_FILE(kind, name, parameters, arguments) \
    kind name parameters { return is_full_of(file) ? -1 : REAL(name) arguments; }
#define OF_PATH(name, parameters, arguments) \
    int name parameters { return is_full(path) ? -1 : REAL(name) arguments; }
#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        if ((flags & O_CREAT) && below[0] && access(path, F_OK) && is_full(path)) return -1; \
        return REAL(name)(path, flags, mode); \
    }

OPENS(open)
OPENS(open64)
OF_FILE(ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
OF_FILE(ssize_t, pwrite, (int file, const void *data, size_t size, off_t to), (file, data, size, to))
OF_FILE(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t to), (file, data, size, to))
OF_FILE(int, fsync, (int file), (file))
OF_FILE(int, fdatasync, (int file), (file))
OF_FILE(int, ftruncate, (int file, off_t size), (file, size))
OF_FILE(int, ftruncate64, (int file, off64_t size), (file, size))
OF_PATH(mkdir, (const char *path, mode_t mode), (path, mode))
OF_PATH(rename, (const char *path, const char *to), (path, to))
OF_PATH(link, (const char *path, const char *to), (path, to))
