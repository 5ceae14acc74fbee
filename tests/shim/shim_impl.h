/* shim_impl.h: what the shim's files share (see shim.cpp). */
#ifndef SHIM_IMPL_H
#define SHIM_IMPL_H

#include <deque>
#include <functional>

#include "cuda_runtime.h"

struct shim_stream {
    int device;
    bool dead;
    std::deque<std::function<void()>> queue;
    uint64_t put, done;
};
struct shim_event {
    int device;
    shim_stream *stream;
    uint64_t at;
};

cudaError_t shim_enter(const char *call); /* every call that can fail begins here */
bool shim_inside(const void *p, size_t bytes,
                 int device); /* p .. p + bytes lies in one allocation of the device */
void shim_put(shim_stream *s, std::function<void()> f); /* what the stream is to do next */
void shim_fault(const char *what, const char *where);   /* misuse */
int shim_device(void);                                  /* the current one */
void shim_live(long change);                            /* things that must be given back */

#endif
