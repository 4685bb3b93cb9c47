# Builds examples/ with nothing but an installation, trains three steps with the example, then
# continues a text with the checkpoint.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
include(${CMAKE_CURRENT_LIST_DIR}/../support/run.cmake)
function(expect pattern)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "wanted ${pattern}, got: ${text}")
  endif()
endfunction()

foreach(component plugin_api host)
  run(${CMAKE_COMMAND} --install ${BUILD} --component ${component} --prefix ${WORK}/prefix)
endforeach()
# Every project header that an installed header includes is also installed.
set(include ${WORK}/prefix/include)
file(GLOB_RECURSE headers ${include}/*.h ${include}/*.def)
foreach(header IN LISTS headers)
  file(STRINGS ${header} lines REGEX "^#include \"")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" wanted "${line}")
    if(NOT EXISTS ${include}/${wanted} AND NOT EXISTS ${include}/lamina/host/${wanted})
      message(FATAL_ERROR "${header} includes ${wanted}, which is not installed")
    endif()
  endforeach()
endforeach()
run(${CMAKE_COMMAND} -S ${EXAMPLES} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
    "-DCMAKE_CXX_FLAGS=-O1 ${CXX_FLAGS}" "-DCMAKE_EXE_LINKER_FLAGS=${LINKER_FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK}/build)

file(WRITE ${WORK}/run.toml "family = \"llama2\"
[model]
vocab_size = 258
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 2
intermediate_size = 48
[data]
train = [\"${TEXT}\"]
sequence_length = 32
[train]
steps = 3
batch_size = 2
[run]
out = \"${WORK}/run\"
")
set(ENV{LAMINA_PLUGIN_PATH} ${BUILD}/lib/lamina/plugins)
run(${WORK}/build/embed train ${WORK}/run.toml)
expect("^loss [0-9]")
run(${WORK}/build/embed decode ${WORK}/run "The")
expect(".")
