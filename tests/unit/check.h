/* check.h: the unit tests' harness. A test file has one main() that calls CHECKs and ends in `return
 * check_done();`. A failed check is printed with its place and counted; the run goes on. */
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_passed, check_failed;

#define CHECK(cond)                                                                                          \
    do {                                                                                                     \
        if (cond)                                                                                            \
            check_passed++;                                                                                  \
        else                                                                                                 \
            check_failed++, fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);               \
    } while (0)

/* With what was found, printf-like. */
#define CHECK_MSG(cond, ...)                                                                                 \
    do {                                                                                                     \
        if (cond)                                                                                            \
            check_passed++;                                                                                  \
        else {                                                                                               \
            check_failed++;                                                                                  \
            fprintf(stderr, "%s:%d: failed: %s: ", __FILE__, __LINE__, #cond);                               \
            fprintf(stderr, __VA_ARGS__);                                                                    \
            fputc('\n', stderr);                                                                             \
        }                                                                                                    \
    } while (0)

/* For set-up that must work: prints the error and leaves. */
#define CHECK_OK(expr, err)                                                                                  \
    do {                                                                                                     \
        dn_status check_st = (expr);                                                                         \
        CHECK_MSG(check_st == DN_OK, "status %d: %s", (int)check_st, (err)->msg);                            \
        if (check_st != DN_OK) exit(1);                                                                      \
    } while (0)

/* A small seeded generator for test inputs (xorshift64*), so that a failing case can be run again. */
static inline unsigned long long check_rand(unsigned long long *s)
{
    *s ^= *s >> 12, *s ^= *s << 25, *s ^= *s >> 27;
    return *s * 0x2545F4914F6CDD1DULL;
}

static int check_done(void)
{
    printf("%d passed, %d failed\n", check_passed, check_failed);
    return check_failed || !check_passed;
}

#endif
