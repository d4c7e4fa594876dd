/* Calls a compiled library as Python would, but without Python: with sanitizers, or for another processor in an emulator.

   driver CASES RESULTS, both in the format of tests/native_cases.py: cases follow one another until the file ends. Every
   array is memory of its own and of exactly its size, so that AddressSanitizer sees a step beyond its end. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef BACKEND
int midline3d_run(int which, const void *record, int64_t from, int64_t to, int most);
#else
int64_t midline3d_room(const void *scene, int doubles, int most);
void midline3d_work(void *scene, char *room, int doubles, int most);
void midline3d_gather(const void *scene, int doubles, int most);
#endif

typedef struct {
    int32_t which; /* of the backend's functions; of the renderer: 1 for float64 */
    int32_t most;  /* of the instruction sets */
    int32_t bytes, arrays;
    int64_t from, to;
} head;

typedef struct {
    int64_t offset, bytes; /* of the address in the record, and of the array */
} slot;

static void demand(int fine, const char *what) {
    if (fine) return;
    fprintf(stderr, "driver: %s\n", what);
    exit(3);
}

static void read_all(void *to, size_t bytes, FILE *file) { demand(fread(to, 1, bytes, file) == bytes, "cases end early"); }

static int32_t call(const head *h, char *record) {
#ifdef BACKEND
    return midline3d_run(h->which, record, h->from, h->to, h->most);
#else
    const int64_t size = midline3d_room(record, h->which, h->most);
    if (size < 0) {
        midline3d_work(record, NULL, h->which, h->most);
        midline3d_gather(record, h->which, h->most);
        return -1;
    }
    char *room = malloc((size_t)size);
    demand(room != NULL, "no memory");
    memset(room, 0xa5, (size_t)size);
    midline3d_work(record, room, h->which, h->most);
    midline3d_gather(record, h->which, h->most);
    free(room);
    return 0;
#endif
}

int main(int count, char **arguments) {
    demand(count == 3, "give the files of cases and of results");
    FILE *cases = fopen(arguments[1], "rb"), *results = fopen(arguments[2], "wb");
    demand(cases && results, "a file cannot be opened");
    head h;
    for (long number = 0; fread(&h, sizeof h, 1, cases) == 1; number++) {
        fprintf(stderr, "case %ld\n", number);
        char *record = malloc((size_t)h.bytes);
        slot *slots = calloc((size_t)h.arrays + 1, sizeof *slots);
        char **arrays = calloc((size_t)h.arrays + 1, sizeof *arrays);
        demand(record && slots && arrays, "no memory");
        read_all(record, (size_t)h.bytes, cases);
        for (int i = 0; i < h.arrays; i++) {
            read_all(slots + i, sizeof *slots, cases);
            arrays[i] = malloc((size_t)slots[i].bytes);
            demand(arrays[i] != NULL, "no memory");
            read_all(arrays[i], (size_t)slots[i].bytes, cases);
            memcpy(record + slots[i].offset, arrays + i, sizeof *arrays);
        }
        const int32_t status = call(&h, record);
        fwrite(&status, sizeof status, 1, results);
        for (int i = 0; i < h.arrays; i++) {
            fwrite(arrays[i], 1, (size_t)slots[i].bytes, results);
            free(arrays[i]);
        }
        free(record), free(slots), free(arrays);
    }
    fclose(cases), fclose(results);
    return 0;
}
