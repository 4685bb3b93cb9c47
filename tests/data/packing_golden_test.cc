// Every packing case of the goldens: the same rows, segments, positions and labels.
#include <gtest/gtest.h>

#include "core/json.h"
#include "data/packing.h"
#include "support/expect_error.h"
#include "support/goldens.h"

namespace lamina::data {
namespace {

std::vector<std::int32_t> ints(const JsonValue& value) {
  std::vector<std::int32_t> out;
  for (JsonValue i : value.elements()) out.push_back(static_cast<std::int32_t>(i.as_int64()));
  return out;
}

// The goldens' names of packings that have another name here.
Packing packing_of(std::string_view kind) {
  if (kind == "trl_bfd") return Packing::best_fit_decreasing;
  if (kind == "trl_bfd_split") return Packing::best_fit_decreasing_split;
  if (kind == "trl_wrapped" || kind == "concat_then_split_bos") return Packing::concat_then_split;
  return parse_packing(kind).value();
}

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
  Row(const Documents& documents, std::span<const Piece> pieces, std::size_t n, std::int32_t pad_id,
      std::optional<std::int32_t> first = std::nullopt)
      : inputs(n), segment_ids(n), positions(n), labels(n) {
    write_row(documents.tokens, pieces, pad_id, {inputs, segment_ids, positions, labels}, first);
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
  const bool with_bos = item.at("kind").as_string() == "concat_then_split_bos";
  const auto first = with_bos
                         ? std::optional(static_cast<std::int32_t>(item.at("bos_id").as_int64()))
                         : std::nullopt;
  const auto pad_id = static_cast<std::int32_t>(item.at("pad_id").as_int64());
  ASSERT_EQ(rows.num_rows(), item.at("rows").size());
  std::size_t i = 0;
  for (JsonValue expected : item.at("rows").elements()) {
    const Row row(documents, rows.row(i++), n, pad_id, first);
    EXPECT_EQ(row.inputs, ints(expected.at("inputs")));
    EXPECT_EQ(row.segment_ids, ints(expected.at("segment_ids")));
    EXPECT_EQ(row.positions, ints(expected.at("positions")));
    EXPECT_EQ(row.labels, labels_of(expected));
  }
}

// TRL gives rows without padding.
void expect_packed(const JsonValue& item, const Documents& documents, const PackedRows& rows,
                   std::size_t n) {
  ASSERT_EQ(rows.num_rows(), item.at("packed").size());
  std::size_t i = 0;
  for (JsonValue expected : item.at("packed").elements()) {
    const auto pieces = rows.row(i++);
    Row row(documents, pieces, n, 0);
    std::vector<std::int32_t> lengths;
    std::size_t used = 0;
    for (const Piece& piece : pieces) {
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
  for (JsonValue item : cases.root().at("cases").elements()) {
    SCOPED_TRACE(item.at("name").as_string());
    const Documents documents(item.at("docs"));
    const std::size_t n = item.at("seq_len").as_uint64();
    PackingOptions options{packing_of(item.at("kind").as_string())};
    if (const JsonValue bins = item.find("bins"))
      options.open_rows = static_cast<int>(bins.as_int64());
    if (const JsonValue most = item.find("max_segments"); most && !most.is_null())
      options.max_segments_per_row = static_cast<int>(most.as_int64());
    if (item.find("error")) {
      EXPECT_ERROR_SAYS(pack(documents.begin, n, options), ExitCode::data,
                        "tokens; a row of 'first_fit' holds at most 16");
      continue;
    }
    const PackedRows rows = pack(documents.begin, n, options);
    if (item.find("rows"))
      expect_rows(item, documents, rows, n);
    else
      expect_packed(item, documents, rows, n);
  }
}

}  // namespace
}  // namespace lamina::data
