/* fork_spy.c: preloaded into a program (LD_PRELOAD), says on stderr of every fork() whether a plugin was
 * loaded by then. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int is_plugin(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    if (info->dlpi_name && strstr(info->dlpi_name, "/backend_")) *(int *)found = 1;
    return 0;
}

pid_t fork(void)
{
    int found = 0;
    pid_t (*real)(void);
    *(void **)&real = dlsym(RTLD_NEXT, "fork");
    dl_iterate_phdr(is_plugin, &found);
    fprintf(stderr, "fork: plugin %s\n", found ? "loaded" : "not loaded");
    return real();
}
