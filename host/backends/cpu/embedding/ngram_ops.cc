// The kernels of ngram_hash and ngram_hash_step.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

class NgramRows {
 public:
  explicit NgramRows(const NodeView& n)
      : multipliers_(n.list("multipliers")), sizes_(n.list("sizes")) {
    std::int64_t offset = 0;
    for (std::int64_t size : sizes_) {
      offsets_.push_back(offset);
      offset += size;
    }
  }

  // Number of tokens in an n-gram of the highest order, and number of rows per token.
  std::int64_t length() const { return static_cast<std::int64_t>(multipliers_.size()); }
  std::int64_t heads() const { return static_cast<std::int64_t>(sizes_.size()); }

  // Computes the rows of a token. `id(j)` returns the compressed id j tokens back.
  template <typename Id>
  void operator()(Id id, std::int32_t* rows) const {
    const std::size_t per_order = sizes_.size() / (multipliers_.size() - 1);
    std::int32_t hash = product(id(0), 0);
    for (std::size_t j = 1, head = 0; j < multipliers_.size(); ++j) {
      hash ^= product(id(static_cast<std::int64_t>(j)), j);
      for (std::size_t h = 0; h < per_order; ++h, ++head) {
        // Ids that are not tokens are negative and may make the hash negative, but a row number
        // never is.
        std::int64_t row = hash % sizes_[head];
        rows[head] = static_cast<std::int32_t>(offsets_[head] + row + (row < 0 ? sizes_[head] : 0));
      }
    }
  }

 private:
  // Wraps, as the reference's 32-bit integers do.
  std::int32_t product(std::int32_t id, std::size_t j) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(id) *
                                     static_cast<std::uint32_t>(multipliers_[j]));
  }

  std::vector<std::int64_t> multipliers_, sizes_, offsets_;
};

// Returns the compressed id of a token. Negative ids are returned unchanged; ids beyond the table's
// end count as its last row.
std::int32_t compressed_id(std::span<const std::int32_t> table, std::int32_t token) {
  if (token < 0 || table.empty()) return token;
  return table[std::min(static_cast<std::size_t>(token), table.size() - 1)];
}

// Integer arithmetic over the tokens of a row.
namespace ngram_hash_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const std::int64_t batch = n.type(0).dim(0), tokens = n.type(0).dim(1);
  const auto entries = static_cast<std::size_t>(n.type(1).dim(0));
  const auto pad = static_cast<std::int32_t>(n.i("pad"));
  const bool by_document = n.has(2) && n.i("across") == 0;
  return make_kernel([=, rows_of = NgramRows(n)](const KernelArgs& args) {
    const std::span table(static_cast<const std::int32_t*>(args.inputs[1]), entries);
    auto* rows = static_cast<std::int32_t*>(args.outputs[0]);
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int32_t* row = static_cast<const std::int32_t*>(args.inputs[0]) + b * tokens;
      const std::int32_t* segments =
          by_document ? static_cast<const std::int32_t*>(args.inputs[2]) + b * tokens : nullptr;
      for (std::int64_t t = 0; t < tokens; ++t, rows += rows_of.heads())
        rows_of(
            [&](std::int64_t j) {
              if (t < j || (segments && segments[t - j] != segments[t])) return pad;
              return compressed_id(table, row[t - j]);
            },
            rows);
    }
  });
}

constexpr KernelChoice kChoices[] = {{"loop", always, make}};

}  // namespace ngram_hash_op

// Computes ngram_hash with the previous ids from decode state.
namespace ngram_hash_step_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const std::int64_t batch = n.type(1).dim(0), tokens = n.type(1).dim(1);
  const auto entries = static_cast<std::size_t>(n.type(2).dim(0));
  const auto pad = static_cast<std::int32_t>(n.i("pad"));
  return make_kernel([=, rows_of = NgramRows(n)](const KernelArgs& args) {
    const std::span table(static_cast<const std::int32_t*>(args.inputs[2]), entries);
    const auto* start = static_cast<const std::int32_t*>(args.inputs[3]);
    const auto* count = static_cast<const std::int32_t*>(args.inputs[4]);
    auto* rows = static_cast<std::int32_t*>(args.outputs[1]);
    const std::int64_t before = rows_of.length() - 1;
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int32_t* old = static_cast<const std::int32_t*>(args.inputs[0]) + b * before;
      const std::int32_t* row = static_cast<const std::int32_t*>(args.inputs[1]) + b * tokens;
      // Returns the id at place i of the history followed by this call's tokens.
      auto id_at = [&](std::int64_t i) {
        if (i >= before) return compressed_id(table, row[i - before]);
        return start[b] == 0 ? pad : old[i];
      };
      for (std::int64_t t = 0; rows && t < tokens; ++t, rows += rows_of.heads())
        rows_of([&](std::int64_t j) { return id_at(before + t - j); }, rows);
      // Reads ahead of the writes, so that both may be the same memory.
      auto* history = static_cast<std::int32_t*>(args.outputs[0]);
      for (std::int64_t i = 0; history && i < before; ++i)
        history[b * before + i] = id_at(count[b] + i);
    }
  });
}

constexpr KernelChoice kChoices[] = {{"loop", always, make}};

}  // namespace ngram_hash_step_op

constexpr OpKernels kOps[] = {
    {"ngram_hash", ngram_hash_op::kChoices},
    {"ngram_hash_step", ngram_hash_step_op::kChoices},
};

}  // namespace

KernelTable ngram_kernels() { return kOps; }

}  // namespace lamina::cpu
