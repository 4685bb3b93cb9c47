# Builds the template as its users do: from a copy, with nothing but the installed plugin_api.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
include(${CMAKE_CURRENT_LIST_DIR}/../support/run.cmake)
run(${CMAKE_COMMAND} --install ${BUILD} --component plugin_api --prefix ${WORK}/prefix)
file(COPY ${WORK}/prefix/share/lamina/plugin_api/template/ DESTINATION ${WORK}/source)
run(${CMAKE_COMMAND} -S ${WORK}/source -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_FLAGS=-O1 -Wall -Wextra -Werror"
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DLAMINA_PROGRAM=${LAMINA})
run(${CMAKE_COMMAND} --build ${WORK}/build)
if(NOT EXISTS ${WORK}/build/lib/lamina/plugins/my_family.lamina.so)
  message(FATAL_ERROR "the template built no my_family.lamina.so")
endif()

# Its own test: it keeps to the contract, on the small model beside it.
if(NOT EXISTS ${WORK}/build/lib/lamina/plugins/my_family.check/my_family.toml)
  message(FATAL_ERROR "the template's small model is not beside the plugin")
endif()
run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build --no-tests=error --output-on-failure)

# It trains and decodes with the host.
file(WRITE ${WORK}/run.toml "family = \"my_family\"
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
set(plugin --plugin ${WORK}/build/lib/lamina/plugins/my_family.lamina.so)
run(${LAMINA} train ${WORK}/run.toml ${plugin} -q)
run(${LAMINA} decode -m ${WORK}/run ${plugin} -p "The" -n 4 --temp 0 -q)
