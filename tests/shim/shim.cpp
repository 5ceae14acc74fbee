/* shim.cpp: CUDA's runtime and cuBLAS, as far as common/cuda/ uses them, played on the host. It stands in for
 * a GPU in tests and is made to find what a GPU would find, or would hide:
 *
 * - Devices share no memory: every allocation belongs to one, and copies, products and kernels are refused
 * when a pointer is not of the device, the kind or the length that CUDA would want.
 * - Allocations lie between sentinels and are filled with 0xff (NaN as floats). Under AddressSanitizer the
 * sentinels are poisoned.
 * - Streams are queues. With DN_SHIM_LAZY=1 nothing runs until somebody waits for it, so that a missing wait,
 * or a host buffer that is used again too early, gives wrong results every time and not once a month.
 * - Any call, or any kernel, can be made to fail. */
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shim_impl.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

thread_local uint3 blockIdx, threadIdx, gridDim, blockDim;

namespace
{
constexpr size_t GUARD = 256, PAGE = 4096, SPARSE = (size_t)1 << 30, FILL = (size_t)64 << 10;
constexpr unsigned long RANDOM = 128;
constexpr int HOST = -1, MAX_DEVICES = 8;

struct allocation {
    int device; /* HOST: pinned */
    size_t bytes;
    uint8_t *base;
    bool sparse; /* mapped, not filled, between pages that cannot be read */
};

struct state {
    bool ready;
    int devices, major, minor;
    bool no_driver, old_driver, forbidden;
    unsigned long lazy; /* 0, 1, or the state of a small generator */
    unsigned long long memory, used[MAX_DEVICES], peak;
    long calls, kernels, fail_call, fail_kernel, live, faults, last;
    std::string *fault;
    const char *failed;
    cudaError_t broken;
    int device; /* the current one */
    std::map<uintptr_t, allocation> mem;
    std::vector<std::unique_ptr<shim_stream>> streams; /* kept when destroyed: events may point at them */
} S;

long number(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s && *s ? atol(s) : otherwise;
}

void fault(const char *what, const char *where)
{
    if (!S.faults++) *S.fault = std::string(where) + ": " + what;
    fprintf(stderr, "shim: %s: %s\n", where, what);
}

void reset()
{
    if (!S.fault) S.fault = new std::string;
    S.devices = (int)number("DN_SHIM_DEVICES", 1);
    if (S.devices > MAX_DEVICES) S.devices = MAX_DEVICES;
    S.major = 9, S.minor = 0;
    const char *c = getenv("DN_SHIM_CAPABILITY"), *d = getenv("DN_SHIM_DRIVER");
    if (c) sscanf(c, "%d.%d", &S.major, &S.minor);
    S.no_driver = d && !strcmp(d, "missing");
    S.old_driver = d && !strcmp(d, "old");
    S.forbidden = number("DN_SHIM_FORBIDDEN", 0) != 0;
    S.lazy = (unsigned long)number("DN_SHIM_LAZY", 1);
    S.memory = (unsigned long long)number("DN_SHIM_MEMORY", 8L << 30);
    S.calls = S.kernels = S.last = 0;
    S.fail_call = number("DN_SHIM_FAIL", 0);
    S.fail_kernel = number("DN_SHIM_FAIL_KERNEL", 0);
    S.broken = cudaSuccess;
    if (S.live == 0) S.streams.clear();
    S.peak = 0;
    S.failed = "";
    S.ready = true;
}

/* Every call that can fail begins here. */
cudaError_t enter(const char *call = __builtin_FUNCTION())
{
    if (!S.ready) reset();
    S.calls++;
    if (S.broken != cudaSuccess) return S.broken;
    if (S.calls != S.fail_call) return cudaSuccess;
    S.failed = call;
    return cudaErrorUnknown;
}
#define ENTER()                                                                                              \
    do {                                                                                                     \
        cudaError_t e_ = enter();                                                                            \
        if (e_ != cudaSuccess) return e_;                                                                    \
    } while (0)

void drain(shim_stream *s, uint64_t upto)
{
    while (s->done < upto) {
        std::function<void()> f = std::move(s->queue.front());
        s->queue.pop_front();
        f();
        s->done++;
    }
}

/* All that the device's own streams have been given, and what that waits for. Another device may still be
 * about to read the memory that is then freed: nobody but the plugin sees to that. */
void drain_device(int device)
{
    for (auto &s : S.streams) {
        if (s->device == device) drain(s.get(), s->put);
    }
}

/* Some streams do some of what they have to do. */
void wander()
{
    for (int i = 0; i < 3; i++) {
        S.lazy = S.lazy * 6364136223846793005u + 1442695040888963407u;
        shim_stream *s = S.streams[(S.lazy >> 33) % S.streams.size()].get();
        uint64_t upto = s->done + (S.lazy >> 50) % 4;
        drain(s, upto < s->put ? upto : s->put);
    }
    S.lazy |= RANDOM;
}

void put(shim_stream *s, std::function<void()> f)
{
    s->queue.push_back([f = std::move(f)] {
        if (S.broken == cudaSuccess) f();
    });
    s->put++;
    if (S.lazy == 0) drain(s, s->put);
    if (S.lazy > 1 && S.lazy < RANDOM && s == S.streams[S.lazy % S.streams.size()].get()) drain(s, s->put);
    if (S.lazy >= RANDOM) wander();
}

bool good_stream(shim_stream *s, const char *where)
{
    if (s && !s->dead) return true;
    fault("not a stream", where);
    return false;
}

const allocation *find(const void *p)
{
    auto it = S.mem.upper_bound((uintptr_t)p);
    if (it == S.mem.begin()) return nullptr;
    --it;
    return (uintptr_t)p < it->first + it->second.bytes ? &it->second : nullptr;
}

/* p .. p + bytes lies in one allocation of the device. */
bool inside(const void *p, size_t bytes, int device)
{
    auto it = S.mem.upper_bound((uintptr_t)p);
    if (it == S.mem.begin()) return false;
    --it;
    return it->second.device == device && (uintptr_t)p + bytes <= it->first + it->second.bytes;
}

bool whole(const allocation &a)
{
    if (a.sparse) return true;
    bool good = true;
    for (size_t side = 0; side < 2; side++) {
        uint8_t *g = side ? a.base + GUARD + a.bytes : a.base;
        UNPOISON(g, GUARD);
        for (size_t i = 0; i < GUARD; i++) good = good && g[i] == 0xA5;
        POISON(g, GUARD);
    }
    return good;
}

cudaError_t take(void **out, size_t bytes, int device)
{
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (device != HOST && bytes > S.memory - S.used[device]) return cudaErrorMemoryAllocation;
    allocation a = {device, bytes, nullptr, bytes >= SPARSE};
    uint8_t *p;
    if (a.sparse) {
        size_t whole_pages = (bytes + PAGE - 1) / PAGE * PAGE;
        void *m = mmap(nullptr, whole_pages + 2 * PAGE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED) return cudaErrorMemoryAllocation;
        a.base = (uint8_t *)m;
        p = a.base + PAGE;
        if (mprotect(p, whole_pages, PROT_READ | PROT_WRITE) != 0) return cudaErrorMemoryAllocation;
    } else {
        a.base = (uint8_t *)aligned_alloc(256, (bytes + 2 * GUARD + 255) / 256 * 256);
        if (!a.base) return cudaErrorMemoryAllocation;
        p = a.base + GUARD;
        memset(a.base, 0xA5, GUARD);
        memset(p, 0xff,
               device == HOST && bytes > FILL ? FILL : bytes); /* the large ones, not to take all day */
        memset(p + bytes, 0xA5, GUARD);
        POISON(a.base, GUARD);
        POISON(p + bytes, GUARD);
    }
    S.mem[(uintptr_t)p] = a;
    S.live++;
    if (device != HOST) {
        S.used[device] += bytes;
        if (S.used[device] > S.peak) S.peak = S.used[device];
    }
    *out = p;
    return cudaSuccess;
}

void give(void *p, bool host, const char *where)
{
    if (!p) return;
    auto it = S.mem.find((uintptr_t)p);
    if (it == S.mem.end() || (it->second.device == HOST) != host) {
        fault("not an allocation of this kind", where);
        return;
    }
    allocation a = it->second;
    if (!host) drain_device(a.device); /* cudaFreeHost() promises nothing */
    if (!whole(a)) fault("written outside an allocation", where);
    S.mem.erase(it);
    S.live--;
    if (!host) S.used[a.device] -= a.bytes;
    if (a.sparse) {
        munmap(a.base, (a.bytes + PAGE - 1) / PAGE * PAGE + 2 * PAGE);
    } else {
        UNPOISON(a.base, GUARD);
        UNPOISON(a.base + GUARD + a.bytes, GUARD);
        free(a.base);
    }
}

long faults()
{
    for (auto &m : S.mem) {
        if (!whole(m.second)) fault("written outside an allocation", "faults");
    }
    return S.faults;
}
} // namespace

cudaError_t shim_enter(const char *call)
{
    return enter(call);
}
bool shim_inside(const void *p, size_t bytes, int device)
{
    return inside(p, bytes, device);
}
void shim_put(shim_stream *s, std::function<void()> f)
{
    put(s, std::move(f));
}
void shim_fault(const char *what, const char *where)
{
    fault(what, where);
}
int shim_device(void)
{
    return S.device;
}
void shim_live(long change)
{
    S.live += change;
}

/* ---- devices ---- */

cudaError_t cudaDriverGetVersion(int *version)
{
    ENTER();
    *version = S.no_driver ? 0 : S.old_driver ? 11040 : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    ENTER();
    *n = 0;
    if (S.no_driver || S.old_driver) return cudaErrorInsufficientDriver;
    if (S.devices == 0) return cudaErrorNoDevice;
    *n = S.devices;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    ENTER();
    if (device < 0 || device >= S.devices) return cudaErrorInvalidDevice;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "Shim %d", device);
    p->major = S.major, p->minor = S.minor;
    p->multiProcessorCount = 1;
    p->totalGlobalMem = (size_t)S.memory;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device)
{
    ENTER();
    if (device < 0 || device >= S.devices || attr != cudaDevAttrComputeMode) return cudaErrorInvalidValue;
    *value = S.forbidden ? cudaComputeModeProhibited : cudaComputeModeDefault;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *kernel)
{
    ENTER();
    if (!kernel) return cudaErrorInvalidValue;
    a->numRegs = 1;
    return S.major < 8 ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    ENTER();
    if (device < 0 || device >= S.devices) return cudaErrorInvalidDevice;
    S.device = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    ENTER();
    *can = device != peer;
    return cudaSuccess;
}

/* Said once, and for every pair of devices: the plugin must not mind. */
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    ENTER();
    return peer > 1 ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    ENTER();
    *total = (size_t)S.memory;
    *free_bytes = (size_t)(S.memory - S.used[S.device]);
    return cudaSuccess;
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    *p = nullptr;
    ENTER();
    return take(p, bytes, S.device);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
    *p = nullptr;
    ENTER();
    return take(p, bytes, HOST);
}

/* What is given back is given back, also when the call is one that fails. */
cudaError_t cudaFree(void *p)
{
    cudaError_t e = enter();
    give(p, false, "cudaFree");
    return e;
}

cudaError_t cudaFreeHost(void *p)
{
    cudaError_t e = enter();
    give(p, true, "cudaFreeHost");
    return e;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t s)
{
    ENTER();
    if (!good_stream(s, "cudaMemcpyAsync")) return cudaErrorInvalidValue;
    bool to = kind == cudaMemcpyHostToDevice, from = kind == cudaMemcpyDeviceToHost;
    if (kind == cudaMemcpyHostToHost || (!from && !inside(dst, bytes, s->device)) ||
        (!to && !inside(src, bytes, s->device))) {
        fault("not memory of the stream's device", "cudaMemcpyAsync");
        return cudaErrorInvalidValue;
    }
    const void *host = to ? src : from ? dst : nullptr;
    const allocation *a = host ? find(host) : nullptr;
    if (a && (a->device != HOST || !inside(host, bytes, HOST))) {
        fault("not host memory", "cudaMemcpyAsync");
        return cudaErrorInvalidValue;
    }
    bool pinned = a != nullptr;
    put(s, [=] {
        bool good = (to || inside(src, bytes, s->device)) && (from || inside(dst, bytes, s->device)) &&
                    (!pinned || inside(host, bytes, HOST));
        if (good)
            memcpy(dst, src, bytes);
        else
            fault("the memory was freed before the copy was made", "cudaMemcpyAsync");
    });
    if (host && !a) drain(s, s->put); /* not pinned: CUDA may do this at once too */
    return S.broken;
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                                cudaStream_t s)
{
    ENTER();
    if (!good_stream(s, "cudaMemcpyPeerAsync")) return cudaErrorInvalidValue;
    if (!inside(dst, bytes, dst_device) || !inside(src, bytes, src_device)) {
        fault("not memory of the devices named", "cudaMemcpyPeerAsync");
        return cudaErrorInvalidValue;
    }
    put(s, [=] {
        if (inside(dst, bytes, dst_device) && inside(src, bytes, src_device))
            memcpy(dst, src, bytes);
        else
            fault("the memory was freed before the copy was made", "cudaMemcpyPeerAsync");
    });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    ENTER();
    if (!good_stream(s, "cudaMemsetAsync")) return cudaErrorInvalidValue;
    if (!inside(p, bytes ? bytes : 1,
                s->device)) { /* nothing to write past the end is not surely well either */
        fault("not memory of the stream's device", "cudaMemsetAsync");
        return cudaErrorInvalidValue;
    }
    put(s, [=] { memset(p, value, bytes); });
    return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = nullptr;
    ENTER();
    S.streams.emplace_back(new shim_stream{S.device, false, {}, 0, 0});
    *s = S.streams.back().get();
    S.live++;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t e = enter();
    if (!good_stream(s, "cudaStreamDestroy")) return cudaErrorInvalidValue;
    drain(s, s->put);
    s->dead = true;
    S.live--;
    return e;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    ENTER();
    if (!good_stream(s, "cudaStreamSynchronize")) return cudaErrorInvalidValue;
    drain(s, s->put);
    return S.broken;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    ENTER();
    if (!good_stream(s, "cudaStreamWaitEvent")) return cudaErrorInvalidValue;
    shim_stream *other = e->stream;
    uint64_t at = e->at;
    if (other) put(s, [=] { drain(other, at); });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    *e = nullptr;
    ENTER();
    *e = new shim_event{S.device, nullptr, 0};
    S.live++;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    cudaError_t r = enter();
    delete e;
    S.live--;
    return r;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    ENTER();
    if (!good_stream(s, "cudaEventRecord")) return cudaErrorInvalidValue;
    if (e->device != s->device) {
        fault("event and stream are of two devices", "cudaEventRecord");
        return cudaErrorInvalidValue;
    }
    e->stream = s;
    e->at = s->put;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    ENTER();
    if (e->stream) drain(e->stream, e->at);
    return S.broken;
}

cudaError_t cudaGetLastError(void)
{
    ENTER();
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    default: return "unknown error";
    }
}

/* ---- kernels ---- */

void shim_arg(const void *p, cudaStream_t s)
{
    if (p && s && !inside(p, 1, s->device))
        fault("a kernel was given a pointer that is not its device's", "launch");
}

void shim_run(unsigned blocks, unsigned threads, cudaStream_t s, std::function<void()> body)
{
    if (!good_stream(s, "launch")) return;
    if (s->device != S.device) fault("the stream is not the current device's", "launch");
    if (blocks == 0 || threads == 0 || threads > 1024) fault("a launch of no size", "launch");
    put(s, [=] {
        if (++S.kernels == S.fail_kernel) {
            S.broken = cudaErrorIllegalAddress;
            return;
        }
        gridDim = {blocks, 1, 1};
        blockDim = {threads, 1, 1};
        for (unsigned b = S.last > 0 && S.last < (long)blocks ? blocks - (unsigned)S.last : 0; b < blocks;
             b++) {
            for (unsigned t = 0; t < threads; t++) {
                blockIdx = {b, 0, 0};
                threadIdx = {t, 0, 0};
                body();
            }
        }
    });
}

/* ---- for tests ---- */

extern "C" __attribute__((visibility("default"))) const shim_control *shim_control_get(void)
{
    static const shim_control c = {
        reset,
        [] { return S.calls; },
        [] { return S.kernels; },
        [](long n) { S.fail_call = n > 0 ? S.calls + n : 0; },
        [](long n) { S.fail_kernel = n > 0 ? S.kernels + n : 0; },
        [] { return S.failed; },
        [] { return S.live; },
        faults,
        [] { return S.fault ? S.fault->c_str() : ""; },
        [](long n) { S.last = n; },
        [] { return S.peak; },
    };
    if (!S.ready) reset();
    return &c;
}
