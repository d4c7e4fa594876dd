/* Curves from their curvature (curve.integrate), and a state after a step of its unknowns (reference.take_step). */

typedef struct {
    int64_t batch, vertices;
    int64_t loose; /* 1: T and M1 of the Bishop frame are made orthonormal first */
    const float *position, *start_bishop, *curvature, *length;
    const int64_t *start;
    float *points, *bishop;
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

/* One curve through `position` with `start_bishop` at `start`; `room` holds 12 numbers a vertex. */
static void integrate(const double *k, int64_t vertices, double length, int64_t start, const double *position,
                      const double *start_bishop, double *room, float *points, float *bishop) {
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
    product_transposed(start_bishop, rotations + 9 * start, carry);
    for (int64_t n = 0; n < vertices; n++) {
        double arm[3];
        for (int i = 0; i < 3; i++) arm[i] = places[3 * n + i] - origin[i];
        for (int i = 0; i < 3; i++)
            points[3 * n + i] = (float)(position[i] + carry[3 * i] * arm[0] + carry[3 * i + 1] * arm[1] +
                                        carry[3 * i + 2] * arm[2]);
        product(carry, rotations + 9 * n, out);
        for (int i = 0; i < 9; i++) bishop[9 * n + i] = (float)out[i];
    }
}

/* bishop <- its T and M1 made orthonormal, T's direction kept (curve.orthonormal). */
static void straighten(double *bishop) {
    double columns[3][3];
    for (int j = 0; j < 2; j++) {
        double along = 0, norm = 0;
        for (int i = 0; i < 3; i++) columns[j][i] = bishop[3 * i + j];
        for (int i = 0; i < 3 && j; i++) along += columns[0][i] * columns[1][i];
        for (int i = 0; i < 3; i++) columns[j][i] -= j ? along * columns[0][i] : 0, norm += columns[j][i] * columns[j][i];
        for (int i = 0; i < 3; i++) columns[j][i] /= sqrt(norm);
    }
    cross(columns[0], columns[1], columns[2]);
    for (int i = 0; i < 9; i++) bishop[i] = columns[i % 3][i / 3];
}

static int integrate_curves(const void *record, int64_t from, int64_t to) {
    const curves *c = record;
    if (!is_curve(c->vertices)) return NO_SUCH_SIZE;
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
        double position[3], start_bishop[9];
        for (int i = 0; i < 3; i++) position[i] = c->position[3 * b + i];
        for (int i = 0; i < 9; i++) start_bishop[i] = c->start_bishop[9 * b + i];
        if (c->loose) straighten(start_bishop);
        for (int64_t i = 0; i < 2 * count; i++) k[i] = c->curvature[2 * count * b + i];
        integrate(k, count, c->length[b], start, position, start_bishop, k + 2 * count, c->points + 3 * count * b,
                  c->bishop + 9 * count * b);
    }
    free(k);
    return error;
}

typedef struct {
    int64_t batch, vertices;
    layouts layout;
    double longest_log, appearance_log; /* the most that a step may change log length, and log sigma, iota and rho */
    double circles, defocus_most, length_low, length_high, sigma_low, sigma_high, iota_low, iota_high, rho_low, rho_high;
    const float *step, *basis, *points, *bishop, *curvature, *length, *shift, *sigma, *iota, *rho, *defocus;
    float *new_points, *new_bishop, *new_curvature, *new_length, *new_shift, *new_sigma, *new_iota, *new_rho,
        *new_defocus;
} steps;

/* bishop <- exp(turn x) bishop with T and M1 made orthonormal (curve.rotation_exp, curve.orthonormal). */
static void turn_bishop(const double *turn, double *bishop) {
    const double a = turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2], angle = sqrt(a);
    const double s = a < 1e-8 ? 1 - a / 6 : sin(angle) / angle, c = a < 1e-8 ? 0.5 - a / 24 : (1 - cos(angle)) / a;
    for (int j = 0; j < 2; j++) {
        double old[3] = {bishop[j], bishop[3 + j], bishop[6 + j]}, once[3], twice[3];
        cross(turn, old, once);
        cross(turn, once, twice);
        for (int i = 0; i < 3; i++) bishop[3 * i + j] = old[i] + s * once[i] + c * twice[i];
    }
    straighten(bishop);
}

static void grown(const float *old, const float *log_step, double most, double low, double high, int64_t count,
                  float *out) {
    for (int64_t i = 0; i < count; i++) out[i] = (float)within(old[i] * exp(within(log_step[i], -most, most)), low, high);
}

static int take_steps(const void *record, int64_t from, int64_t to) {
    const steps *s = record;
    const layouts *l = &s->layout;
    if (!is_curve(s->vertices) || !is_layout(l)) return NO_SUCH_SIZE;
    const int64_t vertices = s->vertices, nodes = l->nodes, cameras = l->cameras, middle = vertices / 2;
    const double limit = 2 * 3.14159265358979323846 * s->circles;
    double *k = malloc((size_t)(14 * vertices) * sizeof(double));
    if (!k) return NO_MEMORY;
    for (int64_t b = from; b < to; b++) {
        const float *step = s->step + b * l->count, *move = step + l->move, *about = step + l->turn, *bend = step + l->bend;
        const float *place = s->points + 3 * (vertices * b + middle), *old = s->bishop + 9 * (vertices * b + middle);
        double position[3], start_bishop[9], turn[3];
        for (int i = 0; i < 9; i++) start_bishop[i] = old[i];
        for (int i = 0; i < 3; i++) {
            position[i] = (double)place[i] + move[i];
            turn[i] = start_bishop[3 * i + 1] * about[0] + start_bishop[3 * i + 2] * about[1];
        }
        turn_bishop(turn, start_bishop);
        for (int64_t n = 0; n < vertices; n++) {
            const float *row = s->basis + nodes * n, *now = s->curvature + 2 * (vertices * b + n);
            double one = now[0], two = now[1];
            for (int64_t j = 0; j < nodes; j++) one += (double)row[j] * bend[j], two += (double)row[j] * bend[nodes + j];
            const double norm = sqrt(one * one + two * two), shorter = norm > limit ? limit / norm : 1;
            float *out = s->new_curvature + 2 * (vertices * b + n);
            out[0] = (float)(one * shorter), out[1] = (float)(two * shorter);
            k[2 * n] = out[0], k[2 * n + 1] = out[1];
        }
        grown(s->length + b, step + l->length, s->longest_log, s->length_low, s->length_high, 1, s->new_length + b);
        for (int64_t i = 0; i < l->axes; i++)
            s->new_shift[l->axes * b + i] = s->shift[l->axes * b + i] + step[l->shift + i];
        const int64_t view = cameras * b;
        grown(s->sigma + view, step + l->sigma, s->appearance_log, s->sigma_low, s->sigma_high, cameras, s->new_sigma + view);
        grown(s->iota + view, step + l->iota, s->appearance_log, s->iota_low, s->iota_high, cameras, s->new_iota + view);
        grown(s->rho + view, step + l->rho, s->appearance_log, s->rho_low, s->rho_high, cameras, s->new_rho + view);
        for (int64_t i = 0; i < cameras; i++)
            s->new_defocus[view + i] =
                (float)within((double)s->defocus[view + i] + step[l->defocus + i], -s->defocus_most, s->defocus_most);
        integrate(k, vertices, s->new_length[b], middle, position, start_bishop, k + 2 * vertices,
                  s->new_points + 3 * vertices * b, s->new_bishop + 9 * vertices * b);
    }
    free(k);
    return NO_ERROR;
}
