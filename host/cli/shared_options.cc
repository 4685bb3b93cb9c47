// Options that every command has, and those that several share.
#include "backends/cpu/threads.h"
#include "cli/parse.h"

namespace lamina::cli {

const std::vector<Option>& global_options() {
  static const std::vector<Option> options = {
      {.key = {.name = "help", .type = Type::boolean, .doc = "Show this help."}, .short_name = 'h'},
      {.key = {.name = "version", .type = Type::boolean, .doc = "Show the version."}},
      {.key = {.name = "quiet", .type = Type::boolean, .doc = "Warnings and errors only."},
       .short_name = 'q'},
      {.key = {.name = "verbose", .type = Type::boolean, .doc = "Say more on stderr."},
       .short_name = 'v',
       .repeatable = true},
      {.key = {.name = "color",
               .type = Type::string,
               .preset = Value("auto"),
               .choices = {"auto", "always", "never"},
               .doc = "When to colour messages; NO_COLOR=1 also disables colour."},
       .value = "WHEN"},
      {.key = {.name = "threads",
               .type = Type::integer,
               .preset_text = "all available cores",
               .min = 1,
               .max = cpu::kMaxThreads,
               .doc = "Threads of the CPU backend."},
       .short_name = 't',
       .value = "N"},
      {.key = {.name = "plugin",
               .type = Type::string,
               .doc = "Load this plugin first; may be repeated."},
       .value = "FILE",
       .repeatable = true},
      {.key = {.name = "plugin-path",
               .type = Type::string,
               .doc = "Look for plugins here before LAMINA_PLUGIN_PATH; separate with colons."},
       .value = "DIRS",
       .repeatable = true},
  };
  return options;
}

Option json_option() {
  return {.key = {.name = "json",
                  .type = Type::boolean,
                  .doc = "Print one JSON object on stdout instead of text."}};
}

Option set_option() {
  return {.key = {.name = "set",
                  .type = Type::string,
                  .doc = "Override a key of the run file, eg: --set train.steps=100; may be "
                         "repeated."},
          .value = "KEY=VALUE",
          .repeatable = true};
}

}  // namespace lamina::cli
