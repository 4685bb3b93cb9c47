#include "decoder/engram/engram.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "config/model_keys.h"
#include "core/error.h"
#include "decoder/engram/ngram_tables.h"

namespace lamina::decoder {
namespace {

constexpr std::string_view kBases = "engram_vocab_bases";
constexpr std::string_view kLength = "engram_max_ngram_size";

std::vector<std::int64_t> integers(const registry::ModelConfig& config, std::string_view key) {
  std::vector<std::int64_t> out;
  for (const config::Value& value : config.values().list(key))
    out.push_back(*value.get_if<std::int64_t>());
  return out;
}

template <typename... Args>
[[noreturn]] void refuse(const registry::ModelConfig& config, std::string_view key,
                         std::vector<std::string> notes, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw UserError(ExitCode::usage,
                  {config.values().where(key, config.where()),
                   fmt::format("'{}': {}", key, fmt::format(format, std::forward<Args>(args)...)),
                   std::move(notes)});
}

void check_layers(const registry::ModelConfig& config, std::vector<std::int64_t> layers) {
  std::ranges::sort(layers);
  if (layers.back() >= config.num_layers())
    refuse(config, config::kEngramLayers, {},
           "layer {} is outside the stack; there are {} layers, from 0", layers.back(),
           config.num_layers());
  if (auto twice = std::ranges::adjacent_find(layers); twice != layers.end())
    refuse(config, config::kEngramLayers, {}, "layer {} is named twice", *twice);
}

// Must run before any table is laid out, because the primes are larger than the bases and than the
// number of tables.
void check_sizes(const registry::ModelConfig& config, const std::vector<std::int64_t>& bases,
                 std::int64_t length, std::int64_t heads) {
  if (std::ssize(bases) != length - 1)
    refuse(config, kBases, {config.describe(kLength)},
           "must have one element for each length of n-grams from 2 to {}, so {}; got {}", length,
           length - 1, bases.size());
  double rows = 0;
  for (std::int64_t base : bases) rows += static_cast<double>(base) * static_cast<double>(heads);
  if (rows > std::numeric_limits<std::int32_t>::max())
    refuse(config, kBases, {config.describe("engram_num_heads")},
           "the tables of a layer would have more than {:.3g} rows; the maximum is 2^31 - 1", rows);
}

std::vector<EngramLayer> lay_out(const registry::ModelConfig& config, std::int64_t vocabulary) {
  const config::Table& values = config.values();
  const std::vector<std::int64_t> layers = integers(config, config::kEngramLayers),
                                  bases = integers(config, kBases);
  const std::int64_t length = values.integer(kLength), heads = values.integer("engram_num_heads");
  check_sizes(config, bases, length, heads);
  const NgramTableSizes sizes = ngram_table_sizes(layers.size(), bases, heads);
  std::vector<EngramLayer> out;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    EngramLayer& layer = out.emplace_back();
    layer.layer = layers[i];
    layer.multipliers =
        ngram_multipliers(vocabulary, values.integer("engram_seed"), layers[i], length);
    for (const auto& of_length : sizes[i])
      layer.sizes.insert(layer.sizes.end(), of_length.begin(), of_length.end());
    if (layer.num_rows() > std::numeric_limits<std::int32_t>::max())
      refuse(config, kBases, {}, "the tables of layer {} have {} rows; the maximum is 2^31 - 1",
             layer.layer, layer.num_rows());
  }
  return out;
}

}  // namespace

CompressedTokens uncompressed_tokens(std::int64_t vocabulary) {
  // More than tokenizers have. A number in a file must not decide how much memory it takes.
  constexpr std::int64_t kMaxListed = 1 << 20;
  const auto size = static_cast<std::size_t>(std::min(vocabulary, kMaxListed));
  CompressedTokens out{.ids = std::vector<std::int32_t>(size), .count = vocabulary, .pad = 0};
  std::iota(out.ids.begin(), out.ids.end(), 0);
  return out;
}

std::int64_t EngramLayer::num_rows() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

const EngramLayer* Engram::find(std::int64_t layer) const {
  auto at = std::ranges::find(layers, layer, &EngramLayer::layer);
  return at == layers.end() ? nullptr : &*at;
}

std::optional<Engram> read_engram(const registry::ModelConfig& config,
                                  const CompressTokens& compress) {
  const config::Table& values = config.values();
  if (!config.is_host_key(config::kEngramLayers) || !values.has(config::kEngramLayers)) return {};
  check_layers(config, integers(config, config::kEngramLayers));
  if (!compress)
    refuse(config, config::kEngramLayers,
           {"give a directory that has a tokenizer beside the model, or remove the Engram layers"},
           "n-grams are hashed from the tokenizer's tokens, and there is no tokenizer");
  CompressedTokens tokens = compress(config.vocab_size());
  if (!tokens.pad)
    refuse(config, config::kEngramLayers,
           {"name a pad_token in the tokenizer's tokenizer_config.json"},
           "n-grams at the start of a text are padded with the tokenizer's padding token, and it "
           "has none");
  return Engram{.layers = lay_out(config, tokens.count),
                .ids = std::move(tokens.ids),
                .pad = *tokens.pad,
                .max_ngram = values.integer(kLength),
                .head_dim = values.integer("engram_head_dim"),
                .kernel_size = values.integer("engram_kernel_size"),
                .norm_eps = values.number(config::kEngramNormEps),
                .across_documents = values.boolean("engram_across_documents")};
}

}  // namespace lamina::decoder
