#include "cli/data/data_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "cli/shell/units.h"
#include "core/printable.h"

namespace lamina::cli {
namespace {

constexpr std::size_t kMaxSources = 6;  // sources with their own line, per key

std::string number_of(std::uint64_t count, std::string_view what) {
  return cli::number_of(static_cast<std::int64_t>(count), what);
}

// "2 pairs" for four documents with preferences.
std::string documents_text(std::uint64_t count, data::DataForm form) {
  return form == data::DataForm::preference ? number_of(count / 2, "pair")
                                            : number_of(count, "document");
}

std::string roles_text(std::vector<std::string> roles) {
  if (roles.empty()) return "";
  for (std::string& role : roles) role = printable(role, 40);
  return fmt::format(" (roles: {})", fmt::join(roles, ", "));
}

std::string source_line(const std::string& name, const data::TokenSource& s, data::DataForm form) {
  const std::string empty =
      s.counts.num_empty_documents == 0
          ? ""
          : fmt::format(" ({} empty skipped)",
                        thousands_text(static_cast<std::int64_t>(s.counts.num_empty_documents)));
  const std::string unlearned = s.counts.num_unlearned_records == 0
                                    ? ""
                                    : ", " + number_of(s.counts.num_unlearned_records, "record") +
                                          " with no trainable token skipped";
  const std::string messages = s.counts.num_skipped_messages == 0
                                   ? ""
                                   : ", " + number_of(s.counts.num_skipped_messages, "message") +
                                         " after the last answer skipped";
  const std::string bad =
      s.num_bad_records == 0 ? "" : ", " + number_of(s.num_bad_records, "bad record") + " skipped";
  return fmt::format("{}: {}, {}, {}{}, {}{}{}{}{}", name, number_of(s.num_files, "file"),
                     bytes_text(static_cast<double>(s.counts.num_bytes)),
                     documents_text(s.counts.num_documents, form), empty,
                     number_of(s.num_tokens, "token"), unlearned, messages,
                     roles_text(s.skipped_roles), bad);
}

void add_sources(std::span<const data::TokenSource> sources, std::string_view before,
                 data::DataForm form, std::vector<std::string>& lines) {
  // One more source takes no more lines than a line for the rest.
  const std::size_t shown = sources.size() <= kMaxSources + 1 ? sources.size() : kMaxSources;
  for (const data::TokenSource& source : sources.first(shown)) {
    lines.push_back(source_line(std::string(before) + printable(source.name), source, form));
    for (const data::BadRecord& record : source.bad_records)
      lines.push_back(fmt::format("skipped {}: {}", record.where, record.what));
  }
  if (shown == sources.size()) return;
  data::TokenSource rest;
  for (const data::TokenSource& source : sources.subspan(shown)) {
    rest.num_files += source.num_files;
    rest.num_tokens += source.num_tokens;
    rest.num_bad_records += source.num_bad_records;
    rest.counts += source.counts;
    data::add_roles(source.skipped_roles, rest.skipped_roles);
  }
  lines.push_back(
      source_line(fmt::format("{}{} more", before, sources.size() - shown), rest, form));
}

}  // namespace

std::vector<std::string> data_lines(const data::RunData& data) {
  std::vector<std::string> lines{fmt::format(
      "{} in {} of {}; {} to validate on", number_of(data.counts.num_tokens, "token"),
      number_of(data.train.num_rows(), "row"), data.train.tokens_per_row(),
      data.validation.empty() ? "no rows" : number_of(data.validation.front().num_rows(), "row"))};
  const data::DatasetCounts& counts = data.counts;
  const bool is_pairs = data.form == data::DataForm::preference;
  if (counts.num_cut_documents > 0)
    lines.push_back(fmt::format(
        "{} longer than {}: {} skipped",
        number_of(counts.num_cut_documents, is_pairs ? "answer" : "document"),
        is_pairs ? "their share of a row" : "a row", number_of(counts.num_cut_tokens, "token")));
  if (counts.num_unlearned_rows > 0)
    lines.push_back(fmt::format("{} skipped: no token follows another in its document",
                                number_of(counts.num_unlearned_rows, "row")));
  if (counts.num_unlearned_documents > 0)
    lines.push_back(
        fmt::format("{} skipped: {}", documents_text(counts.num_unlearned_documents, data.form),
                    is_pairs ? "too long for a row" : "no trainable token fits in a row"));
  add_sources(data.train_sources, "", data.form, lines);
  for (std::size_t i = 0; i < data.mixture.size(); ++i)
    lines.push_back(fmt::format("{}: {:.1f}% of the rows, an epoch is {}",
                                printable(data.train_sources[i].name), 100 * data.mixture[i].first,
                                number_of(data.mixture[i].second, "row")));
  add_sources(data.validation_sources, "validation, ", data.form, lines);
  for (const std::string& store : data.stores) lines.push_back(fmt::format("tokens in {}", store));
  return lines;
}

}  // namespace lamina::cli
