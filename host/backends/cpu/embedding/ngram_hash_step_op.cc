// ngram_hash_step: ngram_hash with the ids before the call from decode state.
#include "backends/cpu/embedding/ngram_rows.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
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
      // The id at place i of the history followed by this call's tokens.
      auto id_at = [&](std::int64_t i) {
        if (i >= before) return compressed_id(table, row[i - before]);
        return start[b] == 0 ? pad : old[i];
      };
      for (std::int64_t t = 0; rows && t < tokens; ++t, rows += rows_of.heads())
        rows_of([&](std::int64_t j) { return id_at(before + t - j); }, rows);
      // Reads ahead of where it writes, so that both may be the same memory.
      auto* history = static_cast<std::int32_t*>(args.outputs[0]);
      for (std::int64_t i = 0; history && i < before; ++i)
        history[b * before + i] = id_at(count[b] + i);
    }
  });
}

constexpr KernelChoice kChoices[] = {{"loop", always, make}};

}  // namespace

std::span<const KernelChoice> ngram_hash_step_kernels() { return kChoices; }

}  // namespace lamina::cpu
