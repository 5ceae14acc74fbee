/* The lock: two processes, dead owners, many takers at once, other hosts and SLURM's restarts. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "lock.h"

static char dir[256], path[300];

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) exit(1);
}

static char *read_file(const char *name)
{
    static char buf[4096];
    FILE *f = fopen(name, "r");
    size_t n = f ? fread(buf, 1, sizeof buf - 1, f) : 0;
    if (f) fclose(f);
    buf[n] = 0;
    return buf;
}

/* Files in the folder beside the lock itself. */
static int litter(void)
{
    char cmd[400];
    snprintf(cmd, sizeof cmd, "ls %s | grep -vc '^t.lock$'", dir);
    FILE *f = popen(cmd, "r");
    int n = -1;
    if (!f || fscanf(f, "%d", &n) != 1) n = -1;
    if (f) pclose(f);
    return n;
}

/* A child that takes the lock, says so through a pipe, and waits to be killed. */
static pid_t holder(void)
{
    int p[2];
    char c;
    if (pipe(p) != 0) exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        dn_lock *l;
        dn_err err = {0};
        dn_status st = dn_lock_take(&l, path, NULL, &err);
        c = st == DN_OK ? 'y' : 'n';
        if (write(p[1], &c, 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(p[1]);
    CHECK(read(p[0], &c, 1) == 1 && c == 'y');
    close(p[0]);
    return pid;
}

static void kill_it(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_two(void)
{
    dn_lock *l = NULL, *m = NULL;
    dn_err err = {0};
    char *took = NULL, want[64];
    CHECK_OK(dn_lock_take(&l, path, &took, &err), &err);
    CHECK(took == NULL && litter() == 0);
    /* The same process may not have it twice either. */
    CHECK(dn_lock_take(&m, path, NULL, &err) == DN_EMISMATCH && !m);
    snprintf(want, sizeof want, "process %ld on host ", (long)getpid());
    CHECK_MSG(strstr(err.msg, want) != NULL, "%s", err.msg);
    CHECK(litter() == 0);
    dn_lock_release(&l);
    dn_lock_release(&l);
    CHECK(access(path, F_OK) != 0);

    setenv("SLURM_JOB_ID", "123", 1), setenv("SLURM_ARRAY_JOB_ID", "120", 1),
        setenv("SLURM_ARRAY_TASK_ID", "7", 1);
    pid_t pid = holder();
    CHECK(dn_lock_take(&l, path, NULL, &err) == DN_EMISMATCH);
    snprintf(want, sizeof want, "process %ld on host ", (long)pid);
    CHECK_MSG(strstr(err.msg, want) && strstr(err.msg, "job 120_7") && strstr(err.msg, path), "%s", err.msg);
    /* SLURM's next start of the same job takes over even from another host. */
    setenv("SLURM_RESTART_COUNT", "1", 1);
    CHECK_OK(dn_lock_take(&l, path, &took, &err), &err);
    CHECK(took && strstr(took, "job 120_7"));
    free(took);
    kill_it(pid);
    dn_lock_release(&l);
    unsetenv("SLURM_JOB_ID"), unsetenv("SLURM_ARRAY_JOB_ID"), unsetenv("SLURM_ARRAY_TASK_ID"),
        unsetenv("SLURM_RESTART_COUNT");

    pid = holder();
    kill_it(pid);
    CHECK(access(path, F_OK) == 0);
    CHECK_OK(dn_lock_take(&l, path, &took, &err), &err);
    snprintf(want, sizeof want, "process %ld on host ", (long)pid);
    CHECK_MSG(took && strstr(took, want), "%s", took ? took : "(null)");
    free(took);
    CHECK(litter() == 0);
    /* Whoever loses the file does not remove the next owner's. */
    char copy[4096];
    strcpy(copy, read_file(path));
    unlink(path);
    write_file(path, copy);
    dn_lock_release(&l);
    CHECK(access(path, F_OK) == 0);
    unlink(path);
}

/* n processes at once: exactly one gets it, and keeps it until the others have tried. */
static int race(int n)
{
    int go[2], res[2], winners = 0;
    if (pipe(go) != 0 || pipe(res) != 0) exit(1);
    pid_t pids[64];
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            char c;
            dn_lock *l;
            dn_err err = {0};
            close(go[1]);
            if (read(go[0], &c, 1) < 0) _exit(1);
            dn_status st = dn_lock_take(&l, path, NULL, &err);
            c = st == DN_OK ? 'y' : st == DN_EMISMATCH ? 'n' : 'e';
            if (c == 'e') fprintf(stderr, "%s\n", err.msg);
            if (write(res[1], &c, 1) != 1) _exit(1);
            for (;;) pause();
        }
    }
    close(go[0]), close(go[1]); /* starts them all */
    for (int i = 0; i < n; i++) {
        char c = 0;
        if (read(res[0], &c, 1) != 1) exit(1);
        winners += c == 'y' ? 1 : c == 'n' ? 0 : 1000;
    }
    for (int i = 0; i < n; i++) kill_it(pids[i]);
    close(res[0]), close(res[1]);
    return winners;
}

/* Killed right after making its file, a taker leaves an empty one: the next sweeps it. Whose own file is
 * swept in that moment, being alive, writes another. */
static void test_swept(void)
{
    dn_lock *l = NULL;
    dn_err err = {0};
    char name[400], cmd[700];
    snprintf(name, sizeof name, "%s.new.0123abcd", path);
    write_file(name, "");
    CHECK_OK(dn_lock_take(&l, path, NULL, &err), &err);
    CHECK(litter() == 0);
    dn_lock_release(&l);
    write_file(name, "somebody else's\n");
    CHECK_OK(dn_lock_take(&l, path, NULL, &err), &err);
    CHECK(litter() == 1);
    dn_lock_release(&l);
    unlink(name);
    snprintf(cmd, sizeof cmd, "exec sh -c 'while :; do rm -f %s.new.*; done'", path);
    pid_t sweeper = fork();
    if (sweeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 300; i++) {
        CHECK_OK(dn_lock_take(&l, path, NULL, &err), &err);
        dn_lock_release(&l);
    }
    kill_it(sweeper);
    CHECK(litter() == 0);
}

static void test_race(void)
{
    for (int round = 0; round < 40; round++) {
        /* Even rounds start from no lock, odd ones from one whose owner is dead. */
        if (round % 2 == 0) unlink(path);
        int w = race(round < 38 ? 6 : 40);
        CHECK_MSG(w == 1, "round %d: %d winners", round, w);
    }
    unlink(path);
}

static void fake(const char *name, const char *host, const char *boot, long pid, long start,
                 const char *nonce)
{
    char text[1000];
    snprintf(text, sizeof text,
             "dnpipe lock 1\nhost %s\nboot %s\npid %ld\nstart %ld\njob -\nrestart 0\nnonce %s\nkernel 0\n",
             host, boot, pid, start, nonce);
    write_file(name, text);
}

static void test_fakes(void)
{
    char host[128] = "", boot[128], name[400];
    dn_lock *l = NULL;
    dn_err err = {0};
    gethostname(host, sizeof host - 1);
    strcpy(boot, read_file("/proc/sys/kernel/random/boot_id"));
    boot[strcspn(boot, "\n")] = 0;

    fake(path, "elsewhere", "x", 1, 1, "ab");
    CHECK(dn_lock_take(&l, path, NULL, &err) == DN_EMISMATCH);
    CHECK_MSG(strstr(err.msg, "host elsewhere") && strstr(err.msg, "remove the lock file"), "%s", err.msg);
    CHECK(litter() == 0);
    /* No kernel lock: judged by process number and start time, and by the boot. */
    char stat[4096];
    snprintf(name, sizeof name, "/proc/%ld/stat", (long)getppid());
    strcpy(stat, read_file(name));
    char *p = strrchr(stat, ')');
    for (int f = 2; f < 22 && p; f++) p = strchr(p + 1, ' ');
    long start = p ? atol(p + 1) : 0;
    fake(path, host, boot, getppid(), start, "ab");
    CHECK(dn_lock_take(&l, path, NULL, &err) == DN_EMISMATCH);
    fake(path, host, boot, getppid(), start + 1, "ab");
    CHECK_OK(dn_lock_take(&l, path, NULL, &err), &err);
    dn_lock_release(&l);
    fake(path, host, "another-boot", getppid(), start, "ab");
    CHECK_OK(dn_lock_take(&l, path, NULL, &err), &err);
    dn_lock_release(&l);

    /* A taker that died after its claim, and a second one after it. */
    fake(path, host, "b0", 1, 1, "aa");
    snprintf(name, sizeof name, "%s.claim.aa", path);
    fake(name, host, "b0", 1, 1, "bb");
    snprintf(name, sizeof name, "%s.claim.bb", path);
    fake(name, host, "b0", 1, 1, "cc");
    snprintf(name, sizeof name, "%s.new.dd", path);
    fake(name, host, "b0", 1, 1, "dd");
    CHECK(litter() == 3);
    CHECK_OK(dn_lock_take(&l, path, NULL, &err), &err);
    CHECK(litter() == 0);
    dn_lock_release(&l);

    write_file(path, "my notes\n");
    CHECK(dn_lock_take(&l, path, NULL, &err) == DN_EFORMAT);
    fake(path, host, "b0", 1, 1, "../../x");
    CHECK(dn_lock_take(&l, path, NULL, &err) == DN_EFORMAT);
    unlink(path);
    CHECK(litter() == 0);
    CHECK(dn_lock_take(&l, "/nonexistent/x.lock", NULL, &err) == DN_EWRITE);
    CHECK(!l);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/dnlock.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/t.lock", dir);
    unsetenv("SLURM_JOB_ID"), unsetenv("SLURM_ARRAY_JOB_ID"), unsetenv("SLURM_ARRAY_TASK_ID"),
        unsetenv("SLURM_RESTART_COUNT");
    for (int links = 1; links >= 0; links--) {
        dn_lock_without_links = !links;
        test_two();
        test_race();
        test_swept();
        test_fakes();
    }
    rmdir(dir);
    return check_done();
}
