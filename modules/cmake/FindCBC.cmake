# Finds CBC (COIN-OR branch and cut) with its C interface: target CBC::CBC. Optional: only the planner's
# policy "exact" beyond very small problems needs it. Hint: CBC_ROOT.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_CBC QUIET cbc)
endif()
find_path(CBC_INCLUDE_DIR coin/Cbc_C_Interface.h HINTS ${PC_CBC_INCLUDE_DIRS})
find_library(CBC_LIBRARY CbcSolver HINTS ${PC_CBC_LIBRARY_DIRS})

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CBC REQUIRED_VARS CBC_LIBRARY CBC_INCLUDE_DIR)
mark_as_advanced(CBC_INCLUDE_DIR CBC_LIBRARY)

if(CBC_FOUND AND NOT TARGET CBC::CBC)
  add_library(CBC::CBC UNKNOWN IMPORTED)
  # The headers include each other without the folder's name.
  set_target_properties(CBC::CBC PROPERTIES IMPORTED_LOCATION "${CBC_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                            "${CBC_INCLUDE_DIR};${CBC_INCLUDE_DIR}/coin")
endif()
