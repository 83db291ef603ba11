#include "pair_madelung.h"

#include "atom.h"
#include "comm.h"
#include "error.h"
#include "force.h"
#include "memory.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "styles.h"

#include <algorithm>

using namespace LAMMPS_NS;

namespace madelung_lammps {

PairMadelung::PairMadelung(LAMMPS *lmp) : Pair(lmp)
{
  single_enable = 0;
  restartinfo = 0;
  // Sums have the share of each domain in the virial.
  no_virial_fdotr_compute = 1;
}

PairMadelung::~PairMadelung()
{
  free_lists();
  madelung_context_free(context);
  if (allocated) {
    memory->destroy(setflag);
    memory->destroy(cutsq);
  }
}

void PairMadelung::check(int32_t status) const
{
  if (status != MADELUNG_OK) error->one(FLERR, "{}", madelung_last_error());
}

void PairMadelung::allocate()
{
  if (allocated) return;
  const int n = atom->ntypes + 1;
  memory->create(setflag, n, n, "pair:setflag");
  memory->create(cutsq, n, n, "pair:cutsq");
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) setflag[i][j] = 0;
  allocated = 1;
}

std::vector<std::pair<int, int>> PairMadelung::pairs_of_types(char **words) const
{
  int low[2], high[2];
  for (int k = 0; k < 2; k++) utils::bounds(FLERR, words[k], 1, atom->ntypes, low[k], high[k], error);
  std::vector<std::pair<int, int>> found;
  for (int i = low[0]; i <= high[0]; i++)
    for (int j = std::max(low[1], i); j <= high[1]; j++) found.emplace_back(i, j);
  if (found.empty())
    error->all(FLERR, "pair_coeff of {} expected types i <= j of two ranges, got {} {}", name(), words[0], words[1]);
  return found;
}

void PairMadelung::init_style()
{
  // Each pair once, with forces of ghosts, which LAMMPS sends back; without newton own atoms have all neighbours.
  neighbor->add_request(this, force->newton_pair ? NeighConst::REQ_DEFAULT : NeighConst::REQ_FULL);
  madelung_context_free(context);
  context = nullptr;
  check(madelung_context_new(comm->nthreads, &context));
  // Positions, types and factors may have changed between runs.
  free_lists();
}

double PairMadelung::init_one(int i, int j)
{
  if (!setflag[i][j])
    error->all(FLERR, "pair_style {} needs a pair_coeff of types {} and {}", name(), i, j);
  return cutoff;
}

PairMadelung::Entries PairMadelung::entries_of(int special)
{
  const unsigned bits = (CLASSES - 1u) << SBBITS;
  return {static_cast<int>(bits), static_cast<int>(static_cast<unsigned>(special) << SBBITS)};
}

void PairMadelung::free_lists()
{
  for (madelung_list *&one : lists) {
    madelung_list_free(one);
    one = nullptr;
  }
}

void PairMadelung::renew_lists()
{
  free_lists();
  // Atoms without bonds have no special neighbours.
  const int classes = atom->molecular == Atom::ATOMIC ? 1 : CLASSES;
  for (int k = 0; k < classes; k++) {
    const Entries of = k == 0 ? first_list() : entries_of(k);
    const int all = atom->nlocal + atom->nghost;
    check(madelung_list_of_domain(context, atom->nlocal, all, all ? atom->x[0] : nullptr, list->ilist, list->inum,
                                  list->numneigh, list->firstneigh, NEIGHMASK, of.bits, of.wanted,
                                  force->newton_pair ? MADELUNG_HALF : MADELUNG_FULL, &lists[k]));
    int64_t pairs = 0;
    check(madelung_list_pairs(lists[k], &pairs));
    if (k > 0 && pairs == 0) {
      madelung_list_free(lists[k]);
      lists[k] = nullptr;
    }
  }
}

void PairMadelung::compute(int eflag, int vflag)
{
  ev_init(eflag, vflag);
  if (vflag_atom) error->all(FLERR, "pair_style {} has no virial of single atoms", name());
  if (neighbor->ago == 0 || !lists[0]) renew_lists();

  const int all = atom->nlocal + atom->nghost;
  // Without newton ghosts get nothing; where LAMMPS does not look at theirs, it does not write zeros there either.
  for (int i = atom->nlocal; i < all; i++) {
    if (!force->newton) std::fill_n(atom->f[i], 3, 0.0);
    if (eflag_atom && !force->newton_pair) eatom[i] = 0.0;
  }
  madelung_system system = {};
  system.size = sizeof system;
  system.atoms = all;
  system.positions = all ? atom->x[0] : nullptr;
  system.charges = atom->q;
  double found = 0.0, strain[9] = {};
  madelung_results results = {};
  results.size = sizeof results;
  results.adds = 1;
  results.energy = eflag_global ? &found : nullptr;
  results.energies = eflag_atom ? eatom : nullptr;
  results.forces = all ? atom->f[0] : nullptr;
  results.virial = vflag_global ? strain : nullptr;
  sum(system, results);
  if (eflag_global) energy() += found;
  if (vflag_global) {
    for (int k = 0; k < 6; k++) virial[k] += strain[OF_MATRIX[k]];
  }
}

}    // namespace madelung_lammps
