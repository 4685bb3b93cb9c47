# Trains three steps with the example, then continues a text with the checkpoint.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
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
function(run expected)
  execute_process(COMMAND ${EMBED} ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE text
                  ERROR_VARIABLE errors)
  if(failed OR NOT text MATCHES "${expected}")
    message(FATAL_ERROR "${ARGN}: exit ${failed}\n${text}\n${errors}")
  endif()
endfunction()
run("^loss [0-9]" train ${WORK}/run.toml)
run("." decode ${WORK}/run "The")
