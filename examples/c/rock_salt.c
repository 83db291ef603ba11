/* The energy of rock salt and the forces of a crystal whose atoms have moved, in eV and angstrom.
 *
 * cc rock_salt.c $(pkg-config --cflags --libs madelung) -lm -o rock_salt
 */
#include <madelung.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { EDGE = 8, ATOMS = EDGE * EDGE * EDGE };

static void check(int32_t status)
{
    if (status != MADELUNG_OK) {
        fprintf(stderr, "%s\n", madelung_last_error());
        exit(EXIT_FAILURE);
    }
}

int main(void)
{
    static double positions[3 * ATOMS], charges[ATOMS], forces[3 * ATOMS];
    const double distance = 2.82, cell[9] = {EDGE * 2.82, 0, 0, 0, EDGE * 2.82, 0, 0, 0, EDGE * 2.82};
    double energy, largest = 0.0;
    for (int n = 0; n < ATOMS; ++n) {
        const int place[3] = {n / (EDGE * EDGE), n / EDGE % EDGE, n % EDGE};
        for (int k = 0; k < 3; ++k)
            positions[3 * n + k] = distance * place[k];
        charges[n] = (place[0] + place[1] + place[2]) % 2 ? -1.0 : 1.0;
    }

    madelung_context *context;
    check(madelung_context_new(0, &context));
    madelung_system salt = {.size = sizeof salt, .atoms = ATOMS, .positions = positions, .charges = charges, .cell = cell};
    madelung_sum sum = {.size = sizeof sum, .kind = MADELUNG_PME, .accuracy = 1e-6, .prefactor = 14.3996454784};
    madelung_results results = {.size = sizeof results, .energy = &energy, .forces = forces};

    /* Parameters and a list with a skin of 1, as an engine keeps them from step to step. */
    madelung_list *list;
    check(madelung_choose(&salt, &sum));
    check(madelung_list_find(context, ATOMS, positions, cell, NULL, sum.cutoff + 1.0, &list));
    check(madelung_energies(context, &salt, list, &sum, &results));
    printf("%.6f eV an ion pair, Madelung's constant %.6f\n", 2.0 * energy / ATOMS,
           -2.0 * energy / ATOMS * distance / sum.prefactor);

    for (int n = 0; n < 3 * ATOMS; ++n)
        positions[n] += 0.1 * sin(n);
    check(madelung_energies(context, &salt, list, &sum, &results));
    for (int n = 0; n < 3 * ATOMS; ++n)
        largest = fmax(largest, fabs(forces[n]));
    printf("atoms moved by up to 0.1 A: %.6f eV, forces up to %.3f eV/A\n", energy, largest);

    madelung_list_free(list);
    madelung_context_free(context);
    return 0;
}
