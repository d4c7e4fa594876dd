/* Evaluating blobs: for each its window, listed as a flat run of vectors, each of which is then looked up or computed and
   laid into the render. In one long loop over rows most of the time would be spent waiting for one operation after the
   other, and on guessing where rows end.

   exp(-x^rho) has no blob in it but through x. With four lanes it is read from a table, 64 parabolas an octave, right to
   5e-7: half the time that logarithms and exponentials take. With eight lanes these are faster. */

typedef struct {
    REAL u, v, sigma, iota, rho;
    REAL reach; /* px at which it is cut */
    int top, bottom; /* rows of the image within reach, `bottom` included; none where top > bottom */
} NAME(blob);

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

#if LANES == 4
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

/* What a thread works in; all of it lies in memory handed in by the caller. */
typedef struct {
    int stride;              /* of the planes: the width, made up to whole vectors */
    REAL *columns;           /* 0, 1, 2 ...; beyond the image far away, where every blob is 0 */
    REAL *image, *best, *weight, *slope_weight; /* planes of the band */
    int32_t *owner;
    NAME(blob) *blobs;
    int32_t *row_left, *row_right; /* of each row of the band: the columns that blobs reach, `right` excluded */
    int32_t *first, *count;  /* of each row of a window: its first column, its vectors */
    REAL *across;            /* the columns' part of y in a window */
    REAL *y;                 /* the windows' values, flat */
    int32_t *cell, *where;   /* their cells of the table; where in the planes each vector lies */
    int32_t *start;          /* of each blob's part of the lists of owned pixels */
    REAL *column, *row, *first_weight, *second_weight;
    REAL *table;
    double *work;            /* by row */
    struct NAME(pixels) *pixels; /* of a chunk of a list */
    int64_t view;            /* whose blobs, work and table these are */
    NAME(radius) range;
} NAME(room);

/* The next part of a room that begins at `base` (NULL: it is only measured); `used` bytes are taken so far. */
static void *NAME(take)(char *base, size_t *used, size_t bytes) {
    const size_t at = *used, whole = (bytes + 63) / 64 * 64;
    *used += whole + GAP;
    if (!base) return NULL;
    FORBID(base + at + bytes, whole + GAP - bytes);
    return base + at;
}

/* Lays the room out and returns its size; nothing in it is touched. */
static size_t NAME(furnish)(NAME(room) *room, const scene *s, char *base) {
    size_t used = 0;
    int stride = (int)((s->width + LANES - 1) / LANES * LANES);
    size_t area = (size_t)s->height * stride, vertices = (size_t)s->vertices, reals = area * sizeof(REAL);
    size_t listed = (area + vertices * LANES) * sizeof(REAL);
    room->stride = stride;
    room->columns = (REAL *)NAME(take)(base, &used, 3 * ((size_t)stride + LANES) * sizeof(REAL));
    room->image = (REAL *)NAME(take)(base, &used, reals);
    room->best = (REAL *)NAME(take)(base, &used, reals);
    room->weight = (REAL *)NAME(take)(base, &used, reals);
    room->slope_weight = (REAL *)NAME(take)(base, &used, reals);
    room->owner = (int32_t *)NAME(take)(base, &used, area * sizeof(int32_t));
    room->blobs = (NAME(blob) *)NAME(take)(base, &used, vertices * sizeof(NAME(blob)));
    room->row_left = (int32_t *)NAME(take)(base, &used, (size_t)s->height * sizeof(int32_t));
    room->row_right = (int32_t *)NAME(take)(base, &used, (size_t)s->height * sizeof(int32_t));
    room->across = (REAL *)NAME(take)(base, &used, 2 * ((size_t)stride + LANES) * sizeof(REAL));
    room->first = (int32_t *)NAME(take)(base, &used, ((size_t)s->height + 16) * sizeof(int32_t));
    room->count = (int32_t *)NAME(take)(base, &used, ((size_t)s->height + 16) * sizeof(int32_t));
    room->y = (REAL *)NAME(take)(base, &used, reals + stride * sizeof(REAL));
    room->cell = (int32_t *)NAME(take)(base, &used, (area + stride) * sizeof(int32_t));
    room->where = (int32_t *)NAME(take)(base, &used, (area + stride) / LANES * sizeof(int32_t));
    room->start = (int32_t *)NAME(take)(base, &used, (vertices + 1) * sizeof(int32_t));
    room->column = (REAL *)NAME(take)(base, &used, listed);
    room->row = (REAL *)NAME(take)(base, &used, listed);
    room->first_weight = (REAL *)NAME(take)(base, &used, listed);
    room->second_weight = (REAL *)NAME(take)(base, &used, listed);
    room->table = (REAL *)NAME(take)(base, &used, 4 * (TABLE_CELLS + 1) * sizeof(REAL));
    room->work = (double *)NAME(take)(base, &used, ((size_t)s->height + 1) * sizeof(double));
    room->pixels = (struct NAME(pixels) *)NAME(take)(base, &used, CHUNK * 6 * LANES * sizeof(REAL));
    room->view = -1;
    return used;
}

static size_t NAME(room_size)(const scene *s) {
    NAME(room) room;
    return NAME(furnish)(&room, s, NULL) + 64;
}

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
    const REAL u = blob->u, v = blob->v;
    int32_t *first = room->first, *count = room->count;
    for (int k = 0; k < rows; k += 8)
        for (int i = k; i < k + 8; i++) { /* a few rows too many, but always as many */
            REAL down = (REAL)(from + i) - v, rest = reach2 - down * down;
            REAL half = SQUARE_ROOT(rest > 0 ? rest : 0), left = u - half, right = u + half;
            left = left > 0 ? left : 0, right = right < last_column ? right : last_column;
            left = left < last_column ? left : last_column, right = right > 0 ? right : 0;
            const int32_t start = (int32_t)left & -LANES;
            first[i] = start;
            count[i] = ((int32_t)right - start) / LANES + 1;
        }
    /* The row next to the centre is the widest. */
    const int nearest = v <= from ? 0 : v >= to ? rows - 1 : (int)(v - from + (REAL)0.5);
    const int widest = count[nearest], leftmost = first[nearest];

    const double x_scale = 1 / (2 * (double)blob->sigma * blob->sigma);
#if LANES == 4
    const REAL scale = (REAL)fmin(x_scale * range.stretch, 1e30), offset = 1;
    const vec far = NAME(fill)((REAL)exp2(range.octaves));
#else
    const REAL scale = (REAL)fmin(x_scale, 1e30), offset = 0;
    (void)range;
#endif
    REAL *across = room->across;
    for (int column = leftmost; column < leftmost + 2 * widest * LANES; column += LANES) {
        const vec right = NAME(load)(room->columns + column) - u;
        NAME(store)(across + column - leftmost, right * right * scale);
    }
    int listed = 0;
    for (int k = 0; k < rows; k++) {
        const REAL down = (REAL)(from + k) - v;
        const vec above = NAME(fill)(down * down * scale + offset);
        const REAL *columns = across + first[k] - leftmost;
        const int32_t row = from + k - band_top, place = row * room->stride + first[k];
        REAL *y = room->y + (size_t)listed * LANES;
        int32_t *cell = room->cell + (size_t)listed * LANES, *where = room->where + listed;
        /* As many steps in every row, since guessing the end of each is dearer; what is too much is overwritten. */
        for (int i = 0; i < widest; i++) {
            vec value = NAME(load)(columns + i * LANES) + above;
#if LANES == 4
            value = NAME(smaller)(value, far);
            NAME(store_ints)(cell + i * LANES, (ints)(BITS(value) >> CELL_BITS));
#else
            (void)cell;
#endif
            NAME(store)(y + i * LANES, value);
            where[i] = place + i * LANES;
        }
        listed += count[k];
        const int32_t end = first[k] + count[k] * LANES;
        room->row_left[row] = first[k] < room->row_left[row] ? first[k] : room->row_left[row];
        room->row_right[row] = end > room->row_right[row] ? end : room->row_right[row];
    }
    return listed;
}

/* exp(-x^rho), cut, of the i-th vector of the list. */
INLINE vec NAME(shape)(const REAL *y, const int32_t *cell, const REAL *parabolas, int i, REAL rho, REAL limit) {
#if LANES == 4
    const vec *table = (const vec *)((uintptr_t)parabolas - FIRST_CELL * sizeof(vec));
    uint64_t c[2]; /* two cells at a time: loads are what this waits for */
    memcpy(c, cell + 4 * i, sizeof c);
    const vec p = table[(uint32_t)c[0]], q = table[c[0] >> 32], r = table[(uint32_t)c[1]], t = table[c[1] >> 32];
    const vec even = SHUFFLE(p, q, 0, 4, 2, 6), odd = SHUFFLE(p, q, 1, 5, 3, 7);
    const vec even2 = SHUFFLE(r, t, 0, 4, 2, 6), odd2 = SHUFFLE(r, t, 1, 5, 3, 7);
    const vec a = SHUFFLE(even, even2, 0, 1, 4, 5), b = SHUFFLE(odd, odd2, 0, 1, 4, 5);
    const vec at = NAME(load)(y + 4 * i);
    (void)rho, (void)limit;
    return (SHUFFLE(even, even2, 2, 3, 6, 7) * at + b) * at + a;
#elif LANES > 1
    const vec x = NAME(load)(y + i * LANES); /* 0 counts as 2^-127: exact where rho is above 0.2 */
    const vec power = NAME(exp_2)(NAME(larger)(rho * NAME(log_2)(x), NAME(fill)(-126)));
    (void)cell, (void)parabolas;
    return NAME(select)(x <= NAME(fill)(limit), NAME(exp_2)(power * (REAL)-LOG2E), NAME(fill)(0));
#else
    (void)cell, (void)parabolas;
    return y[i] <= limit ? (REAL)exp(-pow(y[i], rho)) : 0;
#endif
}

/* The listed blob's part of the render, and its sums. */
INLINE void NAME(deposit)(NAME(room) *room, int listed, int vertex, REAL iota, REAL rho, REAL limit, REAL *overlap,
                          REAL *mass) {
    vec product = {0}, total = {0};
    const ints name = (ints){0} + vertex;
    const REAL *y = room->y, *table = room->table, *image = room->image;
    const int32_t *where = room->where, *cell = room->cell;
    REAL *best = room->best;
    int32_t *owner = room->owner;
    for (int i = 0; i < listed; i++) {
        const int32_t at = where[i];
        const vec shape = NAME(shape)(y, cell, table, i, rho, limit);
        const vec before = NAME(load)(best + at), value = iota * shape;
        const mask more = value > before; /* not where equal: the lowest vertex keeps the pixel */
        NAME(store)(best + at, NAME(select)(more, value, before));
        NAME(store_ints)(owner + at, NAME(select_ints)(more, name, NAME(load_ints)(owner + at)));
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

/* Of each row of the view, the work up to its end. */
static void NAME(plan_view)(NAME(room) *room, const scene *s) {
    const int height = (int)s->height;
    double *work = room->work, before = 0;
    memset(work, 0, (height + 1) * sizeof *work);
    for (int64_t n = 0; n < s->vertices; n++) {
        const NAME(blob) *blob = room->blobs + n;
        const double width = blob->reach < s->width ? blob->reach : (double)s->width;
        if (blob->top > blob->bottom) continue;
        work[blob->top] += width;
        work[blob->bottom + 1] -= width;
    }
    for (int row = 0; row < height; row++) work[row + 1] += work[row];
    for (int row = 0; row < height; row++) work[row] = before += work[row] + 0.3 * s->width; /* the pixels' own part */
}

/* The image's column at or nearest to a place, which may be anywhere: blobs can be far larger than images. */
INLINE int NAME(column_of)(double place, int width) { return (int)fmin(fmax(place, 0), (double)width - 1); }

/* Splits the view into bands of about equal work and finds what blobs reach in this one. */
static NAME(band) NAME(plan_band)(NAME(room) *room, const scene *s, int band) {
    const int height = (int)s->height, width = (int)s->width;
    const double share = room->work[height - 1] / BANDS;
    NAME(band) b = {height, 0, height, 0, width, 0};
    for (int row = 0, mine = 0; row < height; row++) {
        if (mine == band) b.top = row < b.top ? row : b.top, b.bottom = row + 1;
        while (mine < BANDS - 1 && room->work[row] >= share * (mine + 1)) mine++;
    }
    for (int64_t n = 0; n < s->vertices; n++) {
        const NAME(blob) *blob = room->blobs + n;
        int low = blob->top > b.top ? blob->top : b.top, high = blob->bottom < b.bottom ? blob->bottom + 1 : b.bottom;
        if (low >= high) continue;
        int left = NAME(column_of)(blob->u - blob->reach, width), right = NAME(column_of)(blob->u + blob->reach, width) + 1;
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

/* All windows of the band: render, owners and sums. `sums`: (vertex, step), overlap and mass the first two. */
static void NAME(render_band)(NAME(room) *room, const scene *s, int64_t view, NAME(band) band, REAL *sums, int step) {
    const size_t row_bytes = (size_t)(band.right - band.left) * sizeof(REAL);
    for (int row = band.low; row < band.high; row++) {
        size_t at = (size_t)(row - band.top) * room->stride + band.left;
        room->row_left[row - band.top] = room->stride, room->row_right[row - band.top] = 0;
        memset(room->best + at, 0, row_bytes);
    }
    const REAL rho = ((const REAL *)s->rho)[view];
    const NAME(radius) range = room->range;
    for (int n = 0; n < (int)s->vertices; n++) {
        const NAME(blob) *blob = room->blobs + n;
        int from = blob->top > band.top ? blob->top : band.top;
        int to = blob->bottom < band.bottom ? blob->bottom : band.bottom - 1;
        if (from > to) continue;
        int listed = NAME(list_window)(room, s, blob, from, to, band.top, range);
        REAL *overlap = sums + (size_t)n * step, *mass = overlap + 1, limit = (REAL)range.limit;
        NAME(deposit)(room, listed, n, blob->iota, rho, limit, overlap, mass);
    }
}
