#include "text/tiktoken/ranked_bpe.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "text/bpe_merges.h"

namespace lamina::text {

RankedBpe::RankedBpe(std::span<const std::string_view> tokens, const std::string& path)
    : vocabulary_(tokens, Vocabulary::Form::text, path) {
  for (std::string_view token : tokens) longest_ = std::max(longest_, token.size());
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const auto id = find({&c, 1});
    if (!id)
      throw UserError(
          ExitCode::checkpoint,
          {path,
           fmt::format("has no token for the byte 0x{:02x}; it must have all 256", byte),
           {"copy the published file again"}});
    bytes_[byte] = *id;
  }
}

void RankedBpe::encode(std::string_view word, TokenSink& out) const {
  if (const auto id = find(word))
    return out.add(*id, 0, word.size());  // takes precedence over merges
  check_length(word);
  std::vector<MergePart> parts;
  for (std::size_t i = 0; i < word.size(); ++i)
    parts.push_back(
        {bytes_[static_cast<unsigned char>(word[i])], static_cast<std::uint32_t>(i + 1)});
  merge_parts(parts, [&](const MergePart&, const MergePart& right, std::uint32_t begin) {
    // A piece longer than every token is not looked up: hashing it would cost its length.
    if (right.end - begin > longest_) return FoundMerge{};
    const auto id = find(word.substr(begin, right.end - begin));
    return id ? FoundMerge{static_cast<std::uint32_t>(*id), *id} : FoundMerge{};
  });
  std::size_t begin = 0;
  for (const MergePart& part : parts) {
    out.add(part.id, begin, part.end);
    begin = part.end;
  }
}

}  // namespace lamina::text
