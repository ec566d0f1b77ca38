/* Rates of ISA-L's XOR and P+Q, with the layouts of the example kernel_speed: 14 data columns of 4096 bytes, 4288 or 4096 bytes apart. */
#include <isa-l/raid.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BLOCK = 4096, DATA = 14, PARITY = 3, ROUNDS = 60, PARTS = 4, LEAST = 200 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Gigabytes of data per second in one round, over one of the parts of the memory. The parity of all rows goes to the columns of `parity`, if
   there are such. */
static double rate(uint8_t *memory, uint8_t *parity, size_t rows, size_t stride, int parities)
{
    size_t repetitions = (LEAST + rows - 1) / rows;
    double start = now();
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        for (size_t row = 0; row < rows; row++) {
            void *columns[DATA + PARITY];
            for (int column = 0; column < DATA + parities; column++)
                columns[column] = memory + (row * (DATA + PARITY) + column) * stride;
            for (int column = 0; parity && column < parities; column++)
                columns[DATA + column] = parity + column * stride;
            int failed = parities == 1 ? xor_gen(DATA + 1, BLOCK, columns) : pq_gen(DATA + 2, BLOCK, columns);
            if (failed) {
                fprintf(stderr, "isal_parity: ISA-L refused the columns\n");
                exit(2);
            }
        }
    }
    return repetitions * rows * DATA * BLOCK / (now() - start) / 1e9;
}

int main(void)
{
    const size_t streamed = (64 << 20) / (DATA * BLOCK), sets[3] = {1, streamed, streamed}, strides[2] = {BLOCK + 192, BLOCK};
    const char *names[3] = {"in cache", "64 MiB", "64 MiB, parity of all rows in one place"};
    for (int set = 0; set < 3; set++) {
        for (int placement = 0; placement < 2; placement++) {
            size_t stride = strides[placement], row = (DATA + PARITY) * stride, bytes = sets[set] * row;
            uint8_t *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
            uint8_t *parity = aligned_alloc(4096, (PARITY * stride + 4095) / 4096 * 4096);
            if (!memory || !parity)
                return 2;
            for (size_t at = 0; at < bytes; at++)
                memory[at] = at * 31 >> 3;
            size_t parts = sets[set] < PARTS ? sets[set] : PARTS, in_part = sets[set] / parts;
            double best[3] = {0, 0, 0};
            for (int round = 0; round < ROUNDS; round++) {
                for (int parities = 1; parities <= 2; parities++) {
                    /* All other parts come before the same one again. */
                    size_t part = (2 * round + parities) % parts;
                    double found = rate(memory + part * in_part * row, set == 2 ? parity : NULL, in_part, stride, parities);
                    if (found > best[parities])
                        best[parities] = found;
                }
            }
            printf("%s, columns %zu bytes apart  P %.1f  P+Q %.1f\n", names[set], stride, best[1], best[2]);
            free(memory);
            free(parity);
        }
    }
    return 0;
}
