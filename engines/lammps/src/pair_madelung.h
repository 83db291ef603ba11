// What pair styles over Madelung's sums of pairs have in common: lists, results, errors.
#ifndef MADELUNG_PAIR_H
#define MADELUNG_PAIR_H

#include "madelung.h"
#include "pair.h"

#include <utility>
#include <vector>

namespace madelung_lammps {

class PairMadelung : public LAMMPS_NS::Pair {
 public:
  explicit PairMadelung(LAMMPS_NS::LAMMPS *lmp);
  ~PairMadelung() override;

  void compute(int eflag, int vflag) override;
  void init_style() override;
  double init_one(int i, int j) override;

 protected:
  // Bits of entries that a list is made of.
  struct Entries {
    int bits, wanted;
  };
  // Entries without a mark, and those of special neighbours: 1-2, 1-3, 1-4.
  static constexpr int CLASSES = 4;
  static Entries entries_of(int special);

  // The entries of list 0; those of the others are special neighbours.
  virtual Entries first_list() const { return entries_of(0); }
  // The sum over all lists, whose results are added.
  virtual void sum(const madelung_system &system, const madelung_results &results) = 0;
  // The energy that the style has in thermodynamic output.
  virtual double &energy() = 0;
  virtual const char *name() const = 0;

  // Ends the run with the library's words where a call failed.
  void check(int32_t status) const;
  // Makes room for coefficients of all types.
  void allocate();
  // The types i ≤ j of the two ranges that open a pair_coeff; an error where there are none.
  std::vector<std::pair<int, int>> pairs_of_types(char **words) const;

  double cutoff = 0.0;
  madelung_context *context = nullptr;
  // Null: none of the entries is there.
  madelung_list *lists[CLASSES] = {};

 private:
  void free_lists();
  void renew_lists();
};

}    // namespace madelung_lammps

#endif
