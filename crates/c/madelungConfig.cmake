# find_package(madelung): the targets madelung::madelung, shared, and madelung::static.
get_filename_component(_madelung_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET madelung::madelung)
  add_library(madelung::madelung SHARED IMPORTED)
  set_target_properties(madelung::madelung PROPERTIES
    IMPORTED_LOCATION "${_madelung_prefix}/lib/libmadelung.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_madelung_prefix}/include")
endif()
if(NOT TARGET madelung::static)
  add_library(madelung::static STATIC IMPORTED)
  set_target_properties(madelung::static PROPERTIES
    IMPORTED_LOCATION "${_madelung_prefix}/lib/libmadelung.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_madelung_prefix}/include"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m")
endif()
unset(_madelung_prefix)
