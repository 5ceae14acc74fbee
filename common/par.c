/* par.c: the thread pool (see par.h). */
#include "par.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct dn_pool {
    size_t n_threads, n_started;
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    uint64_t round; /* grows by one per dn_pool_run */
    size_t working; /* helpers still busy in this round */
    bool quit;
    void (*fn)(void *, size_t, size_t);
    void *ctx;
    size_t n_items;
    atomic_size_t next;
};

struct helper {
    dn_pool *pool;
    size_t worker;
};

static void drain(dn_pool *p, size_t worker)
{
    for (;;) {
        size_t i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (i >= p->n_items) return;
        p->fn(p->ctx, i, worker);
    }
}

static void *helper_main(void *arg)
{
    struct helper h = *(struct helper *)arg;
    free(arg);
    dn_pool *p = h.pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->quit && p->round == seen) pthread_cond_wait(&p->wake, &p->lock);
        if (p->quit) break;
        seen = p->round;
        pthread_mutex_unlock(&p->lock);
        drain(p, h.worker);
        pthread_mutex_lock(&p->lock);
        if (--p->working == 0) pthread_cond_signal(&p->idle);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

dn_status dn_pool_new(dn_pool **out, size_t n_threads, dn_err *err)
{
    dn_status status;
    dn_pool *p = NULL;
    *out = NULL;
    DN_TRY(dn_alloc(&p, 1, sizeof *p, "thread pool", err));
    p->n_threads = n_threads ? n_threads : 1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->idle, NULL);
    DN_TRY(dn_alloc(&p->threads, p->n_threads, sizeof *p->threads, "thread pool", err));
    /* Signals belong to the main thread: helpers start with all of them blocked. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = 0;
    for (size_t i = 1; i < p->n_threads && rc == 0; i++) {
        struct helper *h = malloc(sizeof *h);
        if (!h) break;
        *h = (struct helper){p, i};
        rc = pthread_create(&p->threads[p->n_started], NULL, helper_main, h);
        if (rc != 0)
            free(h);
        else
            p->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (p->n_started + 1 != p->n_threads) {
        DN_TRY(dn_fail(err, DN_ENOMEM, "cannot start %zu threads (%s): give a smaller --threads",
                       p->n_threads, rc ? strerror(rc) : "out of memory"));
    }
    *out = p;
    p = NULL;
    status = DN_OK;
done:
    dn_pool_free(p);
    return status;
}

size_t dn_pool_threads(const dn_pool *p)
{
    return p->n_threads;
}

void dn_pool_run(dn_pool *p, size_t n_items, void (*fn)(void *, size_t, size_t), void *ctx)
{
    p->fn = fn;
    p->ctx = ctx;
    p->n_items = n_items;
    atomic_store(&p->next, 0);
    bool alone = p->n_started == 0 || n_items <= 1;
    if (!alone) {
        pthread_mutex_lock(&p->lock);
        p->working = p->n_started;
        p->round++;
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    drain(p, 0);
    if (!alone) {
        pthread_mutex_lock(&p->lock);
        while (p->working) pthread_cond_wait(&p->idle, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
}

void dn_pool_free(dn_pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->n_started; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->idle);
    pthread_mutex_destroy(&p->lock);
    free(p->threads);
    free(p);
}
