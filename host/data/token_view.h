// Tokens of documents in memory or in a mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lamina::data {

// Ids of two or four bytes each; borrowed.
class TokenIds {
 public:
  TokenIds() = default;
  TokenIds(std::span<const std::int32_t> ids) : wide_(ids) {}                       // NOLINT
  TokenIds(const std::vector<std::int32_t>& ids) : wide_(ids) {}                    // NOLINT
  TokenIds(std::span<const std::uint16_t> ids) : narrow_(ids), is_narrow_(true) {}  // NOLINT

  std::size_t size() const { return is_narrow_ ? narrow_.size() : wide_.size(); }
  // Copies out.size() ids, starting at `first`. REQUIRES: there are that many.
  void copy(std::size_t first, std::span<std::int32_t> out) const;

 private:
  std::span<const std::int32_t> wide_;
  std::span<const std::uint16_t> narrow_;
  bool is_narrow_ = false;
};

struct TokenView {
  TokenIds tokens;
  std::span<const std::uint64_t> document_begin;  // num_documents() + 1 values
  // Per token: 1 if it is a label in the loss. Empty: all are.
  std::span<const std::uint8_t> in_loss;
  std::string digest;  // checksum of the values above
  std::string name;    // for errors
  std::shared_ptr<const void> owner;

  std::size_t num_documents() const { return document_begin.size() - 1; }
};

// Computes TokenView::digest, which does not depend on the width of ids.
std::string digest(const TokenIds& tokens, std::span<const std::uint64_t> document_begin,
                   std::span<const std::uint8_t> in_loss);

}  // namespace lamina::data
