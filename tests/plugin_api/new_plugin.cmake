# Makes a plugin with `lamina plugin new`, builds it against the installed plugin_api with a compiler of
# one's choice, and runs its own test; with LEVEL also the conformance kit at that level.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
include(${CMAKE_CURRENT_LIST_DIR}/../support/run.cmake)
run(${CMAKE_COMMAND} --install ${BUILD} --component plugin_api --prefix ${WORK}/prefix)
set(from)
if(NOT FROM STREQUAL template)
  set(from --from ${FROM})
endif()
run(${LAMINA} plugin new two_towers ${from} --dir ${WORK})
run(${CMAKE_COMMAND} -S ${WORK}/two_towers -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_FLAGS=-O1 -Wall -Wextra -Werror ${FLAGS}" "-DCMAKE_MODULE_LINKER_FLAGS=${LINK_FLAGS}"
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DLAMINA_PROGRAM=${LAMINA})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build --no-tests=error --output-on-failure)
if(LEVEL)
  run(${LAMINA} plugin check ${WORK}/build/lib/lamina/plugins/two_towers.lamina.so --level ${LEVEL})
endif()
