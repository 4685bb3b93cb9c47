// Every key that llama.cpp knows and that does not begin with the architecture: it is read (it
// changes something, or is refused by name), waits for another key, or is known to have no effect.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <variant>

#include "chat/form.h"
#include "config/value.h"
#include "core/error.h"
#include "decode/gguf_sampling.h"
#include "model/open.h"
#include "registry/library.h"
#include "support/gguf_builder.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/temp_dir.h"
#include "text/hf/byte_level.h"

namespace lamina::testing {
namespace {

using Texts = std::vector<std::string>;
using Numbers = std::vector<std::uint32_t>;
using Decimals = std::vector<float>;
using Value = std::variant<std::uint32_t, float, bool, std::string, Numbers, Texts, Decimals>;
using Metadata = std::map<std::string, Value>;

// A model of one layer with a vocabulary of 32 tokens in SentencePiece's form.
Metadata sentencepiece_model() {
  Texts tokens{"<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581ab"};
  Numbers types{2, 3, 3, 1, 1, 1, 1, 1};
  Decimals scores{0, 0, 0, -1, -2, -3, -1, -1};
  while (tokens.size() < 32) {
    tokens.push_back(fmt::format("<t{}>", tokens.size()));
    types.push_back(3);
    scores.push_back(0);
  }
  return {{"general.architecture", "llama"},
          {"llama.block_count", 1u},
          {"llama.embedding_length", 32u},
          {"llama.feed_forward_length", 64u},
          {"llama.context_length", 128u},
          {"llama.attention.head_count", 4u},
          {"llama.attention.layer_norm_rms_epsilon", 1e-5f},
          {"tokenizer.ggml.model", "llama"},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.scores", scores},
          {"tokenizer.chat_template", "{{ messages[0].content }}"}};
}

// Likewise of bytes and one merge.
Metadata byte_level_model() {
  Metadata out = sentencepiece_model();
  Texts tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(text::byte_level_spelling(std::string(1, static_cast<char>(byte))));
  tokens.emplace_back("ab");
  out.erase("tokenizer.ggml.scores");
  out["tokenizer.ggml.model"] = std::string("gpt2");
  out["tokenizer.ggml.pre"] = std::string("gpt-2");
  out["tokenizer.ggml.token_type"] = Numbers(tokens.size(), 1);
  out["tokenizer.ggml.tokens"] = tokens;
  out["tokenizer.ggml.merges"] = Texts{"a b"};
  return out;
}

std::string show(const decode::GgufSampling& sampling) {
  return fmt::format("{} {}\n", fmt::join(sampling.config.used, ","),
                     fmt::join(sampling.missing, ","));
}

// Returns the contents of such a file: values of the model, tokens, sampling, rendered texts; or
// its error.
std::string observed(const Metadata& keys) {
  GgufBuilder gguf;
  for (const auto& [key, value] : keys) std::visit([&](const auto& v) { gguf.set(key, v); }, value);
  gguf.tensor("token_embd.weight", {32, 3}, std::vector<float>(96));
  TempDir dir;
  const std::string path = dir.write("m.gguf", gguf.bytes());
  std::string out;
  try {
    const model::Description described = model::describe(path, built_plugins());
    const registry::ModelConfig config =
        registry::load_family(built_plugins(), described.source)
            .configure(described.source.raw, described.source.where);
    for (const config::Entry& entry : config.values().entries())
      out += fmt::format("{} = {}\n", entry.key, config::to_toml(entry.value));
    out += fmt::format("ends {}\n", fmt::join(described.end_tokens, ","));
    decode::GenerateOptions options;
    out += show(decode::apply_gguf_sampling(io::GgufFile(path), options));
    const auto tokenizer = text::load_tokenizer(path);
    for (const char* text : {" ab  a", "<s>ab", "</s> ab", "z"})
      out += fmt::format("{}\n", fmt::join(tokenizer->encode(text, {.parse_special = true}), ","));
    out += fmt::format("{} {} {}\n", tokenizer->bos_id().value_or(-1),
                       tokenizer->eos_id().value_or(-1), tokenizer->pad_id().value_or(-1));
    chat::Conversation conversation;
    conversation.add("user", "hi");
    const chat::Form form = chat::Form::load(path);
    out += form.render(conversation, {.now = std::tm{}}).text;
    out += fmt::format(" {}", fmt::join(form.own_text(), "|"));
  } catch (const Error& error) {
    out += error.what();
  }
  return out;
}

struct OtherKey {
  std::string name;
  std::vector<Value> values;  // unlike the models' values
  std::string outcome;
};

std::vector<OtherKey> other_keys() {
  std::ifstream file(std::string(LAMINA_SOURCE_DIR) + "/tests/golden/gguf_other_keys.txt");
  const std::map<std::string, std::vector<Value>> values{
      {"n", {24u}},           {"f", {0.375f}},
      {"b", {true, false}},   {"t", {Value(std::string("xyz")), Value(std::string("phi-3"))}},
      {"l", {Numbers{1, 0}}}, {"s", {Texts{"a"}}},
      {"d", {Decimals{0.5f}}}};
  std::vector<OtherKey> out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name, kind, outcome;
    words >> name >> kind >> outcome;
    out.push_back({name, values.at(kind), outcome});
  }
  return out;
}

TEST(GgufOtherKeys, AreReadOrWaitOrHaveNoEffect) {
  const Metadata models[] = {sentencepiece_model(), byte_level_model()};
  std::string before[2];
  for (int i = 0; i < 2; ++i) {
    before[i] = observed(models[i]);
    ASSERT_NE(before[i].find("\nhi "), std::string::npos) << before[i];
  }
  const std::vector<OtherKey> all = other_keys();
  ASSERT_GT(all.size(), 100u);
  for (const OtherKey& key : all) {
    bool is_read = false;
    std::string found;
    for (int i = 0; i < 2; ++i)
      for (const Value& value : key.values) {
        Metadata changed = models[i];
        changed[key.name] = value;
        found = observed(changed);
        is_read |= found != before[i];
      }
    EXPECT_EQ(is_read, key.outcome == "read") << key.name << ": " << found;
  }
}

// Together with the keys that they require. split.no and split.tensors.count require split.count:
// io_test covers these.
TEST(GgufOtherKeys, ThatWaitAreReadBesideAnother) {
  const auto with = [](Metadata more) {
    more.merge(sentencepiece_model());
    return observed(more);
  };
  const std::string prefix = "general.sampling.";
  EXPECT_NE(with({{prefix + "xtc_probability", 0.5f}, {prefix + "xtc_threshold", 0.75f}}),
            with({{prefix + "xtc_probability", 0.5f}}));
}

}  // namespace
}  // namespace lamina::testing
