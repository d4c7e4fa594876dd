/* _backend.h for processors with AVX2; empty elsewhere. */

#include "../_processor.h"

#ifdef WIDER
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define FUNCTIONS midline3d_backend_avx2
#include "_backend.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int nothing_here;
#endif
