/* Cameras: image points (cameras.project) and their derivatives (cameras.projection_jacobian). */

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

/* Derivative of the distorted by the undistorted image point (x, y), both in px: 2 x 2 (cameras._distortion_jacobian). */
static void distortion_jacobian(const camera *c, double x, double y, double *out) {
    const double *k = c->distortion, aspect = c->focal[0] / c->focal[1], r = x * x + y * y;
    const double radial = 1 + r * (k[0] + r * (k[1] + r * k[4])), slope = 2 * (k[0] + r * (2 * k[1] + 3 * r * k[4]));
    const double xy = slope * x * y + 2 * k[2] * x + 2 * k[3] * y;
    out[0] = radial + slope * x * x + 2 * k[2] * y + 6 * k[3] * x;
    out[1] = xy * aspect, out[2] = xy / aspect;
    out[3] = radial + slope * y * y + 6 * k[2] * y + 2 * k[3] * x;
}

/* d(u, v) / d(X, Y, Z), rows u and v (cameras.projection_jacobian), and that of the distortion alone, the image moved
   `aside` by so many px before it. */
static void shifted_jacobian(const camera *c, const float *p, const double *aside, double *bent, double *out) {
    double at[3];
    in_camera(c, p, at);
    const double x = at[0] / at[2], y = at[1] / at[2];
    distortion_jacobian(c, x + aside[0] / c->focal[0], y + aside[1] / c->focal[1], bent);
    for (int i = 0; i < 3; i++) {
        const double u = c->focal[0] / at[2] * (c->rotation[i] - x * c->rotation[6 + i]);
        const double v = c->focal[1] / at[2] * (c->rotation[3 + i] - y * c->rotation[6 + i]);
        out[i] = bent[0] * u + bent[1] * v;
        out[3 + i] = bent[2] * u + bent[3] * v;
    }
}

static void projection_jacobian(const camera *c, const float *p, double *out) {
    const double nowhere[2] = {0, 0};
    double bent[4];
    shifted_jacobian(c, p, nowhere, bent, out);
}

typedef struct {
    int64_t batch, vertices, cameras, axes;
    rigs rig;
    const float *points, *shift; /* no shift: NULL */
    float *pixels;
} projections;

/* px by which the shifts move a view. */
static void shifted_by(const rigs *rig, int64_t view, int64_t axes, const float *shift, double *aside) {
    for (int i = 0; i < 2; i++) {
        aside[i] = 0;
        for (int64_t a = 0; shift && a < axes; a++) aside[i] += rig->shift_basis[(2 * view + i) * axes + a] * shift[a];
    }
}

static int project_points(const void *record, int64_t from, int64_t to) {
    const projections *s = record;
    if (!is_count(s->vertices) || !is_count(s->cameras) || !is_count(s->axes)) return NO_SUCH_SIZE;
    for (int64_t b = from; b < to; b++)
        for (int64_t view = 0; view < s->cameras; view++) {
            const camera c = camera_of(&s->rig, b, s->cameras, view);
            const double *k = c.distortion;
            double aside[2], at[3];
            shifted_by(&s->rig, view, s->axes, s->shift ? s->shift + s->axes * b : NULL, aside);
            for (int64_t n = 0; n < s->vertices; n++) {
                in_camera(&c, s->points + 3 * (s->vertices * b + n), at);
                const double x = at[0] / at[2] + aside[0] / c.focal[0], y = at[1] / at[2] + aside[1] / c.focal[1];
                const double r = x * x + y * y, radial = 1 + r * (k[0] + r * (k[1] + r * k[4]));
                float *out = s->pixels + 2 * ((s->cameras * b + view) * s->vertices + n);
                out[0] = (float)((radial * x + 2 * k[2] * x * y + k[3] * (r + 2 * x * x)) * c.focal[0] + c.centre[0]);
                out[1] = (float)((radial * y + k[2] * (r + 2 * y * y) + 2 * k[3] * x * y) * c.focal[1] + c.centre[1]);
            }
        }
    return NO_ERROR;
}
