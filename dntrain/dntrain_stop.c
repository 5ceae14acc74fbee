/* dntrain_stop.c: signals that ask a run to stop (see dntrain.h). */
#include "dntrain.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t asked, armed;
static const char *volatile lock_path;

static void on_signal(int sig)
{
    static const char text[] =
        "dntrain: stopped by a signal before training began: nothing to save, run again to start\n";
    asked = sig;
    if (armed) return;
    if (lock_path) unlink(lock_path);
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(DN_ESTOPPED);
    _exit(DN_ESTOPPED);
}

void train_stop_install(void)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction sa, old;
        /* nohup ignores SIGHUP, a shell SIGINT for its background jobs, both on purpose. */
        bool leave = signals[i] == SIGHUP || signals[i] == SIGINT;
        if (leave && sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        memset(&sa, 0, sizeof sa);
        sa.sa_handler = on_signal;
        sa.sa_flags = SA_RESTART; /* a save that is under way goes on undisturbed */
        sigfillset(&sa.sa_mask);
        sigaction(signals[i], &sa, NULL);
    }
}

void train_stop_lock(const char *lock)
{
    lock_path = lock;
}

void train_stop_armed(void)
{
    armed = 1;
}

bool train_stop_asked(void *unused)
{
    (void)unused;
    return asked != 0;
}

const char *train_stop_signal(void)
{
    switch (asked) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGUSR1: return "SIGUSR1";
    case SIGHUP: return "SIGHUP";
    default: return "no signal";
    }
}
