/* Gradients of a curve's parameters from those by its points: the transpose of midline3d_integrate, its frame loose.

   Seen from the start vertex, turning a segment turns all that lies beyond it about the segment's far end, and a change of
   its chord moves all of it. So the sums of the forces (gradients by points) and of their moments over all that lies
   beyond say everything: two walks from the ends to the start. */

typedef struct {
    int64_t batch, vertices;
    const float *frame, *curvature, *length;
    const int64_t *start;
    const float *points, *frames; /* as midline3d_integrate made them */
    const float *up;              /* the gradient by the points */
    float *by_position, *by_frame, *by_curvature, *by_length;
} curve_pulls;

static double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/* out <- the transpose of a 3 x 3 matrix of floats times v. */
static void turned_back(const float *matrix, const double *v, double *out) {
    for (int j = 0; j < 3; j++) out[j] = matrix[j] * v[0] + matrix[3 + j] * v[1] + matrix[6 + j] * v[2];
}

/* by <- by the transpose of the right Jacobian of exp at `t`, by a turn that follows exp(t). */
static void pull_turn(const double *t, const double *after, double *by) {
    const double a = dot(t, t), b = 0.5 - a / 24 + a * a / 720 - a * a * a / 40320;
    const double c = 1.0 / 6 - a / 120 + a * a / 5040 - a * a * a / 362880;
    double once[3], twice[3];
    cross(t, after, once);
    cross(t, once, twice);
    for (int i = 0; i < 3; i++) by[i] = after[i] + b * once[i] + c * twice[i];
}

/* Adds to `by_turn` and to `by` (of the curvature at both ends) what the chord's gradient `up` gives (segment_chord). */
static void pull_chord(const double *t, const double *up, int64_t vertices, double *by_turn, double *by) {
    const double a = dot(t, t), late = 1.0 / (12.0 * (double)(vertices - 1));
    const double first = (1 - a / 12 + a * a / 360) / 2, second = (1 - a / 20 + a * a / 840) / 6;
    const double by_first = up[1] * t[2] - up[2] * t[1];
    const double by_second = t[0] * (up[1] * t[1] + up[2] * t[2]) - up[0] * (t[1] * t[1] + t[2] * t[2]);
    const double by_a = by_first * (-1.0 / 12 + a / 180) / 2 + by_second * (-1.0 / 20 + a / 420) / 6;
    by_turn[0] += second * (up[1] * t[1] + up[2] * t[2]) + 2 * by_a * t[0];
    by_turn[1] += second * (up[1] * t[0] - 2 * up[0] * t[1]) - first * up[2] + 2 * by_a * t[1];
    by_turn[2] += second * (up[2] * t[0] - 2 * up[0] * t[2]) + first * up[1] + 2 * by_a * t[2];
    for (int i = 0; i < 2; i++) by[i] += up[i + 1] * late, by[2 + i] -= up[i + 1] * late;
}

/* Adds to the curvature's gradient what that of the turn after vertex n gives (segment_turn). */
static void pull_segment(const double *k, int64_t n, int64_t vertices, const double *by_turn, double *by) {
    const double step = 1.0 / (double)(vertices - 1), twist = by_turn[0] * step * step / 12;
    const double *before = k + 2 * n, *after = before + 2, mean[2] = {by_turn[2] * step, -by_turn[1] * step};
    const int64_t low = n > 0 ? n : 1, high = n + 1 < vertices - 1 ? n + 1 : vertices - 2, bends[2] = {low, high};
    by[2 * n] += twist * after[1], by[2 * n + 1] -= twist * after[0];
    by[2 * n + 2] -= twist * before[1], by[2 * n + 3] += twist * before[0];
    for (int i = 0; i < 2; i++) {
        by[2 * n + i] += mean[i] / 2, by[2 * n + 2 + i] += mean[i] / 2;
        for (int side = 0; side < 2; side++) {
            double *at = by + 2 * bends[side] + i;
            at[-2] -= mean[i] / 24, at[0] += mean[i] / 12, at[2] -= mean[i] / 24;
        }
    }
}

/* The transpose of `straighten`: `up` by the straight frame, `by` by the loose one, whose M2 counts for nothing. */
static void pull_straight(const float *loose, const double *up, double *by) {
    double f[2][3], T[3], M[3], by_T[3], by_M[3], part[3], turned[9];
    for (int i = 0; i < 9; i++) turned[i] = loose[i];
    straighten(turned);
    for (int i = 0; i < 3; i++) {
        f[0][i] = loose[3 * i], f[1][i] = loose[3 * i + 1], T[i] = turned[3 * i], M[i] = turned[3 * i + 1];
        by_T[i] = up[3 * i], by_M[i] = up[3 * i + 1], part[i] = up[3 * i + 2];
    }
    double first[3], second[3]; /* M2 = T x M1 */
    cross(M, part, first), cross(part, T, second);
    for (int i = 0; i < 3; i++) by_T[i] += first[i], by_M[i] += second[i];
    const double along = dot(f[1], T), radial = dot(by_M, M);
    const double size = sqrt(dot(f[1], f[1]) - along * along), whole = sqrt(dot(f[0], f[0]));
    for (int i = 0; i < 3; i++) part[i] = (by_M[i] - radial * M[i]) / size;
    const double leak = dot(part, T);
    for (int i = 0; i < 3; i++) by_T[i] -= leak * f[1][i] + along * part[i];
    const double length = dot(by_T, T);
    for (int i = 0; i < 3; i++) {
        by[3 * i] = (by_T[i] - length * T[i]) / whole;
        by[3 * i + 1] = part[i] - leak * T[i];
        by[3 * i + 2] = 0;
    }
}

/* One end's walk to the start: `side` is 1 from the tail, -1 from the head. */
static void pull_side(const curve_pulls *s, int64_t b, int64_t start, int side, const double *k, double *by) {
    const int64_t count = s->vertices;
    const double unit = side * s->length[b] / (double)(count - 1);
    double force[3] = {0, 0, 0}, moment[3] = {0, 0, 0};
    for (int64_t n = side > 0 ? count - 1 : 0; n != start; n -= side) {
        const int64_t m = side > 0 ? n - 1 : n; /* the segment after vertex m */
        const float *far = s->points + 3 * (count * b + m + 1), *frame = s->frames + 9 * (count * b + m);
        double pivot[3] = {far[0], far[1], far[2]}, lever[3], after[3], chord[3], turn[3], by_turn[3];
        const float *place = s->points + 3 * (count * b + n), *up = s->up + 3 * (count * b + n);
        double p[3] = {place[0], place[1], place[2]}, g[3] = {up[0], up[1], up[2]}, own[3];
        cross(p, g, own);
        for (int i = 0; i < 3; i++) force[i] += g[i], moment[i] += own[i];
        cross(pivot, force, lever);
        for (int i = 0; i < 3; i++) lever[i] = side * (moment[i] - lever[i]);
        turned_back(frame + 9, lever, after);
        turned_back(frame, force, chord);
        for (int i = 0; i < 3; i++) chord[i] *= unit;
        segment_turn(k, m, count, turn);
        pull_turn(turn, after, by_turn);
        pull_chord(turn, chord, count, by_turn, by + 2 * m);
        pull_segment(k, m, count, by_turn, by);
    }
}

/* Position, length, and the frame at the start, which turns all arms. */
static void pull_rigid(const curve_pulls *s, int64_t b, int64_t start) {
    const int64_t first = s->vertices * b;
    const float *origin = s->points + 3 * (first + start), *own = s->frames + 9 * (first + start);
    double position[3] = {0, 0, 0}, length = 0, spread[9] = {0}, frame[9], straight[9], by[9];
    for (int64_t at = first; at < first + s->vertices; at++)
        for (int i = 0; i < 3; i++) {
            const double g = s->up[3 * at + i];
            position[i] += g;
            length += g * ((double)s->points[3 * at + i] - origin[i]);
            for (int j = 0; j < 3; j++) spread[3 * i + j] += g * ((double)s->points[3 * at + j] - origin[j]);
        }
    for (int i = 0; i < 9; i++) frame[i] = own[i];
    product(spread, frame, straight);
    pull_straight(s->frame + 9 * b, straight, by);
    for (int i = 0; i < 3; i++) s->by_position[3 * b + i] = (float)position[i];
    for (int i = 0; i < 9; i++) s->by_frame[9 * b + i] = (float)by[i];
    s->by_length[b] = (float)(length / s->length[b]);
}

EXPORT int midline3d_integrate_pull(const curve_pulls *s, int64_t from, int64_t to) {
    const int64_t count = s->vertices;
    double *k = malloc((size_t)(4 * count) * sizeof(double)), *by = k + 2 * count;
    if (!k) return NO_MEMORY;
    for (int64_t b = from; b < to; b++) {
        const int64_t start = s->start[b] < 0 ? s->start[b] + count : s->start[b];
        for (int64_t i = 0; i < 2 * count; i++) k[i] = s->curvature[2 * count * b + i], by[i] = 0;
        pull_side(s, b, start, 1, k, by);
        pull_side(s, b, start, -1, k, by);
        for (int64_t i = 0; i < 2 * count; i++) s->by_curvature[2 * count * b + i] = (float)by[i];
        pull_rigid(s, b, start);
    }
    free(k);
    return NO_ERROR;
}
