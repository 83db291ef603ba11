// The entry of the plugin, as LAMMPS' manual describes it (Programmer Guide, "Writing plugins").
#include "error.h"
#include "lammps.h"
#include "styles.h"

#include <string>

using namespace LAMMPS_NS;

namespace {

using Creator = void *(LAMMPS *);

struct Style {
  const char *version, *style, *name, *info, *author;
  union {
    Creator *creator;
    void *creator_of_commands;
  };
  void *handle;
};

}    // namespace

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *program, void *handle, void *add)
{
  LAMMPS *lmp = static_cast<LAMMPS *>(program);
  // LAMMPS may load a plugin of itself, for inputs that have no style of it.
  if (lmp->num_ver != MADELUNG_LAMMPS) {
    lmp->error->warning(FLERR, "madelung-lammps is built for LAMMPS {}, not {}, and has no styles here: build it against this one",
                        MADELUNG_LAMMPS, lmp->num_ver);
    return;
  }
  Style style = {};
  style.version = lmp->version;
  style.style = "pair";
  style.author = "The Madelung developers";
  style.handle = handle;
  auto *const register_style = reinterpret_cast<void (*)(Style *, void *)>(add);
  style.name = "madelung/coul/long";
  style.info = "real-space part of the Ewald sum, by Madelung";
  style.creator = [](LAMMPS *of) -> void * { return madelung_lammps::coul_long(of); };
  register_style(&style, lmp);
  style.name = "madelung/pair";
  style.info = "pair potentials of Madelung by their names";
  style.creator = [](LAMMPS *of) -> void * { return madelung_lammps::potential(of); };
  register_style(&style, lmp);
  style.style = "kspace";
  style.name = "madelung/pme";
  style.info = "waves of the Ewald sum on a mesh of all processes, by Madelung";
  style.creator = [](LAMMPS *of) -> void * { return madelung_lammps::pme(of); };
  register_style(&style, lmp);
}
