// pair_style madelung/coul/long CUTOFF: the real-space part of the Ewald sum of whichever kspace_style is beside it.
#include "styles.h"

#include "atom.h"
#include "error.h"
#include "force.h"
#include "kspace.h"
#include "pair_madelung.h"

#include <cstring>

using namespace LAMMPS_NS;

namespace madelung_lammps {

class PairCoulLong : public PairMadelung {
 public:
  explicit PairCoulLong(LAMMPS *lmp) : PairMadelung(lmp) { ewaldflag = pppmflag = 1; }

  void settings(int count, char **words) override
  {
    if (count != 1) error->all(FLERR, "pair_style madelung/coul/long expected a cutoff, got {} arguments", count);
    cutoff = utils::numeric(FLERR, words[0], false, lmp);
    if (!(cutoff > 0.0)) error->all(FLERR, "pair_style madelung/coul/long expected a cutoff above 0, got {}", words[0]);
  }

  void coeff(int count, char **words) override
  {
    if (count != 2) error->all(FLERR, "pair_coeff of madelung/coul/long expected two ranges of types alone");
    allocate();
    for (const auto &[i, j] : pairs_of_types(words)) setflag[i][j] = 1;
  }

  void init_style() override
  {
    if (!atom->q_flag) error->all(FLERR, "pair_style madelung/coul/long needs an atom_style with charges");
    if (!force->kspace) error->all(FLERR, "pair_style madelung/coul/long needs a kspace_style");
    PairMadelung::init_style();
  }

  void *extract(const char *name, int &dimensions) override
  {
    dimensions = 0;
    return std::strcmp(name, "cut_coul") == 0 ? &cutoff : nullptr;
  }

 protected:
  // The waves have all pairs, special or not.
  Entries first_list() const override { return {0, 0}; }
  double &energy() override { return eng_coul; }
  const char *name() const override { return "madelung/coul/long"; }

  void sum(const madelung_system &system, const madelung_results &results) override
  {
    madelung_sum of = {};
    of.size = sizeof of;
    of.kind = MADELUNG_REAL_SPACE;
    of.alpha = force->kspace->g_ewald;
    of.cutoff = cutoff;
    of.prefactor = force->qqrd2e;
    check(madelung_energies(context, &system, lists[0], &of, &results));
    // Of special neighbours the rest of 1/r is taken away.
    of.kind = MADELUNG_COULOMB;
    of.alpha = 0.0;
    for (int k = 1; k < CLASSES; k++) {
      of.prefactor = (force->special_coul[k] - 1.0) * force->qqrd2e;
      if (lists[k] && of.prefactor != 0.0) check(madelung_energies(context, &system, lists[k], &of, &results));
    }
  }
};

Pair *coul_long(LAMMPS *lmp)
{
  return new PairCoulLong(lmp);
}

}    // namespace madelung_lammps
