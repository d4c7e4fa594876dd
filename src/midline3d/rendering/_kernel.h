/* One view's blobs on one band of its rows. Included once for every number type and instruction set, with

     REAL         float or double
     LANES        how many of them one step takes; 1: plain numbers and the C library's functions
     NAME(name)   the name with this version's ending

   A band needs nothing from its neighbours: its sums go to a place of their own and are added in a fixed order later,
   so that the result does not depend on who works on what. */

#include "_kernel_vectors.h"
#include "_kernel_patches.h"
#include "_kernel_jobs.h"

#undef vec
#undef mask
#undef ints
#undef BITS
#undef FLOATS
#undef REAL
#undef LANES
#undef NAME
