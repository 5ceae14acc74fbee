/* The plugin's list of devices, and what is said when there is none that can be used (GP01, GP03). */
#include "plugin.h"

static dn_cuda_device list[4];
static size_t n;
static dn_err err;

static void expect(const char *test, const char *text)
{
    CHECK_MSG(strstr(err.msg, text), "%s: \"%s\" is not in: %s", test, text, err.msg);
}

/* Everything that starts the GPU says the same. */
static void refused(const char *test, const char *text, size_t n_devices)
{
    const dn_cuda_options o = {n_devices, false, 0};
    double one = 1;
    float w = 1;
    dn_fat_member m = {&w, 1, &one, &one};
    dn_fat_problem p = {1, NULL, 1, 1, &m};
    dn_backend *be;
    dn_cuda_fat *f;
    memset(&err, 0, sizeof err);
    CHECK(plug->backend_new(&be, &o, &err) == DN_EGPU && !be);
    expect(test, text);
    memset(&err, 0, sizeof err);
    CHECK(plug->fat_new(&f, &p, 1, &o, &err) == DN_EGPU && !f);
    expect(test, text);
    check_clean(test);
}

int main(void)
{
    load_plugin();
    CHECK(plug->built && *plug->built);
    CHECK_OK(plug->devices(list, 4, &n, &err), &err);
    CHECK(n == 1 && list[0].usable && list[0].major == 9 && list[0].minor == 0);
    CHECK(strcmp(list[0].name, "Shim 0") == 0 && list[0].memory_total == (uint64_t)8 << 30 &&
          list[0].memory_free == list[0].memory_total);
    check_clean("one device");

    shim_set("DN_SHIM_DEVICES", "3");
    CHECK_OK(plug->devices(list, 2, &n, &err), &err); /* more than there is room for */
    CHECK(n == 3 && strcmp(list[1].name, "Shim 1") == 0);
    refused("more than there are", "4 devices are asked for, and there are 3", 4);

    shim_set("DN_SHIM_DEVICES", "0");
    CHECK_OK(plug->devices(list, 4, &n, &err), &err);
    CHECK(n == 0);
    refused("GP03: no device", "CUDA_VISIBLE_DEVICES", 1);
    shim_set("DN_SHIM_DEVICES", NULL);

    shim_set("DN_SHIM_DRIVER", "missing");
    CHECK(plug->devices(list, 4, &n, &err) == DN_EGPU && n == 0);
    expect("no driver", "no NVIDIA driver");
    refused("GP03: no driver", "no NVIDIA driver", 1);
    shim_set("DN_SHIM_DRIVER", "old");
    CHECK(plug->devices(list, 4, &n, &err) == DN_EGPU && n == 0);
    expect("old driver", "it supports CUDA 11.4, this build needs 13.0");
    refused("GP03: old driver", "too old", 1);
    shim_set("DN_SHIM_DRIVER", NULL);

    /* Known before any data are read, and not deep in a training. */
    shim_set("DN_SHIM_CAPABILITY", "6.1");
    CHECK_OK(plug->devices(list, 4, &n, &err), &err);
    CHECK(n == 1 && !list[0].usable && list[0].major == 6 && list[0].minor == 1);
    CHECK_MSG(strstr(list[0].why_not, "compute capability 6.1; this build needs 8.0"), "%s", list[0].why_not);
    refused("GP01: built for other devices", "compute capability 6.1", 1);
    shim_set("DN_SHIM_CAPABILITY", NULL);

    shim_set("DN_SHIM_FORBIDDEN", "1");
    CHECK_OK(plug->devices(list, 4, &n, &err), &err);
    CHECK(n == 1 && !list[0].usable && strstr(list[0].why_not, "prohibited"));
    refused("forbidden", "its owner has forbidden", 1);
    shim_set("DN_SHIM_FORBIDDEN", NULL);

    /* A call of devices() that fails leaves nothing behind; one that concerns a device alone is its why_not.
     */
    for (long k = 1; k < 100; k++) {
        shim->reset();
        shim->fail_at(k);
        dn_status st = plug->devices(list, 4, &n, &err);
        if (shim->calls() < k) {
            CHECK(k > 5 && st == DN_OK);
            break;
        }
        CHECK(st == DN_EGPU || (st == DN_OK && !list[0].usable && strstr(list[0].why_not, "unknown error")));
        check_clean("devices() with a call that fails");
    }
    return check_done();
}
