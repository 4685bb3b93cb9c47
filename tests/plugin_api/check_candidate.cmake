# Each fact of the candidate's frozen headers is a fact of today's headers. THEN and NOW print them.
string(REPLACE "," ";" THEN_HEADERS "${THEN_HEADERS}")
string(REPLACE "," ";" NOW_HEADERS "${NOW_HEADERS}")
foreach(time THEN NOW)
  execute_process(COMMAND ${${time}} ${${time}_HEADERS} OUTPUT_FILE ${WORK}.${time}
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(SIZE ${WORK}.THEN bytes)
if(bytes LESS 20000)
  message(FATAL_ERROR "${WORK}.THEN: the facts of the candidate are missing")
endif()
# grep ends with 1 if it prints no line: then no line of THEN is missing in NOW.
execute_process(COMMAND grep -Fxv -f ${WORK}.NOW ${WORK}.THEN OUTPUT_VARIABLE missing
                RESULT_VARIABLE none)
if(NOT none EQUAL 1)
  message(FATAL_ERROR "changed since the candidate:\n${missing}docs/abi_policy.md says how a break "
                      "of the candidate is handled")
endif()
