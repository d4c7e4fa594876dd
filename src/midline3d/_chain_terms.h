/* The losses that need no pixels but the sums sum(B I): scores, smoothness, intersections and size (losses.py), and
   their gradients. */

enum { SCORES, SMOOTHNESS, INTERSECTIONS, SIZE, TERMS };

typedef struct {
    int64_t batch, vertices, cameras, axes;
    int64_t apart; /* vertices from which on two parts of the body may meet */
    rigs rig;
    const float *overlap, *sigma, *iota, *points, *curvature;
    const float *up;        /* (TERMS, batch): the gradients by the terms; NULL: the terms are wanted, not their gradients */
    float *values, *shares; /* (TERMS, batch) and the relative scores */
    float *by_overlap, *by_sigma, *by_iota, *by_points, *by_curvature;
} terms;

/* One frame: its raw scores, which view each is from, and from which vertex each single-peaked score is. */
typedef struct {
    double *raw, *radius, *by_radius, *by_points; /* in float64: forces of pairs cancel */
    int64_t *view, *source;
} body;

/* S (scoring.raw_scores), and which vertex S' takes its value from (scoring.single_peak). */
static void score(const terms *s, int64_t b, const body *t) {
    const int64_t count = s->vertices, middle = count / 2;
    for (int64_t n = 0; n < count; n++)
        for (int64_t view = 0; view < s->cameras; view++) {
            const int64_t blob = (s->cameras * b + view) * count + n;
            const double value = s->overlap[blob] / ((double)s->sigma[blob] * s->iota[blob]);
            if (view == 0 || value < t->raw[n] || isnan(value)) t->raw[n] = value, t->view[n] = view;
        }
    for (int side = -1; side < 2; side += 2)
        for (int64_t n = middle, least = middle; n >= 0 && n < count; n += side) {
            if (t->raw[n] < t->raw[least] || isnan(t->raw[n])) least = n;
            t->source[n] = least;
        }
}

/* L_sc and, where `up` is not 0, its gradient (losses.scores_loss). */
static double scores_loss(const terms *s, int64_t b, const body *t, double up) {
    const int64_t count = s->vertices, middle = count / 2;
    const double best = t->raw[middle];
    double weighted = 0;
    for (int64_t n = 0; n < count; n++) {
        const double place = 2.0 * (double)n / (double)(count - 1) - 1;
        weighted += t->raw[t->source[n]] * place * place;
    }
    if (!(weighted > 1e-6 * (best > 1e-12 ? best : 1e-12))) return isnan(weighted) ? weighted : 0;
    for (int64_t n = 0; up != 0 && n < count; n++) {
        const double place = 2.0 * (double)n / (double)(count - 1) - 1;
        const int64_t from = t->source[n], blob = (s->cameras * b + t->view[from]) * count + from;
        const double by_score = up * (double)count / weighted * ((n == middle) - best * place * place / weighted);
        const double each = by_score / ((double)s->sigma[blob] * s->iota[blob]);
        s->by_overlap[blob] += (float)each;
        s->by_sigma[blob] -= (float)(by_score * t->raw[from] / s->sigma[blob]);
        s->by_iota[blob] -= (float)(by_score * t->raw[from] / s->iota[blob]);
    }
    return best * (double)count / weighted;
}

static void relative_scores(const terms *s, int64_t b, const body *t) {
    const double best = t->raw[s->vertices / 2];
    for (int64_t n = 0; n < s->vertices; n++)
        s->shares[s->vertices * b + n] = best > 0 ? (float)(t->raw[t->source[n]] / best) : 0;
}

/* Sum of squared differences of the curvature between vertices `reach` apart, 0: of its own size; and its gradient. */
static double bending(const terms *s, int64_t b, int64_t reach, double up) {
    const float *k = s->curvature + 2 * s->vertices * b;
    const double step = 1.0 / (double)(s->vertices - 1);
    double total = 0;
    for (int64_t i = 0; i < 2 * (s->vertices - reach); i++) {
        const double change = (k[i + 2 * reach] - (reach ? (double)k[i] : 0)) * step;
        total += change * change;
        if (up == 0) continue;
        float *by = s->by_curvature + 2 * s->vertices * b + i;
        by[2 * reach] += (float)(2 * up * change * step);
        if (reach) by[0] -= (float)(2 * up * change * step);
    }
    return total;
}

/* 1 / magnification of a view at the mean depth of the points, mm per px (cameras.scale). */
static double finest(const camera *c, const double *mean) {
    const double depth = c->rotation[6] * mean[0] + c->rotation[7] * mean[1] + c->rotation[8] * mean[2];
    return (depth + c->translation[2]) * 2 / (c->focal[0] + c->focal[1]);
}

/* L_i and its gradient by points and radii (losses.intersections_loss). */
static double pairs(const terms *s, int64_t b, const body *t, double up) {
    const float *points = s->points + 3 * s->vertices * b;
    double total = 0;
    for (int64_t n = 0; n < s->vertices; n++)
        for (int64_t m = n + s->apart; m < s->vertices; m++) {
            double way[3], squared = 0;
            for (int i = 0; i < 3; i++) way[i] = (double)points[3 * n + i] - points[3 * m + i], squared += way[i] * way[i];
            const double allowed = t->radius[n] + t->radius[m];
            if (squared >= allowed * allowed && squared > 1e-12) continue;
            const double distance = sqrt(squared > 1e-12 ? squared : 1e-12);
            if (!(distance < allowed)) continue;
            total += allowed / distance;
            if (up == 0) continue;
            t->by_radius[n] += up / distance, t->by_radius[m] += up / distance;
            for (int i = 0; squared > 1e-12 && i < 3; i++) {
                const double pull = up * allowed / (squared * distance) * way[i];
                t->by_points[3 * n + i] -= pull, t->by_points[3 * m + i] += pull;
            }
        }
    return total;
}

/* The same with radii from the views' widths, which grow with the depth of the points. */
static double intersections(const terms *s, int64_t b, const body *t, double up) {
    const int64_t count = s->vertices;
    double mean[3] = {0, 0, 0};
    for (int64_t i = 0; i < 3 * count; i++) mean[i % 3] += s->points[3 * count * b + i] / (double)count;
    memset(t->radius, 0, (size_t)(5 * count) * sizeof(double)); /* and by_radius and by_points, which follow it */
    for (int64_t view = 0; view < s->cameras; view++) {
        const camera c = camera_of(&s->rig, b, s->cameras, view);
        const double fine = finest(&c, mean) / (double)s->cameras;
        for (int64_t n = 0; n < count; n++) t->radius[n] += s->sigma[(s->cameras * b + view) * count + n] * fine;
    }
    const double total = pairs(s, b, t, up);
    for (int64_t view = 0; up != 0 && total > 0 && view < s->cameras; view++) {
        const camera c = camera_of(&s->rig, b, s->cameras, view);
        const double fine = finest(&c, mean) / (double)s->cameras;
        double by_depth = 0;
        for (int64_t n = 0; n < count; n++) {
            const int64_t blob = (s->cameras * b + view) * count + n;
            s->by_sigma[blob] += (float)(t->by_radius[n] * fine);
            by_depth += t->by_radius[n] * s->sigma[blob];
        }
        by_depth *= 2 / ((c.focal[0] + c.focal[1]) * (double)(s->cameras * count));
        for (int64_t i = 0; i < 3 * count; i++) t->by_points[i] += by_depth * c.rotation[6 + i % 3];
    }
    for (int64_t i = 0; s->up && i < 3 * count; i++) s->by_points[3 * count * b + i] = (float)t->by_points[i];
    return total;
}

EXPORT int midline3d_terms(const terms *s, int64_t from, int64_t to) {
    const int64_t count = s->vertices, blobs = s->cameras * count;
    double *room = malloc((size_t)count * (6 * sizeof(double) + 2 * sizeof(int64_t)));
    if (!room) return NO_MEMORY;
    int64_t *names = (int64_t *)(room + 6 * count);
    const body t = {room, room + count, room + 2 * count, room + 3 * count, names, names + count};
    for (int64_t b = from; b < to; b++) {
        double up[TERMS] = {0}, value[TERMS];
        for (int k = 0; s->up && k < TERMS; k++) up[k] = s->up[k * s->batch + b];
        if (s->up) {
            memset(s->by_overlap + blobs * b, 0, (size_t)blobs * sizeof(float));
            memset(s->by_sigma + blobs * b, 0, (size_t)blobs * sizeof(float));
            memset(s->by_iota + blobs * b, 0, (size_t)blobs * sizeof(float));
            memset(s->by_curvature + 2 * count * b, 0, (size_t)(2 * count) * sizeof(float));
        }
        score(s, b, &t);
        value[SCORES] = scores_loss(s, b, &t, up[SCORES]);
        value[SMOOTHNESS] = bending(s, b, 1, up[SMOOTHNESS]) + bending(s, b, 2, up[SMOOTHNESS] / 2) / 2;
        value[INTERSECTIONS] = intersections(s, b, &t, up[INTERSECTIONS]);
        value[SIZE] = bending(s, b, 0, up[SIZE]);
        if (s->up) continue;
        for (int k = 0; k < TERMS; k++) s->values[k * s->batch + b] = (float)value[k];
        relative_scores(s, b, &t);
    }
    free(room);
    return NO_ERROR;
}
