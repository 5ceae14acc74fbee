/* log.c: lines, progress and the closing line on stderr (see log.h). */
#include "log.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static struct {
    const char *prog;
    bool quiet, verbose, tty, bar_shown;
    bool working; /* options were fine and work began: from here on there is something to time */
    double start;
    const char *what, *unit;
    uint64_t total;
    double began, last;
} g;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void dn_log_start(const char *prog, int argc, char **argv)
{
    (void)argc, (void)argv;
    setlocale(LC_ALL, "C");
    g.prog = prog;
    g.start = now();
    g.tty = isatty(STDERR_FILENO);
}

const char *dn_log_prog(void)
{
    return g.prog ? g.prog : "dnpipe";
}

void dn_log_level(bool quiet, bool verbose)
{
    g.quiet = quiet;
    g.verbose = verbose;
    g.working = true;
}

static void clear_bar(void)
{
    if (g.bar_shown) fputs("\r\033[K", stderr);
    g.bar_shown = false;
}

/* One write per line, so that lines of several processes in one log do not mix. */
static void say(const char *tag, const char *fmt, va_list ap)
{
    char *text = NULL;
    clear_bar();
    if (vasprintf(&text, fmt, ap) < 0) return;
    fprintf(stderr, "%s: %s%s\n", g.prog ? g.prog : "dnpipe", tag, text);
    free(text);
}

#define SAY(tag)                                                                                             \
    do {                                                                                                     \
        va_list ap;                                                                                          \
        va_start(ap, fmt);                                                                                   \
        say(tag, fmt, ap);                                                                                   \
        va_end(ap);                                                                                          \
    } while (0)

void dn_info(const char *fmt, ...)
{
    if (!g.quiet) SAY("");
}

void dn_debug(const char *fmt, ...)
{
    if (g.verbose) SAY("");
}

void dn_warn(const char *fmt, ...)
{
    SAY("warning: ");
}

void dn_progress_start(const char *what, uint64_t total, const char *unit)
{
    g.what = what;
    g.unit = unit;
    g.total = total;
    g.began = g.last = now();
}

static void format_seconds(char *buf, size_t cap, double s)
{
    unsigned long v = s > 0 && s < 1e8 ? (unsigned long)(s + 0.5) : 0;
    if (v >= 3600)
        snprintf(buf, cap, "%lu:%02lu:%02lu", v / 3600, v / 60 % 60, v % 60);
    else
        snprintf(buf, cap, "%lu:%02lu", v / 60, v % 60);
}

void dn_progress(uint64_t done)
{
    if (g.quiet || !g.what) return;
    double t = now();
    if (t - g.last < (g.tty ? 0.2 : 30.0)) return;
    g.last = t;
    double rate = (double)done / (t - g.began);
    char left[32] = "?";
    if (rate > 0 && g.total >= done) format_seconds(left, sizeof left, (double)(g.total - done) / rate);
    double pct = g.total ? 100.0 * (double)done / (double)g.total : 0;
    if (g.tty) {
        char bar[21];
        int fill = (int)(pct / 5);
        for (int i = 0; i < 20; i++) bar[i] = i < fill ? '#' : '.';
        bar[20] = 0;
        fprintf(stderr, "\r\033[K%s: %s [%s] %3.0f%%  %.0f %s/s, %s left", g.prog, g.what, bar, pct, rate,
                g.unit, left);
        fflush(stderr);
        g.bar_shown = true;
    } else {
        fprintf(stderr, "%s: %s: %llu of %llu %s (%.0f%%), %.0f %s/s, %s left\n", g.prog, g.what,
                (unsigned long long)done, (unsigned long long)g.total, g.unit, pct, rate, g.unit, left);
    }
}

void dn_progress_end(void)
{
    clear_bar();
    g.what = NULL;
}

int dn_finish(dn_status status, const dn_err *err)
{
    dn_err local = {.status = status};
    clear_bar();
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (status == DN_OK) {
            status = dn_fail(&local, DN_EWRITE, "cannot write standard output: %s", strerror(errno));
            err = &local;
        }
    }
    if (status != DN_OK)
        fprintf(stderr, "%s: %s\n", g.prog, err && err->msg[0] ? err->msg : "failed without a message");
    if (g.working && !g.quiet) {
        struct rusage ru;
        getrusage(RUSAGE_SELF, &ru);
        double cpu = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
                     1e-6 * (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
        fprintf(stderr, "%s %s: %.2f s wall, %.2f s CPU, %.1f MiB peak memory\n", g.prog, DN_VERSION,
                now() - g.start, cpu, (double)ru.ru_maxrss / 1024.0);
    }
    return (int)status;
}
