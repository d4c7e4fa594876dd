/* Which of a library's versions this machine runs: asked of the processor itself, the same way with every compiler.

   0: what every machine of its kind has (NEON on ARM, SSE2 on x86); 1: AVX2 and FMA; 2: AVX-512 (F, VL, BW, DQ) too. */

#if !defined(MIDLINE3D_PROCESSOR)
#define MIDLINE3D_PROCESSOR

#if defined(__ARM_NEON)
#define PLAINEST "NEON"
#elif defined(__x86_64__) || defined(_M_X64)
#define PLAINEST "SSE2"
#else
#define PLAINEST "plain C"
#endif

/* Vectors wider than the plainest need GCC's or Clang's (also clang-cl's) functions for a processor of one's own choice. */
#if (defined(__x86_64__) || defined(_M_X64)) && (!defined(_MSC_VER) || defined(__clang__))
#define WIDER

#include <cpuid.h>

static inline int best_version(void) {
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX2 = 1 << 5, AVX512 = 1 << 16 | 1 << 17 | 1 << 30 };
    const unsigned vl = 1u << 31;
    unsigned a, b, c, d, kept, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & FMA) || !(c & OSXSAVE)) return 0;
    /* What the operating system keeps when it changes threads: registers of 256 bits, and of 512. */
    __asm__ volatile("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & AVX2) || (kept & 0x6) != 0x6) return 0;
    return (b & AVX512) == AVX512 && (b & vl) && (kept & 0xe0) == 0xe0 ? 2 : 1;
}
#endif

/* The best version, at most `most` (for tests; negative: any). */
static inline int chosen_version(int most) {
#ifdef WIDER
    static int known = -1; /* the question is dear on virtual machines, and every thread finds the same answer */
    int best = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (best < 0) __atomic_store_n(&known, best = best_version(), __ATOMIC_RELAXED);
#else
    const int best = 0;
#endif
    return most >= 0 && most < best ? most : best;
}
#endif
