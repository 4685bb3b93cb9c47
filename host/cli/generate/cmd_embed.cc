// lamina embed: writes the hidden states of a text to a safetensors file.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "cli/generate/generation_options.h"
#include "cli/generate/prompt.h"
#include "cli/plan/device_memory.h"
#include "cli/shell/command.h"
#include "cli/shell/load_model.h"
#include "cli/shell/output_file.h"
#include "cli/shell/signals.h"
#include "cli/shell/status_line.h"
#include "cli/shell/weight_choice.h"
#include "core/error.h"
#include "core/printable.h"
#include "decoder/call_limits.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/hidden_states.h"
#include "model/results.h"

namespace lamina::cli {
namespace {

// "last": the input of the head; "embed": the input of the first layer; a number: a layer's output.
constexpr const char* kLast = "last";

constexpr const char *kFormatKey = "format", *kFormat = "lamina hidden states";  // of the file

bool has_hidden_states(const std::string& path) {
  try {
    const io::SafetensorsFile file(path);
    const auto format = file.metadata().find(kFormatKey);
    return format != file.metadata().end() && format->second == kFormat;
  } catch (const Error&) {
    return false;
  }
}

// Names without an ending are accepted: of device nodes, and of files made by mktemp.
void check_states_file(const std::string& path, const std::vector<std::string>& inputs) {
  const io::Destination to =
      check_output_file(path, inputs, {"a file of `lamina embed`", has_hidden_states});
  const std::string ending = std::filesystem::path(path).extension().string();
  if (to.in_place || ending.empty() || ending == ".safetensors") return;
  throw UserError(
      ExitCode::usage,
      {path,
       fmt::format("ends with '{}'; hidden states are written as .safetensors only",
                   printable(ending)),
       {fmt::format(
           "use -o {}",
           printable(std::filesystem::path(path).replace_extension(".safetensors").string()))}});
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// The index in HiddenStates::layers of a layer's output.
std::size_t output_of(const std::string& word, std::int64_t num_layers) {
  if (word == "embed") return 0;
  std::int64_t layer = -1;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), layer);
  if (error == std::errc() && end == word.data() + word.size() && layer >= 0 && layer < num_layers)
    return static_cast<std::size_t>(layer + 1);
  throw UserError(
      ExitCode::usage,
      {"--layers",
       fmt::format("got '{}'; expected numbers from 0 to {}, embed, last or all, separated "
                   "by commas",
                   word, num_layers - 1),
       {}});
}

// Names of tensors and the layer output for each; none for the last state.
std::map<std::string, std::optional<std::size_t>> wanted_tensors(const std::string& layers,
                                                                 std::int64_t num_layers) {
  std::map<std::string, std::optional<std::size_t>> out;
  auto add = [&](std::size_t output) {
    out[output == 0 ? "hidden.embed" : fmt::format("hidden.{}", output - 1)] = output;
  };
  for (const std::string& word : words_of(layers)) {
    const bool all = word == "all";
    if (all || word == kLast) out["last_hidden_state"] = std::nullopt;
    if (all)
      for (std::int64_t i = 0; i <= num_layers; ++i) add(static_cast<std::size_t>(i));
    else if (word != kLast)
      add(output_of(word, num_layers));
  }
  return out;
}

// Refuses more tokens than the model has positions, or than --ctx-size permits.
void check_room(const Arguments& a, const decoder::Model& model, std::size_t num_tokens) {
  const auto length = static_cast<std::int64_t>(num_tokens);
  model.check_length(length, "the length of the text");
  const std::optional<std::int64_t> room =
      a.has("ctx-size") ? a.integer("ctx-size") : model.max_length();
  if (room && length > *room) refuse_length(a, "the text", length, *room);
  warn_of_positions(model, a.has("ctx-size") ? length : 0);
}

void check_embed_memory(const decoder::Model& model, DType dtype, std::int64_t tokens,
                        const Device& device, WeightsAre weights) {
  if (!has_own_memory(device)) return;
  MemoryNeed need = graphs_need(
      model, dtype,
      {model.forward_graph({1, tokens, dtype}, {.hidden = true, .normed = true, .logits = false})},
      device.backend());
  if (weights == WeightsAre::loaded) need.erase(need.begin());
  check_memory(need, device, "embed", advice_on_memory("a shorter text"), weights);
}

model::HiddenStates compute(const Arguments& a, const model::Loaded& m,
                            std::span<const std::int32_t> tokens, DType dtype, bool layers,
                            const Device& device) {
  StatusLine status(a.globals.quiet, a.globals.color);
  return model::hidden_states(m.model(), m.weights.pointers(), tokens,
                              {.dtype = dtype,
                               .layers = layers,
                               .progress =
                                   [&status](std::int64_t done, std::int64_t total) {
                                     end_if_asked();
                                     status.show(done == total, [&](double seconds) {
                                       return count_line(
                                           "embedding", "layers", static_cast<std::uint64_t>(done),
                                           static_cast<std::uint64_t>(total), seconds);
                                     });
                                   }},
                              device.backend());
}

int embed(const Arguments& a, const Device& device) {
  check_prompt_options(a);
  check_states_file(a.text("output"), given_files(a, {"model", "file"}));
  const DType dtype = *parse_dtype(a.text("dtype"));
  // Before the text is read: for one token.
  const model::Loaded m =
      load_model(a.text("model"), a.globals, dtype, device, weight_choice(a),
                 [&](const decoder::Model& model) {
                   check_embed_memory(model, dtype, 1, device, WeightsAre::to_be_loaded);
                 });
  const std::vector<std::int32_t> tokens =
      read_prompt(a, m.opened.directory, m.tokenizer.get(), m.model()).ids;
  check_room(a, m.model(), tokens.size());
  const auto wanted = wanted_tensors(a.text("layers"), m.model().config().num_layers());
  const bool layers =
      std::ranges::any_of(wanted, [](const auto& w) { return w.second.has_value(); });
  check_embed_memory(m.model(), dtype, static_cast<std::int64_t>(tokens.size()), device,
                     WeightsAre::loaded);
  end_if_asked();
  const model::HiddenStates states = compute(a, m, tokens, dtype, layers, device);

  const auto length = static_cast<std::int64_t>(tokens.size());
  const std::int64_t width = m.model().hidden_size();
  auto values_of = [&](const std::optional<std::size_t>& output) -> const std::vector<float>& {
    return output ? states.layers[*output] : states.normed;
  };
  std::vector<io::TensorSpec> specs = {{"ids", DType::i32, {length}}};
  for (const auto& [name, output] : wanted) {
    if (!std::ranges::all_of(values_of(output), [](float x) { return std::isfinite(x); }))
      model::refuse_results(m,
                            {"embed", fmt::format("the values of '{}' are not finite", name), {}});
    const std::int64_t streams =
        static_cast<std::int64_t>(values_of(output).size()) / (length * width);
    specs.push_back(
        {name, DType::f32, streams == 1 ? Shape{length, width} : Shape{length, streams, width}});
  }
  io::sort_for_file(specs);
  io::write_safetensors(
      a.text("output"), specs, {{kFormatKey, kFormat}},
      [&](const io::TensorSpec& spec) {
        return spec.name == "ids" ? std::as_bytes(std::span(tokens))
                                  : std::as_bytes(std::span(values_of(wanted.at(spec.name))));
      },
      io::NamedBy::user);
  return 0;
}

int run_embed(const Arguments& a, const Device& device) {
  catch_stop_signals();
  try {
    return embed(a, device);
  } catch (const StopAsked&) {
    return 128 + stop_signal();
  }
}

}  // namespace

Command embed_command() {
  Option output = text_option("output", 'o', "FILE",
                              "The safetensors file to write. Only an earlier one is overwritten.");
  output.key.required = true;
  Option layers = text_option(
      "layers", 0, "LIST",
      "States, separated by commas: last (the input of the head, after the final norm), "
      "embed (the input of the first layer), the number of a layer (its output), all.");
  layers.key.preset = Value(kLast);
  return {
      .name = "embed",
      .summary = "writes the hidden states of a text",
      .details =
          "The file has ids, and f32 tensors with a row per token: last_hidden_state, "
          "hidden.embed, hidden.0 and so on. Layer outputs are before the final norm; a model "
          "with several residual streams has a row per stream.",
      .options = {required_model_option(), adapter_option(), weights_option(), packed_option(),
                  quantize_option(), quantize_rule_option(), output,
                  text_option("prompt", 'p', "TEXT", "The text."),
                  text_option("file", 'f', "FILE", "Read the text from a file; - is stdin."),
                  text_option("ids", 0, "1,2,3", "Token ids instead of a text."), layers,
                  integer_option("ctx-size", 0, {},
                                 "Most tokens of a text; default: the model's positions.", 1,
                                 decoder::kMaxTokens),
                  dtype_option("float32"), device_option()},
      .examples = {"lamina embed -m model -p \"Who are you?\" -o states.safetensors",
                   "lamina embed -m model --ids 1,2,3 --layers embed,0,last -o states.safetensors"},
      .run = run_embed};
}

}  // namespace lamina::cli
