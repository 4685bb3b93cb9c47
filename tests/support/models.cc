#include "support/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "backends/cpu/backend.h"
#include "backends/cpu/threads/threads.h"
#include "conformance/check.h"
#include "conformance/subjects/small_models.h"
#include "core/json.h"
#include "model/open.h"
#include "registry/library.h"
#include "support/goldens.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::testing {

namespace fs = std::filesystem;

const registry::Catalog& built_plugins() {
  static const registry::Catalog catalog =
      registry::Catalog::scan({.named_folders = {fs::path(LAMINA_BUILD_DIR) / "lib/lamina/plugins",
                                                 fs::path(LAMINA_BUILD_DIR) / "tests/plugins"}});
  return catalog;
}

namespace {

std::vector<TestModel> find_models() {
  std::vector<TestModel> out;
  for (const fs::path& directory : golden_folders("hf", "golden.safetensors"))
    if (!directory.filename().string().starts_with("train_") && reason_to_skip(directory).empty())
      out.push_back({directory.filename().string(), directory});
  std::vector<fs::path> files;
  for (const char* plugins : {"plugins", "examples/plugins", "tests/support/plugins"})
    for (const auto& plugin : fs::directory_iterator(fs::path(LAMINA_SOURCE_DIR) / plugins))
      if (fs::exists(plugin.path() / "check"))
        for (const auto& entry : fs::directory_iterator(plugin.path() / "check"))
          files.push_back(entry.path());
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.filename(); });
  for (const fs::path& file : files) out.push_back({file.stem().string(), file});
  return out;
}

// A description has no tokenizer beside it.
decoder::ModelOptions options_for(const fs::path& path, bool scan_layers) {
  decoder::ModelOptions out{.scan_layers = scan_layers};
  if (!fs::is_directory(path)) out.compress_tokens = conformance::tokens_of_two;
  return out;
}

decoder::Model open_with(const fs::path& path, const decoder::ModelOptions& options) {
  decoder::Model model = std::move(*model::open(path.string(), built_plugins(), options).model);
  ::testing::Test::RecordProperty("family", model.family().name());
  return model;
}

// Changes weights that start at zero, which would hide mistakes.
void wake_convolutions(const decoder::Model& model, DType compute,
                       const weights::Weights& weights) {
  for (std::size_t i = 0; i < weights.pointers().size(); ++i) {
    const decoder::Parameter& p = model.parameters().all()[i];
    if (p.desc.role != registry::Role::conv || p.desc.init.kind != registry::InitSpec::Kind::zeros)
      continue;
    std::vector<float> values(static_cast<std::size_t>(p.num_elements()));
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = static_cast<float>(k * 37 % 11) / 10 - 0.5f;
    weights::store(values, p.used_dtype(compute), 0,
                   host_view<std::byte>(weights.own_tensor(static_cast<int>(i))).data());
  }
}

}  // namespace

const std::vector<TestModel>& test_models() {
  static const std::vector<TestModel> models = find_models();
  return models;
}

const TestModel& test_model(std::string_view name) {
  const auto found = std::ranges::find(test_models(), name, &TestModel::name);
  if (found == test_models().end())
    throw std::runtime_error(fmt::format("no small model is called '{}'", name));
  return *found;
}

std::string changed_text(const TestModel& model, const std::string& lines) {
  std::ifstream file(model.path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  constexpr std::string_view kTable = "[model]\n";
  const std::size_t at = text.find(kTable);
  if (at == text.npos) throw std::runtime_error(model.path.string() + " has no [model]");
  return text.insert(at + kTable.size(), lines);
}

// Called before the first test, so each process pays for it: it reads files and builds no model.
std::vector<TestModel> one_model_of_each_family() {
  std::map<std::string, TestModel> first;
  for (const TestModel& model : test_models())
    if (model.path.extension() == ".toml")
      first.emplace(config::load_model(model.path).family, model);
  std::vector<TestModel> out;
  for (const auto& [family, model] : first) out.push_back(model);
  return out;
}

conformance::ModelCase case_of(const TestModel& model) {
  return {.name = model.name,
          .open = [model](bool scan_layers) { return open_model(model.path, scan_layers); },
          .load = [model](const decoder::Model& of,
                          DType compute) { return load_weights(model, of, compute); },
          .compute = {.backend = &cpu::cpu_backend(),
                      .set_threads = [](int count) { cpu::set_threads(count, false); }},
          .hidden_tolerance = stated_tolerance(model, "hidden_max_abs_over_max", 2e-5),
          .gradient_tolerance = stated_tolerance(model, "grad_max_abs_over_max", 2e-5)};
}

void expect_conforms(void (*check)(const conformance::ModelCase&), const TestModel& model) {
  try {
    check(case_of(model));
  } catch (const conformance::Skipped& nothing) {
    GTEST_SKIP() << nothing.what();
  } catch (const conformance::Failure& found) {
    ADD_FAILURE() << found.what();
  }
}

double stated_tolerance(const TestModel& model, const char* key, double usual) {
  const fs::path file = model.path / "golden.json";
  if (!fs::is_directory(model.path) || !fs::exists(file)) return usual;
  JsonDocument document = JsonDocument::read(file.string(), {.code = ExitCode::checkpoint});
  JsonValue all = document.root().find("tolerance");
  JsonValue stated = all ? all.find(key) : JsonValue{};
  return stated ? std::max(usual, stated.as_double()) : usual;
}

std::string reason_to_skip(const fs::path& directory) {
  JsonDocument document =
      JsonDocument::read((directory / "config.json").string(), {.code = ExitCode::checkpoint});
  std::string type(document.root().at("model_type").as_string());
  std::vector<std::string> architectures;
  if (JsonValue list = document.root().find("architectures"))
    for (JsonValue name : list.elements()) architectures.emplace_back(name.as_string());
  const registry::Catalog& catalog = built_plugins();
  if (!catalog.broken().empty())
    throw std::runtime_error("a plugin that was built cannot be used: " +
                             catalog.broken().front().path.string());
  try {
    catalog.find_published(type, architectures, directory.string());
  } catch (const PluginError&) {
    return "no plugin that is built reads model_type '" + type + "'";
  }
  return "";
}

decoder::Model open_model(const fs::path& path, bool scan_layers) {
  return open_with(path, options_for(path, scan_layers));
}

decoder::Model open_source(const config::ModelSource& source) {
  return model::make(source, built_plugins(), {.compress_tokens = conformance::tokens_of_two});
}

decoder::Model open_description(const std::string& text, bool scan_layers,
                                const fs::path& directory) {
  TempDir folder;
  decoder::ModelOptions options{.scan_layers = scan_layers};
  options.compress_tokens = conformance::tokens_of_two;
  if (!directory.empty() && text::has_tokenizer(directory.string()))
    options.compress_tokens = [&](std::int64_t) {
      return model::compressed_tokens(*text::load_tokenizer(directory.string()));
    };
  return open_with(folder.write("model.toml", text), options);
}

weights::Weights load_weights(const TestModel& from, const decoder::Model& model, DType compute) {
  const Backend& backend = cpu::cpu_backend();
  if (!fs::is_directory(from.path)) {
    weights::Weights fresh = weights::Weights::initialise(model, 7, compute, backend);
    wake_convolutions(model, compute, fresh);
    return fresh;
  }
  return weights::Weights::load(model, std::make_shared<io::WeightFiles>(from.path.string()),
                                compute, backend);
}

std::unique_ptr<train::TrainState> load_state(const TestModel& from, const decoder::Model& model,
                                              DType compute, bool accumulate) {
  auto state = std::make_unique<train::TrainState>(model.parameters(), compute, accumulate,
                                                   cpu::cpu_backend());
  weights::Weights weights = load_weights(from, model);
  const std::vector<std::vector<float>> values = copy_of(model, weights.pointers());
  for (std::size_t i = 0; i < values.size(); ++i)
    std::ranges::copy(values[i], floats(state->masters()[i]));
  state->refresh_copies();
  return state;
}

std::vector<float> forward(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                           const Rows& rows, DType dtype) {
  return inspect::forward(model, parameters, rows, {.dtype = dtype}, cpu::cpu_backend()).logits;
}

inspect::ForwardResult forward_with_hidden(const decoder::Model& model,
                                           std::span<const ConstTensorRef> parameters,
                                           const Rows& rows) {
  return inspect::forward(model, parameters, rows, {.hidden = true}, cpu::cpu_backend());
}

}  // namespace lamina::testing
