# Configures the template as its users do, without a build type, with Debug, and with a level of their
# choice: only the first has the flags of Release.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
include(${CMAKE_CURRENT_LIST_DIR}/../support/run.cmake)
run(${CMAKE_COMMAND} --install ${BUILD} --component plugin_api --prefix ${WORK}/prefix)

function(expect_optimised expected name)
  run(${CMAKE_COMMAND} -S ${WORK}/prefix/share/lamina/plugin_api/template -B ${WORK}/${name}
      -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${CXX} -DLAMINA_PROGRAM=${LAMINA}
      -DCMAKE_EXPORT_COMPILE_COMMANDS=ON ${ARGN})
  file(READ ${WORK}/${name}/compile_commands.json commands)
  string(FIND "${commands}" " -O3 -DNDEBUG" found)
  if((found EQUAL -1 AND expected) OR (NOT found EQUAL -1 AND NOT expected))
    message(FATAL_ERROR "${name}: -O3 -DNDEBUG expected: ${expected}; got ${commands}")
  endif()
endfunction()
expect_optimised(TRUE plain)
expect_optimised(FALSE debug -DCMAKE_BUILD_TYPE=Debug)
expect_optimised(FALSE level -DCMAKE_CXX_FLAGS=-O1)
