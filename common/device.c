/* device.c: finding, checking and loading the CUDA plugin (see device.h). */
#include "device.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the child tells through its pipe; both ends are this very program. */
typedef struct {
    dn_status status;
    char why[2048]; /* if status != DN_OK: what is wrong and what to do */
    bool unusual;   /* more than "this machine has no GPU": somebody should look at it */
    char version[64], built[256];
    uint64_t n, n_list; /* devices there are, and are listed */
    dn_cuda_device list[DN_DEVICE_MAX];
} report;

/* ---- finding ---- */

static const char *const places[] = {"/../lib/dnpipe/backend_cuda.so", "/../lib/backend_cuda.so"};

/* Beside the program: installed (PREFIX/bin and PREFIX/lib/dnpipe), or as built (build/VARIANT/bin and lib).
 * DNPIPE_CUDA_PLUGIN names another. Empty path: there is none, and why says so. */
static void find_plugin(char path[4096], char *why, size_t cap)
{
    const char *named = getenv("DNPIPE_CUDA_PLUGIN");
    char dir[3072];
    *path = 0;
    if (named && *named) {
        if (access(named, R_OK) == 0 && strlen(named) < 4000) {
            /* With a slash, or the loader would search its own path. */
            snprintf(path, 4096, "%s%.4000s", strchr(named, '/') ? "" : "./", named);
        } else {
            snprintf(why, cap,
                     "DNPIPE_CUDA_PLUGIN names \"%.1000s\", which cannot be read (%s): correct or unset it",
                     named, strerror(errno));
        }
        return;
    }
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    if (n > 0) {
        dir[n] = 0;
        char *slash = strrchr(dir, '/');
        if (slash) *slash = 0;
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            snprintf(path, 4096, "%s%s", dir, places[i]);
            char *real = access(path, R_OK) == 0 ? realpath(path, NULL) : NULL;
            if (real && strlen(real) < 4096) {
                strcpy(path, real);
                free(real);
                return;
            }
            free(real);
        }
    }
    *path = 0;
    snprintf(why, cap,
             "the GPU plugin, backend_cuda.so, is not installed: `make CUDA=1` builds it where the CUDA "
             "Toolkit is "
             "(docs/gpu.md)");
}

/* ---- loading ---- */

/* The plugin's table, checked; the library stays loaded. */
static dn_status load(const char *path, const dn_cuda_plugin **plugin, dn_err *err)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *text = dlerror();
        return dn_fail(
            err, DN_EGPU,
            "the GPU plugin %s does not load: %s. It needs the CUDA libraries that it was built with: "
            "load that CUDA module, or build it here with `make CUDA=1`",
            path, text ? text : "no reason given");
    }
    dn_cuda_plugin_get_fn *get;
    *(void **)&get = dlsym(lib, DN_CUDA_SYMBOL);
    const dn_cuda_plugin *p = get ? get() : NULL;
    if (!p || !p->abi) {
        dlclose(lib);
        return dn_fail(err, DN_EGPU,
                       "%s is not a GPU plugin of dnpipe: it has no " DN_CUDA_SYMBOL
                       ". Build the plugin with `make CUDA=1`",
                       path);
    }
    /* The ABI's name is looked at before anything that another ABI may have elsewhere. */
    bool same_abi = strcmp(p->abi, DN_CUDA_ABI) == 0;
    if (!same_abi || strcmp(p->version, DN_VERSION) != 0) {
        dn_status status =
            dn_fail(err, DN_EGPU,
                    "the GPU plugin %s is of another build of dnpipe (\"%s\"; this program needs \"%s\"): "
                    "build both together, with `make CUDA=1`",
                    path, same_abi ? p->version : p->abi, same_abi ? DN_VERSION : DN_CUDA_ABI);
        dlclose(lib);
        return status;
    }
    *plugin = p;
    return DN_OK;
}

dn_status dn_device_load(dn_device *d, dn_err *err)
{
    if (!d->cuda || d->plugin) return DN_OK;
    return load(d->path, &d->plugin, err);
}

/* ---- looking, in a child ---- */

/* Looks at the first n_wanted devices; at all of them if one of those is not usable, so that others can be
 * named: each look makes a context, which takes time. */
static void look(const char *path, size_t n_wanted, report *r)
{
    dn_err err = {0};
    const dn_cuda_plugin *p;
    size_t n = 0;
    r->unusual = true;
    r->status = load(path, &p, &err);
    if (r->status != DN_OK) {
        snprintf(r->why, sizeof r->why, "%.*s", (int)sizeof r->why - 1, err.msg);
        return;
    }
    snprintf(r->version, sizeof r->version, "%s", p->version);
    snprintf(r->built, sizeof r->built, "%s", p->built ? p->built : "");
    r->status = p->devices(r->list, n_wanted, &n, &err);
    r->n_list = n < n_wanted ? n : n_wanted;
    for (size_t i = 0; i < r->n_list && r->status == DN_OK && n > n_wanted; i++) {
        if (r->list[i].usable) continue;
        r->status = p->devices(r->list, DN_DEVICE_MAX, &n, &err);
        r->n_list = n < DN_DEVICE_MAX ? n : DN_DEVICE_MAX;
        break;
    }
    if (r->status != DN_OK) {
        /* A machine without a driver is nothing unusual. */
        r->status = DN_EGPU;
        r->unusual = strstr(err.msg, "libcuda.so") == NULL;
        const char *what = strncmp(err.msg, "GPU: ", 5) == 0 ? err.msg + 5 : err.msg;
        snprintf(r->why, sizeof r->why, "%.1500s (%s)", what,
                 r->unusual ? "nvidia-smi shows driver and devices"
                            : "in a container: start it with --nv or --gpus");
        return;
    }
    r->unusual = false;
    r->n = n;
}

static void child(const char *path, size_t n_wanted, int fd)
{
    static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE,  SIGILL,
                                  SIGTERM, SIGINT,  SIGHUP, SIGUSR1, SIGPIPE};
    struct rlimit no_core = {0, 0};
    static report r; /* zeroed, padding included */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_DFL);
    setrlimit(RLIMIT_CORE, &no_core);
    look(path, n_wanted, &r);
    const char *p = (const char *)&r;
    for (size_t left = sizeof r; left;) {
        ssize_t n = write(fd, p, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(1);
        p += n;
        left -= (size_t)n;
    }
    _exit(0);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads the whole report, until `until`. */
static bool receive(int fd, report *r, double until, bool *late)
{
    size_t have = 0;
    *late = false;
    while (have < sizeof *r) {
        double left = until - now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = left > 0 ? poll(&p, 1, (int)(left * 1000) + 1) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            *late = ready == 0;
            return false;
        }
        ssize_t n = read(fd, (char *)r + have, sizeof *r - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        have += (size_t)n;
    }
    return true;
}

/* Never fails: what goes wrong is in the report. */
static void look_in_child(const char *path, size_t n_wanted, double seconds, report *r)
{
    int fd[2], how = 0;
    bool late, whole;
    memset(r, 0, sizeof *r);
    if (pipe(fd) != 0) {
        r->status = DN_EGPU;
        snprintf(r->why, sizeof r->why, "the GPU cannot be looked for: pipe: %s", strerror(errno));
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[0]);
        child(path, n_wanted, fd[1]);
    }
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        r->status = DN_EGPU;
        snprintf(r->why, sizeof r->why, "the GPU cannot be looked for: fork: %s", strerror(errno));
        return;
    }
    whole = receive(fd[0], r, now() + seconds, &late);
    close(fd[0]);
    if (late) {
        /* In the depths of a driver not even SIGKILL may reach it: then it is left behind. */
        kill(pid, SIGKILL);
        for (int i = 0; i < 100 && waitpid(pid, &how, WNOHANG) == 0; i++) {
            nanosleep(&(struct timespec){0, 10000000}, NULL);
        }
    } else {
        while (waitpid(pid, &how, 0) < 0 && errno == EINTR) {
        }
    }
    if (whole) return;
    memset(r, 0, sizeof *r);
    r->status = DN_EGPU;
    r->unusual = true;
    if (late) {
        snprintf(r->why, sizeof r->why,
                 "the NVIDIA driver did not answer within %g s: see whether nvidia-smi does; "
                 "DNPIPE_CUDA_TIMEOUT=SECONDS waits longer",
                 seconds);
    } else if (WIFSIGNALED(how)) {
        snprintf(r->why, sizeof r->why,
                 "the GPU plugin %.1000s or the CUDA libraries crashed when they were tried (signal %d)",
                 path, WTERMSIG(how));
    } else {
        snprintf(r->why, sizeof r->why,
                 "the GPU plugin %.1000s or the CUDA libraries ended the process that tried them", path);
    }
}

/* ---- choosing ---- */

/* A GPU that the job was given and cannot use is worth a warning; a CPU node is not. */
static bool gpu_expected(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *job = getenv("SLURM_JOB_GPUS");
    return (visible && *visible && strcmp(visible, "-1") != 0 && strcmp(visible, "NoDevFiles") != 0) ||
           (job && *job);
}

static void say_none(char *why, size_t cap)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible) {
        snprintf(why, cap,
                 "no GPU is visible: CUDA_VISIBLE_DEVICES is \"%.200s\", which may hide it: unset it, or "
                 "name a device as "
                 "nvidia-smi does",
                 visible);
    } else {
        snprintf(why, cap,
                 "this machine has no GPU that the driver knows (on a cluster: ask for one, --gres=gpu:1)");
    }
}

/* Are the first n devices there and usable? */
static bool enough(const report *r, uint64_t n, char *why, size_t cap)
{
    uint64_t usable = 0, all = 0;
    char bad[1024] = "";
    for (uint64_t i = 0; i < r->n_list; i++) {
        const dn_cuda_device *v = &r->list[i];
        if (v->usable && usable == i) usable++;
        all += v->usable;
        if (!v->usable && !*bad) {
            snprintf(bad, sizeof bad, "GPU %llu, %s, is not usable: %s", (unsigned long long)i, v->name,
                     v->why_not);
        }
    }
    if (usable >= n) return true;
    if (r->n == 0 && n == 1) {
        say_none(why, cap);
    } else if (*bad) {
        snprintf(why, cap, "%s%s", bad,
                 all > 0
                     ? ". Others are: name them in CUDA_VISIBLE_DEVICES, for instance CUDA_VISIBLE_DEVICES=1"
                     : "");
    } else {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        snprintf(why, cap, "--gpus %llu: %llu GPU%s visible here%s%.200s%s", (unsigned long long)n,
                 (unsigned long long)r->n, r->n == 1 ? " is" : "s are",
                 visible ? " (CUDA_VISIBLE_DEVICES is \"" : "", visible ? visible : "", visible ? "\")" : "");
    }
    return false;
}

static double timeout_seconds(void)
{
    const char *s = getenv("DNPIPE_CUDA_TIMEOUT");
    double v;
    return s && dn_parse_double(s, &v) && v > 0 && v < 1e6 ? v : 60;
}

static dn_status check_options(const dn_device_opts *o, dn_err *err)
{
    if (o->device != DN_DEVICE_CPU) return DN_OK;
    if (o->gpus_given)
        return dn_fail(err, DN_EUSAGE, "--gpus says how many GPUs, --device cpu that there are none");
    if (o->precision != DN_PRECISION_FLOAT32)
        return dn_fail(err, DN_EUSAGE,
                       "--precision tf32 is for GPUs: with --device cpu products are float32");
    return DN_OK;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

static void say_cuda(dn_device *d, const report *r)
{
    const dn_cuda_device *v = &d->list[0];
    size_t n = d->options.n_devices;
    char count[64] = "";
    if (n > 1 || r->n > 1) snprintf(count, sizeof count, "%zu of %llu GPUs, ", n, (unsigned long long)r->n);
    snprintf(d->line, sizeof d->line,
             "device: cuda (%s%s, compute capability %d.%d, %.1f of %.1f GiB free; %s); plugin for %s", count,
             v->name, v->major, v->minor, gib(dn_device_memory(d)), gib(v->memory_total),
             d->options.tf32 ? "tf32: products are rounded to 10 bits" : "float32", r->built);
}

dn_status dn_device_choose(dn_device *d, const dn_device_opts *o, uint64_t n_threads, dn_err *err)
{
    dn_status status;
    report *r = NULL;
    char why[2048] = "";
    unsigned long long threads = n_threads;
    memset(d, 0, sizeof *d);
    DN_TRY(check_options(o, err));
    if (o->device == DN_DEVICE_CPU) {
        snprintf(d->line, sizeof d->line, "device: cpu (%llu threads), as asked for", threads);
        return DN_OK;
    }
    DN_TRY(dn_alloc(&r, 1, sizeof *r, "list of devices", err));
    find_plugin(d->path, why, sizeof why);
    if (*d->path) {
        look_in_child(d->path, o->gpus, timeout_seconds(), r);
        d->n_found = r->n_list;
        memcpy(d->list, r->list, sizeof d->list);
        d->options = (dn_cuda_options){.n_devices = o->gpus, .tf32 = o->precision == DN_PRECISION_TF32};
        if (r->status != DN_OK)
            memcpy(why, r->why, sizeof r->why);
        else
            d->cuda = enough(r, o->gpus, why, sizeof why);
    }
    const char *meant = o->device == DN_DEVICE_CUDA            ? "--device cuda"
                        : o->gpus_given                        ? "--gpus"
                        : o->precision != DN_PRECISION_FLOAT32 ? "--precision tf32"
                                                               : NULL;
    if (d->cuda) {
        say_cuda(d, r);
    } else if (meant) {
        /* The reason may have said it already. */
        const char *way_out = strstr(why, "--device cpu")   ? ""
                              : o->device == DN_DEVICE_CUDA ? ". Or give --device cpu"
                                                            : ". Or leave it out to compute on the CPU";
        DN_TRY(dn_fail(err, DN_EGPU, "%s: %s%s", meant, why, way_out));
    } else {
        const char *named = getenv("DNPIPE_CUDA_PLUGIN");
        d->loud = (*d->path ? r->unusual || r->n > 0 : named && *named) || gpu_expected();
        snprintf(d->line, sizeof d->line, "device: cpu (%llu threads), no GPU: %s", threads, why);
    }
    status = DN_OK;
done:
    free(r);
    return status;
}

uint64_t dn_device_memory(const dn_device *d)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < d->options.n_devices && i < d->n_found; i++) {
        if (d->list[i].memory_free < least) least = d->list[i].memory_free;
    }
    return d->cuda ? least : 0;
}

dn_status dn_device_taken(const dn_device *d, uint64_t *taken, uint64_t *left, dn_err *err)
{
    dn_cuda_device now_there[DN_DEVICE_MAX];
    size_t n = 0;
    /* No look at the others: it would make a context there. */
    dn_status status = d->plugin->devices(now_there, d->options.n_devices, &n, err);
    if (status != DN_OK) return status;
    *taken = 0;
    *left = UINT64_MAX;
    for (size_t i = 0; i < d->options.n_devices && i < d->n_found && i < n; i++) {
        uint64_t before = d->list[i].memory_free, after = now_there[i].memory_free;
        if (before > after && before - after > *taken) *taken = before - after;
        if (after < *left) *left = after;
    }
    return DN_OK;
}

void dn_device_describe(FILE *f)
{
    char path[4096], why[2048] = "";
    report *r = NULL;
    find_plugin(path, why, sizeof why);
    if (*path && dn_alloc(&r, 1, sizeof *r, "list of devices", NULL) == DN_OK) {
        double seconds = timeout_seconds();
        look_in_child(path, DN_DEVICE_MAX, seconds < 10 ? seconds : 10, r);
        if (*r->version)
            fprintf(f, "CUDA: plugin %s, version %s, for %s\n", path, r->version, r->built);
        else
            fprintf(f, "CUDA: plugin %s: not usable\n", path);
        if (r->status == DN_OK && r->n == 0) say_none(why, sizeof why);
        if (r->status != DN_OK) memcpy(why, r->why, sizeof r->why);
        for (uint64_t i = 0; i < r->n_list; i++) {
            const dn_cuda_device *v = &r->list[i];
            fprintf(f, "GPU %llu: %s, compute capability %d.%d, ", (unsigned long long)i, v->name, v->major,
                    v->minor);
            if (v->usable)
                fprintf(f, "%.1f of %.1f GiB free\n", gib(v->memory_free), gib(v->memory_total));
            else
                fprintf(f, "%.1f GiB; not usable: %s\n", gib(v->memory_total), v->why_not);
        }
        if (*why) fprintf(f, "GPU: none: %s\n", why);
    } else {
        fprintf(f, "CUDA: none: %s\n", why);
    }
    free(r);
}
