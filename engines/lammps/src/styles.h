// The styles of the plugin.
#ifndef MADELUNG_STYLES_H
#define MADELUNG_STYLES_H

namespace LAMMPS_NS {
class KSpace;
class LAMMPS;
class Pair;
}    // namespace LAMMPS_NS

namespace madelung_lammps {

// Places of LAMMPS' six numbers of a virial in a matrix.
inline constexpr int OF_MATRIX[6] = {0, 4, 8, 1, 2, 5};

LAMMPS_NS::Pair *coul_long(LAMMPS_NS::LAMMPS *lmp);
LAMMPS_NS::Pair *potential(LAMMPS_NS::LAMMPS *lmp);
LAMMPS_NS::KSpace *pme(LAMMPS_NS::LAMMPS *lmp);

}    // namespace madelung_lammps

#endif
