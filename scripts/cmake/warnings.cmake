# One INTERFACE target with the warnings of all our code; -Werror comes from the presets.
add_library(lamina_warnings INTERFACE)
add_library(lamina::warnings ALIAS lamina_warnings)
target_compile_options(lamina_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual
  -Wno-missing-field-initializers)
