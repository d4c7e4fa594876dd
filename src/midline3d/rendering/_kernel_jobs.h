/* Derivatives at owned pixels, the three jobs on bands (forward, backward, products), and who does what. */

/* ---- derivatives ---- */

/* At one vector of pixels, what B's derivatives are made of: log2 x, x^rho, exp(-x^rho) and 1 / d^2, d the distance. */
typedef struct NAME(pixels) {
    vec right, down, log_x, power, shape, closeness;
} NAME(pixels);

INLINE void NAME(sample)(const NAME(blob) *blob, vec right, vec down, NAME(pixels) *pixels) {
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
    const vec swing = pixels->shape * pixels->power * blob->iota, radial = swing * pixels->closeness * (2 * blob->rho);
    slopes[0] = radial * pixels->right;
    slopes[1] = radial * pixels->down;
    slopes[2] = swing * (2 * blob->rho / blob->sigma);
    slopes[3] = pixels->shape;
    slopes[4] = swing * pixels->log_x * (REAL)-LN2;
}

/* Sorts the band's owned pixels by owner: column, row and one or two weights (planes) of each, whole vectors a blob. */
static void NAME(sort_owned)(NAME(room) *room, const scene *s, NAME(band) band, const int32_t *owner, int stride,
                             const REAL *first_plane, const REAL *second_plane) {
    const uint32_t vertices = (uint32_t)s->vertices;
    const int32_t *lefts = room->row_left - band.top, *rights = room->row_right - band.top;
    int32_t *start = room->start;
    memset(start, 0, (vertices + 1) * sizeof *start);
    for (int row = band.low; row < band.high; row++) {
        const int32_t *names = owner + (size_t)(row - band.top) * stride;
        for (int column = lefts[row]; column < rights[row]; column++)
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
        for (int column = lefts[row]; column < rights[row]; column++) {
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

/* `sample` the pixels of a blob's list from `at` on, at most a chunk of them: side by side, not one by one. */
static void NAME(look_ahead)(NAME(room) *room, const NAME(blob) *blob, int32_t at, int32_t end) {
    const NAME(blob) b = *blob;
    NAME(pixels) *pixels = room->pixels;
    const int32_t last = at + CHUNK * LANES < end ? at + CHUNK * LANES : end;
    const REAL *column = room->column, *row = room->row;
    for (; at + LANES < last; at += 2 * LANES, pixels += 2) {
        NAME(sample)(&b, NAME(load)(column + at) - b.u, NAME(load)(row + at) - b.v, pixels);
        NAME(sample)(&b, NAME(load)(column + at + LANES) - b.u, NAME(load)(row + at + LANES) - b.v, pixels + 1);
    }
    if (at < last) NAME(sample)(&b, NAME(load)(column + at) - b.u, NAME(load)(row + at) - b.v, pixels);
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
        const int left = NAME(column_of)(b.u - half, (int)s->width) / LANES * LANES;
        const int right = NAME(column_of)(b.u + half, (int)s->width);
        const REAL *image = room->image + (size_t)(row - band_top) * room->stride;
        for (int begin = left; begin <= right; begin += CHUNK * LANES) {
            const int last = right < begin + CHUNK * LANES - 1 ? right : begin + CHUNK * LANES - 1;
            for (int column = begin, k = 0; column <= last; column += 2 * LANES, k += 2) {
                const vec one = NAME(load)(room->columns + column) - b.u;
                const vec other = NAME(load)(room->columns + column + LANES) - b.u;
                NAME(sample)(&b, one, NAME(fill)(down), pixels + k);
                NAME(sample)(&b, other, NAME(fill)(down), pixels + k + 1);
            }
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
    NAME(render_band)(room, s, view, band, sums, FORWARD_SUMS);
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
    const int32_t right = band.right < (int)s->width ? band.right : (int32_t)s->width;
    for (int row = band.low; row < band.high; row++)
        room->row_left[row - band.top] = band.left, room->row_right[row - band.top] = right;
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

/* Cauchy's loss of some vectors of pixels. In: exp(r) in `slope_weights`, 1 / (1 + R) in `weights`. Out, where blobs reach: the
   weights of g r and of g g', g the derivatives of B (not yet of log(1 + B)). */
INLINE vec NAME(losses)(const scene *s, REAL *slope_weights, REAL *weights, int vectors, int reached) {
    const vec one = NAME(fill)(1);
    const int robust = isfinite(s->robust);
    const REAL sharpness = robust ? (REAL)(1 / (s->robust * s->robust)) : 0;
    vec residual[4], ratio[4], loss = NAME(fill)(0), likelihood = one;
    for (int k = 0; k < vectors; k++) residual[k] = NAME(ln)(NAME(load)(slope_weights + k * LANES));
    for (int k = 0; k < vectors; k++) {
        const vec squared = residual[k] * residual[k];
        ratio[k] = one + squared * sharpness;
        likelihood *= ratio[k];
        loss += squared;
    }
    /* Four pixels share a logarithm: the sum of their losses is the logarithm of a product. */
    if (robust) loss = NAME(ln)(likelihood) * (REAL)(s->robust * s->robust);
    for (int k = 0; reached && k < vectors; k++) {
        const vec inverse = NAME(load)(weights + k * LANES), share = inverse / ratio[k];
        NAME(store)(weights + k * LANES, share * inverse);
        NAME(store)(slope_weights + k * LANES, share * residual[k]);
    }
    return loss;
}

/* Pixels side by side in a row of a band: where they lie in it, which of them blobs reach, which columns are known. */
typedef struct NAME(stretch) {
    size_t from;
    int column, count;
    REAL left, right; /* first and last known column */
} NAME(stretch);

/* Residuals of a stretch, whole vectors: their loss; weights for the sums where blobs reach them. What is not known
   contradicts nothing. */
INLINE double NAME(residuals)(NAME(room) *room, const scene *s, const NAME(stretch) *stretch, int reached, int bordered) {
    const size_t from = stretch->from;
    const int count = stretch->count;
    const REAL *images = room->image + from, *bests = room->best + from, *columns = room->columns + stretch->column;
    REAL *weights = room->weight + from, *slope_weights = room->slope_weight + from;
    int32_t *owners = room->owner + from;
    const vec one = NAME(fill)(1);
    for (int i = 0; i < count; i += LANES) {
        vec target = one + NAME(load)(images + i), render = one;
        const vec best = reached ? NAME(load)(bests + i) : NAME(fill)(0);
        if (reached) render = one + best;
        if (bordered) {
            const vec column = NAME(load)(columns + i);
            target = NAME(select)((column >= NAME(fill)(stretch->left)) & (column <= NAME(fill)(stretch->right)), target, render);
        }
        if (reached) {
            /* One division for both 1 / (1 + R) and (1 + R) / (1 + I), of which r is the logarithm. */
            const vec both = one / (render * target);
            NAME(store)(weights + i, target * both);
            NAME(store_ints)(owners + i,
                             NAME(select_ints)(best > NAME(fill)(0), NAME(load_ints)(owners + i), (ints){0} - 1));
            target = render * render * both;
        }
        NAME(store)(slope_weights + i, target); /* where nothing reaches, -r will do: only its square counts */
    }
    vec loss = NAME(fill)(0);
    int i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) loss += NAME(losses)(s, slope_weights + i, weights + i, 4, reached);
    for (; i < count; i += LANES) loss += NAME(losses)(s, slope_weights + i, weights + i, 1, reached);
    return NAME(sum)(loss);
}

static double NAME(residuals_of)(NAME(room) *room, const scene *s, NAME(stretch) stretch, int reached) {
    if (stretch.count <= 0) return 0;
    if (s->picture) return reached ? NAME(residuals)(room, s, &stretch, 1, 1) : NAME(residuals)(room, s, &stretch, 0, 1);
    return reached ? NAME(residuals)(room, s, &stretch, 1, 0) : NAME(residuals)(room, s, &stretch, 0, 0);
}

/* First and last known column of a row, none where the row is not known. */
static void NAME(known_columns)(const scene *s, int64_t view, int row, REAL *left, REAL *right) {
    *left = 0, *right = (REAL)s->width;
    if (!s->picture) return;
    const REAL *picture = (const REAL *)s->picture + 4 * view;
    const int known = (REAL)row >= picture[2] && (REAL)row <= picture[3];
    *left = known ? picture[0] : (REAL)s->width, *right = known ? picture[1] : (REAL)-1;
}

/* Of the sums of a blob: overlap, mass, the slope, the upper triangle of the Gram matrix row by row. */
static void NAME(products)(NAME(room) *room, const scene *s, int64_t view, NAME(band) band, REAL *sums, double *loss) {
    NAME(render_band)(room, s, view, band, sums, PRODUCTS_SUMS);
    for (int row = band.top; row < band.bottom; row++) {
        const size_t at = (size_t)(row - band.top) * room->stride;
        const int reached = row >= band.low && row < band.high;
        int left = room->stride, right = room->stride;
        if (reached && room->row_left[row - band.top] < room->row_right[row - band.top])
            left = room->row_left[row - band.top], right = room->row_right[row - band.top];
        REAL first, last;
        NAME(known_columns)(s, view, row, &first, &last);
        *loss += NAME(residuals_of)(room, s, (NAME(stretch)){at, 0, left, first, last}, 0);
        *loss += NAME(residuals_of)(room, s, (NAME(stretch)){at + left, left, right - left, first, last}, 1);
        *loss += NAME(residuals_of)(room, s, (NAME(stretch)){at + right, right, room->stride - right, first, last}, 0);
    }
    NAME(sort_owned)(room, s, band, room->owner, room->stride, room->weight, room->slope_weight);
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
            const vec weight = NAME(load)(room->first_weight + at), slope_weight = NAME(load)(room->second_weight + at);
            for (int i = 0, k = 0; i < 5; i++) {
                const vec weighted = weight * g[i];
                slope[i] += slope_weight * g[i];
                for (int j = i; j < 5; j++, k++) gram[k] += weighted * g[j];
            }
        }
        REAL *mine = sums + (size_t)n * PRODUCTS_SUMS + 2;
        for (int i = 0; i < 5; i++) mine[i] = NAME(sum)(slope[i]);
        for (int k = 0; k < 15; k++) mine[5 + k] = NAME(sum)(gram[k]);
        begin = (end + LANES - 1) / LANES * LANES;
    }
}

/* What all bands of a view have in common. */
static void NAME(enter_view)(NAME(room) *room, const scene *s, int64_t view) {
    const REAL rho = ((const REAL *)s->rho)[view];
    NAME(read_blobs)(room, s, view);
    NAME(plan_view)(room, s);
    room->range = NAME(radial_range)(rho, s->cutoff);
#if LANES == 4
    if (s->job != BACKWARD) NAME(radial_table)(room->table, rho, room->range);
#endif
    room->view = view;
}

/* Takes one band after the other, until none is left. */
static void NAME(work_on_bands)(scene *s, char *memory) {
    NAME(room) room;
    NAME(furnish)(&room, s, memory);
    REAL *copy = room.image; /* `show_image` may take another */
    for (int column = 0; column < 3 * (room.stride + LANES); column++)
        room.columns[column] = column < s->width ? (REAL)column : (REAL)1e15;
    const int step = SUMS[s->job];
    for (int64_t item; (item = TAKE_NEXT(&s->next)) < s->views * BANDS;) {
        const int64_t view = item / BANDS;
        REAL *sums = (REAL *)s->sums + item * s->vertices * step;
        for (int64_t k = 0; k < s->vertices * step; k++) sums[k] = 0;
        s->losses[item] = 0;
        if (room.view != view) NAME(enter_view)(&room, s, view);
        NAME(band) band = NAME(plan_band)(&room, s, (int)(item % BANDS));
        if (band.top >= band.bottom) continue;
        NAME(show_image)(&room, s, view, band, copy);
        if (s->job == FORWARD) NAME(forward)(&room, s, view, band, sums);
        else if (s->job == BACKWARD) NAME(backward)(&room, s, view, band, sums);
        else NAME(products)(&room, s, view, band, sums, s->losses + item);
    }
    ALLOW(memory, NAME(room_size)(s) - 64); /* the next call divides it differently */
}

/* Images without a pixel: the sums of every blob are 0, and there is nothing to lay out or to divide into bands. */
static void NAME(leave_empty)(scene *s) {
    const size_t step = (size_t)SUMS[s->job], size = (size_t)s->vertices * step;
    for (int64_t item; (item = TAKE_NEXT(&s->next)) < s->views * BANDS;) {
        REAL *sums = (REAL *)s->sums + item * size;
        for (size_t k = 0; k < size; k++) sums[k] = 0;
        s->losses[item] = 0;
    }
}

static void NAME(work)(scene *s, char *memory) {
    if (s->height == 0 || s->width == 0) NAME(leave_empty)(s);
    else NAME(work_on_bands)(s, (char *)(((uintptr_t)memory + 63) / 64 * 64));
}

/* Adds the bands' sums, always in the same order, into the results. */
static void NAME(gather)(const scene *s) {
    const int step = SUMS[s->job];
    for (int64_t view = 0; view < s->views; view++) {
        REAL *total = (REAL *)s->sums + view * BANDS * s->vertices * step;
        const int64_t size = s->vertices * step;
        for (int64_t band = 1; band < BANDS; band++)
            for (int64_t k = 0; k < size; k++) total[k] += total[band * size + k];
        for (int64_t k = 0; s->job == BACKWARD && k < size; k++) ((REAL *)s->slope)[view * size + k] = total[k];
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
