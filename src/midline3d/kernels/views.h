/* Views: image points (cameras.project), their derivatives (cameras.projection_jacobian), and how the body looks there
   (appearance). */

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

typedef struct {
    int64_t batch, vertices, cameras, own; /* own: 1 where every frame has cameras of its own */
    double longest;
    const float *rotation, *points, *tangents;
    float *stretch, *beyond;
} opticals;

/* appearance.optics: light's way through the body, and how much further away each vertex is than the mean of all. */
static int see_depths(const void *record, int64_t from, int64_t to) {
    const opticals *s = record;
    if (!is_count(s->vertices) || !is_count(s->cameras)) return NO_SUCH_SIZE;
    for (int64_t b = from; b < to; b++)
        for (int64_t view = 0; view < s->cameras; view++) {
            const float *sight = s->rotation + 9 * ((s->own ? b * s->cameras : 0) + view) + 6;
            float *stretch = s->stretch + (b * s->cameras + view) * s->vertices;
            float *beyond = s->beyond + (b * s->cameras + view) * s->vertices;
            double mean = 0;
            for (int64_t n = 0; n < s->vertices; n++) {
                const float *p = s->points + 3 * (s->vertices * b + n);
                mean += (double)sight[0] * p[0] + (double)sight[1] * p[1] + (double)sight[2] * p[2];
            }
            mean /= (double)s->vertices;
            for (int64_t n = 0; n < s->vertices; n++) {
                const float *p = s->points + 3 * (s->vertices * b + n), *t = s->tangents + 3 * (s->vertices * b + n);
                const double along = (double)sight[0] * t[0] + (double)sight[1] * t[1] + (double)sight[2] * t[2];
                const double across = 1 - along * along;
                const double sine = sqrt(across < 0 ? 0 : across);
                stretch[n] = (float)(1 / (sine < 1 / s->longest ? 1 / s->longest : sine));
                beyond[n] = (float)((double)sight[0] * p[0] + (double)sight[1] * p[1] + (double)sight[2] * p[2] - mean);
            }
        }
    return NO_ERROR;
}

enum {
    HEAD_SHARE, HEAD_BLUNTNESS, TAIL_SHARE, TAIL_BLUNTNESS, HEAD_TIP, TAIL_TIP, HEAD_OPACITY, TAIL_OPACITY, DEPTH,
    TAPER_NUMBERS
};

typedef struct {
    int64_t batch, vertices, cameras, knots, own; /* own: 1 where every frame has a body of its own */
    double floor, cap, rounded;
    const float *sigma, *iota, *defocus, *stretch, *beyond, *sharp, *body_length, *taper, *tissue, *hats;
    float *wide, *bright, *by_view;
} appearances;

/* The logarithm of appearance._end. */
static double log_width(double place, double share, double bluntness, double tip, double rounded) {
    const double inward = 1 - within(place / share, 0, 1), inside = 1 - inward * inward;
    const double least = within(place / rounded, 0, tip), tapered = pow(inside < 1e-4 ? 1e-4 : inside, bluntness);
    return log(least + (1 - least) * tapered);
}

/* appearance.Profile.apply in one view. */
static void taper_view(const appearances *s, int64_t b, int64_t view) {
    const int64_t body = s->own ? b : 0, at = b * s->cameras + view, vertices = s->vertices;
    const float *number = s->taper + TAPER_NUMBERS * body, *tissue = s->tissue + s->knots * body;
    const float *stretch = s->stretch + at * vertices, *beyond = s->beyond + at * vertices;
    const double wide = s->sigma[at], bright = s->iota[at], defocus = s->defocus[at], floor = s->floor;
    const double sharp = s->sharp[s->cameras * body + view], thin = sharp < wide ? sharp : wide;
    const double squared = wide * wide - thin * thin, least = floor * floor;
    const double middle = sqrt(squared < least ? least : squared), whole = sqrt(thin * thin + middle * middle);
    const double lost = s->cap / s->body_length[s->cameras * body + view];
    const double first = middle + defocus * beyond[0], last = middle + defocus * beyond[vertices - 1];
    const double head_off = lost * (first < floor ? floor : first), tail_off = lost * (last < floor ? floor : last);
    for (int64_t n = 0; n < vertices; n++) {
        const double place = (double)n / (double)(vertices - 1), aside = middle + defocus * beyond[n];
        const double blur = aside < floor ? floor : aside;
        const double head =
            log_width(place - head_off, number[HEAD_SHARE], number[HEAD_BLUNTNESS], number[HEAD_TIP], s->rounded);
        const double tail =
            log_width(1 - place - tail_off, number[TAIL_SHARE], number[TAIL_BLUNTNESS], number[TAIL_TIP], s->rounded);
        double dense = 0;
        for (int64_t k = 0; k < s->knots; k++) dense += (double)s->hats[s->knots * n + k] * tissue[k];
        const double width = exp(head + tail), spread = sqrt(thin * thin * width * width + blur * blur);
        const double opacity = head * number[HEAD_OPACITY] + tail * number[TAIL_OPACITY] + dense;
        const double light = exp(opacity + head + tail + number[DEPTH] * log(stretch[n]));
        const double faded = bright * light * whole / spread, by_blur = blur > floor ? blur / spread : 0;
        const double by_sigma = wide > thin ? by_blur * wide * wide / middle : spread, by_focus = by_blur * beyond[n];
        float *out = s->by_view + 6 * (at * vertices + n);
        s->wide[at * vertices + n] = (float)spread, s->bright[at * vertices + n] = (float)faded;
        out[0] = (float)by_sigma, out[1] = 0, out[2] = (float)by_focus;
        out[3] = (float)(faded * (1 - by_sigma / spread)), out[4] = (float)faded;
        out[5] = (float)(-faded * by_focus / spread);
    }
}

static int taper_blobs(const void *record, int64_t from, int64_t to) {
    const appearances *s = record;
    if (!is_curve(s->vertices) || !is_count(s->cameras) || !is_count(s->knots)) return NO_SUCH_SIZE;
    for (int64_t b = from; b < to; b++)
        for (int64_t view = 0; view < s->cameras; view++) taper_view(s, b, view);
    return NO_ERROR;
}
