#include "data/token_view.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "io/durable_file.h"

namespace lamina::data {
namespace {

// Returns the checksum of the ids as 32-bit numbers, computed in pieces.
std::string digest_of(const TokenIds& tokens) {
  constexpr std::size_t kPiece = 1 << 14;
  std::vector<std::int32_t> piece(std::min(kPiece, tokens.size()));
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (std::size_t at = 0; at < tokens.size(); at += piece.size()) {
    const auto part = std::span(piece).first(std::min(piece.size(), tokens.size() - at));
    tokens.copy(at, part);
    XXH3_128bits_update(state.get(), part.data(), part.size_bytes());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

void TokenIds::copy(std::size_t first, std::span<std::int32_t> out) const {
  if (is_narrow_)
    std::ranges::copy(narrow_.subspan(first, out.size()), out.begin());
  else
    std::ranges::copy(wide_.subspan(first, out.size()), out.begin());
}

std::string digest(const TokenIds& tokens, std::span<const std::uint64_t> document_begin,
                   std::span<const std::uint8_t> in_loss) {
  std::string out = digest_of(tokens) + " " + io::xxh3_128_hex(std::as_bytes(document_begin));
  if (!in_loss.empty()) out += " " + io::xxh3_128_hex(std::as_bytes(in_loss));
  return out;
}

}  // namespace lamina::data
