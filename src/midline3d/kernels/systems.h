/* The energy and half its gradient beside the pixels' (reference.energy), the normal equations of the pixels
   (normal.pixel_system) and the damped step that solves them (reference.solve). */

typedef struct {
    int64_t batch, vertices;
    layouts layout;
    double pixels; /* weight of the pixels' losses */
    const float *losses, *curvature, *stiffness, *keeping;
    const float *length, *shift, *sigma, *iota, *defocus, *rho;
    const float *old_length, *old_shift, *old_sigma, *old_iota, *old_rho;
    float *total, *terms, *gradient;
} energies;

enum { ITSELF, CHANGE, LOG_CHANGE };

/* The energy of `count` numbers that are held to what they were before, half its gradient from `place` on. */
static double held(const float *now, const float *before, int64_t count, const float *keeping, int kind, float *gradient) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double value = now[i];
        const double change = kind == ITSELF ? value : kind == CHANGE ? value - before[i] : log(value / before[i]);
        gradient[i] = (float)(keeping[i] * change);
        sum += keeping[i] * change * change;
    }
    return sum;
}

/* sum(K' Q K) of one frame, and K' Q by the nodes, which is half its gradient. `row`: vertices and nodes numbers. */
static double bent_energy(const energies *s, int64_t b, double *row, float *gradient) {
    const int64_t vertices = s->vertices, nodes = s->layout.nodes, both = vertices + nodes;
    double sum = 0;
    for (int direction = 0; direction < 2; direction++) {
        memset(row, 0, (size_t)both * sizeof(double));
        for (int64_t n = 0; n < vertices; n++) {
            const double bend = s->curvature[2 * (vertices * b + n) + direction];
            const float *RESTRICT stiffness = s->stiffness + both * n;
            for (int64_t j = 0; j < both; j++) row[j] += bend * stiffness[j];
        }
        for (int64_t n = 0; n < vertices; n++) sum += row[n] * s->curvature[2 * (vertices * b + n) + direction];
        for (int64_t j = 0; j < nodes; j++) gradient[direction * nodes + j] = (float)row[vertices + j];
    }
    return sum;
}

static int sum_energies(const void *record, int64_t from, int64_t to) {
    const energies *s = record;
    const layouts *l = &s->layout;
    if (!is_curve(s->vertices) || !is_layout(l) || !is_count(s->batch)) return NO_SUCH_SIZE;
    double *row = malloc((size_t)(s->vertices + l->nodes) * sizeof(double));
    if (!row) return NO_MEMORY;
    for (int64_t b = from; b < to; b++) {
        float *gradient = s->gradient + l->count * b;
        const int64_t views = l->cameras * b;
        double pixels = 0, kept;
        for (int64_t i = 0; i < l->cameras; i++) pixels += s->losses[views + i];
        pixels *= s->pixels;
        memset(gradient, 0, (size_t)l->bend * sizeof(float)); /* the place and direction of the middle vertex are free */
        const double bent = bent_energy(s, b, row, gradient + l->bend);
        kept = held(s->length + b, s->old_length + b, 1, s->keeping, LOG_CHANGE, gradient + l->length);
        kept += held(s->shift + l->axes * b, s->old_shift + l->axes * b, l->axes, s->keeping + (l->shift - l->length), CHANGE,
            gradient + l->shift);
        kept += held(s->sigma + views, s->old_sigma + views, l->cameras, s->keeping + (l->sigma - l->length), LOG_CHANGE, gradient + l->sigma);
        kept += held(s->iota + views, s->old_iota + views, l->cameras, s->keeping + (l->iota - l->length), LOG_CHANGE, gradient + l->iota);
        kept += held(s->defocus + views, NULL, l->cameras, s->keeping + (l->defocus - l->length), ITSELF, gradient + l->defocus);
        kept += held(s->rho + views, s->old_rho + views, l->cameras, s->keeping + (l->rho - l->length), LOG_CHANGE, gradient + l->rho);
        s->terms[b] = (float)pixels, s->terms[s->batch + b] = (float)bent, s->terms[2 * s->batch + b] = (float)kept;
        s->total[b] = (float)(pixels + bent + kept);
    }
    free(row);
    return NO_ERROR;
}

typedef struct {
    int64_t batch, vertices;
    layouts layout;
    rigs rig;
    const float *gram, *slope, *points, *bishop, *segments, *by_view, *rho;
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
    double *right;                /* (3, width): G times the dense part of D, coupling, slope */
    double *directions;           /* (camera, 2, axes): the shifts' directions */
    const int64_t *span;          /* of each segment, its first node and that after its last */
} sums;

static inline void widen(const float *RESTRICT values, int64_t count, double *RESTRICT out) {
    for (int64_t i = 0; i < count; i++) out[i] = values[i];
}

/* What vertex n's blobs give in all views: its 3 x 3 matrix, its coupling to the others and its slope; and the others' own
   part. A blob's sigma, iota and rho depend on its own view's unknowns and its place on the shifts alone. */
static void add_blobs(const systems *s, const sums *t, const camera *rig, int64_t b, int64_t n, double *spatial) {
    const int64_t axes = s->layout.axes, cameras = s->layout.cameras;
    memset(t->right, 0, (size_t)(3 * t->width) * sizeof(double));
    memset(spatial, 0, 9 * sizeof(double));
    for (int64_t view = 0; view < cameras; view++) {
        const int64_t blob = (cameras * b + view) * s->vertices + n;
        const double *direction = t->directions + 2 * axes * view, rho = s->rho[cameras * b + view];
        double A[25], slope[5], by_view[6], J[6], AJ[6];
        widen(s->gram + 25 * blob, 25, A), widen(s->slope + 5 * blob, 5, slope), widen(s->by_view + 6 * blob, 6, by_view);
        projection_jacobian(rig + view, s->points + 3 * (s->vertices * b + n), J);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++) AJ[3 * i + j] = A[5 * i] * J[j] + A[5 * i + 1] * J[3 + j];
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) spatial[3 * i + j] += J[i] * AJ[j] + J[3 + i] * AJ[3 + j];
            t->right[(i + 1) * t->width - 1] += J[i] * slope[0] + J[3 + i] * slope[1];
        }
        for (int64_t one = 0; one < axes + 4; one++) {
            const int64_t q = one - axes, column = q < 0 ? one : axes + q * cameras + view;
            double push[5], near, far;
            int first; /* which of the five numbers this unknown moves: this and the next, or rho alone */
            if (q < 0)
                first = 0, near = direction[one], far = direction[axes + one];
            else if (q < 3)
                first = 2, near = by_view[q], far = by_view[3 + q];
            else
                first = 4, near = rho, far = 0;
            const int next = first < 4 ? first + 1 : first;
            for (int r = 0; r < 5; r++) push[r] = A[5 * r + first] * near + A[5 * r + next] * far;
            for (int i = 0; i < 3; i++) t->right[i * t->width + DENSE + column] += J[i] * push[0] + J[3 + i] * push[1];
            t->rest[column] += near * slope[first] + far * slope[next];
            double *row = t->corner + t->others * column;
            for (int64_t a = 0; a < axes; a++) row[a] += direction[a] * push[0] + direction[axes + a] * push[1];
            for (int64_t p = 0; p < 3; p++) row[axes + p * cameras + view] += by_view[p] * push[2] + by_view[3 + p] * push[3];
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
    const float *p = s->points + 3 * (s->vertices * b + m), *f = s->bishop + 9 * (s->vertices * b + m);
    const float *middle = s->points + 3 * (s->vertices * b + s->vertices / 2), *row = s->segments + s->layout.nodes * m;
    const double half = side / (2 * (double)(s->vertices - 1));
    double pivot[3], axis[3], moment[3];
    for (int i = 0; i < 3; i++) pivot[i] = ((double)p[i] + p[3 + i]) / 2 - middle[i];
    for (int direction = 0; direction < 2; direction++) {
        /* Bending towards M1 is a turn about M2, bending towards M2 one about -M1. */
        for (int i = 0; i < 3; i++) {
            const int column = 3 * i + 2 - direction;
            axis[i] = ((double)f[column] + f[9 + column]) * (direction ? -half : half);
        }
        cross(axis, pivot, moment);
        for (int64_t j = t->span[2 * m]; j < t->span[2 * m + 1]; j++)
            for (int i = 0; i < 3; i++) {
                t->axis[i * bends + 2 * j + direction] += row[j] * axis[i];
                t->moment[i * bends + 2 * j + direction] += row[j] * moment[i];
            }
    }
}

/* Vertex n, which nodes `low` to `high` move. */
static void add_vertex(const systems *s, const sums *t, const camera *rig, int64_t b, int64_t n, int64_t low,
                       int64_t high) {
    const int64_t bends = t->bends, width = t->width, count = s->vertices;
    const float *p = s->points + 3 * (count * b + n), *middle = s->points + 3 * (count * b + count / 2);
    const float *middle_bishop = s->bishop + 9 * (count * b + count / 2);
    double G[9], arm[3], dense[3 * DENSE] = {0};
    add_blobs(s, t, rig, b, n, G);
    for (int i = 0; i < 3; i++) arm[i] = (double)p[i] - middle[i];
    for (int j = 0; j < 2; j++) {
        double axis[3] = {middle_bishop[1 + j], middle_bishop[4 + j], middle_bishop[7 + j]}, turned[3];
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

/* Where a dense unknown or a bend stands in the frame's vector. */
static int64_t place_of(const layouts *l, int64_t index) {
    if (index < 3) return l->move + index;
    if (index < DENSE) return index < 5 ? l->turn + index - 3 : l->length;
    return l->bend + (index - DENSE) % 2 * l->nodes + (index - DENSE) / 2;
}

/* Where one of the others does: a shift, or a view's sigma, iota, defocus or rho. */
static int64_t place_of_other(const layouts *l, int64_t index) {
    const int64_t first[] = {l->sigma, l->iota, l->defocus, l->rho}, later = index - l->axes;
    return later < 0 ? l->shift + index : first[later / l->cameras] + later % l->cameras;
}

static void write_system(const systems *s, const sums *t, int64_t b) {
    const layouts *l = &s->layout;
    const int64_t shape = DENSE + t->bends, count = l->count;
    float *hessian = s->hessian + count * count * b, *gradient = s->gradient + count * b;
#define SET(i, j, value) hessian[count * (i) + (j)] = hessian[count * (j) + (i)] = (float)(value)
    for (int64_t i = 0; i < shape; i++) {
        const double *row = t->mixed + t->width * i;
        const int64_t at = place_of(l, i);
        for (int64_t j = 0; j < DENSE && j <= i; j++) SET(at, place_of(l, j), row[j]);
        for (int64_t j = 0; j < t->others; j++) SET(at, place_of_other(l, j), row[DENSE + j]);
        for (int64_t j = i; i >= DENSE && j < shape; j++)
            SET(at, place_of(l, j), t->bent[t->bends * (i - DENSE) + j - DENSE]);
        gradient[at] = (float)row[t->width - 1];
    }
    for (int64_t i = 0; i < t->others; i++) {
        const int64_t at = place_of_other(l, i);
        for (int64_t j = 0; j <= i; j++) SET(at, place_of_other(l, j), t->corner[t->others * i + j]);
        gradient[at] = (float)t->rest[i];
    }
#undef SET
}

static void find_spans(const systems *s, int64_t *span) {
    for (int64_t m = 0; m + 1 < s->vertices; m++) {
        const float *row = s->segments + s->layout.nodes * m;
        int64_t low = 0, high = s->layout.nodes;
        while (low < high && row[low] == 0) low++;
        while (high > low && row[high - 1] == 0) high--;
        span[2 * m] = low, span[2 * m + 1] = high;
    }
}

/* From the middle outward on one side: `side` is 1 towards the last vertex, -1 towards the first. */
static void add_side(const systems *s, const sums *t, const camera *rig, int64_t b, int64_t side) {
    int64_t low = s->layout.nodes, high = 0;
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

static int add_systems(const void *record, int64_t from, int64_t to) {
    const systems *s = record;
    if (!is_curve(s->vertices) || !is_layout(&s->layout)) return NO_SUCH_SIZE;
    const int64_t cameras = s->layout.cameras, axes = s->layout.axes;
    sums t = {.bends = 2 * s->layout.nodes, .others = axes + 4 * cameras};
    t.width = DENSE + t.others + 1;
    const int64_t mixed = (DENSE + t.bends) * t.width, bent = t.bends * t.bends, corner = t.others * t.others;
    const int64_t kept = mixed + bent + corner + t.others;
    double *room = malloc((size_t)(kept + 12 * t.bends + 3 * t.width + 2 * cameras * axes) * sizeof(double));
    camera *rig = malloc((size_t)cameras * sizeof(camera));
    int64_t *span = malloc((size_t)(2 * s->vertices) * sizeof(int64_t));
    const int error = room && rig && span ? NO_ERROR : NO_MEMORY;
    if (!error) {
        t.mixed = room, t.bent = t.mixed + mixed, t.corner = t.bent + bent, t.rest = t.corner + corner;
        t.axis = t.rest + t.others, t.moment = t.axis + 3 * t.bends, t.place = t.moment + 3 * t.bends;
        t.pushed = t.place + 3 * t.bends, t.right = t.pushed + 3 * t.bends, t.span = span;
        t.directions = t.right + 3 * t.width;
        widen(s->rig.shift_basis, 2 * cameras * axes, t.directions);
        find_spans(s, span);
    }
    for (int64_t b = from; b < to && !error; b++) {
        for (int64_t view = 0; view < cameras; view++) rig[view] = camera_of(&s->rig, b, cameras, view);
        memset(room, 0, (size_t)kept * sizeof(double));
        add_vertex(s, &t, rig, b, s->vertices / 2, 0, 0);
        add_side(s, &t, rig, b, 1);
        add_side(s, &t, rig, b, -1);
        write_system(s, &t, b);
    }
    free(room), free(rig), free(span);
    return error;
}

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

static int solve_systems(const void *record, int64_t from, int64_t to) {
    const solutions *s = record;
    if (!is_count(s->count)) return NO_SUCH_SIZE;
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
