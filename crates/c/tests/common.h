/* What programs have in common: a crystal, and what is expected of calls. */
#ifndef COMMON_H
#define COMMON_H

#include "madelung.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDGE 4
#define ATOMS (EDGE * EDGE * EDGE)

static int faults = 0;

static inline void expect(int truth, const char *what)
{
    if (!truth) {
        ++faults;
        printf("not so: %s (%s)\n", what, madelung_last_error());
    }
}

static inline void near(double got, double want, double bound, const char *what)
{
    if (!(fabs(got - want) <= bound)) {
        ++faults;
        printf("%s: %.15g, not %.15g\n", what, got, want);
    }
}

/* Rock salt, neighbours one length apart; `by` moves atoms. */
static double positions[3 * ATOMS], charges[ATOMS], cell[9];

static inline void crystal(double by)
{
    int i, j, k, n = 0;
    for (i = 0; i < EDGE; ++i)
        for (j = 0; j < EDGE; ++j)
            for (k = 0; k < EDGE; ++k, ++n) {
                positions[3 * n] = i + by * sin(3.0 * n);
                positions[3 * n + 1] = j + by * sin(5.0 * n);
                positions[3 * n + 2] = k + by * sin(7.0 * n);
                charges[n] = (i + j + k) % 2 ? -1.0 : 1.0;
            }
    memset(cell, 0, sizeof cell);
    for (i = 0; i < 3; ++i)
        cell[4 * i] = EDGE;
}

static inline madelung_system system_of(void)
{
    madelung_system of;
    memset(&of, 0, sizeof of);
    of.size = sizeof of;
    of.atoms = ATOMS;
    of.positions = positions;
    of.charges = charges;
    of.cell = cell;
    return of;
}

static inline madelung_sum sum_of(int32_t kind)
{
    madelung_sum of;
    memset(&of, 0, sizeof of);
    of.size = sizeof of;
    of.kind = kind;
    of.accuracy = 1e-10;
    return of;
}

static inline madelung_results nothing(void)
{
    madelung_results of;
    memset(&of, 0, sizeof of);
    of.size = sizeof of;
    return of;
}

#endif
