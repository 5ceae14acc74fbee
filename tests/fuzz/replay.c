/* replay.c: main() for a fuzz target without a fuzzer: every file of the given folders, as it is and in
 * --mutate N damaged copies (the same ones every time). A crash ends it; the input is named on stderr before
 * it runs when FUZZ_VERBOSE is set, and left in --keep FILE. */
#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

#define LONGEST ((size_t)1 << 20)
static const char *keep;
static unsigned long n_run;

static unsigned long long next_random(unsigned long long *s)
{
    *s ^= *s >> 12, *s ^= *s << 25, *s ^= *s >> 27;
    return *s * 0x2545F4914F6CDD1DULL >> 16;
}

/* A heap copy of exactly `size` bytes, so that a sanitizer sees a read past the end. */
static void run_one(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    if (keep) {
        FILE *f = fopen(keep, "wb");
        if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
    }
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    n_run++;
}

/* A few random changes: bytes, cuts, pieces doubled or moved, numbers at the borders of their types. */
static size_t mutate(uint8_t *p, size_t n, unsigned long long *s)
{
    static const uint64_t border[] = {0,          1,          0x7f,        0xff,       0xffff,
                                      0x7fffffff, 0xffffffff, 0x100000000, UINT64_MAX, UINT64_MAX >> 1};
    for (unsigned long long k = 1 + next_random(s) % 4; k > 0; k--) {
        size_t at = n ? next_random(s) % n : 0, len = 1 + next_random(s) % 8,
               from = n ? next_random(s) % n : 0;
        uint64_t b = border[next_random(s) % (sizeof border / sizeof border[0])];
        if (n == 0) return 0;
        if (at + len > n) len = n - at;
        switch (next_random(s) % 6) {
        case 0: p[at] = (uint8_t)next_random(s); break;
        case 1: p[at] ^= (uint8_t)(1u << next_random(s) % 8); break;
        case 2: n = at; break;
        case 3: memcpy(p + at, &b, len < sizeof b ? len : sizeof b); break;
        case 4: memmove(p + at, p + from, n - (at > from ? at : from)); break;
        default:
            if (n + len > LONGEST) break;
            memmove(p + at + len, p + at, n - at);
            n += len;
        }
    }
    return n;
}

static void run_file(const char *path, unsigned long mutations)
{
    static uint8_t data[LONGEST], work[LONGEST];
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(3);
    }
    size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    if (getenv("FUZZ_VERBOSE")) fprintf(stderr, "%s\n", path);
    run_one(data, n);
    unsigned long long seed = 88172645463325252ULL + n;
    for (unsigned long k = 0; k < mutations; k++) {
        memcpy(work, data, n);
        run_one(work, mutate(work, n, &seed));
    }
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int main(int argc, char **argv)
{
    unsigned long mutations = 0;
    for (int i = 1; i < argc; i++) {
        struct stat sb;
        if (strcmp(argv[i], "--mutate") == 0 && i + 1 < argc)
            mutations = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--keep") == 0 && i + 1 < argc)
            keep = argv[++i];
        else if (stat(argv[i], &sb) == 0 && S_ISDIR(sb.st_mode)) {
            struct dirent **list;
            int n = scandir(argv[i], &list, NULL, by_name);
            for (int k = 0; k < n; k++) {
                char path[4096];
                snprintf(path, sizeof path, "%s/%s", argv[i], list[k]->d_name);
                if (list[k]->d_name[0] != '.') run_file(path, mutations);
                free(list[k]);
            }
            if (n >= 0) free(list);
        } else {
            run_file(argv[i], mutations);
        }
    }
    printf("%lu inputs\n", n_run);
    return n_run == 0;
}
