/* lock.c: one owner per task (see lock.h). */
#include "lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "opt.h"

#define LOCK_MAGIC "dnpipe lock 1\n"
#define LOCK_MAX   4096

/* What a lock file says. */
typedef struct {
    char host[128], boot[64], job[64], nonce[40];
    uint64_t pid, start, restart;
    bool kernel; /* the owner holds a kernel lock on the file */
} owner;

bool dn_lock_without_links;

struct dn_lock {
    int fd;
    char *path;
    bool moved; /* our file was renamed, not linked, to the name it has now */
    bool lost;  /* our file was swept before it had a name to keep: write another */
    owner me;
};

/* ---- who we are ---- */

static void first_line(const char *path, char *buf, size_t cap)
{
    buf[0] = 0;
    FILE *f = fopen(path, "re");
    if (!f) return;
    if (!fgets(buf, (int)cap, f)) buf[0] = 0;
    fclose(f);
    buf[strcspn(buf, "\n")] = 0;
}

/* Field 22 of /proc/PID/stat: when the process started; 0 when there is no such process. The name in field 2
 * may hold blanks and brackets, so fields are counted from the last ')'. */
static uint64_t start_of(uint64_t pid)
{
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    first_line(path, text, sizeof text);
    char *p = strrchr(text, ')');
    if (!p) return 0;
    for (int field = 2; field < 22; field++) {
        p = strchr(p + 1, ' ');
        if (!p) return 0;
    }
    return strtoull(p + 1, NULL, 10);
}

/* Printable, without blanks or line ends: every value is one word. */
static void word_into(char *dst, size_t cap, const char *src)
{
    size_t n = 0;
    for (; *src && n + 1 < cap; src++) dst[n++] = *src > ' ' && *src < 0x7f ? *src : '_';
    dst[n] = 0;
}

static void describe_me(owner *o)
{
    char text[256] = "";
    memset(o, 0, sizeof *o);
    if (gethostname(text, sizeof text - 1) != 0) text[0] = 0;
    word_into(o->host, sizeof o->host, *text ? text : "unknown");
    first_line("/proc/sys/kernel/random/boot_id", text, sizeof text);
    word_into(o->boot, sizeof o->boot, *text ? text : "unknown");
    o->pid = (uint64_t)getpid();
    o->start = start_of(o->pid);
    const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID"),
               *job = getenv("SLURM_JOB_ID");
    const char *restart = getenv("SLURM_RESTART_COUNT");
    if (array && *array && task && *task)
        snprintf(text, sizeof text, "%.30s_%.30s", array, task);
    else
        snprintf(text, sizeof text, "%.60s", job && *job ? job : "-");
    word_into(o->job, sizeof o->job, text);
    if (!restart || !dn_parse_u64(restart, &o->restart)) o->restart = 0;
    uint64_t r[2] = {0, 0};
    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        r[0] = (uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec;
        r[1] = o->pid << 32 ^ (uint64_t)(uintptr_t)o;
    }
    snprintf(o->nonce, sizeof o->nonce, "%016llx%016llx", (unsigned long long)r[0], (unsigned long long)r[1]);
}

static int write_owner(char *buf, size_t cap, const owner *o)
{
    return snprintf(buf, cap,
                    LOCK_MAGIC
                    "host %s\nboot %s\npid %llu\nstart %llu\njob %s\nrestart %llu\nnonce %s\nkernel %d\n",
                    o->host, o->boot, (unsigned long long)o->pid, (unsigned long long)o->start, o->job,
                    (unsigned long long)o->restart, o->nonce, (int)o->kernel);
}

static bool is_hex(const char *s)
{
    return *s && strspn(s, "0123456789abcdef") == strlen(s);
}

static bool parse_owner(const char *text, owner *o)
{
    int kernel = 0;
    unsigned long long pid, start, restart;
    memset(o, 0, sizeof *o);
    if (strncmp(text, LOCK_MAGIC, strlen(LOCK_MAGIC)) != 0) return false;
    int n = sscanf(text + strlen(LOCK_MAGIC),
                   "host %127s boot %63s pid %llu start %llu job %63s restart %llu nonce %39s kernel %d",
                   o->host, o->boot, &pid, &start, o->job, &restart, o->nonce, &kernel);
    o->pid = pid, o->start = start, o->restart = restart, o->kernel = kernel != 0;
    /* The random number becomes part of a file name. */
    return n == 8 && is_hex(o->nonce);
}

/* ---- kernel locks ---- */

typedef enum { KERNEL_FREE, KERNEL_HELD, KERNEL_NONE } kernel_state;

/* Record locks of the process, not of the open file: a child forked while the lock is held (h5_probe.c) must
 * not keep it alive after the owner's death. Their price: closing any descriptor of the file gives the lock
 * up, so that nobody in this process may open its own lock again; look() knows its owner before it comes to
 * that. */
static bool kernel_lock(int fd)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &l) == 0;
}

/* Only asks: taking the lock to find out would make the owner look alive to others who ask meanwhile. */
static kernel_state kernel_ask(int fd)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_GETLK, &l) != 0) return KERNEL_NONE;
    return l.l_type == F_UNLCK ? KERNEL_FREE : KERNEL_HELD;
}

/* ---- reading somebody's lock ---- */

typedef enum { SEEN_ABSENT, SEEN_ALIVE, SEEN_DEAD } seen;

/* What to call the owner in messages. */
static void name_owner(const owner *o, char *buf, size_t cap)
{
    bool job = strcmp(o->job, "-") != 0;
    snprintf(buf, cap, "process %llu on host %s%s%s", (unsigned long long)o->pid, o->host,
             job ? ", job " : "", job ? o->job : "");
}

static bool same_process(const owner *a, const owner *b)
{
    return a->pid == b->pid && a->start == b->start && strcmp(a->boot, b->boot) == 0 &&
           strcmp(a->host, b->host) == 0;
}

static bool same_host(const owner *a, const owner *b)
{
    return strcmp(a->host, b->host) == 0;
}

/* Reads the lock file and judges its owner. DN_EFORMAT when it is no lock. */
static dn_status look(const char *path, const owner *me, owner *them, seen *what, dn_err *err)
{
    char text[LOCK_MAX];
    *what = SEEN_ABSENT;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        if (errno == ENOENT) return DN_OK;
        return dn_fail(err, DN_EWRITE, "cannot read lock %s: %s", path, strerror(errno));
    }
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n < 0) n = 0;
    text[n] = 0;
    if (!parse_owner(text, them)) {
        close(fd);
        return dn_fail(err, DN_EFORMAT,
                       "%s is not a lock of dnpipe: if no other process uses this task, remove it", path);
    }
    *what = SEEN_ALIVE;
    if (strcmp(me->job, "-") != 0 && strcmp(me->job, them->job) == 0 && me->restart > them->restart) {
        *what = SEEN_DEAD; /* SLURM ends a job before it starts it again */
    } else if (same_process(me, them)) {
        *what = SEEN_ALIVE;
    } else if (same_host(me, them)) {
        kernel_state k = them->kernel ? kernel_ask(fd) : KERNEL_NONE;
        if (k == KERNEL_FREE)
            *what = SEEN_DEAD;
        else if (k == KERNEL_NONE) {
            bool runs =
                strcmp(me->boot, them->boot) == 0 && start_of(them->pid) == them->start && them->start != 0;
            *what = runs ? SEEN_ALIVE : SEEN_DEAD;
        }
    }
    close(fd);
    return DN_OK;
}

static dn_status refuse(const char *path, const owner *me, const owner *them, dn_err *err)
{
    char who[320];
    name_owner(them, who, sizeof who);
    if (same_host(me, them)) {
        return dn_fail(err, DN_EMISMATCH,
                       "this task is being trained by %s (lock %s): wait for it, or stop it first", who,
                       path);
    }
    return dn_fail(err, DN_EMISMATCH,
                   "this task is being trained by %s (lock %s): whether it still runs cannot be seen from "
                   "host %s. If it "
                   "does not (squeue, or ps on that host), remove the lock file and start again",
                   who, path, me->host);
}

/* ---- taking ---- */

/* Gives our file, written under the name tmp, a name that nobody has: exactly one process succeeds. link(2)
 * can succeed on NFS and report an error when the answer is lost: two names are the proof. */
static bool link_as(dn_lock *l, const char *tmp, const char *name, int *error)
{
    struct stat sb;
    l->moved = false;
    if (!dn_lock_without_links) {
        if (link(tmp, name) == 0) return true;
        *error = errno;
        if (*error != EPERM && *error != EOPNOTSUPP && *error != ENOSYS) {
            if (fstat(l->fd, &sb) != 0) return false;
            l->lost = sb.st_nlink == 0;
            return sb.st_nlink == 2;
        }
    }
    l->moved = renameat2(AT_FDCWD, tmp, AT_FDCWD, name, RENAME_NOREPLACE) == 0;
    if (!l->moved) {
        *error = errno;
        l->lost = fstat(l->fd, &sb) == 0 && sb.st_nlink == 0;
    }
    return l->moved;
}

/* Takes a name back that link_as() gave. */
static void unlink_as(dn_lock *l, const char *tmp, const char *name)
{
    if (l->moved)
        rename(name, tmp);
    else
        unlink(name);
    l->moved = false;
}

/* Claims the right to replace the lock whose random number is them->nonce: a chain, as a claimer may die too.
 * *claimed is the name of our claim (free it after use), or NULL when somebody alive holds the claim. */
static dn_status claim(dn_lock *l, const char *tmp, const owner *them, char **claimed, dn_err *err)
{
    owner dead = *them;
    *claimed = NULL;
    for (int depth = 0; depth < 64; depth++) {
        char *name = NULL;
        int error = 0;
        owner next;
        seen what;
        if (asprintf(&name, "%s.claim.%s", l->path, dead.nonce) < 0)
            return dn_fail(err, DN_ENOMEM, "out of memory");
        if (link_as(l, tmp, name, &error)) {
            *claimed = name;
            return DN_OK;
        }
        if (l->lost) {
            free(name);
            return DN_OK;
        }
        if (error != EEXIST) {
            dn_status status = dn_fail(err, DN_EWRITE, "cannot write lock %s: %s", name, strerror(error));
            free(name);
            return status;
        }
        dn_status status = look(name, &l->me, &next, &what, err);
        free(name);
        if (status != DN_OK) return status;
        if (what == SEEN_ALIVE) return DN_OK;
        if (what == SEEN_DEAD) dead = next;
    }
    return dn_fail(err, DN_EINTERNAL, "lock %s: too many dead claims: remove %s*", l->path, l->path);
}

/* Writes our lock aside and locks it in the kernel before anybody can see it. */
static dn_status write_aside(dn_lock *l, char **tmp, dn_err *err)
{
    char text[LOCK_MAX];
    if (asprintf(tmp, "%s.new.%s", l->path, l->me.nonce) < 0) {
        *tmp = NULL;
        return dn_fail(err, DN_ENOMEM, "out of memory");
    }
    l->fd = open(*tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (l->fd < 0) return dn_fail(err, DN_EWRITE, "cannot write lock %s: %s", *tmp, strerror(errno));
    l->me.kernel = kernel_lock(l->fd);
    int n = write_owner(text, sizeof text, &l->me);
    ssize_t k = write(l->fd, text, (size_t)n);
    if (k != n || fsync(l->fd) != 0) {
        return dn_fail(err, DN_EWRITE, "cannot write lock %s: %s", *tmp,
                       k == n || k < 0 ? strerror(errno) : "no room");
    }
    return DN_OK;
}

/* Is the file of that name ours? */
static bool is_ours(const dn_lock *l, const char *path)
{
    struct stat a, b;
    return fstat(l->fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* One try: *done when the lock is ours; refused with an error when somebody alive has it; else try again. */
static dn_status attempt(dn_lock *l, const char *tmp, bool *done, owner *dead, bool *took_over, dn_err *err)
{
    owner them, again;
    seen what;
    int error = 0;
    *done = false;
    if (link_as(l, tmp, l->path, &error)) {
        *done = true;
        return DN_OK;
    }
    if (l->lost) return DN_OK;
    if (error != EEXIST) return dn_fail(err, DN_EWRITE, "cannot write lock %s: %s", l->path, strerror(error));
    dn_status status = look(l->path, &l->me, &them, &what, err);
    if (status != DN_OK || what == SEEN_ABSENT) return status;
    if (what == SEEN_ALIVE) return refuse(l->path, &l->me, &them, err);
    char *claimed;
    status = claim(l, tmp, &them, &claimed, err);
    if (status != DN_OK) return status;
    if (!claimed) return DN_OK; /* another taker is at it: look again in a moment */
    /* Somebody may have taken over and gone before we claimed: the lock must still be the one we judged. */
    status = look(l->path, &l->me, &again, &what, err);
    if (status == DN_OK && what != SEEN_ABSENT && strcmp(again.nonce, them.nonce) == 0) {
        if (rename(claimed, l->path) != 0) {
            status = dn_fail(err, DN_EWRITE, "cannot write lock %s: %s", l->path, strerror(errno));
        } else if (is_ours(l, l->path)) {
            *done = *took_over = true;
            *dead = them;
        }
    }
    if (!*done) unlink_as(l, tmp, claimed);
    free(claimed);
    return status;
}

/* An empty file that nobody holds: a taker died between making it and locking it, or is just there. */
static bool is_stillborn(const char *path)
{
    struct stat sb;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    bool yes = fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_size == 0 && kernel_ask(fd) != KERNEL_HELD;
    close(fd);
    return yes;
}

/* Removes what takers of this lock left when they died on the way: PATH.new.* and PATH.claim.*. Harmless to
 * takers at work: whoever claims a dead lock then looks whether it is still there, and whose own file is
 * swept writes another. */
static void sweep(const dn_lock *l)
{
    const char *slash = strrchr(l->path, '/'), *base = slash ? slash + 1 : l->path;
    size_t n = strlen(base);
    char *folder = !slash ? strdup(".") : strndup(l->path, slash == l->path ? 1 : (size_t)(slash - l->path));
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        char *name = NULL;
        owner them;
        seen what;
        dn_err ignored;
        if (strncmp(e->d_name, base, n) != 0) continue;
        if (strncmp(e->d_name + n, ".new.", 5) != 0 && strncmp(e->d_name + n, ".claim.", 7) != 0) continue;
        if (asprintf(&name, "%s/%s", folder, e->d_name) < 0) break;
        dn_status status = look(name, &l->me, &them, &what, &ignored);
        if (status == DN_OK ? what == SEEN_DEAD : is_stillborn(name)) unlink(name);
        free(name);
    }
    if (dir) closedir(dir);
    free(folder);
}

dn_status dn_lock_take(dn_lock **out, const char *path, char **took_over, dn_err *err)
{
    dn_status status;
    dn_lock *l = NULL;
    char *tmp = NULL;
    bool done = false, took = false;
    owner dead;
    *out = NULL;
    if (took_over) *took_over = NULL;
    DN_TRY(dn_alloc(&l, 1, sizeof *l, "lock", err));
    l->fd = -1;
    l->path = strdup(path);
    if (!l->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    for (int tries = 0; !done; tries++) {
        if (tries) {
            if (tries > 500)
                DN_TRY(
                    dn_fail(err, DN_EMISMATCH, "lock %s changes hands all the time: try again later", path));
            struct timespec t = {0, 10000000};
            nanosleep(&t, NULL);
        }
        if (l->fd < 0 || l->lost) {
            if (l->fd >= 0) close(l->fd);
            l->fd = -1;
            l->lost = false;
            free(tmp);
            tmp = NULL;
            describe_me(&l->me);
            DN_TRY(write_aside(l, &tmp, err));
        }
        DN_TRY(attempt(l, tmp, &done, &dead, &took, err));
    }
    unlink(tmp);
    sweep(l);
    if (took && took_over) {
        char who[320];
        name_owner(&dead, who, sizeof who);
        *took_over = strdup(who);
    }
    *out = l;
    l = NULL;
    status = DN_OK;
done:
    if (tmp) unlink(tmp);
    free(tmp);
    if (l) {
        if (l->fd >= 0) close(l->fd);
        free(l->path);
        free(l);
    }
    return status;
}

void dn_lock_release(dn_lock **lp)
{
    if (!lp || !*lp) return;
    dn_lock *l = *lp;
    if (l->fd >= 0) {
        if (is_ours(l, l->path)) unlink(l->path);
        close(l->fd);
    }
    free(l->path);
    free(l);
    *lp = NULL;
}
