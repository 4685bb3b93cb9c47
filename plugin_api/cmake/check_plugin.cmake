# Checks a linked plugin: cmake -DPLUGIN=<file> -DNM=<nm> -DREADELF=<readelf> -P check_plugin.cmake
# A plugin that fails is removed, so that no host loads it.
set(problems "")

function(run output)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE failed ERROR_VARIABLE error)
  if(failed)
    message(FATAL_ERROR "${PLUGIN}: cannot be inspected: ${error}")
  endif()
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

run(symbols ${NM} -D --defined-only ${PLUGIN})
string(REGEX MATCHALL "[^\n]+" symbols "${symbols}")
list(LENGTH symbols count)
set(foreign ${symbols})
list(FILTER foreign EXCLUDE REGEX " lamina_plugin_v0$")
if(foreign)
  list(TRANSFORM foreign REPLACE "^[0-9a-f]+ +" "  ")
  string(REPLACE ";" "\n" foreign "${foreign}")
  string(APPEND problems "exports more than lamina_plugin_v0:\n${foreign}\n")
elseif(NOT count EQUAL 1)
  string(APPEND problems "does not export lamina_plugin_v0; call LAMINA_PLUGIN(...) once\n")
endif()

run(dynamic ${READELF} -dW ${PLUGIN})
string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*\\[[^]\n]*\\]" needed "${dynamic}")
set(runtime libc libm libstdc\\+\\+ libc\\+\\+ libc\\+\\+abi libunwind libgcc_s libasan libubsan libtsan
            ld-linux-[a-z0-9-]+)
list(JOIN runtime "|" runtime)
foreach(entry ${needed})
  string(REGEX REPLACE ".*\\[(.*)\\]" "\\1" library "${entry}")
  if(NOT library MATCHES "^(${runtime})\\.so")
    string(APPEND problems
           "needs ${library}; a plugin may need the C and C++ runtime libraries only\n")
  endif()
endforeach()
foreach(tag RPATH RUNPATH TEXTREL)
  if(dynamic MATCHES "\\(${tag}\\)")
    string(APPEND problems "has a ${tag} entry; it must have none\n")
  endif()
endforeach()

run(segments ${READELF} -lW ${PLUGIN})
if(segments MATCHES "GNU_STACK[^\n]* RWE ")
  string(APPEND problems "asks for an executable stack\n")
endif()

run(sections ${READELF} -SW ${PLUGIN})
if(NOT sections MATCHES " \\.lamina\\.manifest ")
  string(APPEND problems "has no section .lamina.manifest; call LAMINA_PLUGIN(...) once\n")
endif()

if(problems)
  file(REMOVE ${PLUGIN})
  message(FATAL_ERROR "${PLUGIN}: is not a valid plugin and was removed:\n${problems}"
                      "See docs/plugin_requirements.md, section 2.")
endif()
