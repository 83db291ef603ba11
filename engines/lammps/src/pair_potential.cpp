// pair_style madelung/pair law=NAME CUTOFF [end taper|switch|cut] [onset DISTANCE]: a pair potential of the library by its
// name; pair_coeff I J PARAMETERS, in the law's order.
#include "styles.h"

#include "atom.h"
#include "error.h"
#include "force.h"
#include "pair_madelung.h"

#include <string>
#include <vector>

using namespace LAMMPS_NS;

namespace madelung_lammps {

class PairPotential : public PairMadelung {
 public:
  explicit PairPotential(LAMMPS *lmp) : PairMadelung(lmp) {}

  void settings(int count, char **words) override
  {
    if (count < 2) error->all(FLERR, "pair_style madelung/pair expected law=NAME and a cutoff, got {} arguments", count);
    // Names alone may be those of styles, at which pair_style hybrid ends the words of another one.
    law = words[0];
    if (law.compare(0, 4, "law=") != 0)
      error->all(FLERR, "pair_style madelung/pair expected law=NAME, as law=lennard_jones, got {}", law);
    law.erase(0, 4);
    cutoff = utils::numeric(FLERR, words[1], false, lmp);
    end = MADELUNG_TAPER;
    onset = 0.0;
    for (int k = 2; k < count; k += 2) {
      const std::string name = words[k], value = k + 1 < count ? words[k + 1] : "";
      if (name == "end" && value == "taper") end = MADELUNG_TAPER;
      else if (name == "end" && value == "switch") end = MADELUNG_SWITCH;
      else if (name == "end" && value == "cut") end = MADELUNG_CUT;
      else if (name == "onset" && !value.empty()) onset = utils::numeric(FLERR, value.c_str(), false, lmp);
      else error->all(FLERR, "pair_style madelung/pair expected end taper|switch|cut or onset DISTANCE, got {} {}", name, value);
    }
    // Coefficients of another law do not count.
    tables.clear();
    for (int i = 1; allocated && i <= atom->ntypes; i++)
      for (int j = i; j <= atom->ntypes; j++) setflag[i][j] = 0;
  }

  void coeff(int count, char **words) override
  {
    if (count < 3) error->all(FLERR, "pair_coeff of madelung/pair expected types and parameters");
    const size_t parameters = count - 2;
    if (!tables.empty() && tables.size() != parameters)
      error->all(FLERR, "pair_coeff of madelung/pair expected {} parameters as before, got {}", tables.size(), parameters);
    allocate();
    const int n = atom->ntypes;
    tables.resize(parameters, std::vector<double>(n * n, 0.0));
    for (const auto &[i, j] : pairs_of_types(words)) {
      for (size_t p = 0; p < parameters; p++)
        tables[p][(i - 1) * n + j - 1] = tables[p][(j - 1) * n + i - 1] = utils::numeric(FLERR, words[2 + p], false, lmp);
      setflag[i][j] = 1;
    }
  }

  void init_style() override
  {
    if (offset_flag || tail_flag)
      error->all(FLERR, "pair_modify {}: expected no with madelung/pair, got yes", offset_flag ? "shift" : "tail");
    PairMadelung::init_style();
    // What is wrong whatever the atoms are is found by a sum over none.
    madelung_list *none = nullptr;
    check(madelung_list_of_domain(context, 0, 0, nullptr, nullptr, 0, nullptr, nullptr, NEIGHMASK, 0, 0, MADELUNG_FULL, &none));
    madelung_system system = {};
    madelung_results results = {};
    system.size = sizeof system;
    results.size = sizeof results;
    const int32_t status = energies(system, none, 1.0, results);
    madelung_list_free(none);
    check(status);
  }

 protected:
  double &energy() override { return eng_vdwl; }
  const char *name() const override { return "madelung/pair"; }

  void sum(const madelung_system &system, const madelung_results &results) override
  {
    types.resize(system.atoms);
    for (int64_t i = 0; i < system.atoms; i++) types[i] = atom->type[i] - 1;
    check(energies(system, lists[0], 1.0, results));
    for (int k = 1; k < CLASSES; k++) {
      const double factor = force->special_lj[k];
      if (lists[k] && factor != 0.0) check(energies(system, lists[k], factor, results));
    }
  }

 private:
  int32_t energies(const madelung_system &system, const madelung_list *of, double factor, const madelung_results &results)
  {
    std::vector<const double *> each;
    for (const std::vector<double> &table : tables) each.push_back(table.data());
    return madelung_pair_potential(context, &system, of, law.c_str(), types.data(), atom->ntypes, each.data(), each.size(),
                                   factor, cutoff, end, onset, &results);
  }

  std::string law;
  int32_t end = MADELUNG_TAPER;
  double onset = 0.0;
  // (types, types) of each parameter.
  std::vector<std::vector<double>> tables;
  std::vector<int32_t> types;
};

Pair *potential(LAMMPS *lmp)
{
  return new PairPotential(lmp);
}

}    // namespace madelung_lammps
