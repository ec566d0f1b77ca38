/* Rates of ISA-L's XOR and P+Q, with the layout of the example kernel_speed: 14 data columns of 4096 bytes, columns 4288 bytes apart. */
#include <isa-l/raid.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BLOCK = 4096, DATA = 14, PARITY = 3, STRIDE = BLOCK + 192, ROW = (DATA + PARITY) * STRIDE };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Gigabytes of data per second: the best of five runs over all rows. */
static double rate(uint8_t *memory, size_t rows, int parities)
{
    double best = 0;
    for (int run = 0; run < 5; run++) {
        double start = now(), bytes = 0;
        while (now() - start < 0.04) {
            for (size_t row = 0; row < rows; row++) {
                void *columns[DATA + PARITY];
                for (int column = 0; column < DATA + parities; column++)
                    columns[column] = memory + row * ROW + column * STRIDE;
                int failed = parities == 1 ? xor_gen(DATA + 1, BLOCK, columns) : pq_gen(DATA + 2, BLOCK, columns);
                if (failed) {
                    fprintf(stderr, "isal_parity: ISA-L refused the columns\n");
                    exit(2);
                }
                bytes += DATA * BLOCK;
            }
        }
        double found = bytes / (now() - start) / 1e9;
        if (found > best)
            best = found;
    }
    return best;
}

int main(void)
{
    const size_t sets[2] = {1, (64 << 20) / (DATA * BLOCK)};
    const char *names[2] = {"in cache", "64 MiB"};
    for (int set = 0; set < 2; set++) {
        uint8_t *memory = aligned_alloc(64, (sets[set] * ROW + 63) / 64 * 64);
        if (!memory)
            return 2;
        for (size_t at = 0; at < sets[set] * ROW; at++)
            memory[at] = at * 31 >> 3;
        printf("%s  P %.1f  P+Q %.1f\n", names[set], rate(memory, sets[set], 1), rate(memory, sets[set], 2));
        free(memory);
    }
    return 0;
}
