#include "data/tokenize.h"

#include <exception>

#include "core/error.h"
#include "data/find_files.h"

namespace lamina::data {
namespace {

// Parts that are tokenized between two times that they are put in order: enough that threads which
// are done early find another.
constexpr std::size_t kPartsAtOnce = 16;

}  // namespace

void TokenSource::add(TokenPart part) {
  counts += part.counts;
  num_tokens += part.tokens.size();
  num_bad_records += part.num_bad_records;
  for (BadRecord& record : part.bad_records)
    if (bad_records.size() < kMaxBadRecords) bad_records.push_back(std::move(record));
}

std::vector<std::vector<std::string>> find_sources(const std::vector<std::string>& patterns) {
  if (patterns.empty())
    throw UserError(ExitCode::data,
                    {"data", "no files are given", {"list at least one text file"}});
  std::vector<std::vector<std::string>> files;
  for (const std::string& pattern : patterns) files.push_back(find_files(pattern));
  return files;
}

PartStream::PartStream(const std::vector<std::vector<std::string>>& files, Separator ends,
                       std::size_t part_bytes)
    : files_(files), ends_(ends), part_bytes_(part_bytes) {}

std::optional<PartStream::Part> PartStream::next() {
  while (source_ < files_.size()) {
    if (file_ == files_[source_].size()) {
      ++source_;
      file_ = 0;
      continue;
    }
    const std::string& file = files_[source_][file_];
    if (!open_) open_.emplace(file, ends_, part_bytes_);
    if (auto part = open_->next()) return Part{source_, &file, std::move(*part)};
    bytes_of_closed_ += open_->bytes_done();
    open_.reset();
    ++file_;
  }
  return {};
}

std::uint64_t PartStream::bytes_done() const {
  return bytes_of_closed_ + (open_ ? open_->bytes_done() : 0);
}

void tokenize_parts(PartStream& stream, const Reading& reading, const Workers& workers,
                    const std::function<void(std::size_t, TokenPart)>& add) {
  if (!workers) {
    while (const auto part = stream.next())
      add(part->source, tokenize_part(*part->file, part->text, reading));
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
    std::exception_ptr end;  // what ended the stream, after the parts before it
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
        done.tokens = tokenize_part(*done.part.file, done.part.text, reading);
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
