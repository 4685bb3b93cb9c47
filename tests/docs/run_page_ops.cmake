# Builds the ops of docs/add_an_op.md and runs their suites, what is demanded of every op, and the
# calls of plugins.
include(${CMAKE_CURRENT_LIST_DIR}/../support/run.cmake)

run(${CMAKE_COMMAND} --build ${BUILD} --target docs_page_ops_test docs_page_plugin_test)
# The page has these ops only, so that the others have no suites here.
run(${OPS_TEST} --gtest_filter=-OpTests.EveryOpHasCases)
foreach(source IN LISTS SOURCES)
  if(source MATCHES "/host/ops/([a-z_0-9]+)\\.cc$")
    set(op ${CMAKE_MATCH_1})
    string(REPLACE "_" "" suite ${op})
    string(TOLOWER "${text}" ran)
    if(NOT ran MATCHES "\\[       ok \\] ${suite}\\.kernelscomputewhatitmeans")
      message(FATAL_ERROR "${op} has no suite of its name in:\n${text}")
    endif()
    file(READ ${source} definition)
    if(definition MATCHES "DecodeForm k" AND
       NOT ran MATCHES "\\[       ok \\] ${suite}\\.callsgivewhatonegodoes")
      message(FATAL_ERROR "${op} has decode state and no LAMINA_TEST_DECODE in:\n${text}")
    endif()
  endif()
endforeach()
run(${PLUGIN_TEST})
