/* The renderer in C: see contract.py for what it computes and cpu.py for how it is called.

   Plain C: no Python header, no other library. Each number type and instruction set is one inclusion of _kernel.h;
   which one runs is decided on the machine it runs on: NEON, or SSE2, AVX2 and AVX-512 (_processor.h). */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../_processor.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Vectors are what GCC and Clang make of them; elsewhere the same code goes number by number. */
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define INLINE static __forceinline
#define EXPORT __declspec(dllexport)
#define TAKE_NEXT(counter) _InterlockedExchangeAdd64((counter), 1)
#else
#define INLINE static inline __attribute__((always_inline, unused))
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define TAKE_NEXT(counter) __atomic_fetch_add((counter), 1, __ATOMIC_RELAXED)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define VECTORS
#endif
typedef int32_t four __attribute__((vector_size(16)));
#ifdef __clang__
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (four){i, j, k, l})
#endif
#endif

/* Under AddressSanitizer the parts of a thread's room are kept apart, so that a step over one's end is seen. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define GAP 64
#define FORBID(place, bytes) __asan_poison_memory_region(place, bytes)
#define ALLOW(place, bytes) __asan_unpoison_memory_region(place, bytes)
#else
#define GAP 0
#define FORBID(place, bytes) ((void)0)
#define ALLOW(place, bytes) ((void)0)
#endif

#define LOG2E 1.4426950408889634
#define LN2 0.6931471805599453

#define BANDS 4 /* of a view: enough to keep some cores busy with three cameras, few enough to cost nothing */

#define CHUNK 16 /* vectors of pixels of which derivatives are taken at a time */

#define CELLS_PER_OCTAVE 64
#define CELL_BITS 17                       /* of a float's 23, those within a cell */
#define FIRST_CELL (0x3f800000u >> CELL_BITS) /* that of 1.0 */
#define MOST_OCTAVES 40
#define TABLE_CELLS (MOST_OCTAVES * CELLS_PER_OCTAVE)

enum { FORWARD, BACKWARD, PRODUCTS };
enum { FORWARD_SUMS = 2, BACKWARD_SUMS = 5, PRODUCTS_SUMS = 22 };
static const int SUMS[] = {FORWARD_SUMS, BACKWARD_SUMS, PRODUCTS_SUMS};

/* A call's arguments: cpu.py has the same list. Shapes are those of contract.py, view = batch * camera. */
typedef struct {
    int64_t job, views, vertices, height, width;
    double cutoff, robust;
    const void *centre, *sigma, *iota, *rho, *images;
    const void *picture; /* (view, 4) first and last column, first and last row that are known; NULL where all are */
    const void *up_image, *up_overlap, *up_mass;
    void *owner, *image, *overlap, *mass, *gram, *slope, *loss;
    void *sums;     /* (view, BANDS, vertex, SUMS[job]): each band's own */
    double *losses; /* (view, BANDS) */
    int64_t next;   /* the next band to be done */
} scene;

#define REAL double
#define LANES 1
#define NAME(name) name##_double
#define SQUARE_ROOT sqrt
#include "_kernel.h"
#undef SQUARE_ROOT

#define SQUARE_ROOT sqrtf
#ifdef VECTORS
#ifndef PLAIN_LANES
#define PLAIN_LANES 4 /* tests compile the code for eight here too, where no processor with as many is at hand */
#endif
#define REAL float
#define LANES PLAIN_LANES
#define NAME(name) name##_float
#include "_kernel.h"
#else
#define REAL float
#define LANES 1
#define NAME(name) name##_float
#include "_kernel.h"
#endif

#ifdef WIDER
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define REAL float
#define LANES 8
#define NAME(name) name##_avx2
#include "_kernel.h"
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
#endif
#define REAL float
#define LANES 8
#define NAME(name) name##_avx512
#include "_kernel.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

typedef struct {
    const char *name;
    size_t (*room_size)(const scene *);
    void (*work)(scene *, char *);
    void (*gather)(const scene *);
} version;

#define VERSION(suffix, title) {title, room_size_##suffix, work_##suffix, gather_##suffix}
static const version double_version = VERSION(double, "doubles");
static const version float_versions[] = {
    VERSION(float, PLAINEST),
#ifdef WIDER
    VERSION(avx2, "AVX2"),
    VERSION(avx512, "AVX-512"),
#endif
};

/* The best version that this machine runs, at most `most` (for tests; negative: any). */
static const version *of(int doubles, int most) {
    return doubles ? &double_version : float_versions + chosen_version(most);
}

#define MOST_PIXELS ((int64_t)1 << 30) /* of a view, with what blobs add to its lists: they are counted in 32 bits */

static int is_size(int64_t height, int64_t width) {
    return height >= 0 && width >= 0 && height < MOST_PIXELS && width < MOST_PIXELS - 8 &&
           height * (width + 8) < MOST_PIXELS;
}

/* Whether the numbers are such that nothing is read or written beyond its end. Addresses are trusted. */
static int is_possible(const scene *s) {
    return s->job >= FORWARD && s->job <= PRODUCTS && s->views >= 0 && s->views < MOST_PIXELS && s->vertices >= 0 &&
           s->vertices < MOST_PIXELS / 64 && is_size(s->height, s->width) &&
           s->height * (s->width + 8) + 8 * s->vertices < MOST_PIXELS;
}

EXPORT int64_t midline3d_bands(void) { return BANDS; }

typedef struct {
    const char *name;
    size_t offset;
} field;

#define AT(name) {#name, offsetof(scene, name)},
static const field scene_fields[] = {AT(job) AT(views) AT(vertices) AT(height) AT(width) AT(cutoff) AT(robust) AT(centre)
    AT(sigma) AT(iota) AT(rho) AT(images) AT(picture) AT(up_image) AT(up_overlap) AT(up_mass) AT(owner) AT(image)
    AT(overlap) AT(mass) AT(gram) AT(slope) AT(loss) AT(sums) AT(losses) AT(next)
    {NULL, sizeof(scene)}};

/* The name of a field of the only record there is, its place in `offset`; NULL after the last, with the size. */
EXPORT const char *midline3d_field(int record, int index, int64_t *offset) {
    const field *at = scene_fields;
    *offset = -1;
    if (record != 0) return NULL;
    while (index-- > 0 && at->name) at++;
    *offset = (int64_t)at->offset;
    return at->name;
}

EXPORT const char *midline3d_version(int doubles, int most) { return of(doubles, most)->name; }

/* Bytes of memory that each thread needs in `midline3d_work`; -1 where no work can be done on such sizes. */
EXPORT int64_t midline3d_room(const scene *s, int doubles, int most) {
    return is_possible(s) ? (int64_t)of(doubles, most)->room_size(s) : -1;
}

/* Any number of threads may call this at once, each with a room of its own; it returns when no band is left to take. */
EXPORT void midline3d_work(scene *s, char *room, int doubles, int most) {
    if (is_possible(s)) of(doubles, most)->work(s, room);
}

/* To be called once, when all threads are done. */
EXPORT void midline3d_gather(const scene *s, int doubles, int most) {
    if (is_possible(s)) of(doubles, most)->gather(s);
}

/* Windows' linker asks every extension for this. It is never called: ctypes opens the library. */
EXPORT void *PyInit__kernel(void) { return NULL; }
