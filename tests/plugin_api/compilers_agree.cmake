# Builds a shipped plugin whose blocks leave the order of calls to the compiler (`a(...) + b(...)`)
# with each of two compilers; models trained with the two have the same bits.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
include(${CMAKE_CURRENT_LIST_DIR}/../support/run.cmake)
run(${CMAKE_COMMAND} --install ${BUILD} --component plugin_api --prefix ${WORK}/prefix)

file(WRITE ${WORK}/source/CMakeLists.txt "cmake_minimum_required(VERSION 3.24)
project(llama LANGUAGES CXX)
find_package(lamina_plugin_api REQUIRED)
file(GLOB sources ${PLUGINS}/llama/*.cc)
lamina_add_plugin(llama SOURCES \${sources})
")
file(WRITE ${WORK}/run.toml "family = \"default\"
[model]
vocab_size = 258
hidden_size = 32
num_hidden_layers = 3
intermediate_size = 48
num_attention_heads = 4
[data]
train = [\"${TEXT}\"]
sequence_length = 32
[train]
steps = 5
batch_size = 2
")
set(first)
foreach(compiler ${CXX} ${OTHER_CXX})
  cmake_path(GET compiler FILENAME name)
  run(${CMAKE_COMMAND} -S ${WORK}/source -B ${WORK}/${name} -DCMAKE_PREFIX_PATH=${WORK}/prefix
      -DCMAKE_CXX_COMPILER=${compiler} -DCMAKE_CXX_FLAGS=-O0
      -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
  run(${CMAKE_COMMAND} --build ${WORK}/${name})
  run(${LAMINA} train ${WORK}/run.toml -q --out ${WORK}/run_${name}
      --plugin ${WORK}/${name}/lib/lamina/plugins/llama.lamina.so)
  set(weights ${WORK}/run_${name}/checkpoints/step-00000005/model.safetensors)
  if(first)
    run(${CMAKE_COMMAND} -E compare_files ${first} ${weights})
  endif()
  set(first ${weights})
endforeach()
