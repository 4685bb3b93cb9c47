// Bytes of a text by its tokens: without the space that a tokenizer adds.
#include "evaluation/label_bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/gguf_builder.h"
#include "support/temp_dir.h"
#include "text/tokenizer.h"

namespace lamina::evaluation {
namespace {

using Ids = std::vector<text::TokenId>;

// 0 <unk>, 1 <s>, 2 </s>, 3 "_", 4 "a", 5 "_a", 6 a line feed.
std::unique_ptr<text::Tokenizer> pieces(bool adds_space) {
  const testing::TempDir folder;
  testing::GgufBuilder gguf;
  gguf.set("tokenizer.ggml.model", "llama");
  gguf.set("tokenizer.ggml.tokens",
           std::vector<std::string>{"<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a", "\n"});
  gguf.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -8, -1, -9});
  gguf.set("tokenizer.ggml.token_type", std::vector<std::uint32_t>{2, 3, 3, 1, 1, 1, 1});
  gguf.set("tokenizer.ggml.add_space_prefix", adds_space);
  return text::load_tokenizer(folder.write("m.gguf", gguf.bytes()));
}

// Returns the bytes of all tokens but the first, which is BOS.
std::int64_t bytes_of(const text::Tokenizer& tokenizer, const Ids& ids) {
  LabelBytes bytes(tokenizer);
  std::int64_t out = 0;
  for (std::size_t i = 1; i < ids.size(); ++i) out += bytes.of(ids[i], ids[i - 1]);
  return out;
}

TEST(LabelBytes, AddUpToTheBytesOfTheText) {
  for (const bool adds_space : {true, false}) {
    const auto tokenizer = pieces(adds_space);
    for (const std::string text : {"a", "a a", " a", "  a", "\na", " ", "a ", "\n\na a"}) {
      Ids ids = tokenizer->encode(text);
      ASSERT_EQ(ids.front(), 1);
      ids.push_back(2);
      EXPECT_EQ(bytes_of(*tokenizer, ids), static_cast<std::int64_t>(text.size()))
          << adds_space << " '" << text << "'";
    }
  }
}

TEST(LabelBytes, APartAfterASpecialTokenHasNoAddedSpaceEither) {
  for (const bool adds_space : {true, false}) {
    const auto tokenizer = pieces(adds_space);
    const Ids ids = tokenizer->encode("a a</s>a a", {.parse_special = true});
    EXPECT_EQ(bytes_of(*tokenizer, ids), 6) << adds_space;
  }
}

TEST(LabelBytes, ASpaceOfTheTextIsCounted) {
  const auto bytes = text::make_byte_tokenizer();
  EXPECT_EQ(bytes_of(*bytes, bytes->encode(" a")), 2);
  const auto tokenizer = pieces(true);
  EXPECT_EQ(LabelBytes(*tokenizer).of(5, 4), 2);  // " a" in the middle
  EXPECT_EQ(LabelBytes(*tokenizer).of(5, 2), 1);
}

}  // namespace
}  // namespace lamina::evaluation
