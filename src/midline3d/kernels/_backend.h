/* The small sums of a step, for a frame or a batch of them: curves, image points, how the body looks,
   energies, normal equations and their solution.

   Hundreds of torch calls on a hundred vertices cost more than the arithmetic in them. Everything here has its meaning
   in plain torch in reference.py, which names the equations;
   cpu.py has the same records. float32 in and out, float64 between: at these sizes it costs nothing, and no sum
   depends on its order to more than float32 can show. Frames are independent, so that any number of threads gives
   the same bits.

   Each instruction set is a file of its own that includes this one (_backend.c, _backend_avx2.c, _backend_avx512.c) with
   FUNCTIONS, the name of its table. Sizes are checked here, where a wrong one would read or write beyond the end;
   addresses are trusted. */

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

enum { NO_ERROR, NO_MEMORY, NO_SUCH_VERTEX, NO_SUCH_SIZE };

/* Frames `from` to `to` (excluded) of one of the records below. */
typedef int (*backend_function)(const void *record, int64_t from, int64_t to);

#define LEAST_VERTICES 3 /* a curvature's second difference has as many */
#define MOST ((int64_t)1 << 20) /* of anything: with more, sums of sizes would not be sure to fit into 64 bits */

/* Whether a curve has so many vertices, or there may be so many of something. */
static int is_curve(int64_t vertices) { return vertices >= LEAST_VERTICES && vertices <= MOST; }
static int is_count(int64_t count) { return count >= 0 && count <= MOST; }

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

#include "layout.h"
#include "curves.h"
#include "views.h"
#include "systems.h"

/* In the order of cpu.py. */
const backend_function FUNCTIONS[] = {integrate_curves, take_steps, project_points, see_depths, taper_blobs, sum_energies,
    add_systems, solve_systems};
