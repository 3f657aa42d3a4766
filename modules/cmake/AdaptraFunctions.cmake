# The functions that every CMakeLists.txt of the project uses: one library per folder of src/, one
# program per file of apps/, one test per header. Flags live on targets, never globally.

find_program(ADAPTRA_CCACHE ccache)
mark_as_advanced(ADAPTRA_CCACHE)

# Options shared by every target: warnings, CPU, sanitizers.
function(adaptra_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # With CUDA, GCC sees what nvcc generates from our sources: its warnings are for host builds.
  set(warnings ON)
  if(Kokkos_ENABLE_CUDA)
    set(warnings OFF)
  endif()
  target_compile_options(
    ${target}
    PRIVATE
      $<$<AND:$<BOOL:${warnings}>,$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion>
      # 2022-05, GCC 12: false positives on std::string, https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
      $<$<AND:$<BOOL:${warnings}>,$<BOOL:${ADAPTRA_WERROR}>,$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>>:-Werror>
      $<$<AND:$<BOOL:${ADAPTRA_NATIVE}>,$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>>:-march=native>)
  # Loops with comparisons, roots and multiply-adds vectorise only with these; no value becomes less exact.
  target_compile_options(
    ${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-fno-math-errno;-fno-trapping-math;-ffp-contract=fast>)
  target_compile_definitions(${target} PRIVATE $<$<BOOL:${ADAPTRA_CHECKS}>:ADAPTRA_CHECKS=1>)
  if(ADAPTRA_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${ADAPTRA_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${ADAPTRA_SANITIZE})
  endif()
  if(ADAPTRA_CCACHE AND NOT Kokkos_ENABLE_CUDA) # Kokkos chooses nvcc by the compiler being first in the command
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER ${ADAPTRA_CCACHE})
  endif()
endfunction()

# adaptra_library(<folder> LAYER <n> SOURCES ... [USES <folder>...] [LINK <target>...] [LINK_PRIVATE <target>...])
# The library Adaptra::<folder> of src/<folder>. USES names the folders whose headers it may include;
# tests/tools/check_layers.py holds the sources to it.
function(adaptra_library folder)
  cmake_parse_arguments(ARG "" "LAYER" "SOURCES;USES;LINK;LINK_PRIVATE" ${ARGN})
  set(target adaptra_${folder})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(Adaptra::${folder} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/adaptra>)
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(${target} PUBLIC Adaptra::${used})
  endforeach()
  target_link_libraries(${target} PUBLIC ${ARG_LINK} PRIVATE ${ARG_LINK_PRIVATE})
  adaptra_compile_options(${target})
  set_property(GLOBAL APPEND PROPERTY ADAPTRA_LIBRARIES ${target})
  set_property(GLOBAL APPEND PROPERTY ADAPTRA_FOLDERS ${folder})
endfunction()

# adaptra_app(<name> USES <folder>... [LINK <target>...]): the program apps/<name>.cpp (dashes as underscores).
function(adaptra_app name)
  cmake_parse_arguments(ARG "" "" "USES;LINK" ${ARGN})
  string(REPLACE "-" "_" file ${name})
  add_executable(${name} ${file}.cpp)
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(${name} PRIVATE Adaptra::${used})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  adaptra_compile_options(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set_property(GLOBAL APPEND PROPERTY ADAPTRA_APPS ${name})
endfunction()

# adaptra_test(<name> SOURCES ... USES <folder>... [LINK ...] [LABELS unit|mpi|fault|slow|gpu|slurm ...]
#              [RANKS n...] [KOKKOS] [TIMEOUT seconds])
# A GoogleTest program. With RANKS it runs once per number of MPI ranks, as <name>.<n>ranks; its main()
# is then tests/support/mpi_main.cpp. Without RANKS it is one process with GoogleTest's main, or with KOKKOS
# with tests/support/kokkos_main.cpp.
function(adaptra_test name)
  cmake_parse_arguments(ARG "KOKKOS" "TIMEOUT" "SOURCES;USES;LINK;LABELS;RANKS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(${name} PRIVATE Adaptra::${used})
  endforeach()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE ADAPTRA_TEST_DATA="${PROJECT_SOURCE_DIR}/tests"
                                             ADAPTRA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             ADAPTRA_BIN_DIR="${PROJECT_BINARY_DIR}/bin")
  adaptra_compile_options(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
  if(ARG_RANKS)
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp)
    target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock MPI::MPI_C Adaptra::mpi)
    foreach(n IN LISTS ARG_RANKS)
      add_test(NAME ${name}.${n}ranks
               COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${n} ${ADAPTRA_MPIEXEC_FLAGS}
                       $<TARGET_FILE:${name}>)
      set_tests_properties(${name}.${n}ranks PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
                           PROCESSORS 2 ENVIRONMENT "${ADAPTRA_TEST_ENVIRONMENT}")
    endforeach()
  else()
    if(ARG_KOKKOS)
      target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/kokkos_main.cpp)
      target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock)
    else()
      target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gmock_main)
    endif()
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
                         ENVIRONMENT "${ADAPTRA_TEST_ENVIRONMENT}")
  endif()
endfunction()

# Installs programs, headers and libraries, and exports Adaptra:: for find_package(Adaptra).
function(adaptra_install)
  include(CMakePackageConfigHelpers)
  get_property(libraries GLOBAL PROPERTY ADAPTRA_LIBRARIES)
  get_property(folders GLOBAL PROPERTY ADAPTRA_FOLDERS)
  get_property(apps GLOBAL PROPERTY ADAPTRA_APPS)
  install(TARGETS ${libraries} EXPORT AdaptraTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS ${apps} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  foreach(folder IN LISTS folders)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/adaptra
            FILES_MATCHING PATTERN "*.hpp")
  endforeach()
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Adaptra)
  install(EXPORT AdaptraTargets NAMESPACE Adaptra:: DESTINATION ${package})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/modules/cmake/AdaptraConfig.cmake.in
                                ${PROJECT_BINARY_DIR}/AdaptraConfig.cmake INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/AdaptraConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  file(GLOB modules ${PROJECT_SOURCE_DIR}/modules/cmake/*.cmake)
  list(FILTER modules EXCLUDE REGEX "AdaptraFunctions.cmake")
  install(FILES ${PROJECT_BINARY_DIR}/AdaptraConfig.cmake ${PROJECT_BINARY_DIR}/AdaptraConfigVersion.cmake
                ${modules} DESTINATION ${package})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/inputs DESTINATION ${CMAKE_INSTALL_DATADIR}/adaptra)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/slurm DESTINATION ${CMAKE_INSTALL_DATADIR}/adaptra
          USE_SOURCE_PERMISSIONS COMPONENT environment)
  # Modulefiles name the prefix, which is known for certain only while installing.
  install(CODE "
    set(PROJECT_VERSION ${PROJECT_VERSION})
    set(CMAKE_INSTALL_BINDIR ${CMAKE_INSTALL_BINDIR})
    set(CMAKE_INSTALL_DATADIR ${CMAKE_INSTALL_DATADIR})
    set(folder \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/adaptra/modulefiles/adaptra)
    configure_file(${PROJECT_SOURCE_DIR}/modules/environment/adaptra.lua.in \${folder}/${PROJECT_VERSION}.lua @ONLY)
    configure_file(${PROJECT_SOURCE_DIR}/modules/environment/adaptra.tcl.in \${folder}/${PROJECT_VERSION} @ONLY)"
    COMPONENT environment)
endfunction()
