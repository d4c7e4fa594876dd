/* One view's blobs on one band of its rows. Included once for every number type and instruction set, with

     REAL         float or double
     LANES        how many of them one step takes; 1: plain numbers and the C library's functions
     NAME(name)   the name with this version's ending

   A band needs nothing from its neighbours: its sums go to a place of their own and are added in a fixed order later,
   so that the result does not depend on who works on what.

   Blobs are evaluated in stages over a flat list of vectors, each stage with short chains of dependent operations;
   in one long loop most of the time would be spent waiting. exp(-x^rho) has no blob in it but through x: with float
   vectors it is read from a table, 64 parabolas an octave, right to 1e-6 (`radial_table`). */

#define vec NAME(vec)
#define mask NAME(mask)
#define ints NAME(ints)

#if LANES > 1
typedef REAL vec __attribute__((vector_size(4 * LANES)));
typedef int32_t mask __attribute__((vector_size(4 * LANES)));
typedef uint32_t NAME(bits) __attribute__((vector_size(4 * LANES)));
typedef mask ints;
#define BITS(x) ((NAME(bits))(x))
#define FLOATS(x) ((vec)(x))
#else
typedef REAL vec;
typedef int mask;
typedef int32_t ints;
#endif

INLINE vec NAME(load)(const REAL *from) {
    vec values;
    memcpy(&values, from, sizeof values);
    return values;
}

INLINE void NAME(store)(REAL *to, vec values) { memcpy(to, &values, sizeof values); }

INLINE ints NAME(load_ints)(const int32_t *from) {
    ints values;
    memcpy(&values, from, sizeof values);
    return values;
}

INLINE void NAME(store_ints)(int32_t *to, ints values) { memcpy(to, &values, sizeof values); }

INLINE vec NAME(fill)(REAL value) { return (vec){0} + value; }

INLINE vec NAME(select)(mask where, vec yes, vec no) {
#if LANES > 1
    return (vec)(((mask)yes & where) | ((mask)no & ~where));
#else
    return where ? yes : no;
#endif
}

INLINE ints NAME(select_ints)(mask where, ints yes, ints no) {
#if LANES > 1
    return (yes & where) | (no & ~where);
#else
    return where ? yes : no;
#endif
}

INLINE vec NAME(smaller)(vec a, vec b) {
#if LANES == 4 && defined(__ARM_NEON)
    return (vec)vminnmq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return NAME(select)(a < b, a, b);
#endif
}

INLINE vec NAME(larger)(vec a, vec b) {
#if LANES == 4 && defined(__ARM_NEON)
    return (vec)vmaxnmq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return NAME(select)(a > b, a, b);
#endif
}

INLINE REAL NAME(sum)(vec values) {
    REAL lanes[LANES], total = 0;
    NAME(store)(lanes, values);
    for (int lane = 0; lane < LANES; lane++) total += lanes[lane];
    return total;
}

/* log2 of positive normal numbers: 2e-7 of absolute error, which is what exp(-x^rho) needs. 0 gives about -127. */
INLINE vec NAME(log_2)(vec x) {
#if LANES > 1
    NAME(bits) shifted = BITS(x) - 0x3f3504f3u; /* sqrt(1/2): mantissas from there to sqrt(2) */
    /* The exponent as the low bits of 1.5 * 2^23: cheaper than a conversion. */
    vec exponent = FLOATS(((mask)shifted >> 23) + 0x4b400000) - 12582912.0f;
    vec f = FLOATS((shifted & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    vec f2 = f * f, f4 = f2 * f2; /* by halves: fewer steps wait for one another */
    vec a = f * -7.213571489e-01f + 1.442694772e+00f, b = f * -3.600872155e-01f + 4.809394450e-01f;
    vec c = f * -2.500690416e-01f + 2.867074501e-01f, d = f * -1.457445215e-01f + 2.368904187e-01f;
    return ((d * f2 + c) * f4 + (b * f2 + a)) * f + exponent;
#else
    return (REAL)log2(x);
#endif
}

/* 2^t for t from -126 to 127, to 1e-7. */
INLINE vec NAME(exp_2)(vec t) {
#if LANES > 1
    vec rounded = t + 12582912.0f; /* 1.5 * 2^23: the nearest integer stands in the low bits */
    vec f = t - (rounded - 12582912.0f);
    vec f2 = f * f, a = f * 6.931469776e-01f + 1.0f;
    vec b = f * 5.550733744e-02f + 2.402224208e-01f, c = f * 1.326472725e-03f + 9.671512688e-03f;
    return FLOATS(BITS((c * f2 + b) * f2 + a) + (BITS(rounded) << 23));
#else
    return (REAL)exp2(t);
#endif
}

/* ln x, and NaN where x is not a positive finite number: a broken image must not pass for a good one. */
INLINE vec NAME(ln)(vec x) {
#if LANES > 1
    vec value = NAME(log_2)(x) * (REAL)LN2 + x * 0.0f;
    return NAME(select)(x > 0.0f, value, NAME(fill)(NAN));
#else
    return (REAL)log(x);
#endif
}

typedef struct {
    REAL u, v, sigma, iota, rho;
    REAL reach; /* px at which it is cut */
    int top, bottom; /* rows of the image within reach, `bottom` included; none where top > bottom */
} NAME(blob);

/* What a thread works in; all of it lies in memory handed in by the caller. */
typedef struct {
    int stride;              /* of the planes: the width, made up to whole vectors */
    REAL *columns;           /* 0, 1, 2 ...; beyond the image far away, where every blob is 0 */
    REAL *image, *best, *peak, *weight, *pull; /* planes of the band */
    int32_t *owner;
    NAME(blob) *blobs;
    int32_t *first, *count;  /* of each row of a window: its first column, its vectors */
    REAL *y;                 /* the windows' values, flat */
    int32_t *cell, *where;   /* their cells of the table; where in the planes each vector lies */
    int32_t *start;          /* of each blob's part of the lists of owned pixels */
    REAL *column, *row, *first_weight, *second_weight;
    REAL *table;
    double *work;            /* by row */
    struct NAME(pixels) *pixels; /* of a chunk of a list */
    int64_t table_view;
} NAME(room);

static char *NAME(take)(char **from, size_t bytes) {
    char *place = *from;
    *from += (bytes + 63) / 64 * 64;
    return place;
}

/* Lays the room out from `from` (NULL: only to measure) and returns where it ends. */
static char *NAME(furnish)(NAME(room) *room, const scene *s, char *from) {
    int stride = (int)((s->width + LANES - 1) / LANES * LANES);
    size_t area = (size_t)s->height * stride, vertices = (size_t)s->vertices, reals = area * sizeof(REAL);
    size_t listed = (area + vertices * LANES) * sizeof(REAL);
    room->stride = stride;
    room->columns = (REAL *)NAME(take)(&from, (2 * (size_t)stride + LANES) * sizeof(REAL));
    room->image = (REAL *)NAME(take)(&from, reals);
    room->best = (REAL *)NAME(take)(&from, reals);
    room->peak = (REAL *)NAME(take)(&from, reals);
    room->weight = (REAL *)NAME(take)(&from, reals);
    room->pull = (REAL *)NAME(take)(&from, reals);
    room->owner = (int32_t *)NAME(take)(&from, area * sizeof(int32_t));
    room->blobs = (NAME(blob) *)NAME(take)(&from, vertices * sizeof(NAME(blob)));
    room->first = (int32_t *)NAME(take)(&from, ((size_t)s->height + 16) * sizeof(int32_t));
    room->count = (int32_t *)NAME(take)(&from, ((size_t)s->height + 16) * sizeof(int32_t));
    room->y = (REAL *)NAME(take)(&from, reals + stride * sizeof(REAL));
    room->cell = (int32_t *)NAME(take)(&from, (area + stride) * sizeof(int32_t));
    room->where = (int32_t *)NAME(take)(&from, (area + stride) / LANES * sizeof(int32_t));
    room->start = (int32_t *)NAME(take)(&from, (vertices + 1) * sizeof(int32_t));
    room->column = (REAL *)NAME(take)(&from, listed);
    room->row = (REAL *)NAME(take)(&from, listed);
    room->first_weight = (REAL *)NAME(take)(&from, listed);
    room->second_weight = (REAL *)NAME(take)(&from, listed);
    room->table = (REAL *)NAME(take)(&from, 4 * (TABLE_CELLS + 1) * sizeof(REAL));
    room->work = (double *)NAME(take)(&from, ((size_t)s->height + 1) * sizeof(double));
    room->pixels = (struct NAME(pixels) *)NAME(take)(&from, CHUNK * 6 * LANES * sizeof(REAL));
    room->table_view = -1;
    return from;
}

static size_t NAME(room_size)(const scene *s) {
    NAME(room) room;
    static char nothing[1];
    return (size_t)(NAME(furnish)(&room, s, nothing) - nothing) + 64;
}

/* ---- the table: exp(-x^rho) for the x within reach ---- */

typedef struct {
    double limit;   /* x at which a blob is cut */
    double stretch; /* y = 1 + stretch x: the table's variable, from 1 to 2^octaves, where the cut lies exactly */
    int octaves;
} NAME(radius);

static NAME(radius) NAME(radial_range)(double rho, double cutoff) {
    NAME(radius) r;
    r.limit = pow(-log(cutoff), 1 / rho);
    /* x^rho is no polynomial at 0: the first cell must end where x^rho has become about 1e-5. */
    double octaves = ceil(log2(r.limit / CELLS_PER_OCTAVE) + 16.6 / rho);
    r.octaves = octaves < 4 ? 4 : octaves < MOST_OCTAVES ? (int)octaves : MOST_OCTAVES;
    r.stretch = (exp2(r.octaves) - 1) / r.limit;
    return r;
}

#if LANES > 1
/* For each cell of y (the high bits of its float) a parabola in y: Taylor's at the middle, its slope corrected by the
   third derivative so that the error is the smallest possible. The cell after the last is 0: there the blob is cut. */
static void NAME(radial_table)(REAL *table, REAL rho, NAME(radius) range) {
    const REAL inverse = (REAL)(1 / range.stretch);
    const int cells = range.octaves * CELLS_PER_OCTAVE;
    REAL a[LANES], b[LANES], c[LANES];
    for (int cell = 0; cell < cells; cell += LANES) {
        NAME(bits) bits = {0};
        for (int lane = 0; lane < LANES; lane++) bits[lane] = FIRST_CELL + (uint32_t)(cell + lane);
        vec low = FLOATS(bits << CELL_BITS), width = FLOATS((bits + 1u) << CELL_BITS) - low;
        vec y = low + 0.5f * width, x = (y - 1.0f) * inverse;
        vec p = NAME(exp_2)(NAME(larger)(rho * NAME(log_2)(x), NAME(fill)(-126)));
        vec value = NAME(exp_2)(p * (REAL)-LOG2E);
        /* x, x^2, x^3 times the first, second and third derivative by x; by y they are `ratio` times as large. */
        vec q = rho * p, ratio = y / (y - 1.0f);
        vec one = -q * value * ratio;
        vec two = q * (q - (rho - 1)) * value * ratio * ratio;
        vec three = q * (3 * (rho - 1) * q - q * q - (rho - 1) * (rho - 2)) * value * ratio * ratio * ratio;
        vec half = 0.5f * width / y;
        one += three * half * half * 0.125f;
        NAME(store)(a, value - one + 0.5f * two);
        NAME(store)(b, (one - two) / y);
        NAME(store)(c, 0.5f * two / (y * y));
        for (int lane = 0; lane < LANES; lane++) {
            REAL *entry = table + 4 * (cell + lane);
            entry[0] = a[lane], entry[1] = b[lane], entry[2] = c[lane], entry[3] = 0;
        }
    }
    memset(table + 4 * cells, 0, 4 * sizeof(REAL));
}
#endif

/* ---- the windows ---- */

static void NAME(read_blobs)(NAME(room) *room, const scene *s, int64_t view) {
    const REAL *centre = (const REAL *)s->centre + view * s->vertices * 2;
    const REAL *sigma = (const REAL *)s->sigma + view * s->vertices, *iota = (const REAL *)s->iota + view * s->vertices;
    const REAL rho = ((const REAL *)s->rho)[view];
    const double limit = pow(-log(s->cutoff), 0.5 / rho);
    for (int64_t n = 0; n < s->vertices; n++) {
        NAME(blob) blob = {centre[2 * n], centre[2 * n + 1], sigma[n], iota[n], rho, 0, 0, -1};
        const double reach = sigma[n] * sqrt(2) * limit, u = blob.u, v = blob.v;
        blob.reach = (REAL)reach;
        /* Written so that NaN fails: such a blob is nowhere. */
        if (reach >= 0 && u + reach >= 0 && u - reach <= s->width - 1 && v + reach >= 0 && v - reach <= s->height - 1) {
            blob.top = (int)ceil(fmax(v - reach, 0));
            blob.bottom = (int)floor(fmin(v + reach, (double)s->height - 1));
        }
        room->blobs[n] = blob;
    }
}

/* Lists the vectors of a blob's window within rows from..to (`to` included): y (or x), its cell and its place. */
static int NAME(list_window)(NAME(room) *room, const scene *s, const NAME(blob) *blob, int from, int to, int band_top,
                             NAME(radius) range) {
    const int rows = to - from + 1;
    const REAL reach2 = blob->reach * blob->reach, last_column = (REAL)(s->width - 1);
    int32_t *first = room->first, *count = room->count;
    int widest = 0;
    for (int k = 0; k < rows; k++) {
        REAL down = (REAL)(from + k) - blob->v, rest = reach2 - down * down;
        REAL half = SQUARE_ROOT(rest > 0 ? rest : 0), left = blob->u - half, right = blob->u + half;
        left = left > 0 ? left : 0, right = right < last_column ? right : last_column;
        left = left < last_column ? left : last_column, right = right > 0 ? right : 0;
        int32_t start = (int32_t)left / LANES * LANES;
        first[k] = start;
        count[k] = ((int32_t)right - start) / LANES + 1;
    }
    for (int k = 0; k < rows; k++) widest = count[k] > widest ? count[k] : widest;

    const double x_scale = 1 / (2 * (double)blob->sigma * blob->sigma);
#if LANES > 1
    const REAL scale = (REAL)fmin(x_scale * range.stretch, 1e30), offset = 1;
    const vec far = NAME(fill)((REAL)exp2(range.octaves));
#else
    const REAL scale = (REAL)x_scale, offset = 0;
    (void)range;
#endif
    const vec u = NAME(fill)(blob->u);
    const REAL v = blob->v;
    int listed = 0;
    for (int k = 0; k < rows; k++) {
        const REAL down = (REAL)(from + k) - v, above = down * down * scale + offset;
        const REAL *columns = room->columns + first[k];
        const int32_t place = (from + k - band_top) * room->stride + first[k];
        REAL *y = room->y + (size_t)listed * LANES;
        int32_t *cell = room->cell + (size_t)listed * LANES, *where = room->where + listed;
        /* As many steps in every row, since guessing the end of each is dearer; what is too much is overwritten. */
        for (int i = 0; i < widest; i++) {
            vec right = NAME(load)(columns + i * LANES) - u;
            vec value = right * right * scale + above;
#if LANES > 1
            value = NAME(smaller)(value, far);
            NAME(store_ints)(cell + i * LANES, (ints)((BITS(value) >> CELL_BITS) - FIRST_CELL));
#else
            (void)cell;
#endif
            NAME(store)(y + i * LANES, value);
            where[i] = place + i * LANES;
        }
        listed += count[k];
    }
    return listed;
}

/* exp(-x^rho), cut, in place of y. */
static void NAME(shapes)(NAME(room) *room, int listed, REAL rho, NAME(radius) range) {
    REAL *y = room->y;
#if LANES > 1
    const quad *table = (const quad *)room->table;
    const int32_t *cell = room->cell;
    (void)rho, (void)range;
    for (int i = 0; i < listed * LANES; i += 4) {
        quad p = table[cell[i]], q = table[cell[i + 1]], r = table[cell[i + 2]], t = table[cell[i + 3]];
        quad even = SHUFFLE(p, q, 0, 4, 2, 6), odd = SHUFFLE(p, q, 1, 5, 3, 7);
        quad even2 = SHUFFLE(r, t, 0, 4, 2, 6), odd2 = SHUFFLE(r, t, 1, 5, 3, 7);
        quad a = SHUFFLE(even, even2, 0, 1, 4, 5), b = SHUFFLE(odd, odd2, 0, 1, 4, 5);
        quad c = SHUFFLE(even, even2, 2, 3, 6, 7), at;
        memcpy(&at, y + i, sizeof at);
        at = (c * at + b) * at + a;
        memcpy(y + i, &at, sizeof at);
    }
#else
    for (int i = 0; i < listed; i++)
        y[i] = y[i] <= range.limit ? (REAL)exp(-pow(y[i], rho)) : 0;
#endif
}

/* The blob's part of the render and of the mask, and its sums. */
INLINE void NAME(deposit)(NAME(room) *room, int listed, int vertex, REAL iota, int masked, REAL share, REAL *overlap,
                          REAL *mass) {
    vec product = {0}, total = {0};
    const ints name = (ints){0} + vertex;
    const REAL *shapes = room->y, *image = room->image;
    REAL *best = room->best, *peak = room->peak;
    int32_t *owner = room->owner;
    for (int i = 0; i < listed; i++) {
        const int32_t at = room->where[i];
        vec shape = NAME(load)(shapes + i * LANES), before = NAME(load)(best + at), value = iota * shape;
        mask more = value > before; /* not where equal: the lowest vertex keeps the pixel */
        NAME(store)(best + at, NAME(select)(more, value, before));
        NAME(store_ints)(owner + at, NAME(select_ints)(more, name, NAME(load_ints)(owner + at)));
        if (masked) NAME(store)(peak + at, NAME(larger)(share * shape, NAME(load)(peak + at)));
        total += shape;
        product += shape * NAME(load)(image + at);
    }
    *overlap = iota * NAME(sum)(product);
    *mass = iota * NAME(sum)(total);
}

/* ---- a band ---- */

typedef struct {
    int top, bottom;        /* rows, `bottom` excluded */
    int low, high;          /* rows that blobs reach, `high` excluded */
    int left, right;        /* columns that blobs reach, whole vectors, `right` excluded */
} NAME(band);

/* Splits the view into bands of about equal work and finds what blobs reach in this one. */
static NAME(band) NAME(plan_band)(NAME(room) *room, const scene *s, int band) {
    const int height = (int)s->height, width = (int)s->width;
    double *work = room->work, total = 0, before = 0;
    memset(work, 0, (height + 1) * sizeof *work);
    for (int64_t n = 0; n < s->vertices; n++) {
        const NAME(blob) *blob = room->blobs + n;
        if (blob->top > blob->bottom) continue;
        work[blob->top] += fmin(blob->reach, width);
        work[blob->bottom + 1] -= fmin(blob->reach, width);
    }
    for (int row = 1; row <= height; row++) work[row] += work[row - 1];
    for (int row = 0; row < height; row++) total += work[row] += 0.3 * width; /* the pixels' own part */

    NAME(band) b = {height, 0, height, 0, width, 0};
    for (int row = 0; row < height; row++) {
        int mine = (int)fmin(BANDS * before / total, BANDS - 1);
        before += work[row];
        if (mine != band) continue;
        b.top = row < b.top ? row : b.top;
        b.bottom = row + 1;
    }
    for (int64_t n = 0; n < s->vertices; n++) {
        const NAME(blob) *blob = room->blobs + n;
        int low = blob->top > b.top ? blob->top : b.top, high = blob->bottom < b.bottom ? blob->bottom + 1 : b.bottom;
        if (low >= high) continue;
        int left = (int)fmax(blob->u - blob->reach, 0), right = (int)fmin(blob->u + blob->reach, width - 1) + 1;
        b.low = low < b.low ? low : b.low;
        b.high = high > b.high ? high : b.high;
        b.left = left < b.left ? left : b.left;
        b.right = right > b.right ? right : b.right;
    }
    b.left = b.left / LANES * LANES;
    b.right = (b.right + LANES - 1) / LANES * LANES;
    if (b.low >= b.high) b.low = b.high = b.top, b.left = b.right = 0;
    return b;
}

/* The band's image with rows of whole vectors: the view itself where its rows are, a copy where not. */
static void NAME(show_image)(NAME(room) *room, const scene *s, int64_t view, NAME(band) band, REAL *copy) {
    const REAL *image = (const REAL *)s->images + (view * s->height + band.top) * s->width;
    room->image = (REAL *)image;
    if (s->width == room->stride) return;
    for (int row = band.top; row < band.bottom; row++) {
        REAL *to = copy + (size_t)(row - band.top) * room->stride;
        memcpy(to, image + (int64_t)(row - band.top) * s->width, s->width * sizeof(REAL));
        for (int column = (int)s->width; column < room->stride; column++) to[column] = 0;
    }
    room->image = copy;
}

/* All windows of the band: render, owners, mask and sums. `sums`: (vertex, step), overlap and mass the first two. */
static void NAME(render_band)(NAME(room) *room, const scene *s, int64_t view, NAME(band) band, int masked, REAL *sums,
                              int step) {
    const size_t row_bytes = (size_t)(band.right - band.left) * sizeof(REAL);
    for (int row = band.low; row < band.high; row++) {
        size_t at = (size_t)(row - band.top) * room->stride + band.left;
        memset(room->best + at, 0, row_bytes);
        if (masked) memset(room->peak + at, 0, row_bytes);
    }
    const REAL rho = ((const REAL *)s->rho)[view];
    const REAL *shares = (const REAL *)s->shares + (masked ? view / s->cameras * s->vertices : 0);
    NAME(radius) range = {0};
    if (band.low < band.high) {
        range = NAME(radial_range)(rho, s->cutoff);
#if LANES > 1
        if (room->table_view != view) NAME(radial_table)(room->table, rho, range);
        room->table_view = view;
#endif
    }
    for (int n = 0; n < (int)s->vertices; n++) {
        const NAME(blob) *blob = room->blobs + n;
        int from = blob->top > band.top ? blob->top : band.top;
        int to = blob->bottom < band.bottom ? blob->bottom : band.bottom - 1;
        if (from > to) continue;
        int listed = NAME(list_window)(room, s, blob, from, to, band.top, range);
        NAME(shapes)(room, listed, rho, range);
        REAL *overlap = sums + (size_t)n * step, *mass = overlap + 1;
        if (masked) NAME(deposit)(room, listed, n, blob->iota, 1, shares[n], overlap, mass);
        else NAME(deposit)(room, listed, n, blob->iota, 0, 0, overlap, mass);
    }
}

/* ---- derivatives ---- */

/* At one vector of pixels, what B's derivatives are made of: log2 x, x^rho, exp(-x^rho) and 1 / d^2, d the distance. */
typedef struct NAME(pixels) {
    vec right, down, log_x, power, shape, closeness;
} NAME(pixels);

INLINE void NAME(look)(const NAME(blob) *blob, vec right, vec down, NAME(pixels) *pixels) {
    const vec squared = right * right + down * down, one = NAME(fill)(1), least = NAME(fill)(-126);
    const mask off_centre = squared > NAME(fill)(0);
    const vec safe = NAME(select)(off_centre, squared, one);
    const REAL scale = (REAL)0.5 / (blob->sigma * blob->sigma);
    pixels->right = right;
    pixels->down = down;
    pixels->log_x = NAME(log_2)(safe * scale);
    vec power = NAME(exp_2)(NAME(smaller)(NAME(larger)(blob->rho * pixels->log_x, least), -least));
    pixels->power = NAME(select)(off_centre, power, NAME(fill)(0));
    pixels->shape = NAME(exp_2)(NAME(larger)(pixels->power * (REAL)-LOG2E, least));
    pixels->closeness = one / safe;
}

/* dB / d(u, v, sigma, iota, rho); 0 for position, width and exponent on the centre, where the power is 0. */
INLINE void NAME(slopes)(const NAME(blob) *blob, const NAME(pixels) *pixels, vec slopes[5]) {
    const vec swing = pixels->shape * pixels->power * blob->iota, pull = swing * pixels->closeness * (2 * blob->rho);
    slopes[0] = pull * pixels->right;
    slopes[1] = pull * pixels->down;
    slopes[2] = swing * (2 * blob->rho / blob->sigma);
    slopes[3] = pixels->shape;
    slopes[4] = swing * pixels->log_x * (REAL)-LN2;
}

/* Sorts the band's owned pixels by owner: column, row and one or two weights (planes) of each, whole vectors a blob. */
static void NAME(sort_owned)(NAME(room) *room, const scene *s, NAME(band) band, const int32_t *owner, int stride,
                             const REAL *first_plane, const REAL *second_plane) {
    const uint32_t vertices = (uint32_t)s->vertices;
    const int right = band.right < (int)s->width ? band.right : (int)s->width;
    int32_t *start = room->start;
    memset(start, 0, (vertices + 1) * sizeof *start);
    for (int row = band.low; row < band.high; row++) {
        const int32_t *names = owner + (size_t)(row - band.top) * stride;
        for (int column = band.left; column < right; column++)
            if ((uint32_t)names[column] < vertices) start[names[column] + 1]++;
    }
    for (uint32_t n = 0; n < vertices; n++) { /* each part made up to whole vectors by pixels without weight */
        int32_t padded = (start[n + 1] + LANES - 1) / LANES * LANES, end = start[n] + padded;
        for (int32_t at = start[n] + start[n + 1]; at < end; at++)
            room->column[at] = room->row[at] = room->first_weight[at] = room->second_weight[at] = 0;
        start[n + 1] = end;
    }
    for (int row = band.low; row < band.high; row++) {
        const size_t line = (size_t)(row - band.top) * stride;
        for (int column = band.left; column < right; column++) {
            const int32_t name = owner[line + column];
            if ((uint32_t)name >= vertices) continue;
            const int32_t at = start[name]++;
            room->column[at] = (REAL)column;
            room->row[at] = (REAL)row;
            room->first_weight[at] = first_plane[line + column];
            if (second_plane) room->second_weight[at] = second_plane[line + column];
        }
    }
    /* `start` has moved to the end of each part's pixels; the next multiple of LANES is where the next part begins. */
}

/* `look` at the pixels of a blob's list from `at` on, at most a chunk of them: side by side, not one by one. */
static void NAME(look_ahead)(NAME(room) *room, const NAME(blob) *blob, int32_t at, int32_t end) {
    const NAME(blob) b = *blob;
    NAME(pixels) *pixels = room->pixels;
    const int32_t last = at + CHUNK * LANES < end ? at + CHUNK * LANES : end;
    for (; at < last; at += LANES)
        NAME(look)(&b, NAME(load)(room->column + at) - b.u, NAME(load)(room->row + at) - b.v, pixels++);
}

/* The part of a blob's gradient that comes from its own sums: all pixels of its window, whoever owns them. */
static void NAME(add_window)(NAME(room) *room, const scene *s, const NAME(blob) *blob, int from, int to, int band_top,
                             REAL overlap, REAL mass, vec gradient[5]) {
    const NAME(blob) b = *blob;
    const vec zero = NAME(fill)(0);
    NAME(pixels) *pixels = room->pixels;
    vec g[5], sums[5];
    for (int i = 0; i < 5; i++) sums[i] = gradient[i];
    for (int row = from; row <= to; row++) {
        const REAL down = (REAL)row - b.v, rest = b.reach * b.reach - down * down;
        const REAL half = SQUARE_ROOT(rest > 0 ? rest : 0);
        const int left = (int)fmax(b.u - half, 0) / LANES * LANES, right = (int)fmin(b.u + half, (double)s->width - 1);
        const REAL *image = room->image + (size_t)(row - band_top) * room->stride;
        for (int begin = left; begin <= right; begin += CHUNK * LANES) {
            const int last = right < begin + CHUNK * LANES - 1 ? right : begin + CHUNK * LANES - 1;
            for (int column = begin, k = 0; column <= last; column += LANES, k++)
                NAME(look)(&b, NAME(load)(room->columns + column) - b.u, NAME(fill)(down), pixels + k);
            for (int column = begin, k = 0; column <= last; column += LANES, k++) {
                NAME(slopes)(&b, pixels + k, g);
                const mask within = pixels[k].right * pixels[k].right <= NAME(fill)(rest);
                const vec weight = NAME(select)(within, overlap * NAME(load)(image + column) + mass, zero);
                for (int i = 0; i < 5; i++) sums[i] += weight * g[i];
            }
        }
    }
    for (int i = 0; i < 5; i++) gradient[i] = sums[i];
}

/* ---- the three jobs on a band ---- */

static void NAME(forward)(NAME(room) *room, const scene *s, int64_t view, NAME(band) band, REAL *sums) {
    NAME(render_band)(room, s, view, band, 0, sums, FORWARD_SUMS);
    const int width = (int)s->width, right = band.right < width ? band.right : width;
    for (int row = band.top; row < band.bottom; row++) {
        const size_t line = (size_t)(row - band.top) * room->stride;
        REAL *image = (REAL *)s->image + (view * s->height + row) * s->width;
        int32_t *owner = (int32_t *)s->owner + (view * s->height + row) * s->width;
        memset(image, 0, width * sizeof *image);
        memset(owner, -1, width * sizeof *owner);
        if (row < band.low || row >= band.high) continue;
        for (int column = band.left; column < right; column++) {
            REAL value = room->best[line + column];
            image[column] = value;
            owner[column] = value > 0 ? room->owner[line + column] : -1;
        }
    }
}

static void NAME(backward)(NAME(room) *room, const scene *s, int64_t view, NAME(band) band, REAL *sums) {
    const int64_t pixels = (view * s->height + band.top) * s->width;
    const REAL *overlap = (const REAL *)s->up_overlap + view * s->vertices;
    const REAL *mass = (const REAL *)s->up_mass + view * s->vertices;
    NAME(sort_owned)(room, s, band, (const int32_t *)s->owner + pixels, (int)s->width,
                     (const REAL *)s->up_image + pixels, NULL);
    int32_t begin = 0;
    for (int n = 0; n < (int)s->vertices; n++) {
        const NAME(blob) *blob = room->blobs + n;
        const int32_t end = room->start[n];
        vec gradient[5], g[5];
        for (int i = 0; i < 5; i++) gradient[i] = NAME(fill)(0);
        for (int32_t at = begin; at < end; at += LANES) {
            if ((at - begin) % (CHUNK * LANES) == 0) NAME(look_ahead)(room, blob, at, end);
            NAME(slopes)(blob, room->pixels + (at - begin) / LANES % CHUNK, g);
            vec weight = NAME(load)(room->first_weight + at);
            for (int i = 0; i < 5; i++) gradient[i] += weight * g[i];
        }
        begin = (end + LANES - 1) / LANES * LANES;
        const int from = blob->top > band.top ? blob->top : band.top;
        const int to = blob->bottom < band.bottom ? blob->bottom : band.bottom - 1;
        if (from <= to && (overlap[n] != 0 || mass[n] != 0))
            NAME(add_window)(room, s, blob, from, to, band.top, overlap[n], mass[n], gradient);
        for (int i = 0; i < 5; i++) sums[(size_t)n * BACKWARD_SUMS + i] = NAME(sum)(gradient[i]);
    }
}

/* Residuals of `count` pixels in a row, whole vectors: their loss; weights for the sums where blobs reach them. */
INLINE double NAME(residuals)(NAME(room) *room, const scene *s, size_t from, int count, int reached, int masked) {
    const REAL *images = room->image + from, *bests = room->best + from, *peaks = room->peak + from;
    REAL *weights = room->weight + from, *pulls = room->pull + from;
    int32_t *owners = room->owner + from;
    const vec one = NAME(fill)(1), outside = NAME(fill)((REAL)s->outside), threshold = NAME(fill)((REAL)s->threshold);
    for (int i = 0; i < count; i += LANES) {
        vec target = NAME(load)(images + i);
        if (masked && reached) target *= NAME(select)(NAME(load)(peaks + i) >= threshold, one, outside);
        if (masked && !reached) target *= outside;
        target += one;
        if (reached) {
            /* One division for both 1 / (1 + R) and (1 + R) / (1 + M I), of which r is the logarithm. */
            const vec best = NAME(load)(bests + i), render = one + best, both = one / (render * target);
            NAME(store)(weights + i, target * both);
            NAME(store_ints)(owners + i,
                             NAME(select_ints)(best > NAME(fill)(0), NAME(load_ints)(owners + i), (ints){0} - 1));
            target = render * render * both;
        }
        NAME(store)(pulls + i, target); /* where nothing reaches, -r will do: only its square counts */
    }
    UNROLLED
    for (int i = 0; i < count; i += LANES) NAME(store)(pulls + i, NAME(ln)(NAME(load)(pulls + i)));

    vec loss = NAME(fill)(0), likelihood = one;
    if (!isfinite(s->robust)) {
        for (int i = 0; i < count; i += LANES) {
            const vec residual = NAME(load)(pulls + i), inverse = NAME(load)(weights + i);
            loss += residual * residual;
            if (!reached) continue;
            NAME(store)(weights + i, inverse * inverse);
            NAME(store)(pulls + i, inverse * residual);
        }
        return NAME(sum)(loss);
    }
    const REAL sharpness = (REAL)(1 / (s->robust * s->robust));
    for (int i = 0; i < count; i += LANES) {
        const vec residual = NAME(load)(pulls + i), ratio = one + residual * residual * sharpness;
        /* Four pixels share a logarithm: the sum of their losses is the logarithm of a product. */
        likelihood *= ratio;
        if ((i / LANES & 3) == 3) loss += NAME(ln)(likelihood), likelihood = one;
        if (!reached) continue;
        const vec inverse = NAME(load)(weights + i), pull = inverse / ratio;
        NAME(store)(weights + i, pull * inverse);
        NAME(store)(pulls + i, pull * residual);
    }
    return NAME(sum)(loss + NAME(ln)(likelihood)) * s->robust * s->robust;
}

static double NAME(residuals_of_row)(NAME(room) *room, const scene *s, size_t at, int count, int reached, int masked) {
    if (count <= 0) return 0;
    if (masked) return reached ? NAME(residuals)(room, s, at, count, 1, 1) : NAME(residuals)(room, s, at, count, 0, 1);
    return reached ? NAME(residuals)(room, s, at, count, 1, 0) : NAME(residuals)(room, s, at, count, 0, 0);
}

/* Of the sums of a blob: overlap, mass, the slope, the upper triangle of the Gram matrix row by row. */
static void NAME(products)(NAME(room) *room, const scene *s, int64_t view, NAME(band) band, REAL *sums, double *loss) {
    const int masked = s->threshold > 0;
    NAME(render_band)(room, s, view, band, masked, sums, PRODUCTS_SUMS);
    for (int row = band.top; row < band.bottom; row++) {
        const size_t at = (size_t)(row - band.top) * room->stride;
        const int reached = row >= band.low && row < band.high;
        const int left = reached ? band.left : room->stride, right = reached ? band.right : room->stride;
        *loss += NAME(residuals_of_row)(room, s, at, left, 0, masked);
        *loss += NAME(residuals_of_row)(room, s, at + left, right - left, 1, masked);
        *loss += NAME(residuals_of_row)(room, s, at + right, room->stride - right, 0, masked);
    }
    NAME(sort_owned)(room, s, band, room->owner, room->stride, room->weight, room->pull);
    int32_t begin = 0;
    for (int n = 0; n < (int)s->vertices; n++) {
        const NAME(blob) *blob = room->blobs + n;
        const int32_t end = room->start[n];
        if (begin == end) continue;
        vec slope[5], g[5], gram[15];
        for (int i = 0; i < 5; i++) slope[i] = NAME(fill)(0);
        for (int k = 0; k < 15; k++) gram[k] = NAME(fill)(0);
        for (int32_t at = begin; at < end; at += LANES) {
            if ((at - begin) % (CHUNK * LANES) == 0) NAME(look_ahead)(room, blob, at, end);
            NAME(slopes)(blob, room->pixels + (at - begin) / LANES % CHUNK, g);
            const vec weight = NAME(load)(room->first_weight + at), pull = NAME(load)(room->second_weight + at);
            for (int i = 0, k = 0; i < 5; i++) {
                const vec weighted = weight * g[i];
                slope[i] += pull * g[i];
                for (int j = i; j < 5; j++, k++) gram[k] += weighted * g[j];
            }
        }
        REAL *mine = sums + (size_t)n * PRODUCTS_SUMS + 2;
        for (int i = 0; i < 5; i++) mine[i] = NAME(sum)(slope[i]);
        for (int k = 0; k < 15; k++) mine[5 + k] = NAME(sum)(gram[k]);
        begin = (end + LANES - 1) / LANES * LANES;
    }
}

/* Takes one band after the other until none is left. */
static void NAME(work)(scene *s, char *memory) {
    NAME(room) room;
    NAME(furnish)(&room, s, (char *)(((uintptr_t)memory + 63) / 64 * 64));
    REAL *copy = room.image;
    for (int column = 0; column < 2 * room.stride + LANES; column++)
        room.columns[column] = column < s->width ? (REAL)column : (REAL)1e15;
    const int step = SUMS[s->job];
    for (int64_t item; (item = TAKE_NEXT(&s->next)) < s->views * BANDS;) {
        const int64_t view = item / BANDS;
        REAL *sums = (REAL *)s->sums + item * s->vertices * step;
        memset(sums, 0, (size_t)s->vertices * step * sizeof(REAL));
        s->losses[item] = 0;
        NAME(read_blobs)(&room, s, view);
        NAME(band) band = NAME(plan_band)(&room, s, (int)(item % BANDS));
        if (band.top >= band.bottom) continue;
        NAME(show_image)(&room, s, view, band, copy);
        if (s->job == FORWARD) NAME(forward)(&room, s, view, band, sums);
        else if (s->job == BACKWARD) NAME(backward)(&room, s, view, band, sums);
        else NAME(products)(&room, s, view, band, sums, s->losses + item);
    }
}

/* Adds the bands' sums, always in the same order, into the results. */
static void NAME(gather)(const scene *s) {
    const int step = SUMS[s->job];
    for (int64_t view = 0; view < s->views; view++) {
        REAL *total = (REAL *)s->sums + view * BANDS * s->vertices * step;
        const int64_t size = s->vertices * step;
        for (int64_t band = 1; band < BANDS; band++)
            for (int64_t k = 0; k < size; k++) total[k] += total[band * size + k];
        if (s->job == BACKWARD) memcpy((REAL *)s->slope + view * size, total, size * sizeof(REAL));
        for (int64_t n = 0; s->job != BACKWARD && n < s->vertices; n++) {
            const int64_t blob = view * s->vertices + n;
            const REAL *sums = total + n * step;
            ((REAL *)s->overlap)[blob] = sums[0];
            ((REAL *)s->mass)[blob] = sums[1];
            if (s->job != PRODUCTS) continue;
            memcpy((REAL *)s->slope + blob * 5, sums + 2, 5 * sizeof(REAL));
            REAL *gram = (REAL *)s->gram + blob * 25;
            for (int i = 0, k = 7; i < 5; i++)
                for (int j = i; j < 5; j++, k++) gram[5 * i + j] = gram[5 * j + i] = sums[k];
        }
        if (s->job != PRODUCTS) continue;
        double loss = 0;
        for (int64_t band = 0; band < BANDS; band++) loss += s->losses[view * BANDS + band];
        ((REAL *)s->loss)[view] = (REAL)loss;
    }
}

#undef vec
#undef mask
#undef ints
#undef BITS
#undef FLOATS
#undef REAL
#undef LANES
#undef NAME
