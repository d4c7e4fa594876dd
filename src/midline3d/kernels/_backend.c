/* The library of _backend.h: the plainest version, the choice among all, and what cpu.py checks before it calls. */

#define FUNCTIONS midline3d_backend_plain
#include "_backend.h"
#include "../_processor.h"

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#ifdef WIDER
extern const backend_function midline3d_backend_avx2[], midline3d_backend_avx512[];
static const backend_function *const versions[] = {midline3d_backend_plain, midline3d_backend_avx2, midline3d_backend_avx512};
static const char *const version_names[] = {PLAINEST, "AVX2", "AVX-512"};
#else
static const backend_function *const versions[] = {midline3d_backend_plain};
static const char *const version_names[] = {PLAINEST};
#endif

/* Fields of a record by name and place; the last one has no name and the record's size. */
typedef struct {
    const char *name;
    size_t offset;
} field;

#define AT(name) {#name, offsetof(RECORD, name)},
#define AT_RIG AT(rig.own) AT(rig.focal) AT(rig.centre) AT(rig.distortion) AT(rig.rotation) AT(rig.translation) \
    AT(rig.shift_basis)
#define AT_LAYOUT AT(layout.nodes) AT(layout.axes) AT(layout.cameras) AT(layout.move) AT(layout.turn) AT(layout.bend) \
    AT(layout.length) AT(layout.shift) AT(layout.sigma) AT(layout.iota) AT(layout.defocus) AT(layout.rho) AT(layout.count)
#define END {NULL, sizeof(RECORD)}

#define RECORD curves
static const field curve_fields[] = {AT(batch) AT(vertices) AT(loose) AT(position) AT(start_bishop) AT(curvature)
    AT(length) AT(start) AT(points) AT(bishop) END};
#undef RECORD
#define RECORD steps
static const field step_fields[] = {AT(batch) AT(vertices) AT_LAYOUT AT(longest_log) AT(appearance_log) AT(circles)
    AT(defocus_most) AT(length_low) AT(length_high) AT(sigma_low) AT(sigma_high) AT(iota_low) AT(iota_high)
    AT(rho_low) AT(rho_high) AT(step) AT(basis) AT(points) AT(bishop) AT(curvature) AT(length) AT(shift) AT(sigma)
    AT(iota) AT(rho) AT(defocus) AT(new_points) AT(new_bishop) AT(new_curvature) AT(new_length) AT(new_shift)
    AT(new_sigma) AT(new_iota) AT(new_rho) AT(new_defocus) END};
#undef RECORD
#define RECORD projections
static const field projection_fields[] = {AT(batch) AT(vertices) AT(cameras) AT(axes) AT_RIG AT(points) AT(shift)
    AT(pixels) END};
#undef RECORD
#define RECORD opticals
static const field optics_fields[] = {AT(batch) AT(vertices) AT(cameras) AT(own) AT(longest) AT(rotation) AT(points)
    AT(tangents) AT(stretch) AT(beyond) END};
#undef RECORD
#define RECORD appearances
static const field appearance_fields[] = {AT(batch) AT(vertices) AT(cameras) AT(knots) AT(own) AT(floor) AT(cap) AT(rounded)
    AT(sigma) AT(iota) AT(defocus) AT(stretch) AT(beyond) AT(sharp) AT(body_length) AT(taper) AT(tissue) AT(hats)
    AT(wide) AT(bright) AT(by_view) END};
#undef RECORD
#define RECORD energies
static const field energy_fields[] = {AT(batch) AT(vertices) AT_LAYOUT AT(pixels) AT(losses) AT(curvature) AT(stiffness)
    AT(keeping) AT(length) AT(shift) AT(sigma) AT(iota) AT(defocus) AT(rho) AT(old_length) AT(old_shift) AT(old_sigma)
    AT(old_iota) AT(old_rho) AT(total) AT(terms) AT(gradient) END};
#undef RECORD
#define RECORD systems
static const field system_fields[] = {AT(batch) AT(vertices) AT_LAYOUT AT_RIG AT(gram) AT(slope)
    AT(points) AT(bishop) AT(segments) AT(by_view) AT(rho) AT(hessian) AT(gradient) END};
#undef RECORD
#define RECORD solutions
static const field solution_fields[] = {AT(batch) AT(count) AT(hessian) AT(gradient) AT(damping) AT(step) END};
#undef RECORD

static const field *const records[] = {curve_fields, step_fields, projection_fields, optics_fields, appearance_fields,
    energy_fields, system_fields, solution_fields};
enum { RECORDS = sizeof records / sizeof *records };

/* The name of a record's field, its place in `offset`; NULL after the last, with the record's size. */
EXPORT const char *midline3d_field(int record, int index, int64_t *offset) {
    *offset = -1;
    if (record < 0 || record >= RECORDS) return NULL;
    const field *at = records[record];
    while (index-- > 0 && at->name) at++;
    *offset = (int64_t)at->offset;
    return at->name;
}

/* The version that runs on this machine, at most `most` (negative: any). */
EXPORT const char *midline3d_version(int most) { return version_names[chosen_version(most)]; }

/* One of the functions over some frames of its record, by the version that `most` allows. */
EXPORT int midline3d_run(int which, const void *record, int64_t from, int64_t to, int most) {
    if (which < 0 || which >= RECORDS || from < 0) return NO_SUCH_SIZE;
    return versions[chosen_version(most)][which](record, from, to);
}

/* Windows' linker asks every extension for this. It is never called: ctypes opens the library. */
EXPORT void *PyInit__backend(void) { return NULL; }
