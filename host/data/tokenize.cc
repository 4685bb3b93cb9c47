#include "data/tokenize.h"

#include <exception>

#include "core/error.h"
#include "data/find_files.h"

namespace lamina::data {
namespace {

// Parts that are tokenized before their results are put in order: enough that threads that finish
// early find more work.
constexpr std::size_t kPartsAtOnce = 16;

TokenPart read_part(const PartStream::Part& part, const Reading& reading) {
  if (const auto* bin = std::get_if<BinPart>(&part.content))
    return read_bin_part(*part.file, *bin, reading);
  return tokenize_part(*part.file, std::get<TextPart>(part.content), reading);
}

}  // namespace

void TokenSource::add(const TokenPart& part) {
  counts += part.counts;
  num_tokens += part.tokens.size();
  num_bad_records += part.num_bad_records;
  for (const BadRecord& record : part.bad_records)
    if (bad_records.size() < kMaxBadRecords) bad_records.push_back(record);
  add_roles(part.skipped_roles, skipped_roles);
}

std::vector<std::vector<std::string>> find_sources(const std::vector<std::string>& patterns,
                                                   DataForm form) {
  if (patterns.empty())
    throw UserError(ExitCode::data,
                    {"data", "no files are given", {"list at least one text file"}});
  std::vector<std::vector<std::string>> files;
  for (const std::string& pattern : patterns) files.push_back(find_files(pattern));
  if (form != DataForm::tokens) return files;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::erase_if(files[i], is_token_index);
    if (files[i].empty())
      throw NoFiles(patterns[i],
                    {patterns[i],
                     "has only Megatron indices (.idx); expected the token files that they index",
                     {"give the .bin beside the .idx"}});
  }
  return files;
}

PartStream::PartStream(const std::vector<std::vector<std::string>>& files, const Reading& reading,
                       std::size_t part_bytes)
    : files_(files), reading_(reading), part_bytes_(part_bytes) {}

std::optional<std::variant<TextPart, BinPart>> PartStream::next_of(const std::string& file) {
  if (reading_.form == DataForm::tokens) {
    if (!bins_) bins_.emplace(file, reading_.tokenizer.eos_id(), part_bytes_);
    return bins_->next();
  }
  if (!text_) text_.emplace(file, reading_.ends(), part_bytes_, reading_.max_line_bytes());
  return text_->next();
}

std::optional<PartStream::Part> PartStream::next() {
  while (source_ < files_.size()) {
    if (file_ == files_[source_].size()) {
      ++source_;
      file_ = 0;
      continue;
    }
    const std::string& file = files_[source_][file_];
    if (auto part = next_of(file)) return Part{source_, &file, std::move(*part)};
    bytes_of_closed_ = bytes_done();
    text_.reset();
    bins_.reset();
    ++file_;
  }
  return {};
}

std::uint64_t PartStream::bytes_done() const {
  return bytes_of_closed_ + (text_ ? text_->bytes_done() : 0) + (bins_ ? bins_->bytes_done() : 0);
}

void tokenize_parts(PartStream& stream, const Reading& reading, const Workers& workers,
                    const std::function<void(std::size_t, TokenPart)>& add) {
  if (!workers) {
    while (const auto part = stream.next()) add(part->source, read_part(*part, reading));
    return;
  }
  struct Done {
    PartStream::Part part;
    TokenPart tokens;
    std::exception_ptr error;
  };
  std::vector<Done> batch;
  do {
    batch.clear();
    std::exception_ptr end;  // error that ended the stream, after earlier parts
    try {
      while (batch.size() < kPartsAtOnce) {
        auto part = stream.next();
        if (!part) break;
        batch.push_back({std::move(*part), {}, {}});
      }
    } catch (...) {
      end = std::current_exception();
    }
    workers(static_cast<std::int64_t>(batch.size()), [&](std::int64_t i) {
      Done& done = batch[static_cast<std::size_t>(i)];
      try {
        done.tokens = read_part(done.part, reading);
      } catch (...) {
        done.error = std::current_exception();
      }
    });
    for (Done& done : batch) {
      if (done.error) std::rethrow_exception(done.error);
      add(done.part.source, std::move(done.tokens));
    }
    if (end) std::rethrow_exception(end);
  } while (!batch.empty());
}

}  // namespace lamina::data
