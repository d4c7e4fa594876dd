/* Vectors of numbers (or single ones, where LANES is 1) and the functions of them that blobs are made of. */

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
