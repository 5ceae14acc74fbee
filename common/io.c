/* io.c: outputs that appear whole or not at all (see io.h). Reading is in io_read.c. */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define OUT_BUF (1u << 20)
/* A large output is sent on its way to the disk in pieces of this size while the program works, so that the
 * fsync at the end has little left to wait for. */
#define EARLY ((size_t)32 << 20)

struct dn_out {
    int fd;
    bool is_stdout, direct; /* direct: a device such as /dev/full, written in place */
    char *path, *tmp;
    unsigned char *buf;
    size_t used;
    uint64_t written, started; /* bytes written; bytes whose way to the disk was started */
    int slot;                  /* in the table of temporary files, -1 for none */
};

/* Temporary files of this process, for the signal handler: unlink() is async-signal-safe, malloc'd lists are
 * not. */
#define MAX_TMP 64
static char *volatile tmp_files[MAX_TMP];

static int tmp_register(char *path)
{
    for (int i = 0; i < MAX_TMP; i++) {
        if (!tmp_files[i]) {
            tmp_files[i] = path;
            return i;
        }
    }
    return -1;
}

static void on_fatal_signal(int sig)
{
    for (int i = 0; i < MAX_TMP; i++) {
        if (tmp_files[i]) unlink(tmp_files[i]);
    }
    signal(sig, SIG_DFL);
    raise(sig);
}

void dn_out_on_signal(void)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_fatal_signal;
    sigemptyset(&sa.sa_mask);
    static const int fatal[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        struct sigaction old;
        /* What the caller had ignored stays ignored: nohup, and background jobs of a script. */
        if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        sigaction(fatal[i], &sa, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static bool is_device(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && !S_ISREG(sb.st_mode) && !S_ISDIR(sb.st_mode);
}

dn_status dn_out_check(const char *path, unsigned flags, dn_err *err)
{
    struct stat sb;
    if (strcmp(path, "-") == 0) {
        if ((flags & DN_OUT_BINARY) && isatty(STDOUT_FILENO)) {
            return dn_fail(err, DN_EUSAGE,
                           "will not write binary data to a terminal: redirect it or use -o FILE");
        }
        return DN_OK;
    }
    if (!*path) return dn_fail(err, DN_EUSAGE, "the output name is empty");
    if (stat(path, &sb) == 0) {
        if (S_ISDIR(sb.st_mode))
            return dn_fail(err, DN_EUSAGE, "output %s is a folder: give a file name", path);
        if (S_ISREG(sb.st_mode) && !(flags & DN_OUT_FORCE)) {
            return dn_fail(err, DN_EUSAGE,
                           "output %s exists already: choose another name, or --force to replace it", path);
        }
        if (!S_ISREG(sb.st_mode)) return DN_OK;
    }
    char *dir = folder_of(path);
    if (!dir) return dn_fail(err, DN_ENOMEM, "out of memory");
    dn_status status = DN_OK;
    if (stat(dir, &sb) != 0) {
        status = dn_fail(err, DN_EWRITE, "cannot write %s: folder %s: %s", path, dir, strerror(errno));
    } else if (!S_ISDIR(sb.st_mode)) {
        status = dn_fail(err, DN_EWRITE, "cannot write %s: %s is not a folder", path, dir);
    } else if (access(dir, W_OK | X_OK) != 0) {
        status = dn_fail(err, DN_EWRITE, "cannot write %s: folder %s: %s", path, dir, strerror(errno));
    }
    free(dir);
    return status;
}

dn_status dn_out_room(const char *path, uint64_t need, dn_err *err)
{
    if (strcmp(path, "-") == 0 || is_device(path)) return DN_OK;
    char *dir = folder_of(path);
    if (!dir) return dn_fail(err, DN_ENOMEM, "out of memory");
    struct statvfs vs;
    dn_status status = DN_OK;
    if (statvfs(dir, &vs) == 0 && vs.f_blocks > 0) {
        uint64_t room = (uint64_t)vs.f_bavail * vs.f_frsize;
        if (room < need) {
            status =
                dn_fail(err, DN_EWRITE, "not enough room for %s: needs %llu bytes, folder %s has %llu free",
                        path, (unsigned long long)need, dir, (unsigned long long)room);
        }
    }
    free(dir);
    return status;
}

dn_status dn_out_open(dn_out **out, const char *path, unsigned flags, dn_err *err)
{
    dn_status status;
    dn_out *o = NULL;
    *out = NULL;
    DN_TRY(dn_out_check(path, flags, err));
    DN_TRY(dn_alloc(&o, 1, sizeof *o, "output", err));
    o->fd = o->slot = -1;
    DN_TRY(dn_alloc(&o->buf, OUT_BUF, 1, "output buffer", err));
    o->is_stdout = strcmp(path, "-") == 0;
    o->path = strdup(o->is_stdout ? "standard output" : path);
    if (!o->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    if (o->is_stdout) {
        o->fd = STDOUT_FILENO;
    } else if (is_device(path)) {
        o->direct = true;
        o->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        if (asprintf(&o->tmp, "%s.tmp.%ld", path, (long)getpid()) < 0) {
            o->tmp = NULL;
            DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
        }
        /* A leftover of the same name can only be from a dead process with our PID. */
        unlink(o->tmp);
        o->slot = tmp_register(o->tmp); /* before it exists: a signal may come at any moment */
        o->fd = open(o->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (o->fd < 0)
        DN_TRY(dn_fail(err, DN_EWRITE, "cannot write %s: %s", o->tmp ? o->tmp : path, strerror(errno)));
    *out = o;
    o = NULL;
    status = DN_OK;
done:
    dn_out_abort(&o);
    return status;
}

static dn_status write_all(dn_out *o, const unsigned char *p, size_t n, dn_err *err)
{
    const size_t most = o->tmp ? EARLY : (size_t)1 << 30;
    while (n) {
        ssize_t k = write(o->fd, p, n > most ? most : n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return dn_fail(err, DN_EWRITE, "cannot write %s: %s", o->path,
                           k < 0 ? strerror(errno) : "no room");
        p += k;
        n -= (size_t)k;
        o->written += (uint64_t)k;
        if (o->tmp && o->written - o->started >= EARLY) {
            /* Only a hint, so its failure is none. */
            (void)sync_file_range(o->fd, (off_t)o->started, (off_t)(o->written - o->started),
                                  SYNC_FILE_RANGE_WRITE);
            o->started = o->written;
        }
    }
    return DN_OK;
}

static dn_status flush(dn_out *o, dn_err *err)
{
    size_t n = o->used;
    o->used = 0;
    return n ? write_all(o, o->buf, n, err) : DN_OK;
}

dn_status dn_out_write(dn_out *o, const void *p, size_t n, dn_err *err)
{
    if (o->used + n > OUT_BUF) {
        dn_status status = flush(o, err);
        if (status != DN_OK) return status;
        if (n >= OUT_BUF) return write_all(o, p, n, err);
    }
    if (n) memcpy(o->buf + o->used, p, n);
    o->used += n;
    return DN_OK;
}

dn_status dn_out_printf(dn_out *o, dn_err *err, const char *fmt, ...)
{
    char small[1024], *large = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof small) {
        va_start(ap, fmt);
        n = vasprintf(&large, fmt, ap);
        va_end(ap);
        if (n < 0) return dn_fail(err, DN_ENOMEM, "out of memory");
    }
    if (n < 0) return dn_fail(err, DN_EINTERNAL, "cannot format text for %s", o->path);
    dn_status status = dn_out_write(o, large ? large : small, (size_t)n, err);
    free(large);
    return status;
}

dn_status dn_out_pwrite(dn_out *o, const void *buf, size_t n, uint64_t offset, dn_err *err)
{
    const unsigned char *p = buf;
    while (n) {
        ssize_t k = pwrite(o->fd, p, n > (1u << 30) ? (1u << 30) : n, (off_t)offset);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return dn_fail(err, DN_EWRITE, "cannot write %s: %s", o->path,
                           k < 0 ? strerror(errno) : "no room");
        p += k;
        n -= (size_t)k;
        offset += (uint64_t)k;
    }
    return DN_OK;
}

const char *dn_out_tmp_path(const dn_out *o)
{
    return o->direct ? o->path : o->tmp;
}

const char *dn_out_path(const dn_out *o)
{
    return o->path;
}

dn_status dn_out_sync(dn_out *o, dn_err *err)
{
    dn_status status = flush(o, err);
    if (status != DN_OK || o->is_stdout || o->direct) return status;
    if (fsync(o->fd) != 0) return dn_fail(err, DN_EWRITE, "cannot write %s: %s", o->path, strerror(errno));
    return DN_OK;
}

static void out_free(dn_out *o)
{
    if (o->fd >= 0 && !o->is_stdout) close(o->fd);
    if (o->slot >= 0) tmp_files[o->slot] = NULL;
    free(o->buf);
    free(o->path);
    free(o->tmp);
    free(o);
}

dn_status dn_out_commit(dn_out **op, dn_err *err)
{
    dn_status status;
    dn_out *o = *op;
    char *dir = NULL;
    DN_TRY(flush(o, err));
    if (o->is_stdout) {
        /* close() is where some file systems report a full disk; stdout is not used after a commit. */
        int fd = dup(o->fd);
        if (fd >= 0 && close(fd) != 0)
            DN_TRY(dn_fail(err, DN_EWRITE, "cannot write %s: %s", o->path, strerror(errno)));
    } else if (!o->direct) {
        if (fsync(o->fd) != 0)
            DN_TRY(dn_fail(err, DN_EWRITE, "cannot write %s: %s", o->path, strerror(errno)));
        int fd = o->fd;
        o->fd = -1;
        if (close(fd) != 0) DN_TRY(dn_fail(err, DN_EWRITE, "cannot write %s: %s", o->path, strerror(errno)));
        if (rename(o->tmp, o->path) != 0) {
            DN_TRY(dn_fail(err, DN_EWRITE, "cannot rename %s to %s: %s", o->tmp, o->path, strerror(errno)));
        }
        if (o->slot >= 0) tmp_files[o->slot] = NULL, o->slot = -1;
        free(o->tmp);
        o->tmp = NULL;
        /* The rename itself must survive a crash; not every file system lets a folder be synced, so no error.
         */
        dir = folder_of(o->path);
        int dfd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (dfd >= 0) {
            (void)fsync(dfd);
            close(dfd);
        }
    }
    status = DN_OK;
done:
    free(dir);
    dn_out_abort(op);
    return status;
}

void dn_out_abort(dn_out **op)
{
    if (!op || !*op) return;
    if ((*op)->tmp) unlink((*op)->tmp);
    out_free(*op);
    *op = NULL;
}
