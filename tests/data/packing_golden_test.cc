// The cases of the goldens with a supported packing: equal rows, segments, positions and labels.
// The other packings of the larger set are listed here.
#include <gtest/gtest.h>

#include <map>

#include "core/json.h"
#include "data/packing.h"
#include "support/goldens.h"

namespace lamina::data {
namespace {

std::vector<std::int32_t> ints(const JsonValue& value) {
  std::vector<std::int32_t> out;
  for (JsonValue i : value.elements()) out.push_back(static_cast<std::int32_t>(i.as_int64()));
  return out;
}

// By the goldens' name.
std::optional<Packing> packing_of(std::string_view kind) {
  if (kind == "trl_wrapped" || kind == "concat_then_split") return Packing::concat_then_split;
  if (kind == "chunk") return Packing::chunk;
  if (kind == "trl_bfd") return Packing::best_fit;
  if (kind == "pad_or_trim") return Packing::one;
  return {};
}

// Unsupported packings of the larger set, with the reason.
const std::map<std::string_view, const char*> kNotOurs = {
    {"first_fit", "a fixed number of open rows wastes more than best-fit decreasing"},
    {"best_fit", "likewise"},
    {"concat_then_split_bos", "replaces the first token of what a cut leaves over"},
    {"concat_then_split_keep_full", "takes documents of a row's length out of their order"},
    {"trl_bfd_split", "packs what is cut off as documents of their own, without what came before"},
};

struct Documents {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> begin = {0};
  explicit Documents(const JsonValue& documents) {
    for (JsonValue document : documents.elements()) {
      for (std::int32_t token : ints(document)) tokens.push_back(token);
      begin.push_back(tokens.size());
    }
  }
};

struct Row {
  std::vector<std::int32_t> inputs, segment_ids, positions, labels;
  Row(const Documents& documents, std::span<const PackedPiece> pieces, std::size_t n,
      std::int32_t pad_id)
      : inputs(n), segment_ids(n), positions(n), labels(n) {
    write_row(documents.tokens, pieces, pad_id, {inputs, segment_ids, positions, labels});
  }
};

// The golden's targets and mask as labels.
std::vector<std::int32_t> labels_of(const JsonValue& row) {
  std::vector<std::int32_t> labels = ints(row.at("targets"));
  const std::vector<std::int32_t> mask = ints(row.at("loss_mask"));
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (mask[i] == 0) labels[i] = kIgnoredLabel;
  return labels;
}

void expect_rows(const JsonValue& item, const Documents& documents, const PackedRows& rows,
                 std::size_t n) {
  const auto pad_id = static_cast<std::int32_t>(item.at("pad_id").as_int64());
  ASSERT_EQ(rows.num_rows(), item.at("rows").size());
  std::size_t i = 0;
  for (JsonValue expected : item.at("rows").elements()) {
    const Row row(documents, rows.row(i++), n, pad_id);
    EXPECT_EQ(row.inputs, ints(expected.at("inputs")));
    EXPECT_EQ(row.segment_ids, ints(expected.at("segment_ids")));
    EXPECT_EQ(row.positions, ints(expected.at("positions")));
    EXPECT_EQ(row.labels, labels_of(expected));
  }
}

// TRL's rows have no padding.
void expect_packed(const JsonValue& item, const Documents& documents, const PackedRows& rows,
                   std::size_t n) {
  ASSERT_EQ(rows.num_rows(), item.at("packed").size());
  std::size_t i = 0;
  for (JsonValue expected : item.at("packed").elements()) {
    const auto pieces = rows.row(i++);
    Row row(documents, pieces, n, 0);
    std::vector<std::int32_t> lengths;
    std::size_t used = 0;
    for (const PackedPiece& piece : pieces) {
      lengths.push_back(static_cast<std::int32_t>(piece.num_tokens));
      used += piece.num_tokens;
    }
    row.inputs.resize(used);
    EXPECT_EQ(row.inputs, ints(expected.at("input_ids")));
    if (const JsonValue wanted = expected.find("seq_lengths")) {
      EXPECT_EQ(lengths, ints(wanted));
    }
  }
}

TEST(PackingGolden, EveryCaseGivesTheRowsOfTheReference) {
  const auto file = testing::golden_dir() / "text" / "packing" / "packing.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const JsonDocument cases = JsonDocument::read(file);
  int num_cases = 0;
  for (JsonValue item : cases.root().at("cases").elements()) {
    SCOPED_TRACE(item.at("name").as_string());
    const std::string_view kind = item.at("kind").as_string();
    const std::optional<Packing> packing = packing_of(kind);
    if (!packing) {
      EXPECT_TRUE(kNotOurs.contains(kind)) << kind;
      continue;
    }
    ++num_cases;
    const Documents documents(item.at("docs"));
    const std::size_t n = item.at("seq_len").as_uint64();
    const PackedRows rows = pack(documents.begin, n, *packing);
    if (item.find("rows"))
      expect_rows(item, documents, rows, n);
    else
      expect_packed(item, documents, rows, n);
  }
  EXPECT_GE(num_cases, 25);
}

}  // namespace
}  // namespace lamina::data
