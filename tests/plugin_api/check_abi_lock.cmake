# Runs LOCK and compares what it prints with FOLDER. With UPDATE it writes that there instead, unless
# something changed and LAMINA_ABI_MINOR did not: then plugins of one minor would mean two contracts.
string(REPLACE "," ";" HEADERS "${HEADERS}")  # in a list of arguments each would be one
foreach(what layout ops)
  set(arguments ${what})
  if(what STREQUAL layout)
    list(APPEND arguments ${HEADERS})
  endif()
  execute_process(COMMAND ${LOCK} ${arguments} OUTPUT_VARIABLE now COMMAND_ERROR_IS_FATAL ANY)
  set(file ${FOLDER}/${what}.json)
  set(locked "")
  if(EXISTS ${file})
    file(READ ${file} locked)
  endif()
  if(now STREQUAL locked)
    continue()
  endif()
  if(NOT UPDATE)
    message(FATAL_ERROR
      "${file} is not what the headers say. A change of the contract bumps LAMINA_ABI_MINOR in "
      "abi.h; then scripts/abi_lock")
  endif()
  string(JSON new_minor GET "${now}" minor)
  set(old_minor -1)
  if(locked)
    string(JSON old_minor GET "${locked}" minor)
  endif()
  if(NOT new_minor GREATER old_minor)
    message(FATAL_ERROR
      "${file}: the contract has changed since minor ${old_minor}; bump LAMINA_ABI_MINOR in abi.h")
  endif()
  file(WRITE ${file} "${now}")
  message(STATUS "wrote ${file} of minor ${new_minor}")
endforeach()
