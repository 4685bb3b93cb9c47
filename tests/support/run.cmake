# run(<command>...): runs it and fails, with all that it said, unless it succeeds. Sets `text` to its
# standard output. For scripts of tests.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE errors)
  if(failed)
    message(FATAL_ERROR "${ARGN}: exit ${failed}\n${text}\n${errors}")
  endif()
  set(text "${text}" PARENT_SCOPE)
endfunction()
