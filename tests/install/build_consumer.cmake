# Installs Adaptra into a folder of the build, configures, builds and runs the consumer against it.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed:\n${out}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/consumer)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/consumer -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DPLANNER_ONLY=${PLANNER_ONLY} -DKokkos_ROOT=${KOKKOS_ROOT} -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/consumer)
