/* Two processes, here threads, that share a crystal and its mesh. */
#define _POSIX_C_SOURCE 200112L
#include "common.h"

#include <pthread.h>

#define RANKS 2

static pthread_barrier_t barrier;
static const double *messages[RANKS];
static const int64_t *counts[RANKS];

static int32_t all_to_all(void *data, const double *send, const int64_t *sent, double *receive, const int64_t *received)
{
    const int rank = *(const int *)data;
    int p, q;
    messages[rank] = send;
    counts[rank] = sent;
    pthread_barrier_wait(&barrier);
    for (p = 0; p < RANKS; ++p) {
        const double *from = messages[p];
        for (q = 0; q < rank; ++q)
            from += counts[p][q];
        expect(counts[p][rank] == received[p], "as many numbers as another process sends");
        memcpy(receive, from, received[p] * sizeof *receive);
        receive += received[p];
    }
    pthread_barrier_wait(&barrier);
    return 0;
}

static int32_t failing(void *data, const double *send, const int64_t *sent, double *receive, const int64_t *received)
{
    (void)data, (void)send, (void)sent, (void)receive, (void)received;
    return 3;
}

struct process {
    int rank, has_cell, has_results;
    int32_t status;
    double energy, energies[ATOMS], forces[3 * ATOMS], potentials[ATOMS], virial[9];
    char words[200];
};

static madelung_exchange exchange_of(int *rank)
{
    madelung_exchange of;
    memset(&of, 0, sizeof of);
    of.size = sizeof of;
    of.rank = *rank;
    of.ranks = RANKS;
    of.data = rank;
    of.all_to_all = all_to_all;
    return of;
}

static madelung_sum mesh_of(void)
{
    madelung_sum of = sum_of(MADELUNG_PME);
    of.accuracy = 0.0;
    of.alpha = 0.9;
    of.cutoff = 1.9;
    of.mesh[0] = 10, of.mesh[1] = 12, of.mesh[2] = 9;
    of.prefactor = 2.0;
    return of;
}

static void *share(void *of)
{
    struct process *process = (struct process *)of;
    const int half = ATOMS / 2, first = half * process->rank;
    madelung_context *context = NULL;
    madelung_exchange exchange = exchange_of(&process->rank);
    madelung_system system = system_of();
    madelung_sum sum = mesh_of();
    madelung_results results = nothing();

    expect(!madelung_context_new(1, &context), "a context");
    system.atoms = half;
    system.positions = positions + 3 * first;
    system.charges = charges + first;
    system.cell = process->has_cell ? cell : NULL;
    results.energy = &process->energy;
    results.energies = process->energies;
    results.forces = process->forces;
    results.charge_gradients = process->potentials;
    results.virial = process->virial;
    process->status = madelung_mesh_of_domain(context, &exchange, &system, &sum, process->has_results ? &results : NULL);
    strncpy(process->words, madelung_last_error(), sizeof process->words - 1);
    madelung_context_free(context);
    return NULL;
}

static void together(struct process *processes)
{
    pthread_t threads[RANKS];
    int p;
    for (p = 0; p < RANKS; ++p) {
        processes[p].rank = p;
        pthread_create(&threads[p], NULL, share, &processes[p]);
    }
    for (p = 0; p < RANKS; ++p)
        pthread_join(threads[p], NULL);
}

int main(void)
{
    static struct process processes[RANKS];
    static double forces[3 * ATOMS], potentials[ATOMS], energies[ATOMS];
    const char *in_other = "`exchange`: expected the same cell, mesh and options in all processes, got an error in process 1";
    double energy, virial[9];
    int n, p, k, rank = 0;
    const int half = ATOMS / 2;
    madelung_context *context = NULL;
    madelung_list *list = NULL;
    madelung_exchange exchange = exchange_of(&rank);
    madelung_system system = system_of();
    madelung_sum sum = mesh_of();
    madelung_results results = nothing();

    pthread_barrier_init(&barrier, NULL, RANKS);
    crystal(0.1);
    charges[5] = 0.7;
    expect(!madelung_context_new(1, &context), "a context");
    /* The whole sum without its pairs. */
    expect(!madelung_list_find(context, ATOMS, positions, cell, NULL, 1.9, &list), "a list");
    results.energy = &energy;
    results.energies = energies;
    results.forces = forces;
    results.charge_gradients = potentials;
    results.virial = virial;
    expect(!madelung_energies(context, &system, list, &sum, &results), "the whole sum");
    sum.kind = MADELUNG_REAL_SPACE;
    sum.prefactor = -sum.prefactor;
    results.adds = 1;
    expect(!madelung_energies(context, &system, list, &sum, &results), "without its pairs");
    madelung_list_free(list);
    sum = mesh_of();
    results.adds = 0;

    for (p = 0; p < RANKS; ++p)
        processes[p].has_cell = processes[p].has_results = 1;
    together(processes);
    for (p = 0; p < RANKS; ++p)
        expect(!processes[p].status, processes[p].words);
    near(processes[0].energy + processes[1].energy, energy, 1e-12 * fabs(energy), "the energy of both");
    for (p = 0; p < RANKS; ++p)
        for (n = 0; n < half; ++n) {
            near(processes[p].energies[n], energies[half * p + n], 1e-12, "an energy");
            near(processes[p].potentials[n], potentials[half * p + n], 1e-12, "a potential");
            for (k = 0; k < 3; ++k)
                near(processes[p].forces[3 * n + k], forces[3 * (half * p + n) + k], 1e-12, "a force");
        }
    for (n = 0; n < 9; ++n)
        near(processes[0].virial[n] + processes[1].virial[n], virial[n], 1e-11, "the virial of both");

    /* What is wrong in one process is an error in both. */
    charges[half] = NAN;
    together(processes);
    expect(processes[0].status == MADELUNG_ARGUMENT && !strcmp(processes[0].words, in_other), processes[0].words);
    expect(!strcmp(processes[1].words, "`charges`: expected finite numbers, got NaN"), processes[1].words);
    charges[half] = 1.0;
    processes[1].has_cell = 0;
    together(processes);
    expect(processes[0].status == MADELUNG_ARGUMENT && !strcmp(processes[0].words, in_other), processes[0].words);
    expect(!strncmp(processes[1].words, "`system`: expected one system", 29), processes[1].words);

    processes[1].has_cell = 1;
    processes[1].has_results = 0;
    together(processes);
    expect(processes[0].status == MADELUNG_ARGUMENT && !strcmp(processes[0].words, in_other), processes[0].words);
    expect(!strncmp(processes[1].words, "`results`: expected", 19), processes[1].words);

    exchange.all_to_all = failing;
    expect(madelung_mesh_of_domain(context, &exchange, &system, &sum, &results) == MADELUNG_ARGUMENT, "messages that fail");
    expect(!strcmp(madelung_last_error(), "`all_to_all`: expected messages that arrive, got its status 3"), "its words");
    exchange.all_to_all = NULL;
    expect(madelung_mesh_of_domain(context, &exchange, &system, &sum, &results) == MADELUNG_ARGUMENT, "no function");
    exchange.rank = RANKS;
    expect(madelung_mesh_of_domain(context, &exchange, &system, &sum, &results) == MADELUNG_ARGUMENT, "no such process");
    expect(!strcmp(madelung_last_error(), "`rank`: expected a process from 0 to below their number, got 2 of 2"), "its words");
    exchange.size = 4;
    expect(madelung_mesh_of_domain(context, &exchange, &system, &sum, &results) == MADELUNG_ARGUMENT, "no such struct");
    expect(madelung_mesh_of_domain(context, NULL, &system, &sum, &results) == MADELUNG_ARGUMENT, "no exchange");

    /* The mesh that an accuracy needs, as a whole system is given it. */
    sum = sum_of(MADELUNG_PME);
    sum.accuracy = 1e-6;
    expect(!madelung_choose_mesh(ATOMS, cell, &sum), "a mesh");
    expect(sum.alpha > 0.0 && sum.cutoff > 0.0 && sum.mesh[0] > 0 && sum.spline_order > 3, "all of its numbers");
    energy = sum.alpha;
    sum = sum_of(MADELUNG_PME);
    sum.accuracy = 1e-6;
    expect(!madelung_choose(&system, &sum), "that of the crystal");
    near(sum.alpha, energy, 1e-15, "the same parameter");
    expect(madelung_choose_mesh(0, cell, &sum) == MADELUNG_ARGUMENT, "a mesh of no atoms");
    expect(madelung_choose_mesh(ATOMS, NULL, &sum) == MADELUNG_ARGUMENT, "a mesh without a cell");
    madelung_context_free(context);
    if (!faults)
        printf("all as expected\n");
    return faults != 0;
}
