/* Madelung: energies, forces and virials of charged particles, in C99 and C++.
 *
 * Written by cbindgen from crates/c/src. Lengths are in any unit L, charges in any unit, energies in charge^2/L times
 * `prefactor`; rows of cells are lattice vectors. A call gives MADELUNG_OK, or a status whose reason
 * `madelung_last_error` says. Contexts, lists and the arrays of callers may be read by calls of several threads at once.
 */

#ifndef MADELUNG_H
#define MADELUNG_H

#include <stddef.h>
#include <stdint.h>

/**
 * Each pair is there from both sides.
 */
#define MADELUNG_FULL 0

/**
 * Each pair is there once.
 */
#define MADELUNG_HALF 1

/**
 * The end of a pair's energy: the taper 1 − 10x³ + 15x⁴ − 6x⁵ from `onset` to the cutoff.
 */
#define MADELUNG_TAPER 0

/**
 * CHARMM's switch, from `onset` to the cutoff.
 */
#define MADELUNG_SWITCH 1

/**
 * No end: energies are cut off.
 */
#define MADELUNG_CUT 2

/**
 * The call did what was asked.
 */
#define MADELUNG_OK 0

/**
 * An argument does not fit; the reason begins with its name.
 */
#define MADELUNG_ARGUMENT 1

/**
 * A valid call that this build or machine does not support.
 */
#define MADELUNG_UNSUPPORTED 2

/**
 * Memory ran out.
 */
#define MADELUNG_MEMORY 3

/**
 * A fault of the library.
 */
#define MADELUNG_INTERNAL 4

/**
 * The version of the library: 10000 major + 100 minor + patch. Of one major version, headers of older minor ones fit.
 */
#define MADELUNG_VERSION 100

/**
 * Ewald's sum, over waves.
 */
#define MADELUNG_EWALD 0

/**
 * Ewald's sum on a mesh (smooth particle mesh Ewald).
 */
#define MADELUNG_PME 1

/**
 * All pairs of an open system; or those within `cutoff`, with charges damped by `alpha` where it is not 0.
 */
#define MADELUNG_COULOMB 2

/**
 * The damped shifted force sum of `alpha` and `cutoff`.
 */
#define MADELUNG_DSF 3

/**
 * The real-space part of Ewald's sum, within `cutoff`.
 */
#define MADELUNG_REAL_SPACE 4

/**
 * The reciprocal part of Ewald's sum, over waves up to `k_cutoff`.
 */
#define MADELUNG_RECIPROCAL_SPACE 5

/**
 * float.
 */
#define MADELUNG_F32 2

/**
 * double.
 */
#define MADELUNG_F64 3

/**
 * int32_t.
 */
#define MADELUNG_I32 4

/**
 * int64_t.
 */
#define MADELUNG_I64 5

/**
 * Arrays of a call's results.
 */
typedef struct madelung_arrays madelung_arrays;

/**
 * The threads that calls may use.
 */
typedef struct madelung_context madelung_context;

/**
 * A neighbour list, which holds no pointer of its caller's.
 */
typedef struct madelung_list madelung_list;

/**
 * An array in the memory of the process, its elements one after the other, the last axis the fastest.
 */
typedef struct madelung_array {
  /**
   * One of MADELUNG_F32, ….
   */
  int32_t dtype;
  /**
   * The number of axes.
   */
  int32_t axes;
  /**
   * Lengths of the axes.
   */
  const int64_t *shape;
  /**
   * The first element, at an address that is a multiple of its size; null, of a tensor behind the op's own: zeros.
   */
  const void *data;
} madelung_array;

/**
 * A number among the arguments of an op.
 */
typedef union madelung_number {
  /**
   * An integer.
   */
  int64_t integer;
  /**
   * A real.
   */
  double real;
} madelung_number;

/**
 * Messages of the processes that share a system.
 */
typedef struct madelung_exchange {
  /**
   * sizeof(madelung_exchange).
   */
  uint32_t size;
  /**
   * This process, from 0 on.
   */
  int32_t rank;
  /**
   * The number of processes.
   */
  int32_t ranks;
  /**
   * Handed to the function.
   */
  void *data;
  /**
   * Sends `sent`\[p\] numbers to each process p and receives `received`\[p\] from it; in both arrays the parts of the
   * processes lie behind each other. All processes call it, in the same order. 0, or another number where it failed.
   */
  int32_t (*all_to_all)(void *data,
                        const double *send,
                        const int64_t *sent,
                        double *receive,
                        const int64_t *received);
} madelung_exchange;

/**
 * Charged particles. Fields that are 0 or null are left out.
 */
typedef struct madelung_system {
  /**
   * sizeof(madelung_system).
   */
  uint32_t size;
  /**
   * 1: `periodic` says which axes are periodic; 0: all where there is a cell, none without.
   */
  int32_t has_periodic;
  /**
   * The number of atoms, N.
   */
  int64_t atoms;
  /**
   * Positions (N, 3).
   */
  const double *positions;
  /**
   * Charges (N).
   */
  const double *charges;
  /**
   * Lattice vectors (3, 3), rows; null: no axis is periodic.
   */
  const double *cell;
  /**
   * Which axes are periodic, 0 or 1 each.
   */
  int32_t periodic[3];
  /**
   * Widths of Gaussian charges (N); null: points.
   */
  const double *widths;
  /**
   * The number of excluded pairs, P.
   */
  int64_t exclusions;
  /**
   * Their atoms (P, 2).
   */
  const int32_t *excluded;
  /**
   * Factors of their energies (P); null: 0, they are left out.
   */
  const double *factors;
} madelung_system;

/**
 * A sum and its parameters. Of MADELUNG_EWALD and MADELUNG_PME those that are 0 are chosen for the accuracy; with a list, which
 * belongs to a cutoff, the cutoff is given.
 */
typedef struct madelung_sum {
  /**
   * sizeof(madelung_sum).
   */
  uint32_t size;
  /**
   * One of MADELUNG_EWALD, ….
   */
  int32_t kind;
  /**
   * Target for the RMS force error, in units of q²_rms/(V/N)^(2/3); 0: 1e-6.
   */
  double accuracy;
  /**
   * Splitting parameter, in 1/L.
   */
  double alpha;
  /**
   * Radius of the sum over pairs, in L.
   */
  double cutoff;
  /**
   * Radius of the sum over waves, in radians per L.
   */
  double k_cutoff;
  /**
   * Nodes of a mesh along the lattice vectors.
   */
  int32_t mesh[3];
  /**
   * Order of its splines.
   */
  int32_t spline_order;
  /**
   * The factor of energies and all that follows from them: 14.3996454784 for eV and Å; 0: 1.
   */
  double prefactor;
} madelung_sum;

/**
 * Arrays for results; what is null is not wanted.
 */
typedef struct madelung_results {
  /**
   * sizeof(madelung_results).
   */
  uint32_t size;
  /**
   * 1: results are added to what the arrays hold; 0: they are written.
   */
  int32_t adds;
  /**
   * The energy (1).
   */
  double *energy;
  /**
   * Energies of atoms (N), a pair's energy split half and half.
   */
  double *energies;
  /**
   * Forces −∂E/∂r (N, 3).
   */
  double *forces;
  /**
   * Site potentials ∂E/∂q (N).
   */
  double *charge_gradients;
  /**
   * Virial −∂E/∂ε (3, 3).
   */
  double *virial;
} madelung_results;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * All ops in JSON: their arguments, outputs, inputs of calls and members, as `madelung_call` takes them. The text is the
 * library's; null where it cannot be made, with a reason.
 */
const char *madelung_ops(void);

/**
 * A member of an op by its name in `madelung_ops`, `madelung.ewald_summation_v1` or one of its derivatives: `tensors` and
 * `numbers` are the op's inputs of these kinds in their order, `behind` the tensors that follow them (cotangents, tangents),
 * zero where there is no data; bit n of `wanted` asks for the gradient by the n-th differentiable argument. Results are
 * freed by `madelung_arrays_free`.
 *
 * Handles are handles of this library, and pointers are valid for what they are said to hold.
 */
int32_t madelung_call(const struct madelung_context *context,
                      const char *member,
                      const struct madelung_array *tensors,
                      int64_t tensor_count,
                      const union madelung_number *numbers,
                      int64_t number_count,
                      const struct madelung_array *behind,
                      int64_t behind_count,
                      uint64_t wanted,
                      struct madelung_arrays **results);

/**
 * The number of arrays of a call's results.
 *
 * `arrays` is a handle.
 */
int64_t madelung_arrays_count(const struct madelung_arrays *arrays);

/**
 * Array n of a call's results, in memory that is freed with them.
 *
 * `arrays` is a handle, and `into` is valid for writing.
 */
int32_t madelung_arrays_get(struct madelung_arrays *arrays, int64_t n, struct madelung_array *into);

/**
 * Frees the results of a call; null is nothing.
 *
 * `arrays` is null, or a handle that is not used any more.
 */
void madelung_arrays_free(struct madelung_arrays *arrays);

/**
 * A context whose calls use so many threads at most, 0: all that there are. It is freed by `madelung_context_free`.
 *
 * `context` is valid for writing a pointer.
 */
int32_t madelung_context_new(int32_t threads,
                             struct madelung_context **context);

/**
 * Frees a context; null is nothing.
 *
 * `context` is null, or a handle that no call uses any more.
 */
void madelung_context_free(struct madelung_context *context);

/**
 * The reciprocal part of a MADELUNG_PME sum of a system that several processes share, each of which has atoms of its own,
 * anywhere in the cell, or none: the energies, forces and site potentials of these, and this process' share of the energy and
 * the virial, which add up over the processes. Of `sum`, `alpha`, `mesh`, `spline_order` (0: 5) and `prefactor` count; with the
 * cell and what results are wanted they are the same in all processes, which all call this. Where one of them is given what is
 * wrong, all have an error.
 *
 * Pointers of the structs are valid for what they are said to hold, and the function of `exchange` does what it is said to do.
 */
int32_t madelung_mesh_of_domain(const struct madelung_context *context,
                                const struct madelung_exchange *exchange,
                                const struct madelung_system *system,
                                const struct madelung_sum *sum,
                                const struct madelung_results *results);

/**
 * Chooses the parameters of MADELUNG_PME that are 0, for its accuracy and so many atoms at random places in a cell (3, 3), as
 * processes that share a system do. The accuracy is one of forces over q²_rms/(V/N)^(2/3), as in `madelung_choose`.
 *
 * `cell` is valid for reading, and `sum` for writing.
 */
int32_t madelung_choose_mesh(int64_t atoms,
                             const double *cell,
                             struct madelung_sum *sum);

/**
 * A list of the pairs of atoms (N, 3) that are closer than the cutoff, in the form in which sums are fastest. `cell`: (3, 3),
 * or null; `periodic`: (3), or null for all axes where there is a cell.
 *
 * Pointers are valid for what they are said to hold.
 */
int32_t madelung_list_find(const struct madelung_context *context,
                           int64_t atoms,
                           const double *positions,
                           const double *cell,
                           const int32_t *periodic,
                           double cutoff,
                           struct madelung_list **list);

/**
 * A list from its rows: the entries of atom i are `first`[i] to `first`[i + 1], `others` their second atoms and `shifts` their
 * images (…, 3), in lattice vectors; null: none is moved. `kind`: MADELUNG_FULL or MADELUNG_HALF. Arrays are copied.
 *
 * Pointers are valid for what they are said to hold: `first` for atoms + 1 numbers, the others for as many entries as its
 * last one.
 */
int32_t madelung_list_from_rows(int64_t atoms,
                                const int64_t *first,
                                const int32_t *others,
                                const int32_t *shifts,
                                int32_t kind,
                                struct madelung_list **list);

/**
 * The list of one domain of a system, as each process of an engine has it: of `own` atoms, with entries among these and the
 * ghosts behind them, `atoms` in all, none of which is moved. The entries of atom i are `others`\[i\], `lengths`\[i\] of them,
 * for the `count` own atoms i of `rows`, each once, or all where it is null; rows that are not there are empty. An entry
 * counts where its `bits` are `wanted`, and the bits of its `mask` are an atom's index: so entries that an engine marks have
 * lists of their own. Arrays are copied.
 *
 * `kind`: MADELUNG_HALF, each pair is there once, in one of the domains that own its atoms. What ghosts get of the energies
 * and forces is then added to that of the atoms that they stand for, as engines do that communicate forces of ghosts; the
 * atoms' `positions` (atoms, 3) bring the list into the form in which sums are fastest. MADELUNG_FULL: each own atom has all
 * its neighbours. Sums then have energies of own atoms and their whole forces, and ghosts get nothing; `positions` are not
 * looked at. Either way energies and virials add up over domains. MADELUNG_REAL_SPACE, MADELUNG_COULOMB with a cutoff and
 * pair potentials take such a list, of systems without exclusions.
 *
 * Pointers are valid for what they are said to hold: `lengths` and `others` for `own` elements, of which those of `rows` are
 * read.
 */
int32_t madelung_list_of_domain(const struct madelung_context *context,
                                int64_t own,
                                int64_t atoms,
                                const double *positions,
                                const int32_t *rows,
                                int64_t count,
                                const int32_t *lengths,
                                const int32_t *const *others,
                                int32_t mask,
                                int32_t bits,
                                int32_t wanted,
                                int32_t kind,
                                struct madelung_list **list);

/**
 * The number of pairs of a list, each from both sides in a full one.
 *
 * `list` is a handle, and `pairs` is valid for writing a number.
 */
int32_t madelung_list_pairs(const struct madelung_list *list, int64_t *pairs);

/**
 * Frees a list; null is nothing.
 *
 * `list` is null, or a handle that no call uses any more.
 */
void madelung_list_free(struct madelung_list *list);

/**
 * The energy of a pair potential, "lennard_jones", "born_mayer", …, and what else there are arrays for; charges and widths
 * of the system are not looked at. `types`: (N), from 0 to below `kinds`; `tables`: the parameters of the potential in their
 * order, (kinds, kinds) each, of which the mean of both elements counts; `prefactor`: as of a sum, 0: 1; `end`:
 * MADELUNG_TAPER, …, with an `onset` of 0 for nine tenths of the cutoff.
 *
 * Handles are handles of this library, and pointers are valid for what they are said to hold.
 */
int32_t madelung_pair_potential(const struct madelung_context *context,
                                const struct madelung_system *system,
                                const struct madelung_list *list,
                                const char *name,
                                const int32_t *types,
                                int64_t kinds,
                                const double *const *tables,
                                int64_t parameters,
                                double prefactor,
                                double cutoff,
                                int32_t end,
                                double onset,
                                const struct madelung_results *results);

/**
 * The reason of the last call of this thread that failed, in UTF-8; empty where none has. It is the thread's until its next
 * call fails.
 */
const char *madelung_last_error(void);

/**
 * The version of the library, as `MADELUNG_VERSION` is that of the header.
 */
uint32_t madelung_version(void);

/**
 * The energy of charges, and what else there are arrays for. `list`: a list that reaches as far as the cutoff or further; null:
 * pairs are searched for.
 *
 * Handles are handles of this library, and pointers of the structs are valid for what they are said to hold.
 */
int32_t madelung_energies(const struct madelung_context *context,
                          const struct madelung_system *system,
                          const struct madelung_list *list,
                          const struct madelung_sum *sum,
                          const struct madelung_results *results);

/**
 * Chooses the parameters of MADELUNG_EWALD or MADELUNG_PME that are 0, for its accuracy; those of systems with one periodic axis
 * or none, which are summed over all pairs, stay.
 *
 * Pointers of the system are valid for what they are said to hold, and `sum` for writing.
 */
int32_t madelung_choose(const struct madelung_system *system,
                        struct madelung_sum *sum);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MADELUNG_H */
