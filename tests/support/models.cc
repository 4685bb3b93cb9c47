#include "support/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backends/cpu/backend.h"
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
  for (const auto& entry :
       fs::directory_iterator(fs::path(LAMINA_SOURCE_DIR) / "tests/support/models"))
    files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) out.push_back({file.stem().string(), file});
  return out;
}

// Of a tokenizer some of whose tokens are the same but for spelling.
decoder::CompressedTokens tokens_of_two(std::int64_t vocabulary) {
  decoder::CompressedTokens out = decoder::uncompressed_tokens(vocabulary);
  for (std::int32_t& id : out.ids) id -= id / 5;
  out.count = out.ids.back() + 1;
  out.pad = out.ids[static_cast<std::size_t>(vocabulary / 2)];
  return out;
}

// A description has no tokenizer beside it.
decoder::ModelOptions options_for(const fs::path& path, bool scan_layers) {
  decoder::ModelOptions out{.scan_layers = scan_layers};
  if (!fs::is_directory(path)) out.compress_tokens = tokens_of_two;
  return out;
}

decoder::Model open_with(const fs::path& path, const decoder::ModelOptions& options) {
  decoder::Model model = std::move(*model::open(path.string(), built_plugins(), options).model);
  ::testing::Test::RecordProperty("family", model.family().name());
  return model;
}

// Those that start at zero would say nothing about what they do.
void wake_convolutions(const decoder::Model& model, DType compute,
                       std::span<void* const> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const decoder::Parameter& p = model.parameters().all()[i];
    if (p.desc.role != registry::Role::conv || p.desc.init.kind != registry::InitSpec::Kind::zeros)
      continue;
    std::vector<float> values(static_cast<std::size_t>(p.num_elements()));
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = static_cast<float>(k * 37 % 11) / 10 - 0.5f;
    weights::store(values, p.used_dtype(compute), 0, static_cast<std::byte*>(parameters[i]));
  }
}

template <typename Pointer>
std::vector<std::vector<float>> copies(const decoder::Model& model, std::span<Pointer const> from) {
  std::vector<std::vector<float>> out;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const decoder::Parameter& p = model.parameters().all()[i];
    const auto n = static_cast<std::size_t>(p.num_elements());
    if (!from[i])
      out.emplace_back(n);
    else if (std::is_same_v<Pointer, void*> && p.used_dtype(DType::f32) == DType::i32)
      out.emplace_back(static_cast<const std::int32_t*>(static_cast<const void*>(from[i])),
                       static_cast<const std::int32_t*>(static_cast<const void*>(from[i])) + n);
    else
      out.emplace_back(static_cast<const float*>(from[i]), static_cast<const float*>(from[i]) + n);
  }
  return out;
}

}  // namespace

const std::vector<TestModel>& test_models() {
  static const std::vector<TestModel> models = find_models();
  return models;
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
  if (fs::exists(directory / "adapter")) return "is of an adapter, and adapters are not applied";
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
  return model::make(source, built_plugins(), {.compress_tokens = tokens_of_two});
}

decoder::Model open_description(const std::string& text, bool scan_layers,
                                const fs::path& directory) {
  TempDir folder;
  decoder::ModelOptions options{.scan_layers = scan_layers};
  options.compress_tokens = tokens_of_two;
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
    wake_convolutions(model, compute, fresh.pointers());
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
  for (std::size_t i = 0; i < values.size(); ++i) std::ranges::copy(values[i], state->masters()[i]);
  state->refresh_copies();
  return state;
}

Rows random_rows(const decoder::Model& model, std::int64_t batch, std::int64_t tokens,
                 unsigned seed) {
  std::mt19937 random(seed);
  Rows rows{
      .batch = batch, .tokens = tokens, .ids = {}, .labels = {}, .positions = {}, .segments = {}};
  std::size_t n = static_cast<std::size_t>(batch * tokens);
  for (std::size_t i = 0; i < n; ++i)
    rows.ids.push_back(
        static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(model.vocab_size())));
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t t = static_cast<std::int64_t>(i) % tokens;
    rows.positions.push_back(static_cast<std::int32_t>(t));
    bool counted = t + 1 < tokens && random() % 8 != 0;
    rows.labels.push_back(counted ? rows.ids[i + 1] : -100);
  }
  rows.segments.assign(n, 1);
  return rows;
}

Rows pack(const std::vector<Rows>& documents, std::int64_t tokens) {
  Rows row{.batch = 1, .tokens = tokens, .ids = {}, .labels = {}, .positions = {}, .segments = {}};
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const Rows& document = documents[d];
    auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(row.ids, document.ids);
    append(row.labels, document.labels);
    append(row.positions, document.positions);
    row.segments.resize(row.ids.size(), static_cast<std::int32_t>(d + 1));
  }
  std::size_t n = static_cast<std::size_t>(tokens);
  row.ids.resize(n, 1);
  row.labels.resize(n, -100);
  row.positions.resize(n, 0);
  row.segments.resize(n, 0);
  return row;
}

std::int64_t test_tokens(const decoder::Model& model) {
  constexpr std::int64_t kTokens = 29;
  if (model.length_dependent_from()) return kTokens;
  return std::min(kTokens, model.config().max_positions().value_or(kTokens));
}

std::vector<float> forward(const decoder::Model& model, std::span<void* const> parameters,
                           const Rows& rows, DType dtype) {
  return inspect::forward(model, parameters, rows, {.dtype = dtype}, cpu::cpu_backend()).logits;
}

inspect::ForwardResult forward_with_hidden(const decoder::Model& model,
                                           std::span<void* const> parameters, const Rows& rows) {
  return inspect::forward(model, parameters, rows, {.hidden = true}, cpu::cpu_backend());
}

std::vector<std::vector<float>> copy_of(const decoder::Model& model, std::span<void* const> from) {
  return copies(model, from);
}
std::vector<std::vector<float>> copy_of(const decoder::Model& model, std::span<float* const> from) {
  return copies(model, from);
}

double difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(d <= worst)) worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return worst;
}

double relative_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 1e-30;
  for (float v : b) largest = std::max(largest, std::abs(static_cast<double>(v)));
  return difference(a, b) / largest;
}

void disturb(std::span<float> weights, double by, unsigned seed) {
  std::minstd_rand random(seed);
  for (float& w : weights) w *= static_cast<float>(random() % 2 == 0 ? 1 + by : 1 - by);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace lamina::testing
