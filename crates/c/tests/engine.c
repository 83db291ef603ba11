/* A program of an engine: sums, lists and potentials against what is known of them, and errors. */
#include "common.h"

#include <pthread.h>

/* Madelung's constant of rock salt, and sums of a displaced crystal against each other. */
static void sums(const madelung_context *context)
{
    double energy, other, energies[ATOMS], forces[3 * ATOMS], more[3 * ATOMS], potentials[ATOMS], virial[9], total = 0.0;
    madelung_system system = system_of();
    madelung_sum waves = sum_of(MADELUNG_EWALD), mesh = sum_of(MADELUNG_PME), part;
    madelung_results results = nothing();
    madelung_list *list = NULL;
    int i;

    crystal(0.0);
    results.energy = &energy;
    results.energies = energies;
    results.forces = forces;
    results.charge_gradients = potentials;
    results.virial = virial;
    expect(!madelung_energies(context, &system, NULL, &waves, &results), "Ewald's sum");
    near(energy, -1.7475645946331821906 * ATOMS / 2, 1e-9 * ATOMS, "Madelung's constant");
    near(energies[5], energy / ATOMS, 1e-9, "the energy of an atom");
    near(forces[7], 0.0, 1e-9, "a force of a crystal");
    near(potentials[0], 2.0 * energies[0], 1e-9, "a site potential");
    near(virial[0] + virial[4] + virial[8], energy, 1e-7, "Clausius' virial");

    crystal(0.1);
    expect(!madelung_choose(&system, &mesh), "parameters of a mesh");
    expect(mesh.alpha > 0.0 && mesh.cutoff > 0.0 && mesh.mesh[0] > 0 && mesh.spline_order > 0, "all of them");
    expect(!madelung_list_find(context, ATOMS, positions, cell, NULL, mesh.cutoff, &list), "a list");
    expect(!madelung_energies(context, &system, NULL, &waves, &results), "a displaced crystal");
    results.energy = &other;
    results.forces = more;
    expect(!madelung_energies(context, &system, list, &mesh, &results), "the sum on a mesh");
    near(other, energy, 1e-7, "both sums");
    for (i = 0; i < 3 * ATOMS; ++i)
        near(more[i], forces[i], 1e-7, "a force of both sums");

    /* The parts add up in the caller's arrays. */
    expect(!madelung_choose(&system, &waves), "parameters of waves");
    madelung_list_free(list);
    expect(!madelung_list_find(context, ATOMS, positions, cell, NULL, waves.cutoff, &list), "a list");
    memset(more, 0, sizeof more);
    other = 0.0;
    results.adds = 1;
    results.energies = results.charge_gradients = results.virial = NULL;
    part = waves;
    part.kind = MADELUNG_REAL_SPACE;
    expect(!madelung_energies(context, &system, list, &part, &results), "the real-space part");
    part.kind = MADELUNG_RECIPROCAL_SPACE;
    expect(!madelung_energies(context, &system, NULL, &part, &results), "the reciprocal part");
    near(other, energy, 1e-9, "both parts");
    for (i = 0; i < 3 * ATOMS; ++i)
        total += fabs(more[i] - forces[i]);
    near(total, 0.0, 1e-8, "forces of both parts");
    madelung_list_free(list);
}

/* Two charges in the open, a pair of which is scaled. */
static void molecules(const madelung_context *context)
{
    double r[6] = {0.0, 0.0, 0.0, 2.0, 0.0, 0.0}, q[2] = {1.0, -1.0}, energy, factor = 0.5, width[2] = {0.5, 0.5};
    int32_t pair[2] = {0, 1};
    madelung_system system;
    madelung_sum sum = sum_of(MADELUNG_COULOMB);
    madelung_results results = nothing();

    memset(&system, 0, sizeof system);
    system.size = sizeof system;
    system.atoms = 2;
    system.positions = r;
    system.charges = q;
    results.energy = &energy;
    sum.prefactor = 3.0;
    expect(!madelung_energies(context, &system, NULL, &sum, &results), "a molecule");
    near(energy, -1.5, 1e-14, "its energy");
    sum = sum_of(MADELUNG_EWALD);
    expect(!madelung_choose(&system, &sum) && sum.alpha == 0.0 && sum.cutoff == 0.0, "parameters of a molecule");
    system.exclusions = 1;
    system.excluded = pair;
    system.factors = &factor;
    expect(!madelung_energies(context, &system, NULL, &sum, &results), "a scaled pair");
    near(energy, -0.25, 1e-13, "its energy");
    system.exclusions = 0;
    system.widths = width;
    expect(!madelung_energies(context, &system, NULL, &sum, &results), "Gaussian charges");
    near(energy, -0.5 * erf(2.0) + 2.0 / sqrt(acos(-1.0)), 1e-13, "their energy");
}

/* Ewald's pairs and a pair potential of a crystal in two domains, whose ghosts are images and atoms of the other one, against
   the whole crystal. Each ion and one of the other domain beside it are a scaled pair, which engines mark in their lists. */
#define REACH 1.9
#define MOST (27 * ATOMS)
#define MARK (1 << 30)
#define FACTOR 0.3

static double own_r[3 * MOST], own_q[MOST];
static int32_t from[MOST], entries[ATOMS][MOST], lengths[ATOMS], backwards[ATOMS];
static const int32_t *rows[ATOMS];

/* One of two domains: own ions first, then all others and images; the number of all. Of a pair that another domain, or another
   image, has too a half list has that whose second atom lies behind the first one. */
static int domain_of(int side, int own, int kind)
{
    int n, m, k, image, is_behind, atoms = 0;
    double square;
    for (; atoms < own; ++atoms)
        from[atoms] = atoms + own * side;
    for (image = 0; image < 27; ++image)
        for (n = 0; n < ATOMS; ++n)
            if (image != 13 || n / own != side)
                from[atoms++] = n + ATOMS * (image + 1);
    for (n = 0; n < atoms; ++n) {
        image = n < own ? 13 : from[n] / ATOMS - 1;
        from[n] %= ATOMS;
        own_q[n] = charges[from[n]];
        own_r[3 * n] = positions[3 * from[n]] + EDGE * (image / 9 - 1);
        own_r[3 * n + 1] = positions[3 * from[n] + 1] + EDGE * (image / 3 % 3 - 1);
        own_r[3 * n + 2] = positions[3 * from[n] + 2] + EDGE * (image % 3 - 1);
    }
    for (n = 0; n < own; ++n) {
        rows[n] = entries[n];
        lengths[n] = 0;
        backwards[own - 1 - n] = n;
        for (m = 0; m < atoms; ++m) {
            for (square = 0.0, is_behind = m > n, k = 0; k < 3; ++k) {
                square += pow(own_r[3 * m + k] - own_r[3 * n + k], 2.0);
                if (m >= own && own_r[3 * m + k] != own_r[3 * n + k])
                    is_behind = own_r[3 * m + k] > own_r[3 * n + k];
            }
            if (m == n || square > 2.1 * 2.1 || (kind == MADELUNG_HALF && !is_behind))
                continue;
            entries[n][lengths[n]++] = m | (from[m] == from[n] % 16 + 16 * (3 - from[n] / 16) && square < 1.7 ? MARK : 0);
        }
    }
    return atoms;
}

static void domains(const madelung_context *context)
{
    static double found[3 * MOST], sites[MOST], whole[3 * ATOMS], total[3 * ATOMS];
    static int32_t excluded[ATOMS], types[MOST];
    double factors[ATOMS], epsilon = 0.7, sigma = 0.9, virial[9], share[9], sum_of_shares[9], energy, part, all;
    const double *tables[2];
    madelung_list *near_list = NULL, *marked = NULL;
    madelung_system system = system_of(), domain = system_of();
    madelung_sum waves = sum_of(MADELUNG_EWALD), sum = waves;
    madelung_results results = nothing(), of_domain = nothing();
    const int own = ATOMS / 2;
    int law, kind, side, n, k, atoms = 0;

    crystal(0.04);
    tables[0] = &epsilon;
    tables[1] = &sigma;
    waves.alpha = 0.8;
    waves.cutoff = REACH;
    waves.k_cutoff = 6.0;
    waves.accuracy = 0.0;
    waves.prefactor = 2.0;
    for (n = 0; n < own; ++n) {
        excluded[2 * n] = n;
        excluded[2 * n + 1] = n % 16 + 16 * (3 - n / 16);
        factors[n] = FACTOR;
    }
    results.energy = &energy;
    results.forces = whole;
    results.virial = virial;
    of_domain.energy = &part;
    of_domain.energies = sites;
    of_domain.forces = found;
    of_domain.virial = share;
    of_domain.adds = 1;
    for (law = 0; law < 2; ++law) for (kind = MADELUNG_FULL; kind <= MADELUNG_HALF; ++kind) {
        expect(!madelung_list_find(context, ATOMS, positions, cell, NULL, REACH, &near_list), "a list of the crystal");
        system.exclusions = own;
        system.excluded = excluded;
        system.factors = factors;
        if (law == 0) {
            /* All but the waves of all pairs: these are summed by another part of an engine. */
            expect(!madelung_energies(context, &system, near_list, &waves, &results), "the whole sum");
            system.exclusions = 0;
            sum = waves;
            sum.kind = MADELUNG_RECIPROCAL_SPACE;
            sum.prefactor = -waves.prefactor;
            results.adds = 1;
            expect(!madelung_energies(context, &system, NULL, &sum, &results), "without its waves");
            results.adds = 0;
        } else {
            expect(!madelung_pair_potential(context, &system, near_list, "lennard_jones", types, 1, tables, 2, 2.0, REACH,
                                            MADELUNG_SWITCH, 1.5, &results), "the whole pair potential");
        }
        madelung_list_free(near_list);
        memset(total, 0, sizeof total);
        memset(sum_of_shares, 0, sizeof sum_of_shares);
        all = 0.0;
        for (side = 0; side < 2; ++side) {
            atoms = domain_of(side, own, kind);
            domain = system_of();
            domain.atoms = atoms;
            domain.positions = own_r;
            domain.charges = own_q;
            domain.cell = NULL;
            part = 0.0;
            memset(sites, 0, sizeof sites);
            memset(found, 0, sizeof found);
            memset(share, 0, sizeof share);
            /* The Coulomb part has all pairs in one list, and takes a share of the marked ones away. */
            expect(!madelung_list_of_domain(context, own, atoms, own_r, backwards, own, lengths, rows, MARK - 1, law ? MARK : 0, 0,
                                            kind, &near_list), "a domain");
            expect(!madelung_list_of_domain(context, own, atoms, own_r, NULL, 0, lengths, rows, MARK - 1, MARK, MARK, kind,
                                            &marked), "marked pairs");
            if (law == 0) {
                sum.kind = MADELUNG_REAL_SPACE;
                sum.prefactor = waves.prefactor;
                expect(!madelung_energies(context, &domain, near_list, &sum, &of_domain), "the part of a domain");
                sum.kind = MADELUNG_COULOMB;
                sum.alpha = 0.0;
                sum.prefactor *= FACTOR - 1.0;
                expect(!madelung_energies(context, &domain, marked, &sum, &of_domain), "its marked pairs");
                sum.alpha = waves.alpha;
            } else {
                expect(!madelung_pair_potential(context, &domain, near_list, "lennard_jones", types, 1, tables, 2, 2.0, REACH,
                                                MADELUNG_SWITCH, 1.5, &of_domain), "the part of a domain");
                expect(!madelung_pair_potential(context, &domain, marked, "lennard_jones", types, 1, tables, 2, 2.0 * FACTOR,
                                                REACH, MADELUNG_SWITCH, 1.5, &of_domain), "its marked pairs");
            }
            all += part;
            for (n = 0; n < 3 * atoms; ++n)
                total[3 * from[n / 3] + n % 3] += found[n];
            for (n = own; n < atoms && kind == MADELUNG_FULL; ++n)
                expect(sites[n] == 0.0 && found[3 * n] == 0.0, "nothing of a ghost");
            for (k = 0; k < 9; ++k)
                sum_of_shares[k] += share[k];
            expect(madelung_energies(context, &domain, near_list, &waves, &of_domain) == MADELUNG_ARGUMENT, "waves of a domain");
            domain.exclusions = 1;
            domain.excluded = excluded;
            expect(madelung_energies(context, &domain, near_list, &sum, &of_domain) == MADELUNG_ARGUMENT &&
                       madelung_pair_potential(context, &domain, near_list, "lennard_jones", types, 1, tables, 2, 0.0, REACH,
                                               MADELUNG_CUT, 0.0, &of_domain) == MADELUNG_ARGUMENT, "exclusions of a domain");
            expect(!strcmp(madelung_last_error(), "`exclusions`: expected 0 with the list of a domain, got 1"), "its words");
            madelung_list_free(near_list);
            madelung_list_free(marked);
        }
        near(all, energy, 1e-12 * fabs(energy), "the energy of two domains");
        for (n = 0; n < 3 * ATOMS; ++n)
            near(total[n], whole[n], 1e-12, "a force of two domains");
        for (k = 0; k < 9; ++k)
            near(sum_of_shares[k], virial[k], 1e-11, "the virial of two domains");
    }
    backwards[0] = backwards[1];
    expect(madelung_list_of_domain(context, own, atoms, NULL, backwards, own, lengths, rows, MARK - 1, 0, 0, MADELUNG_FULL,
                                   &marked) == MADELUNG_ARGUMENT,
           "a row twice");
    expect(madelung_list_of_domain(context, own, own - 1, NULL, NULL, 0, lengths, rows, MARK - 1, 0, 0, MADELUNG_FULL,
                                   &marked) == MADELUNG_ARGUMENT,
           "fewer atoms than own ones");
    expect(!strcmp(madelung_last_error(), "`own`: expected at most the 31 atoms, got 32"), "its words");
    expect(madelung_list_of_domain(context, own, atoms, NULL, NULL, 0, lengths, rows, MARK - 1, 0, MARK, MADELUNG_FULL,
                                   &marked) == MADELUNG_ARGUMENT,
           "a mark beside the bits");
    expect(!strncmp(madelung_last_error(), "`wanted`: expected bits of `bits`", 33), "its words");
    expect(madelung_list_of_domain(context, own, own, NULL, NULL, 0, lengths, rows, MARK - 1, 0, 0, MADELUNG_FULL,
                                   &marked) == MADELUNG_ARGUMENT,
           "ghosts that are not there");
    expect(!strncmp(madelung_last_error(), "`others`: expected indices", 26), "its words");
    expect(madelung_list_of_domain(context, own, atoms, NULL, NULL, 0, lengths, rows, MARK - 1, 0, 0, MADELUNG_HALF, &marked) ==
               MADELUNG_ARGUMENT, "a half list without positions");
    expect(!strncmp(madelung_last_error(), "`positions`: expected", 21), "its words");
    expect(madelung_list_of_domain(context, own, atoms, own_r, NULL, 0, lengths, rows, MARK - 1, 0, 0, 7, &marked) ==
               MADELUNG_ARGUMENT, "another kind");
    expect(!strncmp(madelung_last_error(), "`kind`: expected", 16), "its words");
    lengths[3] = -1;
    expect(madelung_list_of_domain(context, own, atoms, NULL, NULL, 0, lengths, rows, MARK - 1, 0, 0, MADELUNG_FULL,
                                   &marked) == MADELUNG_ARGUMENT,
           "a length below 0");
    expect(!strncmp(madelung_last_error(), "`lengths`: expected", 19), "its words");
    expect(!madelung_list_of_domain(context, 0, 0, NULL, NULL, 0, NULL, NULL, MARK - 1, 0, 0, MADELUNG_FULL,
                                   &marked), "a domain without atoms");
    domain.atoms = domain.exclusions = 0;
    part = 0.0;
    expect(!madelung_energies(context, &domain, marked, &sum, &of_domain) && part == 0.0, "its energy");
    expect(!madelung_pair_potential(context, &domain, marked, "lennard_jones", types, 1, tables, 2, 0.0, REACH, MADELUNG_CUT,
                                    0.0, &of_domain) && part == 0.0, "its energy of pairs");
    madelung_list_free(marked);
}

/* Two atoms of two types, from rows of the caller's own. */
static void potentials(const madelung_context *context)
{
    double r[6] = {0.0, 0.0, 0.0, 1.2, 0.0, 0.0}, energy, forces[6], s6 = pow(1.1 / 1.2, 6.0), half = 0.5;
    double box[9] = {9.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 9.0}, epsilon[4] = {1.0, 0.7, 0.5, 2.0}, sigma[4] = {1.0, 1.1, 1.1, 1.3};
    const double *tables[2];
    int64_t first[3] = {0, 1, 2}, count = 0;
    int32_t others[2] = {1, 0}, types[2] = {0, 1};
    const char *no_potentials[6] = {"lennard", "mixing_parts", "lennard_jones_total", "end_terms", "tail",
                                    "lennard_jones_exclusions"};
    int n;
    madelung_system system;
    madelung_results results = nothing();
    madelung_list *list = NULL;

    memset(&system, 0, sizeof system);
    system.size = sizeof system;
    system.atoms = 2;
    system.positions = r;
    results.energy = &energy;
    results.forces = forces;
    tables[0] = epsilon;
    tables[1] = sigma;
    expect(!madelung_list_from_rows(2, first, others, NULL, MADELUNG_FULL, &list), "rows");
    expect(!madelung_list_pairs(list, &count) && count == 2, "their number");
    expect(!madelung_pair_potential(context, &system, list, "lennard_jones", types, 2, tables, 2, 1.0, 3.0, MADELUNG_CUT,
                                    0.0, &results), "Lennard-Jones");
    near(energy, 4.0 * 0.6 * (s6 * s6 - s6), 1e-14, "its energy");
    near(forces[3], 4.0 * 0.6 * (12.0 * s6 * s6 - 6.0 * s6) / 1.2, 1e-13, "its force");
    expect(madelung_pair_potential(context, &system, list, "lennard_jones", types, 2, tables, 1, 1.0, 3.0, MADELUNG_CUT,
                                   0.0, &results) == MADELUNG_ARGUMENT, "a table is missing");
    expect(!strcmp(madelung_last_error(), "`parameters`: expected 2 tables: epsilon, sigma, got 1"), "its words");
    for (n = 0; n < 6; ++n) {
        expect(madelung_pair_potential(context, &system, list, no_potentials[n], types, 2, tables, 2, 1.0, 3.0, MADELUNG_CUT,
                                       0.0, &results) == MADELUNG_ARGUMENT, no_potentials[n]);
        expect(!strncmp(madelung_last_error(), "`name`: expected", 16), "its words");
    }
    system.exclusions = 1;
    system.excluded = types;
    system.factors = &half;
    expect(!madelung_pair_potential(context, &system, list, "lennard_jones", types, 2, tables, 2, 1.0, 3.0, MADELUNG_CUT, 0.0,
                                    &results), "a scaled pair");
    near(energy, 2.0 * 0.6 * (s6 * s6 - s6), 1e-14, "its energy");
    near(forces[3], 2.0 * 0.6 * (12.0 * s6 * s6 - 6.0 * s6) / 1.2, 1e-13, "its force");
    /* With a cell the images of excluded pairs are searched for: not where positions are no numbers. */
    r[4] = NAN;
    system.cell = box;
    expect(madelung_pair_potential(context, &system, list, "lennard_jones", types, 2, tables, 2, 1.0, 3.0, MADELUNG_CUT,
                                   0.0, &results) == MADELUNG_ARGUMENT, "a scaled pair without a position");
    expect(!strncmp(madelung_last_error(), "`positions`: expected", 21), "its words");
    r[4] = 0.0;
    system.cell = NULL;
    half = NAN;
    expect(madelung_pair_potential(context, &system, list, "lennard_jones", types, 2, tables, 2, 1.0, 3.0, MADELUNG_CUT,
                                   0.0, &results) == MADELUNG_ARGUMENT, "a factor that is no number");
    system.exclusions = 0;
    energy = 7.0, results.forces = (double *)((char *)forces + 1);
    expect(madelung_pair_potential(context, &system, list, "lennard_jones", types, 2, tables, 2, 1.0, 3.0, MADELUNG_CUT,
                                   0.0, &results) == MADELUNG_ARGUMENT, "an odd address of results");
    near(energy, 7.0, 0.0, "a result beside one that cannot be written");
    results.forces = forces;
    types[1] = 2;
    expect(madelung_pair_potential(context, &system, list, "lennard_jones", types, 2, tables, 2, 1.0, 3.0, MADELUNG_CUT,
                                   0.0, &results) == MADELUNG_ARGUMENT, "no such type");
    madelung_list_free(list);
}

/* An op by its name: charges in a field, with the gradient by positions. */
static void ops(const madelung_context *context)
{
    double r[6] = {0.0, 0.0, 0.0, 1.0, 2.0, 3.0}, q[2] = {1.0, -2.0}, h[9], field[3] = {0.1, 0.2, 0.3}, one[2] = {1.0, 1.0};
    int64_t atoms[2] = {2, 3}, systems[3] = {1, 3, 3}, none[1] = {0};
    int32_t of[2] = {0, 0};
    madelung_array tensors[6], behind[2], found;
    madelung_number numbers[2];
    madelung_arrays *results = NULL;
    int n;

    expect(madelung_ops() && strstr(madelung_ops(), "madelung.uniform_field_v1_vjp"), "the op among all");
    memset(h, 0, sizeof h);
    for (n = 0; n < 6; ++n) {
        tensors[n].dtype = MADELUNG_F64;
        tensors[n].axes = 2;
        tensors[n].shape = systems;
    }
    tensors[0].shape = atoms, tensors[0].data = r;
    tensors[1].axes = 1, tensors[1].shape = atoms, tensors[1].data = q;
    tensors[2].axes = 3, tensors[2].data = h;
    tensors[3].data = field;
    tensors[4].axes = 1, tensors[4].shape = none, tensors[4].data = h;
    tensors[5].dtype = MADELUNG_I32, tensors[5].axes = 1, tensors[5].shape = atoms, tensors[5].data = of;
    behind[0] = tensors[1];
    behind[0].data = one;
    numbers[0].real = 1.0;
    expect(!madelung_call(context, "madelung.uniform_field_v1", tensors, 6, numbers, 1, NULL, 0, 0, &results), "a value");
    expect(madelung_arrays_count(results) == 1 && !madelung_arrays_get(results, 0, &found), "one array");
    expect(found.dtype == MADELUNG_F64 && found.axes == 1 && found.shape[0] == 2, "of two atoms");
    near(((const double *)found.data)[1], 2.0 * (0.1 + 0.4 + 0.9), 1e-15, "an energy in a field");
    madelung_arrays_free(results);
    expect(!madelung_call(context, "madelung.uniform_field_v1_vjp", tensors, 6, numbers, 1, behind, 1, 1, &results), "a gradient");
    expect(!madelung_arrays_get(results, 0, &found) && found.shape[1] == 3, "by positions");
    near(((const double *)found.data)[5], 0.6, 1e-15, "the force of a field");
    expect(madelung_arrays_get(results, madelung_arrays_count(results), &found) == MADELUNG_ARGUMENT, "no more arrays");
    madelung_arrays_free(results);
    behind[0].data = NULL;
    expect(!madelung_call(context, "madelung.uniform_field_v1_vjp", tensors, 6, numbers, 1, behind, 1, 1, &results), "no weight");
    expect(!madelung_arrays_get(results, 0, &found) && ((const double *)found.data)[5] == 0.0, "no gradient");
    madelung_arrays_free(results);
    expect(madelung_call(context, "madelung.uniform_field_v1", tensors, 5, numbers, 1, NULL, 0, 0, &results) == MADELUNG_ARGUMENT,
           "too few tensors");
    expect(madelung_call(context, "madelung.no_op", tensors, 6, numbers, 1, NULL, 0, 0, &results) == MADELUNG_UNSUPPORTED,
           "no such op");
}

static void errors(const madelung_context *context)
{
    double energy = 7.0, far;
    madelung_system system = system_of();
    madelung_sum sum = sum_of(MADELUNG_EWALD);
    madelung_results results = nothing();
    madelung_list *list = NULL;
    int32_t others[1] = {5};
    int64_t first[3] = {0, 1, 1};

    crystal(0.1);
    results.energy = &energy;
    expect(madelung_energies(NULL, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "no context");
    expect(madelung_energies(context, NULL, NULL, &sum, &results) == MADELUNG_ARGUMENT, "no system");
    system.size = 8;
    expect(madelung_energies(context, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "another version");
    expect(strstr(madelung_last_error(), "`system`: expected a struct whose `size` is its size") != NULL, "its words");
    system = system_of();
    system.positions = NULL;
    expect(madelung_energies(context, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "no positions");
    system = system_of();
    system.atoms = -1;
    expect(madelung_energies(context, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "fewer atoms than none");
    system = system_of();
    system.atoms = INT64_MAX / 3;
    expect(madelung_energies(context, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "more atoms than there can be");
    system = system_of();
    system.exclusions = INT64_MIN;
    expect(madelung_energies(context, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "fewer exclusions than none");
    system = system_of();
    system.positions = (const double *)((const char *)positions + 1);
    expect(madelung_energies(context, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "an address that is odd");
    system = system_of();
    far = positions[4], positions[4] = NAN;
    expect(madelung_energies(context, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "NaN");
    positions[4] = far;
    sum.kind = 77;
    expect(madelung_energies(context, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "no such sum");
    sum = sum_of(MADELUNG_EWALD);
    expect(madelung_list_from_rows(2, first, others, NULL, MADELUNG_FULL, &list) == MADELUNG_ARGUMENT, "no such atom");
    expect(madelung_list_find(context, ATOMS, positions, cell, NULL, -1.0, &list) == MADELUNG_ARGUMENT, "no such cutoff");
    expect(!madelung_list_find(context, 8, positions, cell, NULL, 1.5, &list), "a list of fewer atoms");
    sum.alpha = 1.0, sum.cutoff = 1.5, sum.k_cutoff = 8.0;
    sum.accuracy = 0.0;
    expect(madelung_energies(context, &system, list, &sum, &results) == MADELUNG_ARGUMENT, "a list of another size");
    madelung_list_free(list);
    expect(!madelung_list_find(context, ATOMS, positions, cell, NULL, 1.2, &list), "a short list");
    expect(madelung_energies(context, &system, list, &sum, &results) == MADELUNG_ARGUMENT, "a list that is too short");
    expect(!strcmp(madelung_last_error(), "`list`: expected one that reaches as far as the cutoff, 1.5, got one of 1.2"), "its words");
    madelung_list_free(list);
    near(energy, 7.0, 0.0, "results of calls that failed");
    system.atoms = 0;
    expect(!madelung_energies(context, &system, NULL, &sum, &results), "no atoms");
    near(energy, 0.0, 0.0, "the energy of nothing");
    madelung_list_free(NULL);
    madelung_context_free(NULL);
}

static void *beside(void *context)
{
    double energy;
    madelung_system system = system_of();
    madelung_sum sum = sum_of(MADELUNG_EWALD);
    madelung_results results = nothing();

    results.energy = &energy;
    expect(!madelung_energies((const madelung_context *)context, &system, NULL, &sum, &results), "a call beside another");
    sum.kind = 5000;
    expect(madelung_energies((const madelung_context *)context, &system, NULL, &sum, &results) == MADELUNG_ARGUMENT, "its error");
    return NULL;
}

int main(void)
{
    madelung_context *context = NULL;
    pthread_t threads[2];
    int n;

    expect(madelung_version() == MADELUNG_VERSION, "the version");
    expect(madelung_context_new(-1, &context) == MADELUNG_ARGUMENT, "fewer threads than none");
    expect(!madelung_context_new(2, &context), "a context");
    sums(context);
    molecules(context);
    potentials(context);
    domains(context);
    ops(context);
    errors(context);
    for (n = 0; n < 2; ++n)
        pthread_create(&threads[n], NULL, beside, context);
    for (n = 0; n < 2; ++n)
        pthread_join(threads[n], NULL);
    madelung_context_free(context);
    if (!faults)
        printf("all as expected\n");
    return faults != 0;
}
