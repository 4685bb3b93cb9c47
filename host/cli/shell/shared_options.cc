// Options of every command, and options shared by several.
#include <fmt/format.h>

#include "cli/shell/parse.h"
#include "core/error.h"
#include "device/device.h"

namespace lamina::cli {

const std::vector<Option>& global_options() {
  static const std::vector<Option> options = {
      {.key = {.name = "help", .type = Type::boolean, .doc = "Show this help."}, .short_name = 'h'},
      {.key = {.name = "version", .type = Type::boolean, .doc = "Show the version."}},
      {.key = {.name = "quiet", .type = Type::boolean, .doc = "Warnings and errors only."},
       .short_name = 'q'},
      {.key = {.name = "verbose", .type = Type::boolean, .doc = "Print more to stderr."},
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
               .max = device::kMaxThreads,
               .doc = "Threads of the CPU backend."},
       .short_name = 't',
       .value = "N"},
      {.key = {.name = "plugin",
               .type = Type::string,
               .doc = "Load this plugin first; may be repeated.",
               .path = true},
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

Option raw_option() {
  return flag_option("raw", "Print control characters to a terminal unchanged.");
}

Option dtype_option(std::optional<std::string> preset, std::string doc) {
  return choice_option("dtype", "TYPE", {"float32", "bfloat16"}, std::move(preset), std::move(doc));
}

Option model_option() {
  return text_option("model", 'm', "DIR",
                     "A Hugging Face directory, a GGUF file, a checkpoint or a run directory.");
}

Option required_model_option() {
  Option out = model_option();
  out.key.required = true;
  return out;
}

Option adapter_option() {
  return {.key = {.name = "adapter",
                  .type = Type::string,
                  .doc = "An adapter of the model: a directory as PEFT saves it "
                         "(adapter_config.json), a checkpoint, or a run directory.",
                  .path = true},
          .value = "DIR"};
}

Option device_option() {
  Option out = text_option("device", 0, "NAME",
                           "Device to compute on: auto, cpu, cuda or cuda:N. auto is the "
                           "accelerator, or the CPU where there is none.");
  out.key.preset = Value("auto");
  return out;
}

void require_computing(const Device& device) {
  if (!device.computes())
    throw UserError(
        ExitCode::usage,
        {"--device",
         fmt::format("{} is known only by its data sheet: it computes nothing", device.name()),
         {"`lamina explain`, `lamina plan`, and `lamina train` with --dry-run or --fit take it"}});
}

std::string adapter_path(const Arguments& a) { return a.has("adapter") ? a.text("adapter") : ""; }

Option set_option() {
  return {.key = {.name = "set",
                  .type = Type::string,
                  .doc = "Override a key of the run file, eg: --set train.steps=100; may be "
                         "repeated."},
          .value = "KEY=VALUE",
          .repeatable = true};
}

Option set_model_option() {
  Option out = set_option();
  out.key.doc =
      "Override a key of the model, eg: --set model.num_hidden_layers=2; may be repeated.";
  return out;
}

Option text_option(std::string name, char short_name, std::string value, std::string doc) {
  const bool path = value == "FILE" || value == "DIR";
  return {
      .key = {.name = std::move(name), .type = Type::string, .doc = std::move(doc), .path = path},
      .short_name = short_name,
      .value = std::move(value)};
}

Option flag_option(std::string name, std::string doc, bool negatable) {
  return {.key = {.name = std::move(name), .type = Type::boolean, .doc = std::move(doc)},
          .negatable = negatable};
}

Option integer_option(std::string name, char short_name, std::optional<std::int64_t> preset,
                      std::string doc, double min, std::optional<double> max) {
  Option out{.key = {.name = std::move(name),
                     .type = Type::integer,
                     .min = min,
                     .max = max,
                     .doc = std::move(doc)},
             .short_name = short_name,
             .value = "N"};
  if (preset) out.key.preset = Value(*preset);
  return out;
}

Option number_option(std::string name, double preset, std::string doc, double min,
                     std::optional<double> max) {
  return {.key = {.name = std::move(name),
                  .type = Type::number,
                  .preset = Value(preset),
                  .min = min,
                  .max = max,
                  .wide = true,
                  .doc = std::move(doc)},
          .value = "X"};
}

Option choice_option(std::string name, std::string value, std::vector<std::string> choices,
                     std::optional<std::string> preset, std::string doc) {
  Option out{.key = {.name = std::move(name), .type = Type::string}, .value = std::move(value)};
  if (preset) out.key.preset = Value(*preset);
  out.key.choices = std::move(choices);
  out.key.doc = std::move(doc);
  return out;
}

}  // namespace lamina::cli
