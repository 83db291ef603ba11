# find_package(madelung): the target madelung::madelung.
get_filename_component(_madelung_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET madelung::madelung)
  add_library(madelung::madelung SHARED IMPORTED)
  set_target_properties(madelung::madelung PROPERTIES
    IMPORTED_LOCATION "${_madelung_prefix}/lib/libmadelung.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_madelung_prefix}/include")
endif()
unset(_madelung_prefix)
