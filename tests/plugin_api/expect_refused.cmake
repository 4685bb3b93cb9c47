# Runs check_plugin.cmake on a copy of LIBRARY and expects it to refuse with EXPECTED, and to remove
# the copy.
set(copy ${WORK}/refused.lamina.so)
file(MAKE_DIRECTORY ${WORK})
configure_file(${LIBRARY} ${copy} COPYONLY)
execute_process(COMMAND ${CMAKE_COMMAND} -DPLUGIN=${copy} -DNM=${NM} -DREADELF=${READELF}
                        -P ${CHECK}
                RESULT_VARIABLE failed ERROR_VARIABLE error)
if(NOT failed)
  message(FATAL_ERROR "check_plugin.cmake accepted ${LIBRARY}")
endif()
if(NOT error MATCHES "${EXPECTED}")
  message(FATAL_ERROR "expected '${EXPECTED}', got: ${error}")
endif()
if(EXISTS ${copy})
  message(FATAL_ERROR "the refused library is still there")
endif()
