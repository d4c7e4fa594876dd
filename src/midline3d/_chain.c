/* The small sums of a step, for a frame or a batch of them: curves, image points, normal equations and their
   solution.

   Hundreds of torch calls on a hundred vertices cost more than the arithmetic in them. Everything here has its meaning
   and its plain-torch twin where it is called from (curve.py, cameras.py, those of fitting);
   compiled.py has the same records. float32 in and out, float64 between: at these sizes it costs nothing, and no sum
   depends on its order to more than float32 can show. Frames are independent, so that any number of threads gives
   the same bits. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_MSC_VER) && !defined(__clang__)
#define RESTRICT __restrict
#else
#define RESTRICT restrict
#endif
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { NO_ERROR, NO_MEMORY, NO_SUCH_VERTEX };

static double within(double value, double low, double high) {
    /* NaN stays NaN, as in torch. */
    return value < low ? low : value > high ? high : value;
}

static void cross(const double *a, const double *b, double *out) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* out = a b, or a b', of 3 x 3 matrices. */
static void product(const double *a, const double *b, double *out) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) out[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
}

static void product_transposed(const double *a, const double *b, double *out) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            out[3 * i + j] = a[3 * i] * b[3 * j] + a[3 * i + 1] * b[3 * j + 1] + a[3 * i + 2] * b[3 * j + 2];
}

#include "_chain_curves.h"
#include "_chain_cameras.h"
#include "_chain_systems.h"

/* The records' sizes, for compiled.py to compare with its own. */
EXPORT int64_t midline3d_record_size(int which) {
    static const int64_t sizes[] = {sizeof(curves), sizeof(steps), sizeof(projections), sizeof(systems), sizeof(solutions)};
    return which >= 0 && which < (int)(sizeof sizes / sizeof *sizes) ? sizes[which] : -1;
}

/* Windows' linker asks every extension for this. It is never called: ctypes opens the library. */
EXPORT void *PyInit__chain(void) { return NULL; }
