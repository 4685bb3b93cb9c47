#include "text/merge_list.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "core/printable.h"
#include "text/hf/byte_level.h"

namespace lamina::text {
namespace {

// Processes merges in blocks: the lookups of a merge are spread over megabytes, so all lookups of a
// block are prefetched before the first is used.
class MergeReader {
 public:
  struct Options {
    Vocabulary::Form form;
    std::string_view prefix;
    EqualMerges equal;
    std::size_t max_merges;
  };
  MergeReader(const Vocabulary& vocabulary, const Options& options, RefuseMerge refuse)
      : vocabulary_(vocabulary),
        form_(options.form),
        prefix_(options.prefix),
        equal_(options.equal),
        refuse_(std::move(refuse)),
        table_(options.max_merges) {}

  void add(std::size_t place, std::string_view left, std::string_view right) {
    block_[num_].place = place;
    block_[num_].left = left;
    block_[num_].right = right;
    if (++num_ == kBlock) flush();
  }
  void flush() {
    spell();
    look_up();
    for (std::size_t i = 0; i < num_; ++i) {
      const Merge& m = block_[i];
      if (equal_ == EqualMerges::last ||
          table_.find(m.left_id, m.right_id).rank == FoundMerge::kNone)
        table_.set(m.left_id, m.right_id, m.merge);
    }
    num_ = 0;
  }
  MergeTable take() {
    flush();
    return std::move(table_);
  }

 private:
  struct Merge {
    std::size_t place;             // in the list
    std::string_view left, right;  // in the file
    std::string_view left_bytes, right_bytes;
    std::uint64_t left_hash, right_hash;
    TokenId left_id, right_id;
    FoundMerge merge;
  };

  [[noreturn]] void refuse(const Merge& merge, std::string_view token) const {
    refuse_(merge.place,
            fmt::format("merges '{}', which is not in the vocabulary", printable(token, 60)),
            "vocabulary and merges must belong together: take both from one file");
    std::terminate();  // RefuseMerge throws
  }

  // The bytes of a token of the file, written to `at`; none if the vocabulary cannot have such a
  // token.
  std::string_view bytes_of(std::string_view token, char* at) const {
    if (form_ == Vocabulary::Form::text) {
      std::ranges::copy(token, at);
      return {at, token.size()};
    }
    const std::ptrdiff_t length = byte_level_bytes(token, at);
    return length < 0 ? std::string_view() : std::string_view(at, static_cast<std::size_t>(length));
  }

  void spell() {
    std::size_t num_bytes = 0;
    for (std::size_t i = 0; i < num_; ++i)
      num_bytes += block_[i].left.size() + block_[i].right.size();
    if (bytes_.size() < num_bytes) bytes_.resize(num_bytes);
    char* at = bytes_.data();
    for (std::size_t i = 0; i < num_; ++i) {
      Merge& m = block_[i];
      m.left_bytes = bytes_of(m.left, at);
      at += m.left_bytes.size();
      m.right_bytes = bytes_of(m.right, at);
      at += m.right_bytes.size();
      m.left_hash = Vocabulary::hash(m.left_bytes);
      m.right_hash = Vocabulary::hash(m.right_bytes);
      vocabulary_.prefetch(m.left_hash);
      vocabulary_.prefetch(m.right_hash);
    }
  }

  void look_up() {
    for (std::size_t i = 0; i < num_; ++i) {
      vocabulary_.prefetch_text(block_[i].left_hash);
      vocabulary_.prefetch_text(block_[i].right_hash);
    }
    for (std::size_t i = 0; i < num_; ++i) {
      Merge& m = block_[i];
      if (m.left_bytes.empty() && !m.left.empty()) refuse(m, m.left);
      if (m.right_bytes.empty() && !m.right.empty()) refuse(m, m.right);
      const auto left = vocabulary_.find(m.left_bytes, m.left_hash);
      if (!left) refuse(m, m.left);
      const auto right = vocabulary_.find(m.right_bytes, m.right_hash);
      if (!right) refuse(m, m.right);
      m.left_id = *left;
      m.right_id = *right;
      table_.prefetch(m.left_id, m.right_id);
      m.merge = {rank_++, result_of(m)};
    }
  }

  // A part inside a word is spelled with the prefix; the merged token is not.
  TokenId result_of(const Merge& m) {
    const std::string_view added =
        m.right_bytes.substr(std::min(prefix_.size(), m.right_bytes.size()));
    // Most vocabularies number tokens in the order of their merges.
    const auto is_merged = [&](std::string_view token) {
      return token.size() == m.left_bytes.size() + added.size() &&
             token.starts_with(m.left_bytes) && token.ends_with(added);
    };
    TokenId result = guess_;
    if (vocabulary_.has_equal_tokens() ||
        static_cast<std::size_t>(guess_) >= vocabulary_.num_ids() ||
        !is_merged(vocabulary_.token(guess_))) {
      const auto found = vocabulary_.find(std::string(m.left_bytes).append(added));
      if (!found)
        refuse(m, std::string(m.left) +
                      std::string(m.right.substr(std::min(prefix_.size(), m.right.size()))));
      result = *found;
    }
    guess_ = result + 1;
    return result;
  }

  static constexpr std::size_t kBlock = 64;
  const Vocabulary& vocabulary_;
  Vocabulary::Form form_;
  std::string_view prefix_;
  EqualMerges equal_;
  RefuseMerge refuse_;
  MergeTable table_;
  Merge block_[kBlock] = {};
  std::size_t num_ = 0;
  std::string bytes_;  // of the tokens of a block
  std::uint32_t rank_ = 0;
  TokenId guess_ = 256;
};

}  // namespace

MergeTable read_merges(const JsonValue& merges, const Vocabulary& vocabulary, Vocabulary::Form form,
                       std::string_view prefix) {
  MergeReader out(vocabulary, {form, prefix, EqualMerges::last, merges.size()},
                  [&](std::size_t place, std::string what, std::string note) {
                    merges.element(place).fail(std::move(what), {std::move(note)});
                  });
  // Errors before this position are reported first.
  const auto refuse = [&](const JsonValue& merge, std::string_view expected) {
    out.flush();
    merge.fail(fmt::format("must be {}, got {}", expected, merge.describe()));
  };
  const auto text_of = [&](const JsonValue& value) {
    if (!value.is_string()) out.flush();
    return value.as_string();
  };
  bool first = true;
  std::size_t place = 0;
  for (JsonValue merge : merges.elements()) {
    const std::size_t here = place++;
    if (merge.is_array()) {
      if (merge.size() != 2) refuse(merge, "a pair of tokens");
      auto part = merge.elements().begin();
      const std::string_view left = text_of(*part);
      out.add(here, left, text_of(*++part));
      first = false;
      continue;
    }
    const std::string_view both = text_of(merge);
    if (first && both.starts_with("#version")) continue;
    first = false;
    const auto space = both.find(' ');
    if (space == both.npos || both.find(' ', space + 1) != both.npos)
      refuse(merge, "two tokens separated by a space");
    out.add(here, both.substr(0, space), both.substr(space + 1));
  }
  return out.take();
}

MergeTable read_merge_lines(std::span<const std::string_view> merges, const Vocabulary& vocabulary,
                            EqualMerges equal, const RefuseMerge& refuse) {
  MergeReader out(vocabulary, {Vocabulary::Form::byte_level, "", equal, merges.size()}, refuse);
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto space = merges[i].find(' ');
    if (space == 0 || space == merges[i].npos || space + 1 == merges[i].size() ||
        merges[i].find(' ', space + 1) != merges[i].npos) {
      out.flush();  // reports earlier errors first
      refuse(i,
             fmt::format("is '{}'; expected two tokens separated by a space",
                         printable(merges[i], 60)),
             "");
    }
    out.add(i, merges[i].substr(0, space), merges[i].substr(space + 1));
  }
  return out.take();
}

}  // namespace lamina::text
