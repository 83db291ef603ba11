// kspace_style madelung/pme ACCURACY: the waves of the Ewald sum on a mesh that all processes share.
#include "styles.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "force.h"
#include "kspace.h"
#include "madelung.h"
#include "pair.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace LAMMPS_NS;

namespace madelung_lammps {

class KSpacePme : public KSpace {
 public:
  explicit KSpacePme(LAMMPS *lmp) : KSpace(lmp)
  {
    pppmflag = 1;
    triclinic_support = 1;
    // kspace_modify sets them, or the accuracy chooses.
    order = 0;
    g_ewald = 0.0;
  }

  ~KSpacePme() override { madelung_context_free(context); }

  void settings(int count, char **words) override
  {
    if (count != 1) error->all(FLERR, "kspace_style madelung/pme expected an accuracy, got {} arguments", count);
    accuracy_relative = std::fabs(utils::numeric(FLERR, words[0], false, lmp));
    if (!(accuracy_relative > 0.0)) error->all(FLERR, "kspace_style madelung/pme expected an accuracy above 0, got {}", words[0]);
  }

  void init() override
  {
    if (!atom->q_flag) error->all(FLERR, "kspace_style madelung/pme needs an atom_style with charges");
    if (domain->dimension != 3 || domain->nonperiodic != 0)
      error->all(FLERR, "kspace_style madelung/pme needs a box that is periodic along all axes");
    if (slabflag || wireflag) error->all(FLERR, "kspace_modify slab and wire are not for kspace_style madelung/pme");
    pair_check();
    int unused;
    const double *cutoff = force->pair ? static_cast<double *>(force->pair->extract("cut_coul", unused)) : nullptr;
    if (!cutoff) error->all(FLERR, "kspace_style madelung/pme needs a pair_style with a cutoff of charges");
    scale = 1.0;
    qqrd2e = force->qqrd2e;
    two_charge();
    qsum_qsq();
    natoms_original = atom->natoms;
    accuracy = accuracy_absolute >= 0.0 ? accuracy_absolute : accuracy_relative * two_charge_force;

    madelung_context_free(context);
    context = nullptr;
    check(madelung_context_new(comm->nthreads, &context));
    sum = {};
    sum.size = sizeof sum;
    sum.kind = MADELUNG_PME;
    sum.alpha = gewaldflag ? g_ewald : 0.0;
    sum.cutoff = *cutoff;
    if (gridflag) {
      const int nodes[3] = {nx_pppm, ny_pppm, nz_pppm};
      for (int k = 0; k < 3; k++) sum.mesh[k] = nodes[k];
    }
    sum.spline_order = order;
    if (gewaldflag && gridflag) {
      if (order == 0) sum.spline_order = 5;
    } else if (natoms_original > 0) {
      // LAMMPS' accuracy is a force; the library's has the force of a mean charge at a mean distance for its unit, and has to
      // be below 1. Charges that are not there yet count as those of one unit.
      const double volume = domain->xprd * domain->yprd * domain->zprd, atoms = static_cast<double>(natoms_original);
      const double squares = qsqsum > 0.0 ? qsqsum : atoms;
      sum.accuracy = std::min(accuracy / (qqrd2e * squares / atoms / std::pow(volume / atoms, 2.0 / 3.0)), 0.5);
      double cell[9];
      fill(cell);
      check(madelung_choose_mesh(natoms_original, cell, &sum));
    }
    g_ewald = sum.alpha;
    if (comm->me == 0)
      utils::logmesg(lmp, "Madelung's mesh:\n  G vector (1/distance) = {:.8}\n  grid = {} {} {}\n  order of splines = {}\n",
                     g_ewald, sum.mesh[0], sum.mesh[1], sum.mesh[2], sum.spline_order);
  }

  void setup() override {}

  void compute(int eflag, int vflag) override
  {
    ev_init(eflag, vflag);
    if (vflag_atom) error->all(FLERR, "kspace_style madelung/pme has no virial of single atoms");
    if (atom->natoms != natoms_original) {
      qsum_qsq();
      natoms_original = atom->natoms;
    }
    energy = 0.0;
    for (double &part : virial) part = 0.0;
    if (qsqsum == 0.0) return;

    double cell[9], found[10] = {};
    fill(cell);
    // Barostats change the box of each process by itself, and processors may differ in the last bit.
    MPI_Bcast(cell, 9, MPI_DOUBLE, 0, world);
    madelung_exchange exchange = {};
    exchange.size = sizeof exchange;
    exchange.rank = comm->me;
    exchange.ranks = comm->nprocs;
    exchange.data = &world;
    exchange.all_to_all = all_to_all;
    madelung_system system = {};
    system.size = sizeof system;
    system.atoms = atom->nlocal;
    system.positions = atom->nlocal ? atom->x[0] : nullptr;
    system.charges = atom->q;
    system.cell = cell;
    madelung_results results = {};
    results.size = sizeof results;
    results.adds = 1;
    results.energy = eflag_global ? found : nullptr;
    results.energies = !eflag_atom ? nullptr : atom->nlocal ? eatom : nothing;
    results.forces = atom->nlocal ? atom->f[0] : nothing;
    results.virial = vflag_global ? found + 1 : nullptr;
    sum.prefactor = qqrd2e * scale;
    check(madelung_mesh_of_domain(context, &exchange, &system, &sum, &results));
    if (!eflag_global && !vflag_global) return;
    double total[10];
    MPI_Allreduce(found, total, 10, MPI_DOUBLE, MPI_SUM, world);
    energy = total[0];
    for (int k = 0; k < 6; k++) virial[k] = total[1 + OF_MATRIX[k]];
  }

 private:
  // Ends the run with the library's words where a call failed. Wrong arguments are an error of all processes, in the words of
  // the first one that was given them.
  void check(int32_t status) const
  {
    if (status == MADELUNG_OK) return;
    const std::string words = madelung_last_error();
    const auto is_of = [&](const char *name) { return words.compare(0, std::strlen(name), name) == 0; };
    if (status != MADELUNG_ARGUMENT || is_of("`all_to_all`")) error->one(FLERR, "{}", words);
    const int own = is_of("`exchange`") ? comm->nprocs : comm->me;
    int first;
    MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, world);
    char all[512] = {};
    words.copy(all, sizeof all - 1);
    MPI_Bcast(all, sizeof all, MPI_CHAR, first < comm->nprocs ? first : 0, world);
    error->all(FLERR, "{}", all);
  }

  // The lattice vectors.
  void fill(double *cell) const
  {
    const double rows[9] = {domain->xprd, 0.0, 0.0, domain->xy, domain->yprd, 0.0, domain->xz, domain->yz, domain->zprd};
    for (int k = 0; k < 9; k++) cell[k] = rows[k];
  }

  static int32_t all_to_all(void *data, const double *send, const int64_t *sent, double *receive, const int64_t *received)
  {
    const MPI_Comm world = *static_cast<MPI_Comm *>(data);
    int ranks;
    MPI_Comm_size(world, &ranks);
    std::vector<int> counts[2], first[2];
    const int64_t *given[2] = {sent, received};
    for (int k = 0; k < 2; k++) {
      int64_t from = 0;
      for (int p = 0; p < ranks; p++) {
        counts[k].push_back(static_cast<int>(given[k][p]));
        first[k].push_back(static_cast<int>(from));
        from += given[k][p];
      }
      // MPI numbers what a process sends and receives in int.
      if (from > INT_MAX) return 1;
    }
    return MPI_Alltoallv(send, counts[0].data(), first[0].data(), MPI_DOUBLE, receive, counts[1].data(), first[1].data(),
                         MPI_DOUBLE, world) == MPI_SUCCESS
        ? 0
        : 2;
  }

  madelung_context *context = nullptr;
  madelung_sum sum = {};
  // A place for processes without atoms, so that all ask for the same.
  double nothing[1] = {};
};

KSpace *pme(LAMMPS *lmp)
{
  return new KSpacePme(lmp);
}

}    // namespace madelung_lammps
