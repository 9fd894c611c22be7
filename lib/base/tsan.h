/* What ThreadSanitizer has to be told. It sees an order between threads only where instrumented code or pthread makes
 * one; what goes through a library that was not built with it (gRPC's completion queue, libvirt's callbacks) has none for
 * it, and all that was handed over would be a race. So who gives says TSAN_RELEASE and who takes TSAN_ACQUIRE, of one
 * address. Both are nothing in every other build. */
#pragma once

#if defined(__SANITIZE_THREAD__)
#define BC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BC_TSAN 1
#endif
#endif

#ifdef BC_TSAN
#include <sanitizer/tsan_interface.h>
#define TSAN_RELEASE(addr) __tsan_release(addr)
#define TSAN_ACQUIRE(addr) __tsan_acquire(addr)
#else
#define TSAN_RELEASE(addr) ((void)(addr))
#define TSAN_ACQUIRE(addr) ((void)(addr))
#endif
