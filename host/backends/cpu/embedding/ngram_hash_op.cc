// ngram_hash: integer arithmetic over the tokens of a row.
#include "backends/cpu/embedding/ngram_rows.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
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

}  // namespace

std::span<const KernelChoice> ngram_hash_kernels() { return kChoices; }

}  // namespace lamina::cpu
