# Builds each project of examples/plugins/ with nothing but an installation, runs the tests that it has,
# trains three steps with it, then continues a text with the checkpoint.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
include(${CMAKE_CURRENT_LIST_DIR}/../support/run.cmake)
run(${CMAKE_COMMAND} --install ${BUILD} --component plugin_api --prefix ${WORK}/prefix)

set(model "vocab_size = 258\nhidden_size = 32\nnum_hidden_layers = 3\n")
set(albert "inner_size = 48\nintermediate_size = 64\nnum_attention_heads = 2\n")
set(bloom "num_attention_heads = 2\n")
set(griffin "intermediate_size = 96\nnum_attention_heads = 2\n")
set(mamba2 "state_size = 8\nhead_dim = 16\n")
set(rwkv7 "head_dim = 16\ndecay_low_rank_dim = 4\n")
set(plain_c "num_attention_heads = 2\nintermediate_size = 64\n")
set(mingru "intermediate_size = 96\nstate_size = 40\n")
set(xielu "intermediate_size = 96\nnum_attention_heads = 2\n")
foreach(name ${NAMES})
  run(${CMAKE_COMMAND} -S ${PLUGINS}/${name} -B ${WORK}/${name} -DCMAKE_PREFIX_PATH=${WORK}/prefix
      -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_FLAGS=-O1 -Wall -Wextra -Werror"
      -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DLAMINA_PROGRAM=${LAMINA})
  run(${CMAKE_COMMAND} --build ${WORK}/${name})
  run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/${name} --output-on-failure)
  file(WRITE ${WORK}/${name}.toml "family = \"${name}\"
[model]
${model}${${name}}
[data]
train = [\"${TEXT}\"]
sequence_length = 32
[train]
steps = 3
batch_size = 2
[run]
out = \"${WORK}/run_${name}\"
")
  set(plugin --plugin ${WORK}/${name}/lib/lamina/plugins/${name}.lamina.so)
  run(${LAMINA} train ${WORK}/${name}.toml ${plugin} -q)
  run(${LAMINA} decode -m ${WORK}/run_${name} ${plugin} -p "The" -n 4 --temp 0 -q)
endforeach()
