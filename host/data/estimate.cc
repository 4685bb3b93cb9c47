#include "data/estimate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <variant>
#include <vector>

#include "data/sources.h"
#include "data/token_bins.h"
#include "data/token_files.h"
#include "data/tokenize.h"

namespace lamina::data {
namespace {

constexpr std::size_t kMaxSampledFiles = 8;  // per source

// Counts of a part of the files, or of all of them.
struct Amount {
  double bytes = 0, tokens = 0, documents = 0;

  Amount& operator+=(const Amount& other) {
    bytes += other.bytes, tokens += other.tokens, documents += other.documents;
    return *this;
  }
};

// Reads about `num_bytes` from the start of a file. Text is cut at a line, regardless of document
// ends.
Amount first_part(const std::string& file, std::size_t num_bytes, const Reading& reading) {
  Amount out;
  const auto add = [&](const TokenPart& part, std::uint64_t bytes_done) {
    out += {static_cast<double>(bytes_done), static_cast<double>(part.tokens.size()),
            static_cast<double>(part.document_end.size())};
  };
  if (reading.form == DataForm::tokens) {
    TokenBins bins(file, reading.tokenizer.eos_id(), num_bytes);
    if (const auto part = bins.next()) add(read_bin_part(file, *part, reading), bins.bytes_done());
  } else {
    TextParts parts(file, Separator::line, num_bytes, reading.max_line_bytes());
    if (const auto part = parts.next())
      add(tokenize_part(file, *part, reading), parts.bytes_done());
  }
  return out;
}

// Estimates a source from parts of its files. Sets `is_whole` to false if any part was not read.
Amount estimate_source(const std::vector<std::string>& files, std::size_t sample_bytes,
                       const Reading& reading, bool& is_whole) {
  Amount all, read;
  for (const std::string& file : files)
    all.bytes += static_cast<double>(std::filesystem::file_size(file));
  const std::size_t sampled = std::min(files.size(), kMaxSampledFiles);
  for (std::size_t i = 0; i < sampled; ++i)
    read += first_part(files[i * files.size() / sampled], sample_bytes / sampled, reading);
  is_whole &= read.bytes >= all.bytes;
  if (read.bytes == 0) return all;
  const double scale = std::max(1.0, all.bytes / read.bytes);
  all.tokens = read.tokens * scale;
  all.documents = reading.form == DataForm::text && reading.separator == Separator::file
                      ? static_cast<double>(files.size())
                      : read.documents * scale;
  return all;
}

std::uint64_t rounded(double n) { return static_cast<std::uint64_t>(std::llround(n)); }

}  // namespace

DataEstimate estimate_data(const config::DataSection& section, const text::Tokenizer& tokenizer,
                           std::int64_t vocab_size, std::size_t sample_bytes) {
  const Sources sources(section, tokenizer, vocab_size, {});
  const Reading& reading = sources.reading();
  DataEstimate out;
  const std::vector<std::vector<std::string>> stores = kept_together(section);
  for (std::size_t i = 0; i < stores.size(); ++i) {
    const bool is_validation = !section.validation.empty() && i + 1 == stores.size();
    Amount amount;
    for (const std::vector<std::string>& files : find_sources(stores[i], reading.form)) {
      amount += estimate_source(files, sample_bytes, reading, out.is_whole);
      out.num_files += files.size();
    }
    const std::uint64_t bytes = rounded(amount.bytes);
    const bool in_store = sources.stores(bytes);
    const double id_bytes = in_store && reading.has_narrow_ids() ? 2 : 4;
    const double mask_bytes = has_masks(reading.form) ? 1 : 0;
    const double token_bytes = (id_bytes + mask_bytes) * amount.tokens;
    (in_store ? out.stored_bytes : out.held_bytes) +=
        rounded(token_bytes + sizeof(std::uint64_t) * (amount.documents + 1));
    out.num_bytes += bytes;
    if (!is_validation) out.num_tokens += rounded(amount.tokens);
  }
  return out;
}

}  // namespace lamina::data
