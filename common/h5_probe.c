/* h5_probe.c: a look at a file in a child process before this one trusts the HDF5 library with it.
 *
 * The library of Debian 12 (1.10.8) crashes on some damaged files: a single flipped bit in an object header
 * is enough. A crash must not take down a program that may hold hours of work, and a message is due. So every
 * file is first opened, listed and (small datasets only) read in a forked child; if the child dies of it, the
 * file is refused as damaged. Costs about a millisecond. Contents are protected by our own checksums, where a
 * file has them. */
#include "h5_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_READ  (1u << 22) /* larger datasets are plain numbers or lists, whose metadata were looked at */
#define MAX_DEPTH 6

static void look_at_attributes(dn_h5 *f, const char *path)
{
    hid_t o;
    dn_h5_enter();
    int n = dn_h5_open_object(f, path, &o, NULL) == DN_OK ? H5Aget_num_attrs(o) : 0;
    char(*names)[256] = n > 0 && n < 4096 ? calloc((size_t)n, sizeof *names) : NULL;
    for (int i = 0; names && i < n; i++) {
        hid_t a = H5Aopen_by_idx(o, ".", H5_INDEX_NAME, H5_ITER_NATIVE, (hsize_t)i, H5P_DEFAULT, H5P_DEFAULT);
        if (a >= 0) H5Aget_name(a, sizeof names[i], names[i]), H5Aclose(a);
    }
    if (o >= 0) H5Oclose(o);
    dn_h5_leave();
    for (int i = 0; names && i < n; i++) {
        double v;
        char *text;
        if (dn_h5_read_attr(f, path, names[i], DN_F64, &v, NULL) == DN_OK) continue;
        if (dn_h5_read_attr_str(f, path, names[i], &text, NULL) == DN_OK) free(text);
    }
    free(names);
}

static void look_at(dn_h5 *f, const char *path, int depth)
{
    dn_strs names = {0};
    look_at_attributes(f, path);
    if (dn_h5_list(f, *path ? path : "/", &names, NULL) == DN_OK) {
        for (uint64_t i = 0; i < names.n && depth < MAX_DEPTH; i++) {
            char sub[1024];
            if ((size_t)snprintf(sub, sizeof sub, "%s%s%s", path, *path ? "/" : "", dn_strs_get(&names, i)) <
                sizeof sub) {
                look_at(f, sub, depth + 1);
            }
        }
    } else {
        dn_h5_ds ds;
        bool small = false;
        dn_h5_enter();
        if (dn_h5_ds_open(f, path, &ds, NULL) == DN_OK) {
            small = ds.n < MAX_READ;
            dn_h5_ds_close(&ds);
        }
        dn_h5_leave();
        void *data;
        if (small && dn_h5_read(f, path, DN_F64, UINT64_MAX, &data, NULL, NULL) == DN_OK) {
            free(data);
        } else if (small) {
            dn_strs text = {0};
            if (dn_h5_read_strs(f, path, &text, NULL) == DN_OK) dn_strs_free(&text);
        }
    }
    dn_strs_free(&names);
}

static void child(const char *path)
{
    struct rlimit no_core = {0, 0}, cpu = {5, 6};
    int null = open("/dev/null", O_WRONLY);
    static const int fatal[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) signal(fatal[i], SIG_DFL);
    if (null >= 0) dup2(null, STDERR_FILENO); /* the C library's last words */
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_CPU, &cpu); /* damaged links can make loops */
    dn_h5 f = {.path = (char *)path};
    f.file = dn_h5_open_file(path, &f.size);
    if (f.file >= 0) look_at(&f, "", 0);
    _exit(0);
}

dn_status dn_h5_probe(const char *path, dn_err *err)
{
    int how = 0, sig = 0;
    pid_t pid = fork();
    if (pid == 0) {
        dn_h5_forked();
        child(path);
    }
    if (pid < 0) return DN_OK; /* no room for a child: go on without the look */
    while (waitpid(pid, &how, 0) < 0) {
        if (errno != EINTR) return DN_OK;
    }
    if (WIFSIGNALED(how)) {
        sig = WTERMSIG(how);
        if (sig != SIGSEGV && sig != SIGABRT && sig != SIGBUS && sig != SIGFPE && sig != SIGILL &&
            sig != SIGXCPU)
            return DN_OK;
    } else if (WEXITSTATUS(how) == 0) {
        return DN_OK;
    }
    return dn_fail(err, DN_EFORMAT,
                   "%s is an HDF5 file, but so damaged that the HDF5 library fails on it (signal %d)", path,
                   sig);
}
