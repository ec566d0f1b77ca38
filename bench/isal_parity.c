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

/* Gigabytes of data per second in one round, over one of the parts of the memory. */
static double rate(uint8_t *memory, size_t rows, size_t stride, int parities)
{
    size_t repetitions = (LEAST + rows - 1) / rows;
    double start = now();
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        for (size_t row = 0; row < rows; row++) {
            void *columns[DATA + PARITY];
            for (int column = 0; column < DATA + parities; column++)
                columns[column] = memory + (row * (DATA + PARITY) + column) * stride;
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
    const size_t sets[2] = {1, (64 << 20) / (DATA * BLOCK)}, strides[2] = {BLOCK + 192, BLOCK};
    const char *names[2] = {"in cache", "64 MiB"};
    for (int set = 0; set < 2; set++) {
        for (int placement = 0; placement < 2; placement++) {
            size_t stride = strides[placement], row = (DATA + PARITY) * stride, bytes = sets[set] * row;
            uint8_t *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
            if (!memory)
                return 2;
            for (size_t at = 0; at < bytes; at++)
                memory[at] = at * 31 >> 3;
            size_t parts = sets[set] < PARTS ? sets[set] : PARTS, in_part = sets[set] / parts;
            double best[3] = {0, 0, 0};
            for (int round = 0; round < ROUNDS; round++) {
                for (int parities = 1; parities <= 2; parities++) {
                    size_t part = (3 * round + parities) % parts;
                    double found = rate(memory + part * in_part * row, in_part, stride, parities);
                    if (found > best[parities])
                        best[parities] = found;
                }
            }
            printf("%s, columns %zu bytes apart  P %.1f  P+Q %.1f\n", names[set], stride, best[1], best[2]);
            free(memory);
        }
    }
    return 0;
}
