/* fuzz.h: for the fuzz targets. A target is one file tests/fuzz/fuzz_NAME.c that defines
 * LLVMFuzzerTestOneInput(): it hands `data` to a reader and to whatever a program would then ask of it. The
 * reader must return, with any status; crashes, leaks, endless loops and results out of bounds are faults.
 * Its inputs are the files of tests/fuzz/corpus/NAME. Nothing else is needed: `make fuzz` runs it under
 * libFuzzer, `make check` replays its corpus (replay.c). Inputs that once failed are put into the corpus. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char fuzz_dir[64];

static void fuzz_clean(void)
{
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf %s", fuzz_dir);
    if (system(cmd) != 0) perror("fuzz: cannot clean up");
}

/* Writes a file for readers that want one; path (256 bytes) gets its name, "NAME" in a folder of this process
 * in memory. */
static inline void fuzz_file(char path[256], const char *name, const void *data, size_t size)
{
    if (!fuzz_dir[0]) {
        strcpy(fuzz_dir,
               access("/dev/shm", W_OK) == 0 ? "/dev/shm/dnpipe_fuzz_XXXXXX" : "/tmp/dnpipe_fuzz_XXXXXX");
        if (!mkdtemp(fuzz_dir)) abort();
        atexit(fuzz_clean);
    }
    snprintf(path, 256, "%s/%s", fuzz_dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
}

/* A failed promise of the reader. */
#define FUZZ_CHECK(cond)                                                                                     \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #cond);                       \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* Every refusal must say why. */
#define FUZZ_SAYS(st, err) FUZZ_CHECK((st) == 0 || ((err).status == (st) && (err).msg[0]))

#endif
