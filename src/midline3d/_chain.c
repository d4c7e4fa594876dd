/* The small sums of a second-order step, for a frame or a batch of them: curves, normal equations, their solution.

   Hundreds of torch calls on a hundred vertices cost more than the arithmetic in them. Everything here has its meaning
   and its plain-torch twin where it is called from (curve.py, cameras.py, fitting/normal.py, fitting/second_order.py);
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

/* out = a b, or a' b or a b' of 3 x 3 matrices. */
static void product(const double *a, const double *b, double *out) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) out[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
}

static void product_transposed(const double *a, const double *b, double *out) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            out[3 * i + j] = a[3 * i] * b[3 * j] + a[3 * i + 1] * b[3 * j + 1] + a[3 * i + 2] * b[3 * j + 2];
}

/* ---- Curves (curve.integrate) ---- */

typedef struct {
    int64_t batch, vertices;
    const float *position, *frame, *curvature, *length;
    const int64_t *start;
    float *points, *frames;
} curves;

/* Rotation vector of the segment after vertex n (curve.segment_rotations). */
static void segment_turn(const double *k, int64_t n, int64_t vertices, double *turn) {
    const double step = 1.0 / (double)(vertices - 1);
    const double *before = k + 2 * n, *after = before + 2;
    const int64_t low = n > 0 ? n : 1, high = n + 1 < vertices - 1 ? n + 1 : vertices - 2;
    double mean[2];
    for (int i = 0; i < 2; i++) {
        double here = k[2 * low + 2 + i] - 2 * k[2 * low + i] + k[2 * low - 2 + i];
        double there = k[2 * high + 2 + i] - 2 * k[2 * high + i] + k[2 * high - 2 + i];
        mean[i] = (before[i] + after[i]) / 2 - (here + there) / 24;
    }
    turn[0] = (before[0] * after[1] - before[1] * after[0]) * (step * step / 12);
    turn[1] = -mean[1] * step;
    turn[2] = mean[0] * step;
}

/* Chord of a segment for unit length, in the frame it starts with (curve._chords). */
static void segment_chord(const double *t, const double *k, int64_t vertices, double *chord) {
    const double a = t[0] * t[0] + t[1] * t[1] + t[2] * t[2], late = 1.0 / (12.0 * (double)(vertices - 1));
    const double first = (1 - a / 12 + a * a / 360) / 2, second = (1 - a / 20 + a * a / 840) / 6;
    chord[0] = 1 - second * (t[1] * t[1] + t[2] * t[2]);
    chord[1] = first * t[2] + second * t[0] * t[1] - (k[2] - k[0]) * late;
    chord[2] = second * t[0] * t[2] - first * t[1] - (k[3] - k[1]) * late;
}

/* q <- q exp(turn / 2), as quaternions. */
static void turn_on(double *q, const double *t) {
    const double h = (t[0] * t[0] + t[1] * t[1] + t[2] * t[2]) / 4;
    const double c = 1 - h / 2 + h * h / 24 - h * h * h / 720;
    const double s = 0.5 - h / 12 + h * h / 240 - h * h * h / 10080;
    const double x = s * t[0], y = s * t[1], z = s * t[2], a = q[0], b = q[1], d = q[2], e = q[3];
    q[0] = a * c - b * x - d * y - e * z;
    q[1] = a * x + c * b + d * z - e * y;
    q[2] = a * y + c * d + e * x - b * z;
    q[3] = a * z + c * e + b * y - d * x;
    const double norm = 1 / sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++) q[i] *= norm;
}

static void rotation_of(const double *q, double *r) {
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    r[0] = 1 - 2 * (y * y + z * z), r[1] = 2 * (x * y - w * z), r[2] = 2 * (x * z + w * y);
    r[3] = 2 * (x * y + w * z), r[4] = 1 - 2 * (x * x + z * z), r[5] = 2 * (y * z - w * x);
    r[6] = 2 * (x * z - w * y), r[7] = 2 * (y * z + w * x), r[8] = 1 - 2 * (x * x + y * y);
}

/* One curve through `position` with `frame` at `start`; `room` holds 12 numbers a vertex. */
static void integrate(const double *k, int64_t vertices, double length, int64_t start, const double *position,
                      const double *frame, double *room, float *points, float *frames) {
    double *rotations = room, *places = room + 9 * vertices, q[4] = {1, 0, 0, 0}, turn[3], chord[3], carry[9], out[9];
    const double unit = length / (double)(vertices - 1);
    rotation_of(q, rotations);
    memset(places, 0, 3 * sizeof(double));
    for (int64_t n = 0; n + 1 < vertices; n++) {
        const double *r = rotations + 9 * n;
        segment_turn(k, n, vertices, turn);
        segment_chord(turn, k + 2 * n, vertices, chord);
        for (int i = 0; i < 3; i++)
            places[3 * n + 3 + i] =
                places[3 * n + i] + (r[3 * i] * chord[0] + r[3 * i + 1] * chord[1] + r[3 * i + 2] * chord[2]) * unit;
        turn_on(q, turn);
        rotation_of(q, rotations + 9 * n + 9);
    }
    const double origin[3] = {places[3 * start], places[3 * start + 1], places[3 * start + 2]};
    product_transposed(frame, rotations + 9 * start, carry);
    for (int64_t n = 0; n < vertices; n++) {
        double arm[3];
        for (int i = 0; i < 3; i++) arm[i] = places[3 * n + i] - origin[i];
        for (int i = 0; i < 3; i++)
            points[3 * n + i] = (float)(position[i] + carry[3 * i] * arm[0] + carry[3 * i + 1] * arm[1] +
                                        carry[3 * i + 2] * arm[2]);
        product(carry, rotations + 9 * n, out);
        for (int i = 0; i < 9; i++) frames[9 * n + i] = (float)out[i];
    }
}

EXPORT int midline3d_integrate(const curves *c, int64_t from, int64_t to) {
    const int64_t count = c->vertices;
    double *k = malloc((size_t)(14 * count) * sizeof(double));
    if (!k) return NO_MEMORY;
    int error = NO_ERROR;
    for (int64_t b = from; b < to; b++) {
        const int64_t start = c->start[b] < 0 ? c->start[b] + count : c->start[b];
        if (start < 0 || start >= count) {
            error = NO_SUCH_VERTEX;
            break;
        }
        double position[3], frame[9];
        for (int i = 0; i < 3; i++) position[i] = c->position[3 * b + i];
        for (int i = 0; i < 9; i++) frame[i] = c->frame[9 * b + i];
        for (int64_t i = 0; i < 2 * count; i++) k[i] = c->curvature[2 * count * b + i];
        integrate(k, count, c->length[b], start, position, frame, k + 2 * count, c->points + 3 * count * b,
                  c->frames + 9 * count * b);
    }
    free(k);
    return error;
}

/* ---- A step of the unknowns (second_order.moved) ---- */

typedef struct {
    int64_t batch, vertices, nodes, cameras, axes;
    double longest_log, look_log; /* the most that a step may change log length, and log sigma, iota and rho */
    double circles, defocus_most, length_low, length_high, sigma_low, sigma_high, iota_low, iota_high, rho_low, rho_high;
    const float *step, *basis, *points, *frames, *curvature, *length, *shift, *sigma, *iota, *rho, *defocus;
    float *new_points, *new_frames, *new_curvature, *new_length, *new_shift, *new_sigma, *new_iota, *new_rho,
        *new_defocus;
} steps;

/* frame <- exp(turn x) frame with T and M1 made orthonormal (curve.rotation_exp, curve.orthonormal). */
static void turn_frame(const double *turn, double *frame) {
    const double a = turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2], angle = sqrt(a);
    const double s = a < 1e-8 ? 1 - a / 6 : sin(angle) / angle, c = a < 1e-8 ? 0.5 - a / 24 : (1 - cos(angle)) / a;
    double columns[3][3];
    for (int j = 0; j < 2; j++) {
        double old[3] = {frame[j], frame[3 + j], frame[6 + j]}, once[3], twice[3];
        cross(turn, old, once);
        cross(turn, once, twice);
        for (int i = 0; i < 3; i++) columns[j][i] = old[i] + s * once[i] + c * twice[i];
        double along = 0, norm = 0;
        for (int i = 0; i < 3 && j; i++) along += columns[0][i] * columns[1][i];
        for (int i = 0; i < 3; i++) columns[j][i] -= j ? along * columns[0][i] : 0, norm += columns[j][i] * columns[j][i];
        for (int i = 0; i < 3; i++) columns[j][i] /= sqrt(norm);
    }
    cross(columns[0], columns[1], columns[2]);
    for (int i = 0; i < 9; i++) frame[i] = columns[i % 3][i / 3];
}

static void grown(const float *old, const float *log_step, double most, double low, double high, int64_t count,
                  float *out) {
    for (int64_t i = 0; i < count; i++) out[i] = (float)within(old[i] * exp(within(log_step[i], -most, most)), low, high);
}

EXPORT int midline3d_moved(const steps *s, int64_t from, int64_t to) {
    const int64_t vertices = s->vertices, nodes = s->nodes, cameras = s->cameras, middle = vertices / 2;
    const double limit = 2 * 3.14159265358979323846 * s->circles;
    double *k = malloc((size_t)(14 * vertices) * sizeof(double));
    if (!k) return NO_MEMORY;
    for (int64_t b = from; b < to; b++) {
        const float *step = s->step + b * (6 + 2 * nodes + s->axes + 4 * cameras), *bend = step + 5;
        const float *shift = bend + 2 * nodes + 1, *look = shift + s->axes;
        const float *place = s->points + 3 * (vertices * b + middle), *old = s->frames + 9 * (vertices * b + middle);
        double position[3], frame[9], turn[3];
        for (int i = 0; i < 9; i++) frame[i] = old[i];
        for (int i = 0; i < 3; i++) {
            position[i] = (double)place[i] + step[i];
            turn[i] = frame[3 * i + 1] * step[3] + frame[3 * i + 2] * step[4];
        }
        turn_frame(turn, frame);
        for (int64_t n = 0; n < vertices; n++) {
            const float *row = s->basis + nodes * n, *now = s->curvature + 2 * (vertices * b + n);
            double one = now[0], two = now[1];
            for (int64_t j = 0; j < nodes; j++) one += (double)row[j] * bend[j], two += (double)row[j] * bend[nodes + j];
            const double norm = sqrt(one * one + two * two), shorter = norm > limit ? limit / norm : 1;
            float *out = s->new_curvature + 2 * (vertices * b + n);
            out[0] = (float)(one * shorter), out[1] = (float)(two * shorter);
            k[2 * n] = out[0], k[2 * n + 1] = out[1];
        }
        grown(s->length + b, bend + 2 * nodes, s->longest_log, s->length_low, s->length_high, 1, s->new_length + b);
        for (int64_t i = 0; i < s->axes; i++) s->new_shift[s->axes * b + i] = s->shift[s->axes * b + i] + shift[i];
        const int64_t view = cameras * b;
        grown(s->sigma + view, look, s->look_log, s->sigma_low, s->sigma_high, cameras, s->new_sigma + view);
        grown(s->iota + view, look + cameras, s->look_log, s->iota_low, s->iota_high, cameras, s->new_iota + view);
        grown(s->rho + view, look + 3 * cameras, s->look_log, s->rho_low, s->rho_high, cameras, s->new_rho + view);
        for (int64_t i = 0; i < cameras; i++)
            s->new_defocus[view + i] =
                (float)within((double)s->defocus[view + i] + look[2 * cameras + i], -s->defocus_most, s->defocus_most);
        integrate(k, vertices, s->new_length[b], middle, position, frame, k + 2 * vertices,
                  s->new_points + 3 * vertices * b, s->new_frames + 9 * vertices * b);
    }
    free(k);
    return NO_ERROR;
}

/* ---- Cameras ---- */

typedef struct {
    int64_t own; /* 1: every frame has cameras of its own; 0: all share one rig */
    const float *focal, *centre, *distortion, *rotation, *translation, *shift_basis;
} rigs;

typedef struct {
    double focal[2], centre[2], distortion[5], rotation[9], translation[3];
} camera;

static camera camera_of(const rigs *rig, int64_t frame, int64_t cameras, int64_t index) {
    const int64_t at = (rig->own ? frame * cameras : 0) + index;
    camera out;
    for (int i = 0; i < 2; i++) out.focal[i] = rig->focal[2 * at + i], out.centre[i] = rig->centre[2 * at + i];
    for (int i = 0; i < 5; i++) out.distortion[i] = rig->distortion[5 * at + i];
    for (int i = 0; i < 9; i++) out.rotation[i] = rig->rotation[9 * at + i];
    for (int i = 0; i < 3; i++) out.translation[i] = rig->translation[3 * at + i];
    return out;
}

static void in_camera(const camera *c, const float *p, double *out) {
    for (int i = 0; i < 3; i++)
        out[i] = c->rotation[3 * i] * p[0] + c->rotation[3 * i + 1] * p[1] + c->rotation[3 * i + 2] * p[2] +
                 c->translation[i];
}

/* d(u, v) / d(X, Y, Z), rows u and v (cameras.projection_jacobian). */
static void projection_jacobian(const camera *c, const float *p, double *out) {
    const double *k = c->distortion, aspect = c->focal[0] / c->focal[1];
    double at[3], pinhole[6];
    in_camera(c, p, at);
    const double x = at[0] / at[2], y = at[1] / at[2], r = x * x + y * y;
    for (int i = 0; i < 3; i++) {
        pinhole[i] = c->focal[0] / at[2] * (c->rotation[i] - x * c->rotation[6 + i]);
        pinhole[3 + i] = c->focal[1] / at[2] * (c->rotation[3 + i] - y * c->rotation[6 + i]);
    }
    const double radial = 1 + r * (k[0] + r * (k[1] + r * k[4])), slope = 2 * (k[0] + r * (2 * k[1] + 3 * r * k[4]));
    const double xx = radial + slope * x * x + 2 * k[2] * y + 6 * k[3] * x;
    const double yy = radial + slope * y * y + 6 * k[2] * y + 2 * k[3] * x;
    const double xy = slope * x * y + 2 * k[2] * x + 2 * k[3] * y;
    for (int i = 0; i < 3; i++) {
        out[i] = xx * pinhole[i] + xy * aspect * pinhole[3 + i];
        out[3 + i] = xy / aspect * pinhole[i] + yy * pinhole[3 + i];
    }
}

typedef struct {
    int64_t batch, vertices, cameras, axes;
    rigs rig;
    const float *points, *shift; /* no shift: NULL */
    float *centre;
} projections;

EXPORT int midline3d_project(const projections *s, int64_t from, int64_t to) {
    for (int64_t b = from; b < to; b++)
        for (int64_t view = 0; view < s->cameras; view++) {
            const camera c = camera_of(&s->rig, b, s->cameras, view);
            const double *k = c.distortion;
            double aside[2] = {0, 0}, at[3];
            for (int i = 0; i < 2 && s->shift; i++)
                for (int64_t a = 0; a < s->axes; a++)
                    aside[i] += s->rig.shift_basis[(2 * view + i) * s->axes + a] * s->shift[s->axes * b + a];
            for (int64_t n = 0; n < s->vertices; n++) {
                in_camera(&c, s->points + 3 * (s->vertices * b + n), at);
                const double x = at[0] / at[2] + aside[0] / c.focal[0], y = at[1] / at[2] + aside[1] / c.focal[1];
                const double r = x * x + y * y, radial = 1 + r * (k[0] + r * (k[1] + r * k[4]));
                float *out = s->centre + 2 * ((s->cameras * b + view) * s->vertices + n);
                out[0] = (float)((radial * x + 2 * k[2] * x * y + k[3] * (r + 2 * x * x)) * c.focal[0] + c.centre[0]);
                out[1] = (float)((radial * y + k[2] * (r + 2 * y * y) + 2 * k[3] * x * y) * c.focal[1] + c.centre[1]);
            }
        }
    return NO_ERROR;
}

/* ---- The normal equations of the pixels (normal.pixel_system) ---- */

typedef struct {
    int64_t batch, vertices, nodes, cameras, axes;
    rigs rig;
    const float *gram, *slope, *points, *frames, *segments, *by_view, *rho;
    float *hessian, *gradient;
} systems;

enum { DENSE = 6 }; /* unknowns that move all vertices: move, turn, log length */

/* One frame's sums. Bends stand node by node, both directions of one side by side, so that the nodes between the middle
   and a vertex, the only ones that move it, lie together. */
typedef struct {
    int64_t bends, others, width; /* width: of a row of `mixed`, dense unknowns, others, and the slope */
    double *mixed;                /* (dense + bends, width): shape with dense, others and slope */
    double *bent;                 /* (bends, bends), upper */
    double *corner, *rest;        /* (others, others) and (others) */
    double *axis, *moment;        /* (3, bends): sums of S a and S (a x pivot), from the middle to the vertex */
    double *place, *pushed;       /* (3, bends): D and G D */
    double *right;                /* (3, width): G times the dense part of D, coupling, pull */
    const int64_t *span;          /* of each segment, its first node and that after its last */
} sums;

/* What vertex n's blobs give in all views: its 3 x 3 matrix, its coupling to the others and its pull; and the others' own
   part. A blob's sigma, iota and rho depend on its own view's unknowns and its place on the shifts alone. */
static void add_blobs(const systems *s, const sums *t, const camera *rig, int64_t b, int64_t n, double *spatial) {
    const int64_t axes = s->axes, cameras = s->cameras;
    memset(t->right, 0, (size_t)(3 * t->width) * sizeof(double));
    memset(spatial, 0, 9 * sizeof(double));
    for (int64_t view = 0; view < cameras; view++) {
        const int64_t blob = (cameras * b + view) * s->vertices + n;
        const float *A = s->gram + 25 * blob, *slope = s->slope + 5 * blob, *look = s->by_view + 6 * blob;
        const double rho = s->rho[cameras * b + view];
        double J[6], AJ[6];
        projection_jacobian(rig + view, s->points + 3 * (s->vertices * b + n), J);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++) AJ[3 * i + j] = A[5 * i] * J[j] + A[5 * i + 1] * J[3 + j];
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) spatial[3 * i + j] += J[i] * AJ[j] + J[3 + i] * AJ[3 + j];
            t->right[(i + 1) * t->width - 1] += J[i] * slope[0] + J[3 + i] * slope[1];
        }
        for (int64_t one = 0; one < axes + 4; one++) {
            const int64_t q = one - axes, column = q < 0 ? one : axes + q * cameras + view;
            const float *way = s->rig.shift_basis + 2 * axes * view;
            double push[5], near, far;
            int first; /* which of the five numbers this unknown moves: this and the next, or rho alone */
            if (q < 0)
                first = 0, near = way[one], far = way[axes + one];
            else if (q < 3)
                first = 2, near = look[q], far = look[3 + q];
            else
                first = 4, near = rho, far = 0;
            const int next = first < 4 ? first + 1 : first;
            for (int r = 0; r < 5; r++) push[r] = A[5 * r + first] * near + A[5 * r + next] * far;
            for (int i = 0; i < 3; i++) t->right[i * t->width + DENSE + column] += J[i] * push[0] + J[3 + i] * push[1];
            t->rest[column] += near * slope[first] + far * slope[next];
            double *row = t->corner + t->others * column;
            for (int64_t a = 0; a < axes; a++) row[a] += way[a] * push[0] + way[axes + a] * push[1];
            for (int64_t p = 0; p < 3; p++) row[axes + p * cameras + view] += look[p] * push[2] + look[3 + p] * push[3];
            row[axes + 3 * cameras + view] += rho * push[4];
        }
    }
}

/* left' right of vertex n's three rows, for one unknown of the shape. */
static void add_row(const double *left, int64_t stride, const double *RESTRICT right, int64_t width, int64_t count,
                    double *RESTRICT out) {
    const double x = left[0], y = left[stride], z = left[2 * stride];
    const double *RESTRICT second = right + width, *RESTRICT third = second + width;
    for (int64_t j = 0; j < count; j++) out[j] += x * right[j] + y * second[j] + z * third[j];
}

static void add_segment(const systems *s, const sums *t, int64_t b, int64_t m, double side) {
    const int64_t bends = t->bends;
    const float *p = s->points + 3 * (s->vertices * b + m), *f = s->frames + 9 * (s->vertices * b + m);
    const float *middle = s->points + 3 * (s->vertices * b + s->vertices / 2), *row = s->segments + s->nodes * m;
    const double half = side / (2 * (double)(s->vertices - 1));
    double pivot[3], axis[3], moment[3];
    for (int i = 0; i < 3; i++) pivot[i] = ((double)p[i] + p[3 + i]) / 2 - middle[i];
    for (int way = 0; way < 2; way++) {
        /* Bending towards M1 is a turn about M2, bending towards M2 one about -M1. */
        for (int i = 0; i < 3; i++) {
            const int column = 3 * i + 2 - way;
            axis[i] = ((double)f[column] + f[9 + column]) * (way ? -half : half);
        }
        cross(axis, pivot, moment);
        for (int64_t j = t->span[2 * m]; j < t->span[2 * m + 1]; j++)
            for (int i = 0; i < 3; i++) {
                t->axis[i * bends + 2 * j + way] += row[j] * axis[i];
                t->moment[i * bends + 2 * j + way] += row[j] * moment[i];
            }
    }
}

/* Vertex n, which nodes `low` to `high` move. */
static void add_vertex(const systems *s, const sums *t, const camera *rig, int64_t b, int64_t n, int64_t low,
                       int64_t high) {
    const int64_t bends = t->bends, width = t->width, count = s->vertices;
    const float *p = s->points + 3 * (count * b + n), *middle = s->points + 3 * (count * b + count / 2);
    const float *frame = s->frames + 9 * (count * b + count / 2);
    double G[9], arm[3], dense[3 * DENSE] = {0};
    add_blobs(s, t, rig, b, n, G);
    for (int i = 0; i < 3; i++) arm[i] = (double)p[i] - middle[i];
    for (int j = 0; j < 2; j++) {
        double axis[3] = {frame[1 + j], frame[4 + j], frame[7 + j]}, turned[3];
        cross(axis, arm, turned);
        for (int i = 0; i < 3; i++) dense[DENSE * i + 3 + j] = turned[i];
    }
    for (int i = 0; i < 3; i++) dense[DENSE * i + i] = 1, dense[DENSE * i + 5] = arm[i];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < DENSE; j++)
            t->right[i * width + j] =
                G[3 * i] * dense[j] + G[3 * i + 1] * dense[DENSE + j] + G[3 * i + 2] * dense[2 * DENSE + j];
    for (int j = 0; j < DENSE; j++) add_row(dense + j, DENSE, t->right, width, width, t->mixed + width * j);
    const double *RESTRICT a = t->axis, *RESTRICT c = t->moment;
    double *RESTRICT d = t->place, *RESTRICT g = t->pushed;
    for (int64_t j = 2 * low; j < 2 * high; j++) {
        const double x = a[j], y = a[bends + j], z = a[2 * bends + j];
        d[j] = y * arm[2] - z * arm[1] - c[j];
        d[bends + j] = z * arm[0] - x * arm[2] - c[bends + j];
        d[2 * bends + j] = x * arm[1] - y * arm[0] - c[2 * bends + j];
        for (int i = 0; i < 3; i++)
            g[i * bends + j] = G[3 * i] * d[j] + G[3 * i + 1] * d[bends + j] + G[3 * i + 2] * d[2 * bends + j];
    }
    for (int64_t j = 2 * low; j < 2 * high; j++) {
        add_row(d + j, bends, t->right, width, width, t->mixed + width * (DENSE + j));
        add_row(d + j, bends, g + j, bends, 2 * high - j, t->bent + bends * j + j);
    }
}

/* Where a dense unknown or a bend stands in the frame's vector (normal.Layout). */
static int64_t place_of(int64_t index, int64_t nodes) {
    if (index < DENSE) return index < 5 ? index : 5 + 2 * nodes;
    return 5 + (index - DENSE) % 2 * nodes + (index - DENSE) / 2;
}

static void write_system(const systems *s, const sums *t, int64_t b) {
    const int64_t shape = DENSE + t->bends, count = shape + t->others;
    float *hessian = s->hessian + count * count * b, *gradient = s->gradient + count * b;
#define SET(i, j, value) hessian[count * (i) + (j)] = hessian[count * (j) + (i)] = (float)(value)
    for (int64_t i = 0; i < shape; i++) {
        const double *row = t->mixed + t->width * i;
        const int64_t at = place_of(i, s->nodes);
        for (int64_t j = 0; j < DENSE && j <= i; j++) SET(at, place_of(j, s->nodes), row[j]);
        for (int64_t j = 0; j < t->others; j++) SET(at, shape + j, row[DENSE + j]);
        for (int64_t j = i; i >= DENSE && j < shape; j++)
            SET(at, place_of(j, s->nodes), t->bent[t->bends * (i - DENSE) + j - DENSE]);
        gradient[at] = (float)row[t->width - 1];
    }
    for (int64_t i = 0; i < t->others; i++) {
        for (int64_t j = 0; j <= i; j++) SET(shape + i, shape + j, t->corner[t->others * i + j]);
        gradient[shape + i] = (float)t->rest[i];
    }
#undef SET
}

static void find_spans(const systems *s, int64_t *span) {
    for (int64_t m = 0; m + 1 < s->vertices; m++) {
        const float *row = s->segments + s->nodes * m;
        int64_t low = 0, high = s->nodes;
        while (low < high && row[low] == 0) low++;
        while (high > low && row[high - 1] == 0) high--;
        span[2 * m] = low, span[2 * m + 1] = high;
    }
}

/* From the middle outward on one side: `side` is 1 towards the last vertex, -1 towards the first. */
static void add_side(const systems *s, const sums *t, const camera *rig, int64_t b, int64_t side) {
    int64_t low = s->nodes, high = 0;
    memset(t->axis, 0, (size_t)(6 * t->bends) * sizeof(double));
    for (int64_t n = s->vertices / 2 + side; n >= 0 && n < s->vertices; n += side) {
        const int64_t m = side > 0 ? n - 1 : n;
        if (t->span[2 * m] < t->span[2 * m + 1]) {
            low = t->span[2 * m] < low ? t->span[2 * m] : low;
            high = t->span[2 * m + 1] > high ? t->span[2 * m + 1] : high;
        }
        add_segment(s, t, b, m, (double)side);
        add_vertex(s, t, rig, b, n, low, high);
    }
}

EXPORT int midline3d_system(const systems *s, int64_t from, int64_t to) {
    sums t = {.bends = 2 * s->nodes, .others = s->axes + 4 * s->cameras};
    t.width = DENSE + t.others + 1;
    const int64_t mixed = (DENSE + t.bends) * t.width, bent = t.bends * t.bends, corner = t.others * t.others;
    const int64_t kept = mixed + bent + corner + t.others;
    double *room = malloc((size_t)(kept + 12 * t.bends + 3 * t.width) * sizeof(double));
    camera *rig = malloc((size_t)s->cameras * sizeof(camera));
    int64_t *span = malloc((size_t)(2 * s->vertices) * sizeof(int64_t));
    const int error = room && rig && span ? NO_ERROR : NO_MEMORY;
    if (!error) {
        t.mixed = room, t.bent = t.mixed + mixed, t.corner = t.bent + bent, t.rest = t.corner + corner;
        t.axis = t.rest + t.others, t.moment = t.axis + 3 * t.bends, t.place = t.moment + 3 * t.bends;
        t.pushed = t.place + 3 * t.bends, t.right = t.pushed + 3 * t.bends, t.span = span;
        find_spans(s, span);
    }
    for (int64_t b = from; b < to && !error; b++) {
        for (int64_t view = 0; view < s->cameras; view++) rig[view] = camera_of(&s->rig, b, s->cameras, view);
        memset(room, 0, (size_t)kept * sizeof(double));
        add_vertex(s, &t, rig, b, s->vertices / 2, 0, 0);
        add_side(s, &t, rig, b, 1);
        add_side(s, &t, rig, b, -1);
        write_system(s, &t, b);
    }
    free(room), free(rig), free(span);
    return error;
}

/* ---- The damped step (second_order.solve) ---- */

typedef struct {
    int64_t batch, count;
    const float *hessian, *gradient, *damping;
    float *step;
} solutions;

/* H = U'U in place, upper triangle, row by row. A matrix that is not positive gives NaN. */
static void factor(double *h, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        double *RESTRICT pivot = h + count * k;
        const double scale = 1 / sqrt(pivot[k]);
        for (int64_t j = k; j < count; j++) pivot[j] *= scale;
        for (int64_t i = k + 1; i < count; i++) {
            const double share = pivot[i];
            double *RESTRICT row = h + count * i;
            for (int64_t j = i; j < count; j++) row[j] -= share * pivot[j];
        }
    }
}

EXPORT int midline3d_solve(const solutions *s, int64_t from, int64_t to) {
    const int64_t count = s->count;
    double *h = malloc((size_t)(count * count + count) * sizeof(double)), *x = h + count * count;
    if (!h) return NO_MEMORY;
    for (int64_t b = from; b < to; b++) {
        double most = -INFINITY;
        for (int64_t i = 0; i < count * count; i++) h[i] = s->hessian[count * count * b + i];
        for (int64_t i = 0; i < count; i++) most = h[(count + 1) * i] > most ? h[(count + 1) * i] : most;
        for (int64_t i = 0; i < count; i++) h[(count + 1) * i] += h[(count + 1) * i] * s->damping[b] + 1e-9 * most;
        factor(h, count);
        for (int64_t i = 0; i < count; i++) x[i] = -s->gradient[count * b + i];
        for (int64_t i = 0; i < count; i++) {
            x[i] /= h[(count + 1) * i];
            for (int64_t j = i + 1; j < count; j++) x[j] -= h[count * i + j] * x[i];
        }
        for (int64_t i = count - 1; i >= 0; i--) {
            for (int64_t j = i + 1; j < count; j++) x[i] -= h[count * i + j] * x[j];
            x[i] /= h[(count + 1) * i];
        }
        for (int64_t i = 0; i < count; i++) s->step[count * b + i] = (float)x[i];
    }
    free(h);
    return NO_ERROR;
}

/* The records' sizes, for compiled.py to compare with its own. */
EXPORT int64_t midline3d_record_size(int which) {
    static const int64_t sizes[] = {sizeof(curves), sizeof(steps), sizeof(projections), sizeof(systems),
                                    sizeof(solutions)};
    return which >= 0 && which < (int)(sizeof sizes / sizeof *sizes) ? sizes[which] : -1;
}

/* Windows' linker asks every extension for this. It is never called: ctypes opens the library. */
EXPORT void *PyInit__chain(void) { return NULL; }
